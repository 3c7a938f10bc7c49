//! Assignment of indices to servers: a server only claims its index, but TLS proves its address.

mod support;

use ifonly_client::transport::{Exchange, ServerRequest, TransportFuture};
use ifonly_client::{Client, ClientError, ManifestResponse, Pins, ResponseSink, Transport, TransportError, WishList};
use ifonly_core::secret_query::SecretQuery;
use std::sync::Arc;
use support::TestDatabase;

/// A server that claims an index and may have an address.
struct Claims {
    inner: Arc<dyn Transport>,
    claim: u8,
    address: Option<String>,
    certificate_key: Option<[u8; 32]>,
}

impl Exchange for Claims {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn address(&self) -> Option<String> {
        self.address.clone()
    }

    fn certificate_key(&self) -> Option<[u8; 32]> {
        self.certificate_key
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
        let address = addresses.get(position).map(|&address| address.into());
        Arc::new(Claims { inner, claim, address, certificate_key: None })
    };
    servers.map(claim).collect()
}

#[tokio::test]
async fn a_wrongly_claimed_index_does_not_stop_a_search_that_tolerates_lies() {
    let database = TestDatabase::new(30, 4, 61, |fields| fields.params.lying = 1);
    let offered = database.manifest.default_scheme();
    assert_eq!(offered.servers(), 4);
    for claims in [[1, 2, 2, 4], [4, 2, 3, 4], [1, 1, 3, 4], [1, 2, 3, 0], [1, 2, 3, 200]] {
        let client = Client::connect(claiming(&database, &claims, &[]), &Pins::default()).await.unwrap();
        assert!(!client.failures().is_empty());
        let found = client.search(offered, SecretQuery::new(vec![3, 2, 4, 1]), 1).await;
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
    let offered = database.manifest.default_scheme();
    assert_eq!(client.search(offered, SecretQuery::new(vec![3, 2, 4, 1]), 1).await.unwrap().outcome.found.len(), 1);
    // The answer names the server that claimed the index of another.
    let answer = client.ask(&database.values(&[3, 2, 4, 1]), &WishList::default()).await.unwrap();
    let document = serde_json::to_value(&answer).unwrap();
    assert_eq!(document["lying_servers"], serde_json::json!([1]));
    assert_eq!(document["server_failures"].as_array().unwrap().len(), 1, "{document}");
    assert_eq!(document["server_failures"][0]["code"], "manifest", "{document}");
    assert!(document["server_failures"][0]["message"].as_str().unwrap().contains("claims index 2"), "{document}");
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

#[tokio::test]
async fn two_servers_with_one_host_are_refused_before_any_request() {
    let database = TestDatabase::new(30, 2, 63, |_| {});
    let connect = |addresses: [&'static str; 2], allow_same_host| {
        let servers = claiming(&database, &[1, 2], &addresses);
        async move { Client::connect(servers, &Pins { allow_same_host, ..Pins::default() }).await.map(|_| ()) }
    };
    for addresses in [
        ["https://a.example/one", "https://a.example/two"],
        ["https://a.example", "https://A.example.:8443/"],
        ["https://[2001:db8::1]:1", "https://[2001:db8:0::1]:2"],
    ] {
        let error = connect(addresses, false).await.unwrap_err();
        assert!(matches!(error, ClientError::SameHost { .. }), "{error}");
        connect(addresses, true).await.unwrap();
    }
    connect(["https://a.example", "https://b.example"], false).await.unwrap();
    connect(["http://127.0.0.1:1", "http://127.0.0.1:2"], false).await.unwrap();
}

#[tokio::test]
async fn two_servers_with_one_certificate_key_receive_no_query() {
    let database = TestDatabase::new(30, 2, 64, |_| {});
    let connect = |addresses: [&'static str; 2], keys: [u8; 2], allow_same_host| {
        let servers = database.servers().into_iter().zip(addresses).zip([1, 2]).zip(keys);
        let servers = servers.map(|(((inner, address), claim), key)| -> Arc<dyn Transport> {
            Arc::new(Claims { inner, claim, address: Some(address.into()), certificate_key: Some([key; 32]) })
        });
        let (servers, pins) = (servers.collect(), Pins { allow_same_host, ..Pins::default() });
        async move { Client::connect(servers, &pins).await.map(drop) }
    };
    let two = ["https://a.example", "https://b.example"];
    let error = connect(two, [7, 7], false).await.unwrap_err();
    assert!(matches!(error, ClientError::SameCertificateKey { .. }), "{error}");
    connect(two, [7, 8], false).await.unwrap();
    connect(two, [7, 7], true).await.unwrap();
    connect(["https://127.0.0.1:1", "https://localhost:2"], [7, 7], false).await.unwrap();
}

/// A server that gives no manifest.
struct NoManifest(Arc<dyn Transport>);

impl Exchange for NoManifest {
    fn name(&self) -> String {
        self.0.name()
    }

    fn fetch_manifest(&self) -> TransportFuture<'_, ManifestResponse> {
        Box::pin(async { Err(TransportError::NotAServer("its response has no valid ifonly-server-index header")) })
    }

    fn send<'a>(&'a self, request: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        self.0.send(request, response)
    }
}

#[tokio::test]
async fn the_json_of_an_answer_names_servers_without_a_manifest_or_with_the_index_of_another() {
    let database = TestDatabase::new(30, 4, 65, |fields| fields.params.lying = 1);
    let mut servers = database.servers();
    servers[2] = Arc::new(NoManifest(servers[2].clone()));
    let twice = claiming(&database, &[1, 2, 2, 4], &[]);
    for (servers, code) in [(servers, "not-a-server"), (twice, "manifest")] {
        let name = servers[2].name();
        let client = Client::connect(servers, &Pins::default()).await.unwrap();
        let answer = client.ask(&database.values(&[3, 2, 4, 1]), &WishList::default()).await.unwrap();
        let document = serde_json::to_value(&answer).unwrap();
        let failures = document["server_failures"].as_array().unwrap();
        assert_eq!(failures.len(), 1, "{document}");
        assert_eq!((&failures[0]["server"], &failures[0]["code"]), (&name.into(), &code.into()), "{document}");
        // Without addresses, it is unknown which of two claims is false.
        assert_eq!(document["lying_servers"], serde_json::json!([]));
    }
}
