//! The parts of [`ifonly_scan::parts`] whose rows and records a shard holds, read through its
//! [client](crate::shards::client).
//!
//! The reader of a part is a blocking thread. A task of the runtime receives from the shard and is
//! at most a few pieces ahead of the reader.

use crate::shards::client::{ShardClient, ShardResponse};
use crate::shards::wire;
use bytes::{Buf, Bytes};
use http::Method;
use ifonly_algebra::lifted::{LiftedDraws, LiftedTables};
use ifonly_algebra::shuffle::BucketIndices;
use ifonly_scan::parts::{PartError, RecordPart, RowFunctions, RowPart, Selection, ValueStream};
use std::ops::Range;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use zeroize::Zeroize;

/// Paths of a shard.
pub(crate) const VALUES: &str = "/values";
pub(crate) const WORDS: &str = "/words";
pub(crate) const SUMS: &str = "/sums";
pub(crate) const RECORDS: &str = "/records";
pub(crate) const IDENTITY: &str = "/shard";

/// Maximum number of pieces of a response that wait for the reader.
const QUEUED_PIECES: usize = 2;

/// A shard and its rows.
#[derive(Clone, Debug)]
pub(crate) struct RemoteShard {
    pub(crate) shard: Arc<ShardClient>,
    pub(crate) rows: Range<usize>,
    pub(crate) runtime: Handle,
}

impl RemoteShard {
    fn unavailable(&self, reason: String) -> PartError {
        PartError::Unavailable { rows: self.rows.clone(), reason }
    }

    /// Sends a request and returns the complete response of `length` bytes.
    fn request(&self, path: &'static str, body: wire::ZeroizedBytes, length: usize) -> Result<Vec<u8>, PartError> {
        let exchange = async {
            let response = self.shard.request(Method::POST, path, Bytes::from_owner(body)).await?;
            response.complete(length).await
        };
        self.runtime.block_on(exchange).map_err(|reason| self.unavailable(reason))
    }
}

/// The rows of a shard.
#[derive(Debug)]
pub(crate) struct RemoteRows {
    pub(crate) remote: RemoteShard,
    pub(crate) max_levels: Arc<[u32]>,
}

impl RowPart for RemoteRows {
    fn rows(&self) -> Range<usize> {
        self.remote.rows.clone()
    }

    fn max_levels(&self) -> &[u32] {
        &self.max_levels
    }

    fn evaluate<'a>(
        &'a self,
        functions: &'a RowFunctions,
        bucket_indices: Option<&BucketIndices>,
    ) -> Result<Box<dyn ValueStream + 'a>, PartError> {
        Ok(Box::new(self.stream(VALUES, wire::values(functions, bucket_indices), functions.bytes_per_row())))
    }

    fn lifted_words<'a>(
        &'a self,
        tables: &'a LiftedTables,
        draws: &'a LiftedDraws,
        bucket_indices: Option<&BucketIndices>,
    ) -> Result<Box<dyn ValueStream + 'a>, PartError> {
        Ok(Box::new(self.stream(WORDS, wire::words(tables, draws, bucket_indices), size_of::<u32>())))
    }

    fn table_sums(&self, tables: &[&[u64]], sums: &mut [u64]) -> Result<(), PartError> {
        let mut bytes = self.remote.request(SUMS, wire::sums(tables), 8 * sums.len())?;
        sums.iter_mut().zip(bytes.as_chunks().0).for_each(|(sum, word)| *sum = u64::from_le_bytes(*word));
        bytes.zeroize();
        Ok(())
    }
}

impl RemoteRows {
    /// Sends a request and returns its response, which has this many bytes per row.
    fn stream(&self, path: &'static str, body: wire::ZeroizedBytes, bytes_per_row: usize) -> RemoteValues<'_> {
        let body = Bytes::from_owner(body);
        let (pieces, received) = mpsc::channel(QUEUED_PIECES);
        let length = (self.remote.rows.len() * bytes_per_row) as u64;
        let shard = self.remote.shard.clone();
        self.remote.runtime.spawn(async move {
            let response = shard.request(Method::POST, path, body).await;
            forward(response, length, shard.address(), &pieces).await;
        });
        RemoteValues { part: self, pieces: received, current: Bytes::new() }
    }
}

type Piece = Result<Bytes, String>;

/// Forwards the pieces of a response until the reader is dropped.
async fn forward(response: Result<ShardResponse, String>, length: u64, address: &str, pieces: &mpsc::Sender<Piece>) {
    let mut response = match response {
        Ok(response) if response.length() == length => response,
        Ok(response) => {
            let _ = pieces
                .send(Err(format!("shard {address}: the response has {} bytes instead of {length}", response.length())))
                .await;
            return;
        }
        Err(error) => {
            let _ = pieces.send(Err(error)).await;
            return;
        }
    };
    while let Some(piece) = response.next().await.transpose() {
        let failed = piece.is_err();
        if pieces.send(piece).await.is_err() || failed {
            return;
        }
    }
}

/// The values or words of the rows, as they arrive.
struct RemoteValues<'a> {
    part: &'a RemoteRows,
    pieces: mpsc::Receiver<Piece>,
    current: Bytes,
}

impl ValueStream for RemoteValues<'_> {
    fn read(&mut self, mut out: &mut [u8]) -> Result<(), PartError> {
        while !out.is_empty() {
            if self.current.is_empty() {
                let piece = self.pieces.blocking_recv().ok_or(PartError::TooFew)?;
                self.current = piece.map_err(|reason| self.part.remote.unavailable(reason))?;
            }
            let (now, later) = out.split_at_mut(self.current.len().min(out.len()));
            self.current.copy_to_slice(now);
            out = later;
        }
        Ok(())
    }
}

/// The encoded records of a shard for one key epoch.
#[derive(Debug)]
pub(crate) struct RemoteRecords {
    pub(crate) remote: RemoteShard,
    pub(crate) epoch: u32,
    /// Length of one record in bytes.
    pub(crate) length: usize,
}

impl RecordPart for RemoteRecords {
    fn rows(&self) -> Range<usize> {
        self.remote.rows.clone()
    }

    fn record_length(&self) -> usize {
        self.length
    }

    fn sum(&self, selection: &Selection<'_>) -> Result<Vec<u8>, PartError> {
        let length = match selection {
            Selection::Subset(_) => self.length,
            Selection::Factors { stripes, .. } => self.length.div_ceil(*stripes),
        };
        self.remote.request(RECORDS, wire::records(self.epoch, selection), length)
    }
}
