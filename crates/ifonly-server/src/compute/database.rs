//! The rows and encoded records of one bundle, and the two computations over them.
//!
//! The answer to a phase is a scan over the rows. The answer to a record fetch is the inner product
//! over GF(2^8) of the query with all encoded records. Both run on the threads of the scanner and
//! write their bytes to a sink, which can stop them. Rows and records are in this process or on
//! shards, in one part or several; [`ifonly_scan::parts`] combines the results of the parts.

use crate::http::problem::Problem;
use crate::shards::set::rows_of;
use crate::shards::{ShardSet, ShardsError};
use ifonly_algebra::keys::TranscriptKeys;
use ifonly_algebra::row_function::ScanJob;
use ifonly_algebra::shuffle;
use ifonly_core::server_protocol::{PhaseRequest, RecordRequest};
use ifonly_scan::parts::{PartError, RecordParts, RowParts, Selection};
use ifonly_scan::{LiftedQuery, ScanError, ScanQuery, Scanner};
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};
use zeroize::Zeroizing;

/// Receives the next bytes of a response. Returns `Break` to stop the computation.
pub type Sink<'s> = dyn FnMut(&[u8]) -> ControlFlow<()> + 's;

/// The scanner of this process. All scans share its thread pool, one thread per processor.
pub(crate) static SCANNER: LazyLock<Scanner> = LazyLock::new(|| {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // Without a pool, every request scans on its blocking thread.
    Scanner::new().with_threads(threads).unwrap_or_else(|_| Scanner::new())
});

/// Minimum buffer of a frontend for a response whose client reads slowly. A small buffer is enough,
/// because the shards keep their values anyway.
const FRONTEND_BUFFER: usize = 128 << 10;
/// Responses of a frontend that may wait for their clients at the same time. Each uses a thread
/// here and a thread at every shard.
const MAX_WAITING: u64 = 256;

/// Rows, and records encoded for each key epoch. `Debug` does not print them.
pub struct Database {
    source: Source,
}

enum Source {
    /// In this process.
    Local(Arc<DatabaseParts>),
    /// On shards, whose addresses may change.
    Shards(Arc<ShardSet>),
}

/// The parts that hold all rows and records.
#[derive(Debug)]
pub(crate) struct DatabaseParts {
    pub(crate) rows: RowParts,
    pub(crate) records: Vec<AontRecords>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.source {
            Source::Local(parts) => write!(f, "Database({:?}, ..)", parts.rows),
            Source::Shards(shards) => write!(f, "Database({shards:?})"),
        }
    }
}

/// Why an answer is incomplete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerError {
    /// The sink stopped the computation.
    Stopped,
    /// The computation failed. With shards, this may be before the first byte.
    Failed(Problem),
}

/// All records, encoded with the all-or-nothing transform under the key of one epoch.
#[derive(Debug)]
pub struct AontRecords {
    /// The key epoch.
    pub epoch: u32,
    /// One record per row.
    pub records: RecordParts,
}

impl Database {
    /// A database of local rows and records.
    pub fn new(rows: impl Into<RowParts>, records: Vec<AontRecords>) -> Database {
        Database { source: Source::Local(Arc::new(DatabaseParts { rows: rows.into(), records })) }
    }

    /// A database of rows and records on shards.
    pub(crate) fn of_shards(shards: Arc<ShardSet>) -> Database {
        Database { source: Source::Shards(shards) }
    }

    /// Checks that all rows are available.
    pub fn ready(&self) -> Result<(), Problem> {
        self.parts().map(|_| ())
    }

    /// The same check for operators: the error names the unavailable shard and the reason.
    pub(crate) fn complete(&self) -> Result<(), ShardsError> {
        match &self.source {
            Source::Local(_) => Ok(()),
            Source::Shards(shards) => shards.parts().map(|_| ()),
        }
    }

    fn parts(&self) -> Result<Arc<DatabaseParts>, Problem> {
        match &self.source {
            Source::Local(parts) => Ok(parts.clone()),
            Source::Shards(shards) => shards.parts().map_err(|error| Problem::ShardsUnavailable(error.rows())),
        }
    }

    /// Logs the failure of a part and returns its problem.
    fn part_failure(&self, error: &PartError) -> Problem {
        tracing::error!(%error, "a part of the rows or records is unavailable");
        match &self.source {
            Source::Local(_) => Problem::Internal,
            Source::Shards(shards) => {
                shards.request_probe();
                Problem::ShardsUnavailable(rows_of(error))
            }
        }
    }

    /// For every row, the sum of its entries in the tables. These are the inputs of a sealed
    /// search.
    pub(crate) fn table_sums(&self, tables: &[&[u64]]) -> Result<Vec<u64>, Problem> {
        self.parts()?.rows.table_sums(tables).map_err(|error| self.part_failure(&error))
    }

    /// The sum over GF(2^8) of the selected records, encoded for an epoch.
    pub(crate) fn record_sum(&self, epoch: u32, selection: &Selection<'_>) -> Result<Vec<u8>, Problem> {
        let parts = self.parts()?;
        let Some(encoded) = parts.records.iter().find(|encoded| encoded.epoch == epoch) else {
            // The protocol refuses epochs without a key, and every key has its records.
            tracing::error!(epoch, "no records are encoded for a checked epoch");
            return Err(Problem::Internal);
        };
        let sum = match &self.source {
            Source::Local(_) => SCANNER.run(|| encoded.records.sum(selection)),
            // This waits for the network, so it must not use the threads of the scanner.
            Source::Shards(_) => encoded.records.sum(selection),
        };
        sum.map_err(|error| self.part_failure(&error))
    }

    /// How many bytes of a response of `length` bytes may wait here for the client, if all
    /// responses together may use `megabytes`. A server with local rows buffers the whole response,
    /// so the computation never waits. A frontend buffers a fixed share, so only long responses
    /// make it wait.
    pub(crate) fn buffer_capacity(&self, length: usize, megabytes: u64) -> usize {
        match &self.source {
            Source::Local(_) => length,
            Source::Shards(_) => FRONTEND_BUFFER.max(megabytes.saturating_mul(1 << 20).div_ceil(MAX_WAITING) as usize),
        }
    }

    /// Writes the response to a phase: the key-check value, in phase 0 the ticket, then the packed
    /// answer. A failure before the first byte has written nothing.
    pub fn answer(&self, request: &PhaseRequest<'_>, sink: &mut Sink<'_>) -> Result<(), AnswerError> {
        let parts = self.parts().map_err(AnswerError::Failed)?;
        let mut lead = Some(request.lead());
        let mut sink = |bytes: &[u8]| {
            if let Some(lead) = lead.take() {
                sink(&lead)?;
            }
            if bytes.is_empty() { ControlFlow::Continue(()) } else { sink(bytes) }
        };
        let answered = match request.lifted() {
            Some((tables, draws)) => {
                let query = LiftedQuery { tables: &tables, draws: &draws, order_keys: request.order_keys.as_ref() };
                SCANNER.answer_lifted_parts(&parts.rows, &query, &mut sink)
            }
            None => scan(&parts.rows, request, &mut sink),
        };
        match answered {
            // A response without rows still has its lead.
            Ok(()) if sink(&[]).is_continue() => Ok(()),
            Ok(()) | Err(ScanError::Stopped) => Err(AnswerError::Stopped),
            Err(ScanError::Part(error)) => Err(AnswerError::Failed(self.part_failure(&error))),
            Err(error) => {
                // The protocol has checked the message, so this is an internal error.
                tracing::error!(%error, "the scan refused a checked query");
                Err(AnswerError::Failed(Problem::Internal))
            }
        }
    }

    /// Writes the response to a record fetch: the key-check value, then the padded inner product of
    /// server `server`.
    pub fn record(&self, server: u8, request: &RecordRequest, sink: &mut Sink<'_>) -> Result<(), AnswerError> {
        let mut product = self.product(request).map_err(AnswerError::Failed)?;
        request.fetch.pad(usize::from(server).saturating_sub(1), &request.keys, &mut product);
        if sink(&request.keys.check_value()).is_continue() && sink(&product).is_continue() {
            Ok(())
        } else {
            Err(AnswerError::Stopped)
        }
    }

    fn product(&self, request: &RecordRequest) -> Result<Vec<u8>, Problem> {
        let (binary, stripes) = (request.fetch.is_binary(), request.fetch.stripes());
        let rows = self.parts()?.rows.rows();
        let stored = request
            .order_keys
            .as_ref()
            .map(|keys| Zeroizing::new(in_stored_order(keys, rows, &request.payload, binary, stripes)));
        let payload = stored.as_ref().map_or(&request.payload, |stored| stored);
        self.record_sum(
            request.epoch,
            &if binary { Selection::Subset(payload) } else { Selection::Factors { stripes, factors: payload } },
        )
    }
}

/// Writes the packed answer of a scheme without a lifted gate.
fn scan(rows: &RowParts, request: &PhaseRequest<'_>, sink: &mut Sink<'_>) -> Result<(), ScanError> {
    let (field, kappa) = (request.instance.field(), request.instance.kappa(request.phase));
    let keys = request.keys.rows(field, request.program.outputs.len(), kappa, request.instance.params().d_min);
    let job = ScanJob { field, alpha: request.alpha(), kappa, program: &request.program };
    SCANNER.answer_parts(rows, &ScanQuery::new(&job, &keys).shuffled_by(request.order_keys.as_ref()), sink)
}

/// Permutes the factors of a query from the shuffled row order to the stored order. The records are
/// read in stored order, so the factors move instead.
fn in_stored_order(keys: &TranscriptKeys, rows: usize, payload: &[u8], binary: bool, stripes: usize) -> Vec<u8> {
    if binary {
        let bit = |row: usize| payload[row / 8] >> (row % 8) & 1;
        let shuffled: Zeroizing<Vec<u8>> = Zeroizing::new((0..rows).map(bit).collect());
        let stored = Zeroizing::new(SCANNER.in_stored_order(keys, &shuffled));
        return stored.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, bit| byte << 1 | bit)).collect();
    }
    if stripes == 1 {
        return SCANNER.in_stored_order(keys, payload);
    }
    let row_at = shuffle::permutation(keys, rows);
    let mut stored = vec![0; payload.len()];
    for (&row, factors) in row_at.iter().zip(payload.chunks_exact(stripes)) {
        let start = row as usize * stripes;
        stored[start..start + stripes].copy_from_slice(factors);
    }
    stored
}

#[cfg(test)]
mod tests {
    use super::*;
    use ifonly_algebra::field::ModulusRule;
    use ifonly_algebra::keys::RootKey;
    use ifonly_algebra::random::{RandomSource, SeededRandom};
    use ifonly_algebra::row_function::Rows;
    use ifonly_core::params::Params;
    use ifonly_core::scheme;
    use ifonly_core::scheme::instance::SchemeInstance;
    use ifonly_core::search::{HeaderContext, Search};
    use ifonly_core::secret_query::SecretQuery;
    use ifonly_core::server_protocol::{CheckedRequest, ServerProtocol};
    use ifonly_scan::RowStore;
    use ifonly_scan::parts::{LocalPart, LocalRecords, RecordPart, RowPart};
    use std::sync::Arc;

    /// Rows and encoded records in `count` parts; most part boundaries are inside a block.
    fn in_parts(max_levels: &[u32], rows: &[Vec<u16>], encoded: &[Vec<u8>], count: usize) -> Database {
        let cut = |part: usize| rows.len() * part / count;
        let length = encoded[0].len();
        let pieces = || (0..count).map(|part| (cut(part), cut(part + 1)));
        let store = |from, to| Arc::new(RowStore::build(max_levels, &rows[from..to]).unwrap());
        let records = |from, to| LocalRecords::new(from, length, encoded[from..to].concat());
        if count == 1 {
            let records = records(0, rows.len()).into();
            return Database::new(store(0, rows.len()), vec![AontRecords { epoch: 3, records }]);
        }
        let row_part = |(from, to)| Arc::new(LocalPart::new(&SCANNER, store(from, to), from)) as Arc<dyn RowPart>;
        let record_part = |(from, to)| Arc::new(records(from, to)) as Arc<dyn RecordPart>;
        let records = RecordParts::new(pieces().map(record_part).collect()).unwrap();
        Database::new(RowParts::new(pieces().map(row_part).collect()).unwrap(), vec![AontRecords { epoch: 3, records }])
    }

    #[test]
    fn answers_and_records_equal_those_of_the_reference_protocol_in_one_part_or_several() {
        // Levels of one byte and of two bytes; row counts below and above the block of a scan.
        for count in [2, 37, 63, 64, 65, 150] {
            compare(vec![20, 20, 100, 4], count);
            compare(vec![9, 4, 300, 1], count);
        }
    }

    /// The response of a database, and its expected length.
    fn respond(protocol: &ServerProtocol, database: &Database, message: &[u8]) -> (Vec<u8>, usize) {
        let mut bytes = vec![];
        let mut sink = |part: &[u8]| {
            bytes.extend_from_slice(part);
            ControlFlow::Continue(())
        };
        let length = match protocol.decode(message).unwrap() {
            CheckedRequest::Answer(request) => {
                assert_eq!(database.answer(&request, &mut sink), Ok(()));
                request.response_length
            }
            CheckedRequest::Record(request) => {
                assert_eq!(database.record(1, &request, &mut sink), Ok(()));
                request.response_length
            }
        };
        (bytes, length)
    }

    fn compare(max_levels: Vec<u32>, count: usize) {
        let mut random = SeededRandom::new(2);
        let length = 13;
        let rows: Vec<Vec<u16>> = (0..count)
            .map(|_| max_levels.iter().map(|&range| random.below(u64::from(range) + 1) as u16).collect())
            .collect();
        let records: Vec<Vec<u8>> = (0..rows.len()).map(|row| vec![row as u8; length]).collect();
        let key = RootKey::new(3, [6; 32]);
        for scheme in scheme::ALL {
            for (threshold, shuffle) in [(1, false), (1, true), (2, true)] {
                let params =
                    Params { threshold, shuffle, weight_limit: 3, ..Params::new(max_levels.clone(), rows.len()) };
                let instance = SchemeInstance::new(scheme, params, ModulusRule::Deployment).unwrap();
                let protocol = ServerProtocol::new(1, [1; 32], vec![instance.clone()], vec![key.clone()], length);
                let encoded = protocol.encode_records(&key, records.iter().map(Vec::as_slice));
                let plain = Rows::new(&max_levels, &rows).unwrap();
                let databases = [1, 2, 3, 7].map(|count| in_parts(&max_levels, &rows, &encoded, count));
                let header_context = HeaderContext { digest: [1; 32], epoch: 3, record_length: length, signer: None };
                let mut search = Search::new(instance, SecretQuery::new(vec![2, 2, 100, 1]), header_context).unwrap();
                while let Some(outgoing) = search.next(&mut random) {
                    let message = &outgoing.messages[0];
                    let right = protocol.respond(message, &plain, &encoded).unwrap();
                    // Later messages need the ticket.
                    search.receive(vec![Some(right.clone())]);
                    for database in &databases {
                        let (bytes, length) = respond(&protocol, database, message);
                        assert!(
                            bytes == right,
                            "{} {max_levels:?}, message of {} bytes, {database:?}, T = {threshold}, shuffle {shuffle}",
                            scheme.name,
                            message.len()
                        );
                        assert_eq!(bytes.len(), length);
                    }
                }
            }
        }
    }
}
