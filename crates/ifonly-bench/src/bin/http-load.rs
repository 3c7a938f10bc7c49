//! Load test: many clients search at two real servers on loopback, all in this process:
//! `http-load [ROWS] [CLIENTS] [SECONDS] [SCHEME] [stored]`. With `stored` the rows are not
//! shuffled.
//!
//! Prints the number of searches per second, the failures, quantiles of the search time, and the
//! resident memory at five times. Every search uses new connections. The program connects to no
//! other machine.
#![forbid(unsafe_code)]

use ifonly::{Loopback, LoopbackOptions};
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_bench::dataset::{BenchDataset, RowOrder, profile_values};
use ifonly_bench::kernels::{BenchOptions, BenchRowFunction};
use ifonly_bench::servers;
use ifonly_client::transport::http::{self, TlsTrust};
use ifonly_client::{Client, Pins, RetryPolicy, WishList};
use ifonly_scan::Backend;
use ifonly_server::config::Limits;
use std::time::{Duration, Instant};

const FEATURES: usize = 4;
const MAX_LEVEL: u32 = 9;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers = arguments.iter().take(3).map(|text| text.parse()).collect::<Result<Vec<u64>, _>>()?;
    let number = |position: usize, default| numbers.get(position).copied().unwrap_or(default);
    let (rows, clients, seconds) = (number(0, 20_000), number(1, 16), number(2, 20).min(600));
    let scheme = arguments.get(3).map_or(ifonly_core::scheme::DEFAULT.name, String::as_str);
    let order = match arguments.get(4).map(String::as_str) {
        None => RowOrder::Shuffled,
        Some("stored") => RowOrder::Stored,
        Some(other) => return Err(format!("the row order {other:?} is not \"stored\"").into()),
    };
    tokio::runtime::Runtime::new()?.block_on(load(rows as usize, clients, seconds, scheme, order))
}

async fn load(
    rows: usize,
    clients: u64,
    seconds: u64,
    scheme: &str,
    order: RowOrder,
) -> Result<(), Box<dyn std::error::Error>> {
    let dataset = BenchDataset::make(&options(rows), scheme, order)?;
    let limits = Limits { queue: 1024, ..LoopbackOptions::default().limits };
    let options = LoopbackOptions { limits, ..LoopbackOptions::default() };
    let servers = Loopback::serve(servers::load(&dataset)?, options).await?;
    println!(
        "{rows} rows, {} servers, scheme {scheme}, {order:?} order, {clients} clients, {seconds} s",
        servers.urls().len()
    );
    let started = Instant::now();
    let until = started + Duration::from_secs(seconds);
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            let urls = servers.urls().to_vec();
            tokio::spawn(async move { search_until(&urls, client, until).await })
        })
        .collect();
    let mut memory = vec![];
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(seconds) / 5).await;
        memory.push(resident_bytes().unwrap_or(0) >> 20);
    }
    let (mut times, mut failures) = (vec![], 0);
    for task in tasks {
        let (client_times, client_failures) = task.await?;
        times.extend(client_times);
        failures += client_failures;
    }
    let elapsed = started.elapsed().as_secs_f64();
    times.sort_unstable();
    let quantile = |share: f64| {
        let time = times.get((times.len() as f64 * share) as usize).or(times.last()).copied().unwrap_or_default();
        time.as_secs_f64() * 1e3
    };
    println!("{} searches, {:.0} per second, {failures} failures", times.len(), times.len() as f64 / elapsed);
    println!("p50 {:.1} ms, p99 {:.1} ms", quantile(0.5), quantile(0.99));
    println!("resident memory of servers and clients at five times: {memory:?} MB");
    servers.stop().await;
    Ok(())
}

fn options(rows: usize) -> BenchOptions {
    BenchOptions {
        rows,
        features: FEATURES,
        max_level: MAX_LEVEL,
        row_function: BenchRowFunction::GatedTable,
        bits: None,
        servers: 2,
        threads: 1,
        record_bytes: 1,
        rounds: 1,
        backend: Backend::best(),
        clock: None,
        seed: 1,
    }
}

/// Searches until the time is over. Returns the times of the searches and the number of failures.
async fn search_until(urls: &[String], client: u64, until: Instant) -> (Vec<Duration>, usize) {
    let mut random = SeededRandom::new(client);
    let (mut times, mut failures) = (vec![], 0);
    let Ok(trust) = TlsTrust::system() else { return (times, 1) };
    while Instant::now() < until {
        let started = Instant::now();
        let levels = std::iter::repeat_with(|| random.below(u64::from(MAX_LEVEL) + 1) as u16).take(FEATURES);
        match search(urls, &trust, levels.collect()).await {
            Some(()) => times.push(started.elapsed()),
            None => failures += 1,
        }
    }
    (times, failures)
}

/// One whole search on new connections; `None` if it failed or found no row.
async fn search(urls: &[String], trust: &TlsTrust, levels: Vec<u16>) -> Option<()> {
    let servers = http::servers(urls, trust, RetryPolicy::default()).ok()?;
    let client = Client::connect(servers, &Pins::default()).await.ok()?;
    let answer = client.ask(&profile_values(levels), &WishList::default()).await.ok()?;
    answer.found.first().map(|_| ())
}

fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
