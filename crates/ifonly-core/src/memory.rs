//! A server in memory, without network or files, for examples, experiments and tests.

use crate::keys::RootKey;
use crate::row_function::Rows;
use crate::scheme::instance::SchemeInstance;
use crate::search::HeaderContext;
use crate::server_protocol::{Refusal, ServerProtocol};

/// One server with a copy of the rows.
#[derive(Debug)]
pub struct MemoryServer {
    protocol: ServerProtocol,
    rows: Rows,
    encoded_records: Vec<Vec<u8>>,
    header_context: HeaderContext,
}

impl MemoryServer {
    /// Server `index`, counted from 1. The record of a row is its levels, two little-endian bytes
    /// each.
    pub fn new(index: u8, instance: &SchemeInstance, key: &RootKey, rows: &Rows) -> MemoryServer {
        // There is no manifest; all servers of one experiment use this digest.
        MemoryServer::with_digest(index, instance, key, rows, [0; 32])
    }

    /// The same server with another digest in the place of the manifest's. All servers of one
    /// experiment need the same digest.
    pub fn with_digest(
        index: u8,
        instance: &SchemeInstance,
        key: &RootKey,
        rows: &Rows,
        digest: [u8; 32],
    ) -> MemoryServer {
        let records: Vec<Vec<u8>> =
            rows.iter().map(|row| row.iter().flat_map(|level| level.to_le_bytes()).collect()).collect();
        let header_context =
            HeaderContext { digest, epoch: key.epoch(), record_length: 2 * instance.params().features(), signer: None };
        let protocol = ServerProtocol::new(
            index,
            header_context.digest,
            vec![instance.clone()],
            vec![key.clone()],
            header_context.record_length,
        );
        let encoded_records = protocol.encode_records(key, records.iter().map(Vec::as_slice));
        MemoryServer { protocol, rows: rows.clone(), encoded_records, header_context }
    }

    /// The header context of searches at this server.
    pub fn header_context(&self) -> HeaderContext {
        self.header_context
    }

    /// The response to a message.
    pub fn respond(&self, message: &[u8]) -> Result<Vec<u8>, Refusal> {
        self.protocol.respond(message, &self.rows, &self.encoded_records)
    }

    #[cfg(test)]
    pub(crate) fn longest_message(&self) -> usize {
        self.protocol.longest_message()
    }
}

/// The levels of a record of [`MemoryServer`].
pub fn levels(record: &[u8]) -> Vec<u16> {
    record.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect()
}
