//! `ifonly ask`: a person's question to real servers.
//!
//! The scheme is the manifest's default or the person's open choice, never a consequence of their wishes: servers see it.

use crate::exit::{Done, Failure};
use crate::profile::{Values, split};
use crate::show;
use ifonly_client::http::{HttpServer, Trust};
use ifonly_client::{Explanation, Meeting, Policy, Profile, Report, Transport};
use ifonly_core::deployment::Deployment;
use ifonly_core::manifest::Manifest;
use ifonly_core::random::OsRandom;
use ifonly_core::schema::{Schema, Value};
use ifonly_core::wishes::{Compiled, Pricing, Wishes};
use std::path::PathBuf;
use std::sync::Arc;
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
    // What can be wrong with files is found before any server hears of it.
    let mut values = match &args.profile {
        Some(path) => Values::load(path, args.row)?,
        None => Values::none(),
    };
    let mut servers: Vec<Arc<dyn Transport>> = vec![];
    for url in &args.servers {
        servers.push(Arc::new(HttpServer::new(url, &trust, args.token.as_deref())?));
    }
    let policy = Policy { deadline: Duration::from_secs(args.timeout), ..Policy::default() };
    let meeting = Meeting::of(servers, policy).await?;
    let manifest = meeting.manifest();
    let schema = manifest.schema();
    for assignment in &args.set {
        values.set(schema, assignment)?;
    }
    values.complete(schema)?;
    let profile = Profile::new(schema, |name| values.get(name))?;
    let deployment = match &args.scheme {
        Some(name) => manifest.deployment(name).map_err(Failure::input)?,
        None => manifest.default_deployment(),
    };
    let compiled = wishes(args, schema)?
        .compile(&profile.levels(), deployment.scheme(), deployment.params())
        .map_err(Failure::input)?;
    warn(&meeting, &values, &profile);
    let report = meeting.search(deployment, compiled.secret.clone(), args.top, &mut OsRandom::default()).await?;
    let mut found = vec![];
    for record in &report.outcome.found {
        let explanation = Explanation::new(manifest, deployment, &compiled.secret, &profile, record)?;
        // "At most k changes" is a preference that servers cannot filter by; the client does.
        if compiled.accepts(explanation.cost) {
            found.push(explanation);
        }
    }
    let shown = Shown { args, manifest, deployment, compiled: &compiled, report: &report, found: &found };
    if args.json {
        println!("{}", shown.json())
    } else {
        shown.text()
    }
    Ok(if found.is_empty() { Done::NothingQualifies } else { Done::Fine })
}

/// The flags as wishes.
fn wishes(args: &Args, schema: &Schema) -> Result<Wishes, Failure> {
    let mut wishes = Wishes::new(schema);
    wishes.price_all(pricing(&args.metric)?);
    if !args.features_to_vary.is_empty() {
        let names: Vec<&str> = args.features_to_vary.iter().map(String::as_str).collect();
        wishes.features_to_vary(&names).map_err(Failure::input)?;
    }
    for name in &args.immutable {
        wishes.immutable(name).map_err(Failure::input)?;
    }
    for name in &args.only_up {
        wishes.only_up(name).map_err(Failure::input)?;
    }
    for name in &args.only_down {
        wishes.only_down(name).map_err(Failure::input)?;
    }
    for assignment in &args.weights {
        let (name, weight) = split(assignment, "--weight")?;
        let weight = weight
            .parse()
            .map_err(|_| Failure::Input(format!("--weight {assignment}: a weight is a whole number from 1 up")))?;
        wishes.weight(name, weight).map_err(Failure::input)?;
    }
    for assignment in &args.ranges {
        let (name, range) = split(assignment, "--range")?;
        let (low, high) = range
            .split_once(':')
            .ok_or_else(|| Failure::Input(format!("--range {assignment}: write it as feature=low:high")))?;
        let end = |text: &str| Some(text.trim()).filter(|text| !text.is_empty()).map(Value::from);
        let (low, high) = (end(low), end(high));
        wishes.permitted_range(name, low.as_ref(), high.as_ref()).map_err(Failure::input)?;
    }
    for assignment in &args.permits {
        let (name, list) = split(assignment, "--permit")?;
        let values: Vec<Value> = list.split(',').map(|value| Value::from(value.trim())).collect();
        wishes.permitted_values(name, &values).map_err(Failure::input)?;
    }
    if let Some(most) = args.few_changes {
        wishes.few_changes(most);
    }
    Ok(wishes)
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

/// What the person should know before the answer.
fn warn(meeting: &Meeting, values: &Values, profile: &Profile) {
    let schema = meeting.manifest().schema();
    let unknown = values.unknown(schema);
    if !unknown.is_empty() {
        eprintln!("note: the database has no {}; ignored", show::clean(&unknown.join(", ")));
    }
    for name in profile.clamped(schema) {
        eprintln!("note: your {name} is outside the bounds of the database; the nearest bound is used");
    }
    for trouble in meeting.troubles() {
        eprintln!("note: {}", show::clean(&trouble.to_string()));
    }
}

struct Shown<'a> {
    args: &'a Args,
    manifest: &'a Manifest,
    deployment: &'a Deployment,
    compiled: &'a Compiled,
    report: &'a Report,
    found: &'a [Explanation],
}

impl Shown<'_> {
    fn json(&self) -> serde_json::Value {
        let Report { outcome, traffic, troubles } = self.report;
        let first = self.found.first().map(show::explanation);
        let field = |name: &str| first.as_ref().map_or(serde_json::Value::Null, |first| first[name].clone());
        let mut document = serde_json::json!({
            "found": first.is_some(),
            "cost": field("cost"),
            "record": field("record"),
            "changes": first.as_ref().map_or(serde_json::json!([]), |first| first["changes"].clone()),
            "scheme": self.deployment.scheme().name,
            "servers": self.deployment.servers(),
            "bytes_up": traffic.up,
            "bytes_down": traffic.down,
            "qualifying": outcome.qualifying,
            "dataset": self.manifest.contents().dataset,
            "liars": outcome.liars,
            "troubles": troubles.iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        if self.args.top > 1 {
            document["nearest"] = self.found.iter().map(show::explanation).collect();
        }
        document
    }

    fn text(&self) {
        let Report { outcome, traffic, troubles } = self.report;
        for (number, explanation) in self.found.iter().enumerate() {
            if self.args.top > 1 {
                println!("Number {}:", number + 1);
            }
            match explanation.changes.is_empty() {
                true => println!("Somebody with exactly your values was accepted."),
                false => print!("{}", show::changes(&explanation.changes)),
            }
            let changes = self.compiled.changes(explanation.cost);
            let counted = changes.map(|changes| format!(", {changes} changed")).unwrap_or_default();
            println!("  cost {}{counted}\n", self.compiled.distance(explanation.cost));
        }
        if self.found.is_empty() {
            println!("Nobody in {} qualifies under these wishes.", show::clean(&self.manifest.contents().dataset.name));
            println!("{}", self.suggestion());
        }
        let (up, down) = (show::bytes(traffic.up), show::bytes(traffic.down));
        let (rows, all) = (show::grouped(outcome.qualifying as u64), show::grouped(self.manifest.rows() as u64));
        println!(
            "{rows} of {all} rows qualified; scheme {}, {} servers, {up} up, {down} down",
            self.deployment.scheme().name,
            self.deployment.servers()
        );
        for liar in &outcome.liars {
            eprintln!("note: server {liar} lied or is out of step, and was corrected");
        }
        for trouble in troubles {
            eprintln!("note: {}", show::clean(&trouble.to_string()));
        }
    }

    /// Only from what the person has said, not from the database.
    fn suggestion(&self) -> String {
        let args = self.args;
        let wishes = [
            (!args.immutable.is_empty(), "an --immutable feature"),
            (!args.features_to_vary.is_empty(), "--features-to-vary"),
            (!args.ranges.is_empty(), "a --range"),
            (!args.permits.is_empty(), "a --permit"),
            (!(args.only_up.is_empty() && args.only_down.is_empty()), "an --only-up or --only-down"),
            (args.few_changes.is_some(), "--few-changes"),
        ];
        let given: Vec<&str> = wishes.iter().filter(|(given, _)| *given).map(|(_, name)| *name).collect();
        match given.is_empty() {
            true => "You gave no wish that could be relaxed.".into(),
            false => format!("You could relax {}.", given.join(", or ")),
        }
    }
}
