//! Sustained concurrent searches against real servers on loopback, in this process: how long they
//! take, whether any fails, and whether memory stays flat. Bounded by time; talks to nobody else.
//!
//! `cargo run --release -p ifonly-client --example load -- [ROWS] [PEOPLE] [SECONDS]`

#[path = "../tests/support/mod.rs"]
mod support;

use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_client::transport::http;
use ifonly_client::transport::http::TlsTrust;
use ifonly_client::{Client, Pins, RetryPolicy, Transport, WishList};
use ifonly_server::Server;
use ifonly_server::auth::tokens::Tokens;
use ifonly_server::config::Limits;
use ifonly_server::http::routes::AppState;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::World;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<Vec<u64>, _>>()?;
    let number = |place: usize, usual| numbers.get(place).copied().unwrap_or(usual);
    let (rows, people, seconds) = (number(0, 20_000), number(1, 16), number(2, 20).min(600));
    tokio::runtime::Runtime::new()?.block_on(load(rows as usize, people, seconds))
}

async fn load(rows: usize, people: u64, seconds: u64) -> Result<(), Box<dyn std::error::Error>> {
    let world = Arc::new(World::new(rows, 2, 1, |_| {}));
    let mut urls = vec![];
    for index in [1, 2] {
        let limits = Limits { queue: 1024, ..Limits::default() };
        let app = AppState::new(world.loaded(index), Tokens::new(vec![], None)?, limits, vec![]);
        let server = Server::bind(app, ([127, 0, 0, 1], 0).into(), None, None).await?;
        urls.push(format!("http://{}", server.address()));
        tokio::spawn(server.run(std::future::pending()));
    }
    let instance = world.manifest.default_scheme().scans().unwrap();
    println!("{rows} rows, 2 servers, scheme {}, {people} people at once, {seconds} s", instance.scheme().name);
    let started = Instant::now();
    let until = started + Duration::from_secs(seconds);
    let tasks: Vec<_> = (0..people)
        .map(|person| {
            let (world, urls) = (world.clone(), urls.clone());
            tokio::spawn(async move { one_person(&world, &urls, person, until).await })
        })
        .collect();
    let mut memory = vec![];
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(seconds) / 5).await;
        memory.push(resident().unwrap_or(0) >> 20);
    }
    let (mut times, mut failures) = (vec![], 0);
    for task in tasks {
        let (took, failed) = task.await?;
        times.extend(took);
        failures += failed;
    }
    let elapsed = started.elapsed().as_secs_f64();
    times.sort_unstable();
    let at = |share: f64| {
        times.get(((times.len() as f64 * share) as usize).min(times.len() - 1)).copied().unwrap_or_default()
    };
    println!("{} searches, {:.0} per second, {failures} failures", times.len(), times.len() as f64 / elapsed);
    println!("p50 {:.1} ms, p99 {:.1} ms", at(0.5).as_secs_f64() * 1e3, at(0.99).as_secs_f64() * 1e3);
    println!("resident memory, both servers and all people, at five times: {memory:?} MB");
    Ok(())
}

/// Searches until the time is over; gives the times and how many went wrong.
async fn one_person(world: &World, urls: &[String], person: u64, until: Instant) -> (Vec<Duration>, usize) {
    let mut random = SeededRandom::new(person);
    let (mut times, mut failures) = (vec![], 0);
    let Ok(trust) = TlsTrust::system() else { return (times, 1) };
    while Instant::now() < until {
        let started = Instant::now();
        let Ok(servers) = http::servers(urls, &trust, None, RetryPolicy::default()) else { return (times, 1) };
        let x =
            vec![random.below(10) as u32, random.below(7) as u32, 4 * random.below(2) as u32, random.below(3) as u32];
        match search(world, servers, x).await {
            Some(()) => times.push(started.elapsed()),
            None => failures += 1,
        }
    }
    (times, failures)
}

/// One whole search, its record checked; nothing if anything was wrong.
async fn search(world: &World, servers: Vec<Arc<dyn Transport>>, x: Vec<u32>) -> Option<()> {
    let client = Client::connect(servers, &Pins::default()).await.ok()?;
    let answer = client.ask(&world.values(&x), &WishList::default()).await.ok()?;
    answer.found.first().map(|_| ())
}

fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
