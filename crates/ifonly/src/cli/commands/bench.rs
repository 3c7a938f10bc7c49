//! `ifonly bench`: every part of a query on this machine, and with `--http` a whole search over
//! real servers.

use crate::cli::exit::{CommandError, CommandOutcome, out, out_json};
use crate::end_to_end::{self, EndToEndReport, RowOrder};
use crate::{sealed_bench, timing};
use ifonly_core::scheme::{self, ConstraintKind, CostModel};
use ifonly_scan::Backend;
use ifonly_scan::bench::{self, BenchClock, BenchOptions, BenchReport, BenchRowFunction};
use ifonly_server::peers::RandomnessMode;
use std::time::Duration;

/// Measure every part of a query on this machine, each as a ratio to reading the same rows.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example: ifonly bench --form gated --rows 1000000
         ifonly bench --rows 1000000 --http
         ifonly bench --rows 1000000 --http=two-phase --json
         ifonly bench --rows 1000000 --features 11 --range 100 --http=sealed --round-trip 2
         ifonly bench --rows 1000000 --features 11 --range 100 --http=sealed --randomness keys
         ifonly bench --timing")]
pub(crate) struct Args {
    /// Rows of the database
    #[arg(long, default_value_t = 4_000_000)]
    rows: usize,
    /// Features of a row
    #[arg(long, default_value_t = 32)]
    features: usize,
    /// The largest level of every feature
    #[arg(long, default_value_t = 255)]
    range: u32,
    /// Which row function
    #[arg(long, alias = "scheme", value_enum, default_value_t = Form::Baseline)]
    form: Form,
    /// Bits of the field; as few as the form allows if not given
    #[arg(long)]
    bits: Option<u32>,
    /// Servers, so that there are one fewer pads per symbol
    #[arg(long, default_value_t = 2)]
    servers: usize,
    /// Threads of one answer
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Queries that share a pass; 1 measures no batch
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Bytes of a record
    #[arg(long, default_value_t = 64)]
    record_bytes: usize,
    /// Rounds; every part keeps its best
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Which kernels: portable, avx2 or avx512; the fastest if not given
    #[arg(long, value_parser = backend)]
    backend: Option<Backend>,
    /// Which clock; the thread's for one thread, else the wall's, if not given
    #[arg(long, value_enum)]
    clock: Option<Timer>,
    /// Seed of the random rows
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Also measure whole searches over HTTPS: as many servers on loopback as the scheme needs, the
    /// real client, and the same search without a network to compare. The scheme is the form's, or
    /// any that is named here
    #[arg(long, value_name = "SCHEME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    http: Option<String>,
    /// Measure instead whether the time between an answer and the next request tells what was
    /// decoded, with so many searches of each kind at 300,000 and at 2,000,000 rows
    #[arg(long, value_name = "SEARCHES", num_args = 0..=1, require_equals = true, default_missing_value = "200", conflicts_with = "http")]
    timing: Option<usize>,
    /// With --http=sealed: milliseconds that are added to every round trip between the servers
    #[arg(long, value_name = "MS", default_value_t = 0.0, requires = "http")]
    round_trip: f64,
    /// With --http=sealed: where random bits between the servers come from, `system` or `keys`
    #[arg(long, value_name = "SOURCE", default_value_t = RandomnessMode::System, requires = "http")]
    randomness: RandomnessMode,
    /// With --http: servers that list the rows as stored instead of in a fresh order for every
    /// search
    #[arg(long, requires = "http")]
    stored_order: bool,
}

/// The row functions by name.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Form {
    /// Squared distance
    Baseline,
    /// Weighted squared distance
    Weighted,
    /// One table per feature
    Table,
    /// Two weighted quadratic forms and two symbols per row
    Gated,
    /// Two table forms and two symbols per row
    GatedTable,
}

impl Form {
    /// What is measured, and the scheme that has this row function.
    fn measured(self) -> (BenchRowFunction, &'static str) {
        let (form, metric, gate) = match self {
            Form::Baseline => (BenchRowFunction::Baseline, CostModel::Squared, ConstraintKind::None),
            Form::Weighted => (BenchRowFunction::Weighted, CostModel::Weighted, ConstraintKind::None),
            Form::Table => (BenchRowFunction::Table, CostModel::Table, ConstraintKind::None),
            Form::Gated => (BenchRowFunction::Gated, CostModel::Squared, ConstraintKind::Zeros),
            Form::GatedTable => (BenchRowFunction::GatedTable, CostModel::Table, ConstraintKind::Table),
        };
        (form, scheme::leanest(metric, gate).name)
    }
}

/// The clocks by name.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Timer {
    /// The CPU time of the measuring thread
    Thread,
    /// The time on the wall; the only one that means something for several threads
    Wall,
}

fn backend(name: &str) -> Result<Backend, String> {
    let here: Vec<String> = Backend::available().iter().map(Backend::to_string).collect();
    Backend::named(name).ok_or_else(|| format!("this machine runs {}", here.join(" and ")))
}

/// Both reports in one document.
#[derive(serde::Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    parts: &'a BenchReport,
    end_to_end: Option<&'a EndToEndReport>,
}

pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    if let Some(searches) = args.timing {
        let timing = timing::measure(searches.max(1), args.seed)?;
        match args.json {
            true => out_json(&timing)?,
            false => out(&timing.to_string())?,
        }
        return Ok(CommandOutcome::Fine);
    }
    let (form, scheme) = args.form.measured();
    let options = BenchOptions {
        rows: args.rows,
        features: args.features,
        range: args.range,
        function: form,
        bits: args.bits,
        servers: args.servers,
        threads: args.threads,
        batch: args.batch,
        record_bytes: args.record_bytes,
        rounds: args.rounds,
        backend: args.backend.unwrap_or(Backend::best()),
        clock: args.clock.map(|clock| match clock {
            Timer::Thread => BenchClock::Thread,
            Timer::Wall => BenchClock::Wall,
        }),
        seed: args.seed,
    };
    if args.http.as_deref() == Some(ifonly_core::scheme::sealed::SCHEME.name) {
        return sealed(args, &options);
    }
    let mut report = bench::measure(&options).map_err(CommandError::input)?;
    let order = if args.stored_order { RowOrder::Stored } else { RowOrder::Shuffled };
    let search = |name: &str| end_to_end::measure(&options, if name.is_empty() { scheme } else { name }, order);
    let end_to_end = args.http.as_deref().map(search).transpose()?;
    if let Some(end_to_end) = &end_to_end {
        report.add("end to end over loopback HTTPS", end_to_end.search_milliseconds / 1e3);
    }
    if args.json {
        let document = Document { parts: &report, end_to_end: end_to_end.as_ref() };
        println!("{}", serde_json::to_string_pretty(&document).map_err(CommandError::machine)?);
    } else {
        print!("{report}");
        if let Some(end_to_end) = &end_to_end {
            print!("\n{end_to_end}");
        }
    }
    Ok(CommandOutcome::Fine)
}

/// A sealed search has other parts than a scan.
fn sealed(args: &Args, options: &BenchOptions) -> Result<CommandOutcome, CommandError> {
    let round_trip = Duration::try_from_secs_f64(args.round_trip / 1e3)
        .map_err(|_| CommandError::Input(format!("--round-trip {}: milliseconds are 0 or more", args.round_trip)))?;
    let report = sealed_bench::measure(options, round_trip, args.randomness)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report).map_err(CommandError::machine)?);
    } else {
        print!("{report}");
    }
    Ok(CommandOutcome::Fine)
}
