//! The part of one server in a sealed search: it sums its cost shares over every row, runs a
//! session with the two peers ([`crate::peers`]), and returns its share of the result.

use crate::auth::tokens::Bearer;
use crate::bundle::loaded::LoadedBundle;
use crate::http::problem::Problem;
use crate::http::routes::AppState;
use crate::peers::{PeerNetwork, SessionError};
use ifonly_algebra::random::OsRandom;
use ifonly_algebra::wire::WireError;
use ifonly_core::http_api::{CHECKSUM_LENGTH, Route};
use ifonly_core::scheme::sealed::SCHEME;
use ifonly_core::server_protocol::{CheckedRequest, Refusal, SealedRequest};
use ifonly_core::transcript::Message;
use ifonly_scan::parts::Selection;
use ifonly_sealed::{Circuit, Party, PartyRandomness, SealedError, SessionContext};
use std::sync::Arc;
use zeroize::Zeroizing;

impl LoadedBundle {
    /// The circuit for a search.
    pub fn circuit(&self, request: &SealedRequest) -> Result<Arc<Circuit>, SealedError> {
        let params = ifonly_sealed::params_for(&request.sealed, request.top, self.record_length())?;
        Ok(Arc::new(Circuit::new(&params)))
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
/// no slot of the admission queue; server 1 limits the number of sessions ([`crate::peers`]).
pub(crate) fn is_sealed(message: &Message) -> bool {
    message.header.scheme == SCHEME.name
}

/// The complete response to a sealed query, checksum included. Checks the message, charges the
/// budget and runs the session.
pub(crate) async fn respond(app: &AppState, bearer: Bearer, message: Message) -> Result<Vec<u8>, Problem> {
    let stage = message.header.kind;
    if stage.route() != Route::Answer {
        return Err(Problem::WrongPath { path: stage.route().path() });
    }
    let loaded = app.versions.find(&message.header.digest)?;
    let CheckedRequest::Sealed(request) = loaded.protocol().check(message)? else { return Err(Problem::Internal) };
    let peers = app.peers.clone().ok_or(Refusal::NoPeers)?;
    if request.top as u64 > loaded.most_records() {
        return Err(Refusal::from(WireError::Value { what: "the number of rows to find" }).into());
    }
    // Requests that cannot be answered are not charged.
    loaded.database().ready()?;
    // The ledger may be on another machine, so it is used on a blocking thread.
    let tokens = app.tokens();
    let charge = tokio::task::spawn_blocking(move || tokens.spend(bearer, stage, 1));
    charge.await.unwrap_or(Err(Problem::Internal))?;
    let mut response = search(loaded.clone(), peers, request).await?;
    let checksum = blake3::hash(&response);
    response.extend(&checksum.as_bytes()[..CHECKSUM_LENGTH]);
    Ok(response)
}

/// Runs a session with the two peers. Nothing here waits for the client.
async fn search(
    loaded: Arc<LoadedBundle>,
    peers: Arc<PeerNetwork>,
    request: SealedRequest,
) -> Result<Vec<u8>, Problem> {
    let context = SessionContext {
        digest: *loaded.digest(),
        epoch: request.epoch,
        tau: request.tau,
        // The protocol limits it to 64.
        top: request.top as u8,
        key_check: request.keys.check_value(),
        randomness: peers.randomness(),
    };
    let mut opened = peers.open(&context).await.map_err(problem)?;
    let runtime = tokio::runtime::Handle::current();
    let work = tokio::task::spawn_blocking(move || {
        let fault = |error: SealedError| problem(error.into());
        let circuit = loaded.circuit(&request).map_err(fault)?;
        let party = loaded.party(&request, &circuit, opened.randomness(&circuit))?;
        let party = runtime.block_on(opened.run(party, peers.limit())).map_err(problem)?;
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
