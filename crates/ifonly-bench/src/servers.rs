//! The servers of a [`BenchDataset`] on loopback, over TLS.

use crate::BenchError;
use crate::dataset::BenchDataset;
use ifonly::{Loopback, LoopbackOptions, LoopbackTls};
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::OsRandom;
use ifonly_client::Transport;
use ifonly_client::transport::http::{HttpServer, TlsTrust};
use ifonly_server::LoadedBundle;
use ifonly_server::peers::RandomnessMode;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// How the servers of a sealed search are connected.
#[derive(Clone, Copy, Debug)]
pub struct PeerConnection {
    /// Added to every round trip between the servers.
    pub round_trip: Duration,
    /// The source of random bits between the servers.
    pub randomness: RandomnessMode,
}

/// Running servers, on a runtime that they do not share with the client, and a transport to each.
pub struct BenchServers {
    loopback: Loopback,
    transports: Vec<Arc<dyn Transport>>,
    runtime: Option<Runtime>,
}

impl BenchServers {
    /// Starts all servers of a dataset. `peers` connects three servers for sealed searches.
    pub fn start(dataset: &BenchDataset, peers: Option<PeerConnection>) -> Result<BenchServers, BenchError> {
        let loaded = load(dataset)?;
        // The servers read their certificates when they start.
        let directory = tempfile::tempdir().map_err(BenchError::machine)?;
        let tls = LoopbackTls::create(directory.path(), loaded.len())?;
        let trust = TlsTrust::pem(tls.certificates().as_bytes())?;
        // As many threads as if every server had a runtime of its own.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime = Builder::new_multi_thread().worker_threads(cores * loaded.len()).enable_all().build();
        let runtime = runtime.map_err(BenchError::machine)?;
        let loopback = runtime.block_on(async {
            let peers = match peers {
                None => vec![],
                Some(PeerConnection { round_trip, randomness }) => {
                    tls.peers([randomness; 3], |address| delayed(address, round_trip / 2)).await?
                }
            };
            let options = LoopbackOptions { tls: Some(tls), peers, ..LoopbackOptions::default() };
            Loopback::serve(loaded, options).await
        })?;
        let transport =
            |url: &String| Ok::<_, BenchError>(Arc::new(HttpServer::new(url, &trust)?) as Arc<dyn Transport>);
        let transports = loopback.urls().iter().map(transport).collect::<Result<_, _>>()?;
        Ok(BenchServers { loopback, transports, runtime: Some(runtime) })
    }

    /// A transport to each server.
    pub fn transports(&self) -> Vec<Arc<dyn Transport>> {
        self.transports.clone()
    }

    /// The bundle of each server.
    pub fn loaded_bundles(&self) -> &[Arc<LoadedBundle>] {
        self.loopback.loaded_bundles()
    }
}

impl Drop for BenchServers {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Loads the dataset once per server, in parallel. Every server has rows in memory of its own, as
/// if it ran on its own machine.
pub fn load(dataset: &BenchDataset) -> Result<Vec<LoadedBundle>, BenchError> {
    let key = RootKey::generate(0, &mut OsRandom::default());
    let load = &|index| LoadedBundle::new(&dataset.bundle()?, index, vec![key.clone()]).map_err(BenchError::machine);
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (1..=dataset.manifest.servers() as u8).map(|index| scope.spawn(move || load(index))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|loaded| loaded.map_err(|_| BenchError::machine("loading a bundle panicked"))?).collect()
    })
}

/// The address of a proxy that delivers every byte to `target` after `delay`, in both directions;
/// `target` itself without a delay. The proxy uses threads, because asynchronous timers have a
/// resolution of one millisecond.
fn delayed(target: SocketAddr, delay: Duration) -> std::io::Result<SocketAddr> {
    if delay.is_zero() {
        return Ok(target);
    }
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let connect = move || -> std::io::Result<()> {
                let far = TcpStream::connect(target)?;
                near.set_nodelay(true)?;
                far.set_nodelay(true)?;
                forward(near.try_clone()?, far.try_clone()?, delay);
                forward(far, near, delay);
                Ok(())
            };
            // If the connection fails, the search fails, and the measurement reports it.
            let _ = connect();
        }
    });
    Ok(address)
}

/// Forwards one direction: bytes that are read now are written after `delay`.
fn forward(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
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
