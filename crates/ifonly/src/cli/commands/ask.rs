//! `ifonly ask`: one search for the rows nearest to the user's values.
//!
//! The scheme is visible to the servers. Therefore it is the default of the manifest or the user's
//! explicit choice, and never depends on the wishes.

use crate::cli::connection_args::{ConnectionArgs, PinArgs};
use crate::cli::exit::{CommandError, CommandOutcome};
use crate::cli::profile_args::split;
use crate::cli::{connection_args, exit, profile_args, profile_file, render};
use ifonly_client::{Answer, ProfileValues, WishList};
use ifonly_values::schema::Value;
use ifonly_values::wishes::{Metric, UnknownMetric};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Find the accepted row nearest to your values. No server learns anything about them.
///
/// The answer lists the features in which that row differs from you, and the cost of each change.
/// Wishes limit the changes (--immutable, --range …) or set their costs (--weight, --cost …).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ifonly profile https://a.example https://b.example > me.toml
  ifonly ask --server https://a.example --server https://b.example --profile me.toml
  ifonly ask --server https://a.example --server https://b.example --profile me.toml \\
      --suggested-immutable --only-up years_employed --range amount=5000:20000 --max-changes 2

FEATURES is a list of names separated by commas. Put a name or value that contains a comma in
double quotes.

Exit codes:
  0  a row was found
  1  problem of this machine
  2  invalid command line
  3  no row matches the wishes
  4  invalid profile, wishes or other input
  5  too few servers answered
  6  servers contradict each other; no result is shown
Details: docs/asking.md for wishes and costs, docs/configuration.md#exit-codes for exit codes.")]
pub(crate) struct Args {
    /// Address of a server; repeat the flag for all servers, in any order.
    #[arg(long = "server", value_name = "URL", required = true)]
    servers: Vec<String>,
    /// File with your values: a JSON object, a TOML table, or a row of a CSV or Parquet file, also
    /// compressed (gzip, Zstandard); `-` for standard input. `ifonly profile` writes a template.
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Row of the profile, if it is a table, counted from 1.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    row: u64,
    /// One of your values; overrides the profile; repeatable.
    #[arg(long = "set", value_name = "FEATURE=VALUE")]
    set: Vec<String>,
    /// Features that must not change.
    #[arg(long, value_name = "FEATURES")]
    immutable: Vec<String>,
    /// Also keep the features that the institution marks as hard to change; `ifonly profile` shows
    /// them.
    #[arg(long)]
    suggested_immutable: bool,
    /// The only features that may change; default: all.
    #[arg(long, value_name = "FEATURES")]
    features_to_vary: Vec<String>,
    /// Factor for the cost of a feature, from 0.01 to 1000; default 1.
    #[arg(long = "weight", value_name = "FEATURE=WEIGHT")]
    weights: Vec<String>,
    /// Permitted range of a feature, inclusive; omit a bound to leave it open. `..` may replace the
    /// colon, for example in times.
    #[arg(long = "range", value_name = "FEATURE=LOW:HIGH")]
    ranges: Vec<String>,
    /// Permitted values of a feature.
    #[arg(long = "permit", value_name = "FEATURE=A,B,…")]
    permits: Vec<String>,
    /// Features whose value must not fall.
    #[arg(long, value_name = "FEATURES")]
    only_up: Vec<String>,
    /// Features whose value must not rise.
    #[arg(long, value_name = "FEATURES")]
    only_down: Vec<String>,
    /// Cost metric: l2 or l1 (relative to the value range), mad (relative to the deviation), or
    /// count (1 per change).
    #[arg(long, value_name = "METRIC", default_value = "l2")]
    metric: String,
    /// Cost of one feature: a metric, or one weight for rising and one for falling values.
    #[arg(long = "cost", value_name = "FEATURE=l1|up:3,down:0.5")]
    costs: Vec<String>,
    /// JSON or TOML file with the cost of each target value, per feature; replaces the metric.
    #[arg(long, value_name = "FILE")]
    cost_table: Option<PathBuf>,
    /// Return only rows that change at most K features; prefer fewer changes.
    #[arg(long, value_name = "K")]
    max_changes: Option<u64>,
    /// Scheme to use (visible to the servers); default: that of the manifest. `ifonly inspect`
    /// lists the schemes.
    #[arg(long, value_name = "SCHEME")]
    scheme: Option<String>,
    /// Number of nearest rows to fetch (visible to the servers).
    #[arg(long, value_name = "N", default_value_t = 1)]
    top: usize,
    #[command(flatten)]
    pins: PinArgs,
    /// Print JSON instead of text, errors included.
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
    // Errors in files and flags are reported before the client contacts a server.
    let mut values = match &args.profile {
        Some(path) => profile_file::profile(path, args.row)?,
        None => ProfileValues::default(),
    };
    let wishes = wishes(args)?;
    let client = args.connection.connect(&args.servers, &args.pins.pins()).await?;
    let schema = client.manifest().schema();
    let set = args.set.iter().try_for_each(|assignment| profile_args::set(&mut values, schema, assignment));
    if let Err(failure) = set.and_then(|()| profile_args::complete(&mut values, schema)) {
        // The servers already expect a search. A dummy search hides from them that the profile is
        // invalid.
        client.dummy_search(&wishes).await;
        return Err(failure);
    }
    let answer = client.ask(&values, &wishes).await?;
    match args.json {
        true => exit::out_json(&answer)?,
        false => render::out(&text(&answer, args.max_changes.is_some()))?,
    }
    for note in &answer.notes {
        eprintln!("note: {}", render::clean(note));
    }
    Ok(if answer.found.is_empty() { CommandOutcome::NoMatch } else { CommandOutcome::Success })
}

/// The wish list that the flags describe.
fn wishes(args: &Args) -> Result<WishList, CommandError> {
    let mut list = WishList {
        immutable: lists(&args.immutable)?,
        suggested_immutable: args.suggested_immutable,
        features_to_vary: lists(&args.features_to_vary)?,
        only_up: lists(&args.only_up)?,
        only_down: lists(&args.only_down)?,
        metric: metric("--metric", &args.metric)?,
        costs: args.cost_table.as_deref().map(profile_args::costs).transpose()?.unwrap_or_default(),
        max_changes: args.max_changes,
        top: args.top,
        scheme: args.scheme.clone(),
        ..WishList::default()
    };
    for assignment in &args.weights {
        let (name, weight) = split(assignment, "--weight")?;
        let weight = weight.parse().map_err(|_| {
            CommandError::Input(format!("--weight {assignment}: the weight must be a number from 0.01 to 1000"))
        })?;
        once(&mut list.weights, "--weight", name, weight)?;
    }
    for assignment in &args.ranges {
        let (name, range) = split(assignment, "--range")?;
        let (low, high) = range
            .split_once("..")
            .or_else(|| range.split_once(':'))
            .ok_or_else(|| CommandError::Input(format!("--range {assignment}: write it as feature=low:high")))?;
        let bound = |text: &str| Some(text.trim()).filter(|text| !text.is_empty()).map(Value::from);
        once(&mut list.ranges, "--range", name, (bound(low), bound(high)))?;
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
            once(&mut list.prices, "--cost", name, metric(&format!("--cost {name}"), cost)?)?;
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

/// The names of all lists that a repeated flag gives.
fn lists(lists: &[String]) -> Result<Vec<String>, CommandError> {
    let lists: Vec<Vec<String>> = lists.iter().map(|list| profile_args::items(list)).collect::<Result<_, _>>()?;
    Ok(lists.concat())
}

/// Adds the entry of a feature; a second entry is an error.
fn once<T>(list: &mut BTreeMap<String, T>, flag: &str, name: &str, value: T) -> Result<(), CommandError> {
    match list.insert(name.into(), value) {
        None => Ok(()),
        Some(_) => Err(CommandError::Input(format!("{flag} {name} is given twice; give it once"))),
    }
}

fn metric(flag: &str, name: &str) -> Result<Metric, CommandError> {
    name.parse().map_err(|error: UnknownMetric| CommandError::Input(format!("{flag} {name}: {error}")))
}

/// The answer as text. `limited` says whether the wishes limit the number of changes; the client
/// applies that limit after decoding, so the number of matching rows ignores it.
fn text(answer: &Answer, limited: bool) -> String {
    let mut text = String::new();
    for (number, explanation) in answer.found.iter().enumerate() {
        if answer.requested > 1 {
            text += &format!("Result {}:\n", number + 1);
        }
        match explanation.changes.is_empty() {
            true => text += "A row with exactly your values was accepted.\n",
            false => text += &render::changes(&explanation.changes),
        }
        text += &format!("{}\n\n", render::cost(explanation));
    }
    if answer.found.is_empty() {
        text += &format!("No row in {} matches", render::clean(&answer.dataset.name));
        text += &match answer.wishes.is_empty() {
            true => ".\n".into(),
            false => format!(" your wishes: {}.\n", render::clean(&answer.wishes.join("; "))),
        };
    }
    let (up, down) = (render::bytes(answer.traffic.up), render::bytes(answer.traffic.down));
    let all = render::count(answer.rows as u64, "row");
    text += &match answer.matching_rows {
        Some(rows) => {
            let verb = if rows == 1 { "matches" } else { "match" };
            let scope = if limited { " without the limit of --max-changes" } else { "" };
            format!("{} of {all} {verb}{scope}", render::grouped(rows as u64))
        }
        None if answer.found.is_empty() => format!("searched {all}"),
        None => format!("searched {all}; this scheme does not reveal how many rows match"),
    };
    let servers = render::count(answer.servers as u64, "server");
    text += &format!("; scheme {}, {servers}, {up} up, {down} down\n", answer.scheme);
    for server in &answer.lying_servers {
        text += &format!("note: server {server} returned a wrong answer; it was corrected\n");
    }
    for failure in &answer.server_failures {
        text += &format!("note: {}\n", render::clean(&failure.to_string()));
    }
    text
}
