//! Load test of servers that run elsewhere: many clients search again and again.
//!
//! `visitors CA.pem PROFILE.json CLIENTS SECONDS TOKEN|- URL…`. Prints the number of searches,
//! quantiles of their times, and for each kind of failure one line that starts with `fault`.
//! `checks/frontends.py` starts the servers and reads this output.
#![forbid(unsafe_code)]

use ifonly_client::transport::http;
use ifonly_client::transport::http::TlsTrust;
use ifonly_client::{Client, Endpoint, EndpointTokens, Pins, ProfileValues, RetryPolicy, WishList};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The servers, and the profile to search with.
struct Visit {
    trust: TlsTrust,
    values: ProfileValues,
    endpoints: Vec<Endpoint>,
}

fn main() -> Result<(), BoxError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [authority, profile, clients, seconds, token, urls @ ..] = arguments.as_slice() else {
        return Err("usage: visitors CA.pem PROFILE.json CLIENTS SECONDS TOKEN|- URL…".into());
    };
    let tokens = EndpointTokens { all: (token != "-").then(|| token.clone()), ..EndpointTokens::default() };
    let visit = Visit {
        trust: TlsTrust::pem(&std::fs::read(authority)?)?,
        values: ProfileValues::from_json(&std::fs::read_to_string(profile)?)?,
        endpoints: tokens.endpoints(urls)?,
    };
    let (clients, seconds): (usize, u64) = (clients.parse()?, seconds.parse()?);
    tokio::runtime::Runtime::new()?.block_on(load(Arc::new(visit), clients, Duration::from_secs(seconds.min(600))))
}

async fn load(visit: Arc<Visit>, clients: usize, duration: Duration) -> Result<(), BoxError> {
    let started = Instant::now();
    let client = |visit: Arc<Visit>| async move {
        let (mut times, mut errors) = (vec![], vec![]);
        while started.elapsed() < duration {
            let search_started = Instant::now();
            match search(&visit).await {
                Ok(()) => times.push(search_started.elapsed()),
                Err(error) => errors.push(error.to_string()),
            }
        }
        (times, errors)
    };
    let tasks: Vec<_> = (0..clients).map(|_| tokio::spawn(client(visit.clone()))).collect();
    let (mut times, mut faults) = (vec![], BTreeMap::<String, usize>::new());
    for task in tasks {
        let (client_times, errors) = task.await?;
        times.extend(client_times);
        for error in errors {
            *faults.entry(error).or_default() += 1;
        }
    }
    let elapsed = started.elapsed().as_secs_f64();
    times.sort_unstable();
    let quantile = |share: f64| {
        let time = times.get((times.len() as f64 * share) as usize).or(times.last()).copied().unwrap_or_default();
        time.as_secs_f64() * 1e3
    };
    println!("searches {}", times.len());
    println!("per_second {:.1}", times.len() as f64 / elapsed);
    println!("failures {}", faults.values().sum::<usize>());
    println!("p50_ms {:.1}\np99_ms {:.1}\nlongest_ms {:.1}", quantile(0.5), quantile(0.99), quantile(1.0));
    for (error, count) in faults {
        println!("fault {count} times: {error}");
    }
    Ok(())
}

/// One whole search on new connections.
async fn search(visit: &Visit) -> Result<(), BoxError> {
    let servers = http::servers(visit.endpoints.iter().cloned(), &visit.trust, RetryPolicy::default())?;
    let client = Client::connect(servers, &Pins::default()).await?;
    let answer = client.ask(&visit.values, &WishList::default()).await?;
    answer.found.first().map(|_| ()).ok_or_else(|| "no row was found".into())
}
