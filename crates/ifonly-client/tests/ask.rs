//! Searches with profiles and wishes: explanations, notes, pins, dummy searches, and randomness.

mod support;

use bytes::Bytes;
use ifonly_client::transport::{Exchange, ServerRequest, TransportFuture};
use ifonly_client::{
    Client, ClientError, ManifestResponse, Pins, ProfileValues, ResponseSink, Route, Transport, WishList,
};
use ifonly_core::transcript::Message;
use ifonly_values::schema::Value;
use std::sync::{Arc, Mutex};
use support::TestDatabase;

#[tokio::test]
async fn the_answer_and_its_json_contain_the_nearest_row_that_satisfies_the_wishes() {
    let database = TestDatabase::new(60, 2, 21, |fields| fields.params.top_limit = 3);
    let client = database.connect().await;
    let mut values = database.values(&[3, 2, 4, 1]);
    values.set("income", Value::Number(1e9));
    values.set("shoe size", "44");
    let wishes = WishList {
        immutable: vec!["housing".into()],
        ranges: [("debt".to_owned(), (None, Some(Value::Number(3.0))))].into(),
        scheme: Some("gated-tables".into()),
        top: 2,
        ..WishList::default()
    };
    let answer = client.ask(&values, &wishes).await.unwrap();
    // Income is clamped to its highest level, 9. Level 3 of debt contains values up to 3.5, so it
    // crosses the limit.
    let cost = |row: &Vec<u16>| {
        let matches = row[2] == 4 && row[1] < 3;
        let part = |k: usize, x: f64, range: f64| ((f64::from(row[k]) - x) / range).powi(2);
        matches.then(|| part(0, 9.0, 9.0) + part(1, 2.0, 6.0) + part(3, 1.0, 2.0))
    };
    let mut costs: Vec<f64> = database.levels.iter().filter_map(cost).collect();
    costs.sort_by(f64::total_cmp);
    assert_eq!(answer.matching_rows, Some(costs.len()));
    for (found, right) in answer.found.iter().zip(&costs) {
        assert!((found.cost - right).abs() < 1e-9, "{} {right}", found.cost);
        let contributions: f64 = found.changes.iter().filter_map(|change| change.contribution).sum();
        assert!((contributions - right).abs() < 1e-9);
    }
    assert_eq!(answer.found.len(), 2);
    assert!(
        answer.notes.iter().any(|note| note.message.contains("debt up to 3: level 2.5 to 3.5 is only partly within")),
        "{:?}",
        answer.notes
    );
    let wishes_in_words: Vec<&str> = answer.wishes.iter().map(|wish| wish.message.as_str()).collect();
    assert_eq!(wishes_in_words, ["housing stays as it is", "debt is 3 or less"]);
    assert!(answer.notes.iter().any(|note| note.message.contains("shoe size")), "{:?}", answer.notes);
    assert!(answer.notes.iter().any(|note| note.message.contains("income")), "{:?}", answer.notes);
    let document = serde_json::to_value(&answer).unwrap();
    assert_eq!(document["found"], true);
    assert_eq!(document["cost"], answer.found[0].cost);
    assert_eq!(document["record"]["housing"], "own");
    assert_eq!(document["nearest"].as_array().unwrap().len(), 2);
    assert_eq!(document["bytes_down"], answer.traffic.down);
    assert_eq!(document["dataset"]["name"], "test");
    let no_match = WishList { immutable: ["income", "debt", "housing", "grade"].map(String::from).into(), ..wishes };
    let absent = (0..10).find(|&income| !database.levels.contains(&vec![income, 2, 0, 2])).unwrap();
    let values = database.values(&[absent.into(), 2, 0, 2]);
    let document = serde_json::to_value(client.ask(&values, &no_match).await.unwrap()).unwrap();
    assert_eq!((&document["found"], &document["cost"]), (&false.into(), &serde_json::Value::Null));
}

#[tokio::test]
async fn another_notation_of_the_same_value_is_not_a_change() {
    let database = TestDatabase::new(40, 2, 15, |_| {});
    let client = database.connect().await;
    let row = database.levels.iter().position(|row| row[0] == 4 && row[3] != 1).unwrap();
    let mut values: ProfileValues = ["income", "debt", "housing", "grade"]
        .into_iter()
        .zip(database.texts[row].iter().map(String::as_str))
        .collect();
    values.set("income", "4e1");
    values.set("grade", "middle");
    let wishes = WishList { features_to_vary: vec!["grade".into()], ..WishList::default() };
    let answer = client.ask(&values, &wishes).await.unwrap();
    let changes: Vec<&str> = answer.found[0].changes.iter().map(|change| change.feature.as_str()).collect();
    assert_eq!(changes, ["grade"]);
}

#[tokio::test]
async fn an_invalid_input_looks_to_servers_like_any_other_search() {
    // The cost limit is below the largest squared difference; the dummy query must respect it.
    let database = TestDatabase::new(10, 2, 22, |fields| fields.params.cost_limit = 5);
    let log = Arc::new(Mutex::new(vec![]));
    let client = Client::connect(recording(&database, &log), &Pins::default()).await.unwrap();
    let valid = database.values(&[3, 2, 4, 1]);
    let list = |change: &dyn Fn(&mut WishList)| {
        let mut list = WishList::default();
        change(&mut list);
        list
    };
    client.ask(&valid, &WishList::default()).await.unwrap();
    let usual = lengths(&log);
    let incomplete: ProfileValues = [("income", "40")].into_iter().collect();
    let error = client.ask(&incomplete, &WishList::default()).await.unwrap_err();
    assert_eq!(error, ClientError::Missing(["debt", "housing", "grade"].map(String::from).into()));
    assert_eq!(lengths(&log), usual);
    let error = client.ask(&valid, &list(&|list| list.immutable.push("hight".into()))).await.unwrap_err();
    assert!(matches!(error, ClientError::Wish(_)), "{error}");
    assert_eq!(lengths(&log), usual);
    let error = client.ask(&valid, &list(&|list| list.scheme = Some("gatet".into()))).await.unwrap_err();
    assert!(matches!(error, ClientError::Scheme(_)), "{error}");
    assert_eq!(lengths(&log), usual);
    // The number of records is public, so stopping here reveals nothing about the profile.
    let error = client.ask(&valid, &list(&|list| list.top = 0)).await.unwrap_err();
    assert!(matches!(error, ClientError::Top { .. }), "{error}");
    assert!(log.lock().unwrap().is_empty());
}

#[tokio::test]
async fn wishes_beyond_the_limits_of_the_scheme_look_like_any_other_search() {
    let database = TestDatabase::new(10, 4, 24, |fields| fields.params.immutable_limit = 1);
    let log = Arc::new(Mutex::new(vec![]));
    let client = Client::connect(recording(&database, &log), &Pins::default()).await.unwrap();
    let scheme = Some("single-phase".to_owned());
    let immutable = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let values = database.values(&[3, 2, 4, 1]);
    client.ask(&values, &WishList { scheme: scheme.clone(), ..WishList::default() }).await.unwrap();
    let usual = lengths(&log);
    let list = WishList { scheme, immutable: immutable(&["income", "debt"]), ..WishList::default() };
    let error = client.ask(&values, &list).await.unwrap_err();
    assert!(matches!(error, ClientError::Secret(_)), "{error}");
    assert!(!usual.is_empty());
    assert_eq!(lengths(&log), usual);
}

#[tokio::test]
async fn an_unsupported_wish_looks_like_any_search_and_the_error_names_a_scheme_that_supports_it() {
    let database = TestDatabase::new(10, 2, 25, |_| {});
    let log = Arc::new(Mutex::new(vec![]));
    let client = Client::connect(recording(&database, &log), &Pins::default()).await.unwrap();
    let values = database.values(&[3, 2, 4, 1]);
    let usual = WishList { scheme: Some("gated+".into()), ..WishList::default() };
    client.ask(&values, &usual).await.unwrap();
    let expected = lengths(&log);
    let unsupported = WishList { only_up: vec!["income".into()], ..usual };
    let error = client.ask(&values, &unsupported).await.unwrap_err();
    assert!(error.to_string().contains("such as gated-tables"), "{error}");
    assert_eq!(lengths(&log), expected);
    assert_eq!(client.check(&values, &unsupported).unwrap_err(), error);
    assert!(log.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_manifest_that_does_not_match_a_pin_is_refused() {
    let database = TestDatabase::new(10, 3, 23, |fields| fields.params.threshold = 2);
    let connect = |pins: Pins| {
        let servers = database.servers();
        async move { Client::connect(servers, &pins).await.map(|_| ()) }
    };
    let digest: String = database.manifest.digest().iter().map(|byte| format!("{byte:02X}")).collect();
    let names: Vec<String> = database.manifest.operators().iter().map(|operator| operator.name.clone()).collect();
    let matching =
        Pins { threshold: Some(2), manifest: Some(digest.clone()), operators: Some(names.clone()), ..Pins::default() };
    connect(matching).await.unwrap();
    connect(Pins { threshold: Some(1), ..Pins::default() }).await.unwrap();
    let refused = [
        Pins { threshold: Some(3), ..Pins::default() },
        Pins { manifest: Some(digest.replace(|c: char| c.is_ascii_digit(), "a")), ..Pins::default() },
        Pins { manifest: Some(String::new()), ..Pins::default() },
        Pins { operators: Some(names[..2].to_vec()), ..Pins::default() },
        Pins { operators: Some(vec![names[1].clone(), names[0].clone(), names[2].clone()]), ..Pins::default() },
    ];
    for pins in refused {
        let error = connect(pins.clone()).await.unwrap_err();
        assert!(matches!(error, ClientError::Pinned { .. }), "{pins:?}: {error}");
    }
}

#[tokio::test]
async fn two_colluding_servers_cannot_outvote_the_third_about_the_manifest() {
    let honest = TestDatabase::new(10, 3, 24, |fields| fields.params.threshold = 2);
    // With T = 1, two servers can combine their shares; S = 1 tolerates the loss of the third.
    let colluding = TestDatabase::new(10, 3, 24, |fields| fields.params.silent = 1);
    let servers: Vec<Arc<dyn Transport>> =
        vec![Arc::new(colluding.server(1)), Arc::new(colluding.server(2)), Arc::new(honest.server(3))];
    let log = Log::default();
    let recording =
        servers.into_iter().map(|server| Arc::new(Recording(server, log.clone())) as Arc<dyn Transport>).collect();
    let error = Client::connect(recording, &Pins::default()).await.unwrap_err().to_string();
    for part in ["server 1 serves", "server 2 serves", "server 3 serves", "No query was sent"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(log.lock().unwrap().is_empty());
    // If all three servers collude about the manifest, only a pin helps.
    let pins = Pins { threshold: Some(2), ..Pins::default() };
    let error = Client::connect(colluding.servers(), &pins).await.unwrap_err();
    assert!(matches!(error, ClientError::Pinned { .. }), "{error}");
}

type Log = Arc<Mutex<Vec<Bytes>>>;

/// Empties the log, and returns the lengths of the messages.
fn lengths(log: &Log) -> Vec<usize> {
    std::mem::take(&mut *log.lock().unwrap()).iter().map(Bytes::len).collect()
}

/// Records every message.
struct Recording(Arc<dyn Transport>, Log);

fn recording(database: &TestDatabase, log: &Log) -> Vec<Arc<dyn Transport>> {
    database
        .servers()
        .into_iter()
        .map(|server| Arc::new(Recording(server, log.clone())) as Arc<dyn Transport>)
        .collect()
}

impl Exchange for Recording {
    fn name(&self) -> String {
        self.0.name()
    }

    fn fetch_manifest(&self) -> TransportFuture<'_, ManifestResponse> {
        self.0.fetch_manifest()
    }

    fn send<'a>(&'a self, request: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        self.1.lock().unwrap().push(request.message.clone());
        self.0.send(request, response)
    }
}

#[tokio::test]
async fn two_searches_with_the_same_profile_share_no_randomness() {
    let database = TestDatabase::new(200, 2, 24, |_| {});
    let values = database.values(&[3, 2, 4, 1]);
    let mut runs: Vec<Vec<Message>> = vec![];
    for _ in 0..2 {
        let log = Log::default();
        let client = Client::connect(recording(&database, &log), &Pins::default()).await.unwrap();
        client.ask(&values, &WishList::default()).await.unwrap();
        let mut messages: Vec<Message> =
            log.lock().unwrap().iter().map(|bytes| Message::decode(bytes).unwrap()).collect();
        messages.sort_by_key(|message| (message.header.kind.route() == Route::Record, message.server));
        runs.push(messages);
    }
    assert_eq!((runs[0].len(), runs[1].len()), (4, 4), "a phase and a record, two servers");
    for (one, other) in runs[0].iter().zip(&runs[1]) {
        assert_eq!((one.server, one.header.kind), (other.server, other.header.kind));
        assert_ne!(one.payload, other.payload);
        assert_ne!(one.blinding, other.blinding);
        assert_ne!(one.tau(), other.tau());
    }
}
