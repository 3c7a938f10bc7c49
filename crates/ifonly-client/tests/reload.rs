//! Servers are reloaded one after another; people who ask in between take what all of them still
//! offer.
#![cfg(feature = "http")]

mod support;

use ifonly_client::transport::http::{TlsTrust, servers};
use ifonly_client::{Client, ClientError, Pins, RetryPolicy};
use ifonly_core::secret_query::SecretQuery;
use ifonly_server::Server;
use ifonly_server::auth::tokens::Tokens;
use ifonly_server::config::Limits;
use ifonly_server::http::listener::ServerHandle;
use ifonly_server::http::routes::AppState;
use support::World;

/// A version of the database; the later ones have other rows too.
fn version(number: u64) -> World {
    World::new(30, 4, number, |contents| contents.dataset.version = number.to_string())
}

fn no_tokens() -> Tokens {
    Tokens::new(vec![], None).unwrap()
}

/// A server over HTTP: its address, and what reloads it.
async fn start(world: &World, index: u8, grace_seconds: u64) -> (String, ServerHandle) {
    let limits = Limits { grace_seconds, ..Limits::default() };
    let app = AppState::new(world.loaded(index), no_tokens(), limits, vec![]);
    let server = Server::bind(app, "127.0.0.1:0".parse().unwrap(), None, None).await.unwrap();
    let started = (format!("http://{}", server.address()), server.control());
    tokio::spawn(server.run(std::future::pending()));
    started
}

async fn all(world: &World, grace_seconds: u64) -> (Vec<String>, Vec<ServerHandle>) {
    let (mut urls, mut controls) = (vec![], vec![]);
    for index in 1..=4 {
        let (url, control) = start(world, index, grace_seconds).await;
        urls.push(url);
        controls.push(control);
    }
    (urls, controls)
}

async fn connect(urls: &[String], pins: &Pins) -> Result<Client, ClientError> {
    // Nobody shows a certificate here.
    let trust = TlsTrust::system().unwrap();
    Client::connect(servers(urls, &trust, None, RetryPolicy::default()).unwrap(), pins).await
}

/// Asks, and says which version was asked.
async fn asked(urls: &[String], worlds: &[World]) -> String {
    let client = connect(urls, &Pins::default()).await.unwrap();
    let world = worlds.iter().find(|world| world.manifest.digest() == client.manifest().digest()).unwrap();
    let instance = client.manifest().instance("gated").unwrap();
    let secret = SecretQuery::new(vec![3, 2, 4, 1]);
    let report = client.search(instance, secret.clone(), 1).await.unwrap();
    let costs = world.levels.iter().map(|row| secret.plain_cost(instance.scheme(), instance.params(), row));
    let found = &report.outcome.found[0];
    let best = costs.flatten().min().unwrap();
    assert_eq!(found.price, ifonly_core::candidates::DecodedCost::Exactly(best));
    client.manifest().fields().dataset.version.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_between_two_reloads_takes_the_newest_that_all_offer() {
    let worlds = [version(1), version(2), version(3)];
    let (urls, controls) = all(&worlds[0], 3600).await;
    assert_eq!(asked(&urls, &worlds).await, "1");
    for (place, control) in controls.iter().enumerate() {
        control.reload(worlds[1].loaded(place as u8 + 1), no_tokens(), None).unwrap();
        assert_eq!(asked(&urls, &worlds).await, if place < 3 { "1" } else { "2" });
        // In whatever order the servers are named.
        let mut turned = urls.clone();
        turned.rotate_left(place);
        assert_eq!(asked(&turned, &worlds).await, if place < 3 { "1" } else { "2" });
    }
    // One server is two versions ahead of another: the one in between is what both offer.
    let (urls, controls) = all(&worlds[0], 3600).await;
    for (place, control) in controls.iter().enumerate() {
        control.reload(worlds[1].loaded(place as u8 + 1), no_tokens(), None).unwrap();
    }
    controls[0].reload(worlds[2].loaded(1), no_tokens(), None).unwrap();
    assert_eq!(asked(&urls, &worlds).await, "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_promised_is_compared_with_what_was_chosen() {
    let worlds = [version(1), version(2)];
    let (urls, controls) = all(&worlds[0], 3600).await;
    controls[1].reload(worlds[1].loaded(2), no_tokens(), None).unwrap();
    let pin = |world: &World| Pins { manifest: Some(hex::encode(world.manifest.digest())), ..Pins::default() };
    assert!(connect(&urls, &pin(&worlds[0])).await.is_ok());
    let refused = connect(&urls, &pin(&worlds[1])).await.unwrap_err();
    assert!(matches!(refused, ClientError::Pinned { what: "manifest digest", .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_grace_nothing_is_asked_of_servers_that_differ() {
    let worlds = [version(1), version(2)];
    let (urls, controls) = all(&worlds[0], 0).await;
    controls[1].reload(worlds[1].loaded(2), no_tokens(), None).unwrap();
    let refused = connect(&urls, &Pins::default()).await.unwrap_err();
    assert!(matches!(refused, ClientError::ManifestsDiffer(ref said) if said.len() == 4), "{refused}");
}
