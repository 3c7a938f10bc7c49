//! `ifonly ask`: a person's question to real servers.
//!
//! The scheme is the manifest's default or the person's open choice, never a consequence of their wishes: servers see it.

use crate::exit::{Done, Failure};
use crate::profile::{self, split};
use crate::show;
use ifonly_client::http::{self, Trust};
use ifonly_client::{Answer, Client, Pins, Policy, Values, WishList};
use ifonly_core::schema::Value;
use ifonly_core::wishes::Pricing;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

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
    /// Your values: a JSON object, a TOML table, or a CSV with a header.
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Which row of a CSV profile, counted from 1.
    #[arg(long, default_value_t = 1)]
    row: usize,
    /// One of your values; overrides the profile.
    #[arg(long = "set", value_name = "FEATURE=VALUE")]
    set: Vec<String>,
    /// Features that must stay as they are.
    #[arg(long, value_name = "FEATURES", value_delimiter = ',')]
    immutable: Vec<String>,
    /// Only these features may change.
    #[arg(long, value_name = "FEATURES", value_delimiter = ',')]
    features_to_vary: Vec<String>,
    /// How much a change of a feature counts.
    #[arg(long = "weight", value_name = "FEATURE=WEIGHT")]
    weights: Vec<String>,
    /// Where a feature must end; either end may be left open.
    #[arg(long = "range", value_name = "FEATURE=LOW:HIGH")]
    ranges: Vec<String>,
    /// At which values a feature must end.
    #[arg(long = "permit", value_name = "FEATURE=A,B,…")]
    permits: Vec<String>,
    /// Features that may only grow.
    #[arg(long, value_name = "FEATURES", value_delimiter = ',')]
    only_up: Vec<String>,
    /// Features that may only shrink.
    #[arg(long, value_name = "FEATURES", value_delimiter = ',')]
    only_down: Vec<String>,
    /// How changes are priced: l2, l1, mad (in hundredths of the spread), or count (changed features).
    #[arg(long, value_name = "METRIC", default_value = "l2")]
    metric: String,
    /// Prefer rows that change few features; rows that change more than this many do not count.
    #[arg(long, value_name = "K")]
    few_changes: Option<u64>,
    /// Which scheme to ask with. Servers see it; the default is the manifest's.
    #[arg(long)]
    scheme: Option<String>,
    /// How many of the nearest to fetch. Servers see it.
    #[arg(long, default_value_t = 1)]
    top: usize,
    /// Refuse servers of which fewer than this many together could learn something.
    #[arg(long, value_name = "T")]
    threshold: Option<usize>,
    /// Refuse another manifest than the one with this digest, which `ifonly inspect` prints.
    #[arg(long, value_name = "DIGEST")]
    manifest: Option<String>,
    /// Refuse servers of other operators than these, in the order of their numbers.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    operators: Option<Vec<String>>,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
    /// Trust only the authorities in this PEM file.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// A bearer token for all servers; better in the environment than on the command line.
    #[arg(long, env = "IFONLY_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// How long one exchange with a server may take, retries included.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Allow plain HTTP to other machines. Whoever reads the links to all servers then reads your question.
    #[arg(long)]
    plain_http: bool,
}

pub(crate) fn run(args: &Args) -> Result<Done, Failure> {
    let result =
        tokio::runtime::Runtime::new().map_err(Failure::machine).and_then(|runtime| runtime.block_on(ask(args)));
    if let (true, Err(failure)) = (args.json, &result) {
        println!("{}", failure.json());
    }
    result
}

async fn ask(args: &Args) -> Result<Done, Failure> {
    let trust = match &args.ca {
        Some(path) => {
            let text = std::fs::read(path).map_err(|error| Failure::Input(format!("{}: {error}", path.display())))?;
            Trust::pem(&text)?
        }
        None => Trust::system()?,
    };
    let trust = trust.plain_http(args.plain_http);
    // What can be wrong with files and flags is found before any server hears of it.
    let mut values = match &args.profile {
        Some(path) => profile::load(path, args.row)?,
        None => Values::default(),
    };
    let wishes = wishes(args)?;
    let policy = Policy { deadline: Duration::from_secs(args.timeout), ..Policy::default() };
    let servers = http::servers(&args.servers, &trust, args.token.as_deref(), policy)?;
    let pins = Pins { threshold: args.threshold, manifest: args.manifest.clone(), operators: args.operators.clone() };
    let client = Client::connect(servers, &pins).await?;
    let schema = client.manifest().schema();
    for assignment in &args.set {
        profile::set(&mut values, schema, assignment)?;
    }
    profile::complete(&mut values, schema)?;
    let answer = client.ask(&values, &wishes).await?;
    if args.json {
        println!("{}", serde_json::to_string(&answer).map_err(Failure::machine)?);
    } else {
        text(&answer, &wishes);
    }
    for note in &answer.notes {
        eprintln!("note: {}", show::clean(note));
    }
    Ok(if answer.found.is_empty() { Done::NothingQualifies } else { Done::Fine })
}

/// The flags as wishes.
fn wishes(args: &Args) -> Result<WishList, Failure> {
    let mut list = WishList {
        immutable: args.immutable.clone(),
        features_to_vary: args.features_to_vary.clone(),
        only_up: args.only_up.clone(),
        only_down: args.only_down.clone(),
        metric: pricing(&args.metric)?,
        few_changes: args.few_changes,
        top: args.top,
        scheme: args.scheme.clone(),
        ..WishList::default()
    };
    for assignment in &args.weights {
        let (name, weight) = split(assignment, "--weight")?;
        let weight = weight
            .parse()
            .map_err(|_| Failure::Input(format!("--weight {assignment}: a weight is a whole number from 1 up")))?;
        once(&mut list.weights, "--weight", name, weight)?;
    }
    for assignment in &args.ranges {
        let (name, range) = split(assignment, "--range")?;
        let (low, high) = range
            .split_once(':')
            .ok_or_else(|| Failure::Input(format!("--range {assignment}: write it as feature=low:high")))?;
        let end = |text: &str| Some(text.trim()).filter(|text| !text.is_empty()).map(Value::from);
        once(&mut list.ranges, "--range", name, (end(low), end(high)))?;
    }
    for assignment in &args.permits {
        let (name, values) = split(assignment, "--permit")?;
        let values = values.split(',').map(|value| Value::from(value.trim())).collect();
        once(&mut list.permits, "--permit", name, values)?;
    }
    Ok(list)
}

fn once<T>(list: &mut BTreeMap<String, T>, flag: &str, name: &str, value: T) -> Result<(), Failure> {
    match list.insert(name.into(), value) {
        None => Ok(()),
        Some(_) => Err(Failure::Input(format!("{flag} {name} is there twice; give it once"))),
    }
}

fn pricing(metric: &str) -> Result<Pricing, Failure> {
    match metric {
        "l2" => Ok(Pricing::L2),
        "l1" => Ok(Pricing::L1),
        "mad" => Ok(Pricing::Mad),
        "count" => Ok(Pricing::Count),
        other => Err(Failure::Input(format!("--metric {other}: it is one of l2, l1, mad, count"))),
    }
}

fn text(answer: &Answer, wishes: &WishList) {
    for (number, explanation) in answer.found.iter().enumerate() {
        if answer.asked > 1 {
            println!("Number {}:", number + 1);
        }
        match explanation.changes.is_empty() {
            true => println!("Somebody with exactly your values was accepted."),
            false => print!("{}", show::changes(&explanation.changes)),
        }
        let counted = explanation.changed.map(|changes| format!(", {changes} changed")).unwrap_or_default();
        println!("  cost {}{counted}\n", explanation.distance);
    }
    if answer.found.is_empty() {
        println!("Nobody in {} qualifies under these wishes.", show::clean(&answer.dataset.name));
        println!("{}", suggestion(wishes));
    }
    let (up, down) = (show::bytes(answer.traffic.up), show::bytes(answer.traffic.down));
    let (rows, all) = (show::grouped(answer.qualifying as u64), show::grouped(answer.rows as u64));
    println!(
        "{rows} of {all} rows qualified; scheme {}, {} servers, {up} up, {down} down",
        answer.scheme, answer.servers
    );
    for liar in &answer.liars {
        eprintln!("note: server {liar} lied or is out of step, and was corrected");
    }
    for trouble in &answer.troubles {
        eprintln!("note: {}", show::clean(&trouble.to_string()));
    }
}

/// Only from what the person has said, not from the database.
fn suggestion(wishes: &WishList) -> String {
    let relaxable = [
        (!wishes.immutable.is_empty(), "an --immutable feature"),
        (!wishes.features_to_vary.is_empty(), "--features-to-vary"),
        (!wishes.ranges.is_empty(), "a --range"),
        (!wishes.permits.is_empty(), "a --permit"),
        (!(wishes.only_up.is_empty() && wishes.only_down.is_empty()), "an --only-up or --only-down"),
        (wishes.few_changes.is_some(), "--few-changes"),
    ];
    let given: Vec<&str> = relaxable.iter().filter(|(given, _)| *given).map(|(_, name)| *name).collect();
    match given.is_empty() {
        true => "You gave no wish that could be relaxed.".into(),
        false => format!("You could relax {}.", given.join(", or ")),
    }
}
