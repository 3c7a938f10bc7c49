//! Complete searches with servers in this process: every scheme finds the right row, traffic is the
//! same for every profile, and faults are reported.

mod support;

use bytes::Bytes;
use ifonly_algebra::decode::DecodeError;
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_client::transport::{Exchange, ServerRequest, TransportFuture};
use ifonly_client::{
    Client, ClientError, ManifestResponse, Pins, ResponseSink, RetryPolicy, Route, Transport, WishList,
};
use ifonly_core::cost_check::confirm_under;
use ifonly_core::scheme::{ConstraintKind, CostModel};
use ifonly_core::search::{NearestRow, RecordRefusal, SearchError};
use ifonly_core::secret_query::SecretQuery;
use ifonly_values::manifest::OfferedScheme;
use ifonly_values::record::Record;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Fault, Faulty, ObservedRequest, Recorder, TestDatabase, retrying};

/// The offered schemes except the sealed search, whose servers need connections to each other.
fn scans(database: &TestDatabase) -> impl Iterator<Item = &OfferedScheme> {
    database.manifest.schemes().iter().filter(|offered| offered.scans().is_some())
}

/// The cost of a found record, if it equals the decoded cost.
fn confirmed(
    database: &TestDatabase,
    offered: &OfferedScheme,
    secret: &SecretQuery,
    found: &NearestRow,
) -> Result<u64, RecordRefusal> {
    let schema = database.manifest.schema();
    let record = Record::decode(schema, &found.record).expect("a record");
    confirm_under(offered.scheme(), offered.params(), secret, found, &record.levels(schema).expect("a row"))
}

/// A random query with constraints and weights that the scheme supports.
fn random_query(
    database: &TestDatabase,
    scheme: &'static ifonly_core::scheme::Scheme,
    random: &mut SeededRandom,
) -> (Vec<u32>, SecretQuery) {
    let x: Vec<u32> =
        vec![random.below(10) as u32, random.below(7) as u32, 4 * random.below(2) as u32, random.below(3) as u32];
    let mut secret = SecretQuery::new(x.clone());
    if scheme.constraint != ConstraintKind::None {
        secret = secret.immutable((0..4).map(|_| random.below(4) == 0).collect());
    }
    if matches!(scheme.cost_model, CostModel::Weighted | CostModel::Table) {
        secret =
            secret.weights((0..4).map(|_| 1 + random.below(database.manifest.fields().params.weight_limit)).collect());
    }
    (x, secret)
}

#[tokio::test]
async fn every_scheme_finds_the_row_that_brute_force_finds() {
    let database = TestDatabase::new(60, 4, 3, |_| {});
    let client = database.connect().await;
    let mut random = SeededRandom::new(11);
    let mut without_match = 0;
    for offered in scans(&database) {
        for _ in 0..8 {
            let (_, secret) = random_query(&database, offered.scheme(), &mut random);
            let report = client.search(offered, secret.clone(), 1).await.unwrap();
            let costs =
                database.levels.iter().filter_map(|row| secret.plain_cost(offered.scheme(), offered.params(), row));
            let best = if offered.scheme().cost_model == CostModel::Product { costs.max() } else { costs.min() };
            let found = report.outcome.found.first();
            let cost = found.map(|found| confirmed(&database, offered, &secret, found).unwrap());
            assert_eq!(cost, best, "{}", offered.scheme().name);
            let Some(found) = found else {
                without_match += 1;
                continue;
            };
            let record = Record::decode(database.manifest.schema(), &found.record).unwrap();
            let texts: Vec<String> = record.values().iter().map(|(_, text)| text.clone()).collect();
            assert!(database.texts.contains(&texts));
        }
    }
    assert!(scans(&database).count() > 20);
    assert!(without_match > 0, "searches without a match must occur");
}

#[tokio::test]
async fn servers_observe_the_same_traffic_for_every_profile() {
    let database = TestDatabase::new(40, 4, 5, |_| {});
    let mut random = SeededRandom::new(12);
    for offered in scans(&database) {
        for top in [1, 3] {
            let mut logs: Vec<Vec<(usize, ObservedRequest)>> = vec![];
            let (mut with, mut without) = (0, 0);
            for number in 0..12 {
                let (x, mut secret) = random_query(&database, offered.scheme(), &mut random);
                if number % 3 == 0 && offered.scheme().constraint != ConstraintKind::None {
                    // All features are fixed at values that few rows have: no row matches.
                    secret = SecretQuery::new(x).immutable(vec![true; 4]);
                }
                let log = Arc::new(Mutex::new(vec![]));
                let record =
                    |(number, inner)| -> Arc<dyn Transport> { Arc::new(Recorder { inner, number, log: log.clone() }) };
                let servers = database.servers().into_iter().enumerate().map(record).collect();
                let client = Client::connect(servers, &Pins::default()).await.unwrap();
                let report = client.search(offered, secret, top).await.unwrap();
                *if report.outcome.found.is_empty() { &mut without } else { &mut with } += 1;
                logs.push(log.lock().unwrap().clone());
            }
            assert!(
                with > 0 && (without > 0 || offered.scheme().constraint == ConstraintKind::None),
                "{}",
                offered.scheme().name
            );
            assert!(logs.iter().all(|log| *log == logs[0]), "{}", offered.scheme().name);
            let count = |wanted| {
                logs[0]
                    .iter()
                    .filter(
                        |(_, request)| matches!(request, ObservedRequest::Message { route, .. } if *route == wanted),
                    )
                    .count()
            };
            let instance = offered.scans().unwrap();
            let answers: usize = (0..offered.phases()).map(|phase| instance.responders(phase)).sum();
            let fetch = instance.record_fetch(database.manifest.record_length());
            assert_eq!((count(Route::Answer), count(Route::Record)), (answers, top * fetch.responders()));
        }
    }
}

/// The confirmed cost of a search with faults of some servers, given by their indices; the others
/// are honest.
async fn search_with_faults(
    database: &TestDatabase,
    scheme: &str,
    faults: &[(usize, Fault)],
) -> Result<Option<u64>, ClientError> {
    let mut servers = database.servers();
    for &(number, fault) in faults {
        let inner = servers[number - 1].clone();
        servers[number - 1] = Arc::new(Faulty { inner, fault, attempts: Mutex::default() });
    }
    let policy = RetryPolicy { deadline: Duration::from_secs(5), ..RetryPolicy::default() };
    let client = Client::connect(retrying(servers, policy), &Pins::default()).await?;
    let offered = database.manifest.scheme(scheme).unwrap();
    let secret = SecretQuery::new(vec![3, 2, 4, 1]);
    let report = client.search(offered, secret.clone(), 1).await?;
    let Some(found) = report.outcome.found.first() else { return Ok(None) };
    Ok(confirmed(database, offered, &secret, found).ok())
}

fn best(database: &TestDatabase, scheme: &str) -> Option<u64> {
    let instance = database.manifest.instance(scheme).unwrap();
    let secret = SecretQuery::new(vec![3, 2, 4, 1]);
    let costs = database.levels.iter().filter_map(|row| secret.plain_cost(instance.scheme(), instance.params(), row));
    costs.min()
}

const ALL_FAULTS: [Fault; 7] = [
    Fault::Hangs,
    Fault::Unreachable,
    Fault::Dies,
    Fault::Truncates,
    Fault::WrongKeyCheck,
    Fault::WrongAnswer,
    Fault::WrongRecord,
];

#[tokio::test(start_paused = true)]
async fn without_redundancy_every_fault_is_an_error_and_never_a_wrong_explanation() {
    let database = TestDatabase::new(50, 4, 6, |_| {});
    for scheme in ["gated-tables", "gated+", "baseline", "two-phase", "single-phase+"] {
        for fault in [Fault::Hangs, Fault::Unreachable, Fault::Dies, Fault::Truncates, Fault::WrongKeyCheck] {
            for server in [1, 2] {
                let result = search_with_faults(&database, scheme, &[(server, fault)]).await;
                let error = result.expect_err(&format!("{scheme}, {fault:?}"));
                let ClientError::Search { error: found, .. } = &error else { panic!("{error}") };
                match fault {
                    Fault::WrongKeyCheck => assert!(matches!(found, SearchError::KeyCheck { .. }), "{error}"),
                    _ => assert!(matches!(found, SearchError::Decode(DecodeError::TooFewAnswers { .. })), "{error}"),
                }
            }
        }
        for fault in [Fault::DiesOnce, Fault::DamagedOnce] {
            assert_eq!(
                search_with_faults(&database, scheme, &[(2, fault)]).await,
                Ok(best(&database, scheme)),
                "{scheme}, {fault:?}"
            );
        }
    }
}

#[tokio::test]
async fn an_undetected_lie_can_hide_rows_but_never_invent_one() {
    // S = B = 0 and no verified answers: a server that lies about the gate hides matching rows. The
    // answer is still a row of the database with its true cost.
    let database = TestDatabase::new(50, 4, 16, |_| {});
    for scheme in ["gated-tables", "gated+", "baseline", "diff", "two-phase", "single-phase+"] {
        let instance = database.manifest.instance(scheme).unwrap();
        let secret = SecretQuery::new(vec![3, 2, 4, 1]);
        let plain = |row: &Vec<u16>| secret.plain_cost(instance.scheme(), instance.params(), row);
        let costs: Vec<u64> = database.levels.iter().filter_map(plain).collect();
        for fault in [Fault::WrongAnswer, Fault::WrongRecord] {
            for server in [1, 2] {
                if let Ok(Some(cost)) = search_with_faults(&database, scheme, &[(server, fault)]).await {
                    assert!(costs.contains(&cost), "{scheme} {fault:?}");
                    assert_eq!(fault, Fault::WrongAnswer, "a wrong record is refused");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn silent_and_lying_servers_are_tolerated_up_to_the_limits_of_the_manifest() {
    let silent = TestDatabase::new(50, 5, 7, |fields| fields.params.silent = 1);
    for scheme in ["gated-tables", "two-phase"] {
        let right = best(&silent, scheme);
        for fault in [Fault::Hangs, Fault::Unreachable, Fault::Dies, Fault::Truncates, Fault::WrongKeyCheck] {
            for server in 1..=silent.manifest.instance(scheme).unwrap().servers() {
                assert_eq!(
                    search_with_faults(&silent, scheme, &[(server, fault)]).await,
                    Ok(right),
                    "{scheme} {fault:?} {server}"
                );
            }
        }
        // S + 1 silent servers, and a lie with B = 0, are errors.
        search_with_faults(&silent, scheme, &[(1, Fault::Dies), (2, Fault::Hangs)]).await.unwrap_err();
        search_with_faults(&silent, scheme, &[(1, Fault::WrongAnswer)]).await.unwrap_err();
        search_with_faults(&silent, scheme, &[(1, Fault::WrongRecord)]).await.unwrap_err();
    }
    let lying = TestDatabase::new(50, 6, 8, |fields| fields.params.lying = 1);
    for scheme in ["gated-tables", "gated+"] {
        for fault in ALL_FAULTS {
            for server in [1, 3] {
                assert_eq!(
                    search_with_faults(&lying, scheme, &[(server, fault)]).await,
                    Ok(best(&lying, scheme)),
                    "{fault:?}"
                );
            }
        }
        search_with_faults(&lying, scheme, &[(1, Fault::WrongAnswer), (2, Fault::WrongAnswer)]).await.unwrap_err();
    }
}

#[tokio::test]
async fn verified_answers_detect_a_lie_with_two_servers() {
    let database = TestDatabase::new(50, 2, 9, |fields| fields.params.verified = true);
    for instance in database.manifest.instances() {
        let scheme = instance.scheme().name;
        if matches!(instance.scheme().cost_model, CostModel::Product) {
            continue;
        }
        assert_eq!(search_with_faults(&database, scheme, &[]).await, Ok(best(&database, scheme)), "{scheme}");
        let error = search_with_faults(&database, scheme, &[(2, Fault::WrongAnswer)]).await.unwrap_err();
        assert!(matches!(error, ClientError::Search { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_retry_sends_the_same_bytes() {
    let database = TestDatabase::new(30, 2, 10, |_| {});
    let mut servers = database.servers();
    let flaky = Arc::new(Faulty { inner: servers[0].clone(), fault: Fault::DiesOnce, attempts: Mutex::default() });
    servers[0] = flaky.clone();
    let policy = RetryPolicy { pause: Duration::ZERO, ..RetryPolicy::default() };
    let client = Client::connect(retrying(servers, policy), &Pins::default()).await.unwrap();
    let offered = database.manifest.default_scheme();
    client.search(offered, SecretQuery::new(vec![0; 4]), 1).await.unwrap();
    let attempts = flaky.attempts.lock().unwrap();
    assert_eq!(attempts.len(), 3, "a phase, its retry, and a record fetch");
    assert_eq!(attempts[0], attempts[1]);
    assert_ne!(attempts[1], attempts[2]);
}

#[tokio::test]
async fn servers_with_different_keys_data_or_manifests_are_named() {
    let database = TestDatabase::new(30, 2, 13, |_| {});
    let secret = || SecretQuery::new(vec![1, 1, 0, 1]);
    let offered = database.manifest.default_scheme();
    // Another root key: the manifests are equal, the fingerprints differ.
    let mut other_key = database.clone();
    other_key.key = [8; 32];
    let servers: Vec<Arc<dyn Transport>> = vec![Arc::new(database.server(1)), Arc::new(other_key.server(2))];
    let error = Client::connect(servers, &Pins::default()).await.unwrap_err();
    let fingerprints = [database.key, other_key.key].map(|key| RootKey::new(0, key).fingerprint());
    assert!(matches!(&error, ClientError::KeysDiffer { epoch: 0, .. }), "{error}");
    for (server, fingerprint) in ["server 1", "server 2"].into_iter().zip(fingerprints) {
        assert!(error.to_string().contains(&format!("{server} has {fingerprint}")), "{error}");
    }
    // Other data with the same manifest: the key-check values differ.
    let mut edited = database.clone();
    edited.levels[0][0] ^= 1;
    let servers: Vec<Arc<dyn Transport>> = vec![Arc::new(database.server(1)), Arc::new(edited.server(2))];
    let client = Client::connect(servers, &Pins::default()).await.unwrap();
    let error = client.search(offered, secret(), 1).await.unwrap_err();
    assert!(matches!(error, ClientError::Search { error: SearchError::KeyCheck { .. }, .. }), "{error}");
    // Another bundle: the manifests differ.
    let other = TestDatabase::new(31, 2, 13, |_| {});
    let servers: Vec<Arc<dyn Transport>> = vec![Arc::new(database.server(1)), Arc::new(other.server(2))];
    let error = Client::connect(servers, &Pins::default()).await.unwrap_err();
    assert!(matches!(error, ClientError::ManifestsDiffer { .. }), "{error}");
    // The same server twice, a missing server, and no server at all.
    let servers: Vec<Arc<dyn Transport>> = vec![Arc::new(database.server(1)), Arc::new(database.server(1))];
    let error = Client::connect(servers, &Pins::default()).await.unwrap_err();
    assert!(matches!(error, ClientError::SameIndex { index: 1, .. }), "{error}");
    let client = Client::connect(vec![Arc::new(database.server(2))], &Pins::default()).await.unwrap();
    let error = client.search(offered, secret(), 1).await.unwrap_err();
    assert!(matches!(&error, ClientError::TooFewServers { missing, .. } if *missing == [1]), "{error}");
    let error = Client::connect(vec![], &Pins::default()).await.unwrap_err();
    assert!(matches!(error, ClientError::NoServerReachable(_)));
}

#[tokio::test]
async fn another_key_is_tolerated_in_a_minority_of_servers() {
    for (lying, others, tolerated) in [(1, 1, true), (1, 2, false), (0, 1, false)] {
        let database = TestDatabase::new(30, 4, 15, |fields| fields.params.lying = lying);
        let mut other_key = database.clone();
        other_key.key = [8; 32];
        let server = |index: u8| if index <= others { other_key.server(index) } else { database.server(index) };
        let servers = (1..=4).map(|index| Arc::new(server(index)) as Arc<dyn Transport>);
        match Client::connect(servers.collect(), &Pins::default()).await {
            Ok(client) => {
                assert!(tolerated);
                assert_eq!(client.key_fingerprint(), Some(RootKey::new(0, database.key).fingerprint()));
                let answer = client.ask(&database.values(&[3, 2, 4, 1]), &WishList::default()).await.unwrap();
                assert_eq!((answer.lying_servers, answer.found.len()), (vec![1], 1));
            }
            Err(error) => assert!(!tolerated && matches!(error, ClientError::KeysDiffer { .. }), "{error}"),
        }
    }
}

#[tokio::test]
async fn the_k_nearest_rows_are_in_order_and_k_is_limited() {
    let database = TestDatabase::new(30, 2, 14, |fields| fields.params.top_limit = 5);
    let client = database.connect().await;
    let offered = database.manifest.default_scheme();
    let secret = SecretQuery::new(vec![5, 3, 0, 1]);
    for top in [0, 6] {
        let error = client.search(offered, secret.clone(), top).await.unwrap_err();
        assert!(matches!(error, ClientError::Top { limit: 5, .. }));
    }
    let report = client.search(offered, secret.clone(), 5).await.unwrap();
    let costs: Vec<u64> =
        report.outcome.found.iter().map(|found| confirmed(&database, offered, &secret, found).unwrap()).collect();
    let plain = |row: &Vec<u16>| secret.plain_cost(offered.scheme(), offered.params(), row);
    let mut all: Vec<u64> = database.levels.iter().filter_map(plain).collect();
    all.sort_unstable();
    assert_eq!(costs, all[..5]);
}

/// Serves a manifest and must receive no message.
struct ManifestOnly(u8, Bytes);

impl Exchange for ManifestOnly {
    fn name(&self) -> String {
        format!("server {}", self.0)
    }

    fn fetch_manifest(&self) -> TransportFuture<'_, ManifestResponse> {
        Box::pin(async { Ok(ManifestResponse::of(self.0, self.1.clone())) })
    }

    fn send<'a>(&'a self, _: ServerRequest, _: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        panic!("a message was sent")
    }
}

#[tokio::test]
async fn a_manifest_cannot_make_a_client_exceed_its_traffic_limit() {
    // The answers alone exceed the limit, or ten record queries of one bit per row exceed it.
    for (rows, top) in [(4_000_000_000, 1), (3_000_000_000, 10)] {
        let manifest = TestDatabase::new(3, 2, 1, |fields| fields.rows = rows).manifest;
        let json = Bytes::from(manifest.json().to_owned());
        let servers = (1..=2).map(|n| Arc::new(ManifestOnly(n, json.clone())) as Arc<dyn Transport>).collect();
        let client = Client::connect(servers, &Pins::default()).await.unwrap();
        let offered = manifest.scheme("baseline").unwrap();
        let secret = SecretQuery::new(vec![1, 1, 0, 1]);
        let error = client.search(offered, secret, top).await.unwrap_err();
        assert!(matches!(error, ClientError::TooLarge { bytes, limit } if bytes > limit), "{rows} rows: {error}");
    }
}
