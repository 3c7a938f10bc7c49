//! `ifonly build`: builds a bundle from a table, with a progress bar on a terminal.

use crate::cli::exit::{CommandError, CommandOutcome, out, out_json};
use crate::cli::hints;
use ifonly_bundle::{BuildOptions, BuildProgress, BuildStage, build};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// Build a bundle from CSV or Parquet. A bundle is the directory that every server loads.
///
/// It contains the accepted rows, the signed records and the public manifest. The institution runs
/// this command and keeps the signing key.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ifonly build applications.csv -o loans.bundle --target decision --accept yes
  ifonly build wine.parquet -o wine.bundle --target quality --accept '>=7' --levels 50 --servers 3
  ifonly build loans.csv -o loans.bundle --target decision --accept yes \\
      --signing-key loans.signing.key --scheme gated-tables --scheme mask --d-min 5

docs/bundles.md describes columns, schema files and missing values; docs/schemes.md the schemes.")]
pub(crate) struct Args {
    #[command(flatten)]
    options: BuildOptions,
    /// Print the report as JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    let bar = progress_bar(std::io::stderr().is_terminal());
    let result = build(&args.options, &mut |progress| show(&bar, progress));
    bar.finish_and_clear();
    let report = result.map_err(|error| CommandError::from_category(error.category(), hints::for_build(&error)))?;
    if args.json {
        out_json(&report)?
    } else {
        out(&format!("{report}wrote {}\n", args.options.output.display()))?
    }
    Ok(CommandOutcome::Success)
}

fn progress_bar(terminal: bool) -> ProgressBar {
    if !terminal {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg:10} [{wide_bar}] {percent:>3} %  {eta}");
    let bar = ProgressBar::no_length();
    // The template is a constant, so this cannot fail; the default style would do as well.
    if let Ok(style) = style { bar.with_style(style) } else { bar }
}

fn show(bar: &ProgressBar, progress: BuildProgress) {
    bar.set_message(match progress.stage {
        BuildStage::Unpacking => "unpacking",
        BuildStage::Learning => "learning",
        BuildStage::Encoding => "encoding",
        BuildStage::Signing => "signing",
    });
    bar.set_length(progress.total);
    bar.set_position(progress.done);
}
