//! The rows and the sealed records of one version of a database, and the two computations over
//! them.
//!
//! A phase's answer is a scan over the rows; a record's answer is an inner product over GF(2^8) of
//! the query with all sealed records. Both run on the scan's threads and hand their bytes to a sink
//! that may stop them. Rows and records may be in one piece or in parts, here or elsewhere:
//! [`ifonly_scan::parts`] puts together what parts compute.

use crate::compute::shared_scan::{OwnedScanJob, SharedScans};
use crate::http::problem::Problem;
use crate::shards::set::rows_of;
use crate::shards::{ShardSet, ShardsError};
use ifonly_algebra::keys::TranscriptKeys;
use ifonly_algebra::row_function::ScanJob;
use ifonly_algebra::{shuffle, wire};
use ifonly_core::server_protocol::{PhaseRequest, RecordRequest};
use ifonly_core::transcript::MessageKind;
use ifonly_scan::parts::{PartError, RecordParts, RowParts, Selection};
use ifonly_scan::{ScanError, ScanQuery, Scanner};
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};
use zeroize::Zeroizing;

/// Takes the next bytes of a response; may say that no more are wanted.
pub type Sink<'s> = dyn FnMut(&[u8]) -> ControlFlow<()> + 's;

/// All scans of a process share one pool of threads, as many as processors.
pub(crate) static SCANNER: LazyLock<Scanner> = LazyLock::new(|| {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // Without a pool, every request scans on its own thread.
    Scanner::new().with_threads(threads).unwrap_or_else(|_| Scanner::new())
});

/// What a front holds of an answer whose reader is slower than its shards: these have to keep their
/// values anyway.
const FRONT_ROOM: usize = 128 << 10;
/// Answers of a front that wait for their readers at once, each on a thread here and one at every
/// shard.
const MOST_WAITING: u64 = 256;

/// Rows, and records sealed for each key epoch. Never printed.
pub struct Database {
    source: Source,
}

enum Source {
    /// In this process.
    Here { layout: Arc<ShardLayout>, shared_scans: Box<SharedScans> },
    /// Elsewhere; where, may change.
    Shards(Arc<ShardSet>),
}

/// Where all rows and records are.
#[derive(Debug)]
pub(crate) struct ShardLayout {
    pub(crate) rows: RowParts,
    pub(crate) sealed: Vec<AontRecords>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.source {
            Source::Here { layout, .. } => write!(f, "Database({:?}, ..)", layout.rows),
            Source::Shards(shards) => write!(f, "Database({shards:?})"),
        }
    }
}

/// Why an answer did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerError {
    /// The sink wanted no more.
    Stopped,
    /// Something failed; with shards perhaps before the first byte.
    Failed(Problem),
}

/// All records under one epoch's key.
#[derive(Debug)]
pub struct AontRecords {
    /// Which epoch.
    pub epoch: u32,
    /// One for each row.
    pub records: RecordParts,
}

impl Database {
    /// These rows and records.
    pub fn new(rows: impl Into<RowParts>, sealed: Vec<AontRecords>) -> Database {
        let rows = rows.into();
        let shared_scans = Box::new(SharedScans::new(SCANNER.clone(), rows.clone()));
        Database { source: Source::Here { layout: Arc::new(ShardLayout { rows, sealed }), shared_scans } }
    }

    /// Rows and records that shards have.
    pub(crate) fn of_shards(shards: Arc<ShardSet>) -> Database {
        Database { source: Source::Shards(shards) }
    }

    /// Whether all rows can be had.
    pub fn ready(&self) -> Result<(), Problem> {
        self.layout().map(|_| ())
    }

    /// The same for operators: which shard is away, and why.
    pub(crate) fn complete(&self) -> Result<(), ShardsError> {
        match &self.source {
            Source::Here { .. } => Ok(()),
            Source::Shards(shards) => shards.layout().map(|_| ()),
        }
    }

    fn layout(&self) -> Result<Arc<ShardLayout>, Problem> {
        match &self.source {
            Source::Here { layout, .. } => Ok(layout.clone()),
            Source::Shards(shards) => shards.layout().map_err(|error| Problem::ShardsUnavailable(error.rows())),
        }
    }

    /// A part that gave nothing.
    fn failed(&self, error: &PartError) -> Problem {
        tracing::error!(%error, "a part of the rows or records is not to be had");
        match &self.source {
            Source::Here { .. } => Problem::Internal,
            Source::Shards(shards) => {
                shards.doubt();
                Problem::ShardsUnavailable(rows_of(error))
            }
        }
    }

    /// Sums of tables over all rows, as a sealed search begins.
    pub(crate) fn table_sums(&self, tables: &[&[u64]]) -> Result<Vec<u64>, Problem> {
        self.layout()?.rows.table_sums(tables).map_err(|error| self.failed(&error))
    }

    /// The sum of some records as they are sealed for an epoch.
    pub(crate) fn record_sum(&self, epoch: u32, selection: &Selection<'_>) -> Result<Vec<u8>, Problem> {
        let layout = self.layout()?;
        let Some(sealed) = layout.sealed.iter().find(|sealed| sealed.epoch == epoch) else {
            // The replica refuses epochs without a key, and every key has its records.
            tracing::error!(epoch, "no records are sealed for a checked epoch");
            return Err(Problem::Internal);
        };
        let sum = match &self.source {
            Source::Here { .. } => SCANNER.run(|| sealed.records.sum(selection)),
            // The scan's threads are not for waiting.
            Source::Shards(_) => sealed.records.sum(selection),
        };
        sum.map_err(|error| self.failed(&error))
    }

    /// How much of an answer of `length` bytes may wait here for its reader, where all answers
    /// together may have so many megabytes. Whoever computes it all by itself waits for nobody. A
    /// front waits, and only for answers longer than its share of the room, which therefore are
    /// few.
    pub(crate) fn room(&self, length: usize, megabytes: u64) -> usize {
        match &self.source {
            Source::Here { .. } => length,
            Source::Shards(_) => FRONT_ROOM.max(megabytes.saturating_mul(1 << 20).div_ceil(MOST_WAITING) as usize),
        }
    }

    /// Bytes of the response to a phase.
    pub fn answer_length(ask: &PhaseRequest<'_>) -> usize {
        let (elements, lead) = (ask.instance.answer_length(ask.phase), MessageKind::Phase(ask.phase as u8).lead());
        // A deployment whose answer did not fit into memory's size could not have been loaded.
        lead + wire::packed_length(ask.instance.field(), elements).unwrap_or(usize::MAX - lead)
    }

    /// Bytes of the response to a record fetch.
    pub fn record_length(ask: &RecordRequest) -> usize {
        MessageKind::Record.lead() + ask.fetch.stripe_length()
    }

    /// Key-check value, for a search that begins its ticket, then the packed answer. What fails
    /// before the first byte has written nothing.
    pub fn answer(&self, ask: &PhaseRequest<'_>, sink: &mut Sink<'_>) -> Result<(), AnswerError> {
        let layout = self.layout().map_err(AnswerError::Failed)?;
        let (field, kappa) = (ask.instance.field(), ask.instance.kappa(ask.phase));
        let keys = ask.keys.rows(field, ask.program.outputs.len(), kappa, ask.instance.params().d_min);
        let mut lead = Some(ask.lead());
        let mut sink = |bytes: &[u8]| {
            if let Some(lead) = lead.take() {
                sink(&lead)?;
            }
            if bytes.is_empty() { ControlFlow::Continue(()) } else { sink(bytes) }
        };
        let answered = match (&self.source, &ask.order_keys) {
            (Source::Here { shared_scans, .. }, None) => {
                let program = Zeroizing::new(ask.program.clone());
                shared_scans
                    .answer(OwnedScanJob { field: field.clone(), alpha: ask.alpha, kappa, program, keys }, &mut sink)
            }
            (_, order_keys) => {
                let job = ScanJob { field, alpha: ask.alpha, kappa, program: &ask.program, order: None };
                let query = ScanQuery::new(&job, &keys).shuffled_by(order_keys.as_ref());
                SCANNER.answer_parts(&layout.rows, &query, 0, &mut sink)
            }
        };
        match answered {
            // An answer without rows has its lead all the same.
            Ok(()) if sink(&[]).is_continue() => Ok(()),
            Ok(()) | Err(ScanError::Stopped) => Err(AnswerError::Stopped),
            Err(ScanError::Part(error)) => Err(AnswerError::Failed(self.failed(&error))),
            Err(error) => {
                // The replica has checked the message, so this is a fault of the program.
                tracing::error!(%error, "the scan refused a checked query");
                Err(AnswerError::Failed(Problem::Internal))
            }
        }
    }

    /// Key-check value, then server `server`'s padded inner product.
    pub fn record(&self, server: u8, ask: &RecordRequest, sink: &mut Sink<'_>) -> Result<(), AnswerError> {
        let mut product = self.product(ask).map_err(AnswerError::Failed)?;
        ask.fetch.pad(usize::from(server).saturating_sub(1), &ask.keys, &mut product);
        match sink(&ask.keys.check_value()).is_continue() && sink(&product).is_continue() {
            true => Ok(()),
            false => Err(AnswerError::Stopped),
        }
    }

    fn product(&self, ask: &RecordRequest) -> Result<Vec<u8>, Problem> {
        let (binary, stripes) = (ask.fetch.is_binary(), ask.fetch.stripes());
        let rows = self.layout()?.rows.rows();
        let stored = ask
            .order_keys
            .as_ref()
            .map(|keys| SCANNER.run(|| Zeroizing::new(in_stored_order(keys, rows, &ask.payload, binary, stripes))));
        let payload = stored.as_ref().map_or(&ask.payload, |stored| stored);
        self.record_sum(
            ask.epoch,
            &match binary {
                true => Selection::Subset(payload),
                false => Selection::Factors { stripes, factors: payload },
            },
        )
    }
}

/// A query for positions as one for stored rows: records are read in stored order, so the factors
/// are what is moved.
fn in_stored_order(keys: &TranscriptKeys, rows: usize, payload: &[u8], binary: bool, stripes: usize) -> Vec<u8> {
    let row_at = shuffle::permutation(keys, rows);
    let mut stored = vec![0; payload.len()];
    if binary {
        for (rows, &bits) in row_at.chunks(8).zip(payload) {
            for (bit, &row) in rows.iter().enumerate() {
                stored[row as usize / 8] |= (bits >> bit & 1) << (row % 8);
            }
        }
        return stored;
    }
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

    /// Rows and sealed records in so many parts, most of them cut inside a block; one is the whole.
    fn in_parts(ranges: &[u32], rows: &[Vec<u16>], sealed: &[Vec<u8>], count: usize) -> Database {
        let cut = |part: usize| rows.len() * part / count;
        let length = sealed[0].len();
        let pieces = || (0..count).map(|part| (cut(part), cut(part + 1)));
        let store = |from, to| Arc::new(RowStore::build(ranges, &rows[from..to]).unwrap());
        let records = |from, to| LocalRecords::new(from, length, sealed[from..to].concat());
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
    fn answers_and_records_are_those_of_the_plain_replica_in_one_piece_or_in_parts() {
        // One level in a byte and in two, and row counts on both sides of a scan's block.
        for count in [2, 37, 63, 64, 65, 150] {
            compare(vec![20, 20, 100, 4], count);
            compare(vec![9, 4, 300, 1], count);
        }
    }

    /// A database's response, and how long it should be.
    fn respond(protocol: &ServerProtocol, database: &Database, message: &[u8]) -> (Vec<u8>, usize) {
        let mut bytes = vec![];
        let mut sink = |part: &[u8]| {
            bytes.extend_from_slice(part);
            ControlFlow::Continue(())
        };
        let length = match protocol.open(message).unwrap() {
            CheckedRequest::Answer(ask) => {
                assert_eq!(database.answer(&ask, &mut sink), Ok(()));
                Database::answer_length(&ask)
            }
            CheckedRequest::Record(ask) => {
                assert_eq!(database.record(1, &ask, &mut sink), Ok(()));
                Database::record_length(&ask)
            }
            CheckedRequest::Sealed(_) => unreachable!("no such scheme is among these"),
        };
        (bytes, length)
    }

    fn compare(ranges: Vec<u32>, count: usize) {
        let mut random = SeededRandom::new(2);
        let length = 13;
        let rows: Vec<Vec<u16>> = (0..count)
            .map(|_| ranges.iter().map(|&range| random.below(u64::from(range) + 1) as u16).collect())
            .collect();
        let records: Vec<Vec<u8>> = (0..rows.len()).map(|row| vec![row as u8; length]).collect();
        let key = RootKey::new(3, [6; 32]);
        for scheme in scheme::ALL {
            for (threshold, shuffle) in [(1, false), (1, true), (2, true)] {
                let params = Params { threshold, shuffle, weight_limit: 3, ..Params::new(ranges.clone(), rows.len()) };
                let instance = SchemeInstance::new(scheme, params, ModulusRule::Deployment).unwrap();
                let protocol = ServerProtocol::new(1, [1; 32], vec![instance.clone()], vec![key.clone()], length);
                let sealed = protocol.encode_records(&key, records.iter().map(Vec::as_slice));
                let plain = Rows::new(&ranges, &rows).unwrap();
                let databases = [1, 2, 3, 7].map(|count| in_parts(&ranges, &rows, &sealed, count));
                let header_context = HeaderContext { digest: [1; 32], epoch: 3, record_length: length, signer: None };
                let mut search = Search::new(instance, SecretQuery::new(vec![2, 2, 100, 1]), header_context).unwrap();
                while let Some(outgoing) = search.next(&mut random) {
                    let message = &outgoing.messages[0];
                    let right = protocol.respond(message, &plain, &sealed).unwrap();
                    // Later messages need the ticket.
                    search.receive(vec![Some(right.clone())]);
                    for database in &databases {
                        let (bytes, length) = respond(&protocol, database, message);
                        assert!(
                            bytes == right,
                            "{} {ranges:?}, message of {} bytes, {database:?}, T = {threshold}, shuffle {shuffle}",
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
