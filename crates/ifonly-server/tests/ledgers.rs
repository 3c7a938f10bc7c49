//! Budgets in every kind of ledger: processes share them, no search is spent twice, and a request
//! is refused if its count is not confirmed. The same tests run with a file and with a real Redis
//! and PostgreSQL, which `.ci/run stores` installs.
#![cfg(unix)]

#[path = "stores/proxy.rs"]
#[allow(unreachable_pub)]
mod proxy;
#[path = "stores/servers.rs"]
#[allow(dead_code, unreachable_pub)]
mod servers;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use ifonly_core::transcript::MessageKind;
use ifonly_server::auth::account_tokens::{AccountTokens, TokenEntry};
use ifonly_server::auth::ledger;
use ifonly_server::auth::ledger::{Ledger, LedgerConfig, LedgerError};
use ifonly_server::auth::{Authorisation, Stage};
use ifonly_server::http::problem::Problem;
use proxy::{Proxy, ProxyMode};
use servers::{Redis, TestStore};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const LINE: &str = "a phase0";

fn open(config: &LedgerConfig) -> Box<dyn Ledger> {
    ledger::open(config, "test/1").unwrap()
}

/// How many of `tries` requests are counted; the others exceed the limit.
fn spend_many(ledger: &dyn Ledger, tries: usize, limit: u64) -> u64 {
    (0..tries).map(|_| u64::from(ledger.spend(LINE, limit).unwrap())).sum()
}

fn budgets_are_shared_and_survive_a_restart(config: &LedgerConfig) {
    let (first, second) = (open(config), open(config));
    assert_eq!((spend_many(&*first, 1, 2), spend_many(&*second, 1, 2), spend_many(&*first, 3, 2)), (1, 1, 0));
    drop((first, second));
    let third = open(config);
    assert_eq!(spend_many(&*third, 3, 2), 0);
    // A larger budget continues from the old count; a budget of 0 is exhausted from the start.
    assert_eq!((spend_many(&*third, 9, 5), spend_many(&*third, 1, 3)), (3, 0));
    assert!(!third.spend("b phase0", 0).unwrap());
    assert!(third.spend("b phase0", u64::MAX).unwrap());
}

fn every_message_kind_of_a_token_is_counted_separately(config: &LedgerConfig) {
    let entry = TokenEntry { name: "a".into(), hash: blake3::hash(b"one").to_hex().to_string(), searches: Some(2) };
    let tokens = || AccountTokens::counted_in(vec![entry.clone()], Some(open(config))).unwrap();
    let (here, there) = (tokens(), tokens());
    let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer one"))]);
    let pass = here.admit(&headers).unwrap();
    for (kind, per_search) in [(MessageKind::Phase(0), 1), (MessageKind::Phase(1), 1), (MessageKind::Record, 3)] {
        let stage = Stage { search: [0; 32], kind, per_search, searches: 1 };
        for _ in 0..per_search {
            assert_eq!(here.spend(&pass, &stage), Ok(()));
            assert_eq!(there.spend(&pass, &stage), Ok(()));
        }
        assert_eq!(here.spend(&pass, &stage), Err(Problem::BudgetExhausted));
        assert_eq!(there.spend(&pass, &stage), Err(Problem::BudgetExhausted));
    }
}

fn concurrent_frontends_never_exceed_a_budget(config: &LedgerConfig) {
    let frontends: Vec<_> = (0..8).map(|_| open(config)).collect();
    let all: u64 = std::thread::scope(|scope| {
        // Two threads per frontend, so that connections of one frontend compete too.
        let clients = frontends.iter().flat_map(|frontend| [frontend, frontend]);
        let tasks: Vec<_> = clients.map(|frontend| scope.spawn(|| spend_many(&**frontend, 100, 100))).collect();
        tasks.into_iter().map(|task| task.join().unwrap()).sum()
    });
    assert_eq!(all, 100);
}

fn servers_in_one_store_have_separate_counts(config: &LedgerConfig) {
    let servers = ["test/1", "test/2", "other/1"].map(|server| ledger::open(config, server).unwrap());
    for server in &servers {
        assert_eq!(spend_many(&**server, 3, 2), 2);
    }
}

/// Frontends spend while the store is killed and restarted several times.
fn killing_the_store_never_exceeds_a_budget(store: &mut dyn TestStore) {
    const BUDGET: u64 = 600;
    let (config, over) = (store.config(), AtomicBool::new(false));
    let (counted, unconfirmed, refused) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let frontends: Vec<_> = (0..4).map(|_| open(&config)).collect();
    let wait = |counter: &AtomicU64, more: u64| {
        let aim = counter.load(Ordering::SeqCst) + more;
        while counter.load(Ordering::SeqCst) < aim && !over.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        for frontend in &frontends {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    match frontend.spend(LINE, BUDGET) {
                        Ok(true) => counted.fetch_add(1, Ordering::SeqCst),
                        Ok(false) => u64::from(over.swap(true, Ordering::SeqCst)),
                        Err(LedgerError::Unconfirmed { .. }) => {
                            let many = unconfirmed.fetch_add(1, Ordering::SeqCst) > 10 * BUDGET;
                            u64::from(many && over.swap(true, Ordering::SeqCst))
                        }
                        Err(LedgerError::Unreachable { .. } | LedgerError::Refused { .. }) => {
                            refused.fetch_add(1, Ordering::SeqCst)
                        }
                        Err(error) => panic!("{error}"),
                    };
                }
            });
        }
        for _ in 0..3 {
            wait(&counted, 100);
            store.kill();
            wait(&refused, 4);
            store.restart();
        }
    });
    let (counted, unconfirmed) = (counted.into_inner(), unconfirmed.into_inner());
    // Every count in the store was confirmed, or its request was refused as unconfirmed.
    assert!(
        counted <= BUDGET && counted + unconfirmed >= BUDGET && counted >= 300,
        "{counted} counted, {unconfirmed} unconfirmed"
    );
    assert!(refused.into_inner() >= 12);
}

fn a_lost_reply_is_charged_at_most_once_and_the_request_is_refused(store: &mut dyn TestStore) {
    let proxy = Proxy::to(store.socket());
    let far = open(&store.config_via_port(proxy.port).with_timeout_seconds(1));
    let near = open(&store.config());
    assert!(far.spend(LINE, 4).unwrap());
    proxy.set_mode(ProxyMode::DropReplies);
    assert!(matches!(far.spend(LINE, 4), Err(LedgerError::Unconfirmed { .. })));
    // The next request has no connection, so it is not sent.
    assert!(matches!(far.spend(LINE, 4), Err(LedgerError::Unreachable { .. })));
    proxy.set_mode(ProxyMode::Forward);
    assert!(far.spend(LINE, 4).unwrap());
    proxy.set_mode(ProxyMode::DropRequests);
    assert!(matches!(far.spend(LINE, 4), Err(LedgerError::Unconfirmed { .. })));
    proxy.set_mode(ProxyMode::Forward);
    assert_eq!(spend_many(&*near, 4, 4), 1);
    assert!(!far.spend(LINE, 4).unwrap());
    // A store that never replies causes a timeout.
    assert!(far.spend("b phase0", 1).is_ok());
    proxy.set_mode(ProxyMode::Silent);
    let Err(LedgerError::Unconfirmed { reason, .. }) = far.spend("b phase0", 3) else {
        panic!("the request was counted")
    };
    assert_eq!(reason, "no reply within 1 s");
    assert!(matches!(far.spend("b phase0", 3), Err(LedgerError::Unreachable { .. })));
    proxy.set_mode(ProxyMode::Forward);
    assert!(far.spend("b phase0", 3).unwrap() && !near.spend("b phase0", 3).unwrap());
}

fn a_store_that_loses_counts_renews_no_budget(store: &mut dyn TestStore) {
    let config = store.config();
    let frontend = open(&config);
    assert_eq!(spend_many(&*frontend, 2, 3), 2);
    let refuses = |ledger: &dyn Ledger| assert!(matches!(ledger.spend(LINE, 3), Err(LedgerError::CountsLost { .. })));
    // The store was restored from an old backup, and then corrected.
    store.set_count("test/1", LINE, 1);
    refuses(&*frontend);
    store.set_count("test/1", LINE, 2);
    assert!(frontend.spend(LINE, 4).unwrap());
    store.clear();
    refuses(&*frontend);
    // Another frontend creates a new ledger, which has another identity.
    let other = open(&config);
    assert!(other.spend(LINE, 5).unwrap());
    refuses(&*frontend);
    // After a reload the frontend continues from the counts it remembers, and the store has them.
    let reloaded = open(&config);
    reloaded.inherit(frontend.known());
    assert_eq!((spend_many(&*reloaded, 3, 5), spend_many(&*other, 3, 5)), (2, 0));
    assert_eq!(reloaded.known()[LINE], 5);
}

fn an_unreachable_store_is_named_without_its_password(store: &mut dyn TestStore, config: &LedgerConfig) {
    store.kill();
    let error = ledger::open(config, "test/1").unwrap_err();
    assert!(matches!(error, LedgerError::Unreachable { .. }), "{error}");
    assert!(!error.to_string().contains("hush") && !format!("{error:?}").contains("hush"), "{error}");
}

#[test]
fn processes_that_share_a_file_share_its_counts() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| LedgerConfig::new(&folder.path().join(name).display().to_string());
    budgets_are_shared_and_survive_a_restart(&file("shared"));
    every_message_kind_of_a_token_is_counted_separately(&file("stages"));
    concurrent_frontends_never_exceed_a_budget(&file("race"));
}

/// The same tests for a store; every test starts its own process.
macro_rules! store_tests {
    ($module:ident, $start:expr, $why:literal) => {
        mod $module {
            use super::*;

            #[test]
            #[ignore = $why]
            fn budgets_are_shared_and_counted_separately() {
                let mut store = $start;
                super::budgets_are_shared_and_survive_a_restart(&store.config());
                // After a restart of the store, a frontend with an idle connection opens a new one
                // and refuses no request.
                let ledger = open(&store.config());
                assert!(ledger.spend("c phase0", 2).unwrap());
                store.kill();
                store.restart();
                assert!(ledger.spend("c phase0", 2).unwrap() && !ledger.spend("c phase0", 2).unwrap());
                assert_eq!(spend_many(&*open(&store.config()), 1, 5), 0);
                store.clear();
                every_message_kind_of_a_token_is_counted_separately(&store.config());
                store.clear();
                servers_in_one_store_have_separate_counts(&store.config());
            }

            #[test]
            #[ignore = $why]
            fn concurrent_frontends_never_exceed_a_budget() {
                super::concurrent_frontends_never_exceed_a_budget(&$start.config());
            }

            #[test]
            #[ignore = $why]
            fn killing_the_store_never_exceeds_a_budget() {
                super::killing_the_store_never_exceeds_a_budget(&mut $start);
            }

            #[test]
            #[ignore = $why]
            fn a_lost_reply_is_charged_at_most_once_and_the_request_is_refused() {
                super::a_lost_reply_is_charged_at_most_once_and_the_request_is_refused(&mut $start);
            }

            #[test]
            #[ignore = $why]
            fn a_store_that_loses_counts_renews_no_budget() {
                super::a_store_that_loses_counts_renews_no_budget(&mut $start);
            }

            #[tokio::test]
            #[ignore = $why]
            async fn a_ledger_is_opened_and_dropped_in_async_code_and_used_on_blocking_threads() {
                let store = $start;
                let ledger = open(&store.config());
                assert_eq!(tokio::task::spawn_blocking(move || spend_many(&*ledger, 3, 2)).await.unwrap(), 2);
                drop(open(&store.config()));
            }
        }
    };
}

store_tests!(redis, Redis::start(), "needs a Redis: .ci/run stores");

#[test]
#[ignore = "needs a Redis: .ci/run stores"]
fn a_redis_that_may_lose_counts_is_refused() {
    for (options, setting) in [
        (&["--appendonly", "no"][..], "appendonly"),
        (&["--appendonly", "yes", "--maxmemory-policy", "allkeys-lru"], "noeviction"),
        (&["--appendonly", "yes", "--replicaof", "127.0.0.1 1"], "primary"),
    ] {
        let redis = Redis::with(options);
        let error = ledger::open(&redis.config(), "test/1").unwrap_err();
        assert!(matches!(&error, LedgerError::NotDurable { reason, .. } if reason.contains(setting)), "{error}");
    }
    // This Redis has no replica, so no replica confirms a count.
    let redis = Redis::start();
    let alone = open(&redis.config().with_timeout_seconds(1).with_replicas(1));
    assert!(matches!(alone.spend(LINE, 9), Err(LedgerError::Unconfirmed { .. })));
}

#[test]
#[ignore = "needs a Redis: .ci/run stores"]
fn a_redis_is_used_with_a_password_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let [certificate, key] = ["a.pem", "a.key"].map(|name| folder.path().join(name).display().to_string());
    std::fs::write(&certificate, cert.pem()).unwrap();
    std::fs::write(&key, signing_key.serialize_pem()).unwrap();
    let port = servers::free_port().to_string();
    let mut options = vec!["--appendonly", "yes", "--tls-port", &port, "--tls-auth-clients", "no"];
    options.extend(["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &certificate]);
    options.extend(["--user", "default", "on", "nopass", "~*", "+@all", "--user", "front", "on", ">hush", "~ifonly:*"]);
    options.extend(["+eval", "+hget", "+hset", "+hsetnx", "+info", "+select", "+wait"]);
    let mut redis = Redis::with(&options);
    let config = |url: &str| {
        let text = format!("ledger = {{ url = {url:?}, ca = {certificate:?} }}");
        ifonly_server::Config::parse(&text).unwrap().ledger.unwrap()
    };
    let good = config(&format!("rediss://front:hush@localhost:{port}/0"));
    assert_eq!(spend_many(&*open(&good), 3, 2), 2);
    for wrong in [format!("rediss://front:hush2@localhost:{port}"), format!("redis://front:hush@localhost:{port}")] {
        let error = ledger::open(&config(&wrong), "test/1").unwrap_err();
        assert!(matches!(error, LedgerError::Unreachable { .. }) && !error.to_string().contains("hush"), "{error}");
    }
    // No authority of the operating system has issued this certificate.
    let untrusted = LedgerConfig::new(&format!("rediss://front:hush@localhost:{port}"));
    assert!(ledger::open(&untrusted, "test/1").is_err());
    an_unreachable_store_is_named_without_its_password(&mut redis, &good);
}

mod with_postgres {
    use super::*;
    use servers::Postgres;

    store_tests!(postgres, Postgres::start(), "needs a PostgreSQL: .ci/run stores");

    #[test]
    #[ignore = "needs a PostgreSQL: .ci/run stores"]
    fn a_postgresql_that_may_lose_counts_is_refused() {
        let postgres = Postgres::with(&["-c", "fsync=off"]);
        let error = ledger::open(&postgres.config(), "test/1").unwrap_err();
        assert!(matches!(&error, LedgerError::NotDurable { reason, .. } if reason.contains("fsync")), "{error}");
    }

    #[test]
    #[ignore = "needs a PostgreSQL: .ci/run stores"]
    fn a_postgresql_is_used_over_tls_by_a_role_that_may_only_count() {
        let postgres = Postgres::new();
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let [certificate, key] = ["a.pem", "a.key"].map(|name| postgres.folder().join(name).display().to_string());
        for (path, text) in [(&certificate, cert.pem()), (&key, signing_key.serialize_pem())] {
            use std::os::unix::fs::PermissionsExt;
            std::fs::write(path, text).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
            if let Some((user, group)) = postgres.owner() {
                std::os::unix::fs::chown(path, Some(user), Some(group)).unwrap();
            }
        }
        let port = servers::free_port().to_string();
        let tls = [format!("ssl_cert_file={certificate}"), format!("ssl_key_file={key}")];
        let mut postgres =
            postgres.run(&["-c", "ssl=on", "-c", &tls[0], "-c", &tls[1], "-h", "127.0.0.1", "-p", &port]);
        let config = |url: &str| {
            let text = format!("ledger = {{ url = {url:?}, ca = {certificate:?} }}");
            ifonly_server::Config::parse(&text).unwrap().ledger.unwrap()
        };
        let owner = config(&format!("postgres://ifonly@localhost:{port}/postgres?sslmode=verify-full"));
        assert_eq!(spend_many(&*open(&owner), 3, 2), 2);
        postgres.query(
            "CREATE ROLE front LOGIN PASSWORD 'hush'; GRANT SELECT, INSERT, UPDATE ON ifonly_ledger, ifonly_spent TO front",
        );
        let frontend = config(&format!("postgres://front:hush@localhost:{port}/postgres?sslmode=require"));
        assert_eq!(spend_many(&*open(&frontend), 3, 3), 1);
        let untrusted = LedgerConfig::new(&format!("postgres://front:hush@localhost:{port}/postgres?sslmode=require"));
        assert!(ledger::open(&untrusted, "test/1").is_err());
        let missing = config(&format!("postgres://front:hush@localhost:{port}/nowhere"));
        let error = ledger::open(&missing, "test/1").unwrap_err().to_string();
        assert!(error.contains("nowhere") && !error.contains("hush"), "{error}");
        an_unreachable_store_is_named_without_its_password(&mut postgres, &frontend);
    }
}
