//! A second way to authorise, against the interfaces for authorisation of server and client: one
//! credential per search and server, in the first message only.
mod support;

use http::HeaderMap;
use ifonly_client::transport::{Exchange, ServerRequest, TransportFuture};
use ifonly_client::{
    Client, ClientError, Credential, CredentialSource, ManifestResponse, NoCredentials, Pins, ResponseSink, Transport,
    WishList,
};
use ifonly_core::transcript::{MessageKind, Tau};
use ifonly_server::auth::ledger::Ledger;
use ifonly_server::auth::{Authorisation, Pass, Stage};
use ifonly_server::config::Limits;
use ifonly_server::http::problem::Problem;
use ifonly_server::http::routes::{self, AppState};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use support::{InProcess, TestDatabase};

const HEADER: &str = "ifonly-ticket-of-this-test";

/// Credentials that a server accepts, and the search that spent each.
#[derive(Debug)]
struct OneTime(Mutex<HashMap<blake3::Hash, Option<Tau>>>);

impl Authorisation for OneTime {
    fn admit(&self, headers: &HeaderMap) -> Result<Pass, Problem> {
        let credential = headers.get(HEADER).map(|value| blake3::hash(value.as_bytes()));
        match credential {
            Some(credential) if !self.0.lock().unwrap().contains_key(&credential) => Err(Problem::Unauthorized),
            credential => Ok(Pass { way: "one-time", credential }),
        }
    }

    fn spend(&self, pass: &Pass, stage: &Stage) -> Result<(), Problem> {
        if stage.kind != MessageKind::Phase(0) {
            return Ok(());
        }
        let mut spent = self.0.lock().unwrap();
        let by = pass.credential.and_then(|credential| spent.get_mut(&credential)).ok_or(Problem::Unauthorized)?;
        // The same message again is a retry.
        if *by.get_or_insert(stage.search) == stage.search { Ok(()) } else { Err(Problem::BudgetExhausted) }
    }

    fn ledger(&self) -> Option<&dyn Ledger> {
        None
    }
}

/// Credentials of a user, as `searches` sets of one per server.
struct Wallet(Mutex<VecDeque<Vec<Credential>>>);

impl CredentialSource for Wallet {
    fn take(&self, servers: usize, searches: usize) -> Result<Vec<Credential>, NoCredentials> {
        assert_eq!(searches, 1);
        let credentials = self.0.lock().unwrap().pop_front().ok_or(NoCredentials)?;
        Ok(credentials.into_iter().take(servers).collect())
    }
}

/// Sends every message twice, and notes which messages carry a credential.
struct Twice(InProcess, Arc<Mutex<Vec<bool>>>);

impl Exchange for Twice {
    fn name(&self) -> String {
        self.0.name()
    }

    fn fetch_manifest(&self) -> TransportFuture<'_, ManifestResponse> {
        self.0.fetch_manifest()
    }

    fn send<'a>(&'a self, request: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        Box::pin(async move {
            self.1.lock().unwrap().push(request.credential.is_some());
            self.0.send(request.clone(), &mut vec![]).await?;
            self.0.send(request, response).await
        })
    }
}

fn value(server: u8, search: usize) -> String {
    format!("{server}/{search}")
}

#[tokio::test]
async fn a_search_spends_one_credential_per_server_in_its_first_message_and_a_retry_spends_none() {
    let database = TestDatabase::new(12, 3, 4, |_| {});
    let sent = Arc::new(Mutex::new(vec![]));
    let operators = database.manifest.operators();
    let server = |index: u8| {
        let known = (0..2).map(|search| (blake3::hash(value(index, search).as_bytes()), None)).collect();
        let authorisation: Arc<dyn Authorisation> = Arc::new(OneTime(Mutex::new(known)));
        let app = AppState::new(database.loaded(index), authorisation, Limits::default(), vec![]);
        let inner = InProcess { router: routes::public(Arc::new(app)), name: format!("server {index}") };
        Arc::new(Twice(inner, sent.clone())) as Arc<dyn Transport>
    };
    let servers: Vec<_> = operators.iter().map(|operator| server(operator.index)).collect();
    let set = |search| {
        operators.iter().map(|operator| Credential::new(HEADER, value(operator.index, search)).unwrap()).collect()
    };
    let client = Client::connect(servers.clone(), &Pins::default()).await.unwrap();
    let wallet =
        |searches: &[usize]| Arc::new(Wallet(Mutex::new(searches.iter().map(|&search| set(search)).collect())));

    let profile = database.values(&[3, 2, 0, 1]);
    let wishes = WishList { scheme: Some("baseline".into()), ..WishList::default() };
    let client = client.with_credentials(wallet(&[0, 1]));
    client.ask(&profile, &wishes).await.unwrap();
    // Two messages to each server: the first has the credential, the record fetch has none.
    let servers_used = client.manifest().scheme("baseline").unwrap().servers();
    assert_eq!(*sent.lock().unwrap(), [vec![true; servers_used], vec![false; servers_used]].concat());
    client.ask(&profile, &wishes).await.unwrap();
    assert!(matches!(client.ask(&profile, &wishes).await, Err(ClientError::NoCredentials(_))));

    // A spent credential serves no other search, and an unknown or missing one serves none.
    for spent in [Some(wallet(&[0])), Some(wallet(&[2])), None] {
        let client = Client::connect(servers.clone(), &Pins::default()).await.unwrap();
        let client = spent.into_iter().fold(client, |client, wallet| client.with_credentials(wallet));
        assert!(client.ask(&profile, &wishes).await.is_err());
    }
}
