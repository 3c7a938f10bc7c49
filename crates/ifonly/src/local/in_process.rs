//! Servers in this process: what a client asks is answered by plain calls, without a network,
//! tokens or limits.
//!
//! For demonstrations, tests and programs that try a bundle out. Whoever holds all servers could
//! read the question, so there is nothing private about it.

use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::OsRandom;
use ifonly_bundle::Bundle;
use ifonly_client::transport::{
    Exchange, ManifestResponse, ResponseSink, ServerRequest, Transport, TransportError, TransportFuture,
};
use ifonly_core::http_api::Route;
use ifonly_core::scheme::sealed::SERVERS;
use ifonly_core::server_protocol::{CheckedRequest, Refusal, SealedRequest};
use ifonly_core::transcript::Tau;
use ifonly_sealed::{Party, PartyRandomness, simulate};
use ifonly_server::LoadedBundle;
use ifonly_server::bundle::loaded::LoadError;
use ifonly_server::compute::database::{AnswerError, Database};
use ifonly_server::http::problem::Problem;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// The way to a server that this process holds itself. It computes where it is polled.
#[derive(Clone, Debug)]
pub struct InProcess {
    loaded: Arc<LoadedBundle>,
    /// Where the three of a sealed search meet.
    meeting: Option<Arc<SealedRendezvous>>,
}

impl InProcess {
    /// The way to this server.
    pub fn new(loaded: impl Into<Arc<LoadedBundle>>) -> InProcess {
        InProcess { loaded: loaded.into(), meeting: None }
    }

    /// All servers of a bundle, under a key that nobody else has.
    pub fn servers(bundle: &Bundle) -> Result<Vec<Arc<dyn Transport>>, LoadError> {
        let servers = bundle.manifest().servers() as u8;
        let meeting = bundle.manifest().sealed().map(|_| Arc::new(SealedRendezvous::default()));
        let key = RootKey::generate(bundle.manifest().header_context().epoch, &mut OsRandom::default());
        let server = |index| -> Result<Arc<dyn Transport>, LoadError> {
            let loaded = LoadedBundle::new(bundle, index, vec![key.clone()])?.into();
            Ok(Arc::new(InProcess { loaded, meeting: meeting.clone() }))
        };
        (1..=servers).map(server).collect()
    }

    async fn respond(&self, call: ServerRequest, response: &mut dyn ResponseSink) -> Result<(), TransportError> {
        let (loaded, database) = (&self.loaded, self.loaded.database());
        let request = loaded.protocol().open(&call.message).map_err(|refusal| refused(&refusal.into()))?;
        let request = match (request, &self.meeting) {
            (CheckedRequest::Sealed(ask), Some(meeting)) => {
                let answer = meeting.join(loaded.clone(), ask).await.map_err(|problem| refused(&problem))?;
                response.part(&answer);
                return Ok(());
            }
            (request, _) => request,
        };
        let have = match (&request, call.route) {
            (CheckedRequest::Answer(ask), Route::Answer) => Database::answer_length(ask),
            (CheckedRequest::Record(ask), Route::Record) => Database::record_length(ask),
            (CheckedRequest::Answer(_), _) => return Err(refused(&Problem::WrongPath { path: Route::Answer.path() })),
            (CheckedRequest::Sealed(_), _) => return Err(refused(&Refusal::Alone.into())),
            (CheckedRequest::Record(_), _) => return Err(refused(&Problem::WrongPath { path: Route::Record.path() })),
        };
        if have != call.length {
            return Err(TransportError::Length { have: have as u64, need: call.length });
        }
        let mut sink = |bytes: &[u8]| {
            response.part(bytes);
            ControlFlow::Continue(())
        };
        let whole = match &request {
            CheckedRequest::Answer(ask) => database.answer(ask, &mut sink),
            CheckedRequest::Record(ask) => database.record(loaded.index(), ask, &mut sink),
            CheckedRequest::Sealed(_) => Err(AnswerError::Stopped),
        };
        whole.map_err(|ended| match ended {
            AnswerError::Failed(problem) => refused(&problem),
            AnswerError::Stopped => refused(&Problem::Internal),
        })
    }
}

impl Exchange for InProcess {
    fn name(&self) -> String {
        format!("server {} in this process", self.loaded.index())
    }

    fn greet(&self) -> TransportFuture<'_, ManifestResponse> {
        let greeting =
            ManifestResponse { index: self.loaded.index(), manifest: self.loaded.manifest(), earlier: vec![] };
        Box::pin(std::future::ready(Ok(greeting)))
    }

    fn send<'a>(&'a self, call: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        Box::pin(self.respond(call, response))
    }
}

/// Servers that wait for the others of a sealed search, by its transcript. The last of the three
/// computes for all.
#[derive(Debug, Default)]
struct SealedRendezvous(Mutex<HashMap<Tau, Vec<WaitingServer>>>);

#[derive(Debug)]
struct WaitingServer {
    loaded: Arc<LoadedBundle>,
    ask: SealedRequest,
    answer: oneshot::Sender<Result<Vec<u8>, Problem>>,
}

impl SealedRendezvous {
    async fn join(&self, loaded: Arc<LoadedBundle>, ask: SealedRequest) -> Result<Vec<u8>, Problem> {
        let (answer, response) = oneshot::channel();
        let tau = ask.tau;
        let all = {
            let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let guests = waiting.entry(tau).or_default();
            guests.push(WaitingServer { loaded, ask, answer });
            if guests.len() == SERVERS { waiting.remove(&tau) } else { None }
        };
        if let Some(guests) = all {
            search(guests);
        }
        response.await.unwrap_or(Err(Problem::Internal))
    }
}

fn search(mut guests: Vec<WaitingServer>) {
    guests.sort_by_key(|guest| guest.loaded.index());
    let party = |WaitingServer { loaded, ask, .. }: &WaitingServer| {
        loaded.party(ask, &loaded.circuit(ask).ok()?, PartyRandomness::Drawn).ok()
    };
    let parties: Option<Vec<Party>> = guests.iter().map(party).collect();
    let Some(mut parties) = parties.and_then(|parties| <[Party; SERVERS]>::try_from(parties).ok()) else { return };
    let ran = simulate::run(&mut parties, &mut OsRandom::default(), |frame| vec![frame]);
    if ran.into_iter().all(|result| result.is_ok()) {
        for (guest, party) in guests.into_iter().zip(parties) {
            // Whoever does not wait any more needs no answer.
            let _ = guest.answer.send(guest.loaded.sealed_answer(&guest.ask, party));
        }
    }
}

/// As the client over HTTP reads it.
fn refused(problem: &Problem) -> TransportError {
    TransportError::Refused {
        status: problem.status().as_u16(),
        problem: Some(problem.kind()),
        detail: problem.to_string(),
    }
}
