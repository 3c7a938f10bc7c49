//! `ifonly demo`: a complete search in one process.
//!
//! The servers, the HTTP requests and the client are real; the data is generated from a seed. One
//! process holds all servers, so the demo itself protects nothing.

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
    Answer, Client, Clock, Explanation, ManifestResponse, Pins, ProfileValues, ResponseSink, RetryPolicy, Transport,
    WishList,
};
use ifonly_core::scheme::{ConstraintKind, CostModel};
use ifonly_core::signature::SigningKey;
use ifonly_core::transcript::Message;
use ifonly_values::manifest::{Manifest, ManifestFields, OfferedScheme};
use ifonly_values::schema::Schema;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Run a demo: generated loan data, local servers, one rejected applicant.
///
/// Prints the nearest accepted application, the bytes that a server saw, and the time of each step.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ifonly demo
  ifonly demo --scheme two-phase --rows 5000 --seed 7
  ifonly demo --page
  ifonly demo --page --bundle loans.bundle")]
pub(crate) struct Args {
    /// Scheme to use; docs/schemes.md lists them.
    #[arg(long, value_name = "SCHEME", default_value = ifonly_core::scheme::DEFAULT.name)]
    scheme: String,
    /// Number of accepted applications, from 1 to 2000000.
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=2_000_000))]
    pub(crate) rows: u32,
    /// Seed of the generated data [default: 1; with --page 2, whose applicant has three ways].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Serve the web page and print its address, instead of searching.
    #[arg(long)]
    page: bool,
    /// With --page: a bundle of your own instead of generated data.
    #[arg(long, value_name = "BUNDLE", requires = "page", conflicts_with_all = ["rows", "seed", "scheme"])]
    pub(crate) bundle: Option<PathBuf>,
    /// Folder of a built page; default: the page of the program, or of its workspace.
    #[arg(long, value_name = "DIR", requires = "page")]
    pub(crate) page_dir: Option<PathBuf>,
    /// Print JSON instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Args {
    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or(if self.page { 2 } else { 1 })
    }
}

pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    let runtime = tokio::runtime::Runtime::new().map_err(CommandError::machine)?;
    if args.page {
        runtime.block_on(crate::cli::commands::demo_page::run(args))
    } else {
        runtime.block_on(search(args))
    }
}

/// The generated bundle, and an applicant who was rejected.
pub(crate) struct DemoDataset {
    pub(crate) bundle: Bundle,
    pub(crate) applicant: Application,
    /// The accepted applications, column by column as in a table.
    accepted: Vec<Vec<String>>,
}

/// d_min in the demo of the mask schemes.
const D_MIN: u64 = 10;

/// The weights of the applicant in the demo of the weighted schemes.
const WEIGHTS: [(&str, u64); 2] = [("income", 4), ("late_payments", 9)];

impl DemoDataset {
    pub(crate) fn generate(args: &Args) -> Result<DemoDataset, CommandError> {
        let schema = demo_loans::schema().map_err(CommandError::machine)?;
        let mut random = SeededRandom::new(args.seed());
        let drawn = std::iter::repeat_with(|| Application::draw(&mut random));
        let accepted: Vec<Application> = drawn.filter(Application::accepted).take(args.rows as usize).collect();
        // The search for an applicant ends for every seed, because the scores of narrowly rejected
        // applications are in the middle of the distribution.
        let applicant = std::iter::repeat_with(|| Application::draw(&mut random))
            .find(Application::narrowly_rejected)
            .unwrap_or_else(|| accepted[0].clone());
        let texts: Vec<Vec<String>> = accepted.iter().map(Application::texts).collect();
        let fields = |schema, rows, length, servers| {
            let mut fields = ManifestFields::new("made-up loans", schema, rows, length, servers);
            fields.offer_all();
            fields.params.d_min = D_MIN;
            fields
        };
        // The demo runs exactly the servers that the scheme needs.
        let all = Manifest::new(fields(schema.clone(), texts.len(), 1, 8)).map_err(CommandError::machine)?;
        let servers = all.scheme(&args.scheme).map_err(CommandError::input)?.servers() as u8;
        let bundle = Bundle::of_values(&schema, &texts, |schema, rows, length| {
            let fields = fields(schema, rows, length, servers);
            Manifest::new(ManifestFields { default_scheme: args.scheme.clone(), ..fields })
        });
        let key = SigningKey::generate(&mut OsRandom::default());
        let bundle = bundle.and_then(|bundle| bundle.signed(&key));
        Ok(DemoDataset { bundle: bundle.map_err(CommandError::machine)?, applicant, accepted: texts })
    }

    /// The smallest distance of an accepted application under these weights, without masks.
    fn smallest_distance(&self, weights: &WishList) -> Result<u64, CommandError> {
        let schema = self.bundle.manifest().schema();
        let columns = schema.columns();
        let levels = |texts: &[String]| {
            let text = |name: &str| columns.iter().position(|column| column.name == name).map(|k| &texts[k]);
            schema.encode(|name| text(name).map(|text| text.as_str().into())).map_err(CommandError::machine)
        };
        let weight = |k: usize| weights.weights.get(&schema.features()[k].name).map_or(1, |&weight| weight as u64);
        let own = levels(&self.applicant.texts())?;
        let mut smallest = u64::MAX;
        for texts in &self.accepted {
            let theirs = levels(texts)?;
            let squares = own.iter().zip(&theirs).enumerate();
            let squares = squares.map(|(k, (a, b))| weight(k) * u64::from(a.level.abs_diff(b.level)).pow(2));
            smallest = smallest.min(squares.sum());
        }
        Ok(smallest)
    }
}

/// Starts the servers of the default scheme. Web pages from these origins may query them.
pub(crate) async fn serve(bundle: &Bundle, origins: &[&str]) -> Result<Loopback, CommandError> {
    let servers = bundle.manifest().default_scheme().servers();
    let started = Loopback::start(bundle, Some(servers), vec![], origins).await;
    started.map_err(|error| CommandError::from_category(error.category(), error))
}

async fn search(args: &Args) -> Result<CommandOutcome, CommandError> {
    let mut times = Times::start();
    let dataset = DemoDataset::generate(args)?;
    times.lap("generated the data");
    let offered = dataset.bundle.manifest().default_scheme().clone();
    let view = Arc::new(Mutex::new(OperatorView::default()));
    let mut transports: Vec<Arc<dyn Transport>> = vec![];
    let servers = serve(&dataset.bundle, &[]).await?;
    for inner in http::servers(servers.urls(), &TlsTrust::system()?, RetryPolicy::default())? {
        transports.push(Arc::new(RecordingTransport { inner, view: view.clone(), sent: Mutex::default() }));
    }
    times.lap("encoded the records and started the servers");
    let client = Client::connect(transports, &Pins::default()).await?;
    times.lap("connected to the servers and compared their manifests");
    let texts = dataset.applicant.texts();
    let schema = client.manifest().schema();
    let columns = schema.columns();
    let values: ProfileValues = columns.iter().zip(&texts).map(|(column, text)| (column.name, text.as_str())).collect();
    let (wishes, description) = wishes(&offered);
    let answer = client.ask(&values, &wishes).await?;
    let smallest = if offered.scheme().is_masked() { Some(dataset.smallest_distance(&wishes)?) } else { None };
    times.lap("queried, decoded, fetched the record and checked its cost");
    let view = std::mem::take(&mut *view.lock().map_err(CommandError::machine)?);
    let report = DemoReport {
        args,
        offered: &offered,
        texts: &texts,
        wishes: description,
        schema,
        answer: &answer,
        smallest,
        view,
        times,
    };
    if args.json {
        report.json()?;
    } else {
        report.text();
    }
    Ok(if answer.found.is_empty() { CommandOutcome::NoMatch } else { CommandOutcome::Success })
}

/// The wishes of the applicant, as far as the scheme supports them, and their description: the age
/// stays, the years of employment do not fall, and two features have weights.
fn wishes(offered: &OfferedScheme) -> (WishList, String) {
    let mut list = WishList::default();
    let mut sentences = String::new();
    let scheme = offered.scheme();
    match scheme.constraint {
        ConstraintKind::None => {}
        ConstraintKind::Zeros | ConstraintKind::Scaled => {
            list.immutable = vec!["age".into()];
            sentences.push_str(". Your age must not change");
        }
        ConstraintKind::Table => {
            list.immutable = vec!["age".into()];
            list.only_up = vec!["years_employed".into()];
            sentences.push_str(". Your age must not change, and years_employed must not fall");
        }
    }
    if scheme.cost_model == CostModel::Weighted {
        list.weights = WEIGHTS.iter().map(|&(name, weight)| (name.to_owned(), weight as f64)).collect();
        let weights = WEIGHTS.map(|(name, weight)| format!("{name} by {weight}"));
        sentences.push_str(&format!(". You weight changes of {}", weights.join(" and of ")));
    }
    (list, sentences)
}

/// What the operators of the servers could observe.
#[derive(Default)]
struct OperatorView {
    /// The payloads that server 1 received.
    payloads: Vec<Vec<u8>>,
    /// For each step: departure of its first message and arrival of its last response.
    steps: Vec<(Instant, Instant)>,
}

impl OperatorView {
    fn record(&mut self, step: usize, from: Instant, to: Instant) {
        match self.steps.get_mut(step) {
            Some((first, last)) => (*first, *last) = ((*first).min(from), (*last).max(to)),
            None => self.steps.push((from, to)),
        }
    }
}

/// A transport that records what its server observes.
struct RecordingTransport {
    inner: Arc<dyn Transport>,
    view: Arc<Mutex<OperatorView>>,
    /// Number of messages sent.
    sent: Mutex<usize>,
}

impl Exchange for RecordingTransport {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.inner.clock()
    }

    fn fetch_manifest(&self) -> TransportFuture<'_, ManifestResponse> {
        self.inner.fetch_manifest()
    }

    fn send<'a>(&'a self, call: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        Box::pin(async move {
            let from = Instant::now();
            if let (Ok(mut message), Ok(mut view)) = (Message::decode(&call.message), self.view.lock())
                && message.server == 1
            {
                view.payloads.push(std::mem::take(&mut message.payload));
            }
            let result = self.inner.send(call, response).await;
            if let (Ok(mut sent), Ok(mut view)) = (self.sent.lock(), self.view.lock()) {
                view.record(*sent, from, Instant::now());
                *sent += 1;
            }
            result
        })
    }
}

/// The duration of each part of the demo.
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

/// Everything that the demo prints.
struct DemoReport<'a> {
    args: &'a Args,
    offered: &'a OfferedScheme,
    texts: &'a [String],
    wishes: String,
    schema: &'a Schema,
    answer: &'a Answer,
    /// The smallest distance without masks, in the mask schemes.
    smallest: Option<u64>,
    view: OperatorView,
    times: Times,
}

impl DemoReport<'_> {
    fn text(&self) {
        let (rows, servers) =
            (render::count(self.args.rows.into(), "accepted loan application"), self.offered.servers());
        println!("A lender has {rows} (generated, seed {}).", self.args.seed());
        println!("  Its rule: {}.", demo_loans::RULE);
        println!("You applied and were rejected. Your application:");
        let columns = self.schema.columns();
        let yours: Vec<String> =
            columns.iter().zip(self.texts).map(|(column, text)| format!("{} {text}", column.name)).collect();
        println!("  {}", yours.join(", "));
        println!(
            "You search for {} on {servers} servers with scheme {}{}.",
            self.wanted(),
            self.args.scheme,
            self.wishes
        );
        if self.smallest.is_some() {
            println!("The servers add to each distance a mask from 0 to {} (d_min = {D_MIN}).", D_MIN - 1);
        }
        println!("Besides the record you learn: {}.\n", self.offered.scheme().learns);
        match self.answer.found.first() {
            Some(explanation) => {
                let wanted = self.wanted();
                println!("{}{} differs from yours in:", wanted[..1].to_uppercase(), &wanted[1..]);
                print!("{}", render::changes(&explanation.changes));
                println!("{}", self.cost(explanation));
                match self.answer.matching_rows {
                    Some(rows) => {
                        let verb = if rows == 1 { "matches" } else { "match" };
                        println!("  {} {verb} your wishes\n", render::count(rows as u64, "row"));
                    }
                    None => println!("  this scheme does not reveal how many rows match\n"),
                }
            }
            None => println!("No accepted row matches your wishes.\n"),
        }
        println!(
            "What server 1 saw of your query: {}. The first bytes of each message:",
            render::bytes(self.observed_bytes())
        );
        for payload in &self.view.payloads {
            println!("  {}…", hex::encode(payload.get(..32).unwrap_or(payload)));
        }
        println!("  {:.1} % of the bits are ones. The bytes are uniformly random, whatever you ask.\n", self.ones());
        let traffic = &self.answer.traffic;
        println!("Traffic of all servers: {} up, {} down.", render::bytes(traffic.up), render::bytes(traffic.down));
        for (what, took) in &self.times.laps {
            println!("  {:>8.1} ms  {what}", took.as_secs_f64() * 1e3);
        }
        for (number, (from, to)) in self.view.steps.iter().enumerate() {
            let what = match number < self.offered.phases() {
                _ if self.offered.scheme().is_joint() => "computation between the servers",
                true => "phase",
                false => "record fetch",
            };
            println!("  {:>8.1} ms  of it in step {}, {what}", (*to - *from).as_secs_f64() * 1e3, number + 1);
        }
    }

    /// The row that the scheme finds.
    fn wanted(&self) -> &'static str {
        match self.offered.scheme().cost_model {
            CostModel::Product => "the accepted application with the largest inner product",
            _ => "the nearest accepted application",
        }
    }

    /// The line with the cost of the found application, and how it is computed.
    fn cost(&self, explanation: &Explanation) -> String {
        let decoded = explanation.decoded();
        let line = match self.offered.scheme().cost_model {
            CostModel::Table => render::cost(explanation),
            CostModel::Product => format!("  inner product {decoded}, the largest (sum of products of levels)"),
            CostModel::Squared => format!("  distance {decoded} (sum of squared differences of levels)"),
            CostModel::Weighted => format!("  distance {decoded} (weighted sum of squared differences of levels)"),
            CostModel::Power => {
                let exponent = self.offered.params().exponent;
                format!("  distance {decoded} (sum of differences of levels to the power {exponent})")
            }
        };
        match self.smallest {
            Some(smallest) if smallest == decoded => format!("{line}; the smallest without masks too"),
            Some(smallest) => format!("{line}; the smallest without masks is {smallest}"),
            None => line,
        }
    }

    fn json(&self) -> Result<(), CommandError> {
        let laps: Vec<_> = self.times.laps.iter().map(|(what, took)| (*what, took.as_secs_f64() * 1e3)).collect();
        let mut document = serde_json::to_value(self.answer).map_err(CommandError::machine)?;
        let payloads = self.view.payloads.iter();
        document["seen_by_server_1"] = payloads.map(hex::encode).collect();
        document["milliseconds"] = serde_json::json!(laps.into_iter().collect::<std::collections::BTreeMap<_, _>>());
        println!("{document}");
        Ok(())
    }

    fn observed_bytes(&self) -> u64 {
        self.view.payloads.iter().map(|payload| payload.len() as u64).sum()
    }

    /// The percentage of ones among the bits that server 1 received.
    fn ones(&self) -> f64 {
        let ones: u64 = self.view.payloads.iter().flatten().map(|byte| u64::from(byte.count_ones())).sum();
        100.0 * ones as f64 / (8 * self.observed_bytes()).max(1) as f64
    }
}
