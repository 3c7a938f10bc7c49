//! `ifonly ask`: a person's question to real servers.
//!
//! The scheme is the manifest's default or the person's open choice, never a consequence of their
//! wishes: servers see it.

use crate::cli::connection_args::{ConnectionArgs, PinArgs};
use crate::cli::exit::{CommandError, CommandOutcome};
use crate::cli::profile_args::split;
use crate::cli::{connection_args, exit, profile_args, profile_file, render};
use ifonly_client::{Answer, ProfileValues, WishList};
use ifonly_values::schema::Value;
use ifonly_values::wishes::{Metric, UnknownMetric};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Ask who among the accepted is nearest to you, without telling the servers anything about you.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example: ifonly ask --server https://a.example --server https://b.example --profile me.json \\
             --immutable age --only-up years_employed --range amount=5000:20000
Exit codes: 0 found, 3 nothing qualifies, 2 usage, 4 profile or wishes, 5 servers out of reach, 6 servers contradict
each other, 1 this machine. docs/operations.md has more.")]
pub(crate) struct Args {
    /// A server's address; give all of them, in any order.
    #[arg(long = "server", value_name = "URL", required = true)]
    servers: Vec<String>,
    /// Your values: a JSON object, a TOML table, or a row of a CSV or Parquet file, also compressed
    /// (gzip, Zstandard); - is standard input. `ifonly profile` writes one to fill in.
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Which row of a profile with several, counted from 1.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    row: u64,
    /// One of your values; overrides the profile.
    #[arg(long = "set", value_name = "FEATURE=VALUE")]
    set: Vec<String>,
    /// Features that must stay as they are. Names with commas stand in double quotes, here and
    /// below.
    #[arg(long, value_name = "FEATURES")]
    immutable: Vec<String>,
    /// What the institution suggests as immutable stays as it is too; `ifonly profile` shows it.
    #[arg(long)]
    suggested_immutable: bool,
    /// Only these features may change.
    #[arg(long, value_name = "FEATURES")]
    features_to_vary: Vec<String>,
    /// How much a change of a feature counts, 0.01 to 1000.
    #[arg(long = "weight", value_name = "FEATURE=WEIGHT")]
    weights: Vec<String>,
    /// Where a feature must end; either end may be left open, and `..` may stand for the colon.
    #[arg(long = "range", value_name = "FEATURE=LOW:HIGH")]
    ranges: Vec<String>,
    /// At which values a feature must end.
    #[arg(long = "permit", value_name = "FEATURE=A,B,…")]
    permits: Vec<String>,
    /// Features that may only grow.
    #[arg(long, value_name = "FEATURES")]
    only_up: Vec<String>,
    /// Features that may only shrink.
    #[arg(long, value_name = "FEATURES")]
    only_down: Vec<String>,
    /// How changes are priced: l2 and l1 compare them with the feature's spread, mad with a typical
    /// deviation, count counts.
    #[arg(long, value_name = "METRIC", default_value = "l2")]
    metric: String,
    /// How changes of one feature are priced: a metric, or how much each direction counts.
    #[arg(long = "cost", value_name = "FEATURE=l1|up:3,down:0.5")]
    costs: Vec<String>,
    /// What ending at a value costs, instead of a price: a JSON or TOML file with a table of value
    /// = cost for each feature.
    #[arg(long, value_name = "FILE")]
    cost_table: Option<PathBuf>,
    /// Prefer rows that change few features; rows that change more than this many do not count.
    #[arg(long, value_name = "K")]
    max_changes: Option<u64>,
    /// Which scheme to ask with. Servers see it; the default is the manifest's.
    #[arg(long)]
    scheme: Option<String>,
    /// How many of the nearest to fetch. Servers see it.
    #[arg(long, default_value_t = 1)]
    top: usize,
    #[command(flatten)]
    pins: PinArgs,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    let result = connection_args::run(ask(args));
    if let (true, Err(failure)) = (args.json, &result) {
        exit::out_json(&failure.json())?;
    }
    result
}

async fn ask(args: &Args) -> Result<CommandOutcome, CommandError> {
    // What can be wrong with files and flags is found before any server hears of it.
    let mut values = match &args.profile {
        Some(path) => profile_file::profile(path, args.row)?,
        None => ProfileValues::default(),
    };
    let wishes = wishes(args)?;
    let client = args.connection.connect(&args.servers, &args.pins.pins()).await?;
    let schema = client.manifest().schema();
    let set = args.set.iter().try_for_each(|assignment| profile_args::set(&mut values, schema, assignment));
    if let Err(failure) = set.and_then(|()| profile_args::complete(&mut values, schema)) {
        // The servers have been met and must not see that somebody made a mistake.
        client.dummy_search(&wishes).await;
        return Err(failure);
    }
    let answer = client.ask(&values, &wishes).await?;
    match args.json {
        true => exit::out_json(&answer)?,
        false => render::out(&text(&answer))?,
    }
    for note in &answer.notes {
        eprintln!("note: {}", render::clean(note));
    }
    Ok(if answer.found.is_empty() { CommandOutcome::NothingQualifies } else { CommandOutcome::Fine })
}

/// The flags as wishes.
fn wishes(args: &Args) -> Result<WishList, CommandError> {
    let mut list = WishList {
        immutable: lists(&args.immutable)?,
        suggested_immutable: args.suggested_immutable,
        features_to_vary: lists(&args.features_to_vary)?,
        only_up: lists(&args.only_up)?,
        only_down: lists(&args.only_down)?,
        metric: pricing("--metric", &args.metric)?,
        costs: args.cost_table.as_deref().map(profile_args::costs).transpose()?.unwrap_or_default(),
        max_changes: args.max_changes,
        top: args.top,
        scheme: args.scheme.clone(),
        ..WishList::default()
    };
    for assignment in &args.weights {
        let (name, weight) = split(assignment, "--weight")?;
        let weight = weight.parse().map_err(|_| {
            CommandError::Input(format!("--weight {assignment}: a weight is a number from 0.01 to 1000"))
        })?;
        once(&mut list.weights, "--weight", name, weight)?;
    }
    for assignment in &args.ranges {
        let (name, range) = split(assignment, "--range")?;
        let (low, high) = range
            .split_once("..")
            .or_else(|| range.split_once(':'))
            .ok_or_else(|| CommandError::Input(format!("--range {assignment}: write it as feature=low:high")))?;
        let end = |text: &str| Some(text.trim()).filter(|text| !text.is_empty()).map(Value::from);
        once(&mut list.ranges, "--range", name, (end(low), end(high)))?;
    }
    for assignment in &args.permits {
        let (name, values) = split(assignment, "--permit")?;
        let values = profile_args::items(values)?.into_iter().map(Value::from).collect();
        once(&mut list.permits, "--permit", name, values)?;
    }
    for assignment in &args.costs {
        let (name, cost) = split(assignment, "--cost")?;
        let directions = cost.split(',').map(|part| part.trim().split_once(':')).collect::<Option<Vec<_>>>();
        let Some(directions) = directions else {
            once(&mut list.prices, "--cost", name, pricing(&format!("--cost {name}"), cost)?)?;
            continue;
        };
        let (mut up, mut down) = (1.0, 1.0);
        for (direction, weight) in directions {
            let refuse = || CommandError::Input(format!("--cost {assignment}: write it as feature=up:3,down:0.5"));
            let weight = weight.trim().parse().map_err(|_| refuse())?;
            match direction.trim() {
                "up" => up = weight,
                "down" => down = weight,
                _ => return Err(refuse()),
            }
        }
        once(&mut list.asymmetric, "--cost", name, (up, down))?;
    }
    Ok(list)
}

/// The names in all of these lists.
fn lists(lists: &[String]) -> Result<Vec<String>, CommandError> {
    let lists: Vec<Vec<String>> = lists.iter().map(|list| profile_args::items(list)).collect::<Result<_, _>>()?;
    Ok(lists.concat())
}

fn once<T>(list: &mut BTreeMap<String, T>, flag: &str, name: &str, value: T) -> Result<(), CommandError> {
    match list.insert(name.into(), value) {
        None => Ok(()),
        Some(_) => Err(CommandError::Input(format!("{flag} {name} is there twice; give it once"))),
    }
}

fn pricing(flag: &str, metric: &str) -> Result<Metric, CommandError> {
    metric.parse().map_err(|error: UnknownMetric| CommandError::Input(format!("{flag} {metric}: {error}")))
}

fn text(answer: &Answer) -> String {
    let mut text = String::new();
    for (number, explanation) in answer.found.iter().enumerate() {
        if answer.asked > 1 {
            text += &format!("Number {}:\n", number + 1);
        }
        match explanation.changes.is_empty() {
            true => text += "Somebody with exactly your values was accepted.\n",
            false => text += &render::changes(&explanation.changes),
        }
        text += &format!("{}\n\n", render::cost(explanation));
    }
    if answer.found.is_empty() {
        text += &format!("Nobody in {} qualifies", render::clean(&answer.dataset.name));
        text += &match answer.wishes.is_empty() {
            true => ".\n".into(),
            false => format!(" under your wishes: {}.\n", render::clean(&answer.wishes.join("; "))),
        };
    }
    let (up, down) = (render::bytes(answer.traffic.up), render::bytes(answer.traffic.down));
    let all = render::grouped(answer.rows as u64);
    text += &match answer.matching_rows {
        Some(rows) => format!("{} of {all} rows qualified", render::grouped(rows as u64)),
        None => format!("found among {all} rows; how many qualify is nobody's to know"),
    };
    text += &format!("; scheme {}, {} servers, {up} up, {down} down\n", answer.scheme, answer.servers);
    for liar in &answer.lying_servers {
        text += &format!("note: server {liar} lied or is out of step, and was corrected\n");
    }
    for failure in &answer.server_failures {
        text += &format!("note: {}\n", render::clean(&failure.to_string()));
    }
    text
}
