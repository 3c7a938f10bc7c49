//! A lying server makes some rows cheaper, makes their costs impossible, or damages the record. If
//! the user saw an error exactly when the nearest row is one of them, a second search would tell
//! the server. The record is shown or left out instead, with a note.

mod support;

use bytes::Bytes;
use ifonly_algebra::field::FieldElement;
use ifonly_algebra::keys::RootKey;
use ifonly_client::transport::{Exchange, ServerRequest, TransportFuture};
use ifonly_client::{
    Answer, Client, ClientError, ManifestResponse, Pins, ResponseSink, Route, Transport, TransportError, WishList,
};
use ifonly_core::http_api::CHECK_LENGTH;
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::server_protocol::ServerProtocol;
use ifonly_core::transcript::{Message, MessageKind};
use std::sync::{Arc, Mutex};
use support::{ObservedRequest, Recorder, TestDatabase, signing_key};

const NOTE: &str = "may-not-be-nearest";

fn is_doubtful(answer: &Answer) -> bool {
    answer.notes.iter().any(|note| note.code == NOTE)
}

/// What server 1 does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    Nothing,
    /// Adds this to the decoded costs of the even rows (0) or the odd rows (1). The rows are in
    /// stored order here; an operator can compute any other order from the root key.
    Costs(i64, usize),
    /// Damages every record.
    Record,
    /// Sends no record.
    NoRecord,
}

struct LyingServer {
    inner: Arc<dyn Transport>,
    database: TestDatabase,
    lie: Lie,
}

impl LyingServer {
    fn falsify(&self, instance: &SchemeInstance, body: &mut [u8], added: i64, half: usize) {
        let (field, points) = (instance.field(), &instance.points()[..instance.responders(0)]);
        // The client's weight of this answer is the product of x / (x − x₁) over all other points.
        let weight = points[1..].iter().fold(field.element(1).unwrap(), |product: FieldElement, &x| {
            let ratio = field.mul(x, field.inverse(field.sub(x, points[0])).unwrap());
            field.mul(product, ratio)
        });
        let offset = field.mul(field.reduce_signed(added), field.inverse(weight).unwrap());
        let mut elements = instance.unpack_answer(0, body).unwrap();
        for (_, pair) in elements.chunks_exact_mut(2).enumerate().filter(|(row, _)| row % 2 == half) {
            pair[1] = field.add(pair[1], offset);
        }
        body.copy_from_slice(&instance.pack_answer(&elements));
    }
}

impl Exchange for LyingServer {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn fetch_manifest(&self) -> TransportFuture<'_, ManifestResponse> {
        self.inner.fetch_manifest()
    }

    fn send<'a>(&'a self, request: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        Box::pin(async move {
            let (route, mut bytes) = (request.route, vec![]);
            let scheme = Message::decode(&request.message).unwrap().header.scheme.clone();
            self.inner.send(request, &mut bytes).await?;
            match (route, self.lie) {
                (Route::Answer, Lie::Costs(added, half)) => {
                    let instance = self.database.manifest.instance(&scheme).unwrap();
                    self.falsify(instance, &mut bytes[MessageKind::Phase(0).lead()..], added, half);
                }
                (Route::Record, Lie::Record) => bytes[MessageKind::Record.lead()] ^= 1,
                (Route::Record, Lie::NoRecord) => return Err(TransportError::CutOff("test".into())),
                _ => {}
            }
            response.part(&bytes);
            Ok(())
        })
    }
}

/// The outcome of a search in which server 1 tells this lie, and the requests that servers observe.
async fn outcome(
    database: &TestDatabase,
    profile: [u32; 4],
    wishes: &WishList,
    lie: Lie,
) -> (Result<Answer, ClientError>, Vec<(usize, ObservedRequest)>) {
    let log = Arc::new(Mutex::new(vec![]));
    let lying = LyingServer { inner: Arc::new(database.server(1)), database: database.clone(), lie };
    let servers: Vec<Arc<dyn Transport>> = vec![Arc::new(lying), Arc::new(database.server(2))];
    let recorded = servers
        .into_iter()
        .enumerate()
        .map(|(number, inner)| -> Arc<dyn Transport> { Arc::new(Recorder { inner, number, log: log.clone() }) });
    let client = Client::connect(recorded.collect(), &Pins::default()).await.unwrap();
    let outcome = client.ask(&database.values(&profile), wishes).await;
    let requests = log.lock().unwrap().clone();
    (outcome, requests)
}

/// Like [`outcome`], for searches that succeed.
async fn ask(
    database: &TestDatabase,
    profile: [u32; 4],
    wishes: &WishList,
    lie: Lie,
) -> (Answer, Vec<(usize, ObservedRequest)>) {
    let (outcome, requests) = outcome(database, profile, wishes, lie).await;
    (outcome.unwrap(), requests)
}

/// Profiles whose nearest row has a cost above 0: a cost below 0 is impossible.
const PROFILES: [[u32; 4]; 4] = [[0, 6, 4, 2], [9, 0, 0, 0], [5, 6, 0, 2], [2, 5, 4, 0]];

fn database() -> TestDatabase {
    TestDatabase::new(40, 2, 71, |fields| fields.params.shuffle = false)
}

#[tokio::test]
async fn a_row_that_a_server_made_cheaper_is_shown_with_its_true_cost() {
    let (database, wishes) = (database(), WishList::default());
    let mut doubtful = [0, 0];
    for profile in PROFILES {
        let (honest, usual) = ask(&database, profile, &wishes, Lie::Nothing).await;
        assert!(honest.found[0].cost > 0.0 && !is_doubtful(&honest), "{profile:?}");
        for half in [0, 1] {
            let (answer, requests) = ask(&database, profile, &wishes, Lie::Costs(-1, half)).await;
            assert!((answer.found[0].cost - honest.found[0].cost).abs() < 1e-3, "{profile:?}");
            assert_eq!(requests, usual);
            doubtful[half] += usize::from(is_doubtful(&answer));
        }
    }
    // Every nearest row is in one of the halves, so each profile met the lie once.
    assert!(doubtful[0] + doubtful[1] >= 4 && doubtful[0] > 0 && doubtful[1] > 0, "{doubtful:?}");
}

#[tokio::test]
async fn rows_with_impossible_costs_are_left_out_and_the_search_succeeds() {
    let (database, wishes) = (database(), WishList { scheme: Some("gated+".into()), ..WishList::default() });
    // No cost plus this is possible: with weight 1, costs are at most a tenth of the bound.
    let instance = database.manifest.instance("gated+").unwrap();
    let bound = (instance.scheme().bound)(instance.params()) as i64;
    for profile in PROFILES {
        let (honest, usual) = ask(&database, profile, &wishes, Lie::Nothing).await;
        let mut costs = vec![];
        for half in [0, 1] {
            let (answer, requests) = ask(&database, profile, &wishes, Lie::Costs(bound + 1, half)).await;
            assert!(is_doubtful(&answer) && answer.matching_rows == Some(20), "{profile:?}");
            assert_eq!(requests, usual);
            costs.push(answer.found[0].cost);
        }
        // The nearest row is in one half, and the search without the other half finds it.
        assert_eq!(costs.iter().copied().fold(f64::INFINITY, f64::min), honest.found[0].cost, "{profile:?}");
    }
}

/// Wishes that no row satisfies, with the profiles above.
fn no_match() -> WishList {
    WishList { immutable: vec!["income".into(), "debt".into(), "grade".into()], ..WishList::default() }
}

#[tokio::test]
async fn a_record_fetch_that_fails_has_the_same_outcome_whether_a_row_matches_or_not() {
    let (database, mut outcomes) = (database(), vec![]);
    for wishes in [WishList::default(), no_match()] {
        let (answer, requests) = outcome(&database, PROFILES[0], &wishes, Lie::NoRecord).await;
        outcomes.push((answer.unwrap_err().to_string(), requests));
    }
    assert_eq!(outcomes[0], outcomes[1]);
}

#[tokio::test]
async fn a_damaged_record_is_left_out_and_the_search_succeeds() {
    let database = database();
    // No row matches the second wishes, so the answer to a dummy query is damaged.
    for (wishes, matches) in [(WishList::default(), true), (no_match(), false)] {
        let (honest, usual) = ask(&database, PROFILES[0], &wishes, Lie::Nothing).await;
        assert_eq!(honest.found.is_empty(), !matches);
        let (answer, requests) = ask(&database, PROFILES[0], &wishes, Lie::Record).await;
        assert!(answer.found.is_empty() && is_doubtful(&answer));
        assert_eq!(requests, usual);
    }
}

/// One of three servers of a sealed search. The XOR of their answers is the given result.
struct SealedAnswer {
    inner: Arc<dyn Transport>,
    answer: Bytes,
}

impl Exchange for SealedAnswer {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn fetch_manifest(&self) -> TransportFuture<'_, ManifestResponse> {
        self.inner.fetch_manifest()
    }

    fn send<'a>(&'a self, request: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        Box::pin(async move {
            assert_eq!(request.length, self.answer.len());
            response.part(&self.answer);
            Ok(())
        })
    }
}

/// The answer to a sealed search that returns the record of this row with this cost.
async fn ask_sealed(database: &TestDatabase, row: usize, cost: u64, wishes: &WishList) -> Answer {
    let manifest = &database.manifest;
    let root = RootKey::new(0, database.key);
    let instances = manifest.instances().cloned();
    let protocol = ServerProtocol::new(1, manifest.digest(), instances, vec![root.clone()], manifest.record_length());
    let records = vec![database.record(&database.texts[row], &signing_key()); row + 1];
    let record = protocol.encode_records(&root, records.iter().map(Vec::as_slice)).swap_remove(row);
    let mut result = vec![0; CHECK_LENGTH];
    result.extend((2 * cost + 1).to_le_bytes());
    result.extend(record);
    let zeros = vec![0; result.len()];
    let answers = [result, zeros.clone(), zeros].map(Bytes::from);
    let servers = database.servers().into_iter().zip(answers);
    let servers = servers.map(|(inner, answer)| -> Arc<dyn Transport> { Arc::new(SealedAnswer { inner, answer }) });
    let client = Client::connect(servers.collect(), &Pins::default()).await.unwrap();
    client.ask(&database.values(&[3, 2, 4, 1]), wishes).await.unwrap()
}

#[tokio::test]
async fn a_sealed_result_with_a_wrong_cost_is_shown_with_its_true_cost() {
    let database = TestDatabase::new(30, 3, 72, |_| {});
    let wishes = WishList { scheme: Some("sealed".into()), ..WishList::default() };
    let row = database.levels.iter().position(|levels| levels[0] != 3 && levels[2] == 0).unwrap();
    let cost = ask_sealed(&database, row, 5, &wishes).await.found[0].decoded();
    let honest = ask_sealed(&database, row, cost, &wishes).await;
    let lie = ask_sealed(&database, row, cost - 1, &wishes).await;
    assert!(!is_doubtful(&honest) && is_doubtful(&lie));
    assert_eq!(honest.found[0].cost, lie.found[0].cost);
    assert_eq!(honest.found[0].record, lie.found[0].record);
    // A row that violates the wishes is not shown; that is no error either.
    let fixed = WishList { immutable: vec!["housing".into()], ..wishes };
    let outside = ask_sealed(&database, row, cost, &fixed).await;
    assert!(outside.found.is_empty() && is_doubtful(&outside));
}
