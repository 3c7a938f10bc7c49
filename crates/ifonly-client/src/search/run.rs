//! Runs all steps of one search. Each step sends its messages to all servers at once.
//!
//! A search never stops early. A server that failed receives the messages of the next step too, and
//! a search without a target continues with dummy queries. The number, order and sizes of requests
//! therefore depend only on the manifest, the scheme and k. [`super::pacing`] decides when requests
//! depart.

use crate::client::{Client, PublicPart};
use crate::error::{ClientError, ServerFailure};
use crate::search::pacing::{Clock, Pace};
use crate::transport::credential::Credential;
use crate::transport::{ResponseSink, ServerRequest, TransportError};
use bytes::Bytes;
use futures_util::future::join_all;
use ifonly_algebra::random::OsRandom;
use ifonly_core::search::{Search, SearchResult, SearchSteps, StepMessages};
use ifonly_core::secret_query::{SecretQuery, SecretQueryError};
use ifonly_scan::decode::KernelInterpolator;
use ifonly_sealed::SealedSearch;
use ifonly_values::manifest::OfferedScheme;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Bytes of request and response bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes sent to all servers.
    pub up: u64,
    /// Bytes received from all servers.
    pub down: u64,
}

/// The most bytes of one search. Servers choose the number of rows in the manifest, and the client
/// holds answers in memory.
const MAX_TRAFFIC: u128 = 8 << 30;

/// The result of a search, its traffic, and the servers that failed.
#[derive(Debug)]
pub struct SearchReport {
    /// The result.
    pub outcome: SearchResult,
    /// The traffic.
    pub traffic: Traffic,
    /// Servers that failed but were tolerated.
    pub server_failures: Vec<ServerFailure>,
}

/// A search that has not sent anything yet.
pub(crate) struct PreparedSearch {
    steps: Box<dyn SearchSteps>,
    servers: usize,
    /// How many searches the servers charge.
    charged: usize,
}

impl Client {
    /// Searches for the `top` nearest rows of a query in levels; [`Client::ask`] takes values and
    /// wishes. If the scheme does not support the query, nothing is sent.
    ///
    /// All randomness comes from the operating system. There is no parameter for another source,
    /// because a predictable source would reveal the query.
    pub async fn search(
        &self,
        offered: &OfferedScheme,
        secret: SecretQuery,
        top: usize,
    ) -> Result<SearchReport, ClientError> {
        self.check_limits(offered, top)?;
        let search = self.new_search(offered, secret, top)?;
        self.search_once(search, &mut self.pace(&PublicPart { offered, top, ways: 1 })).await
    }

    /// Checks the number of records, the servers and the traffic.
    pub(crate) fn check_limits(&self, offered: &OfferedScheme, top: usize) -> Result<(), ClientError> {
        let limit = self.manifest.top_limit().min(offered.top_limit());
        if !(1..=limit).contains(&top) {
            return Err(ClientError::Top { requested: top, limit });
        }
        self.check_servers(offered)?;
        let bytes = offered.traffic(top, self.manifest.record_length()).total();
        if bytes > MAX_TRAFFIC {
            return Err(ClientError::TooLarge { bytes, limit: MAX_TRAFFIC });
        }
        Ok(())
    }

    /// A search that has not sent anything yet. Refuses only the query.
    pub(crate) fn new_search(
        &self,
        offered: &OfferedScheme,
        secret: SecretQuery,
        top: usize,
    ) -> Result<PreparedSearch, SecretQueryError> {
        let context = self.manifest.header_context();
        let steps: Box<dyn SearchSteps> = match offered {
            OfferedScheme::Scans(instance) => {
                let search = Search::nearest(instance.clone(), secret, context, top)?;
                Box::new(search.interpolated_by(&KernelInterpolator))
            }
            OfferedScheme::Sealed(sealed) => Box::new(SealedSearch::new(sealed.clone(), secret, context, top)?),
        };
        Ok(PreparedSearch { steps, servers: offered.servers(), charged: offered.searches(top) })
    }

    /// Runs all steps of a search. `pace` knows the end of the search before.
    pub(crate) async fn search_once(
        &self,
        search: PreparedSearch,
        pace: &mut Pace,
    ) -> Result<SearchReport, ClientError> {
        let PreparedSearch { steps: mut search, servers, charged } = search;
        let random = &mut OsRandom::default();
        let credentials = self.credentials.as_ref().map(|source| source.take(servers, charged));
        let mut credentials = credentials.transpose()?.unwrap_or_default();
        let (mut traffic, mut server_failures) = (Traffic::default(), vec![]);
        while let Some(step) = search.next(random) {
            if let Some(clock) = self.clock.as_deref() {
                pace.wait(clock).await;
            }
            for exchange in self.step(&mut search, step, std::mem::take(&mut credentials)).await {
                pace.ended = pace.ended.max(exchange.ended);
                traffic.up += exchange.up;
                traffic.down += exchange.down;
                server_failures.extend(exchange.failure.filter(|failure| !server_failures.contains(failure)));
            }
        }
        pace.end_search();
        match search.finish() {
            Ok(outcome) => Ok(SearchReport { outcome, traffic, server_failures }),
            Err(error) => Err(ClientError::Search { error, server_failures }),
        }
    }

    /// Sends the messages of a step to all servers at once, and passes their responses to the
    /// search as the bytes arrive.
    async fn step(
        &self,
        search: &mut Box<dyn SearchSteps>,
        step: StepMessages,
        credentials: Vec<Credential>,
    ) -> Vec<ExchangeResult> {
        let StepMessages { route, messages, response_length } = step;
        let search = &Mutex::new(search);
        let credentials = &credentials;
        let exchanges = messages.into_iter().enumerate().map(|(position, message)| async move {
            let Some(Some(server)) = self.assigned.get(position) else { return ExchangeResult::default() };
            // The message is wiped when the last retry drops it.
            let (message, credential) = (Bytes::from_owner(message), credentials.get(position).cloned());
            let request = ServerRequest { route, message, length: response_length, credential };
            let up = request.message.len() as u64;
            let clock = self.clock.as_deref();
            let mut sink = SearchSink { search, server: position + 1, received: 0, clock, last: None };
            let result = server.send(request, &mut sink).await;
            // A transport must deliver exactly this length. Another length counts as no response.
            let have = sink.received as u64;
            match result {
                Ok(()) if have == response_length as u64 => {
                    ExchangeResult { up, down: have, failure: None, ended: sink.last }
                }
                result => {
                    let error = result.err().unwrap_or(TransportError::Length { have, need: response_length });
                    sink.restart();
                    let ended = clock.map(|clock| clock.now());
                    let failure = Some(ServerFailure { server: server.name(), error });
                    ExchangeResult { up, down: 0, failure, ended }
                }
            }
        });
        join_all(exchanges).await
    }

    /// Checks that enough servers are connected. Whether enough of them answer shows later.
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

/// The result of one message to one server.
#[derive(Default)]
struct ExchangeResult {
    up: u64,
    down: u64,
    failure: Option<ServerFailure>,
    /// When the last bytes arrived, or when the exchange failed.
    ended: Option<Duration>,
}

/// Passes the response of one server to the search.
struct SearchSink<'s> {
    search: &'s Mutex<&'s mut Box<dyn SearchSteps>>,
    server: usize,
    received: usize,
    clock: Option<&'s dyn Clock>,
    /// When the last bytes arrived.
    last: Option<Duration>,
}

impl ResponseSink for SearchSink<'_> {
    fn part(&mut self, bytes: &[u8]) {
        // Read the clock before decoding, which takes time.
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
