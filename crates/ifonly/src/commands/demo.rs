//! `ifonly demo`: the whole way in one process, with nothing but a seed.
//!
//! Real servers on loopback ports, real HTTP between them and the client; only the data is made up.

use crate::exit::{Done, Failure};
use crate::loans::{self, Application};
use crate::show;
use bytes::Bytes;
use ifonly_bundle::Bundle;
use ifonly_client::http::{HttpServer, Trust};
use ifonly_client::transport::Pending;
use ifonly_client::{Explanation, Greeting, Meeting, Policy, Profile, Report, Route, Transport};
use ifonly_core::deployment::Deployment;
use ifonly_core::keys::RootKey;
use ifonly_core::manifest::{Contents, Manifest};
use ifonly_core::random::{OsRandom, SeededRandom};
use ifonly_core::schema::{Schema, Value};
use ifonly_core::scheme::Gate;
use ifonly_core::transcript::Message;
use ifonly_core::wishes::Wishes;
use ifonly_server::config::Limits;
use ifonly_server::routes::App;
use ifonly_server::tokens::Tokens;
use ifonly_server::{Holding, Server};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// See it work: made-up loan data, servers on loopback, one rejected applicant.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: ifonly demo --scheme two-phase --rows 5000 --seed 7")]
pub(crate) struct Args {
    /// Which scheme to ask with; `ifonly inspect` lists them.
    #[arg(long, default_value = ifonly_core::scheme::DEFAULT.name)]
    scheme: String,
    /// How many accepted applications the servers hold.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=2_000_000))]
    rows: u32,
    /// Where the made-up data comes from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Done, Failure> {
    let runtime = tokio::runtime::Runtime::new().map_err(Failure::machine)?;
    runtime.block_on(demonstrate(args))
}

/// The made-up database.
struct World {
    bundle: Bundle,
    applicant: Application,
}

impl World {
    fn make(args: &Args) -> Result<World, Failure> {
        let schema = loans::schema().map_err(Failure::machine)?;
        let mut random = SeededRandom::new(args.seed);
        let drawn = std::iter::repeat_with(|| Application::draw(&mut random));
        let accepted: Vec<Application> = drawn.filter(Application::accepted).take(args.rows as usize).collect();
        // The rule rejects some narrowly under every seed: the bounds of the score lie in the middle of what is drawn.
        let applicant = std::iter::repeat_with(|| Application::draw(&mut random))
            .find(Application::narrowly_rejected)
            .unwrap_or_else(|| accepted[0].clone());
        let texts: Vec<Vec<String>> = accepted.iter().map(Application::texts).collect();
        let contents = |schema, rows, length, servers| Contents::new("made-up loans", schema, rows, length, servers);
        // As many servers as the scheme needs and no more.
        let all = Manifest::new(contents(schema.clone(), texts.len(), 1, 8)).map_err(Failure::machine)?;
        let servers = all.deployment(&args.scheme).map_err(Failure::input)?.servers() as u8;
        let bundle = Bundle::of_values(&schema, &texts, |schema, rows, length| {
            let contents = contents(schema, rows, length, servers);
            Manifest::new(Contents { default_scheme: args.scheme.clone(), ..contents })
        });
        Ok(World { bundle: bundle.map_err(Failure::machine)?, applicant })
    }
}

async fn demonstrate(args: &Args) -> Result<Done, Failure> {
    let mut times = Times::start();
    let world = World::make(args)?;
    times.lap("made the data");
    let deployment = world.bundle.manifest().default_deployment().clone();
    let seen = Arc::new(Mutex::new(vec![]));
    let mut transports: Vec<Arc<dyn Transport>> = vec![];
    let key = RootKey::generate(0, &mut OsRandom::default());
    let trust = Trust::system()?;
    for index in 1..=deployment.servers() as u8 {
        let holding = Holding::new(&world.bundle, index, vec![key.clone()]);
        let tokens = Tokens::new(vec![], None).map_err(Failure::machine)?;
        let app = App::new(holding.map_err(Failure::machine)?, tokens, Limits::default(), vec![]);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = Server::bind(app, address, None, None).await.map_err(Failure::machine)?;
        let url = format!("http://{}", server.address());
        transports.push(Arc::new(Tap { inner: HttpServer::new(&url, &trust, None)?, seen: seen.clone() }));
        tokio::spawn(server.run(std::future::pending()));
    }
    times.lap("sealed the records and started the servers");
    let meeting = Meeting::of(transports, Policy::default()).await?;
    times.lap("met the servers and compared their manifests");
    let texts = world.applicant.texts();
    let schema = meeting.manifest().schema();
    let columns = schema.columns();
    let profile = Profile::new(schema, |name| {
        Some(Value::from(texts[columns.iter().position(|column| column.name == name)?].as_str()))
    })?;
    let (wishes, wanted) = wishes(schema, &deployment)?;
    let secret =
        wishes.compile(&profile.levels(), deployment.scheme(), deployment.params()).map_err(Failure::machine)?.secret;
    let report = meeting.search(&deployment, secret.clone(), 1, &mut OsRandom::default()).await?;
    times.lap("asked, decoded and fetched the record");
    let explain = |found| Explanation::new(meeting.manifest(), &deployment, &secret, &profile, found);
    let explanation = report.outcome.found.first().map(explain).transpose()?;
    times.lap("checked the record against its cost");
    let seen = seen.lock().map_err(Failure::machine)?.clone();
    let done = Shown {
        args,
        deployment: &deployment,
        texts: &texts,
        wanted,
        schema,
        report: &report,
        explanation,
        seen,
        times,
    };
    if args.json {
        done.json()
    } else {
        done.text()
    }
    Ok(if done.explanation.is_some() { Done::Fine } else { Done::NothingQualifies })
}

/// Nobody chooses their age, and years of work only grow; as far as the scheme can carry that.
fn wishes(schema: &Schema, deployment: &Deployment) -> Result<(Wishes, &'static str), Failure> {
    let mut wishes = Wishes::new(schema);
    let words = match deployment.scheme().gate {
        Gate::None => "",
        Gate::Zeros | Gate::Scaled => {
            wishes.immutable("age").map_err(Failure::machine)?;
            ", and your age must stay"
        }
        Gate::Table => {
            let fixed = wishes.immutable("age").map_err(Failure::machine)?;
            fixed.only_up("years_employed").map_err(Failure::machine)?;
            ", your age must stay, and years of work only grow"
        }
    };
    Ok((wishes, words))
}

/// Keeps what the first server is sent, as its operator could.
struct Tap {
    inner: HttpServer,
    seen: Arc<Mutex<Vec<Bytes>>>,
}

impl Transport for Tap {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn greet(&self) -> Pending<'_, Greeting> {
        self.inner.greet()
    }

    fn send(&self, route: Route, message: Bytes, length: usize) -> Pending<'_, Bytes> {
        if let (Ok(opened), Ok(mut seen)) = (Message::decode(&message), self.seen.lock())
            && opened.server == 1
        {
            seen.push(Bytes::copy_from_slice(&opened.payload));
        }
        self.inner.send(route, message, length)
    }
}

/// What took how long.
struct Times {
    last: Instant,
    laps: Vec<(&'static str, Duration)>,
}

impl Times {
    fn start() -> Times {
        Times { last: Instant::now(), laps: vec![] }
    }

    fn lap(&mut self, what: &'static str) {
        let now = Instant::now();
        self.laps.push((what, now - self.last));
        self.last = now;
    }
}

struct Shown<'a> {
    args: &'a Args,
    deployment: &'a Deployment,
    texts: &'a [String],
    wanted: &'static str,
    schema: &'a Schema,
    report: &'a Report,
    explanation: Option<Explanation>,
    seen: Vec<Bytes>,
    times: Times,
}

impl Shown<'_> {
    fn text(&self) {
        let (rows, servers) = (show::grouped(self.args.rows.into()), self.deployment.servers());
        println!("A lender keeps {rows} accepted loan applications (made up, seed {}).", self.args.seed);
        println!("  Its rule: {}.", loans::RULE);
        println!("You applied and were rejected. Your application:");
        let columns = self.schema.columns();
        let yours: Vec<String> =
            columns.iter().zip(self.texts).map(|(column, text)| format!("{} {text}", column.name)).collect();
        println!("  {}", yours.join(", "));
        println!(
            "You ask {servers} servers with scheme {} who is nearest among the accepted{}.\n",
            self.args.scheme, self.wanted
        );
        match &self.explanation {
            Some(explanation) => {
                println!("The nearest accepted applicant differs from you in:");
                print!("{}", show::changes(&explanation.changes));
                println!(
                    "  cost {} ({} rows qualified)\n",
                    explanation.cost,
                    show::grouped(self.report.outcome.qualifying as u64)
                );
            }
            None => println!("Nobody among the accepted qualifies.\n"),
        }
        println!(
            "What server 1 saw of your question, {} in all; here is how each message begins:",
            show::bytes(self.seen_bytes())
        );
        for payload in &self.seen {
            println!("  {}…", hex::encode(payload.get(..32).unwrap_or(payload)));
        }
        println!(
            "  {:.1} % of its bits are ones. Every other question looks the same: uniform noise, exactly.\n",
            self.ones()
        );
        let traffic = &self.report.traffic;
        println!("Bytes up {}, down {}, all servers together.", show::bytes(traffic.up), show::bytes(traffic.down));
        for (what, took) in &self.times.laps {
            println!("  {:>8.1} ms  {what}", took.as_secs_f64() * 1e3);
        }
        for (number, took) in traffic.rounds.iter().enumerate() {
            let what = if number < self.deployment.phases() { "phase" } else { "record fetch" };
            println!("  {:>8.1} ms  of it in round {}, {what}", took.as_secs_f64() * 1e3, number + 1);
        }
    }

    fn json(&self) {
        let laps: Vec<_> = self.times.laps.iter().map(|(what, took)| (*what, took.as_secs_f64() * 1e3)).collect();
        let first = self.explanation.as_ref().map(show::explanation);
        let field = |name: &str| first.as_ref().map_or(serde_json::Value::Null, |first| first[name].clone());
        let document = serde_json::json!({
            "found": self.explanation.is_some(),
            "cost": field("cost"),
            "record": field("record"),
            "changes": first.as_ref().map_or(serde_json::json!([]), |first| first["changes"].clone()),
            "scheme": self.args.scheme,
            "servers": self.deployment.servers(),
            "bytes_up": self.report.traffic.up,
            "bytes_down": self.report.traffic.down,
            "qualifying": self.report.outcome.qualifying,
            "seen_by_server_1": self.seen.iter().map(hex::encode).collect::<Vec<_>>(),
            "milliseconds": laps.into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        });
        println!("{document}");
    }

    fn seen_bytes(&self) -> u64 {
        self.seen.iter().map(|payload| payload.len() as u64).sum()
    }

    fn ones(&self) -> f64 {
        let ones: u64 = self.seen.iter().flatten().map(|byte| u64::from(byte.count_ones())).sum();
        100.0 * ones as f64 / (8 * self.seen_bytes()).max(1) as f64
    }
}
