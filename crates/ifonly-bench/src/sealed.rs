//! Sealed searches over TLS on loopback, and the same searches without a network.
//!
//! Three real servers, with certificates made for the run. With a round trip above 0 the
//! connections between the servers go through proxies that delay every byte by half of it. In every
//! round one search runs over the network and one by direct calls in this thread. Each part keeps
//! its best time. All times are wall-clock times.

use crate::BenchError;
use crate::dataset::{BenchDataset, RowOrder};
use crate::kernels::BenchOptions;
use crate::part_times::{PartTimes, TimedPart, milliseconds};
use crate::servers::{BenchServers, PeerConnection};
use ifonly_algebra::keys::{RootKey, TranscriptKeys};
use ifonly_algebra::random::OsRandom;
use ifonly_client::{Answer, Client, Pins};
use ifonly_core::scheme::sealed::{SCHEME, SERVERS};
use ifonly_core::server_protocol::SealedRequest;
use ifonly_core::transcript::Message;
use ifonly_sealed::{Circuit, Party, PartyRandomness, SealedSearch, simulate};
use ifonly_server::LoadedBundle;
use ifonly_server::peers::RandomnessMode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// The result of a measurement.
#[derive(Clone, Debug, serde::Serialize)]
pub struct SealedBenchReport {
    /// Number of rows.
    pub rows: usize,
    /// Bits of a value.
    pub bits: usize,
    /// The source of random bits between the servers.
    pub randomness: String,
    /// Rounds between the servers.
    pub rounds: u64,
    /// Bytes that each server sends to the others, per row.
    pub bytes_between_servers_per_row: f64,
    /// Bytes of memory of a session, per row and server.
    pub memory_per_row: f64,
    /// Bytes from the user.
    pub bytes_up: u64,
    /// Bytes to the user.
    pub bytes_down: u64,
    /// Round trip that was added between servers.
    pub round_trip_milliseconds: f64,
    /// The parts of the search without a network, with all three servers in one thread.
    pub parts: Vec<TimedPart>,
    /// The sum of all parts.
    pub sum_milliseconds: f64,
    /// The search over TLS.
    pub search_milliseconds: f64,
}

impl std::fmt::Display for SealedBenchReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let SealedBenchReport { rows, bits, bytes_up, bytes_down, rounds, randomness, .. } = self;
        writeln!(
            f,
            "A sealed search of {rows} rows, values of {bits} bits: {bytes_up} bytes up, {bytes_down} down; \
             {rounds} rounds between servers, random bits: {randomness}; wall clock",
        )?;
        writeln!(f, "{:<52} {:>10.1}", "bytes sent per row and server", self.bytes_between_servers_per_row)?;
        writeln!(f, "{:<52} {:>10.1}", "bytes of memory per row and server", self.memory_per_row)?;
        writeln!(f, "{:<52} {:>10}", "without a network, all three servers in one thread", "ms")?;
        for TimedPart { part, milliseconds } in &self.parts {
            writeln!(f, "{part:<52} {milliseconds:>10.3}")?;
        }
        writeln!(f, "{:<52} {:>10.3}", "sum of these parts", self.sum_milliseconds)?;
        let added = self.round_trip_milliseconds;
        let over_tls = format!("the search over TLS, {added} ms round trip added");
        writeln!(f, "{over_tls:<52} {:>10.3}", self.search_milliseconds)
    }
}

const SHARES: &str = "table, shares and commitments";
const INPUTS: &str = "checks, sums over the rows, input sharing";
const CIRCUIT: &str = "sum, tournament and selection";
const RECORDS: &str = "sums of records and answers";
const EXPLAIN: &str = "answers combined, record opened and confirmed";

/// No round starts after this time; a search of ten million rows takes seconds.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Measures searches. Before that, the results of both kinds are compared with brute force.
/// Progress goes to standard error, because large databases take minutes.
pub fn measure(options: &BenchOptions, peers: PeerConnection) -> Result<SealedBenchReport, BenchError> {
    let PeerConnection { round_trip, randomness } = peers;
    let started = Instant::now();
    let progress = |text: &str| eprintln!("{:>7.1} s  {text}", started.elapsed().as_secs_f64());
    progress("drawing rows and finding the nearest row by brute force");
    let dataset = BenchDataset::make(options, SCHEME.name, RowOrder::Stored)?;
    progress("encoding the records for three servers");
    let servers = BenchServers::start(&dataset, Some(peers))?;
    progress("comparing the results with brute force");
    let runtime = Runtime::new().map_err(BenchError::machine)?;
    let client = runtime.block_on(Client::connect(servers.transports(), &Pins::default()))?;
    let over_tls =
        || -> Result<Answer, BenchError> { Ok(runtime.block_on(client.ask(&dataset.values, &dataset.wishes))?) };
    let answer = over_tls()?;
    dataset.check(answer.found.first().map(|found| found.decoded()))?;
    let direct = |times: &mut PartTimes| search_directly(&dataset, servers.loaded_bundles(), randomness, times);
    dataset.check(direct(&mut PartTimes::default())?)?;
    let (mut best, mut search) = (PartTimes::default(), Duration::MAX);
    let first_round = Instant::now();
    for round in 1..=options.rounds.max(1) {
        if round > 1 && first_round.elapsed() > TIME_LIMIT {
            break;
        }
        progress(&format!("round {round} of {}", options.rounds.max(1)));
        let started = Instant::now();
        std::hint::black_box(over_tls()?);
        search = search.min(started.elapsed());
        let mut parts = PartTimes::default();
        direct(&mut parts)?;
        best.keep_best(&parts);
    }
    let (parts, sum_milliseconds) = best.into_parts();
    let (sealed, rows) = (dataset.sealed()?, dataset.manifest.rows());
    let params = ifonly_sealed::params_for(sealed, 1, dataset.manifest.record_length()).map_err(BenchError::machine)?;
    let cost = Circuit::new(&params).cost();
    let bytes = match randomness {
        RandomnessMode::System => cost.bytes,
        RandomnessMode::Keys => cost.bytes_keyed,
    };
    Ok(SealedBenchReport {
        rows,
        bits: sealed.bits(),
        randomness: randomness.to_string(),
        rounds: cost.rounds,
        bytes_between_servers_per_row: bytes as f64 / rows as f64,
        memory_per_row: cost.memory as f64 / rows as f64,
        bytes_up: answer.traffic.up,
        bytes_down: answer.traffic.down,
        round_trip_milliseconds: milliseconds(round_trip),
        parts,
        sum_milliseconds,
        search_milliseconds: milliseconds(search),
    })
}

/// A whole search by direct calls; returns the cost that was found.
fn search_directly(
    dataset: &BenchDataset,
    servers: &[Arc<LoadedBundle>],
    mode: RandomnessMode,
    times: &mut PartTimes,
) -> Result<Option<u64>, BenchError> {
    let random = &mut OsRandom::default();
    let keys: [TranscriptKeys; SERVERS] =
        std::array::from_fn(|_| RootKey::generate(0, &mut OsRandom::default()).transcript(&[0; 32]));
    let randomness = |position: usize| match mode {
        RandomnessMode::System => PartyRandomness::Drawn,
        RandomnessMode::Keys => PartyRandomness::Keyed {
            with_previous: keys[(position + SERVERS - 1) % SERVERS].clone(),
            with_next: keys[position].clone(),
        },
    };
    let header_context = dataset.manifest.header_context();
    let search = SealedSearch::new(dataset.sealed()?.clone(), dataset.secret.clone(), header_context, 1);
    let mut search = search.map_err(BenchError::machine)?;
    let step = times.measure(SHARES, || search.next(random));
    let messages = step.map(|step| step.messages).unwrap_or_default();
    let (requests, mut parties) = times.measure(INPUTS, || -> Result<_, BenchError> {
        let mut requests: Vec<SealedRequest> = vec![];
        let mut parties: Vec<Party> = vec![];
        for (position, (loaded, message)) in servers.iter().zip(&messages).enumerate() {
            let message = Message::decode(message).map_err(BenchError::machine)?;
            let request = loaded.protocol().check_sealed(&message).map_err(BenchError::machine)?;
            let circuit = loaded.circuit(&request).map_err(BenchError::machine)?;
            parties.push(loaded.party(&request, &circuit, randomness(position)).map_err(BenchError::machine)?);
            requests.push(request);
        }
        let parties = <[Party; SERVERS]>::try_from(parties);
        Ok((requests, parties.map_err(|_| BenchError::machine("a sealed search needs three servers"))?))
    })?;
    for result in times.measure(CIRCUIT, || simulate::run(&mut parties, random, |frame| vec![frame])) {
        result.map_err(BenchError::machine)?;
    }
    let responses = times.measure(RECORDS, || -> Result<Vec<_>, BenchError> {
        let all = servers.iter().zip(&requests).zip(parties);
        let answer = |((loaded, request), party): ((&Arc<LoadedBundle>, &SealedRequest), Party)| {
            Ok(Some(loaded.sealed_answer(request, party).map_err(BenchError::machine)?))
        };
        all.map(answer).collect()
    })?;
    times.measure(EXPLAIN, || {
        search.receive(responses);
        dataset.confirmed_cost(&search.finish().map_err(BenchError::machine)?)
    })
}
