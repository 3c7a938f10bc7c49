//! Measurements of everything a query pays for, each as a time and as a ratio to reading the same
//! rows.
//!
//! `read` sums the bytes of the row store with the widest loads of the backend: the least that any
//! scan of them can take. All parts take turns in one run and keep their best time ([`measure`]);
//! before anything is timed, the answers of all servers are decoded and compared with the plain
//! evaluator's nearest row.

mod measure;
mod setup;

use crate::backend::{Backend, Kernels};
use crate::decode::{ArgMin, Decoder};
use crate::dot::limbs16::Width;
use crate::keystream_planes::KeyBytes;
use crate::records::RecordScanner;
use crate::scan::scanner::{ScanQuery, Scanner};
use crate::tile::{Scratch, TileProgram};
use crate::{keystream_planes, packing};
use ifonly_algebra::field::Field;
use ifonly_algebra::keys::{KeyedRowRandomness, RootKey};
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_algebra::row_function::{RowFunctionKind, ScanJob};
use ifonly_algebra::shuffle;
pub use measure::BenchClock;
use measure::{BenchPart, interleave};
use serde::Serialize;
use setup::Setup;
use std::hint::black_box;
use std::ops::ControlFlow;

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// Rows of the database.
    pub rows: usize,
    /// Features of a row.
    pub features: usize,
    /// The largest level of every feature.
    pub range: u32,
    /// Which row function.
    pub function: BenchRowFunction,
    /// Bits of the field; as few as the form allows if not given.
    pub bits: Option<u32>,
    /// Servers, so that there are one fewer pads per symbol.
    pub servers: usize,
    /// Threads of one answer.
    pub threads: usize,
    /// Queries that share a pass; 1 measures no batch.
    pub batch: usize,
    /// Bytes of a record.
    pub record_bytes: usize,
    /// Rounds; every part keeps its best.
    pub rounds: usize,
    /// Which kernels.
    pub backend: Backend,
    /// Which clock; the thread's for one thread, else the wall's, if not given.
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
    /// Two weighted quadratic forms and two symbols per row.
    Gated,
    /// Two table forms and two symbols per row.
    GatedTable,
}

/// One line of a report.
#[derive(Clone, Debug, Serialize)]
pub struct BenchLine {
    /// What was done.
    pub part: String,
    /// Its best time.
    pub milliseconds: f64,
    /// The same per row.
    pub nanoseconds_per_row: f64,
    /// Its time over that of reading the rows (for records: of reading the records).
    pub ratio_to_read: f64,
}

/// All lines of one run and what they were measured with.
#[derive(Clone, Debug, Serialize)]
pub struct BenchReport {
    /// Rows.
    pub rows: usize,
    /// Features.
    pub features: usize,
    /// The largest level.
    pub range: u32,
    /// The form.
    pub function: BenchRowFunction,
    /// Bits per symbol.
    pub bits: u32,
    /// Servers.
    pub servers: usize,
    /// Threads.
    pub threads: usize,
    /// Kernels.
    pub backend: String,
    /// What times were read from.
    pub clock: BenchClock,
    /// How many times faster the whole answer is than on one thread, in the same run; only for
    /// several threads.
    pub speed_up: Option<f64>,
    /// The time of a query in a batch over its time alone, in the same run; only for batches.
    pub batch_to_alone: Option<f64>,
    /// Speed of `read`.
    pub read_gigabytes_per_second: f64,
    /// The parts.
    pub lines: Vec<BenchLine>,
}

impl BenchReport {
    /// A further part, measured elsewhere in the same run: the command line adds the end-to-end
    /// time this way.
    pub fn add(&mut self, part: &str, seconds: f64) {
        let read = self.lines.first().map_or(f64::NAN, |line| line.milliseconds / 1e3);
        self.lines.push(line(part, seconds, self.rows, read));
    }
}

impl std::fmt::Display for BenchReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let BenchReport { rows, features, range, bits, servers, threads, backend, clock, .. } = self;
        writeln!(
            f,
            "{:?}: M={rows}, d={features}, R={range}, {bits}-bit field, N={servers}, {threads} threads, {backend}, \
             {clock:?} clock; rows are read at {:.1} GB/s",
            self.function, self.read_gigabytes_per_second
        )?;
        writeln!(f, "{:<34} {:>10} {:>10} {:>9}", "part", "ms", "ns/row", "/ read")?;
        for line in &self.lines {
            let BenchLine { part, milliseconds, nanoseconds_per_row, ratio_to_read } = line;
            writeln!(f, "{part:<34} {milliseconds:>10.3} {nanoseconds_per_row:>10.3} {ratio_to_read:>9.3}")?;
        }
        if let Some(speed_up) = self.speed_up {
            writeln!(f, "{threads} threads answer {speed_up:.2} times as fast as one")?;
        }
        if let Some(ratio) = self.batch_to_alone {
            writeln!(f, "a query of the batch takes {ratio:.3} of its time alone")?;
        }
        Ok(())
    }
}

/// Measures.
pub fn measure(options: &BenchOptions) -> Result<BenchReport, String> {
    check(options)?;
    let (backend, kernels) = (options.backend, options.backend.kernels());
    let alone = Scanner::new().with_backend(backend);
    let scanner = alone.clone().with_threads(options.threads).map_err(|error| error.to_string())?;
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
        order: None,
    };
    let answers: Vec<Vec<u8>> = (0..options.servers)
        .map(|server| scanner.answer_to_vec(&setup.store, &job(server), &keys).map_err(|error| error.to_string()))
        .collect::<Result<_, _>>()?;
    let answers: Vec<&[u8]> = answers.iter().map(Vec::as_slice).collect();
    let found = decode(&setup, backend, &answers)?;
    let expected = setup.nearest();
    if found != expected {
        return Err(format!("decoded {found:?}, but the nearest row is {expected:?}"));
    }

    let one = job(0);
    let order = shuffle::permutation(&transcript, options.rows);
    let picked = ScanJob { order: Some(&order), ..one.clone() };
    let shuffled = ScanQuery::new(&one, &keys).shuffled_by(Some(&transcript));
    let in_order = |query: &ScanQuery<'_>| {
        let mut bytes = vec![];
        let mut sink = |part: &[u8]| {
            bytes.extend_from_slice(part);
            ControlFlow::Continue(())
        };
        scanner.answer_query(&setup.store, query, &mut sink).map(|()| bytes)
    };
    if in_order(&shuffled) != in_order(&ScanQuery::new(&picked, &keys)) {
        return Err("the two ways to shuffle differ".to_owned());
    }
    let bare = ScanJob { kappa: 0, ..one.clone() };
    let elements: Vec<u32> = random_symbols(&setup, options.rows * outputs);
    let (records, subset) = random_records(options);
    let record_scanner = RecordScanner::with_backend(backend);
    let batch_jobs: Vec<ScanJob<'_>> = (0..options.batch).map(|i| job(i % options.servers)).collect();
    let queries: Vec<ScanQuery<'_>> = batch_jobs.iter().map(|job| ScanQuery::new(job, &keys)).collect();
    let mut to_nowhere = |bytes: &[u8]| {
        black_box(bytes);
        ControlFlow::Continue(())
    };
    let mut to_nowhere_again = to_nowhere;
    let mut to_nowhere_alone = to_nowhere;
    let mut to_nowhere_by_one = to_nowhere;
    let mut parts = vec![
        BenchPart::new("read the rows", || {
            black_box(kernels.read(black_box(setup.store.data())));
        }),
        BenchPart::new("scan", || scan_only(kernels, &setup, &bare)),
        BenchPart::new("pads", || pads_only(kernels, &keys, outputs, setup.kappa, options.rows)),
        BenchPart::new("pack", || pack_only(kernels, &setup.field, &elements)),
        BenchPart::new("whole answer", || {
            scanner.answer(&setup.store, &one, &keys, &mut to_nowhere).expect("the job was run before");
        }),
        BenchPart::new("whole answer, shuffled", || {
            scanner.answer_query(&setup.store, &shuffled, &mut to_nowhere_again).expect("the job was run before");
        }),
        BenchPart::new("order of the rows alone", || {
            black_box(shuffle::permutation(&transcript, options.rows));
        }),
        BenchPart::new("decode and argmin", || {
            black_box(decode(&setup, backend, &answers)).expect("the answers were decoded before");
        }),
        BenchPart::new("read the records", || {
            black_box(kernels.read(black_box(&records)));
        }),
        BenchPart::new("XOR of half the records", || {
            black_box(record_scanner.xor(&records, options.record_bytes, &subset))
                .expect("the subset fits the records");
        }),
    ];
    if options.function == BenchRowFunction::Baseline {
        parts.push(BenchPart::new("plain row loop, one % per row", || plain_row_loop(&setup, &one)));
    }
    if options.batch > 1 {
        parts.push(BenchPart::new("batch, per query", || {
            let mut sink = |_: usize, bytes: &[u8]| {
                black_box(bytes);
                ControlFlow::Continue(())
            };
            scanner.answer_batch(&setup.store, &queries, &mut sink).expect("the jobs were run before");
        }));
        // As many as the batch has, so that neighbours on the machine disturb both for as long.
        parts.push(BenchPart::new("the same one by one, per query", || {
            for query in &queries {
                scanner.answer_query(&setup.store, query, &mut to_nowhere_by_one).expect("the jobs were run before");
            }
        }));
    }
    if options.threads > 1 {
        parts.push(BenchPart::new("whole answer, one thread", || {
            alone.answer(&setup.store, &one, &keys, &mut to_nowhere_alone).expect("the job was run before");
        }));
    }
    let clock = options.clock.unwrap_or(if options.threads > 1 { BenchClock::Wall } else { BenchClock::Thread });
    interleave(&mut parts, options.rounds, clock);

    let read = parts[0].seconds();
    let seconds_of = |name: &str| parts.iter().find(|part| part.name == name).map(BenchPart::seconds);
    let mut report = BenchReport {
        rows: options.rows,
        features: options.features,
        range: options.range,
        function: options.function,
        bits: setup.field.bits(),
        servers: options.servers,
        threads: options.threads,
        backend: backend.to_string(),
        clock,
        speed_up: seconds_of("whole answer, one thread").zip(seconds_of("whole answer")).map(|(one, all)| one / all),
        batch_to_alone: seconds_of("batch, per query")
            .zip(seconds_of("the same one by one, per query"))
            .map(|(batch, alone)| batch / alone),
        read_gigabytes_per_second: setup.store.data().len() as f64 / read / 1e9,
        lines: vec![],
    };
    let mut read_now = read;
    for part in &parts {
        if part.name == "read the records" {
            read_now = part.seconds();
        }
        let shared = if part.name.ends_with("per query") { options.batch as f64 } else { 1.0 };
        let compared = if part.name.contains("records") { read_now } else { read };
        report.lines.push(line(part.name, part.seconds() / shared, options.rows, compared));
    }
    for (name, seconds) in ["build the store, once", "open its bytes, once"].into_iter().zip(setup.once) {
        report.add(name, seconds);
    }
    Ok(report)
}

/// Larger databases would ask for more memory than machines have.
const MOST_BYTES: usize = 1 << 34;
/// Records that are summed, however many rows there are.
const MOST_RECORDS: usize = 1_000_000;

fn check(options: &BenchOptions) -> Result<(), String> {
    let complaint = match options {
        BenchOptions { rows: 0, .. } | BenchOptions { features: 0, .. } | BenchOptions { record_bytes: 0, .. } => {
            "rows, features and record bytes must not be 0"
        }
        BenchOptions { rows, features, .. } if rows.checked_mul(*features).is_none_or(|levels| levels > MOST_BYTES) => {
            "--rows times --features may be 2^34 at most"
        }
        BenchOptions { rows, record_bytes, .. }
            if record_bytes.checked_mul(*rows.min(&MOST_RECORDS)).is_none_or(|bytes| bytes > MOST_BYTES) =>
        {
            "--record-bytes times --rows (or 10^6, if there are more) may be 2^34 at most"
        }
        BenchOptions { threads, .. } if *threads > 1024 => "--threads may be 1024 at most",
        BenchOptions { rounds: 0, .. } => "--rounds must not be 0",
        BenchOptions { servers, .. } if !(2..=16).contains(servers) => "2 to 16 servers can be measured",
        BenchOptions { batch, .. } if !(1..=1024).contains(batch) => "a batch has 1 to 1024 queries",
        BenchOptions { range, .. } if !(1..=65535).contains(range) => "the range is 1 to 65535",
        BenchOptions { bits: Some(bits), .. } if !(2..=62).contains(bits) => "a field has 2 to 62 bits",
        _ => return Ok(()),
    };
    Err(complaint.to_owned())
}

fn line(part: &str, seconds: f64, rows: usize, read: f64) -> BenchLine {
    BenchLine {
        part: part.to_owned(),
        milliseconds: seconds * 1e3,
        nanoseconds_per_row: seconds * 1e9 / rows as f64,
        ratio_to_read: seconds / read,
    }
}

/// Interpolates whole answers and returns the nearest row's value and position.
fn decode(setup: &Setup, backend: Backend, answers: &[&[u8]]) -> Result<Option<(u64, usize)>, String> {
    let mut decoder = Decoder::with_backend(setup.interpolation(), setup.store.rows(), backend);
    let mut nearest = if setup.outputs() == 1 { ArgMin::plain() } else { ArgMin::gated() };
    decoder.decode_all(answers, &mut |values| nearest.visit(values)).map_err(|error| error.to_string())?;
    Ok(nearest.found().map(|found| (found.value, found.row)))
}

/// Forms only: no pads, no packing.
fn scan_only(kernels: &'static dyn Kernels, setup: &Setup, job: &ScanJob<'_>) {
    let program = TileProgram::values(kernels, &setup.store, job);
    let mut scratch = Scratch::default();
    for first in (0..setup.store.rows()).step_by(kernels.tile_rows()) {
        program.run(first, kernels.tile_rows().min(setup.store.rows() - first), None, &mut scratch);
        black_box(&scratch);
    }
}

fn pads_only(kernels: &dyn Kernels, keys: &KeyedRowRandomness, outputs: usize, kappa: usize, rows: usize) {
    let mut key = KeyBytes::default();
    let width = Width::of(&keys.rho.field);
    let mut out = vec![0; kernels.tile_rows() * width.planes()];
    for first in (0..rows).step_by(kernels.tile_rows()) {
        for output in 0..outputs {
            for j in 1..=kappa {
                keystream_planes::fill(kernels, width, keys.pad_stream(output, j), first, &mut key, &mut out);
                black_box(&out);
            }
        }
    }
}

fn pack_only(kernels: &dyn Kernels, field: &Field, elements: &[u32]) {
    let mut out = vec![0; packing::packed_length(field, kernels.tile_rows())];
    for tile in elements.chunks(kernels.tile_rows()) {
        match Width::of(field) {
            Width::Narrow => packing::pack_words(kernels, field.bits(), tile, &mut out),
            Width::Wide => packing::pack_halves(kernels, field.bits(), tile, tile, &mut out),
        }
        black_box(&out);
    }
}

/// What one would write first: row by row, one reduction at the end of each. No pads, no packing.
fn plain_row_loop(setup: &Setup, job: &ScanJob<'_>) {
    let function = &job.program.functions[0];
    let RowFunctionKind::Linear { slope, .. } = &function.shape else { return };
    let slope: Vec<u64> = slope.iter().map(|s| s.value()).collect();
    let (q, constant) = (setup.field.q(), function.constant.value());
    let mut sum_of_all = 0u64;
    for row in setup.rows.chunks_exact(slope.len()) {
        let mut sum = constant;
        for (&y, &slope) in row.iter().zip(&slope) {
            let y = u64::from(y);
            // Slopes below 2^40 leave room for 2^8 features of 16 bits each.
            sum += y * y + slope * y;
        }
        sum_of_all = sum_of_all.wrapping_add(sum % q);
    }
    black_box(sum_of_all);
}

fn random_symbols(setup: &Setup, count: usize) -> Vec<u32> {
    let mut random = SeededRandom::new(5);
    let mut bytes = vec![0; count * 4];
    random.fill(&mut bytes);
    let mask = u32::MAX.checked_shr(32u32.saturating_sub(setup.field.bits())).unwrap_or(u32::MAX);
    bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word) & mask).collect()
}

fn random_records(options: &BenchOptions) -> (Vec<u8>, Vec<u8>) {
    let mut random = SeededRandom::new(6);
    let count = options.rows.min(MOST_RECORDS);
    let mut records = vec![0; count * options.record_bytes];
    let mut subset = vec![0; count.div_ceil(8)];
    random.fill(&mut records);
    random.fill(&mut subset);
    (records, subset)
}
