//! The part of one server in a sealed search: it sums its cost shares over every row, runs a
//! session with the two peers ([`crate::peers`]), and returns its share of the result.

use crate::auth::{Pass, Stage};
use crate::bundle::loaded::LoadedBundle;
use crate::http::problem::Problem;
use crate::http::routes::AppState;
use crate::peers::{OpenSession, SessionError};
use ifonly_algebra::random::OsRandom;
use ifonly_algebra::wire::WireError;
use ifonly_core::http_api::{CHECKSUM_LENGTH, Route};
use ifonly_core::scheme::sealed::SCHEME;
use ifonly_core::server_protocol::{Refusal, SealedRequest};
use ifonly_core::transcript::Message;
use ifonly_scan::parts::Selection;
use ifonly_sealed::{Circuit, Party, PartyRandomness, SealedError, SealedParams, SessionContext};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use zeroize::Zeroizing;

/// Circuits of the last searches, the latest first. Searches of one bundle differ only in the
/// number of rows to find.
#[derive(Debug, Default)]
pub(crate) struct CircuitCache(Mutex<Vec<Arc<Circuit>>>);

impl CircuitCache {
    /// A circuit for many rows to find is large, so only a few are kept.
    const CIRCUITS: usize = 4;

    fn get(&self, params: &SealedParams) -> Arc<Circuit> {
        let mut circuits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let circuit = match circuits.iter().position(|circuit| circuit.params() == params) {
            Some(position) => circuits.remove(position),
            None => Arc::new(Circuit::new(params)),
        };
        circuits.insert(0, circuit.clone());
        circuits.truncate(CircuitCache::CIRCUITS);
        circuit
    }
}

impl LoadedBundle {
    /// The circuit for a search. It is built once and kept with those of the last searches.
    pub fn circuit(&self, request: &SealedRequest) -> Result<Arc<Circuit>, SealedError> {
        let params = ifonly_sealed::params_for(&request.sealed, request.top, self.record_length())?;
        Ok(self.circuits.get(&params))
    }

    /// The party of this server: its inputs are the sums of the shared cost tables over every row.
    pub fn party(
        &self,
        request: &SealedRequest,
        circuit: &Arc<Circuit>,
        randomness: PartyRandomness,
    ) -> Result<Party, Problem> {
        let mut rest = request.share.as_slice();
        let tables = request.sealed.params().max_levels.iter().map(|&range| {
            let (table, tail) = rest.split_at(range as usize + 1);
            rest = tail;
            table
        });
        let tables: Vec<&[u64]> = tables.collect();
        let values = Zeroizing::new(self.database().table_sums(&tables)?);
        let party = Party::new(circuit, self.index().into(), randomness, |row| values[row], &mut OsRandom::default());
        party.map_err(|error| problem(error.into()))
    }

    /// The response of this server: its key-check value, then its share of the result.
    pub fn sealed_answer(&self, request: &SealedRequest, party: Party) -> Result<Vec<u8>, Problem> {
        // The session is complete and every row has a record, so an error here is internal.
        let sums = (0..request.top).map(|rank| {
            let chosen = Zeroizing::new(party.selection(rank).map_err(|_| Problem::Internal)?);
            self.database().record_sum(request.epoch, &Selection::Subset(&chosen))
        });
        let sums: Vec<Vec<u8>> = sums.collect::<Result<_, _>>()?;
        let answer = party.answer(&sums).map_err(|_| Problem::Internal)?;
        Ok([&request.keys.check_value()[..], &answer].concat())
    }
}

/// Whether a message asks for a sealed search. A sealed search waits for other servers, so it takes
/// no place in the admission queue but one among the sessions ([`crate::peers`]).
pub(crate) fn is_sealed(message: &Message) -> bool {
    message.header.scheme == SCHEME.name
}

/// The complete response to a sealed query of the client with this address, checksum included.
/// Checks the message, meets the peers, charges the budget and runs the session.
pub(crate) async fn respond(app: &AppState, pass: Pass, address: IpAddr, message: Message) -> Result<Vec<u8>, Problem> {
    let kind = message.header.kind;
    if kind.route() != Route::Answer {
        return Err(Problem::WrongPath { path: kind.route().path() });
    }
    let loaded = app.versions.find(&message.header.digest)?;
    let request = loaded.protocol().check_sealed(&message)?;
    drop(message);
    let peers = app.peers.clone().ok_or(Refusal::NoPeers)?;
    if request.top as u64 > loaded.most_records() {
        return Err(Refusal::from(WireError::Value { what: "the number of rows to find" }).into());
    }
    loaded.database().ready()?;
    let context = SessionContext {
        digest: *loaded.digest(),
        epoch: request.epoch,
        tau: request.tau,
        // The protocol limits it to 64.
        top: request.top as u8,
        key_check: request.keys.check_value(),
        randomness: peers.randomness(),
    };
    let met = peers.meet(&context, address).await.map_err(problem)?;
    // Requests that cannot be answered are not charged: only now do all three servers have the
    // search. The ledger may be on another machine, so it is used on a blocking thread.
    let authorisation = app.authorisation();
    let stage = Stage { search: request.tau, kind, per_search: 1, searches: request.top as u64 };
    let charge = tokio::task::spawn_blocking(move || authorisation.spend(&pass, &stage));
    charge.await.unwrap_or(Err(Problem::Internal))?;
    let opened = peers.confirm(met).await.map_err(problem)?;
    let mut response = compute(loaded, opened, peers.limit(), request).await?;
    let checksum = blake3::hash(&response);
    response.extend(&checksum.as_bytes()[..CHECKSUM_LENGTH]);
    Ok(response)
}

/// Runs an open session. Nothing here waits for the client.
async fn compute(
    loaded: Arc<LoadedBundle>,
    mut opened: OpenSession,
    limit: Duration,
    request: SealedRequest,
) -> Result<Vec<u8>, Problem> {
    let runtime = tokio::runtime::Handle::current();
    let work = tokio::task::spawn_blocking(move || {
        let fault = |error: SealedError| problem(error.into());
        let circuit = loaded.circuit(&request).map_err(fault)?;
        let party = loaded.party(&request, &circuit, opened.randomness(&circuit))?;
        let party = runtime.block_on(opened.run(party, limit)).map_err(problem)?;
        loaded.sealed_answer(&request, party)
    });
    work.await.unwrap_or(Err(Problem::Internal))
}

fn problem(error: SessionError) -> Problem {
    match error {
        SessionError::Party(SealedError::ParamOutOfRange { .. } | SealedError::Misuse(_)) => {
            tracing::error!(%error, "the sealed protocol refused a checked query");
            Problem::Internal
        }
        error => Problem::PeerFailure(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circuit_is_built_once_for_all_searches_with_the_same_parameters() {
        let (cache, params) = (CircuitCache::default(), SealedParams::new(100, 8, 6).unwrap());
        let first = cache.get(&params);
        for top in 2..=CircuitCache::CIRCUITS {
            assert!(!Arc::ptr_eq(&cache.get(&params.top(top).unwrap()), &first));
        }
        assert!(Arc::ptr_eq(&cache.get(&params), &first));
        // The oldest circuit is dropped, so memory is bounded.
        (2..=CircuitCache::CIRCUITS + 1).for_each(|top| drop(cache.get(&params.top(top).unwrap())));
        assert!(!Arc::ptr_eq(&cache.get(&params), &first));
    }
}
