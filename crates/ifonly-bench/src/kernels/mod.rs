//! Every part of a query, each as a time and as a ratio to reading the same rows.
//!
//! The part `read the rows` sums the bytes of the row store with the widest loads of the backend:
//! no scan of these rows can be faster. All parts alternate in one run and keep their best time
//! ([`measure()`]). Before the measurement, the answers of all servers are decoded and compared
//! with the nearest row according to the plain evaluator.

mod lifted;
mod measure;
mod setup;

use crate::BenchError;
use ifonly_algebra::interpolate::{DecodedWords, InterpolationStream};
use ifonly_algebra::keys::{RootKey, TranscriptKeys};
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_algebra::row_function::{RowFunctionKind, ScanJob};
use ifonly_algebra::shuffle;
use ifonly_scan::decode::Decoder;
use ifonly_scan::records::RecordScanner;
use ifonly_scan::{Backend, ScanQuery, Scanner, internals};
pub use lifted::share_tables;
pub use measure::BenchClock;
use measure::{BenchPart, interleave};
use serde::Serialize;
use setup::Setup;
use std::hint::black_box;
use std::ops::ControlFlow;

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// Number of rows.
    pub rows: usize,
    /// Features of a row.
    pub features: usize,
    /// The largest level of every feature.
    pub max_level: u32,
    /// Which row function.
    pub row_function: BenchRowFunction,
    /// Bits of the field; `None` takes the smallest field that the row function allows.
    pub bits: Option<u32>,
    /// Number of servers N. Every output has N − 1 pads.
    pub servers: usize,
    /// Threads of one answer.
    pub threads: usize,
    /// Bytes of a record.
    pub record_bytes: usize,
    /// Number of rounds; every part keeps its best time.
    pub rounds: usize,
    /// Which kernels.
    pub backend: Backend,
    /// Which clock; `None` takes the thread's clock for one thread and the wall clock otherwise.
    pub clock: Option<BenchClock>,
    /// Seed of the random rows.
    pub seed: u64,
}

/// The row functions that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BenchRowFunction {
    /// Squared distance: `‖y‖² + slope·y`.
    Baseline,
    /// Weighted squared distance.
    Weighted,
    /// One table per feature.
    Table,
    /// Two weighted quadratic functions and two field elements per row.
    Gated,
    /// Two table functions and two field elements per row.
    GatedTable,
    /// Two table functions in one word per row: the default search.
    Lifted,
}

/// One line of a report.
#[derive(Clone, Debug, Serialize)]
pub struct BenchLine {
    /// What was measured.
    pub part: String,
    /// Its best time.
    pub milliseconds: f64,
    /// The same time per row.
    pub nanoseconds_per_row: f64,
    /// Its time over the time of reading the rows (for records: of reading the records).
    pub ratio_to_read: f64,
}

/// All lines of one run and their conditions.
#[derive(Clone, Debug, Serialize)]
pub struct BenchReport {
    /// Number of rows.
    pub rows: usize,
    /// Features of a row.
    pub features: usize,
    /// The largest level of every feature.
    pub max_level: u32,
    /// The row function.
    pub row_function: BenchRowFunction,
    /// Bits of a field element.
    pub bits: u32,
    /// Number of servers.
    pub servers: usize,
    /// Threads of one answer.
    pub threads: usize,
    /// The kernels.
    pub backend: String,
    /// The source of times.
    pub clock: BenchClock,
    /// Time of the whole answer on one thread over its time on all threads; only for several
    /// threads.
    pub speed_up: Option<f64>,
    /// Speed of `read the rows`.
    pub read_gigabytes_per_second: f64,
    /// The parts.
    pub lines: Vec<BenchLine>,
}

impl BenchReport {
    /// Adds a part that was measured elsewhere in the same run, such as the end-to-end time.
    pub fn add(&mut self, part: &str, seconds: f64) {
        let read = self.lines.first().map_or(f64::NAN, |line| line.milliseconds / 1e3);
        self.lines.push(line(part, seconds, self.rows, read));
    }
}

impl std::fmt::Display for BenchReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let BenchReport { rows, features, max_level, bits, servers, threads, backend, clock, .. } = self;
        writeln!(
            f,
            "{:?}: M={rows}, d={features}, R={max_level}, {bits}-bit field, N={servers}, threads: {threads}, \
             {backend}, {clock:?} clock; rows are read at {:.1} GB/s",
            self.row_function, self.read_gigabytes_per_second
        )?;
        writeln!(f, "{:<34} {:>10} {:>10} {:>9}", "part", "ms", "ns/row", "/ read")?;
        for line in &self.lines {
            let BenchLine { part, milliseconds, nanoseconds_per_row, ratio_to_read } = line;
            writeln!(f, "{part:<34} {milliseconds:>10.3} {nanoseconds_per_row:>10.3} {ratio_to_read:>9.3}")?;
        }
        if let Some(speed_up) = self.speed_up {
            writeln!(f, "{threads} threads are {speed_up:.2} times as fast as one thread")?;
        }
        Ok(())
    }
}

/// Measures all parts of a query.
pub fn measure(options: &BenchOptions) -> Result<BenchReport, BenchError> {
    check(options)?;
    if options.row_function == BenchRowFunction::Lifted {
        return lifted::measure(options);
    }
    let backend = options.backend;
    let one_thread = Scanner::new().with_backend(backend);
    let scanner = one_thread.clone().with_threads(options.threads).map_err(BenchError::machine)?;
    let setup = Setup::new(options)?;
    let programs = setup.programs();
    let transcript = RootKey::new(0, [1; 32]).transcript(&[2; 32]);
    let outputs = programs[0].outputs.len();
    let keys = transcript.rows(&setup.field, outputs, setup.kappa, 1);
    let job = |server: usize| ScanJob {
        field: &setup.field,
        alpha: setup.alpha(server),
        kappa: setup.kappa,
        program: &programs[server],
    };
    let answers_by = |order_keys: Option<&TranscriptKeys>| -> Result<Vec<Vec<u8>>, BenchError> {
        let answer = |server: usize| {
            let mut bytes = vec![];
            let mut sink = |span: &[u8]| {
                bytes.extend_from_slice(span);
                ControlFlow::Continue(())
            };
            let job = job(server);
            let query = ScanQuery::new(&job, &keys).shuffled_by(order_keys);
            scanner.answer_query(&setup.store, &query, &mut sink).map_err(BenchError::machine)?;
            Ok(bytes)
        };
        (0..options.servers).map(answer).collect()
    };
    let (in_stored_order, shuffled) = (answers_by(None)?, answers_by(Some(&transcript))?);
    let answers: Vec<&[u8]> = in_stored_order.iter().map(Vec::as_slice).collect();
    let shuffled: Vec<&[u8]> = shuffled.iter().map(Vec::as_slice).collect();
    let (found, expected) = (nearest(&setup, backend, &answers), setup.nearest());
    if found != expected {
        return Err(BenchError::machine(format!("decoded {found:?}, but the nearest row is {expected:?}")));
    }
    let value = |found: Option<(u64, usize)>| found.map(|(value, _)| value);
    if value(nearest(&setup, backend, &shuffled)) != value(expected) {
        return Err(BenchError::machine("the shuffled answers have another nearest row"));
    }

    let first_job = job(0);
    let shuffled = ScanQuery::new(&first_job, &keys).shuffled_by(Some(&transcript));
    let without_pads = ScanJob { kappa: 0, ..first_job.clone() };
    let elements: Vec<u32> = random_elements(&setup, options.rows * outputs);
    let (records, subset) = random_records(options);
    let record_scanner = RecordScanner::with_backend(backend);
    let discard = |bytes: &[u8]| {
        black_box(bytes);
        ControlFlow::Continue(())
    };
    let (mut discard_whole, mut discard_shuffled, mut discard_one_thread) = (discard, discard, discard);
    let mut parts = vec![
        BenchPart::new("read the rows", || internals::read(backend, setup.store.data())),
        BenchPart::new("scan", || internals::evaluate(backend, &setup.store, &without_pads)),
        BenchPart::new("pads", || internals::generate_pads(backend, &keys, outputs, setup.kappa, options.rows)),
        BenchPart::new("pack", || internals::pack(backend, &setup.field, &elements)),
        BenchPart::new("whole answer", || {
            scanner.answer(&setup.store, &first_job, &keys, &mut discard_whole).expect("the job was run before");
        }),
        BenchPart::new("whole answer, shuffled", || {
            scanner.answer_query(&setup.store, &shuffled, &mut discard_shuffled).expect("the job was run before");
        }),
        BenchPart::new("order of the rows alone", || {
            black_box(shuffle::permutation(&transcript, options.rows));
        }),
        BenchPart::new("decode", || {
            decode(&setup, backend, &answers, &mut |words| {
                black_box(words);
            });
        }),
        BenchPart::new("read the records", || internals::read(backend, &records)),
        BenchPart::new("XOR of half the records", || {
            black_box(record_scanner.xor(&records, options.record_bytes, &subset))
                .expect("the subset fits the records");
        }),
    ];
    if options.row_function == BenchRowFunction::Baseline {
        parts.push(BenchPart::new("plain row loop, one % per row", || plain_row_loop(&setup, &first_job)));
    }
    if options.threads > 1 {
        parts.push(BenchPart::new("whole answer, one thread", || {
            one_thread
                .answer(&setup.store, &first_job, &keys, &mut discard_one_thread)
                .expect("the job was run before");
        }));
    }
    let clock = options.clock.unwrap_or(if options.threads > 1 { BenchClock::Wall } else { BenchClock::Thread });
    interleave(&mut parts, options.rounds, clock);

    let seconds_of = |name: &str| parts.iter().find(|part| part.name == name).map(BenchPart::seconds);
    let ratio = |a: &str, b: &str| seconds_of(a).zip(seconds_of(b)).map(|(a, b)| a / b);
    let read = parts[0].seconds();
    let read_records = seconds_of("read the records").unwrap_or(read);
    let mut report = BenchReport {
        rows: options.rows,
        features: options.features,
        max_level: options.max_level,
        row_function: options.row_function,
        bits: setup.field.bits(),
        servers: options.servers,
        threads: options.threads,
        backend: backend.to_string(),
        clock,
        speed_up: ratio("whole answer, one thread", "whole answer"),
        read_gigabytes_per_second: setup.store.data().len() as f64 / read / 1e9,
        lines: vec![],
    };
    for part in &parts {
        let read = if part.name.contains("records") { read_records } else { read };
        report.lines.push(line(part.name, part.seconds(), options.rows, read));
    }
    for (name, seconds) in ["build the store, once", "open its bytes, once"].into_iter().zip(setup.once) {
        report.add(name, seconds);
    }
    Ok(report)
}

/// Larger databases would need more memory than machines have.
const MAX_BYTES: usize = 1 << 34;
/// At most this many records are summed.
const MAX_RECORDS: usize = 1_000_000;

fn check(options: &BenchOptions) -> Result<(), BenchError> {
    let too_large = |factor: usize, other: usize| factor.checked_mul(other).is_none_or(|bytes| bytes > MAX_BYTES);
    let complaint = match options {
        BenchOptions { rows: 0, .. } | BenchOptions { features: 0, .. } | BenchOptions { record_bytes: 0, .. } => {
            "rows, features and record bytes must be at least 1"
        }
        BenchOptions { rows, features, .. } if too_large(*rows, *features) => {
            "rows times features must be at most 2^34"
        }
        BenchOptions { rows, record_bytes, .. } if too_large(*record_bytes, *rows.min(&MAX_RECORDS)) => {
            "record bytes times rows (of at most 10^6 rows) must be at most 2^34"
        }
        BenchOptions { threads, .. } if *threads > 1024 => "threads must be at most 1024",
        BenchOptions { rounds: 0, .. } => "rounds must be at least 1",
        BenchOptions { servers, .. } if !(2..=16).contains(servers) => "servers must be 2 to 16",
        BenchOptions { max_level, .. } if !(1..=65535).contains(max_level) => "the max level must be 1 to 65535",
        BenchOptions { bits: Some(bits), .. } if !(2..=62).contains(bits) => "the field must have 2 to 62 bits",
        BenchOptions { row_function: BenchRowFunction::Lifted, servers, bits, .. }
            if *servers != 2 || bits.is_some() =>
        {
            "the default search has two servers and its own fields"
        }
        _ => return Ok(()),
    };
    Err(BenchError::input(complaint))
}

fn line(part: &str, seconds: f64, rows: usize, read: f64) -> BenchLine {
    BenchLine {
        part: part.to_owned(),
        milliseconds: seconds * 1e3,
        nanoseconds_per_row: seconds * 1e9 / rows as f64,
        ratio_to_read: seconds / read,
    }
}

/// Interpolates whole answers and passes the values to `visit`.
fn decode(setup: &Setup, backend: Backend, answers: &[&[u8]], visit: &mut dyn FnMut(DecodedWords<'_>)) {
    let mut decoder = Decoder::new(setup.interpolation(), setup.store.rows(), backend);
    decoder.advance(answers, visit).expect("the scanner packs field elements");
}

/// The value and the position of the nearest row in whole answers.
fn nearest(setup: &Setup, backend: Backend, answers: &[&[u8]]) -> Option<(u64, usize)> {
    let mut values = vec![];
    decode(setup, backend, answers, &mut |words| match words {
        DecodedWords::Narrow(words) => values.extend(words.iter().map(|&word| u64::from(word))),
        DecodedWords::Wide(words) => values.extend(words),
    });
    let rows = values.chunks_exact(setup.outputs()).enumerate();
    let matching = rows.filter(|(_, row)| row.len() == 1 || row[0] == 0);
    matching.map(|(position, row)| (row[row.len() - 1], position)).min()
}

/// The obvious implementation, for comparison: row by row with one reduction at the end of each
/// row, without pads and packing.
fn plain_row_loop(setup: &Setup, job: &ScanJob<'_>) {
    let function = &job.program.functions[0];
    let RowFunctionKind::Linear { slope, .. } = &function.kind else { return };
    let slope: Vec<u64> = slope.iter().map(|s| s.value()).collect();
    let (q, constant) = (setup.field.q(), function.constant.value());
    let mut total = 0u64;
    for row in setup.rows.chunks_exact(slope.len()) {
        let mut sum = constant;
        for (&y, &slope) in row.iter().zip(&slope) {
            let y = u64::from(y);
            // Slopes below 2^40 leave room for 2^8 features of 16 bits each.
            sum += y * y + slope * y;
        }
        total = total.wrapping_add(sum % q);
    }
    black_box(total);
}

fn random_elements(setup: &Setup, count: usize) -> Vec<u32> {
    let mut random = SeededRandom::new(5);
    let mut bytes = vec![0; count * 4];
    random.fill(&mut bytes);
    let mask = u32::MAX.checked_shr(32u32.saturating_sub(setup.field.bits())).unwrap_or(u32::MAX);
    bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word) & mask).collect()
}

fn random_records(options: &BenchOptions) -> (Vec<u8>, Vec<u8>) {
    let mut random = SeededRandom::new(6);
    let count = options.rows.min(MAX_RECORDS);
    let mut records = vec![0; count * options.record_bytes];
    let mut subset = vec![0; count.div_ceil(8)];
    random.fill(&mut records);
    random.fill(&mut subset);
    (records, subset)
}
