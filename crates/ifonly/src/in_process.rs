//! Servers in this process: what a client asks is answered by plain calls, without a network, tokens or limits.
//!
//! For demonstrations, tests and programs that try a bundle out. Whoever holds all servers could read the question, so there is
//! nothing private about it.

use ifonly_bundle::Bundle;
use ifonly_client::transport::{Exchange, Greeting, Pending, Receive, Transport, TransportError};
use ifonly_core::keys::RootKey;
use ifonly_core::random::OsRandom;
use ifonly_core::replica::Request;
use ifonly_core::service::Route;
use ifonly_server::Holding;
use ifonly_server::database::Database;
use ifonly_server::holding::HoldingError;
use ifonly_server::problem::Problem;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The way to a server that this process holds itself. It computes where it is polled.
#[derive(Clone, Debug)]
pub struct InProcess(Arc<Holding>);

impl InProcess {
    /// The way to this server.
    pub fn new(holding: impl Into<Arc<Holding>>) -> InProcess {
        InProcess(holding.into())
    }

    /// All servers of a bundle, under a key that nobody else has.
    pub fn servers(bundle: &Bundle) -> Result<Vec<Arc<dyn Transport>>, HoldingError> {
        let deployments = bundle.manifest().deployments();
        let servers = deployments.iter().map(|deployment| deployment.servers()).max().unwrap_or(0) as u8;
        let key = RootKey::generate(bundle.manifest().audience().epoch, &mut OsRandom::default());
        let server = |index| -> Result<Arc<dyn Transport>, HoldingError> {
            Ok(Arc::new(InProcess::new(Holding::new(bundle, index, vec![key.clone()])?)))
        };
        (1..=servers).map(server).collect()
    }

    fn respond(
        &self,
        route: Route,
        message: &[u8],
        length: usize,
        response: &mut dyn Receive,
    ) -> Result<(), TransportError> {
        let (holding, database) = (&self.0, self.0.database());
        let request = holding.replica().open(message).map_err(|refusal| refused(&refusal.into()))?;
        let have = match (&request, route) {
            (Request::Answer(ask), Route::Answer) => Database::answer_length(ask),
            (Request::Record(ask), Route::Record) => Database::record_length(ask),
            (Request::Answer(_), _) => return Err(refused(&Problem::WrongPath { path: Route::Answer.path() })),
            (Request::Record(_), _) => return Err(refused(&Problem::WrongPath { path: Route::Record.path() })),
        };
        if have != length {
            return Err(TransportError::Length { have: have as u64, need: length });
        }
        let mut sink = |bytes: &[u8]| {
            response.part(bytes);
            ControlFlow::Continue(())
        };
        let whole = match &request {
            Request::Answer(ask) => database.answer(ask, &mut sink),
            Request::Record(ask) => database.record(holding.index(), ask, &mut sink),
        };
        match whole {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(refused(&Problem::Internal)),
        }
    }
}

impl Exchange for InProcess {
    fn name(&self) -> String {
        format!("server {} in this process", self.0.index())
    }

    fn greet(&self) -> Pending<'_, Greeting> {
        let greeting = Greeting { index: self.0.index(), manifest: self.0.manifest(), earlier: vec![] };
        Box::pin(std::future::ready(Ok(greeting)))
    }

    fn send<'a>(
        &'a self,
        route: Route,
        message: bytes::Bytes,
        length: usize,
        response: &'a mut dyn Receive,
    ) -> Pending<'a, ()> {
        Box::pin(async move { self.respond(route, &message, length, response) })
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
