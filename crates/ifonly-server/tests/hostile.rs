//! A hundred thousand mutated requests cause no panic, no internal error and no large allocation.

mod support;

use http::StatusCode;
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_server::config::Limits;
use std::collections::BTreeMap;
use support::{app, manifest, messages, post, public};

const REQUESTS: u64 = 100_000;
const SEED: u64 = 20;

/// Applies one to three random mutations to a message.
fn mutate(message: &[u8], others: &[Vec<u8>], random: &mut SeededRandom) -> Vec<u8> {
    let mut bytes = message.to_vec();
    let position = |bytes: &[u8], random: &mut SeededRandom| random.below(bytes.len().max(1) as u64) as usize;
    for _ in 0..=random.below(3) {
        match random.below(9) {
            0 if !bytes.is_empty() => {
                let at = position(&bytes, random);
                bytes[at] ^= 1 << random.below(8);
            }
            1 if !bytes.is_empty() => {
                let at = position(&bytes, random);
                bytes[at] = [0, 1, 0x7f, 0x80, 0xfe, 0xff][random.below(6) as usize];
            }
            2 => bytes.truncate(position(&bytes, random)),
            3 => bytes.extend((0..random.below(64)).map(|_| 0xff)),
            4 => {
                let other = &others[random.below(others.len() as u64) as usize];
                let at = position(&bytes, random).min(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[at..]);
            }
            5 if bytes.len() > 8 => {
                // A large 64-bit number in the header, where lengths and counts are.
                let at = random.below(bytes.len().min(200) as u64 - 8) as usize;
                bytes[at..at + 8].copy_from_slice(&(1u64 << 63 >> random.below(40)).to_le_bytes());
            }
            6 => {
                let at = position(&bytes, random);
                bytes.drain(at..(at + random.below(16) as usize).min(bytes.len()));
            }
            7 => {
                let at = position(&bytes, random);
                let copied: Vec<u8> = bytes[at..].iter().take(16).copied().collect();
                bytes.splice(at..at, copied);
            }
            _ => {
                bytes = vec![0; random.below(300) as usize];
                random.fill(&mut bytes);
            }
        }
    }
    bytes
}

/// The peak resident memory of this process in bytes, if the system reports it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

#[tokio::test(flavor = "multi_thread")]
async fn mutated_requests_neither_break_the_server_nor_fill_its_memory() {
    let manifest = manifest("1");
    let names = manifest.instances().map(|instance| instance.scheme().name);
    let originals: Vec<Vec<u8>> = names.flat_map(|name| messages(&manifest, name, SEED)).collect();
    let router = public(&app(Limits::default(), vec![], None));
    // Warm up, so that later growth comes from the mutated requests.
    for original in &originals {
        post(&router, "/v1/answer", original.clone()).await;
    }
    let before = peak_memory();
    let tasks: Vec<_> = (0..4)
        .map(|worker| {
            let (router, originals) = (router.clone(), originals.clone());
            tokio::spawn(async move {
                let mut random = SeededRandom::new(SEED + 1 + worker);
                let mut statuses: BTreeMap<u16, u64> = BTreeMap::new();
                for _ in 0..REQUESTS / 4 {
                    let original = &originals[random.below(originals.len() as u64) as usize];
                    let body = mutate(original, &originals, &mut random);
                    let path = if random.below(2) == 0 { "/v1/answer" } else { "/v1/record" };
                    let response = post(&router, path, body).await;
                    *statuses.entry(response.status().as_u16()).or_default() += 1;
                }
                statuses
            })
        })
        .collect();
    let mut statuses: BTreeMap<u16, u64> = BTreeMap::new();
    for task in tasks {
        for (status, count) in task.await.expect("no panic") {
            *statuses.entry(status).or_default() += count;
        }
    }
    println!("seed {SEED}: {statuses:?}");
    assert_eq!(statuses.values().sum::<u64>(), REQUESTS);
    let expected = [200, 400, 403, 409, 413, 421, 422, 503];
    assert!(statuses.keys().all(|status| expected.contains(status)), "seed {SEED}: {statuses:?}");
    // The mutations also reach the later checks.
    for status in [200, 400, 403, 409, 421, 422] {
        assert!(statuses.contains_key(&status), "seed {SEED}: no {status} in {statuses:?}");
    }
    if let (Some(before), Some(after)) = (before, peak_memory()) {
        assert!(after - before < 64 << 20, "{before} to {after} bytes");
    }
    let response = post(&router, "/v1/answer", originals[0].clone()).await;
    assert_eq!(response.status(), StatusCode::OK, "the server still answers");
}
