//! Budgets in every kind of store: shared, never oversold, refused where nobody can know. The same
//! tests run against a file, and against a real Redis and PostgreSQL, which `.ci/run stores`
//! installs.
#![cfg(unix)]

#[path = "stores/proxy.rs"]
#[allow(unreachable_pub)]
mod proxy;
#[path = "stores/servers.rs"]
#[allow(dead_code, unreachable_pub)]
mod servers;

use ifonly_core::transcript::MessageKind;
use ifonly_server::auth::ledger;
use ifonly_server::auth::ledger::{Ledger, LedgerConfig, LedgerError};
use ifonly_server::auth::tokens::{TokenEntry, Tokens};
use ifonly_server::http::problem::Problem;
use proxy::{Mood, Proxy};
use servers::{Redis, Stand};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const LINE: &str = "a phase0";

fn open(config: &LedgerConfig) -> Box<dyn Ledger> {
    ledger::open(config, "test/1").unwrap()
}

/// How many of so many tries one instance sells; the others were refused because the limit was
/// reached.
fn sold(ledger: &dyn Ledger, tries: usize, limit: u64) -> u64 {
    (0..tries).map(|_| u64::from(ledger.spend(LINE, limit).unwrap())).sum()
}

fn budgets_are_shared_and_outlive_those_who_count(config: &LedgerConfig) {
    let (first, second) = (open(config), open(config));
    assert_eq!((sold(&*first, 1, 2), sold(&*second, 1, 2), sold(&*first, 3, 2)), (1, 1, 0));
    drop((first, second));
    let third = open(config);
    assert_eq!(sold(&*third, 3, 2), 0);
    // A larger budget goes on from there; none at all is spent from the beginning.
    assert_eq!((sold(&*third, 9, 5), sold(&*third, 1, 3)), (3, 0));
    assert!(!third.spend("b phase0", 0).unwrap());
    assert!(third.spend("b phase0", u64::MAX).unwrap());
}

fn every_stage_of_a_token_is_counted_apart(config: &LedgerConfig) {
    let entry = TokenEntry { name: "a".into(), hash: blake3::hash(b"one").to_hex().to_string(), searches: Some(2) };
    let tokens = || Tokens::counted_in(vec![entry.clone()], Some(open(config))).unwrap();
    let (here, there) = (tokens(), tokens());
    let bearer = here.bearer(Some(b"Bearer one")).unwrap();
    for (stage, per_session) in [(MessageKind::Phase(0), 1), (MessageKind::Phase(1), 1), (MessageKind::Record, 3)] {
        for _ in 0..per_session {
            assert_eq!(here.spend(bearer, stage, per_session), Ok(()));
            assert_eq!(there.spend(bearer, stage, per_session), Ok(()));
        }
        assert_eq!(here.spend(bearer, stage, per_session), Err(Problem::BudgetExhausted));
        assert_eq!(there.spend(bearer, stage, per_session), Err(Problem::BudgetExhausted));
    }
}

fn fronts_that_race_for_the_last_sessions_never_oversell(config: &LedgerConfig) {
    let frontends: Vec<_> = (0..8).map(|_| open(config)).collect();
    let all: u64 = std::thread::scope(|scope| {
        // Two threads of each, so that connections of one front race as well.
        let askers = frontends.iter().flat_map(|frontend| [frontend, frontend]);
        let tasks: Vec<_> = askers.map(|frontend| scope.spawn(|| sold(&**frontend, 100, 100))).collect();
        tasks.into_iter().map(|task| task.join().unwrap()).sum()
    });
    assert_eq!(all, 100);
}

fn logical_servers_are_apart_in_one_store(config: &LedgerConfig) {
    let servers = ["test/1", "test/2", "other/1"].map(|server| ledger::open(config, server).unwrap());
    for server in &servers {
        assert_eq!(sold(&**server, 3, 2), 2);
    }
}

/// Fronts sell while the store is killed and started again, several times over.
fn a_store_that_is_killed_meanwhile_sells_nothing_twice(stand: &mut dyn Stand) {
    const BUDGET: u64 = 600;
    let (config, over) = (stand.config(), AtomicBool::new(false));
    let (sold, unknown, refused) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
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
                        Ok(true) => sold.fetch_add(1, Ordering::SeqCst),
                        Ok(false) => u64::from(over.swap(true, Ordering::SeqCst)),
                        Err(LedgerError::Lost { .. }) => {
                            let many = unknown.fetch_add(1, Ordering::SeqCst) > 10 * BUDGET;
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
            wait(&sold, 100);
            stand.kill();
            wait(&refused, 4);
            stand.revive();
        }
    });
    let (sold, unknown) = (sold.into_inner(), unknown.into_inner());
    // Whatever was counted was sold, or nobody can know and it was not.
    assert!(sold <= BUDGET && sold + unknown >= BUDGET && sold >= 300, "{sold} sold, {unknown} unknown");
    assert!(refused.into_inner() >= 12);
}

fn a_reply_that_is_lost_is_charged_once_and_given_to_nobody(stand: &mut dyn Stand) {
    let proxy = Proxy::before(stand.socket());
    let far = open(&stand.by_port(proxy.port).within(1));
    let near = open(&stand.config());
    assert!(far.spend(LINE, 4).unwrap());
    proxy.be(Mood::LosesReplies);
    assert!(matches!(far.spend(LINE, 4), Err(LedgerError::Lost { .. })));
    // The next one finds no connection, so nothing is asked.
    assert!(matches!(far.spend(LINE, 4), Err(LedgerError::Unreachable { .. })));
    proxy.be(Mood::Honest);
    assert!(far.spend(LINE, 4).unwrap());
    proxy.be(Mood::LosesRequests);
    assert!(matches!(far.spend(LINE, 4), Err(LedgerError::Lost { .. })));
    proxy.be(Mood::Honest);
    assert_eq!(sold(&*near, 4, 4), 1);
    assert!(!far.spend(LINE, 4).unwrap());
    // One that never answers is given up.
    assert!(far.spend("b phase0", 1).is_ok());
    proxy.be(Mood::Silent);
    let Err(LedgerError::Lost { reason, .. }) = far.spend("b phase0", 3) else { panic!("it was counted") };
    assert_eq!(reason, "it said nothing for 1 seconds");
    assert!(matches!(far.spend("b phase0", 3), Err(LedgerError::Unreachable { .. })));
    proxy.be(Mood::Honest);
    assert!(far.spend("b phase0", 3).unwrap() && !near.spend("b phase0", 3).unwrap());
}

fn a_store_that_forgets_renews_nothing(stand: &mut dyn Stand) {
    let config = stand.config();
    let frontend = open(&config);
    assert_eq!(sold(&*frontend, 2, 3), 2);
    let forgets = |ledger: &dyn Ledger| assert!(matches!(ledger.spend(LINE, 3), Err(LedgerError::Forgotten { .. })));
    // It was set back to an older copy, and then put right.
    stand.set("test/1", LINE, 1);
    forgets(&*frontend);
    stand.set("test/1", LINE, 2);
    assert!(frontend.spend(LINE, 4).unwrap());
    stand.empty();
    forgets(&*frontend);
    // Somebody else makes a new ledger there, which is not the one that this front knows.
    let stranger = open(&config);
    assert!(stranger.spend(LINE, 5).unwrap());
    forgets(&*frontend);
    // After a reload the front goes on from what it knows, and so does everybody who asks after it.
    let reloaded = open(&config);
    reloaded.inherit(frontend.known());
    assert_eq!((sold(&*reloaded, 3, 5), sold(&*stranger, 3, 5)), (2, 0));
    assert_eq!(reloaded.known()[LINE], 5);
}

fn a_store_that_is_away_at_the_start_is_named_without_its_password(stand: &mut dyn Stand, config: &LedgerConfig) {
    stand.kill();
    let error = ledger::open(config, "test/1").unwrap_err();
    assert!(matches!(error, LedgerError::Unreachable { .. }), "{error}");
    assert!(!error.to_string().contains("hush") && !format!("{error:?}").contains("hush"), "{error}");
}

#[test]
fn a_file_counts_for_all_who_share_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| LedgerConfig::new(&folder.path().join(name).display().to_string());
    budgets_are_shared_and_outlive_those_who_count(&file("shared"));
    every_stage_of_a_token_is_counted_apart(&file("stages"));
    fronts_that_race_for_the_last_sessions_never_oversell(&file("race"));
}

/// The same for a store in another process; one process per test.
macro_rules! in_a_store {
    ($module:ident, $start:expr, $why:literal) => {
        mod $module {
            use super::*;

            #[test]
            #[ignore = $why]
            fn budgets_are_shared_and_counted_apart() {
                let mut stand = $start;
                super::budgets_are_shared_and_outlive_those_who_count(&stand.config());
                // Whoever has an idle connection to a store that was restarted makes another, and
                // nobody is refused.
                let kept = open(&stand.config());
                assert!(kept.spend("c phase0", 2).unwrap());
                stand.kill();
                stand.revive();
                assert!(kept.spend("c phase0", 2).unwrap() && !kept.spend("c phase0", 2).unwrap());
                assert_eq!(sold(&*open(&stand.config()), 1, 5), 0);
                stand.empty();
                every_stage_of_a_token_is_counted_apart(&stand.config());
                stand.empty();
                logical_servers_are_apart_in_one_store(&stand.config());
            }

            #[test]
            #[ignore = $why]
            fn fronts_that_race_for_the_last_sessions_never_oversell() {
                super::fronts_that_race_for_the_last_sessions_never_oversell(&$start.config());
            }

            #[test]
            #[ignore = $why]
            fn a_store_that_is_killed_meanwhile_sells_nothing_twice() {
                super::a_store_that_is_killed_meanwhile_sells_nothing_twice(&mut $start);
            }

            #[test]
            #[ignore = $why]
            fn a_reply_that_is_lost_is_charged_once_and_given_to_nobody() {
                super::a_reply_that_is_lost_is_charged_once_and_given_to_nobody(&mut $start);
            }

            #[test]
            #[ignore = $why]
            fn a_store_that_forgets_renews_nothing() {
                super::a_store_that_forgets_renews_nothing(&mut $start);
            }

            #[tokio::test]
            #[ignore = $why]
            async fn it_may_be_opened_and_dropped_where_a_runtime_runs_and_asked_where_it_may_block() {
                let stand = $start;
                let ledger = open(&stand.config());
                assert_eq!(tokio::task::spawn_blocking(move || sold(&*ledger, 3, 2)).await.unwrap(), 2);
                drop(open(&stand.config()));
            }
        }
    };
}

in_a_store!(redis, Redis::start(), "needs a Redis: .ci/run stores");

#[test]
#[ignore = "needs a Redis: .ci/run stores"]
fn a_redis_that_would_forget_is_refused() {
    for (options, setting) in [
        (&["--appendonly", "no"][..], "appendonly"),
        (&["--appendonly", "yes", "--maxmemory-policy", "allkeys-lru"], "noeviction"),
        (&["--appendonly", "yes", "--replicaof", "127.0.0.1 1"], "primary"),
    ] {
        let redis = Redis::with(options);
        let error = ledger::open(&redis.config(), "test/1").unwrap_err();
        assert!(matches!(&error, LedgerError::Careless { reason, .. } if reason.contains(setting)), "{error}");
    }
    // Nobody copies from this one, so no count is with a replica in time.
    let redis = Redis::start();
    let alone = open(&redis.config().within(1).replicated(1));
    assert!(matches!(alone.spend(LINE, 9), Err(LedgerError::Lost { .. })));
}

#[test]
#[ignore = "needs a Redis: .ci/run stores"]
fn a_redis_is_asked_with_a_password_and_over_tls() {
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
    assert_eq!(sold(&*open(&good), 3, 2), 2);
    for wrong in [format!("rediss://front:hush2@localhost:{port}"), format!("redis://front:hush@localhost:{port}")] {
        let error = ledger::open(&config(&wrong), "test/1").unwrap_err();
        assert!(matches!(error, LedgerError::Unreachable { .. }) && !error.to_string().contains("hush"), "{error}");
    }
    // Of the system's authorities none has issued this certificate.
    let stranger = LedgerConfig::new(&format!("rediss://front:hush@localhost:{port}"));
    assert!(ledger::open(&stranger, "test/1").is_err());
    a_store_that_is_away_at_the_start_is_named_without_its_password(&mut redis, &good);
}

mod with_postgres {
    use super::*;
    use servers::Postgres;

    in_a_store!(postgres, Postgres::start(), "needs a PostgreSQL: .ci/run stores");

    #[test]
    #[ignore = "needs a PostgreSQL: .ci/run stores"]
    fn a_postgresql_that_would_forget_is_refused() {
        let postgres = Postgres::with(&["-c", "fsync=off"]);
        let error = ledger::open(&postgres.config(), "test/1").unwrap_err();
        assert!(matches!(&error, LedgerError::Careless { reason, .. } if reason.contains("fsync")), "{error}");
    }

    #[test]
    #[ignore = "needs a PostgreSQL: .ci/run stores"]
    fn a_postgresql_is_asked_over_tls_as_somebody_who_may_do_no_more_than_count() {
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
        assert_eq!(sold(&*open(&owner), 3, 2), 2);
        postgres.says(
            "CREATE ROLE front LOGIN PASSWORD 'hush'; GRANT SELECT, INSERT, UPDATE ON ifonly_ledger, ifonly_spent TO front",
        );
        let frontend = config(&format!("postgres://front:hush@localhost:{port}/postgres?sslmode=require"));
        assert_eq!(sold(&*open(&frontend), 3, 3), 1);
        let stranger = LedgerConfig::new(&format!("postgres://front:hush@localhost:{port}/postgres?sslmode=require"));
        assert!(ledger::open(&stranger, "test/1").is_err());
        let nowhere = config(&format!("postgres://front:hush@localhost:{port}/nowhere"));
        let error = ledger::open(&nowhere, "test/1").unwrap_err().to_string();
        assert!(error.contains("nowhere") && !error.contains("hush"), "{error}");
        a_store_that_is_away_at_the_start_is_named_without_its_password(&mut postgres, &frontend);
    }
}
