//! `ifonly build`: from a table to the bundle that servers load.

use crate::exit::{Done, Failure};
use ifonly_bundle::{BuildError, BuildOptions, DeploymentOptions, Progress, Stage, build};
use ifonly_core::manifest::Operator;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::path::PathBuf;

/// Build a bundle from CSV or Parquet: who was accepted, what the columns mean, how it will be served.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example: ifonly build applications.csv -o loans.bundle --target decision --accept yes
         ifonly build wine.parquet -o wine.bundle --target quality --accept '>=7' --levels 50 --servers 3")]
pub(crate) struct Args {
    /// A CSV or Parquet file.
    data: PathBuf,
    /// The bundle's directory.
    #[arg(short, long, value_name = "BUNDLE")]
    output: PathBuf,
    /// The column that says who was accepted; without one, every row was.
    #[arg(long, value_name = "COLUMN")]
    target: Option<String>,
    /// A value or a comparison such as '>=5' that means acceptance; any of several is enough.
    #[arg(long, value_name = "VALUE")]
    accept: Vec<String>,
    /// A schema file (TOML); docs/bundles.md describes it.
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Levels of continuous columns that do not say otherwise.
    #[arg(long, value_name = "R")]
    levels: Option<u32>,
    /// What separates the fields of a CSV file.
    #[arg(long, value_name = "CHARACTER")]
    delimiter: Option<char>,
    /// The dataset's name; the file's unless given.
    #[arg(long)]
    name: Option<String>,
    /// The dataset's version.
    #[arg(long, value_name = "VERSION")]
    data_version: Option<String>,
    /// Replace a bundle of that name.
    #[arg(long)]
    replace: bool,
    /// How many servers will hold it.
    #[arg(long, value_name = "N")]
    servers: Option<u8>,
    /// Who runs a server and where, in order: "Name" or "Name=https://address". Their number is that of the servers.
    #[arg(long = "operator", value_name = "NAME[=URL]")]
    operators: Vec<String>,
    /// T: any so many servers together learn nothing.
    #[arg(long, value_name = "T")]
    threshold: Option<usize>,
    /// S: so many servers may be silent.
    #[arg(long, value_name = "S")]
    silent: Option<usize>,
    /// B: so many servers may lie and are corrected.
    #[arg(long, value_name = "B")]
    lying: Option<usize>,
    /// List the rows in stored order; distances can then be linked across sessions.
    #[arg(long)]
    no_shuffle: bool,
    /// Ask everything twice, so that a lying server shows.
    #[arg(long)]
    verified: bool,
    /// The largest weight.
    #[arg(long, value_name = "L1")]
    weight_limit: Option<u64>,
    /// The most immutable features (Single-Phase).
    #[arg(long, value_name = "F")]
    immutable_limit: Option<usize>,
    /// d_min of the Mask schemes.
    #[arg(long, value_name = "D_MIN")]
    mask: Option<u64>,
    /// p of the lp schemes, even.
    #[arg(long, value_name = "P")]
    exponent: Option<u32>,
    /// The largest entry of a cost table.
    #[arg(long, value_name = "COST")]
    cost_limit: Option<u64>,
    /// The most records of one search.
    #[arg(long, value_name = "K")]
    top_limit: Option<usize>,
    /// Which schemes to offer; all that fit unless given.
    #[arg(long = "scheme", value_name = "SCHEME")]
    schemes: Vec<String>,
    /// The scheme to prefer.
    #[arg(long, value_name = "SCHEME")]
    default_scheme: Option<String>,
    /// The key epochs in use, the current one first.
    #[arg(long = "epoch", value_name = "EPOCH")]
    epochs: Vec<u32>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

impl Args {
    fn options(&self) -> Result<BuildOptions, Failure> {
        let delimiter = match self.delimiter.map(u8::try_from) {
            Some(Err(_)) => return Err(Failure::Input("--delimiter: it must be one ASCII character".into())),
            Some(Ok(delimiter)) => Some(delimiter),
            None => None,
        };
        if self.operators.len() > usize::from(u8::MAX) {
            return Err(Failure::Input("--operator: 255 servers are the most".into()));
        }
        let operator = |(index, text): (u8, &String)| match text.split_once('=') {
            Some((name, url)) => Operator { index, name: name.into(), url: Some(url.into()) },
            None => Operator { index, name: text.clone(), url: None },
        };
        Ok(BuildOptions {
            data: self.data.clone(),
            output: self.output.clone(),
            replace: self.replace,
            target: self.target.clone(),
            accept: self.accept.clone(),
            schema: self.schema.clone(),
            levels: self.levels,
            delimiter,
            name: self.name.clone(),
            version: self.data_version.clone(),
            deployment: DeploymentOptions {
                servers: self.servers,
                operators: (1..).zip(&self.operators).map(operator).collect(),
                threshold: self.threshold,
                silent: self.silent,
                lying: self.lying,
                shuffle: self.no_shuffle.then_some(false),
                verified: self.verified.then_some(true),
                weight_limit: self.weight_limit,
                immutable_limit: self.immutable_limit,
                mask: self.mask,
                exponent: self.exponent,
                cost_limit: self.cost_limit,
                top_limit: self.top_limit,
                schemes: self.schemes.clone(),
                default_scheme: self.default_scheme.clone(),
                epochs: self.epochs.clone(),
            },
        })
    }
}

pub(crate) fn run(args: &Args) -> Result<Done, Failure> {
    let options = args.options()?;
    let bar = bar(std::io::stderr().is_terminal());
    let result = build(&options, &mut |progress| show(&bar, progress));
    bar.finish_and_clear();
    let report = result.map_err(|error| match error {
        BuildError::Io { .. } => Failure::machine(error),
        other => Failure::input(other),
    })?;
    match args.json {
        true => println!("{}", serde_json::to_string(&report).map_err(Failure::machine)?),
        false => println!("{report}wrote {}", options.output.display()),
    }
    Ok(Done::Fine)
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

fn show(bar: &ProgressBar, progress: Progress) {
    bar.set_message(match progress.stage {
        Stage::Learning => "learning",
        Stage::Encoding => "encoding",
    });
    bar.set_length(progress.total);
    bar.set_position(progress.done);
}
