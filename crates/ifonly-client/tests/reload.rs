//! Servers are reloaded one after another. A client that connects in between uses the newest
//! manifest that all servers still serve.
#![cfg(feature = "http")]

mod support;

use ifonly_client::transport::http::{TlsTrust, servers};
use ifonly_client::{Client, ClientError, Pins, RetryPolicy};
use ifonly_core::secret_query::SecretQuery;
use ifonly_server::Server;
use ifonly_server::auth::account_tokens::AccountTokens;
use ifonly_server::config::Limits;
use ifonly_server::http::listener::ServerHandle;
use ifonly_server::http::routes::AppState;
use support::TestDatabase;

/// A version of the database. Every version has other rows.
fn version(number: u64) -> TestDatabase {
    TestDatabase::new(30, 4, number, |fields| fields.dataset.version = number.to_string())
}

fn no_tokens() -> AccountTokens {
    AccountTokens::new(vec![], None).unwrap()
}

/// Starts a server over HTTP; returns its address and a handle that can reload it.
async fn start(database: &TestDatabase, index: u8, grace_seconds: u64) -> (String, ServerHandle) {
    let limits = Limits { grace_seconds, ..Limits::default() };
    let app = AppState::new(database.loaded(index), no_tokens(), limits, vec![]);
    let server = Server::bind(app, "127.0.0.1:0".parse().unwrap(), None, None).await.unwrap();
    let started = (format!("http://{}", server.address()), server.handle());
    tokio::spawn(server.run(std::future::pending()));
    started
}

async fn all(database: &TestDatabase, grace_seconds: u64) -> (Vec<String>, Vec<ServerHandle>) {
    let (mut urls, mut handles) = (vec![], vec![]);
    for index in 1..=4 {
        let (url, handle) = start(database, index, grace_seconds).await;
        urls.push(url);
        handles.push(handle);
    }
    (urls, handles)
}

async fn connect(urls: &[String], pins: &Pins) -> Result<Client, ClientError> {
    // The servers use plain HTTP, so there are no certificates.
    let trust = TlsTrust::system().unwrap();
    Client::connect(servers(urls, &trust, RetryPolicy::default()).unwrap(), pins).await
}

/// Searches, and returns the version of the database that was searched.
async fn searched_version(urls: &[String], databases: &[TestDatabase]) -> String {
    let client = connect(urls, &Pins::default()).await.unwrap();
    let database = databases.iter().find(|database| database.manifest.digest() == client.manifest().digest()).unwrap();
    let offered = client.manifest().scheme("gated").unwrap();
    let secret = SecretQuery::new(vec![3, 2, 4, 1]);
    let report = client.search(offered, secret.clone(), 1).await.unwrap();
    let costs = database.levels.iter().map(|row| secret.plain_cost(offered.scheme(), offered.params(), row));
    let found = &report.outcome.found[0];
    let best = costs.flatten().min().unwrap();
    assert_eq!(found.cost, ifonly_core::candidates::DecodedCost::Exactly(best));
    client.manifest().fields().dataset.version.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn between_two_reloads_a_client_uses_the_newest_manifest_that_all_servers_serve() {
    let databases = [version(1), version(2), version(3)];
    let (urls, handles) = all(&databases[0], 3600).await;
    assert_eq!(searched_version(&urls, &databases).await, "1");
    for (position, handle) in handles.iter().enumerate() {
        handle.reload(databases[1].loaded(position as u8 + 1), no_tokens(), None).unwrap();
        assert_eq!(searched_version(&urls, &databases).await, if position < 3 { "1" } else { "2" });
        // The order of the addresses makes no difference.
        let mut rotated = urls.clone();
        rotated.rotate_left(position);
        assert_eq!(searched_version(&rotated, &databases).await, if position < 3 { "1" } else { "2" });
    }
    // One server is two versions ahead of another: both serve the version in between.
    let (urls, handles) = all(&databases[0], 3600).await;
    for (position, handle) in handles.iter().enumerate() {
        handle.reload(databases[1].loaded(position as u8 + 1), no_tokens(), None).unwrap();
    }
    handles[0].reload(databases[2].loaded(1), no_tokens(), None).unwrap();
    assert_eq!(searched_version(&urls, &databases).await, "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn pins_apply_to_the_manifest_that_the_client_uses() {
    let databases = [version(1), version(2)];
    let (urls, handles) = all(&databases[0], 3600).await;
    handles[1].reload(databases[1].loaded(2), no_tokens(), None).unwrap();
    let pin =
        |database: &TestDatabase| Pins { manifest: Some(hex::encode(database.manifest.digest())), ..Pins::default() };
    assert!(connect(&urls, &pin(&databases[0])).await.is_ok());
    let refused = connect(&urls, &pin(&databases[1])).await.unwrap_err();
    assert!(matches!(refused, ClientError::Pinned { what: "manifest digest", .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_grace_period_servers_with_different_manifests_receive_no_query() {
    let databases = [version(1), version(2)];
    let (urls, handles) = all(&databases[0], 0).await;
    handles[1].reload(databases[1].loaded(2), no_tokens(), None).unwrap();
    let refused = connect(&urls, &Pins::default()).await.unwrap_err();
    assert!(matches!(refused, ClientError::ManifestsDiffer(ref digests) if digests.len() == 4), "{refused}");
}
