//! People who ask servers that run elsewhere, all at once and again and again: how many searches a
//! second, how long they take, and why any fails. `checks/fronts.py` starts the servers.
//!
//! `cargo run --release -p ifonly-client --example visitors -- CA.pem PROFILE.json PEOPLE SECONDS
//! TOKEN|- URL…`

use ifonly_client::transport::http;
use ifonly_client::transport::http::TlsTrust;
use ifonly_client::{Client, Pins, ProfileValues, RetryPolicy, WishList};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Whom to ask, and about whom.
struct Visit {
    trust: TlsTrust,
    values: ProfileValues,
    token: Option<String>,
    urls: Vec<String>,
}

fn main() -> Result<(), Fault> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [authority, profile, people, seconds, token, urls @ ..] = arguments.as_slice() else {
        return Err("give CA.pem PROFILE.json PEOPLE SECONDS TOKEN|- URL…".into());
    };
    let visit = Visit {
        trust: TlsTrust::pem(&std::fs::read(authority)?)?,
        values: ProfileValues::from_json(&std::fs::read_to_string(profile)?)?,
        token: (token != "-").then(|| token.clone()),
        urls: urls.to_vec(),
    };
    let (people, seconds): (usize, u64) = (people.parse()?, seconds.parse()?);
    tokio::runtime::Runtime::new()?.block_on(load(Arc::new(visit), people, Duration::from_secs(seconds.min(600))))
}

async fn load(visit: Arc<Visit>, people: usize, time: Duration) -> Result<(), Fault> {
    let started = Instant::now();
    let ask = |visit: Arc<Visit>| async move {
        let (mut times, mut faults) = (vec![], vec![]);
        while started.elapsed() < time {
            let began = Instant::now();
            match search(&visit).await {
                Ok(()) => times.push(began.elapsed()),
                Err(fault) => faults.push(fault.to_string()),
            }
        }
        (times, faults)
    };
    let tasks: Vec<_> = (0..people).map(|_| tokio::spawn(ask(visit.clone()))).collect();
    let (mut times, mut faults) = (vec![], BTreeMap::<String, usize>::new());
    for task in tasks {
        let (took, wrong) = task.await?;
        times.extend(took);
        for fault in wrong {
            *faults.entry(fault).or_default() += 1;
        }
    }
    let elapsed = started.elapsed().as_secs_f64();
    times.sort_unstable();
    let at =
        |share: f64| times.get((times.len() as f64 * share) as usize).or(times.last()).copied().unwrap_or_default();
    let milliseconds = |share| at(share).as_secs_f64() * 1e3;
    println!("searches {}", times.len());
    println!("per_second {:.1}", times.len() as f64 / elapsed);
    println!("failures {}", faults.values().sum::<usize>());
    println!("p50_ms {:.1}\np99_ms {:.1}\nlongest_ms {:.1}", milliseconds(0.5), milliseconds(0.99), milliseconds(1.0));
    for (fault, often) in faults {
        println!("fault {often} times: {fault}");
    }
    Ok(())
}

/// One whole search on connections of its own.
async fn search(visit: &Visit) -> Result<(), Fault> {
    let servers = http::servers(&visit.urls, &visit.trust, visit.token.as_deref(), RetryPolicy::default())?;
    let client = Client::connect(servers, &Pins::default()).await?;
    let answer = client.ask(&visit.values, &WishList::default()).await?;
    answer.found.first().map(|_| ()).ok_or_else(|| "nobody was found".into())
}
