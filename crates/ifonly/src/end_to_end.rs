//! A whole search over HTTPS on loopback, beside the same search without a network.
//!
//! The servers are the real ones, each on its own runtime, with certificates made for the run; the
//! client is the real one and trusts only these. In every round one search goes over HTTPS and one
//! through the same code in one thread of calls: the same messages checked and answered by the same
//! databases, the same decoding. Each part keeps its best time, and the ratio says what the
//! network, TLS, HTTP, the checksums and the waiting cost on top. All times are the wall's, since
//! servers use all processors.

use crate::cli::exit::CommandError;
use ifonly_algebra::field::ModulusRule;
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::{OsRandom, RandomSource, SeededRandom};
use ifonly_bundle::Bundle;
use ifonly_client::transport::http::{HttpServer, TlsTrust};
use ifonly_client::{Answer, Client, Pins, Profile, ProfileValues, Transport, WishList};
use ifonly_core::http_api::Route;
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::sealed::SealedScheme;
use ifonly_core::scheme::{self, ConstraintKind, CostModel, sealed};
use ifonly_core::search::{Search, SearchResult, StepMessages, confirm_under};
use ifonly_core::secret_query::SecretQuery;
use ifonly_core::server_protocol::CheckedRequest;
use ifonly_scan::RowStore;
use ifonly_scan::bench::BenchOptions;
use ifonly_scan::decode::KernelInterpolator;
use ifonly_server::auth::tokens::Tokens;
use ifonly_server::compute::database::AnswerError;
use ifonly_server::config::Limits;
use ifonly_server::http::routes::AppState;
use ifonly_server::tls::server;
use ifonly_server::{LoadedBundle, Server};
use ifonly_values::manifest::{Manifest, ManifestFields, SchemeEntry};
use ifonly_values::record::{self, Record};
use ifonly_values::schema::{Feature, FeatureKind, Scale, Schema, Value};
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// How an answer lists the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RowOrder {
    /// In a fresh order for every search, as deployments do unless told otherwise.
    Shuffled,
    /// As they are stored.
    Stored,
}

/// What was measured.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct EndToEndReport {
    /// The scheme.
    scheme: &'static str,
    /// The order of the rows.
    order: RowOrder,
    /// How many servers it asks.
    servers: usize,
    /// Bytes of a record before it is sealed.
    record_bytes: usize,
    /// Bytes to all servers.
    bytes_up: u64,
    /// Bytes from all servers.
    bytes_down: u64,
    /// The search without a network, part by part.
    parts: Vec<TimedPart>,
    /// All parts.
    sum_milliseconds: f64,
    /// Handshakes and manifests, once before the first search.
    meeting_milliseconds: f64,
    /// The search over HTTPS.
    pub(crate) search_milliseconds: f64,
    /// The search over HTTPS to the sum of its parts.
    ratio: f64,
}

/// A named time.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct TimedPart {
    pub(crate) part: &'static str,
    pub(crate) milliseconds: f64,
}

impl std::fmt::Display for EndToEndReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "A search with scheme {} at {} servers, {} rows, records of {} bytes; {} bytes up, {} down; wall clock",
            self.scheme,
            self.servers,
            if self.order == RowOrder::Shuffled { "shuffled" } else { "unshuffled" },
            self.record_bytes,
            self.bytes_up,
            self.bytes_down
        )?;
        writeln!(f, "{:<44} {:>10}", "without a network", "ms")?;
        for TimedPart { part, milliseconds } in &self.parts {
            writeln!(f, "{part:<44} {milliseconds:>10.3}")?;
        }
        writeln!(f, "{:<44} {:>10.3}", "sum of these parts", self.sum_milliseconds)?;
        writeln!(f, "{:<44} {:>10.3}", "meeting the servers over HTTPS, once", self.meeting_milliseconds)?;
        writeln!(f, "{:<44} {:>10.3}", "the search over HTTPS", self.search_milliseconds)?;
        writeln!(f, "{:<44} {:>10.3}", "the search over HTTPS / sum of its parts", self.ratio)
    }
}

/// Measures; the answers are compared with brute force before.
pub(crate) fn measure(options: &BenchOptions, scheme: &str, order: RowOrder) -> Result<EndToEndReport, CommandError> {
    let world = BenchDataset::make(options, scheme, order)?;
    let servers = Servers::start(&world)?;
    let runtime = Runtime::new().map_err(CommandError::machine)?;
    let started = Instant::now();
    let asking = runtime.block_on(Client::connect(servers.transports.clone(), &Pins::default()))?;
    let met = started.elapsed();
    let over_https =
        || -> Result<Answer, CommandError> { Ok(runtime.block_on(asking.ask(&world.values, &world.wishes))?) };
    let answer = over_https()?;
    world.check(answer.found.first().map(|found| found.decoded()))?;
    world.check(world.in_process(&servers.loaded_bundles, &mut Times::default())?)?;
    let (mut times, mut search) = (Times::default(), Duration::MAX);
    for _ in 0..options.rounds.max(1) {
        let started = Instant::now();
        std::hint::black_box(over_https()?);
        search = search.min(started.elapsed());
        let mut round = Times::default();
        world.in_process(&servers.loaded_bundles, &mut round)?;
        times.keep_best(&round);
    }
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let parts: Vec<TimedPart> =
        times.0.iter().map(|&(part, time)| TimedPart { part, milliseconds: milliseconds(time) }).collect();
    let sum_milliseconds = parts.iter().map(|part| part.milliseconds).sum();
    Ok(EndToEndReport {
        scheme: world.manifest.default_scheme().scheme().name,
        order,
        servers: world.manifest.servers(),
        record_bytes: world.manifest.record_length(),
        bytes_up: answer.traffic.up,
        bytes_down: answer.traffic.down,
        parts,
        sum_milliseconds,
        meeting_milliseconds: milliseconds(met),
        search_milliseconds: milliseconds(search),
        ratio: milliseconds(search) / sum_milliseconds,
    })
}

/// Random rows, and a person who asks.
pub(crate) struct BenchDataset {
    pub(crate) manifest: Manifest,
    levels: Vec<u16>,
    pub(crate) values: ProfileValues,
    pub(crate) wishes: WishList,
    pub(crate) secret: SecretQuery,
    nearest: Option<u64>,
}

impl BenchDataset {
    pub(crate) fn make(options: &BenchOptions, scheme: &str, order: RowOrder) -> Result<BenchDataset, CommandError> {
        let scheme = Some(sealed::SCHEME)
            .filter(|sealed| sealed.name == scheme)
            .or_else(|| scheme::named(scheme))
            .ok_or_else(|| CommandError::Input(format!("there is no scheme {scheme:?}; docs/schemes.md lists them")))?;
        let (range, columns) = (options.range, options.features);
        let kind = FeatureKind::from(Scale::whole_numbers(0, range.into()).map_err(CommandError::Input)?);
        let features = (0..columns).map(|k| Feature::new(format!("feature {k}"), kind.clone())).collect();
        let schema = Schema::new(features).map_err(CommandError::input)?;
        let mut random = SeededRandom::new(options.seed);
        let mut level = || random.below(u64::from(range) + 1) as u16;
        let levels: Vec<u16> = (0..options.rows * columns).map(|_| level()).collect();
        let x: Vec<u16> = (0..columns).map(|_| level()).collect();
        let names = schema.features().iter().map(|feature| feature.name.clone());
        let values: ProfileValues = names.zip(&x).map(|(name, &level)| (name, Value::Number(level.into()))).collect();
        let profile = Profile::new(&schema, &values)?;
        // A record holds its row as text, however short records were asked for.
        let longest = columns * (2 + range.to_string().len());
        let mut contents = ManifestFields::new("bench", schema, options.rows, longest.max(options.record_bytes), 1);
        // As `--servers` says where the scheme is linear in the shares: N = T + 1.
        contents.terms.threshold = options.servers - 1;
        contents.terms.shuffle = order == RowOrder::Shuffled;
        let (offer, servers) = if scheme.name == sealed::SCHEME.name {
            let sealed = SealedScheme::new(contents.params()).map_err(CommandError::input)?;
            (SchemeEntry::for_sealed(&sealed), sealed::SERVERS)
        } else {
            let instance =
                SchemeInstance::new(scheme, contents.params(), ModulusRule::Deployment).map_err(CommandError::input)?;
            (SchemeEntry::of(&instance), instance.servers())
        };
        let servers = u8::try_from(servers).map_err(CommandError::input)?;
        let contents = ManifestFields {
            schemes: vec![offer],
            default_scheme: scheme.name.into(),
            operators: ManifestFields::new("", contents.schema.clone(), 1, 1, servers).operators,
            ..contents
        };
        let manifest = Manifest::new(contents).map_err(CommandError::input)?;
        let mut wishes = WishList::default();
        if scheme.constraint != ConstraintKind::None {
            wishes.immutable.push("feature 0".into());
        }
        let params = manifest.fields().params();
        let compiled = wishes.for_schema(manifest.schema()).map_err(CommandError::machine)?;
        let compiled = compiled.compile(profile.encoded(), scheme, &params).map_err(CommandError::machine)?;
        let secret = compiled.secret;
        let costs = levels.chunks_exact(columns).filter_map(|row| secret.plain_cost(scheme, &params, row));
        let nearest = if scheme.cost_model == CostModel::Product { costs.max() } else { costs.min() };
        Ok(BenchDataset { manifest, levels, values, wishes, secret, nearest })
    }

    /// The one scheme on offer, where servers scan; [`measure`] sends sealed ones elsewhere.
    fn instance(&self) -> Result<&Arc<SchemeInstance>, CommandError> {
        self.manifest
            .default_scheme()
            .scans()
            .ok_or_else(|| CommandError::Machine("nobody scans in this scheme".into()))
    }

    fn rows(&self) -> impl ExactSizeIterator<Item = &[u16]> {
        self.levels.chunks_exact(self.manifest.schema().features().len())
    }

    pub(crate) fn bundle(&self) -> Result<Bundle, CommandError> {
        let length = self.manifest.record_length();
        let mut records = Vec::with_capacity(length * self.manifest.rows());
        let words: Vec<String> = (0..=u16::MAX).map(|level| level.to_string()).collect();
        let mut texts: Vec<&str> = vec![];
        for row in self.rows() {
            texts.clear();
            texts.extend(row.iter().map(|&level| words[usize::from(level)].as_str()));
            records.extend(record::encode(&texts, length).map_err(CommandError::machine)?);
        }
        let rows = RowStore::build(&self.manifest.schema().max_levels(), self.rows()).map_err(CommandError::machine)?;
        Bundle::in_memory(self.manifest.clone(), rows, records).map_err(CommandError::machine)
    }

    /// The confirmed cost of what a search found; a gate may let nothing pass.
    pub(crate) fn explain(&self, outcome: &SearchResult) -> Result<Option<u64>, CommandError> {
        let Some(found) = outcome.found.first() else { return Ok(None) };
        let schema = self.manifest.schema();
        let record = Record::decode(schema, &found.record).map_err(CommandError::machine)?;
        let levels = record.levels(schema).map_err(CommandError::machine)?;
        let (scheme, params) = (self.manifest.default_scheme().scheme(), self.manifest.fields().params());
        confirm_under(scheme, &params, &self.secret, found, &levels).map(Some).map_err(CommandError::machine)
    }

    pub(crate) fn check(&self, found: Option<u64>) -> Result<(), CommandError> {
        match found == self.nearest {
            true => Ok(()),
            false => {
                Err(CommandError::Machine(format!("found cost {found:?}, but brute force finds {:?}", self.nearest)))
            }
        }
    }

    /// The whole search by plain calls.
    fn in_process(&self, loaded_bundles: &[Arc<LoadedBundle>], times: &mut Times) -> Result<Option<u64>, CommandError> {
        let random = &mut OsRandom::default();
        let instance = self.instance()?;
        let search = Search::nearest(instance.clone(), self.secret.clone(), self.manifest.header_context(), 1);
        let mut search = search.map_err(CommandError::machine)?.interpolated_by(&KernelInterpolator);
        // A step's responses are read when the next one is asked for, so there is one step more
        // than messages.
        let mut part = QUERIES;
        while let Some(StepMessages { route, messages, .. }) = times.lap(part, || search.next(random)) {
            let mut responses = vec![];
            for (loaded, message) in loaded_bundles.iter().zip(&messages) {
                responses.push(Some(respond(loaded, message, times)?));
            }
            let (reading, next) = match route {
                Route::Answer => (DECODE, QUERIES),
                Route::Record => (EXPLAIN, EXPLAIN),
            };
            times.lap(reading, || search.receive(responses));
            part = next;
        }
        times.lap(EXPLAIN, || {
            let outcome = search.finish().map_err(CommandError::machine)?;
            self.explain(&outcome)
        })
    }
}

const QUERIES: &str = "queries, shared, committed and checked";
const ANSWERS: &str = "answers, all servers";
const DECODE: &str = "decode and argmin";
const RECORDS: &str = "record fetch, all servers";
const EXPLAIN: &str = "record, opened and confirmed";

/// One server's response, without checksum.
fn respond(loaded: &LoadedBundle, message: &[u8], times: &mut Times) -> Result<Vec<u8>, CommandError> {
    let request = times.lap(QUERIES, || loaded.protocol().open(message)).map_err(CommandError::machine)?;
    let mut response = vec![];
    let mut sink = |bytes: &[u8]| {
        response.extend_from_slice(bytes);
        ControlFlow::Continue(())
    };
    let whole = match &request {
        CheckedRequest::Answer(ask) => times.lap(ANSWERS, || loaded.database().answer(ask, &mut sink)),
        CheckedRequest::Record(ask) => times.lap(RECORDS, || loaded.database().record(loaded.index(), ask, &mut sink)),
        CheckedRequest::Sealed(_) => Err(AnswerError::Stopped),
    };
    whole.map(|()| response).map_err(|_| CommandError::Machine("a server gave no answer".into()))
}

/// The time of each part, in the order of a search.
#[derive(Default)]
pub(crate) struct Times(pub(crate) Vec<(&'static str, Duration)>);

impl Times {
    pub(crate) fn lap<T>(&mut self, part: &'static str, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let done = work();
        let took = started.elapsed();
        match self.0.iter_mut().find(|(name, _)| *name == part) {
            Some((_, time)) => *time += took,
            None => self.0.push((part, took)),
        }
        done
    }

    pub(crate) fn keep_best(&mut self, round: &Times) {
        if self.0.is_empty() {
            self.0.clone_from(&round.0);
        }
        self.0.iter_mut().zip(&round.0).for_each(|((_, best), (_, time))| *best = (*best).min(*time));
    }
}

/// The servers, each on a runtime of its own, and the way to each.
struct Servers {
    runtimes: Vec<Runtime>,
    loaded_bundles: Vec<Arc<LoadedBundle>>,
    transports: Vec<Arc<dyn Transport>>,
}

impl Servers {
    fn start(world: &BenchDataset) -> Result<Servers, CommandError> {
        let names = vec!["localhost".into(), "127.0.0.1".into()];
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(names).map_err(CommandError::machine)?;
        let trust = TlsTrust::pem(cert.pem().as_bytes())?;
        let key = RootKey::generate(0, &mut OsRandom::default());
        let mut servers = Servers { runtimes: vec![], loaded_bundles: vec![], transports: vec![] };
        for index in 1..=world.manifest.servers() as u8 {
            // Each has rows of its own, as on machines of their own.
            let loaded = LoadedBundle::new(&world.bundle()?, index, vec![key.clone()]);
            let tokens = Tokens::new(vec![], None).map_err(CommandError::machine)?;
            let app = AppState::new(loaded.map_err(CommandError::machine)?, tokens, Limits::default(), vec![]);
            let private = signing_key.serialize_der().try_into().map_err(CommandError::machine)?;
            let tls = server::with(vec![cert.der().clone()], private).map_err(CommandError::machine)?;
            let runtime = Runtime::new().map_err(CommandError::machine)?;
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let server =
                runtime.block_on(Server::bind(app, address, None, Some(tls))).map_err(CommandError::machine)?;
            let url = format!("https://{}", server.address());
            servers.transports.push(Arc::new(HttpServer::new(&url, &trust, None)?));
            servers.loaded_bundles.extend(server.app().versions().current());
            runtime.spawn(server.run(std::future::pending()));
            servers.runtimes.push(runtime);
        }
        Ok(servers)
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.runtimes.drain(..).for_each(Runtime::shutdown_background);
    }
}
