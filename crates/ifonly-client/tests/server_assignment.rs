//! Assignment of indices to servers: a server only claims its index, but TLS proves its address.

mod support;

use ifonly_client::transport::{Exchange, ServerRequest, TransportFuture};
use ifonly_client::{Client, ClientError, ManifestResponse, Pins, ResponseSink, Transport};
use ifonly_core::secret_query::SecretQuery;
use std::sync::Arc;
use support::TestDatabase;

/// A server that claims an index and may have an address.
struct Claims {
    inner: Arc<dyn Transport>,
    claim: u8,
    address: Option<String>,
}

impl Exchange for Claims {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn address(&self) -> Option<String> {
        self.address.clone()
    }

    fn fetch_manifest(&self) -> TransportFuture<'_, ManifestResponse> {
        Box::pin(async { Ok(ManifestResponse { index: self.claim, ..self.inner.fetch_manifest().await? }) })
    }

    fn send<'a>(&'a self, request: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        self.inner.send(request, response)
    }
}

/// The servers of a database in order, with these claims and addresses. Addresses may be missing.
fn claiming(database: &TestDatabase, claims: &[u8], addresses: &[&str]) -> Vec<Arc<dyn Transport>> {
    let servers = database.servers().into_iter().zip(claims).enumerate();
    let claim = |(position, (inner, &claim)): (usize, (Arc<dyn Transport>, &u8))| -> Arc<dyn Transport> {
        Arc::new(Claims { inner, claim, address: addresses.get(position).map(|&address| address.into()) })
    };
    servers.map(claim).collect()
}

#[tokio::test]
async fn a_wrongly_claimed_index_does_not_stop_a_search_that_tolerates_lies() {
    let database = TestDatabase::new(30, 4, 61, |fields| fields.params.lying = 1);
    let instance = database.manifest.default_scheme().scans().unwrap();
    assert_eq!(instance.servers(), 4);
    for claims in [[1, 2, 2, 4], [4, 2, 3, 4], [1, 1, 3, 4], [1, 2, 3, 0], [1, 2, 3, 200]] {
        let client = Client::connect(claiming(&database, &claims, &[]), &Pins::default()).await.unwrap();
        assert!(!client.failures().is_empty());
        let found = client.search(instance, SecretQuery::new(vec![3, 2, 4, 1]), 1).await;
        assert_eq!(found.unwrap().outcome.found.len(), 1, "{claims:?}");
    }
    // Without tolerance of lies, the client cannot decide which claim is right.
    let strict = TestDatabase::new(30, 2, 61, |_| {});
    let error = Client::connect(claiming(&strict, &[2, 2], &[]), &Pins::default()).await.unwrap_err();
    assert!(matches!(error, ClientError::SameIndex { index: 2, .. }), "{error}");
}

#[tokio::test]
async fn addresses_in_the_manifest_decide_and_other_addresses_are_refused() {
    const LISTED: [&str; 2] = ["https://a.example", "https://b.example:8443/x"];
    let database = TestDatabase::new(30, 2, 62, |fields| {
        fields.operators.iter_mut().zip(LISTED).for_each(|(operator, url)| operator.url = Some(url.into()));
    });
    // Both claim the same index; their addresses decide.
    let servers = claiming(&database, &[2, 2], &["https://A.example:443/", LISTED[1]]);
    let client = Client::connect(servers, &Pins::default()).await.unwrap();
    let instance = database.manifest.default_scheme().scans().unwrap();
    assert_eq!(client.search(instance, SecretQuery::new(vec![3, 2, 4, 1]), 1).await.unwrap().outcome.found.len(), 1);
    let servers = claiming(&database, &[1, 2], &[LISTED[0], "https://c.example"]);
    let error = Client::connect(servers, &Pins::default()).await.unwrap_err();
    assert!(
        matches!(&error, ClientError::OtherAddress { index: 2, address, .. } if address == "https://c.example"),
        "{error}"
    );
    // Names and addresses can be pinned.
    let pins = |operators: [&str; 2]| Pins { operators: Some(operators.map(String::from).into()), ..Pins::default() };
    let connect = |pins: Pins| {
        let servers = claiming(&database, &[1, 2], &LISTED);
        async move { Client::connect(servers, &pins).await.map(|_| ()) }
    };
    connect(pins(["server 1", "server 2=https://b.example:8443/x"])).await.unwrap();
    let error = connect(pins(["server 1=https://c.example", "server 2"])).await.unwrap_err();
    assert!(matches!(error, ClientError::Pinned { what: "operators", .. }), "{error}");
}
