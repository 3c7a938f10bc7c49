//! The HTTP surface: what is answered, what is refused and how, and what an operator can see.

mod support;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, StatusCode, header};
use ifonly_server::Server;
use ifonly_server::auth::ledger;
use ifonly_server::auth::ledger::LedgerConfig;
use ifonly_server::auth::tokens::Tokens;
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
async fn every_scheme_is_answered_with_the_length_that_the_manifest_implies() {
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
            // The same message gets the same bytes: nothing is stored, nothing is drawn.
            assert_eq!(post(&router, path, message.clone()).await.body(), response.body());
            if phase < instance.phases() {
                let elements = instance.answer_length(phase);
                let packed = ifonly_algebra::wire::packed_length(instance.field(), elements).unwrap();
                let lead = if phase == 0 { 32 } else { 16 };
                assert_eq!(length, lead + packed + 16);
            }
        }
    }
    assert_eq!(ROWS, manifest.rows());
}

#[tokio::test]
async fn the_manifest_is_served_as_it_is_with_the_server_s_number() {
    let router = public(&app(Limits::default(), vec![], None));
    let response = send(&router, Request::get("/v1/manifest").body(Body::empty()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.body(), manifest("1").json());
    assert_eq!(response.headers()["ifonly-server-index"], "1");
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
}

#[tokio::test]
async fn refusals_are_problem_documents_that_say_what_to_do() {
    let router = public(&app(Limits::default(), vec![], None));
    let (here, other) = (manifest("1"), manifest("2"));
    let good = messages(&here, "gated", 4);
    let foreign = messages(&other, "gated", 4).remove(0);
    let (mut another_version, mut no_ticket) = (good[0].clone(), good[1].clone());
    another_version[6] = 1;
    // The ticket stands behind magic, version, phase, epoch, digest and parent.
    no_ticket[76] ^= 1;
    let spoilt = [&good[0][..good[0].len() - 1], &[good[0][good[0].len() - 1] ^ 1]].concat();
    for (path, body, status, name) in [
        ("/v1/answer", vec![], 400, "malformed"),
        ("/v1/answer", b"hello".to_vec(), 400, "malformed"),
        ("/v1/answer", foreign, 409, "unknown-manifest"),
        ("/v1/answer", another_version, 400, "unsupported-version"),
        ("/v1/record", no_ticket, 403, "wrong-ticket"),
        ("/v1/answer", good[1].clone(), 400, "wrong-path"),
        ("/v1/record", good[0].clone(), 400, "wrong-path"),
        ("/v1/answer", spoilt, 400, "malformed"),
        ("/v1/answer", vec![0; 1 << 20], 413, "too-large"),
        ("/v1/nowhere", vec![], 404, "not-found"),
        ("/v1/manifest", vec![], 405, "method-not-allowed"),
    ] {
        let response = post(&router, path, body).await;
        assert_eq!((response.status().as_u16(), problem(response.body()).as_str()), (status, name), "{path}");
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
    }
    another_version_is_named(&router, &good[0]).await;
    let response = send(&router, Request::get("/v1/answer").body(Body::empty()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(response.headers()[header::ALLOW], "POST");
}

async fn another_version_is_named(router: &axum::Router, message: &[u8]) {
    let mut message = message.to_vec();
    message[6] = 9;
    let response = post(router, "/v1/answer", message).await;
    let text = String::from_utf8(response.body().to_vec()).unwrap();
    assert!(text.contains("speaks version 2 of the protocol, not version 9"), "{text}");
}

#[tokio::test]
async fn a_claimed_length_of_two_to_the_63_is_refused_unread() {
    let router = public(&app(Limits::default(), vec![], None));
    // A body that would never end: whoever reads from it hangs.
    let endless = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
    let request = Request::post("/v1/answer").header(header::CONTENT_LENGTH, "9223372036854775808").body(endless);
    let response = send(&router, request.unwrap()).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn beyond_running_and_queue_requests_are_told_to_come_again() {
    let limits =
        Limits { max_concurrent: 1, queue: 1, address_percent: 100, retry_after_seconds: 7, ..Limits::default() };
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let app = app(limits, vec![token("a", Some(9))], Some(&ledger));
    let (router, admin) = (public(&app), routes::admin(app.clone()));
    let message = messages(&manifest("1"), "gated", 5).remove(0);
    let ask = || {
        let request = Request::post("/v1/answer").header(header::AUTHORIZATION, "Bearer a");
        let (router, request) = (router.clone(), request.body(Body::from(message.clone())).unwrap());
        tokio::spawn(async move { send(&router, request).await })
    };
    // Whoever holds the ledger keeps one at work, and another one waits behind it.
    let held = std::fs::File::open(&ledger).unwrap();
    held.lock().unwrap();
    let stuck = [ask(), ask()];
    loop {
        let metrics = send(&admin, Request::get("/metrics").body(Body::empty()).unwrap()).await;
        if String::from_utf8_lossy(metrics.body()).contains("ifonly_requests_admitted 2\n") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let response = ask().await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()[header::RETRY_AFTER], "7");
    assert_eq!(problem(response.body()), "overloaded");
    // Those who are done make room.
    held.unlock().unwrap();
    for task in stuck {
        assert_eq!(task.await.unwrap().status(), StatusCode::OK);
    }
    assert_eq!(ask().await.unwrap().status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn uploads_that_stall_are_given_up() {
    let router = public(&app(Limits { upload_seconds: 30, stall_seconds: 3, ..Limits::default() }, vec![], None));
    let endless = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
    let began = tokio::time::Instant::now();
    let response = post(&router, "/v1/answer", endless).await;
    assert_eq!((response.status().as_u16(), problem(response.body()).as_str()), (408, "upload-timeout"));
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    // A byte now and then is no way around it.
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
async fn tokens_are_asked_for_and_their_sessions_run_out() {
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
    // Two sessions: two requests of each phase and, with at most 2 records each, four records.
    // Refused messages are free.
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
async fn a_ledger_whose_lock_somebody_keeps_gives_a_problem_and_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let ledger = ledger::open(&LedgerConfig::new(path.to_str().unwrap()).within(1), "test/1").unwrap();
    let tokens = Tokens::counted_in(vec![token("a", Some(1))], Some(ledger)).unwrap();
    let router = public(&Arc::new(AppState::new(loaded(&manifest("1"), 1), tokens, Limits::default(), vec![])));
    let message = messages(&manifest("1"), "gated", 6).remove(0);
    // As a process does that was stopped while it counted.
    let stopped = std::fs::File::open(&path).unwrap();
    stopped.lock().unwrap();
    let request = Request::post("/v1/answer").header(header::AUTHORIZATION, "Bearer a").body(message.into()).unwrap();
    let response = send(&router, request).await;
    assert_eq!((response.status().as_u16(), problem(response.body()).as_str()), (503, "ledger-unavailable"));
    assert!(response.headers().contains_key(header::RETRY_AFTER));
}

#[tokio::test]
async fn whoever_is_revoked_while_a_message_uploads_gets_nothing_and_nobody_else_pays() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let tokens = |entries| Tokens::new(entries, Some(&ledger)).unwrap();
    let before = tokens(vec![token("a", Some(5)), token("b", Some(5))]);
    let app = AppState::new(loaded(&manifest("1"), 1), before, Limits::default(), vec![]);
    let server = Server::bind(app, "127.0.0.1:0".parse().unwrap(), None, None).await.unwrap();
    let router = routes::public(server.app());
    let message = messages(&manifest("1"), "gated", 6).remove(0);
    for (name, after, status) in [
        ("a", vec![token("b", Some(5)), token("c", Some(5))], StatusCode::UNAUTHORIZED),
        ("b", vec![token("c", Some(5)), token("b", Some(5))], StatusCode::OK),
    ] {
        // Half of the message is read; the rest comes after the reload.
        let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Bytes, std::io::Error>>(1);
        let body = Body::from_stream(futures_util::stream::unfold(receiver, |mut receiver| async {
            Some((receiver.recv().await?, receiver))
        }));
        let request = Request::post("/v1/answer").header(header::AUTHORIZATION, format!("Bearer {name}"));
        let (request, router) = (request.body(body).unwrap(), router.clone());
        let answering = tokio::spawn(async move { send(&router, request).await });
        let (first, rest) = message.split_at(100);
        for piece in first.chunks(50) {
            // The channel has one place, so the second piece goes in when the first is taken.
            sender.send(Ok(Bytes::copy_from_slice(piece))).await.unwrap();
        }
        server.control().reload(loaded(&manifest("1"), 1), tokens(after), None).unwrap();
        sender.send(Ok(Bytes::copy_from_slice(rest))).await.unwrap();
        drop(sender);
        assert_eq!(answering.await.unwrap().status(), status, "{name}");
    }
    assert_eq!(std::fs::read_to_string(&ledger).unwrap(), "b phase0\n");
}

#[tokio::test]
async fn browsers_get_permission_from_listed_origins_only() {
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
            "once a day is often enough to ask"
        );
        let sent = text(response.headers(), header::ACCESS_CONTROL_ALLOW_HEADERS);
        assert!(["authorization", "content-type"].iter().all(|name| sent.contains(name)), "{sent}");
        let request = Request::get("/v1/manifest").header(header::ORIGIN, origin).body(Body::empty()).unwrap();
        let response = send(&router, request).await;
        assert_eq!(response.headers().contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN), allowed);
        let shown = text(response.headers(), header::ACCESS_CONTROL_EXPOSE_HEADERS);
        for name in ["ifonly-server-index", "ifonly-previous-manifests", "retry-after", "content-length"] {
            assert!(shown.contains(name), "a page needs {name}: {shown}");
        }
    }
}

#[tokio::test]
async fn without_a_named_origin_there_is_nothing_for_browsers() {
    assert!(ifonly_server::Config::default().origins().unwrap().is_empty());
    for (origins, allowed) in [(vec![], false), (vec!["*".parse().unwrap()], true)] {
        let app =
            AppState::new(loaded(&manifest("1"), 1), Tokens::new(vec![], None).unwrap(), Limits::default(), origins);
        let request = Request::get("/v1/manifest").header(header::ORIGIN, "https://example.org");
        let response = send(&routes::public(app.into()), request.body(Body::empty()).unwrap()).await;
        let headers = response.headers().keys();
        assert_eq!(headers.filter(|name| name.as_str().starts_with("access-control")).count() > 0, allowed);
    }
}

#[tokio::test]
async fn after_a_reload_old_searches_finish_until_the_grace_is_over() {
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
    // The first version's hour still runs: a later reload does not shorten what was promised.
    assert_eq!(post(&router, "/v1/record", old[1].clone()).await.body(), before.body());
}

#[tokio::test]
async fn other_data_or_another_key_under_a_manifest_that_is_served_are_refused_and_change_nothing() {
    let app = app(Limits::default(), vec![], None);
    let router = public(&app);
    let (first, second) = (manifest("1"), manifest("2"));
    // A search that has begun: its record is fetched in the end.
    let search = messages(&first, "gated", 8);
    let before = post(&router, "/v1/record", search[1].clone()).await;
    assert_eq!(before.status(), StatusCode::OK);
    let hour = Duration::from_secs(3600);
    let indistinct = || [loaded_bundle(&first, 1, 2, 5), loaded_bundle(&first, 1, 1, 6)];
    let refuses = |app: &AppState| {
        for other in indistinct() {
            let refused = app.versions().replace(other, hour).unwrap_err().to_string();
            assert!(refused.contains("--data-version") && refused.contains("epoch 0"), "{refused}");
        }
    };
    refuses(&app);
    // The same again, perhaps from other files or shards, is taken up.
    app.versions().replace(loaded(&first, 1), hour).unwrap();
    assert_eq!(post(&router, "/v1/record", search[1].clone()).await.body(), before.body());
    // So it is while the manifest has its grace; afterwards nobody means the old data by it.
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
async fn operators_see_health_and_numbers_and_nothing_of_queries() {
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
