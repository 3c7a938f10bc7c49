//! A small database, its servers in this process, and transports that misbehave.
#![allow(dead_code, missing_docs, unreachable_pub)]

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_bundle::Bundle;
use ifonly_client::transport::retry::TokioClock;
use ifonly_client::transport::{ChecksumVerifier, Exchange, ServerRequest, TransportFuture};
use ifonly_client::{
    Client, ManifestResponse, Pins, ProfileValues, ResponseSink, RetryPolicy, Retrying, Route, Transport,
    TransportError,
};
use ifonly_core::http_api::{MANIFEST_PATH, SERVER_HEADER};
use ifonly_core::signature::{SIGNATURE_LENGTH, SigningKey};
use ifonly_core::transcript::Message;
use ifonly_scan::RowStore;
use ifonly_server::LoadedBundle;
use ifonly_server::auth::tokens::Tokens;
use ifonly_server::config::Limits;
use ifonly_server::http::routes;
use ifonly_server::http::routes::AppState;
use ifonly_values::manifest::{Manifest, ManifestFields};
use ifonly_values::record;
use ifonly_values::schema::{Feature, FeatureKind, Quantiser, Scale, Schema};
use std::sync::{Arc, Mutex};
use tower::ServiceExt;

pub fn schema() -> Schema {
    let numeric = |max, levels| FeatureKind::from(Scale::levels(0.0, max, levels, Quantiser::Round).unwrap());
    let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    Schema::new(vec![
        Feature::new("income", numeric(90.0, 9)),
        Feature::new("debt", numeric(6.0, 6)),
        Feature::new("housing", FeatureKind::Categorical { categories: words(&["rent", "own"]), range: 4 }),
        Feature::new("grade", FeatureKind::Ordinal { ranks: words(&["low", "middle", "high"]) }),
    ])
    .unwrap()
}

/// The institution's.
pub fn signing_key() -> SigningKey {
    SigningKey::new(&[9; 32])
}

#[derive(Clone)]
pub struct World {
    pub manifest: Manifest,
    pub levels: Vec<Vec<u16>>,
    pub texts: Vec<Vec<String>>,
    pub key: [u8; 32],
}

impl World {
    pub fn new(rows: usize, servers: u8, seed: u64, tune: impl FnOnce(&mut ManifestFields)) -> World {
        let schema = schema();
        let mut random = SeededRandom::new(seed);
        let levels: Vec<Vec<u16>> = (0..rows)
            .map(|_| vec![random.below(10), random.below(7), 4 * random.below(2), random.below(3)])
            .map(|row| row.into_iter().map(|level| level as u16).collect())
            .collect();
        let texts: Vec<Vec<String>> = levels
            .iter()
            .map(|row| {
                let features = schema.features().iter().zip(row);
                features.map(|(feature, &level)| feature.decode_level(level.into()).unwrap().to_string()).collect()
            })
            .collect();
        let length = texts.iter().map(|texts| record::encoded_length(texts)).max().unwrap();
        let mut contents = ManifestFields::new("test", schema, rows, length + SIGNATURE_LENGTH, servers);
        contents.signer = Some(signing_key().public());
        tune(&mut contents);
        contents.offer_all();
        let manifest = Manifest::new(contents).unwrap();
        World { manifest, levels, texts, key: [7; 32] }
    }

    /// A row as its record, with the signature of whoever has this key.
    pub fn record(&self, texts: &[String], key: &SigningKey) -> Vec<u8> {
        let length = self.manifest.record_length();
        let Some(signer) = self.manifest.signer() else { return record::encode(texts, length).unwrap() };
        let mut record = record::encode(texts, length - SIGNATURE_LENGTH).unwrap();
        record.extend(key.sign(&signer.subject, &record));
        record
    }

    pub fn bundle(&self) -> Bundle {
        let records = self.texts.iter().flat_map(|texts| self.record(texts, &signing_key()));
        let rows = RowStore::build(&self.manifest.schema().max_levels(), &self.levels).unwrap();
        Bundle::in_memory(self.manifest.clone(), rows, records.collect()).unwrap()
    }

    pub fn loaded(&self, index: u8) -> LoadedBundle {
        LoadedBundle::new(&self.bundle(), index, vec![RootKey::new(0, self.key)]).unwrap()
    }

    pub fn router(&self, index: u8) -> Router {
        let tokens = Tokens::new(vec![], None).unwrap();
        routes::public(Arc::new(AppState::new(self.loaded(index), tokens, Limits::default(), vec![])))
    }

    pub fn servers(&self) -> Vec<Arc<dyn Transport>> {
        let operators = self.manifest.operators();
        operators.iter().map(|operator| Arc::new(self.server(operator.index)) as Arc<dyn Transport>).collect()
    }

    pub fn server(&self, index: u8) -> InProcess {
        InProcess { router: self.router(index), name: format!("server {index}") }
    }

    pub async fn connect(&self) -> Client {
        Client::connect(self.servers(), &Pins::default()).await.unwrap()
    }

    /// The values of somebody with these levels.
    pub fn values(&self, x: &[u32]) -> ProfileValues {
        let features = self.manifest.schema().features().iter().zip(x);
        features.map(|(feature, &level)| (feature.name.clone(), feature.decode_level(level).unwrap())).collect()
    }
}

/// The same servers, asked with patience.
pub fn retrying(servers: Vec<Arc<dyn Transport>>, policy: RetryPolicy) -> Vec<Arc<dyn Transport>> {
    servers
        .into_iter()
        .map(|server| Arc::new(Retrying::new(server, policy, Arc::new(TokioClock::start()))) as Arc<dyn Transport>)
        .collect()
}

/// A server without a network.
pub struct InProcess {
    pub router: Router,
    pub name: String,
}

impl InProcess {
    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(http::response::Parts, Bytes), TransportError> {
        let request = Request::builder().method(method).uri(path).body(Body::from(body)).unwrap();
        let (parts, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        let body = body.collect().await.map_err(|error| TransportError::CutOff(error.to_string()))?.to_bytes();
        match parts.status {
            StatusCode::OK => Ok((parts, body)),
            status => Err(TransportError::Refused {
                status: status.as_u16(),
                problem: None,
                detail: String::from_utf8_lossy(&body).into_owned(),
            }),
        }
    }
}

impl Exchange for InProcess {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn greet(&self) -> TransportFuture<'_, ManifestResponse> {
        Box::pin(async {
            let (parts, manifest) = self.ask(Method::GET, MANIFEST_PATH, Bytes::new()).await?;
            let index = parts.headers[SERVER_HEADER].to_str().unwrap().parse().unwrap();
            Ok(ManifestResponse { index, manifest, earlier: vec![] })
        })
    }

    fn send<'a>(&'a self, call: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        Box::pin(async move {
            let (_, body) = self.ask(Method::POST, call.route.path(), call.message).await?;
            let mut checked = ChecksumVerifier::new(call.length, response);
            body.chunks(100).try_for_each(|part| checked.part(part))?;
            checked.finish()
        })
    }
}

/// What a server can tell about its visitors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Greeting,
    Message { route: Route, bytes: usize, answer: usize },
}

/// Writes down the shape of all traffic of all servers, in order.
pub struct Recorder {
    pub inner: Arc<dyn Transport>,
    pub number: usize,
    pub log: Arc<Mutex<Vec<(usize, Seen)>>>,
}

impl Exchange for Recorder {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn greet(&self) -> TransportFuture<'_, ManifestResponse> {
        self.log.lock().unwrap().push((self.number, Seen::Greeting));
        self.inner.greet()
    }

    fn send<'a>(&'a self, call: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        let seen = Seen::Message { route: call.route, bytes: call.message.len(), answer: call.length };
        self.log.lock().unwrap().push((self.number, seen));
        self.inner.send(call, response)
    }
}

/// How a server or the way to it misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Never answers.
    Hangs,
    /// Cannot be reached.
    Unreachable,
    /// Breaks off in the middle of every answer.
    Dies,
    /// Some bytes are missing at the end.
    Truncates,
    /// Flips a bit of the key-check value.
    SpoilsCheck,
    /// Lies in the answer.
    SpoilsAnswer,
    /// Lies in the record's answer.
    SpoilsRecord,
    /// Breaks off once, then works.
    DiesOnce,
    /// Is damaged on the way once, which shows at the end, then works.
    DamagedOnce,
}

pub struct Misbehaving {
    pub inner: Arc<dyn Transport>,
    pub fault: Fault,
    pub attempts: Mutex<Vec<Bytes>>,
}

impl Exchange for Misbehaving {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn greet(&self) -> TransportFuture<'_, ManifestResponse> {
        self.inner.greet()
    }

    fn send<'a>(&'a self, call: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        self.attempts.lock().unwrap().push(call.message.clone());
        let first = self.attempts.lock().unwrap().len() == 1;
        Box::pin(async move {
            let (route, length, mut bytes) = (call.route, call.length, vec![]);
            let lead = Message::decode(&call.message).unwrap().header.stage.lead();
            self.inner.send(call, &mut bytes).await?;
            // Whoever dies has already said half of it, and that wrong.
            let half = bytes.iter().take(length / 2).map(|byte| byte ^ 0x55).collect::<Vec<u8>>();
            match (self.fault, route) {
                (Fault::Hangs, _) => std::future::pending().await,
                (Fault::Unreachable, _) => return Err(TransportError::Unreachable("refused".into())),
                (Fault::Dies, _) => {
                    response.part(&half);
                    return Err(TransportError::CutOff("reset".into()));
                }
                (Fault::DiesOnce, _) if first => {
                    response.part(&half);
                    return Err(TransportError::CutOff("reset".into()));
                }
                (Fault::DamagedOnce, _) if first => {
                    response.part(&bytes.iter().map(|byte| byte ^ 1).collect::<Vec<u8>>());
                    return Err(TransportError::Damaged);
                }
                (Fault::Truncates, _) => bytes.truncate(length - 1),
                (Fault::SpoilsCheck, _) => bytes[0] ^= 1,
                // Zeros are symbols of every field, and wrong ones: flipped bits might be none,
                // which is no lie but rubbish.
                (Fault::SpoilsAnswer, Route::Answer) | (Fault::SpoilsRecord, Route::Record) => {
                    bytes[lead..].fill(0);
                }
                _ => {}
            }
            response.part(&bytes);
            Ok(())
        })
    }
}
