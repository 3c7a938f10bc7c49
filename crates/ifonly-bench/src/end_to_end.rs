//! Whole searches over HTTPS on loopback, and the same searches without a network.
//!
//! Servers and client are the real ones; the client trusts only the certificates of this run. In
//! every round one search runs over HTTPS and one by direct calls: the same bundles check and
//! answer the same messages, and the same code decodes. Each part keeps its best time. The ratio of
//! the two is the overhead of network, TLS, HTTP, checksums and waiting. All times are wall-clock
//! times, because servers use all cores.

use crate::BenchError;
use crate::dataset::{BenchDataset, RowOrder};
use crate::kernels::BenchOptions;
use crate::part_times::{PartTimes, TimedPart, milliseconds};
use crate::servers::BenchServers;
use ifonly_algebra::random::OsRandom;
use ifonly_client::{Answer, Client, Pins};
use ifonly_core::http_api::Route;
use ifonly_core::search::{Search, StepMessages};
use ifonly_core::server_protocol::CheckedRequest;
use ifonly_scan::decode::KernelInterpolator;
use ifonly_server::LoadedBundle;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// The result of a measurement.
#[derive(Clone, Debug, serde::Serialize)]
pub struct EndToEndReport {
    /// The scheme.
    pub scheme: &'static str,
    /// The order of the rows.
    pub order: RowOrder,
    /// Number of servers.
    pub servers: usize,
    /// Bytes of a record before its all-or-nothing transform.
    pub record_bytes: usize,
    /// Bytes to all servers.
    pub bytes_up: u64,
    /// Bytes from all servers.
    pub bytes_down: u64,
    /// The parts of the search without a network.
    pub parts: Vec<TimedPart>,
    /// The sum of all parts.
    pub sum_milliseconds: f64,
    /// Handshakes and manifests, once before the first search.
    pub connect_milliseconds: f64,
    /// The search over HTTPS.
    pub search_milliseconds: f64,
    /// The search over HTTPS divided by the sum of its parts.
    pub ratio: f64,
}

impl std::fmt::Display for EndToEndReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let EndToEndReport { scheme, servers, record_bytes, bytes_up, bytes_down, .. } = self;
        let order = if self.order == RowOrder::Shuffled { "shuffled" } else { "unshuffled" };
        writeln!(
            f,
            "A search with scheme {scheme} at {servers} servers, {order} rows, records of {record_bytes} bytes; \
             {bytes_up} bytes up, {bytes_down} down; wall clock",
        )?;
        writeln!(f, "{:<44} {:>10}", "without a network", "ms")?;
        for TimedPart { part, milliseconds } in &self.parts {
            writeln!(f, "{part:<44} {milliseconds:>10.3}")?;
        }
        writeln!(f, "{:<44} {:>10.3}", "sum of these parts", self.sum_milliseconds)?;
        writeln!(f, "{:<44} {:>10.3}", "connecting to the servers over HTTPS, once", self.connect_milliseconds)?;
        writeln!(f, "{:<44} {:>10.3}", "the search over HTTPS", self.search_milliseconds)?;
        writeln!(f, "{:<44} {:>10.3}", "the search over HTTPS / sum of its parts", self.ratio)
    }
}

/// Measures searches. Before that, the results of both kinds are compared with brute force.
pub fn measure(options: &BenchOptions, scheme: &str, order: RowOrder) -> Result<EndToEndReport, BenchError> {
    let dataset = BenchDataset::make(options, scheme, order)?;
    let servers = BenchServers::start(&dataset, None)?;
    let runtime = Runtime::new().map_err(BenchError::machine)?;
    let started = Instant::now();
    let client = runtime.block_on(Client::connect(servers.transports(), &Pins::default()))?;
    let connect = started.elapsed();
    let over_https =
        || -> Result<Answer, BenchError> { Ok(runtime.block_on(client.ask(&dataset.values, &dataset.wishes))?) };
    let answer = over_https()?;
    dataset.check(answer.found.first().map(|found| found.decoded()))?;
    let direct = |times: &mut PartTimes| search_directly(&dataset, servers.loaded_bundles(), times);
    dataset.check(direct(&mut PartTimes::default())?)?;
    let (mut best, mut search) = (PartTimes::default(), Duration::MAX);
    for _ in 0..options.rounds.max(1) {
        let started = Instant::now();
        std::hint::black_box(over_https()?);
        search = search.min(started.elapsed());
        let mut round = PartTimes::default();
        direct(&mut round)?;
        best.keep_best(&round);
    }
    let (parts, sum_milliseconds) = best.into_parts();
    Ok(EndToEndReport {
        scheme: dataset.manifest.default_scheme().scheme().name,
        order,
        servers: dataset.manifest.servers(),
        record_bytes: dataset.manifest.record_length(),
        bytes_up: answer.traffic.up,
        bytes_down: answer.traffic.down,
        parts,
        sum_milliseconds,
        connect_milliseconds: milliseconds(connect),
        search_milliseconds: milliseconds(search),
        ratio: milliseconds(search) / sum_milliseconds,
    })
}

const QUERIES: &str = "queries, shared, committed and checked";
const ANSWERS: &str = "answers, all servers";
const DECODE: &str = "decode and argmin";
const RECORDS: &str = "record fetch, all servers";
const EXPLAIN: &str = "record, opened and confirmed";

/// A whole search by direct calls; returns the cost that was found.
fn search_directly(
    dataset: &BenchDataset,
    servers: &[Arc<LoadedBundle>],
    times: &mut PartTimes,
) -> Result<Option<u64>, BenchError> {
    let random = &mut OsRandom::default();
    let header_context = dataset.manifest.header_context();
    let search = Search::nearest(dataset.instance()?.clone(), dataset.secret.clone(), header_context, 1);
    let mut search = search.map_err(BenchError::machine)?.interpolated_by(&KernelInterpolator);
    // `next` also processes the responses of the previous step, so its time belongs to that step.
    let mut next_part = QUERIES;
    while let Some(StepMessages { route, messages, .. }) = times.measure(next_part, || search.next(random)) {
        let mut responses = vec![];
        for (loaded, message) in servers.iter().zip(&messages) {
            responses.push(Some(respond(loaded, message, times)?));
        }
        let (receive_part, next) = match route {
            Route::Answer => (DECODE, QUERIES),
            Route::Record => (EXPLAIN, EXPLAIN),
        };
        times.measure(receive_part, || search.receive(responses));
        next_part = next;
    }
    times.measure(EXPLAIN, || {
        let result = search.finish().map_err(BenchError::machine)?;
        dataset.confirmed_cost(&result)
    })
}

/// The response of one server, without checksum.
fn respond(loaded: &LoadedBundle, message: &[u8], times: &mut PartTimes) -> Result<Vec<u8>, BenchError> {
    let request = times.measure(QUERIES, || loaded.protocol().decode(message)).map_err(BenchError::machine)?;
    let mut response = vec![];
    let mut sink = |bytes: &[u8]| {
        response.extend_from_slice(bytes);
        ControlFlow::Continue(())
    };
    let result = match &request {
        CheckedRequest::Answer(request) => times.measure(ANSWERS, || loaded.database().answer(request, &mut sink)),
        CheckedRequest::Record(request) => {
            times.measure(RECORDS, || loaded.database().record(loaded.index(), request, &mut sink))
        }
    };
    result.map(|()| response).map_err(|_| BenchError::machine("a server did not answer"))
}
