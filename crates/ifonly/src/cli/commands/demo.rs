//! `ifonly demo`: the whole way in one process, with nothing but a seed.
//!
//! Real servers on loopback ports, real HTTP between them and the client; only the data is made up.

use crate::cli::exit::{CommandError, CommandOutcome};
use crate::cli::render;
use crate::local::demo_loans;
use crate::local::demo_loans::Application;
use ifonly::Loopback;
use ifonly_algebra::random::{OsRandom, SeededRandom};
use ifonly_bundle::Bundle;
use ifonly_client::transport::http::TlsTrust;
use ifonly_client::transport::{Exchange, ServerRequest, TransportFuture, http};
use ifonly_client::{
    Answer, Client, Clock, ManifestResponse, Pins, ProfileValues, ResponseSink, RetryPolicy, Transport, WishList,
};
use ifonly_core::scheme::ConstraintKind;
use ifonly_core::signature::SigningKey;
use ifonly_core::transcript::Message;
use ifonly_values::manifest::{Manifest, ManifestFields, OfferedScheme};
use ifonly_values::schema::Schema;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// See it work: made-up loan data, servers on loopback, one rejected applicant.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: ifonly demo --scheme two-phase --rows 5000 --seed 7\n         ifonly demo --page")]
pub(crate) struct Args {
    /// Which scheme to ask with; `ifonly inspect` lists them.
    #[arg(long, default_value = ifonly_core::scheme::DEFAULT.name)]
    scheme: String,
    /// How many accepted applications the servers hold.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=2_000_000))]
    pub(crate) rows: u32,
    /// Where the made-up data comes from.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Ask from a browser instead: serves the page too and prints its address.
    #[arg(long)]
    page: bool,
    /// Where the built page is, if not beside the program or in its workspace.
    #[arg(long, value_name = "DIR", requires = "page")]
    pub(crate) page_dir: Option<PathBuf>,
    /// Print JSON instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    let runtime = tokio::runtime::Runtime::new().map_err(CommandError::machine)?;
    match args.page {
        true => runtime.block_on(crate::cli::commands::demo_page::run(args)),
        false => runtime.block_on(demonstrate(args)),
    }
}

/// The made-up database.
pub(crate) struct DemoDataset {
    pub(crate) bundle: Bundle,
    pub(crate) applicant: Application,
}

impl DemoDataset {
    pub(crate) fn make(args: &Args) -> Result<DemoDataset, CommandError> {
        let schema = demo_loans::schema().map_err(CommandError::machine)?;
        let mut random = SeededRandom::new(args.seed);
        let drawn = std::iter::repeat_with(|| Application::draw(&mut random));
        let accepted: Vec<Application> = drawn.filter(Application::accepted).take(args.rows as usize).collect();
        // The rule rejects some narrowly under every seed: the bounds of the score lie in the
        // middle of what is drawn.
        let applicant = std::iter::repeat_with(|| Application::draw(&mut random))
            .find(Application::narrowly_rejected)
            .unwrap_or_else(|| accepted[0].clone());
        let texts: Vec<Vec<String>> = accepted.iter().map(Application::texts).collect();
        let contents = |schema, rows, length, servers| {
            let mut contents = ManifestFields::new("made-up loans", schema, rows, length, servers);
            contents.offer_all();
            contents
        };
        // As many servers as the scheme needs and no more.
        let all = Manifest::new(contents(schema.clone(), texts.len(), 1, 8)).map_err(CommandError::machine)?;
        let servers = all.scheme(&args.scheme).map_err(CommandError::input)?.servers() as u8;
        let bundle = Bundle::of_values(&schema, &texts, |schema, rows, length| {
            let contents = contents(schema, rows, length, servers);
            Manifest::new(ManifestFields { default_scheme: args.scheme.clone(), ..contents })
        });
        let key = SigningKey::generate(&mut OsRandom::default());
        let bundle = bundle.and_then(|bundle| bundle.signed(&key));
        Ok(DemoDataset { bundle: bundle.map_err(CommandError::machine)?, applicant })
    }
}

/// Starts the servers of the default scheme, for pages from these origins.
pub(crate) async fn serve(world: &DemoDataset, origins: &[&str]) -> Result<Loopback, CommandError> {
    let servers = world.bundle.manifest().default_scheme().servers();
    let started = Loopback::start(&world.bundle, Some(servers), vec![], origins).await;
    started.map_err(|error| CommandError::of(error.category(), error))
}

async fn demonstrate(args: &Args) -> Result<CommandOutcome, CommandError> {
    let mut times = Times::start();
    let world = DemoDataset::make(args)?;
    times.lap("made the data");
    let offered = world.bundle.manifest().default_scheme().clone();
    let seen = Arc::new(Mutex::new(OperatorView::default()));
    let mut transports: Vec<Arc<dyn Transport>> = vec![];
    let servers = serve(&world, &[]).await?;
    for inner in http::servers(servers.urls(), &TlsTrust::system()?, None, RetryPolicy::default())? {
        transports.push(Arc::new(RecordingTransport { inner, seen: seen.clone(), sent: Mutex::default() }));
    }
    times.lap("sealed the records and started the servers");
    let client = Client::connect(transports, &Pins::default()).await?;
    times.lap("met the servers and compared their manifests");
    let texts = world.applicant.texts();
    let schema = client.manifest().schema();
    let columns = schema.columns();
    let values: ProfileValues = columns.iter().zip(&texts).map(|(column, text)| (column.name, text.as_str())).collect();
    let (wishes, wanted) = wishes(&offered);
    let answer = client.ask(&values, &wishes).await?;
    times.lap("asked, decoded, fetched the record and checked it against its cost");
    let seen = std::mem::take(&mut *seen.lock().map_err(CommandError::machine)?);
    let done = Shown { args, offered: &offered, texts: &texts, wanted, schema, answer: &answer, seen, times };
    if args.json {
        done.json()?;
    } else {
        done.text();
    }
    Ok(if answer.found.is_empty() { CommandOutcome::NothingQualifies } else { CommandOutcome::Fine })
}

/// Nobody chooses their age, and years of work only grow; as far as the scheme can carry that.
fn wishes(offered: &OfferedScheme) -> (WishList, &'static str) {
    let fixed = || WishList { immutable: vec!["age".into()], ..WishList::default() };
    match offered.scheme().constraint {
        ConstraintKind::None => (WishList::default(), ""),
        ConstraintKind::Zeros | ConstraintKind::Scaled => (fixed(), ", and your age must stay"),
        ConstraintKind::Table => {
            let list = WishList { only_up: vec!["years_employed".into()], ..fixed() };
            (list, ", your age must stay, and years of work only grow")
        }
    }
}

/// What the servers' operators could see.
#[derive(Default)]
struct OperatorView {
    /// What the first server is sent.
    payloads: Vec<Vec<u8>>,
    /// From the first message of a round to its last response.
    rounds: Vec<(Instant, Instant)>,
}

impl OperatorView {
    fn exchanged(&mut self, round: usize, from: Instant, to: Instant) {
        match self.rounds.get_mut(round) {
            Some((first, last)) => (*first, *last) = ((*first).min(from), (*last).max(to)),
            None => self.rounds.push((from, to)),
        }
    }
}

/// Looks over a server's shoulder.
struct RecordingTransport {
    inner: Arc<dyn Transport>,
    seen: Arc<Mutex<OperatorView>>,
    sent: Mutex<usize>,
}

impl Exchange for RecordingTransport {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.inner.clock()
    }

    fn greet(&self) -> TransportFuture<'_, ManifestResponse> {
        self.inner.greet()
    }

    fn send<'a>(&'a self, call: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        Box::pin(async move {
            let from = Instant::now();
            if let (Ok(mut opened), Ok(mut seen)) = (Message::decode(&call.message), self.seen.lock())
                && opened.server == 1
            {
                seen.payloads.push(std::mem::take(&mut opened.payload));
            }
            let result = self.inner.send(call, response).await;
            if let (Ok(mut sent), Ok(mut seen)) = (self.sent.lock(), self.seen.lock()) {
                seen.exchanged(*sent, from, Instant::now());
                *sent += 1;
            }
            result
        })
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
    offered: &'a OfferedScheme,
    texts: &'a [String],
    wanted: &'static str,
    schema: &'a Schema,
    answer: &'a Answer,
    seen: OperatorView,
    times: Times,
}

impl Shown<'_> {
    fn text(&self) {
        let (rows, servers) = (render::grouped(self.args.rows.into()), self.offered.servers());
        println!("A lender keeps {rows} accepted loan applications (made up, seed {}).", self.args.seed);
        println!("  Its rule: {}.", demo_loans::RULE);
        println!("You applied and were rejected. Your application:");
        let columns = self.schema.columns();
        let yours: Vec<String> =
            columns.iter().zip(self.texts).map(|(column, text)| format!("{} {text}", column.name)).collect();
        println!("  {}", yours.join(", "));
        println!(
            "You ask {servers} servers with scheme {} who is nearest among the accepted{}.\n",
            self.args.scheme, self.wanted
        );
        match self.answer.found.first() {
            Some(explanation) => {
                println!("The nearest accepted applicant differs from you in:");
                print!("{}", render::changes(&explanation.changes));
                println!("{}", render::cost(explanation));
                match self.answer.matching_rows {
                    Some(rows) => println!("  {} rows qualified\n", render::grouped(rows as u64)),
                    None => println!("  how many others qualify, nobody learns\n"),
                }
            }
            None => println!("Nobody among the accepted qualifies.\n"),
        }
        println!(
            "What server 1 saw of your question, {} in all; here is how each message begins:",
            render::bytes(self.seen_bytes())
        );
        for payload in &self.seen.payloads {
            println!("  {}…", hex::encode(payload.get(..32).unwrap_or(payload)));
        }
        println!(
            "  {:.1} % of its bits are ones. Every other question looks the same: uniform noise, exactly.\n",
            self.ones()
        );
        let traffic = &self.answer.traffic;
        println!("Bytes up {}, down {}, all servers together.", render::bytes(traffic.up), render::bytes(traffic.down));
        for (what, took) in &self.times.laps {
            println!("  {:>8.1} ms  {what}", took.as_secs_f64() * 1e3);
        }
        for (number, (from, to)) in self.seen.rounds.iter().enumerate() {
            let what = match self.offered {
                OfferedScheme::Scans(instance) if number < instance.phases() => "phase",
                OfferedScheme::Scans(_) => "record fetch",
                OfferedScheme::Sealed(_) => "the servers' search among themselves",
            };
            println!("  {:>8.1} ms  of it in round {}, {what}", (*to - *from).as_secs_f64() * 1e3, number + 1);
        }
    }

    fn json(&self) -> Result<(), CommandError> {
        let laps: Vec<_> = self.times.laps.iter().map(|(what, took)| (*what, took.as_secs_f64() * 1e3)).collect();
        let mut document = serde_json::to_value(self.answer).map_err(CommandError::machine)?;
        let payloads = self.seen.payloads.iter();
        document["seen_by_server_1"] = payloads.map(hex::encode).collect();
        document["milliseconds"] = serde_json::json!(laps.into_iter().collect::<std::collections::BTreeMap<_, _>>());
        println!("{document}");
        Ok(())
    }

    fn seen_bytes(&self) -> u64 {
        self.seen.payloads.iter().map(|payload| payload.len() as u64).sum()
    }

    fn ones(&self) -> f64 {
        let ones: u64 = self.seen.payloads.iter().flatten().map(|byte| u64::from(byte.count_ones())).sum();
        100.0 * ones as f64 / (8 * self.seen_bytes()).max(1) as f64
    }
}
