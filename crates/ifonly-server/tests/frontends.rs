//! Several frontends of one server: a search may use any of them, and they share the budgets.

mod support;

use axum::body::Body;
use http::{Request, StatusCode, header};
use ifonly_server::config::Limits;
use support::{app, manifest, messages, post, public, send, token};

#[tokio::test]
async fn a_search_may_send_its_messages_to_different_frontends() {
    let frontends = [0, 1].map(|_| public(&app(Limits::default(), vec![], None)));
    let manifest = manifest("1");
    for instance in manifest.instances() {
        let sent = messages(&manifest, instance.scheme().name, 3);
        for (phase, message) in sent.iter().enumerate() {
            let path = if phase == instance.phases() { "/v1/record" } else { "/v1/answer" };
            // Consecutive messages go to different frontends. Then the other frontend gets the same
            // message, and both responses must be equal.
            let first = post(&frontends[phase % 2], path, message.clone()).await;
            assert_eq!(first.status(), StatusCode::OK, "{} phase {phase}", instance.scheme().name);
            let other = post(&frontends[1 - phase % 2], path, message.clone()).await;
            assert_eq!(first.body(), other.body(), "{} phase {phase}", instance.scheme().name);
        }
    }
}

#[tokio::test]
async fn frontends_share_the_budget_of_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let frontends = [0, 1].map(|_| public(&app(Limits::default(), vec![token("few", Some(2))], Some(&ledger))));
    let message = messages(&manifest("1"), "gated", 4).remove(0);
    let mut statuses = vec![];
    for frontend in [&frontends[0], &frontends[1], &frontends[0], &frontends[1]] {
        let request = Request::post("/v1/answer").header(header::AUTHORIZATION, "Bearer few");
        statuses.push(send(frontend, request.body(Body::from(message.clone())).unwrap()).await.status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 429, 429]);
}
