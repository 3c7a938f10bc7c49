//! `ifonly bench`: every part of a query on this machine, and with `--http` a whole search over real servers.

use crate::end_to_end::{self, EndToEnd, Order};
use crate::exit::{Done, Failure};
use ifonly_scan::bench::{self, BenchArgs, BenchForm, Report};

/// Measure every part of a query on this machine, each as a ratio to reading the same rows.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example: ifonly bench --form gated --rows 1000000
         ifonly bench --rows 1000000 --http
         ifonly bench --rows 1000000 --http=two-phase --json")]
pub(crate) struct Args {
    #[command(flatten)]
    bench: BenchArgs,
    /// Also measure whole searches over HTTPS: as many servers on loopback as the scheme needs, the real client, and the
    /// same search without a network to compare. The scheme is the form's, or any that is named here
    #[arg(long, value_name = "SCHEME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    http: Option<String>,
    /// With --http: servers that list the rows as stored instead of in a fresh order for every search
    #[arg(long, requires = "http")]
    stored_order: bool,
}

/// Both reports in one document.
#[derive(serde::Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    parts: &'a Report,
    end_to_end: Option<&'a EndToEnd>,
}

pub(crate) fn run(args: &Args) -> Result<Done, Failure> {
    let mut report = bench::measure(&args.bench).map_err(Failure::input)?;
    let order = if args.stored_order { Order::Stored } else { Order::Shuffled };
    let search = |name: &str| {
        let scheme = if name.is_empty() { scheme_of(args.bench.form) } else { name };
        end_to_end::measure(&args.bench, scheme, order)
    };
    let end_to_end = args.http.as_deref().map(search).transpose()?;
    if let Some(end_to_end) = &end_to_end {
        report.add("end to end over loopback HTTPS", end_to_end.search_milliseconds / 1e3);
    }
    if args.bench.json {
        let document = Document { parts: &report, end_to_end: end_to_end.as_ref() };
        println!("{}", serde_json::to_string_pretty(&document).map_err(Failure::machine)?);
    } else {
        print!("{report}");
        if let Some(end_to_end) = &end_to_end {
            print!("\n{end_to_end}");
        }
    }
    Ok(Done::Fine)
}

/// The scheme whose row function a form measures.
fn scheme_of(form: BenchForm) -> &'static str {
    match form {
        BenchForm::Baseline => "baseline",
        BenchForm::Weighted => "linear-baseline+",
        BenchForm::Table => "table",
        BenchForm::Gated => "gated",
        BenchForm::GatedTable => "gated-tables",
    }
}
