//! A lying server can forge a record that no row has, unless records are signed.

mod support;

use ifonly_algebra::keys::RootKey;
use ifonly_client::transport::{Exchange, ServerRequest, TransportFuture};
use ifonly_client::{Answer, Client, ClientError, ManifestResponse, Pins, ResponseSink, Route, Transport, WishList};
use ifonly_core::server_protocol::ServerProtocol;
use ifonly_core::signature::{SIGNATURE_LENGTH, SigningKey};
use ifonly_core::transcript::MessageKind;
use ifonly_values::manifest::ManifestFields;
use std::sync::{Arc, Mutex};
use support::{ObservedRequest, Recorder, TestDatabase, signing_key};

/// A lying server 1 with everything that an operator has: data, row order and root key. It hides
/// all rows but one, so it knows which record the client fetches. It adds the difference between
/// that record and a forged one to its answer.
struct Forger {
    inner: Arc<dyn Transport>,
    database: TestDatabase,
    row: usize,
    difference: Vec<u8>,
}

impl Forger {
    /// Forges the record of `row` and signs it with `key`. The rows are in stored order here; an
    /// operator can compute any other order from the root key.
    fn new(database: &TestDatabase, row: usize, forged: &[String], key: &SigningKey) -> Forger {
        let manifest = &database.manifest;
        let mut hasher = blake3::Hasher::new_keyed(&database.key);
        hasher.update(b"ifonly bundle v1").update(&database.bundle().data_digest());
        let root = RootKey::new(0, *hasher.finalize().as_bytes());
        let protocol = ServerProtocol::new(
            1,
            manifest.digest(),
            manifest.instances().cloned(),
            vec![root.clone()],
            manifest.record_length(),
        );
        let encode = |texts: &[String], key: &SigningKey| {
            let records = vec![database.record(texts, key); row + 1];
            protocol.encode_records(&root, records.iter().map(Vec::as_slice)).swap_remove(row)
        };
        let (true_record, forgery) = (encode(&database.texts[row], &signing_key()), encode(forged, key));
        let difference = true_record.iter().zip(&forgery).map(|(a, b)| a ^ b).collect();
        Forger { inner: Arc::new(database.server(1)), database: database.clone(), row, difference }
    }

    fn falsify(&self, route: Route, bytes: &mut [u8]) {
        let lead = if route == Route::Record { MessageKind::Record } else { MessageKind::Phase(0) }.lead();
        let body = &mut bytes[lead..];
        match route {
            Route::Record => body.iter_mut().zip(&self.difference).for_each(|(byte, bits)| *byte ^= bits),
            Route::Answer => {
                let instance = self.database.manifest.default_scheme().scans().unwrap();
                let field = instance.output_field(0);
                let mut elements = instance.unpack_answer(0, body).unwrap();
                let one = field.element(1).unwrap();
                for (_, pair) in elements.chunks_exact_mut(2).enumerate().filter(|(row, _)| *row != self.row) {
                    pair[0] = field.add(pair[0], one);
                }
                body.copy_from_slice(&instance.pack_answer(&elements));
            }
        }
    }
}

impl Exchange for Forger {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn fetch_manifest(&self) -> TransportFuture<'_, ManifestResponse> {
        self.inner.fetch_manifest()
    }

    fn send<'a>(&'a self, request: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        Box::pin(async move {
            let (route, mut bytes) = (request.route, vec![]);
            self.inner.send(request, &mut bytes).await?;
            self.falsify(route, &mut bytes);
            response.part(&bytes);
            Ok(())
        })
    }
}

/// The answer of a search with this server 1, and the requests that the servers observe.
async fn ask(
    database: &TestDatabase,
    first: Arc<dyn Transport>,
) -> (Result<Answer, ClientError>, Vec<(usize, ObservedRequest)>) {
    let log = Arc::new(Mutex::new(vec![]));
    let servers: Vec<Arc<dyn Transport>> = vec![first, Arc::new(database.server(2))];
    let record = |(number, inner)| -> Arc<dyn Transport> { Arc::new(Recorder { inner, number, log: log.clone() }) };
    let client = Client::connect(servers.into_iter().enumerate().map(record).collect(), &Pins::default()).await;
    let answer = client.unwrap().ask(&database.values(&[3, 2, 4, 1]), &WishList::default()).await;
    let requests = log.lock().unwrap().clone();
    (answer, requests)
}

/// A database in stored order, and values of row 7 with another income of the same level, so that
/// the cost is right.
fn database_and_forgery(tune: impl Fn(&mut ManifestFields)) -> (TestDatabase, Vec<String>) {
    let database = TestDatabase::new(30, 2, 41, |fields| {
        fields.params.shuffle = false;
        tune(fields);
    });
    let mut forged = database.texts[7].clone();
    forged[0] = (10 * database.levels[7][0] + 3).to_string();
    (database, forged)
}

#[tokio::test]
async fn unsigned_records_can_be_forged_so_the_attack_is_a_real_one() {
    let (database, forged) = database_and_forgery(|fields| {
        fields.signer = None;
        fields.record_length -= SIGNATURE_LENGTH;
    });
    let (answer, _) = ask(&database, Arc::new(Forger::new(&database, 7, &forged, &signing_key()))).await;
    let answer = answer.unwrap();
    assert_eq!(answer.matching_rows, Some(1), "all rows but one are hidden");
    assert_eq!(answer.found[0].record[0].1.to_string(), forged[0], "no row has this income");
}

#[tokio::test]
async fn a_forged_record_is_refused_and_the_traffic_does_not_change() {
    let (database, forged) = database_and_forgery(|_| {});
    let (honest, usual) = ask(&database, Arc::new(database.server(1))).await;
    assert!(honest.unwrap().matching_rows > Some(1));
    let other_key = SigningKey::new(&[1; 32]);
    let (answer, requests) = ask(&database, Arc::new(Forger::new(&database, 7, &forged, &other_key))).await;
    let answer = answer.unwrap();
    assert!(answer.found.is_empty() && answer.notes.iter().any(|note| note.code == "may-not-be-nearest"));
    assert_eq!(requests, usual);
    // The server can still hide rows, but the answer is then an existing row.
    let (answer, _) =
        ask(&database, Arc::new(Forger::new(&database, 7, &database.texts[7].clone(), &signing_key()))).await;
    assert_eq!(answer.unwrap().found[0].record[0].1.to_string(), database.texts[7][0]);
}

#[tokio::test]
async fn only_the_pinned_signer_is_accepted() {
    let (database, _) = database_and_forgery(|_| {});
    let (unsigned, _) = database_and_forgery(|fields| {
        fields.signer = None;
        fields.record_length -= SIGNATURE_LENGTH;
    });
    let pins = Pins { signer: Some(signing_key().public()), ..Pins::default() };
    Client::connect(database.servers(), &pins).await.unwrap();
    let error = Client::connect(unsigned.servers(), &pins).await.unwrap_err();
    assert!(error.to_string().contains("unsigned records"), "{error}");
    let other = Pins { signer: Some(SigningKey::new(&[1; 32]).public()), ..Pins::default() };
    let error = Client::connect(database.servers(), &other).await.unwrap_err();
    assert!(matches!(error, ClientError::Pinned { what: "signer", .. }), "{error}");
}
