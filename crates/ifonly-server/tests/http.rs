//! The HTTP interface: responses, problem documents, limits, reload, CORS and the admin port.

mod support;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, StatusCode, header};
use ifonly_algebra::keys::RootKey;
use ifonly_core::http_api::{KEY_FINGERPRINTS_HEADER, read_fingerprint};
use ifonly_core::transcript::MessageKind;
use ifonly_server::Server;
use ifonly_server::auth::account_tokens::AccountTokens;
use ifonly_server::auth::ledger;
use ifonly_server::auth::ledger::LedgerConfig;
use ifonly_server::config::Limits;
use ifonly_server::http::routes;
use ifonly_server::http::routes::AppState;
use std::sync::Arc;
use std::time::Duration;
use support::{ROWS, app, loaded, loaded_bundle, manifest, messages, post, public, send, token};

fn problem(body: &[u8]) -> String {
    let document: serde_json::Value = serde_json::from_slice(body).unwrap();
    assert!(document["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
    document["type"].as_str().unwrap().strip_prefix("urn:ifonly:problem:").unwrap().to_owned()
}

#[tokio::test]
async fn the_manifest_determines_the_length_of_every_response() {
    let router = public(&app(Limits::default(), vec![], None));
    let manifest = manifest("1");
    for instance in manifest.instances() {
        let sent = messages(&manifest, instance.scheme().name, 3);
        for (phase, message) in sent.iter().enumerate() {
            let path = if phase == instance.phases() { "/v1/record" } else { "/v1/answer" };
            let response = post(&router, path, message.clone()).await;
            assert_eq!(response.status(), StatusCode::OK, "{}", instance.scheme().name);
            let length = response.headers()[header::CONTENT_LENGTH].to_str().unwrap().parse::<usize>().unwrap();
            assert_eq!(response.body().len(), length);
            let (answer, checksum) = response.body().split_at(length - 16);
            assert_eq!(checksum, &blake3::hash(answer).as_bytes()[..16]);
            // The same message gets the same bytes: the server keeps no state and draws no
            // randomness.
            assert_eq!(post(&router, path, message.clone()).await.body(), response.body());
            let kind = if phase < instance.phases() { MessageKind::Phase(phase as u8) } else { MessageKind::Record };
            assert_eq!(length, instance.response_length(kind, manifest.record_length()) + 16);
        }
    }
    assert_eq!(ROWS, manifest.rows());
}

#[tokio::test]
async fn the_manifest_is_served_unchanged_with_the_server_index() {
    let router = public(&app(Limits::default(), vec![], None));
    let response = send(&router, Request::get("/v1/manifest").body(Body::empty()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.body(), manifest("1").json());
    assert_eq!(response.headers()["ifonly-server-index"], "1");
    let epoch = manifest("1").header_context().epoch;
    let published = response.headers()[KEY_FINGERPRINTS_HEADER].to_str().unwrap();
    assert_eq!(read_fingerprint(published, epoch), Some(RootKey::new(epoch, [5; 32]).fingerprint()));
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
}

#[tokio::test]
async fn refusals_are_problem_documents_with_the_right_type_and_status() {
    let router = public(&app(Limits::default(), vec![], None));
    let (served, other) = (manifest("1"), manifest("2"));
    let good = messages(&served, "gated", 4);
    let foreign = messages(&other, "gated", 4).remove(0);
    let (mut other_version, mut wrong_ticket) = (good[0].clone(), good[1].clone());
    other_version[6] = 1;
    // The ticket follows magic, version, phase, epoch, digest and parent.
    wrong_ticket[76] ^= 1;
    let damaged = [&good[0][..good[0].len() - 1], &[good[0][good[0].len() - 1] ^ 1]].concat();
    for (path, body, status, name) in [
        ("/v1/answer", vec![], 400, "malformed"),
        ("/v1/answer", b"hello".to_vec(), 400, "malformed"),
        ("/v1/answer", foreign, 409, "unknown-manifest"),
        ("/v1/answer", other_version, 400, "unsupported-version"),
        ("/v1/record", wrong_ticket, 403, "wrong-ticket"),
        ("/v1/answer", good[1].clone(), 400, "wrong-path"),
        ("/v1/record", good[0].clone(), 400, "wrong-path"),
        ("/v1/answer", damaged, 400, "malformed"),
        ("/v1/answer", vec![0; 1 << 20], 413, "too-large"),
        ("/v1/nowhere", vec![], 404, "not-found"),
        ("/v1/manifest", vec![], 405, "method-not-allowed"),
    ] {
        let response = post(&router, path, body).await;
        assert_eq!((response.status().as_u16(), problem(response.body()).as_str()), (status, name), "{path}");
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
    }
    the_problem_names_both_protocol_versions(&router, &good[0]).await;
    let response = send(&router, Request::get("/v1/answer").body(Body::empty()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(response.headers()[header::ALLOW], "POST");
}

async fn the_problem_names_both_protocol_versions(router: &axum::Router, message: &[u8]) {
    let mut message = message.to_vec();
    message[6] = 9;
    let response = post(router, "/v1/answer", message).await;
    let text = String::from_utf8(response.body().to_vec()).unwrap();
    assert!(text.contains("speaks version 3 of the protocol, not version 9"), "{text}");
}

#[tokio::test]
async fn a_content_length_of_two_to_the_63_is_refused_before_the_body_is_read() {
    let router = public(&app(Limits::default(), vec![], None));
    // A body that never ends: reading it would hang.
    let endless = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
    let request = Request::post("/v1/answer").header(header::CONTENT_LENGTH, "9223372036854775808").body(endless);
    let response = send(&router, request.unwrap()).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn a_full_admission_queue_refuses_requests_with_retry_after() {
    let limits =
        Limits { max_concurrent: 1, queue: 1, address_percent: 100, retry_after_seconds: 7, ..Limits::default() };
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let app = app(limits, vec![token("a", Some(9))], Some(&ledger));
    let (router, admin) = (public(&app), routes::admin(app.clone()));
    let message = messages(&manifest("1"), "gated", 5).remove(0);
    let request = || {
        let request = Request::post("/v1/answer").header(header::AUTHORIZATION, "Bearer a");
        let (router, request) = (router.clone(), request.body(Body::from(message.clone())).unwrap());
        tokio::spawn(async move { send(&router, request).await })
    };
    // While the test holds the lock of the ledger, one request runs and another one waits.
    let lock = std::fs::File::open(&ledger).unwrap();
    lock.lock().unwrap();
    let blocked = [request(), request()];
    let deadline = std::time::Instant::now() + Duration::from_secs(120);
    loop {
        assert!(std::time::Instant::now() < deadline, "two requests are not admitted");
        let metrics = send(&admin, Request::get("/metrics").body(Body::empty()).unwrap()).await;
        if String::from_utf8_lossy(metrics.body()).contains("ifonly_requests_admitted 2\n") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let response = request().await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()[header::RETRY_AFTER], "7");
    assert_eq!(problem(response.body()), "overloaded");
    // Finished requests free their places in the queue.
    lock.unlock().unwrap();
    for task in blocked {
        assert_eq!(task.await.unwrap().status(), StatusCode::OK);
    }
    assert_eq!(request().await.unwrap().status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn stalled_and_slow_uploads_are_ended() {
    let router = public(&app(Limits { upload_seconds: 30, stall_seconds: 3, ..Limits::default() }, vec![], None));
    let endless = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
    let began = tokio::time::Instant::now();
    let response = post(&router, "/v1/answer", endless).await;
    assert_eq!((response.status().as_u16(), problem(response.body()).as_str()), (408, "upload-timeout"));
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    // Single bytes avoid the stall limit, but not the upload limit.
    let drops = futures_util::stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        Some((Ok::<_, std::io::Error>(Bytes::from_static(&[0])), ()))
    });
    let began = tokio::time::Instant::now();
    let response = post(&router, "/v1/answer", Body::from_stream(drops)).await;
    assert_eq!((response.status().as_u16(), problem(response.body()).as_str()), (408, "upload-timeout"));
    assert_eq!(began.elapsed(), Duration::from_secs(30));
}

#[tokio::test]
async fn tokens_are_required_and_their_budgets_are_exhausted() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let app = app(Limits::default(), vec![token("few", Some(2)), token("many", None)], Some(&ledger));
    let router = public(&app);
    let sent = messages(&manifest("1"), "two-phase", 7);
    let with = |token: Option<&str>, path: &str, body: Vec<u8>| {
        let mut request = Request::post(path);
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let (router, request) = (router.clone(), request.body(Body::from(body)).unwrap());
        async move { send(&router, request).await }
    };
    for token in [None, Some("wrong")] {
        let response = with(token, "/v1/answer", sent[0].clone()).await;
        assert_eq!((response.status().as_u16(), problem(response.body()).as_str()), (401, "unauthorized"));
        assert_eq!(response.headers()[header::WWW_AUTHENTICATE], "Bearer");
    }
    // A budget of two searches allows two requests of each phase and, with at most 2 records per
    // search, four record fetches. Refused messages are not charged.
    for (path, body, allowed) in [("/v1/answer", &sent[0], 2), ("/v1/answer", &sent[1], 2), ("/v1/record", &sent[2], 4)]
    {
        for _ in 0..allowed {
            assert_eq!(with(Some("few"), "/v1/answer", vec![1, 2, 3]).await.status(), StatusCode::BAD_REQUEST);
            assert_eq!(with(Some("few"), path, body.clone()).await.status(), StatusCode::OK);
        }
        let response = with(Some("few"), path, body.clone()).await;
        assert_eq!((response.status().as_u16(), problem(response.body()).as_str()), (429, "budget-exhausted"));
        assert_eq!(with(Some("many"), path, body.clone()).await.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn a_ledger_whose_lock_is_held_causes_ledger_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let ledger = ledger::open(&LedgerConfig::new(path.to_str().unwrap()).with_timeout_seconds(1), "test/1").unwrap();
    let tokens = AccountTokens::counted_in(vec![token("a", Some(1))], Some(ledger)).unwrap();
    let router = public(&Arc::new(AppState::new(loaded(&manifest("1"), 1), tokens, Limits::default(), vec![])));
    let message = messages(&manifest("1"), "gated", 6).remove(0);
    // Like a process that was stopped while it held the lock.
    let stopped = std::fs::File::open(&path).unwrap();
    stopped.lock().unwrap();
    let request = Request::post("/v1/answer").header(header::AUTHORIZATION, "Bearer a").body(message.into()).unwrap();
    let response = send(&router, request).await;
    assert_eq!((response.status().as_u16(), problem(response.body()).as_str()), (503, "ledger-unavailable"));
    assert!(response.headers().contains_key(header::RETRY_AFTER));
}

#[tokio::test]
async fn a_token_revoked_during_an_upload_is_refused_and_no_other_token_is_charged() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let tokens = |entries| AccountTokens::new(entries, Some(&ledger)).unwrap();
    let before = tokens(vec![token("a", Some(5)), token("b", Some(5))]);
    let app = AppState::new(loaded(&manifest("1"), 1), before, Limits::default(), vec![]);
    let server = Server::bind(app, "127.0.0.1:0".parse().unwrap(), None, None).await.unwrap();
    let router = routes::public(server.app());
    let message = messages(&manifest("1"), "gated", 6).remove(0);
    for (name, after, status) in [
        ("a", vec![token("b", Some(5)), token("c", Some(5))], StatusCode::UNAUTHORIZED),
        ("b", vec![token("c", Some(5)), token("b", Some(5))], StatusCode::OK),
    ] {
        // The server reads a part of the message; the rest follows after the reload.
        let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Bytes, std::io::Error>>(1);
        let body = Body::from_stream(futures_util::stream::unfold(receiver, |mut receiver| async {
            Some((receiver.recv().await?, receiver))
        }));
        let request = Request::post("/v1/answer").header(header::AUTHORIZATION, format!("Bearer {name}"));
        let (request, router) = (request.body(body).unwrap(), router.clone());
        let answering = tokio::spawn(async move { send(&router, request).await });
        let (first, rest) = message.split_at(100);
        for piece in first.chunks(50) {
            // The channel has capacity for one piece, so the second piece waits until the server
            // has read the first.
            sender.send(Ok(Bytes::copy_from_slice(piece))).await.unwrap();
        }
        server.handle().reload(loaded(&manifest("1"), 1), tokens(after), None).unwrap();
        sender.send(Ok(Bytes::copy_from_slice(rest))).await.unwrap();
        drop(sender);
        assert_eq!(answering.await.unwrap().status(), status, "{name}");
    }
    assert_eq!(std::fs::read_to_string(&ledger).unwrap(), "b phase0\n");
}

#[tokio::test]
async fn only_pages_of_listed_origins_may_search() {
    let router = public(&app(Limits::default(), vec![], None));
    for (origin, allowed) in [("https://example.org", true), ("https://evil.example", false)] {
        let preflight = Request::options("/v1/answer")
            .header(header::ORIGIN, origin)
            .header(header::ACCESS_CONTROL_REQUEST_METHOD, "POST");
        let response = send(&router, preflight.body(Body::empty()).unwrap()).await;
        let granted = response.headers().get(header::ACCESS_CONTROL_ALLOW_ORIGIN);
        assert_eq!(granted.is_some_and(|granted| granted == origin), allowed);
        let text = |headers: &HeaderMap, name: HeaderName| {
            headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned()
        };
        assert_eq!(
            text(response.headers(), header::ACCESS_CONTROL_MAX_AGE),
            "86400",
            "browsers cache a preflight response for a day"
        );
        let sent = text(response.headers(), header::ACCESS_CONTROL_ALLOW_HEADERS);
        assert!(["authorization", "content-type"].iter().all(|name| sent.contains(name)), "{sent}");
        let request = Request::get("/v1/manifest").header(header::ORIGIN, origin).body(Body::empty()).unwrap();
        let response = send(&router, request).await;
        assert_eq!(response.headers().contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN), allowed);
        let shown = text(response.headers(), header::ACCESS_CONTROL_EXPOSE_HEADERS);
        for name in [
            "ifonly-server-index",
            "ifonly-previous-manifests",
            KEY_FINGERPRINTS_HEADER,
            "retry-after",
            "content-length",
        ] {
            assert!(shown.contains(name), "a page needs {name}: {shown}");
        }
    }
}

#[tokio::test]
async fn without_origins_the_server_sends_no_cors_headers() {
    assert!(ifonly_server::Config::default().origins().unwrap().is_empty());
    for (origins, allowed) in [(vec![], false), (vec!["*".parse().unwrap()], true)] {
        let app = AppState::new(
            loaded(&manifest("1"), 1),
            AccountTokens::new(vec![], None).unwrap(),
            Limits::default(),
            origins,
        );
        let request = Request::get("/v1/manifest").header(header::ORIGIN, "https://example.org");
        let response = send(&routes::public(app.into()), request.body(Body::empty()).unwrap()).await;
        let headers = response.headers().keys();
        assert_eq!(headers.filter(|name| name.as_str().starts_with("access-control")).count() > 0, allowed);
    }
}

#[tokio::test]
async fn after_a_reload_old_searches_can_finish_until_the_grace_period_ends() {
    let app = app(Limits::default(), vec![], None);
    let router = public(&app);
    let old = messages(&manifest("1"), "gated", 8);
    let new = messages(&manifest("2"), "gated", 8);
    assert_eq!(post(&router, "/v1/answer", new[0].clone()).await.status(), StatusCode::CONFLICT);
    let before = post(&router, "/v1/record", old[1].clone()).await;
    app.versions().replace(loaded(&manifest("2"), 1), Duration::from_secs(3600)).unwrap();
    assert_eq!(post(&router, "/v1/answer", new[0].clone()).await.status(), StatusCode::OK);
    assert_eq!(post(&router, "/v1/record", old[1].clone()).await.body(), before.body());
    let served = send(&router, Request::get("/v1/manifest").body(Body::empty()).unwrap()).await;
    assert_eq!(served.body(), manifest("2").json());
    app.versions().replace(loaded(&manifest("3"), 1), Duration::ZERO).unwrap();
    assert_eq!(post(&router, "/v1/answer", new[0].clone()).await.status(), StatusCode::CONFLICT);
    // The grace period of the first version still runs: a later reload does not shorten it.
    assert_eq!(post(&router, "/v1/record", old[1].clone()).await.body(), before.body());
}

#[tokio::test]
async fn a_reload_with_a_served_manifest_but_other_data_or_keys_is_refused_and_changes_nothing() {
    let app = app(Limits::default(), vec![], None);
    let router = public(&app);
    let (first, second) = (manifest("1"), manifest("2"));
    // A search in progress, whose record fetch is still to come.
    let search = messages(&first, "gated", 8);
    let before = post(&router, "/v1/record", search[1].clone()).await;
    assert_eq!(before.status(), StatusCode::OK);
    let hour = Duration::from_secs(3600);
    let indistinct = || [loaded_bundle(&first, 1, 2, 5), loaded_bundle(&first, 1, 1, 6)];
    let refuses = |app: &AppState| {
        for other in indistinct() {
            let error = app.versions().replace(other, hour).unwrap_err().to_string();
            assert!(error.contains("data version") && error.contains("epoch 0"), "{error}");
        }
    };
    refuses(&app);
    // The same data and keys are accepted, perhaps from other files or shards.
    app.versions().replace(loaded(&first, 1), hour).unwrap();
    assert_eq!(post(&router, "/v1/record", search[1].clone()).await.body(), before.body());
    // This also holds during the grace period of the manifest. Afterwards other data are accepted.
    app.versions().replace(loaded(&second, 1), hour).unwrap();
    refuses(&app);
    assert_eq!(post(&router, "/v1/record", search[1].clone()).await.body(), before.body());
    let later = support::app(Limits::default(), vec![], None);
    later.versions().replace(loaded(&second, 1), Duration::ZERO).unwrap();
    for other in indistinct() {
        later.versions().replace(other, Duration::ZERO).unwrap();
        assert_eq!(post(&public(&later), "/v1/record", search[1].clone()).await.status(), StatusCode::FORBIDDEN);
        later.versions().replace(loaded(&second, 1), Duration::ZERO).unwrap();
    }
}

#[tokio::test]
async fn operators_see_health_and_metrics_but_no_query_contents() {
    let app = app(Limits::default(), vec![], None);
    let (router, admin) = (public(&app), routes::admin(app.clone()));
    let message = messages(&manifest("1"), "gated", 9).remove(0);
    post(&router, "/v1/answer", message.clone()).await;
    post(&router, "/v1/answer", vec![]).await;
    let get = |path: &'static str| {
        let admin = admin.clone();
        async move { send(&admin, Request::get(path).body(Body::empty()).unwrap()).await }
    };
    assert_eq!(get("/healthz").await.status(), StatusCode::OK);
    assert_eq!(get("/readyz").await.status(), StatusCode::OK);
    let text = String::from_utf8(get("/metrics").await.body().to_vec()).unwrap();
    assert!(text.contains("ifonly_requests_total{route=\"/v1/answer\",status=\"400\"} 1"), "{text}");
    assert!(text.contains(&format!("ifonly_received_bytes_total {}", message.len())), "{text}");
    assert_eq!(get("/v1/manifest").await.status(), StatusCode::NOT_FOUND);
}
