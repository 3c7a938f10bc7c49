//! A server that lies as well as it can shows a person somebody who does not exist, unless records
//! are signed.

mod support;

use ifonly_algebra::keys::RootKey;
use ifonly_algebra::wire;
use ifonly_client::transport::{Exchange, ServerRequest, TransportFuture};
use ifonly_client::{Answer, Client, ClientError, ManifestResponse, Pins, ResponseSink, Route, Transport, WishList};
use ifonly_core::search::SearchError;
use ifonly_core::server_protocol::ServerProtocol;
use ifonly_core::signature::{SIGNATURE_LENGTH, SigningKey};
use ifonly_core::transcript::MessageKind;
use ifonly_values::manifest::ManifestFields;
use std::sync::{Arc, Mutex};
use support::{Recorder, Seen, World, signing_key};

/// Server 1 with all that an operator has: data, order and root key. It hides every row but one, so
/// it knows which one is fetched, and adds to its answer what turns that record into another.
struct Forger {
    inner: Arc<dyn Transport>,
    world: World,
    row: usize,
    difference: Vec<u8>,
}

impl Forger {
    /// A forged record of `row`, signed with whatever key the forger has. The rows are in stored
    /// order; with the root key, the forger would know any other.
    fn new(world: &World, row: usize, forged: &[String], key: &SigningKey) -> Forger {
        let manifest = &world.manifest;
        let mut hasher = blake3::Hasher::new_keyed(&world.key);
        hasher.update(b"ifonly bundle v1").update(&world.bundle().data_digest());
        let root = RootKey::new(0, *hasher.finalize().as_bytes());
        let protocol = ServerProtocol::new(
            1,
            manifest.digest(),
            manifest.instances().cloned(),
            vec![root.clone()],
            manifest.record_length(),
        );
        let seal = |texts: &[String], key: &SigningKey| {
            let records = vec![world.record(texts, key); row + 1];
            protocol.encode_records(&root, records.iter().map(Vec::as_slice)).swap_remove(row)
        };
        let (true_record, forgery) = (seal(&world.texts[row], &signing_key()), seal(forged, key));
        let difference = true_record.iter().zip(&forgery).map(|(a, b)| a ^ b).collect();
        Forger { inner: Arc::new(world.server(1)), world: world.clone(), row, difference }
    }

    fn bend(&self, route: Route, bytes: &mut [u8]) {
        let lead = if route == Route::Record { MessageKind::Record } else { MessageKind::Phase(0) }.lead();
        let body = &mut bytes[lead..];
        match route {
            Route::Record => body.iter_mut().zip(&self.difference).for_each(|(byte, bits)| *byte ^= bits),
            Route::Answer => {
                let instance = self.world.manifest.default_scheme().scans().unwrap();
                let field = instance.field();
                let mut elements = wire::unpack(field, body, instance.answer_length(0)).unwrap();
                let one = field.element(1).unwrap();
                for (_, pair) in elements.chunks_exact_mut(2).enumerate().filter(|(row, _)| *row != self.row) {
                    pair[0] = field.add(pair[0], one);
                }
                body.copy_from_slice(&wire::pack(field, &elements));
            }
        }
    }
}

impl Exchange for Forger {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn greet(&self) -> TransportFuture<'_, ManifestResponse> {
        self.inner.greet()
    }

    fn send<'a>(&'a self, call: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        Box::pin(async move {
            let (route, mut bytes) = (call.route, vec![]);
            self.inner.send(call, &mut bytes).await?;
            self.bend(route, &mut bytes);
            response.part(&bytes);
            Ok(())
        })
    }
}

/// What a person gets from these servers, and what the servers see of it.
async fn ask(world: &World, first: Arc<dyn Transport>) -> (Result<Answer, ClientError>, Vec<(usize, Seen)>) {
    let log = Arc::new(Mutex::new(vec![]));
    let servers: Vec<Arc<dyn Transport>> = vec![first, Arc::new(world.server(2))];
    let record = |(number, inner)| -> Arc<dyn Transport> { Arc::new(Recorder { inner, number, log: log.clone() }) };
    let client = Client::connect(servers.into_iter().enumerate().map(record).collect(), &Pins::default()).await;
    let answer = client.unwrap().ask(&world.values(&[3, 2, 4, 1]), &WishList::default()).await;
    let seen = log.lock().unwrap().clone();
    (answer, seen)
}

/// Rows in stored order, and a record of row 7 with another income of the same level, so that its
/// cost is right.
fn scene(tune: impl Fn(&mut ManifestFields)) -> (World, Vec<String>) {
    let world = World::new(30, 2, 41, |contents| {
        contents.terms.shuffle = false;
        tune(contents);
    });
    let mut forged = world.texts[7].clone();
    forged[0] = (10 * world.levels[7][0] + 3).to_string();
    (world, forged)
}

#[tokio::test]
async fn unsigned_records_can_be_forged_so_the_attack_is_a_real_one() {
    let (world, forged) = scene(|contents| {
        contents.signer = None;
        contents.record_length -= SIGNATURE_LENGTH;
    });
    let (answer, _) = ask(&world, Arc::new(Forger::new(&world, 7, &forged, &signing_key()))).await;
    let answer = answer.unwrap();
    assert_eq!(answer.matching_rows, Some(1), "all rows but one are hidden");
    assert_eq!(answer.found[0].record[0].1.to_string(), forged[0], "nobody has this income");
}

#[tokio::test]
async fn a_forged_record_is_refused_and_nothing_shows_it() {
    let (world, forged) = scene(|_| {});
    let (honest, usual) = ask(&world, Arc::new(world.server(1))).await;
    assert!(honest.unwrap().matching_rows > Some(1));
    let stranger = SigningKey::new(&[1; 32]);
    let (answer, seen) = ask(&world, Arc::new(Forger::new(&world, 7, &forged, &stranger))).await;
    let error = answer.unwrap_err();
    assert!(matches!(&error, ClientError::Search { fault: SearchError::Forged, .. }), "{error}");
    assert!(error.to_string().contains("not signed by the institution"), "{error}");
    assert_eq!(seen, usual);
    // Hiding rows is all that is left, and what is shown then is somebody who exists.
    let (answer, _) = ask(&world, Arc::new(Forger::new(&world, 7, &world.texts[7].clone(), &signing_key()))).await;
    assert_eq!(answer.unwrap().found[0].record[0].1.to_string(), world.texts[7][0]);
}

#[tokio::test]
async fn a_pinned_signer_is_the_only_one_that_is_taken() {
    let (world, _) = scene(|_| {});
    let (unsigned, _) = scene(|contents| {
        contents.signer = None;
        contents.record_length -= SIGNATURE_LENGTH;
    });
    let pins = Pins { signer: Some(signing_key().public()), ..Pins::default() };
    Client::connect(world.servers(), &pins).await.unwrap();
    let error = Client::connect(unsigned.servers(), &pins).await.unwrap_err();
    assert!(error.to_string().contains("nobody signed"), "{error}");
    let other = Pins { signer: Some(SigningKey::new(&[1; 32]).public()), ..Pins::default() };
    let error = Client::connect(world.servers(), &other).await.unwrap_err();
    assert!(matches!(error, ClientError::Pinned { what: "signer", .. }), "{error}");
}
