//! One search over real servers: every step of it, all servers at once.
//!
//! There is no way out in between. A server that fails is asked again in the next step as if
//! nothing had happened, and a search that has nothing to look for any more goes on with dummies;
//! so the number, order and sizes of requests are those of the manifest, the scheme and k. When
//! they leave is the [`pace`]'s matter.

use crate::client::Client;
use crate::error::{ClientError, ServerFailure};
use crate::search::any_search::AnySearch;
use crate::search::pacing;
use crate::search::pacing::Clock;
use crate::transport::{ResponseSink, ServerRequest, TransportError};
use bytes::Bytes;
use futures_util::future::join_all;
use ifonly_algebra::random::OsRandom;
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::sealed;
use ifonly_core::search::{Search, SearchResult, StepMessages};
use ifonly_core::secret_query::SecretQuery;
use ifonly_scan::decode::KernelInterpolator;
use ifonly_values::manifest::OfferedScheme;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What went over the wire, bodies only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes to all servers.
    pub up: u64,
    /// Bytes from all servers.
    pub down: u64,
}

/// Manifests come from the servers, and answers are held in memory: no search may take more bytes
/// than this.
const MOST_TRAFFIC: u128 = 8 << 30;

/// The end of a search.
#[derive(Debug)]
pub struct SearchReport {
    /// What was found.
    pub outcome: SearchResult,
    /// What it took.
    pub traffic: Traffic,
    /// Servers that failed on the way and were borne.
    pub server_failures: Vec<ServerFailure>,
}

impl Client {
    /// Searches for the `top` nearest rows of a secret in levels; [`Client::ask`] is for people.
    /// Nothing is sent if the scheme cannot carry the secret. All randomness is the operating
    /// system's: whoever could choose another source could read the question.
    pub async fn search(
        &self,
        instance: &Arc<SchemeInstance>,
        secret: SecretQuery,
        top: usize,
    ) -> Result<SearchReport, ClientError> {
        self.find(&OfferedScheme::Scans(instance.clone()), secret, top).await
    }

    /// The same for any scheme on offer.
    pub async fn find(
        &self,
        offered: &OfferedScheme,
        secret: SecretQuery,
        top: usize,
    ) -> Result<SearchReport, ClientError> {
        let machine = self.machine(offered, secret, top)?;
        let step = match (offered, self.clock.as_deref()) {
            (OfferedScheme::Scans(instance), Some(clock)) => {
                pacing::step(instance, self.manifest.header_context(), top, clock)
            }
            // Nothing is sent after the first message of a sealed search, so there is nothing to
            // pace.
            _ => Duration::ZERO,
        };
        self.run(machine, step, &mut OsRandom::default()).await
    }

    /// What runs the search, if there can be such a one.
    pub(crate) fn machine(
        &self,
        offered: &OfferedScheme,
        secret: SecretQuery,
        top: usize,
    ) -> Result<AnySearch, ClientError> {
        let limit = match offered {
            OfferedScheme::Scans(_) => self.manifest.top_limit(),
            OfferedScheme::Sealed(_) => self.manifest.top_limit().min(sealed::MOST_TOP),
        };
        if !(1..=limit).contains(&top) {
            return Err(ClientError::Top { asked: top, limit });
        }
        self.check_servers(offered)?;
        let header_context = self.manifest.header_context();
        Ok(match offered {
            OfferedScheme::Scans(instance) => {
                self.check_traffic(instance, top)?;
                let search = Search::nearest(instance.clone(), secret, header_context, top)?;
                AnySearch::Scans(Box::new(search.interpolated_by(&KernelInterpolator)))
            }
            OfferedScheme::Sealed(sealed) => AnySearch::Sealed(Box::new(ifonly_sealed::SealedSearch::new(
                sealed.clone(),
                secret,
                header_context,
                top,
            )?)),
        })
    }

    fn check_traffic(&self, instance: &SchemeInstance, top: usize) -> Result<(), ClientError> {
        let bytes = instance.traffic(top, self.manifest.record_length()).total();
        if bytes > MOST_TRAFFIC {
            return Err(ClientError::TooLarge { bytes, limit: MOST_TRAFFIC });
        }
        Ok(())
    }

    async fn run(
        &self,
        mut search: AnySearch,
        step: Duration,
        random: &mut OsRandom,
    ) -> Result<SearchReport, ClientError> {
        let (mut traffic, mut server_failures) = (Traffic::default(), vec![]);
        let mut ended: Option<Duration> = None;
        while let Some(outgoing) = search.next(random) {
            if let (Some(clock), Some(ended)) = (&self.clock, ended) {
                // A clock that cannot wait is no reason to ask nothing.
                let _ = clock.wait_until(pacing::departure(ended, clock.now(), step)).await;
            }
            ended = None;
            for exchanged in self.step(&mut search, outgoing).await {
                ended = ended.max(exchanged.ended);
                traffic.up += exchanged.up;
                traffic.down += exchanged.down;
                server_failures.extend(exchanged.failure.filter(|failure| !server_failures.contains(failure)));
            }
        }
        match search.finish() {
            Ok(outcome) => Ok(SearchReport { outcome, traffic, server_failures }),
            Err(fault) => Err(ClientError::Search { fault, server_failures }),
        }
    }

    /// Sends a step's messages to all servers at once and hands the search every piece of their
    /// responses as it comes.
    async fn step(&self, search: &mut AnySearch, outgoing: StepMessages) -> Vec<Exchanged> {
        let StepMessages { route, messages, response_length } = outgoing;
        let search = &Mutex::new(search);
        let exchanges = messages.into_iter().enumerate().map(|(place, message)| async move {
            let Some(Some(server)) = self.assigned.get(place) else { return Exchanged::default() };
            // Wiped when the last retry has let go of it.
            let call = ServerRequest { route, message: Bytes::from_owner(message), length: response_length };
            let up = call.message.len() as u64;
            let clock = self.clock.as_deref();
            let mut part = Part { search, server: place + 1, received: 0, clock, last: None };
            let result = server.send(call, &mut part).await;
            // Transports promise the length; one that does not keep it is worth as much as silence.
            let have = part.received as u64;
            match result {
                Ok(()) if have == response_length as u64 => {
                    Exchanged { up, down: have, failure: None, ended: part.last }
                }
                result => {
                    let error = result.err().unwrap_or(TransportError::Length { have, need: response_length });
                    part.restart();
                    let ended = clock.map(|clock| clock.now());
                    Exchanged { up, down: 0, failure: Some(ServerFailure { server: server.name(), error }), ended }
                }
            }
        });
        join_all(exchanges).await
    }

    /// Whether enough servers were met; what a search needs beyond them shows when they answer.
    fn check_servers(&self, offered: &OfferedScheme) -> Result<(), ClientError> {
        let need = offered.servers();
        let missing: Vec<usize> = (1..=need).filter(|n| self.assigned.get(n - 1).is_none_or(Option::is_none)).collect();
        if missing.len() > offered.params().silent + offered.params().lying {
            let (scheme, server_failures) = (offered.scheme().name, self.server_failures.clone());
            return Err(ClientError::TooFewServers { scheme, need, missing, server_failures });
        }
        Ok(())
    }
}

/// One message and what came of it.
#[derive(Default)]
struct Exchanged {
    up: u64,
    down: u64,
    failure: Option<ServerFailure>,
    /// When its last bytes came, or it was given up.
    ended: Option<Duration>,
}

/// One server's part of a step's responses.
struct Part<'s> {
    search: &'s Mutex<&'s mut AnySearch>,
    server: usize,
    received: usize,
    clock: Option<&'s dyn Clock>,
    /// When the last bytes came.
    last: Option<Duration>,
}

impl ResponseSink for Part<'_> {
    fn part(&mut self, bytes: &[u8]) {
        // Before they are read: that takes time.
        self.last = self.clock.map(|clock| clock.now());
        self.received += bytes.len();
        let mut search = self.search.lock().unwrap_or_else(PoisonError::into_inner);
        search.receive_part(self.server, bytes);
    }

    fn restart(&mut self) {
        self.received = 0;
        let mut search = self.search.lock().unwrap_or_else(PoisonError::into_inner);
        search.forget(self.server);
    }
}
