//! A sealed search over TLS on loopback, beside its parts without a network.
//!
//! Three real servers, each on its own runtime, with certificates made for the run. With a round
//! trip above 0 the lines between them go through proxies that hold back every byte for half of it.
//! In every round one search goes over the network and one through the same code in this thread.
//! Each part keeps its best time; all times are the wall's.

use crate::cli::exit::CommandError;
use crate::end_to_end::{BenchDataset, RowOrder, TimedPart, Times};
use ifonly_algebra::keys::{RootKey, TranscriptKeys};
use ifonly_algebra::random::OsRandom;
use ifonly_client::transport::http::{HttpServer, TlsTrust};
use ifonly_client::{Answer, Client, Pins, Transport};
use ifonly_core::scheme::sealed::SERVERS;
use ifonly_core::server_protocol::{CheckedRequest, SealedRequest};
use ifonly_scan::bench::BenchOptions;
use ifonly_sealed::{Circuit, Party, PartyRandomness, SealedSearch, simulate};
use ifonly_server::auth::tokens::Tokens;
use ifonly_server::config::Limits;
use ifonly_server::http::routes::AppState;
use ifonly_server::peers::{NextServer, PeerLimits, PeerListener, PeersConfig, PreviousServer, RandomnessMode};
use ifonly_server::tls::server;
use ifonly_server::{LoadedBundle, Server};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// What was measured.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct SealedBenchReport {
    /// Rows.
    rows: usize,
    /// Bits of a value.
    bits: usize,
    /// Where random bits between the servers come from.
    randomness: String,
    /// Rounds between the servers.
    rounds: u64,
    /// Bytes that each server sends to the others, per row.
    bytes_between_servers_per_row: f64,
    /// Bytes of memory of a session, per row and server.
    memory_per_row: f64,
    /// Bytes from and to the user.
    bytes_up: u64,
    bytes_down: u64,
    /// What was added between servers.
    round_trip_milliseconds: f64,
    /// The search without a network, part by part, all three servers one after another.
    parts: Vec<TimedPart>,
    /// All parts.
    sum_milliseconds: f64,
    /// The search over TLS.
    pub(crate) search_milliseconds: f64,
}

impl std::fmt::Display for SealedBenchReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "A sealed search of {} rows, values of {} bits: {} bytes up, {} down; {} rounds between servers, random bits: {}; wall clock",
            self.rows, self.bits, self.bytes_up, self.bytes_down, self.rounds, self.randomness
        )?;
        writeln!(f, "{:<52} {:>10.1}", "bytes sent per row and server", self.bytes_between_servers_per_row)?;
        writeln!(f, "{:<52} {:>10.1}", "bytes of memory per row and server", self.memory_per_row)?;
        writeln!(f, "{:<52} {:>10}", "without a network, all three servers in one thread", "ms")?;
        for TimedPart { part, milliseconds } in &self.parts {
            writeln!(f, "{part:<52} {milliseconds:>10.3}")?;
        }
        writeln!(f, "{:<52} {:>10.3}", "sum of these parts", self.sum_milliseconds)?;
        let added = self.round_trip_milliseconds;
        let over = format!("the search over TLS, {added} ms round trip added");
        writeln!(f, "{over:<52} {:>10.3}", self.search_milliseconds)
    }
}

const SHARES: &str = "table, shares and commitments";
const SUMS: &str = "checks, sums over the rows, entering";
const MACHINE: &str = "sum, tournament and selection";
const RECORDS: &str = "sums of records and answers";
const OPEN: &str = "answers put together, record opened and confirmed";

/// No round begins after so long; a search of ten million rows takes seconds.
const ENOUGH: Duration = Duration::from_secs(60);

/// Measures; the answers are compared with brute force before. What it is at goes to standard
/// error, since large databases take a while.
pub(crate) fn measure(
    options: &BenchOptions,
    round_trip: Duration,
    source: RandomnessMode,
) -> Result<SealedBenchReport, CommandError> {
    let started = Instant::now();
    let now = |what: &str| eprintln!("{:>7.1} s  {what}", started.elapsed().as_secs_f64());
    now("making rows and looking for the nearest by brute force");
    let world = BenchDataset::make(options, ifonly_core::scheme::sealed::SCHEME.name, RowOrder::Stored)?;
    now("making records and sealing them for three servers");
    let servers = Servers::start(&world, round_trip, source)?;
    now("comparing answers with brute force");
    let runtime = Runtime::new().map_err(CommandError::machine)?;
    let asking = runtime.block_on(Client::connect(servers.transports.clone(), &Pins::default()))?;
    let over_tls =
        || -> Result<Answer, CommandError> { Ok(runtime.block_on(asking.ask(&world.values, &world.wishes))?) };
    let answer = over_tls()?;
    world.check(answer.found.first().map(|found| found.decoded()))?;
    world.check(in_process(&world, &servers.loaded_bundles, source, &mut Times::default())?)?;
    let (mut times, mut search) = (Times::default(), Duration::MAX);
    let begun = Instant::now();
    for round in 1..=options.rounds.max(1) {
        if round > 1 && begun.elapsed() > ENOUGH {
            break;
        }
        now(&format!("round {round} of {}", options.rounds.max(1)));
        let started = Instant::now();
        std::hint::black_box(over_tls()?);
        search = search.min(started.elapsed());
        let mut parts = Times::default();
        in_process(&world, &servers.loaded_bundles, source, &mut parts)?;
        times.keep_best(&parts);
    }
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let parts: Vec<TimedPart> =
        times.0.iter().map(|&(part, time)| TimedPart { part, milliseconds: milliseconds(time) }).collect();
    let sealed = world.manifest.sealed().ok_or_else(|| CommandError::Machine("sealed is not on offer".into()))?;
    let shape = ifonly_sealed::params_for(sealed, 1, world.manifest.record_length()).map_err(CommandError::machine)?;
    let (cost, rows) = (Circuit::new(&shape).cost(), world.manifest.rows());
    Ok(SealedBenchReport {
        rows,
        bits: sealed.bits(),
        randomness: source.to_string(),
        rounds: cost.rounds,
        bytes_between_servers_per_row: match source {
            RandomnessMode::System => cost.bytes,
            RandomnessMode::Keys => cost.bytes_keyed,
        } as f64
            / rows as f64,
        memory_per_row: cost.memory as f64 / rows as f64,
        bytes_up: answer.traffic.up,
        bytes_down: answer.traffic.down,
        round_trip_milliseconds: milliseconds(round_trip),
        sum_milliseconds: parts.iter().map(|part| part.milliseconds).sum(),
        parts,
        search_milliseconds: milliseconds(search),
    })
}

/// The whole search by plain calls.
fn in_process(
    world: &BenchDataset,
    loaded_bundles: &[Arc<LoadedBundle>],
    source: RandomnessMode,
    times: &mut Times,
) -> Result<Option<u64>, CommandError> {
    let random = &mut OsRandom::default();
    let keys: [TranscriptKeys; SERVERS] =
        std::array::from_fn(|_| RootKey::generate(0, &mut OsRandom::default()).transcript(&[0; 32]));
    let randomness = |place: usize| match source {
        RandomnessMode::System => PartyRandomness::Drawn,
        RandomnessMode::Keys => PartyRandomness::Keyed {
            with_previous: keys[(place + SERVERS - 1) % SERVERS].clone(),
            with_next: keys[place].clone(),
        },
    };
    let sealed = world.manifest.sealed().ok_or_else(|| CommandError::Machine("sealed is not on offer".into()))?;
    let search = SealedSearch::new(sealed.clone(), world.secret.clone(), world.manifest.header_context(), 1);
    let mut search = search.map_err(CommandError::machine)?;
    let outgoing = times.lap(SHARES, || search.next(random));
    let messages = outgoing.map(|outgoing| outgoing.messages).unwrap_or_default();
    let (asks, mut parties) = times.lap(SUMS, || -> Result<_, CommandError> {
        let mut asks: Vec<SealedRequest> = vec![];
        let mut parties: Vec<Party> = vec![];
        for (place, (loaded, message)) in loaded_bundles.iter().zip(&messages).enumerate() {
            let CheckedRequest::Sealed(ask) = loaded.protocol().open(message).map_err(CommandError::machine)? else {
                return Err(CommandError::Machine("a sealed message is something else".into()));
            };
            let circuit = loaded.circuit(&ask).map_err(CommandError::machine)?;
            parties.push(loaded.party(&ask, &circuit, randomness(place)).map_err(CommandError::machine)?);
            asks.push(ask);
        }
        let parties = <[Party; SERVERS]>::try_from(parties);
        Ok((asks, parties.map_err(|_| CommandError::Machine("there are not three servers".into()))?))
    })?;
    for result in times.lap(MACHINE, || simulate::run(&mut parties, random, |frame| vec![frame])) {
        result.map_err(CommandError::machine)?;
    }
    let responses = times.lap(RECORDS, || -> Result<Vec<_>, CommandError> {
        let all = loaded_bundles.iter().zip(&asks).zip(parties);
        all.map(|((loaded, ask), party)| Ok(Some(loaded.sealed_answer(ask, party).map_err(CommandError::machine)?)))
            .collect()
    })?;
    times.lap(OPEN, || {
        search.receive(responses);
        world.explain(&search.finish().map_err(CommandError::machine)?)
    })
}

/// The servers, each on a runtime of its own, and the way to each.
struct Servers {
    runtimes: Vec<Runtime>,
    loaded_bundles: Vec<Arc<LoadedBundle>>,
    transports: Vec<Arc<dyn Transport>>,
    /// Their certificates and keys.
    _folder: tempfile::TempDir,
}

impl Servers {
    fn start(world: &BenchDataset, round_trip: Duration, source: RandomnessMode) -> Result<Servers, CommandError> {
        let folder = tempfile::tempdir().map_err(CommandError::machine)?;
        let file = |server: usize, what: &str| -> PathBuf { folder.path().join(format!("{server}.{what}")) };
        let mut trusted = String::new();
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut listeners = vec![];
        let runtimes =
            (0..SERVERS).map(|_| Runtime::new()).collect::<Result<Vec<_>, _>>().map_err(CommandError::machine)?;
        for (server, runtime) in (1..).zip(&runtimes) {
            let names = vec!["localhost".into(), "127.0.0.1".into()];
            let made = rcgen::generate_simple_self_signed(names).map_err(CommandError::machine)?;
            std::fs::write(file(server, "pem"), made.cert.pem()).map_err(CommandError::machine)?;
            std::fs::write(file(server, "key"), made.signing_key.serialize_pem()).map_err(CommandError::machine)?;
            trusted += &made.cert.pem();
            listeners.push(runtime.block_on(TcpListener::bind(local)).map_err(CommandError::machine)?);
        }
        let addresses: Vec<SocketAddr> =
            listeners.iter().map(TcpListener::local_addr).collect::<Result<_, _>>().map_err(CommandError::machine)?;
        let trust = TlsTrust::pem(trusted.as_bytes())?;
        let key = RootKey::generate(0, &mut OsRandom::default());
        // Each has rows of its own, as on machines of their own.
        let hold =
            &|index: u8| LoadedBundle::new(&world.bundle()?, index, vec![key.clone()]).map_err(CommandError::machine);
        let held = std::thread::scope(|scope| {
            let threads: Vec<_> = (1..=SERVERS as u8).map(|index| scope.spawn(move || hold(index))).collect();
            threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
        });
        let (mut loaded_bundles, mut transports): (Vec<_>, Vec<Arc<dyn Transport>>) = (vec![], vec![]);
        for (((server, runtime), listener), held) in (1..).zip(&runtimes).zip(listeners).zip(held) {
            let (next, previous) = (server % SERVERS + 1, (server + 1) % SERVERS + 1);
            let mut address = addresses[next - 1];
            if !round_trip.is_zero() {
                address = proxy(address, round_trip / 2).map_err(CommandError::machine)?;
            }
            let config = PeersConfig {
                listen: local,
                next: NextServer { addresses: vec![address.to_string()], certificate: file(next, "pem") },
                previous: PreviousServer { certificate: file(previous, "pem") },
                randomness: source,
                limits: PeerLimits::default(),
            };
            let (certificate, private) = (file(server, "pem"), file(server, "key"));
            let index = server as u8;
            let _inside = runtime.enter();
            let peer_listener =
                PeerListener::on(listener, &config, index, &certificate, &private).map_err(CommandError::machine)?;
            let loaded = held.map_err(|_| CommandError::Machine("a thread that sealed records panicked".into()))??;
            let tokens = Tokens::new(vec![], None).map_err(CommandError::machine)?;
            let app = AppState::new(loaded, tokens, Limits::default(), vec![])
                .with_peers(Some(Arc::new(peer_listener.run())));
            let tls = server::server(&certificate, &private).map_err(CommandError::machine)?;
            let bound = runtime.block_on(Server::bind(app, local, None, Some(tls))).map_err(CommandError::machine)?;
            transports.push(Arc::new(HttpServer::new(&format!("https://{}", bound.address()), &trust, None)?));
            loaded_bundles.extend(bound.app().versions().current());
            runtime.spawn(bound.run(std::future::pending()));
        }
        Ok(Servers { runtimes, loaded_bundles, transports, _folder: folder })
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.runtimes.drain(..).for_each(Runtime::shutdown_background);
    }
}

/// A port that leads to `target`, through which every byte takes `delay` each way. On threads of
/// its own: an asynchronous timer counts whole milliseconds, which would double a delay of one.
fn proxy(target: SocketAddr, delay: Duration) -> std::io::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let connect = move || -> std::io::Result<()> {
                let far = TcpStream::connect(target)?;
                near.set_nodelay(true)?;
                far.set_nodelay(true)?;
                pass(near.try_clone()?, far.try_clone()?, delay);
                pass(far, near, delay);
                Ok(())
            };
            // A connection that is not made is the bench's to miss: its search fails.
            let _ = connect();
        }
    });
    Ok(address)
}

/// One direction: what is read now is written `delay` later, whatever comes in between.
fn pass(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (sender, receiver) = mpsc::sync_channel::<(Instant, Vec<u8>)>(1024);
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if sender.send((Instant::now() + delay, buffer[..length].to_vec())).is_err() {
                break;
            }
        }
    });
    std::thread::spawn(move || {
        for (due, bytes) in receiver {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
}
