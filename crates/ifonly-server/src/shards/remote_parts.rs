//! Parts whose rows and records a shard has: what [`ifonly_scan::parts`] asks for, over the
//! [line](crate::shards::client).
//!
//! Whoever reads is a blocking thread; whoever talks to the shard is a task of the runtime, at most
//! a few pieces ahead.

use crate::shards::client::{ShardClient, ShardResponse};
use crate::shards::wire;
use bytes::{Buf, Bytes};
use http::Method;
use ifonly_algebra::shuffle::BucketIndices;
use ifonly_scan::parts::{PartError, RecordPart, RowFunctions, RowPart, Selection, ValueStream};
use std::ops::Range;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use zeroize::Zeroize;

/// Where a shard answers.
pub(crate) const VALUES: &str = "/values";
pub(crate) const SUMS: &str = "/sums";
pub(crate) const RECORDS: &str = "/records";
pub(crate) const IDENTITY: &str = "/shard";

/// Pieces of an answer that may wait for whoever reads them.
const AHEAD: usize = 2;

/// A shard and which rows it has.
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

    /// A whole answer of `length` bytes.
    fn whole(&self, path: &'static str, body: wire::ZeroizedBytes, length: usize) -> Result<Vec<u8>, PartError> {
        let asking = async {
            let reply = self.shard.ask(Method::POST, path, Bytes::from_owner(body)).await?;
            reply.whole(length).await
        };
        self.runtime.block_on(asking).map_err(|reason| self.unavailable(reason))
    }
}

/// The rows of a shard.
#[derive(Debug)]
pub(crate) struct RemoteRows {
    pub(crate) remote: RemoteShard,
    pub(crate) ranges: Arc<[u32]>,
}

impl RowPart for RemoteRows {
    fn rows(&self) -> Range<usize> {
        self.remote.rows.clone()
    }

    fn ranges(&self) -> &[u32] {
        &self.ranges
    }

    fn evaluate<'a>(
        &'a self,
        functions: &'a RowFunctions,
        digits: Option<&BucketIndices>,
    ) -> Result<Box<dyn ValueStream + 'a>, PartError> {
        let body = Bytes::from_owner(wire::values(functions, digits));
        let (pieces, received) = mpsc::channel(AHEAD);
        let length = (self.remote.rows.len() * functions.bytes_per_row()) as u64;
        let shard = self.remote.shard.clone();
        self.remote.runtime.spawn(async move {
            let reply = shard.ask(Method::POST, VALUES, body).await;
            forward(reply, length, shard.address(), &pieces).await;
        });
        Ok(Box::new(RemoteValues { part: self, pieces: received, current: Bytes::new() }))
    }

    fn table_sums(&self, tables: &[&[u64]], sums: &mut [u64]) -> Result<(), PartError> {
        let mut bytes = self.remote.whole(SUMS, wire::sums(tables), 8 * sums.len())?;
        sums.iter_mut().zip(bytes.as_chunks().0).for_each(|(sum, word)| *sum = u64::from_le_bytes(*word));
        bytes.zeroize();
        Ok(())
    }
}

type Piece = Result<Bytes, String>;

/// Hands on what comes, until nobody wants it.
async fn forward(reply: Result<ShardResponse, String>, length: u64, address: &str, pieces: &mpsc::Sender<Piece>) {
    let mut reply = match reply {
        Ok(reply) if reply.length() == length => reply,
        Ok(reply) => {
            let _ = pieces.send(Err(format!("shard {address}: {} bytes instead of {length}", reply.length()))).await;
            return;
        }
        Err(error) => {
            let _ = pieces.send(Err(error)).await;
            return;
        }
    };
    while let Some(piece) = reply.next().await.transpose() {
        let over = piece.is_err();
        if pieces.send(piece).await.is_err() || over {
            return;
        }
    }
}

/// Values as they come.
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
            let (here, behind) = out.split_at_mut(self.current.len().min(out.len()));
            self.current.copy_to_slice(here);
            out = behind;
        }
        Ok(())
    }
}

/// The sealed records of a shard for one key epoch.
#[derive(Debug)]
pub(crate) struct RemoteRecords {
    pub(crate) remote: RemoteShard,
    pub(crate) epoch: u32,
    /// Bytes of one.
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
        self.remote.whole(RECORDS, wire::records(self.epoch, selection), length)
    }
}
