//! Different ways: k searches, whatever is found, and answers that differ in what would change.

mod support;

use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_client::{Client, ClientError, Explanation, Pins, ProfileValues, Transport, WaysBy, WishList};
use ifonly_values::schema::{Feature, FeatureKind, Scale, Schema, Value};
use std::sync::{Arc, Mutex};
use support::{ObservedRequest, Recorder, TestDatabase};

type Log = Arc<Mutex<Vec<(usize, ObservedRequest)>>>;

fn recorded(database: &TestDatabase, log: &Log) -> Vec<Arc<dyn Transport>> {
    let number = |(number, inner)| Arc::new(Recorder { inner, number, log: log.clone() }) as Arc<dyn Transport>;
    database.servers().into_iter().enumerate().map(number).collect()
}

/// The cost of a row without the constraints of the wishes, for the schema of the test database.
fn cost(row: &[u16], x: &[u32]) -> f64 {
    let part = |k: usize, range: f64| ((f64::from(row[k]) - f64::from(x[k])) / range).powi(2);
    part(0, 9.0) + part(1, 6.0) + part(3, 2.0) + f64::from(u8::from(u32::from(row[2]) != x[2]))
}

#[tokio::test]
async fn every_way_is_the_nearest_row_that_also_keeps_the_features_of_the_ways_before() {
    let database = TestDatabase::new(300, 2, 31, |_| {});
    let client = database.connect().await;
    let names = ["income", "debt", "housing", "grade"];
    let mut random = SeededRandom::new(5);
    let mut several = 0;
    for ways_by in [WaysBy::Feature, WaysBy::Set] {
        for _ in 0..12 {
            let x =
                [random.below(10) as u32, random.below(7) as u32, 4 * random.below(2) as u32, random.below(3) as u32];
            // The person's own row may be in the table; a wish keeps the answers away from it.
            let wishes = WishList {
                ways: 3,
                ways_by,
                ranges: [("income".to_owned(), (Some(Value::Number(60.0)), None))].into(),
                ..WishList::default()
            };
            let answer = client.ask(&database.values(&x), &wishes).await.unwrap();
            let mut held: Vec<usize> = vec![];
            for way in &answer.found {
                let permitted = |row: &&Vec<u16>| row[0] >= 7 && held.iter().all(|&k| u32::from(row[k]) == x[k]);
                let least = database.levels.iter().filter(permitted).map(|row| cost(row, &x)).min_by(f64::total_cmp);
                assert!((way.cost - least.unwrap()).abs() < 1e-9, "{x:?} {least:?}");
                let index = |name: &String| names.iter().position(|other| other == name).unwrap();
                let mut now: Vec<usize> = way.held.iter().map(index).collect();
                now.sort_unstable();
                held.sort_unstable();
                assert_eq!(now, held);
                // Income has to change if it is below the range, so it is not held.
                let can_stay = |name: &&String| *name != "income" || x[0] >= 7;
                let changed: Vec<&String> = way.changes.iter().map(|change| &change.feature).filter(can_stay).collect();
                let most = if ways_by == WaysBy::Feature { 1 } else { 4 };
                held.extend(changed.into_iter().take(most).map(index));
            }
            several += usize::from(answer.found.len() > 1);
        }
    }
    assert!(several > 5, "{several}");
}

#[tokio::test]
async fn the_servers_see_k_searches_whatever_is_found() {
    let database = TestDatabase::new(80, 2, 32, |_| {});
    let log = Log::default();
    let client = Client::connect(recorded(&database, &log), &Pins::default()).await.unwrap();
    log.lock().unwrap().clear();
    let usual = WishList { ways: 3, ..WishList::default() };
    let x = database.values(&[3, 2, 4, 1]);
    let with = |change: &dyn Fn(&mut WishList)| {
        let mut wishes = usual.clone();
        change(&mut wishes);
        wishes
    };
    let permits = |name: &str, value: &str| [(name.to_owned(), vec![Value::from(value)])].into();
    let own = &database.levels[0];
    let own: Vec<u32> = own.iter().map(|&level| level.into()).collect();
    let mut seen: Option<Vec<(usize, ObservedRequest)>> = None;
    let mut found = vec![];
    let cases: [(ProfileValues, WishList); 7] = [
        (x.clone(), usual.clone()),
        (x.clone(), with(&|wishes| wishes.ways_by = WaysBy::Set)),
        // A row with the same values: there is nothing to hold.
        (database.values(&own), usual.clone()),
        // No row matches.
        (
            x.clone(),
            with(&|wishes| {
                wishes.immutable = ["income", "debt", "housing", "grade"].map(String::from).into();
                wishes.permits = permits("housing", "own");
                wishes.ranges = [("income".to_owned(), (Some(Value::Number(25.0)), Some(Value::Number(35.0))))].into();
            }),
        ),
        (x.clone(), with(&|wishes| wishes.max_changes = Some(1))),
        (x.clone(), with(&|wishes| wishes.only_up = vec!["hight".into()])),
        (ProfileValues::default(), usual.clone()),
    ];
    for (values, wishes) in cases {
        let answer = client.ask(&values, &wishes).await;
        found.push(answer.map(|answer| answer.found.len()).ok());
        let now = std::mem::take(&mut *log.lock().unwrap());
        let first = seen.get_or_insert_with(|| now.clone());
        assert_eq!(*first, now, "{found:?}");
    }
    // The cases differ in what was found, and the last two are errors.
    assert_eq!((found[5], found[6]), (None, None), "{found:?}");
    assert!(found[0] > Some(1) && found[2] == Some(1), "{found:?}");
    // One search sends a third of the messages.
    client.ask(&x, &WishList::default()).await.unwrap();
    assert_eq!(3 * log.lock().unwrap().len(), seen.unwrap().len());
}

#[tokio::test]
async fn numbers_of_ways_that_are_not_permitted_are_refused_before_anything_is_sent() {
    let database = TestDatabase::new(10, 2, 33, |fields| fields.params.top_limit = 3);
    let log = Log::default();
    let client = Client::connect(recorded(&database, &log), &Pins::default()).await.unwrap();
    log.lock().unwrap().clear();
    let values = database.values(&[3, 2, 4, 1]);
    for ways in [0, 11, usize::MAX] {
        let wishes = WishList { ways, ..WishList::default() };
        assert!(matches!(client.ask(&values, &wishes).await, Err(ClientError::Ways { limit: 10, .. })));
        assert!(client.check(&values, &wishes).is_err());
        client.dummy_search(&wishes).await;
    }
    let wishes = WishList { ways: 2, top: 2, ..WishList::default() };
    assert!(matches!(client.ask(&values, &wishes).await, Err(ClientError::TopAndWays)));
    assert!(log.lock().unwrap().is_empty());
    // A scheme without constraints cannot hold a feature.
    let scheme = database.manifest.instances().map(|instance| instance.scheme());
    let scheme =
        scheme.into_iter().find(|scheme| !scheme.supports_constraint(ifonly_core::scheme::ConstraintKind::Zeros));
    let wishes = WishList { ways: 2, scheme: Some(scheme.unwrap().name.into()), ..WishList::default() };
    let error = client.ask(&values, &wishes).await.unwrap_err();
    assert!(error.to_string().contains("several ways"), "{error}");
}

/// The mean distance among the answers: the sum of differences divided by the value ranges.
fn spread(found: &[Explanation]) -> f64 {
    let number = |(_, value): &(String, Value)| value.to_string().parse::<f64>().unwrap();
    let distance = |a: &Explanation, b: &Explanation| -> f64 {
        let columns = a.record.iter().zip(&b.record);
        columns.map(|(a, b)| (number(a) - number(b)).abs() / 39.0).sum::<f64>() / a.record.len() as f64
    };
    let pairs: Vec<f64> = (0..found.len())
        .flat_map(|i| (0..i).map(move |j| (i, j)))
        .map(|(i, j)| distance(&found[i], &found[j]))
        .collect();
    pairs.iter().sum::<f64>() / pairs.len() as f64
}

#[tokio::test]
async fn in_a_dense_table_ways_are_five_times_as_far_apart_as_the_nearest_rows() {
    // 60,000 rows on a plane: accepted is who has at least 60 points in three features.
    let features = ["income", "savings", "years"];
    let kind = FeatureKind::from(Scale::whole_numbers(0, 39).unwrap());
    let schema = Schema::new(features.map(|name| Feature::new(name, kind.clone())).into()).unwrap();
    let mut random = SeededRandom::new(34);
    let mut levels: Vec<Vec<u16>> = vec![];
    while levels.len() < 60_000 {
        let row: Vec<u16> = (0..3).map(|_| random.below(40) as u16).collect();
        if row.iter().map(|&level| u32::from(level)).sum::<u32>() >= 60 {
            levels.push(row);
        }
    }
    let database = TestDatabase::with_levels(schema, levels, 2, |fields| fields.params.top_limit = 3);
    let client = database.connect().await;
    let (mut nearest, mut ways) = (0.0, 0.0);
    for _ in 0..3 {
        let values: Vec<u32> = (0..3).map(|_| 12 + random.below(5) as u32).collect();
        let values = database.values(&values);
        let top = client.ask(&values, &WishList { top: 3, ..WishList::default() }).await.unwrap();
        let wishes = WishList { ways: 3, only_up: features.map(String::from).into(), ..WishList::default() };
        let answer = client.ask(&values, &wishes).await.unwrap();
        assert_eq!(answer.found.len(), 3);
        for change in answer.found.iter().flat_map(|way| &way.changes) {
            let number = |value: &Value| value.to_string().parse::<f64>().unwrap();
            assert!(number(&change.theirs) >= number(&change.yours));
        }
        nearest += spread(&top.found);
        ways += spread(&answer.found);
    }
    println!("mean distance: nearest rows {:.4}, ways {:.4}, ratio {:.1}", nearest / 3.0, ways / 3.0, ways / nearest);
    assert!(ways >= 5.0 * nearest, "{ways} {nearest}");
}
