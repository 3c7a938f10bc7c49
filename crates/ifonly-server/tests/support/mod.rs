//! A small database, its server, and complete searches against it without a network.
#![allow(dead_code, missing_docs, unreachable_pub)]

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Request as HttpRequest, Response};
use http_body_util::BodyExt;
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_bundle::Bundle;
use ifonly_core::search::Search;
use ifonly_core::secret_query::SecretQuery;
use ifonly_core::server_protocol::CheckedRequest;
use ifonly_scan::RowStore;
use ifonly_server::LoadedBundle;
use ifonly_server::auth::account_tokens::{AccountTokens, TokenEntry};
use ifonly_server::config::Limits;
use ifonly_server::http::routes;
use ifonly_server::http::routes::AppState;
use ifonly_values::manifest::{Manifest, ManifestFields};
use ifonly_values::record;
use ifonly_values::schema::{Feature, FeatureKind, Quantiser, Scale, Schema};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use tower::ServiceExt;

pub const ROWS: usize = 20;

pub fn manifest(version: &str) -> Manifest {
    manifest_of(version, ROWS)
}

pub fn manifest_of(version: &str, rows: usize) -> Manifest {
    let numeric = |levels| FeatureKind::from(Scale::levels(0.0, 1.0, levels, Quantiser::Round).unwrap());
    let schema = Schema::new(vec![Feature::new("a", numeric(9)), Feature::new("b", numeric(4))]).unwrap();
    let mut fields = ManifestFields::new("test", schema, rows, 16, 4);
    fields.dataset.version = version.into();
    fields.params.top_limit = 2;
    fields.offer_all();
    Manifest::new(fields).unwrap()
}

pub fn loaded(manifest: &Manifest, index: u8) -> LoadedBundle {
    loaded_bundle(manifest, index, 1, 5)
}

/// A bundle whose data depends on `seed`, and whose root key depends on `key`.
pub fn loaded_bundle(manifest: &Manifest, index: u8, seed: u64, key: u8) -> LoadedBundle {
    let mut random = SeededRandom::new(seed);
    let rows: Vec<[u16; 2]> = (0..manifest.rows()).map(|_| [random.below(10) as u16, random.below(5) as u16]).collect();
    let texts = |row: &[u16; 2]| [(f64::from(row[0]) / 9.0).to_string(), (f64::from(row[1]) / 4.0).to_string()];
    let short = |text: &String| text.chars().take(6).collect::<String>();
    let bytes = rows.iter().flat_map(|row| record::encode(&texts(row).map(|text| short(&text)), 16).unwrap()).collect();
    let rows = RowStore::build(&[9, 4], &rows).unwrap();
    let bundle = Bundle::in_memory(manifest.clone(), rows, bytes).unwrap();
    LoadedBundle::new(&bundle, index, vec![RootKey::new(0, [key; 32])]).unwrap()
}

pub fn app(limits: Limits, tokens: Vec<TokenEntry>, ledger: Option<&Path>) -> Arc<AppState> {
    let origins = vec!["https://example.org".parse().unwrap()];
    Arc::new(AppState::new(loaded(&manifest("1"), 1), AccountTokens::new(tokens, ledger).unwrap(), limits, origins))
}

pub fn token(name: &str, searches: Option<u64>) -> TokenEntry {
    TokenEntry { name: name.into(), hash: blake3::hash(name.as_bytes()).to_hex().to_string(), searches }
}

/// The messages to server 1 in one search with this scheme: every phase, then one record fetch.
/// Only server 1 answers, which is enough for a ticket.
pub fn messages(manifest: &Manifest, scheme: &str, seed: u64) -> Vec<Vec<u8>> {
    let instance = manifest.instance(scheme).unwrap().clone();
    let (mut random, loaded) = (SeededRandom::new(seed), loaded(manifest, 1));
    let mut search = Search::new(instance, SecretQuery::new(vec![3, 2]), manifest.header_context()).unwrap();
    let mut sent = vec![];
    while let Some(outgoing) = search.next(&mut random) {
        let message = outgoing.messages[0].to_vec();
        search.receive(vec![Some(respond(&loaded, &message))]);
        sent.push(message);
    }
    sent
}

/// The response of a server, without HTTP.
pub fn respond(loaded: &LoadedBundle, message: &[u8]) -> Vec<u8> {
    let mut response = vec![];
    let mut sink = |bytes: &[u8]| {
        response.extend_from_slice(bytes);
        ControlFlow::Continue(())
    };
    let result = match loaded.protocol().decode(message).unwrap() {
        CheckedRequest::Answer(request) => loaded.database().answer(&request, &mut sink),
        CheckedRequest::Record(request) => loaded.database().record(loaded.index(), &request, &mut sink),
    };
    assert_eq!(result, Ok(()));
    response
}

pub async fn send(router: &Router, request: HttpRequest<Body>) -> Response<Bytes> {
    let (parts, body) = router.clone().oneshot(request).await.unwrap().into_parts();
    Response::from_parts(parts, body.collect().await.unwrap().to_bytes())
}

pub async fn post(router: &Router, path: &str, body: impl Into<Body>) -> Response<Bytes> {
    send(router, HttpRequest::post(path).body(body.into()).unwrap()).await
}

pub fn public(app: &Arc<AppState>) -> Router {
    routes::public(app.clone())
}
