//! Whole searches against servers in this process: right for every scheme, alike for everybody,
//! honest about faults.

mod support;

use bytes::Bytes;
use ifonly_algebra::decode::DecodeError;
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_client::transport::{Exchange, ServerRequest, TransportFuture};
use ifonly_client::{Client, ClientError, ManifestResponse, Pins, ResponseSink, RetryPolicy, Route, Transport};
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::{ConstraintKind, CostModel};
use ifonly_core::search::{NearestRow, SearchError as SearchFault, confirm};
use ifonly_core::secret_query::SecretQuery;
use ifonly_values::record::Record;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Fault, Misbehaving, Recorder, Seen, World, retrying};

/// The cost of a found record, if it is the one that was decoded.
fn confirmed(
    world: &World,
    instance: &SchemeInstance,
    secret: &SecretQuery,
    found: &NearestRow,
) -> Result<u64, SearchFault> {
    let schema = world.manifest.schema();
    let record = Record::decode(schema, &found.record).expect("a record");
    confirm(instance, secret, found, &record.levels(schema).expect("a row"))
}

/// A random person with wishes that the scheme carries.
fn person(
    world: &World,
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
        secret = secret.weights((0..4).map(|_| 1 + random.below(world.manifest.fields().terms.weight_limit)).collect());
    }
    (x, secret)
}

#[tokio::test]
async fn every_scheme_finds_what_brute_force_finds() {
    let world = World::new(60, 4, 3, |_| {});
    let client = world.connect().await;
    let mut random = SeededRandom::new(11);
    let mut empty = 0;
    for instance in world.manifest.instances() {
        for _ in 0..8 {
            let (_, secret) = person(&world, instance.scheme(), &mut random);
            let report = client.search(instance, secret.clone(), 1).await.unwrap();
            let costs =
                world.levels.iter().filter_map(|row| secret.plain_cost(instance.scheme(), instance.params(), row));
            let best = if instance.scheme().cost_model == CostModel::Product { costs.max() } else { costs.min() };
            let found = report.outcome.found.first();
            let cost = found.map(|found| confirmed(&world, instance, &secret, found).unwrap());
            assert_eq!(cost, best, "{}", instance.scheme().name);
            let Some(found) = found else {
                empty += 1;
                continue;
            };
            let record = Record::decode(world.manifest.schema(), &found.record).unwrap();
            let texts: Vec<String> = record.values().iter().map(|(_, text)| text.clone()).collect();
            assert!(world.texts.contains(&texts));
        }
    }
    assert!(world.manifest.instances().count() > 20 && empty > 0, "both kinds of answers must occur: {empty}");
}

#[tokio::test]
async fn servers_see_the_same_shape_of_traffic_from_everybody() {
    let world = World::new(40, 4, 5, |_| {});
    let mut random = SeededRandom::new(12);
    for instance in world.manifest.instances() {
        for top in [1, 3] {
            let mut shapes: Vec<Vec<(usize, Seen)>> = vec![];
            let (mut with, mut without) = (0, 0);
            for number in 0..12 {
                let (x, mut secret) = person(&world, instance.scheme(), &mut random);
                if number % 3 == 0 && instance.scheme().constraint != ConstraintKind::None {
                    // Everything fixed at values that hardly anybody has: nothing qualifies.
                    secret = SecretQuery::new(x).immutable(vec![true; 4]);
                }
                let log = Arc::new(Mutex::new(vec![]));
                let record =
                    |(number, inner)| -> Arc<dyn Transport> { Arc::new(Recorder { inner, number, log: log.clone() }) };
                let servers = world.servers().into_iter().enumerate().map(record).collect();
                let client = Client::connect(servers, &Pins::default()).await.unwrap();
                let report = client.search(instance, secret, top).await.unwrap();
                *if report.outcome.found.is_empty() { &mut without } else { &mut with } += 1;
                shapes.push(log.lock().unwrap().clone());
            }
            assert!(
                with > 0 && (without > 0 || instance.scheme().constraint == ConstraintKind::None),
                "{}",
                instance.scheme().name
            );
            assert!(shapes.iter().all(|shape| *shape == shapes[0]), "{}", instance.scheme().name);
            let count = |wanted| {
                shapes[0]
                    .iter()
                    .filter(|(_, seen)| matches!(seen, Seen::Message { route, .. } if *route == wanted))
                    .count()
            };
            let answers: usize = (0..instance.phases()).map(|phase| instance.responders(phase)).sum();
            assert_eq!((count(Route::Answer), count(Route::Record)), (answers, top * instance.servers()));
        }
    }
}

/// Searches with some servers misbehaving, numbered from 1; the rest is honest.
async fn under(world: &World, scheme: &str, faults: &[(usize, Fault)]) -> Result<Option<u64>, ClientError> {
    let mut servers = world.servers();
    for &(number, fault) in faults {
        let inner = servers[number - 1].clone();
        servers[number - 1] = Arc::new(Misbehaving { inner, fault, attempts: Mutex::default() });
    }
    let policy = RetryPolicy { deadline: Duration::from_secs(5), ..RetryPolicy::default() };
    let client = Client::connect(retrying(servers, policy), &Pins::default()).await?;
    let instance = world.manifest.instance(scheme).unwrap();
    let secret = SecretQuery::new(vec![3, 2, 4, 1]);
    let report = client.search(instance, secret.clone(), 1).await?;
    let Some(found) = report.outcome.found.first() else { return Ok(None) };
    let cost = confirmed(world, instance, &secret, found);
    cost.map(Some).map_err(|fault| ClientError::Search { fault, server_failures: vec![] })
}

fn best(world: &World, scheme: &str) -> Option<u64> {
    let instance = world.manifest.instance(scheme).unwrap();
    let secret = SecretQuery::new(vec![3, 2, 4, 1]);
    let costs = world.levels.iter().filter_map(|row| secret.plain_cost(instance.scheme(), instance.params(), row));
    costs.min()
}

const ALL_FAULTS: [Fault; 7] = [
    Fault::Hangs,
    Fault::Unreachable,
    Fault::Dies,
    Fault::Truncates,
    Fault::SpoilsCheck,
    Fault::SpoilsAnswer,
    Fault::SpoilsRecord,
];

#[tokio::test(start_paused = true)]
async fn without_redundancy_every_fault_is_an_error_and_never_a_wrong_explanation() {
    let world = World::new(50, 4, 6, |_| {});
    for scheme in ["gated-tables", "gated+", "baseline", "two-phase", "single-phase+"] {
        for fault in [Fault::Hangs, Fault::Unreachable, Fault::Dies, Fault::Truncates, Fault::SpoilsCheck] {
            for server in [1, 2] {
                let result = under(&world, scheme, &[(server, fault)]).await;
                let error = result.expect_err(&format!("{scheme}, {fault:?}"));
                let ClientError::Search { fault: found, .. } = &error else { panic!("{error}") };
                match fault {
                    Fault::SpoilsCheck => assert!(matches!(found, SearchFault::KeyCheck { .. }), "{error}"),
                    _ => assert!(matches!(found, SearchFault::Decode(DecodeError::TooFewAnswers { .. })), "{error}"),
                }
            }
        }
        for fault in [Fault::DiesOnce, Fault::DamagedOnce] {
            assert_eq!(under(&world, scheme, &[(2, fault)]).await, Ok(best(&world, scheme)), "{scheme}, {fault:?}");
        }
    }
}

#[tokio::test]
async fn an_undetected_lie_can_hide_rows_but_never_invent_one() {
    // S = B = 0 and nothing verified: a server that lies about the gate makes rows look as if they
    // did not qualify. What is shown is still a row of the database at its true cost.
    let world = World::new(50, 4, 16, |_| {});
    for scheme in ["gated-tables", "gated+", "baseline", "diff", "two-phase", "single-phase+"] {
        let instance = world.manifest.instance(scheme).unwrap();
        let secret = SecretQuery::new(vec![3, 2, 4, 1]);
        let plain = |row: &Vec<u16>| secret.plain_cost(instance.scheme(), instance.params(), row);
        let costs: Vec<u64> = world.levels.iter().filter_map(plain).collect();
        for fault in [Fault::SpoilsAnswer, Fault::SpoilsRecord] {
            for server in [1, 2] {
                if let Ok(Some(cost)) = under(&world, scheme, &[(server, fault)]).await {
                    assert!(costs.contains(&cost), "{scheme} {fault:?}");
                    assert_eq!(fault, Fault::SpoilsAnswer, "a spoilt record does not open");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn silent_and_lying_servers_are_borne_as_far_as_the_manifest_says() {
    let silent = World::new(50, 5, 7, |contents| contents.terms.silent = 1);
    for scheme in ["gated-tables", "two-phase"] {
        let right = best(&silent, scheme);
        for fault in [Fault::Hangs, Fault::Unreachable, Fault::Dies, Fault::Truncates, Fault::SpoilsCheck] {
            for server in 1..=silent.manifest.instance(scheme).unwrap().servers() {
                assert_eq!(under(&silent, scheme, &[(server, fault)]).await, Ok(right), "{scheme} {fault:?} {server}");
            }
        }
        // One more than S, and a lie where B = 0, are errors.
        under(&silent, scheme, &[(1, Fault::Dies), (2, Fault::Hangs)]).await.unwrap_err();
        under(&silent, scheme, &[(1, Fault::SpoilsAnswer)]).await.unwrap_err();
        under(&silent, scheme, &[(1, Fault::SpoilsRecord)]).await.unwrap_err();
    }
    let lying = World::new(50, 6, 8, |contents| contents.terms.lying = 1);
    for scheme in ["gated-tables", "gated+"] {
        for fault in ALL_FAULTS {
            for server in [1, 3] {
                assert_eq!(under(&lying, scheme, &[(server, fault)]).await, Ok(best(&lying, scheme)), "{fault:?}");
            }
        }
        under(&lying, scheme, &[(1, Fault::SpoilsAnswer), (2, Fault::SpoilsAnswer)]).await.unwrap_err();
    }
}

#[tokio::test]
async fn verified_answers_detect_a_lie_with_two_servers() {
    let world = World::new(50, 2, 9, |contents| contents.terms.verified = true);
    for instance in world.manifest.instances() {
        let scheme = instance.scheme().name;
        if matches!(instance.scheme().cost_model, CostModel::Product) {
            continue;
        }
        assert_eq!(under(&world, scheme, &[]).await, Ok(best(&world, scheme)), "{scheme}");
        let error = under(&world, scheme, &[(2, Fault::SpoilsAnswer)]).await.unwrap_err();
        assert!(matches!(error, ClientError::Search { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_retry_sends_the_same_bytes() {
    let world = World::new(30, 2, 10, |_| {});
    let mut servers = world.servers();
    let flaky = Arc::new(Misbehaving { inner: servers[0].clone(), fault: Fault::DiesOnce, attempts: Mutex::default() });
    servers[0] = flaky.clone();
    let policy = RetryPolicy { pause: Duration::ZERO, ..RetryPolicy::default() };
    let client = Client::connect(retrying(servers, policy), &Pins::default()).await.unwrap();
    let instance = world.manifest.default_scheme().scans().unwrap();
    client.search(instance, SecretQuery::new(vec![0; 4]), 1).await.unwrap();
    let attempts = flaky.attempts.lock().unwrap();
    assert_eq!(attempts.len(), 3, "phase, phase again, record");
    assert_eq!(attempts[0], attempts[1]);
    assert_ne!(attempts[1], attempts[2]);
}

#[tokio::test]
async fn servers_that_do_not_belong_together_are_named() {
    let world = World::new(30, 2, 13, |_| {});
    let secret = || SecretQuery::new(vec![1, 1, 0, 1]);
    let instance = world.manifest.default_scheme().scans().unwrap();
    // Another root key: the manifests agree, the key-check values do not.
    let mut foreign = world.clone();
    foreign.key = [8; 32];
    let servers: Vec<Arc<dyn Transport>> = vec![Arc::new(world.server(1)), Arc::new(foreign.server(2))];
    let client = Client::connect(servers, &Pins::default()).await.unwrap();
    let error = client.search(instance, secret(), 1).await.unwrap_err();
    assert!(
        matches!(error, ClientError::Search { fault: SearchFault::KeyCheck { first: 1, second: 2 }, .. }),
        "{error}"
    );
    // Other data under the same manifest: the same.
    let mut edited = world.clone();
    edited.levels[0][0] ^= 1;
    let servers: Vec<Arc<dyn Transport>> = vec![Arc::new(world.server(1)), Arc::new(edited.server(2))];
    let client = Client::connect(servers, &Pins::default()).await.unwrap();
    let error = client.search(instance, secret(), 1).await.unwrap_err();
    assert!(matches!(error, ClientError::Search { fault: SearchFault::KeyCheck { .. }, .. }), "{error}");
    // Another bundle: the manifests differ.
    let other = World::new(31, 2, 13, |_| {});
    let servers: Vec<Arc<dyn Transport>> = vec![Arc::new(world.server(1)), Arc::new(other.server(2))];
    let error = Client::connect(servers, &Pins::default()).await.unwrap_err();
    assert!(matches!(error, ClientError::ManifestsDiffer { .. }), "{error}");
    // The same server twice, or one missing.
    let servers: Vec<Arc<dyn Transport>> = vec![Arc::new(world.server(1)), Arc::new(world.server(1))];
    let error = Client::connect(servers, &Pins::default()).await.unwrap_err();
    assert!(matches!(error, ClientError::SameIndex { index: 1, .. }), "{error}");
    let client = Client::connect(vec![Arc::new(world.server(2))], &Pins::default()).await.unwrap();
    let error = client.search(instance, secret(), 1).await.unwrap_err();
    assert!(matches!(&error, ClientError::TooFewServers { missing, .. } if *missing == [1]), "{error}");
    let error = Client::connect(vec![], &Pins::default()).await.unwrap_err();
    assert!(matches!(error, ClientError::NobodyThere(_)));
}

#[tokio::test]
async fn the_k_nearest_come_in_order_and_k_is_bounded() {
    let world = World::new(30, 2, 14, |contents| contents.terms.top_limit = 5);
    let client = world.connect().await;
    let instance = world.manifest.default_scheme().scans().unwrap();
    let secret = SecretQuery::new(vec![5, 3, 0, 1]);
    for top in [0, 6] {
        let error = client.search(instance, secret.clone(), top).await.unwrap_err();
        assert!(matches!(error, ClientError::Top { limit: 5, .. }));
    }
    let report = client.search(instance, secret.clone(), 5).await.unwrap();
    let costs: Vec<u64> =
        report.outcome.found.iter().map(|found| confirmed(&world, instance, &secret, found).unwrap()).collect();
    let plain = |row: &Vec<u16>| secret.plain_cost(instance.scheme(), instance.params(), row);
    let mut all: Vec<u64> = world.levels.iter().filter_map(plain).collect();
    all.sort_unstable();
    assert_eq!(costs, all[..5]);
}

/// Says what it offers and must not be asked for more.
struct OnlyGreets(u8, Bytes);

impl Exchange for OnlyGreets {
    fn name(&self) -> String {
        format!("server {}", self.0)
    }

    fn greet(&self) -> TransportFuture<'_, ManifestResponse> {
        Box::pin(async { Ok(ManifestResponse { index: self.0, manifest: self.1.clone(), earlier: vec![] }) })
    }

    fn send<'a>(&'a self, _: ServerRequest, _: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        panic!("a message was sent")
    }
}

#[tokio::test]
async fn a_manifest_cannot_make_a_client_take_more_than_it_should() {
    // The answers alone are too much, or would be borne but for ten queries of a bit per row.
    for (rows, top) in [(4_000_000_000, 1), (3_000_000_000, 10)] {
        let manifest = World::new(3, 2, 1, |contents| contents.rows = rows).manifest;
        let json = Bytes::from(manifest.json().to_owned());
        let servers = (1..=2).map(|n| Arc::new(OnlyGreets(n, json.clone())) as Arc<dyn Transport>).collect();
        let client = Client::connect(servers, &Pins::default()).await.unwrap();
        let instance = manifest.instance("baseline").unwrap();
        let secret = SecretQuery::new(vec![1, 1, 0, 1]);
        let error = client.search(instance, secret, top).await.unwrap_err();
        assert!(matches!(error, ClientError::TooLarge { bytes, limit } if bytes > limit), "{rows} rows: {error}");
    }
}
