//! Options and output of the program `ifonly-bench`, which `ifonly bench` starts.

use crate::dataset::RowOrder;
use crate::end_to_end::{self, EndToEndReport};
use crate::kernels::{self, BenchClock, BenchOptions, BenchReport, BenchRowFunction};
use crate::servers::PeerConnection;
use crate::{BenchError, sealed, timing};
use ifonly_core::scheme::{self, ConstraintKind, CostModel};
use ifonly_scan::Backend;
use ifonly_server::peers::RandomnessMode;
use std::io::{ErrorKind, Write};
use std::time::Duration;

/// Measure every part of a query on this machine, as a ratio to reading the same rows.
#[derive(Debug, clap::Parser)]
#[command(
    name = "ifonly-bench",
    bin_name = "ifonly bench",
    version,
    after_help = "\
Example: ifonly bench --row-function gated --rows 1000000
         ifonly bench --rows 1000000 --http
         ifonly bench --rows 1000000 --http=two-phase --json
         ifonly bench --rows 1000000 --features 11 --max-level 100 --http=sealed --round-trip 2
         ifonly bench --rows 1000000 --features 11 --max-level 100 --http=sealed --randomness keys
         ifonly bench --timing"
)]
pub struct Args {
    /// Number of rows
    #[arg(long, default_value_t = 4_000_000)]
    rows: usize,
    /// Features of a row
    #[arg(long, default_value_t = 32)]
    features: usize,
    /// Largest level of every feature
    #[arg(long, default_value_t = 255)]
    max_level: u32,
    /// Row function to evaluate
    #[arg(long, value_enum, default_value_t = RowFunctionArg::Baseline)]
    row_function: RowFunctionArg,
    /// Bits of the field [default: the smallest field that the row function allows]
    #[arg(long)]
    bits: Option<u32>,
    /// Number of servers N; every output has N − 1 pads
    #[arg(long, default_value_t = 2)]
    servers: usize,
    /// Threads of one answer
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Bytes of a record
    #[arg(long, default_value_t = 64)]
    record_bytes: usize,
    /// Number of rounds; every part keeps its best time
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Kernels: portable, avx2 or avx512 [default: the fastest of this machine]
    #[arg(long, value_parser = backend)]
    backend: Option<Backend>,
    /// Clock [default: thread for one thread, wall otherwise]
    #[arg(long, value_enum)]
    clock: Option<ClockArg>,
    /// Seed of the random rows
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Also measure whole searches over HTTPS: as many servers on loopback as the scheme needs, the
    /// real client, and the same search without a network for comparison. SCHEME is the name of a
    /// scheme [default: a scheme with the chosen row function]
    #[arg(long, value_name = "SCHEME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    http: Option<String>,
    /// Measure only whether the time between an answer and the next request reveals what was
    /// decoded, with SEARCHES searches of each kind at 300,000 and at 2,000,000 rows
    #[arg(long, value_name = "SEARCHES", num_args = 0..=1, require_equals = true, default_missing_value = "200", conflicts_with = "http")]
    timing: Option<usize>,
    /// With --http=sealed: milliseconds to add to every round trip between the servers
    #[arg(long, value_name = "MS", default_value_t = 0.0, requires = "http")]
    round_trip: f64,
    /// With --http=sealed: source of random bits between the servers, `system` or `keys`
    #[arg(long, value_name = "SOURCE", default_value_t = RandomnessMode::System, requires = "http")]
    randomness: RandomnessMode,
    /// With --http: servers do not shuffle the rows
    #[arg(long, requires = "http")]
    stored_order: bool,
}

/// The row functions by name.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum RowFunctionArg {
    /// Squared distance
    Baseline,
    /// Weighted squared distance
    Weighted,
    /// One table per feature
    Table,
    /// Two weighted quadratic functions and two field elements per row
    Gated,
    /// Two table functions and two field elements per row
    GatedTable,
    /// Two table functions in one word per row: the default search
    Lifted,
}

impl RowFunctionArg {
    /// The row function, and the name of a scheme that uses it.
    fn with_scheme(self) -> (BenchRowFunction, &'static str) {
        let (function, cost, constraint) = match self {
            RowFunctionArg::Baseline => (BenchRowFunction::Baseline, CostModel::Squared, ConstraintKind::None),
            RowFunctionArg::Weighted => (BenchRowFunction::Weighted, CostModel::Weighted, ConstraintKind::None),
            RowFunctionArg::Table => (BenchRowFunction::Table, CostModel::Table, ConstraintKind::None),
            RowFunctionArg::Gated => (BenchRowFunction::Gated, CostModel::Squared, ConstraintKind::Zeros),
            RowFunctionArg::GatedTable => (BenchRowFunction::GatedTable, CostModel::Table, ConstraintKind::Table),
            RowFunctionArg::Lifted => (BenchRowFunction::Lifted, CostModel::Table, ConstraintKind::Table),
        };
        (function, scheme::smallest(cost, constraint).name)
    }
}

/// The clocks by name.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ClockArg {
    /// CPU time of the measuring thread
    Thread,
    /// Wall-clock time, the only clock that is meaningful for several threads
    Wall,
}

fn backend(name: &str) -> Result<Backend, String> {
    let available: Vec<String> = Backend::available().iter().map(Backend::to_string).collect();
    Backend::named(name).ok_or_else(|| format!("this machine supports {}", available.join(" and ")))
}

/// Both reports in one document.
#[derive(serde::Serialize)]
struct BenchDocument<'a> {
    #[serde(flatten)]
    parts: &'a BenchReport,
    end_to_end: Option<&'a EndToEndReport>,
}

/// Measures what the options say, and prints the report.
pub fn run(args: &Args) -> Result<(), BenchError> {
    if let Some(searches) = args.timing {
        let report = timing::measure(searches.max(1), args.seed)?;
        return print(&if args.json { json(&report)? } else { report.to_string() });
    }
    let (row_function, scheme) = args.row_function.with_scheme();
    let options = args.options(row_function);
    if args.http.as_deref() == Some(scheme::sealed::SCHEME.name) {
        let report = sealed::measure(&options, args.peers()?)?;
        return print(&if args.json { json(&report)? } else { report.to_string() });
    }
    let mut report = kernels::measure(&options)?;
    let order = if args.stored_order { RowOrder::Stored } else { RowOrder::Shuffled };
    let search = |name: &str| end_to_end::measure(&options, if name.is_empty() { scheme } else { name }, order);
    let end_to_end = args.http.as_deref().map(search).transpose()?;
    if let Some(end_to_end) = &end_to_end {
        report.add("end to end over loopback HTTPS", end_to_end.search_milliseconds / 1e3);
    }
    if args.json {
        return print(&json(&BenchDocument { parts: &report, end_to_end: end_to_end.as_ref() })?);
    }
    print(&match end_to_end {
        Some(end_to_end) => format!("{report}\n{end_to_end}"),
        None => report.to_string(),
    })
}

impl Args {
    fn options(&self, row_function: BenchRowFunction) -> BenchOptions {
        BenchOptions {
            rows: self.rows,
            features: self.features,
            max_level: self.max_level,
            row_function,
            bits: self.bits,
            servers: self.servers,
            threads: self.threads,
            record_bytes: self.record_bytes,
            rounds: self.rounds,
            backend: self.backend.unwrap_or(Backend::best()),
            clock: self.clock.map(|clock| match clock {
                ClockArg::Thread => BenchClock::Thread,
                ClockArg::Wall => BenchClock::Wall,
            }),
            seed: self.seed,
        }
    }

    fn peers(&self) -> Result<PeerConnection, BenchError> {
        let round_trip = Duration::try_from_secs_f64(self.round_trip / 1e3).map_err(|_| {
            BenchError::input(format!("--round-trip {}: the number of milliseconds must be 0 or more", self.round_trip))
        })?;
        Ok(PeerConnection { round_trip, randomness: self.randomness })
    }
}

fn json(report: &impl serde::Serialize) -> Result<String, BenchError> {
    Ok(serde_json::to_string_pretty(report).map_err(BenchError::machine)? + "\n")
}

/// Writes to standard output. A reader that closes the pipe early, such as `head`, is not an error.
fn print(text: &str) -> Result<(), BenchError> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(BenchError::machine(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
