//! `ifonly ask`: one search for the rows nearest to the user's values.
//!
//! The scheme is visible to the servers. Therefore it is the default of the manifest or the user's
//! explicit choice, and never depends on the wishes.

use crate::cli::connection_args::{ConnectionArgs, PinArgs};
use crate::cli::exit::{CommandError, CommandOutcome};
use crate::cli::profile_args::split;
use crate::cli::{connection_args, exit, profile_args, profile_file, render};
use ifonly_client::query::wish_options::{
    COSTS, FEATURES_TO_VARY, IMMUTABLE, MAX_CHANGES, METRIC, ONLY_DOWN, ONLY_UP, PERMITS, PRICES, RANGES, SCHEME,
    SUGGESTED_IMMUTABLE, TOLERANCE, TOP, WAYS, WAYS_BY, WEIGHTS, flag_help,
};
use ifonly_client::{Answer, Explanation, ProfileValues, UnknownWaysBy, WaysBy, WishList};
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
    #[arg(long = IMMUTABLE.flag, value_name = IMMUTABLE.value, help = flag_help(IMMUTABLE.flag))]
    immutable: Vec<String>,
    #[arg(long = SUGGESTED_IMMUTABLE.flag, help = flag_help(SUGGESTED_IMMUTABLE.flag))]
    suggested_immutable: bool,
    #[arg(long = FEATURES_TO_VARY.flag, value_name = FEATURES_TO_VARY.value, help = flag_help(FEATURES_TO_VARY.flag))]
    features_to_vary: Vec<String>,
    #[arg(long = WEIGHTS.flag, value_name = WEIGHTS.value, help = flag_help(WEIGHTS.flag))]
    weights: Vec<String>,
    #[arg(long = RANGES.flag, value_name = RANGES.value, help = flag_help(RANGES.flag))]
    ranges: Vec<String>,
    #[arg(long = PERMITS.flag, value_name = PERMITS.value, help = flag_help(PERMITS.flag))]
    permits: Vec<String>,
    #[arg(long = ONLY_UP.flag, value_name = ONLY_UP.value, help = flag_help(ONLY_UP.flag))]
    only_up: Vec<String>,
    #[arg(long = ONLY_DOWN.flag, value_name = ONLY_DOWN.value, help = flag_help(ONLY_DOWN.flag))]
    only_down: Vec<String>,
    #[arg(long = METRIC.flag, value_name = METRIC.value, default_value = "l2", help = flag_help(METRIC.flag))]
    metric: String,
    #[arg(long = PRICES.flag, value_name = "FEATURE=l1|up:3,down:0.5", help = flag_help(PRICES.flag))]
    costs: Vec<String>,
    #[arg(long = COSTS.flag, value_name = COSTS.value, help = flag_help(COSTS.flag))]
    cost_table: Option<PathBuf>,
    #[arg(long = MAX_CHANGES.flag, value_name = MAX_CHANGES.value, help = flag_help(MAX_CHANGES.flag))]
    max_changes: Option<u64>,
    #[arg(long = TOLERANCE.flag, value_name = TOLERANCE.value, help = flag_help(TOLERANCE.flag))]
    tolerance: Vec<String>,
    #[arg(long = SCHEME.flag, value_name = SCHEME.value, help = flag_help(SCHEME.flag))]
    scheme: Option<String>,
    #[arg(long = TOP.flag, value_name = TOP.value, default_value_t = 1, help = flag_help(TOP.flag))]
    top: usize,
    #[arg(long = WAYS.flag, value_name = WAYS.value, default_value_t = 1, help = flag_help(WAYS.flag))]
    ways: usize,
    #[arg(long = WAYS_BY.flag, value_name = WAYS_BY.value, default_value = "feature", help = flag_help(WAYS_BY.flag))]
    ways_by: String,
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
    if args.json {
        exit::out_json(&answer)?
    } else {
        render::out(&text(&answer, args.max_changes.is_some()))?
    }
    for note in &answer.notes {
        eprintln!("note: {}", render::clean(&note.message));
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
        ways: args.ways,
        ways_by: ways_by(&args.ways_by)?,
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
    for assignment in &args.tolerance {
        let (name, size) = split(assignment, "--tolerance")?;
        once(&mut list.tolerance, "--tolerance", name, Value::from(size.trim()))?;
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
            once(&mut list.metrics, "--cost", name, metric(&format!("--cost {name}"), cost)?)?;
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
    list.check_costs().map_err(CommandError::input)?;
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

fn ways_by(name: &str) -> Result<WaysBy, CommandError> {
    name.parse().map_err(|error: UnknownWaysBy| CommandError::Input(format!("--ways-by {name}: {error}")))
}

/// What a way holds in addition to the wishes.
fn held(explanation: &Explanation) -> String {
    match &explanation.held[..] {
        [] => String::new(),
        held => format!(", with {} unchanged", render::clean(&held.join(", "))),
    }
}

/// The answer as text. `limited` says whether the wishes limit the number of changes; the client
/// applies that limit after decoding, so the number of matching rows ignores it.
fn text(answer: &Answer, limited: bool) -> String {
    let mut text = String::new();
    for (number, explanation) in answer.found.iter().enumerate() {
        if answer.requested > 1 {
            text += &format!("Result {}:\n", number + 1);
        }
        if answer.requested_ways > 1 {
            text += &format!("Way {}{}:\n", number + 1, held(explanation));
        }
        match explanation.changes.is_empty() {
            true if explanation.group.is_some() => text += "A record of accepted people has exactly your values.\n",
            true => text += "A row with exactly your values was accepted.\n",
            false => text += &render::changes(&explanation.changes),
        }
        text += &format!("{}\n", render::cost(explanation));
        if let Some(group) = &explanation.group {
            text += &format!("  the record {group}\n");
        }
        text += "\n";
    }
    if (1..answer.requested_ways).contains(&answer.found.len()) {
        text += &format!(
            "There is no further way: with these features held too, no row matches. {} of {} found.\n\n",
            answer.found.len(),
            render::count(answer.requested_ways as u64, "way"),
        );
    }
    if answer.found.is_empty() {
        let wishes: Vec<&str> = answer.wishes.iter().map(|wish| wish.message.as_str()).collect();
        text += &format!("No row in {} matches", render::clean(&answer.dataset.name));
        text += &if answer.wishes.is_empty() {
            ".\n".into()
        } else {
            format!(" your wishes: {}.\n", render::clean(&wishes.join("; ")))
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
        text += &format!("note: server {server} gave a wrong answer or a wrong index; this was corrected\n");
    }
    for failure in &answer.server_failures {
        text += &format!("note: {}\n", render::clean(&failure.to_string()));
    }
    text
}
