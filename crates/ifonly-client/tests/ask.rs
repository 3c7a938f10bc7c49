//! Asking as people do: values and wishes in, explanations out; pins, notes, and randomness that is
//! nobody's choice.

mod support;

use bytes::Bytes;
use ifonly_client::transport::{Exchange, ServerRequest, TransportFuture};
use ifonly_client::{
    Client, ClientError, ManifestResponse, Pins, ProfileValues, ResponseSink, Route, Transport, WishList,
};
use ifonly_core::transcript::Message;
use ifonly_values::schema::Value;
use std::sync::{Arc, Mutex};
use support::World;

#[tokio::test]
async fn the_answer_is_the_nearest_row_that_fits_the_wishes_and_its_json_says_so() {
    let world = World::new(60, 2, 21, |contents| contents.terms.top_limit = 3);
    let client = world.connect().await;
    let mut values = world.values(&[3, 2, 4, 1]);
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
    // Income is clamped to its highest level, 9. Debts of level 3 reach up to 3.5, so they are
    // across the limit.
    let cost = |row: &Vec<u16>| {
        let fits = row[2] == 4 && row[1] < 3;
        let share = |k: usize, x: f64, spread: f64| ((f64::from(row[k]) - x) / spread).powi(2);
        fits.then(|| share(0, 9.0, 9.0) + share(1, 2.0, 6.0) + share(3, 1.0, 2.0))
    };
    let mut costs: Vec<f64> = world.levels.iter().filter_map(cost).collect();
    costs.sort_by(f64::total_cmp);
    assert_eq!(answer.matching_rows, Some(costs.len()));
    for (found, right) in answer.found.iter().zip(&costs) {
        assert!((found.cost - right).abs() < 1e-9, "{} {right}", found.cost);
        let contributions: f64 = found.changes.iter().filter_map(|change| change.contribution).sum();
        assert!((contributions - right).abs() < 1e-9);
    }
    assert_eq!(answer.found.len(), 2);
    assert!(
        answer.notes.iter().any(|note| note.contains("debt up to 3: level 2.5 to 3.5 lies across")),
        "{:?}",
        answer.notes
    );
    assert_eq!(answer.wishes, ["housing stays as it is", "debt is 3 or less"]);
    assert!(answer.notes.iter().any(|note| note.contains("shoe size")), "{:?}", answer.notes);
    assert!(answer.notes.iter().any(|note| note.contains("income")), "{:?}", answer.notes);
    let document = serde_json::to_value(&answer).unwrap();
    assert_eq!(document["found"], true);
    assert_eq!(document["cost"], answer.found[0].cost);
    assert_eq!(document["record"]["housing"], "own");
    assert_eq!(document["nearest"].as_array().unwrap().len(), 2);
    assert_eq!(document["bytes_down"], answer.traffic.down);
    assert_eq!(document["dataset"]["name"], "test");
    let nobody = WishList { immutable: ["income", "debt", "housing", "grade"].map(String::from).into(), ..wishes };
    let absent = (0..10).find(|&income| !world.levels.contains(&vec![income, 2, 0, 2])).unwrap();
    let alone = world.values(&[absent.into(), 2, 0, 2]);
    let document = serde_json::to_value(client.ask(&alone, &nobody).await.unwrap()).unwrap();
    assert_eq!((&document["found"], &document["cost"]), (&false.into(), &serde_json::Value::Null));
}

#[tokio::test]
async fn changes_are_differences_of_values_and_spelling_is_none() {
    let world = World::new(40, 2, 15, |_| {});
    let client = world.connect().await;
    let row = world.levels.iter().position(|row| row[0] == 4 && row[3] != 1).unwrap();
    let mut values: ProfileValues =
        ["income", "debt", "housing", "grade"].into_iter().zip(world.texts[row].iter().map(String::as_str)).collect();
    values.set("income", "4e1");
    values.set("grade", "middle");
    let wishes = WishList { features_to_vary: vec!["grade".into()], ..WishList::default() };
    let answer = client.ask(&values, &wishes).await.unwrap();
    let changes: Vec<&str> = answer.found[0].changes.iter().map(|change| change.feature.as_str()).collect();
    assert_eq!(changes, ["grade"]);
}

#[tokio::test]
async fn a_mistake_looks_to_servers_like_any_other_question() {
    // A cost limit below what squared levels would take: a decoy must fit under it too.
    let world = World::new(10, 2, 22, |contents| contents.terms.cost_limit = 5);
    let log = Arc::new(Mutex::new(vec![]));
    let client = Client::connect(kept(&world, &log), &Pins::default()).await.unwrap();
    let fine = world.values(&[3, 2, 4, 1]);
    let list = |change: &dyn Fn(&mut WishList)| {
        let mut list = WishList::default();
        change(&mut list);
        list
    };
    client.ask(&fine, &WishList::default()).await.unwrap();
    let shape =
        |log: &Log| -> Vec<usize> { std::mem::take(&mut *log.lock().unwrap()).iter().map(Bytes::len).collect() };
    let usual = shape(&log);
    let lacking: ProfileValues = [("income", "40")].into_iter().collect();
    let error = client.ask(&lacking, &WishList::default()).await.unwrap_err();
    assert_eq!(error, ClientError::Missing(["debt", "housing", "grade"].map(String::from).into()));
    assert_eq!(shape(&log), usual);
    let error = client.ask(&fine, &list(&|list| list.immutable.push("hight".into()))).await.unwrap_err();
    assert!(matches!(error, ClientError::Wish(_)), "{error}");
    assert_eq!(shape(&log), usual);
    let error = client.ask(&fine, &list(&|list| list.scheme = Some("gatet".into()))).await.unwrap_err();
    assert!(matches!(error, ClientError::Scheme(_)), "{error}");
    assert_eq!(shape(&log), usual);
    // How many records are wanted is public, so stopping here tells nothing about the person.
    let error = client.ask(&fine, &list(&|list| list.top = 0)).await.unwrap_err();
    assert!(matches!(error, ClientError::Top { .. }), "{error}");
    assert!(log.lock().unwrap().is_empty());
}

#[tokio::test]
async fn wishes_beyond_the_schemes_limits_look_like_any_other_question_too() {
    let world = World::new(10, 4, 24, |contents| contents.terms.immutable_limit = 1);
    let log = Arc::new(Mutex::new(vec![]));
    let client = Client::connect(kept(&world, &log), &Pins::default()).await.unwrap();
    let scheme = Some("single-phase".to_owned());
    let immutable = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let values = world.values(&[3, 2, 4, 1]);
    client.ask(&values, &WishList { scheme: scheme.clone(), ..WishList::default() }).await.unwrap();
    let shape =
        |log: &Log| -> Vec<usize> { std::mem::take(&mut *log.lock().unwrap()).iter().map(Bytes::len).collect() };
    let usual = shape(&log);
    let list = WishList { scheme, immutable: immutable(&["income", "debt"]), ..WishList::default() };
    let error = client.ask(&values, &list).await.unwrap_err();
    assert!(matches!(error, ClientError::Secret(_)), "{error}");
    assert!(!usual.is_empty());
    assert_eq!(shape(&log), usual);
}

#[tokio::test]
async fn less_than_was_promised_is_refused() {
    let world = World::new(10, 3, 23, |contents| contents.terms.threshold = 2);
    let connect = |pins: Pins| {
        let servers = world.servers();
        async move { Client::connect(servers, &pins).await.map(|_| ()) }
    };
    let digest: String = world.manifest.digest().iter().map(|byte| format!("{byte:02X}")).collect();
    let names: Vec<String> = world.manifest.operators().iter().map(|operator| operator.name.clone()).collect();
    let kept =
        Pins { threshold: Some(2), manifest: Some(digest.clone()), operators: Some(names.clone()), ..Pins::default() };
    connect(kept).await.unwrap();
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
async fn two_colluders_cannot_outvote_the_third_server_about_the_manifest() {
    let promised = World::new(10, 3, 24, |contents| contents.terms.threshold = 2);
    // With T = 1 two shares are the person; S = 1 would bear the loss of the honest third.
    let colluding = World::new(10, 3, 24, |contents| contents.terms.silent = 1);
    let servers: Vec<Arc<dyn Transport>> =
        vec![Arc::new(colluding.server(1)), Arc::new(colluding.server(2)), Arc::new(promised.server(3))];
    let log = Log::default();
    let kept = servers.into_iter().map(|server| Arc::new(Keeper(server, log.clone())) as Arc<dyn Transport>).collect();
    let error = Client::connect(kept, &Pins::default()).await.unwrap_err().to_string();
    for name in ["server 1 offers", "server 2 offers", "server 3 offers", "nothing was asked"] {
        assert!(error.contains(name), "{error}");
    }
    assert!(log.lock().unwrap().is_empty());
    // Where all three collude about it, what was promised is what the person pins.
    let pins = Pins { threshold: Some(2), ..Pins::default() };
    let error = Client::connect(colluding.servers(), &pins).await.unwrap_err();
    assert!(matches!(error, ClientError::Pinned { .. }), "{error}");
}

type Log = Arc<Mutex<Vec<Bytes>>>;

/// Keeps every message.
struct Keeper(Arc<dyn Transport>, Log);

fn kept(world: &World, log: &Log) -> Vec<Arc<dyn Transport>> {
    world.servers().into_iter().map(|server| Arc::new(Keeper(server, log.clone())) as Arc<dyn Transport>).collect()
}

impl Exchange for Keeper {
    fn name(&self) -> String {
        self.0.name()
    }

    fn greet(&self) -> TransportFuture<'_, ManifestResponse> {
        self.0.greet()
    }

    fn send<'a>(&'a self, call: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        self.1.lock().unwrap().push(call.message.clone());
        self.0.send(call, response)
    }
}

#[tokio::test]
async fn no_two_questions_share_a_draw_though_the_same_person_asks_the_same() {
    let world = World::new(200, 2, 24, |_| {});
    let values = world.values(&[3, 2, 4, 1]);
    let mut runs: Vec<Vec<Message>> = vec![];
    for _ in 0..2 {
        let log = Log::default();
        let client = Client::connect(kept(&world, &log), &Pins::default()).await.unwrap();
        client.ask(&values, &WishList::default()).await.unwrap();
        let mut messages: Vec<Message> =
            log.lock().unwrap().iter().map(|bytes| Message::decode(bytes).unwrap()).collect();
        messages.sort_by_key(|message| (message.header.stage.route() == Route::Record, message.server));
        runs.push(messages);
    }
    assert_eq!((runs[0].len(), runs[1].len()), (4, 4), "a phase and a record, two servers");
    for (one, other) in runs[0].iter().zip(&runs[1]) {
        assert_eq!((one.server, one.header.stage), (other.server, other.header.stage));
        assert_ne!(one.payload, other.payload);
        assert_ne!(one.blinding, other.blinding);
        assert_ne!(one.tau(), other.tau());
    }
}
