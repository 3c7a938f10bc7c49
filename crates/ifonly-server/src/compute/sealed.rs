//! A server's part in a sealed search: its party at the beginning, the answer at the end, and the
//! session in between.

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
    /// The machine's program for a search.
    pub fn circuit(&self, ask: &SealedRequest) -> Result<Arc<Circuit>, SealedError> {
        let shape = ifonly_sealed::params_for(&ask.sealed, ask.top, self.record_length())?;
        Ok(Arc::new(Circuit::new(&shape)))
    }

    /// Sums this server's share over every row and enters the sums into the machine.
    pub fn party(
        &self,
        ask: &SealedRequest,
        circuit: &Arc<Circuit>,
        randomness: PartyRandomness,
    ) -> Result<Party, Problem> {
        let mut rest = ask.share.as_slice();
        let tables = ask.sealed.params().ranges.iter().map(|&range| {
            let (table, tail) = rest.split_at(range as usize + 1);
            rest = tail;
            table
        });
        let tables: Vec<&[u64]> = tables.collect();
        let values = Zeroizing::new(self.database().table_sums(&tables)?);
        let party = Party::new(circuit, self.index().into(), randomness, |row| values[row], &mut OsRandom::default());
        party.map_err(|error| problem(error.into()))
    }

    /// Key-check value, then this server's component of what was found.
    pub fn sealed_answer(&self, ask: &SealedRequest, party: Party) -> Result<Vec<u8>, Problem> {
        // The session is over and the records are as many as its rows: anything else is a fault of
        // the program.
        let sums = (0..ask.top).map(|rank| {
            let chosen = Zeroizing::new(party.selection(rank).map_err(|_| Problem::Internal)?);
            self.database().record_sum(ask.epoch, &Selection::Subset(&chosen))
        });
        let sums: Vec<Vec<u8>> = sums.collect::<Result<_, _>>()?;
        let answer = party.answer(&sums).map_err(|_| Problem::Internal)?;
        Ok([&ask.keys.check_value()[..], &answer].concat())
    }
}

/// Whether a message asks for a sealed search. Such a one waits for other servers, so it must not
/// hold the place of one that scans; places for sessions are given out by server 1
/// ([`crate::peers`]).
pub(crate) fn is_asked_for(message: &Message) -> bool {
    message.header.scheme == SCHEME.name
}

/// The whole response to a sealed query, its checksum included: meets the two others and computes
/// with them.
pub(crate) async fn respond(app: &AppState, bearer: Bearer, message: Message) -> Result<Vec<u8>, Problem> {
    let stage = message.header.stage;
    if stage.route() != Route::Answer {
        return Err(Problem::WrongPath { path: stage.route().path() });
    }
    let loaded = app.versions.find(&message.header.digest)?;
    let CheckedRequest::Sealed(ask) = loaded.protocol().check(message)? else { return Err(Problem::Internal) };
    let peers = app.peers.clone().ok_or(Refusal::Alone)?;
    if ask.top as u64 > loaded.most_records() {
        return Err(Refusal::from(WireError::Value { what: "the number of rows to find" }).into());
    }
    // Nobody pays for what cannot be had.
    loaded.database().ready()?;
    // The ledger may be at the other end of a network.
    let tokens = app.tokens();
    let spent = tokio::task::spawn_blocking(move || tokens.spend(bearer, stage, 1));
    spent.await.unwrap_or(Err(Problem::Internal))?;
    let mut response = search(loaded.clone(), peers, ask).await?;
    let checksum = blake3::hash(&response);
    response.extend(&checksum.as_bytes()[..CHECKSUM_LENGTH]);
    Ok(response)
}

/// Meets the two others and computes with them. Nothing here waits for the user.
async fn search(loaded: Arc<LoadedBundle>, peers: Arc<PeerNetwork>, ask: SealedRequest) -> Result<Vec<u8>, Problem> {
    let subject = SessionContext {
        digest: *loaded.digest(),
        epoch: ask.epoch,
        tau: ask.tau,
        // At most 64.
        top: ask.top as u8,
        key_check: ask.keys.check_value(),
        source: peers.source(),
    };
    let mut opened = peers.open(&subject).await.map_err(problem)?;
    let runtime = tokio::runtime::Handle::current();
    let work = tokio::task::spawn_blocking(move || {
        let fault = |error: SealedError| problem(error.into());
        let circuit = loaded.circuit(&ask).map_err(fault)?;
        let party = loaded.party(&ask, &circuit, opened.randomness(&circuit))?;
        let party = runtime.block_on(opened.run(party, peers.limit())).map_err(problem)?;
        loaded.sealed_answer(&ask, party)
    });
    work.await.unwrap_or(Err(Problem::Internal))
}

fn problem(error: SessionError) -> Problem {
    match error {
        SessionError::Machine(SealedError::Shape { .. } | SealedError::Misuse(_)) => {
            tracing::error!(%error, "the machine refused a checked query");
            Problem::Internal
        }
        error => Problem::PeerFailure(error.to_string()),
    }
}
