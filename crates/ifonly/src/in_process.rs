//! Servers in this process: what a client asks is answered by plain calls, without a network, tokens or limits.
//!
//! For demonstrations, tests and programs that try a bundle out. Whoever holds all servers could read the question, so there is
//! nothing private about it.

use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::OsRandom;
use ifonly_bundle::Bundle;
use ifonly_client::transport::{Call, Exchange, Greeting, Pending, Receive, Transport, TransportError};
use ifonly_core::replica::{Refusal, Request, SealedAsk};
use ifonly_core::sealed::SERVERS;
use ifonly_core::service::Route;
use ifonly_core::transcript::Tau;
use ifonly_sealed::{Party, Randomness, simulate};
use ifonly_server::Holding;
use ifonly_server::database::{Database, Ended};
use ifonly_server::holding::HoldingError;
use ifonly_server::problem::Problem;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// The way to a server that this process holds itself. It computes where it is polled.
#[derive(Clone, Debug)]
pub struct InProcess {
    holding: Arc<Holding>,
    /// Where the three of a sealed search meet.
    meeting: Option<Arc<Meeting>>,
}

impl InProcess {
    /// The way to this server.
    pub fn new(holding: impl Into<Arc<Holding>>) -> InProcess {
        InProcess { holding: holding.into(), meeting: None }
    }

    /// All servers of a bundle, under a key that nobody else has.
    pub fn servers(bundle: &Bundle) -> Result<Vec<Arc<dyn Transport>>, HoldingError> {
        let servers = bundle.manifest().servers() as u8;
        let meeting = bundle.manifest().sealed().map(|_| Arc::new(Meeting::default()));
        let key = RootKey::generate(bundle.manifest().audience().epoch, &mut OsRandom::default());
        let server = |index| -> Result<Arc<dyn Transport>, HoldingError> {
            let holding = Holding::new(bundle, index, vec![key.clone()])?.into();
            Ok(Arc::new(InProcess { holding, meeting: meeting.clone() }))
        };
        (1..=servers).map(server).collect()
    }

    async fn respond(&self, call: Call, response: &mut dyn Receive) -> Result<(), TransportError> {
        let (holding, database) = (&self.holding, self.holding.database());
        let request = holding.replica().open(&call.message).map_err(|refusal| refused(&refusal.into()))?;
        let request = match (request, &self.meeting) {
            (Request::Sealed(ask), Some(meeting)) => {
                let answer = meeting.join(holding.clone(), ask).await.map_err(|problem| refused(&problem))?;
                response.part(&answer);
                return Ok(());
            }
            (request, _) => request,
        };
        let have = match (&request, call.route) {
            (Request::Answer(ask), Route::Answer) => Database::answer_length(ask),
            (Request::Record(ask), Route::Record) => Database::record_length(ask),
            (Request::Answer(_), _) => return Err(refused(&Problem::WrongPath { path: Route::Answer.path() })),
            (Request::Sealed(_), _) => return Err(refused(&Refusal::Alone.into())),
            (Request::Record(_), _) => return Err(refused(&Problem::WrongPath { path: Route::Record.path() })),
        };
        if have != call.length {
            return Err(TransportError::Length { have: have as u64, need: call.length });
        }
        let mut sink = |bytes: &[u8]| {
            response.part(bytes);
            ControlFlow::Continue(())
        };
        let whole = match &request {
            Request::Answer(ask) => database.answer(ask, &mut sink),
            Request::Record(ask) => database.record(holding.index(), ask, &mut sink),
            Request::Sealed(_) => Err(Ended::Stopped),
        };
        whole.map_err(|ended| match ended {
            Ended::Failed(problem) => refused(&problem),
            Ended::Stopped => refused(&Problem::Internal),
        })
    }
}

impl Exchange for InProcess {
    fn name(&self) -> String {
        format!("server {} in this process", self.holding.index())
    }

    fn greet(&self) -> Pending<'_, Greeting> {
        let greeting = Greeting { index: self.holding.index(), manifest: self.holding.manifest(), earlier: vec![] };
        Box::pin(std::future::ready(Ok(greeting)))
    }

    fn send<'a>(&'a self, call: Call, response: &'a mut dyn Receive) -> Pending<'a, ()> {
        Box::pin(self.respond(call, response))
    }
}

/// Servers that wait for the others of a sealed search, by its transcript. The last of the three computes for all.
#[derive(Debug, Default)]
struct Meeting(Mutex<HashMap<Tau, Vec<Guest>>>);

#[derive(Debug)]
struct Guest {
    holding: Arc<Holding>,
    ask: SealedAsk,
    answer: oneshot::Sender<Result<Vec<u8>, Problem>>,
}

impl Meeting {
    async fn join(&self, holding: Arc<Holding>, ask: SealedAsk) -> Result<Vec<u8>, Problem> {
        let (answer, response) = oneshot::channel();
        let tau = ask.tau;
        let all = {
            let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let guests = waiting.entry(tau).or_default();
            guests.push(Guest { holding, ask, answer });
            if guests.len() == SERVERS { waiting.remove(&tau) } else { None }
        };
        if let Some(guests) = all {
            search(guests);
        }
        response.await.unwrap_or(Err(Problem::Internal))
    }
}

fn search(mut guests: Vec<Guest>) {
    guests.sort_by_key(|guest| guest.holding.index());
    let party =
        |Guest { holding, ask, .. }: &Guest| holding.party(ask, &holding.circuit(ask).ok()?, Randomness::Drawn).ok();
    let parties: Option<Vec<Party>> = guests.iter().map(party).collect();
    let Some(mut parties) = parties.and_then(|parties| <[Party; SERVERS]>::try_from(parties).ok()) else { return };
    let ran = simulate::run(&mut parties, &mut OsRandom::default(), |frame| vec![frame]);
    if ran.into_iter().all(|result| result.is_ok()) {
        for (guest, party) in guests.into_iter().zip(parties) {
            // Whoever does not wait any more needs no answer.
            let _ = guest.answer.send(guest.holding.sealed_answer(&guest.ask, party));
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
