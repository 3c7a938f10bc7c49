//! `ifonly build`: from a table to the bundle that servers load.

use crate::cli::exit::{CommandError, CommandOutcome, out, out_json};
use ifonly_bundle::{BuildOptions, BuildProgress, BuildStage, build};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// Build a bundle from CSV or Parquet: who was accepted, what the columns mean, how it will be
/// served.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example: ifonly build applications.csv -o loans.bundle --target decision --accept yes
         ifonly build wine.parquet -o wine.bundle --target quality --accept '>=7' --levels 50 --servers 3")]
pub(crate) struct Args {
    #[command(flatten)]
    options: BuildOptions,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    let bar = bar(std::io::stderr().is_terminal());
    let result = build(&args.options, &mut |progress| show(&bar, progress));
    bar.finish_and_clear();
    let report = result.map_err(|error| CommandError::of(error.category(), error))?;
    match args.json {
        true => out_json(&report)?,
        false => out(&format!("{report}wrote {}\n", args.options.output.display()))?,
    }
    Ok(CommandOutcome::Fine)
}

fn bar(terminal: bool) -> ProgressBar {
    if !terminal {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg:10} [{wide_bar}] {percent:>3} %  {eta}");
    let bar = ProgressBar::no_length();
    // The template is a constant; without it the bar merely looks plainer.
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
