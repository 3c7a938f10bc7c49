//! One search over real servers: every phase, then every record fetch, all servers at once.
//!
//! There is no way out in between. A server that fails is asked again in the next phase as if nothing had happened, and a
//! search that has nothing to look for any more goes on with dummies; so the number, order and sizes of requests are those of
//! the manifest, the scheme and k.

use crate::error::{ClientError, Trouble};
use crate::meeting::Meeting;
use crate::transport::TransportError;
use bytes::Bytes;
use futures_util::future::join_all;
use ifonly_core::deployment::Deployment;
use ifonly_core::random::Random;
use ifonly_core::search::{Outcome, Outgoing, Search};
use ifonly_core::secret::Secret;
use ifonly_core::spir::Fetch;
use ifonly_scan::decode::ByKernels;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What went over the wire, bodies only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes to all servers.
    pub up: u64,
    /// Bytes from all servers.
    pub down: u64,
    /// How long each round took, the record fetches last.
    pub rounds: Vec<Duration>,
}

/// Manifests come from the servers, and answers are held in memory: no search may take more bytes than this.
const MOST_TRAFFIC: u128 = 8 << 30;

/// The end of a search.
#[derive(Debug)]
pub struct Report {
    /// What was found.
    pub outcome: Outcome,
    /// What it took.
    pub traffic: Traffic,
    /// Servers that failed on the way and were borne.
    pub troubles: Vec<Trouble>,
}

impl Meeting {
    /// Searches for the `top` nearest rows. Nothing is sent if the scheme cannot carry the secret.
    pub async fn search(
        &self,
        deployment: &Arc<Deployment>,
        secret: Secret,
        top: usize,
        random: &mut (impl Random + Send),
    ) -> Result<Report, ClientError> {
        let limit = self.manifest.top_limit();
        if !(1..=limit).contains(&top) {
            return Err(ClientError::Top { asked: top, limit });
        }
        let fetch = Fetch::new(deployment.params(), deployment.servers(), self.manifest.record_length());
        let (cost, servers) = (deployment.bytes(), deployment.servers() as u128);
        let bytes = cost.total() + (top * fetch.query_length()) as u128 * servers;
        if bytes > MOST_TRAFFIC {
            return Err(ClientError::TooLarge { bytes, limit: MOST_TRAFFIC });
        }
        self.check_seats(deployment)?;
        let search = Search::nearest(deployment.clone(), secret, self.manifest.audience(), top)?;
        let mut search = search.interpolated_by(&ByKernels);
        let mut trip = Trip { meeting: self, traffic: Traffic::default(), troubles: vec![] };
        while let Some(outgoing) = search.next(random) {
            let responses = trip.round(outgoing).await;
            search.receive(responses);
        }
        let Trip { traffic, troubles, .. } = trip;
        match search.finish() {
            Ok(outcome) => Ok(Report { outcome, traffic, troubles }),
            Err(fault) => Err(ClientError::Search { fault, troubles }),
        }
    }

    /// Whether enough servers were met; what a search needs beyond them shows when they answer.
    fn check_seats(&self, deployment: &Deployment) -> Result<(), ClientError> {
        let need = deployment.servers();
        let missing: Vec<usize> = (1..=need).filter(|n| self.seats.get(n - 1).is_none_or(Option::is_none)).collect();
        if missing.len() > deployment.params().silent + deployment.params().lying {
            let (scheme, troubles) = (deployment.scheme().name, self.troubles.clone());
            return Err(ClientError::TooFewServers { scheme, need, missing, troubles });
        }
        Ok(())
    }
}

/// A search on its way.
struct Trip<'a> {
    meeting: &'a Meeting,
    traffic: Traffic,
    troubles: Vec<Trouble>,
}

impl Trip<'_> {
    async fn round(&mut self, outgoing: Outgoing) -> Vec<Option<Vec<u8>>> {
        let Outgoing { route, messages, response_length: length } = outgoing;
        let started = Instant::now();
        let meeting = self.meeting;
        let exchanges = messages.into_iter().enumerate().map(|(place, message)| async move {
            let server = meeting.seats.get(place)?.as_ref()?;
            // Wiped when the last retry has let go of it.
            let bytes = Bytes::from_owner(message);
            // Transports promise the length; one that does not keep it is worth as much as silence.
            let result = meeting.policy.exchange(|| server.send(route, bytes.clone(), length)).await;
            let result = result.and_then(|answer| match answer.len() == length {
                true => Ok(answer),
                false => Err(TransportError::Length { have: answer.len() as u64, need: length }),
            });
            Some((bytes.len(), result.map_err(|error| Trouble { server: server.name(), error })))
        });
        let results = join_all(exchanges).await;
        let mut responses = vec![];
        for result in results {
            let Some((sent, result)) = result else {
                responses.push(None);
                continue;
            };
            self.traffic.up += sent as u64;
            responses.push(match result {
                Ok(bytes) => {
                    self.traffic.down += bytes.len() as u64;
                    Some(bytes.into())
                }
                Err(trouble) => {
                    if !self.troubles.contains(&trouble) {
                        self.troubles.push(trouble);
                    }
                    None
                }
            });
        }
        self.traffic.rounds.push(started.elapsed());
        responses
    }
}
