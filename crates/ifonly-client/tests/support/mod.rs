//! A small database, its servers in this process, and transports with faults.
#![allow(dead_code, missing_docs, unreachable_pub)]

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_bundle::Bundle;
use ifonly_client::transport::credential::Credential;
use ifonly_client::transport::retry::TokioClock;
use ifonly_client::transport::{ChecksumVerifier, Exchange, ServerRequest, TransportFuture};
use ifonly_client::{
    Client, ManifestResponse, Pins, ProfileValues, ResponseSink, RetryPolicy, Retrying, Route, ServedManifest,
    Transport, TransportError,
};
use ifonly_core::http_api::{KEY_FINGERPRINTS_HEADER, MANIFEST_PATH, SERVER_INDEX_HEADER};
use ifonly_core::signature::{SIGNATURE_LENGTH, SigningKey};
use ifonly_core::transcript::Message;
use ifonly_scan::RowStore;
use ifonly_server::LoadedBundle;
use ifonly_server::auth::account_tokens::AccountTokens;
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

/// The signing key of the institution.
pub fn signing_key() -> SigningKey {
    SigningKey::new(&[9; 32])
}

/// A random database with its manifest and root key.
#[derive(Clone)]
pub struct TestDatabase {
    pub manifest: Manifest,
    pub levels: Vec<Vec<u16>>,
    pub texts: Vec<Vec<String>>,
    pub key: [u8; 32],
}

impl TestDatabase {
    pub fn new(rows: usize, servers: u8, seed: u64, tune: impl FnOnce(&mut ManifestFields)) -> TestDatabase {
        let schema = schema();
        let mut random = SeededRandom::new(seed);
        let levels: Vec<Vec<u16>> = (0..rows)
            .map(|_| vec![random.below(10), random.below(7), 4 * random.below(2), random.below(3)])
            .map(|row| row.into_iter().map(|level| level as u16).collect())
            .collect();
        TestDatabase::with_levels(schema, levels, servers, tune)
    }

    /// A database with these rows.
    pub fn with_levels(
        schema: Schema,
        levels: Vec<Vec<u16>>,
        servers: u8,
        tune: impl FnOnce(&mut ManifestFields),
    ) -> TestDatabase {
        let texts: Vec<Vec<String>> = levels
            .iter()
            .map(|row| {
                let features = schema.features().iter().zip(row);
                features.map(|(feature, &level)| feature.decode_level(level.into()).unwrap().to_string()).collect()
            })
            .collect();
        let length = texts.iter().map(|texts| record::encoded_length(texts)).max().unwrap();
        let mut fields = ManifestFields::new("test", schema, levels.len(), length + SIGNATURE_LENGTH, servers);
        fields.signer = Some(signing_key().public());
        tune(&mut fields);
        fields.offer_all();
        let manifest = Manifest::new(fields).unwrap();
        TestDatabase { manifest, levels, texts, key: [7; 32] }
    }

    /// The record of a row, signed with this key if records are signed.
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
        let tokens = AccountTokens::new(vec![], None).unwrap();
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

    /// Values with these levels.
    pub fn values(&self, x: &[u32]) -> ProfileValues {
        let features = self.manifest.schema().features().iter().zip(x);
        features.map(|(feature, &level)| (feature.name.clone(), feature.decode_level(level).unwrap())).collect()
    }
}

/// The same servers, with retries.
pub fn retrying(servers: Vec<Arc<dyn Transport>>, policy: RetryPolicy) -> Vec<Arc<dyn Transport>> {
    servers
        .into_iter()
        .map(|server| Arc::new(Retrying::new(server, policy, Arc::new(TokioClock::start()))) as Arc<dyn Transport>)
        .collect()
}

/// A server in this process, without a network.
pub struct InProcess {
    pub router: Router,
    pub name: String,
}

impl InProcess {
    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        credential: Option<Credential>,
    ) -> Result<(http::response::Parts, Bytes), TransportError> {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(credential) = &credential {
            request = request.header(credential.header(), credential.value());
        }
        let request = request.body(Body::from(body)).unwrap();
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

    fn fetch_manifest(&self) -> TransportFuture<'_, ManifestResponse> {
        Box::pin(async {
            let (parts, json) = self.request(Method::GET, MANIFEST_PATH, Bytes::new(), None).await?;
            let index = parts.headers[SERVER_INDEX_HEADER].to_str().unwrap().parse().unwrap();
            let key_fingerprints = parts.headers[KEY_FINGERPRINTS_HEADER].to_str().unwrap().into();
            Ok(ManifestResponse { index, manifest: ServedManifest { json, key_fingerprints }, previous: vec![] })
        })
    }

    fn send<'a>(&'a self, request: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        Box::pin(async move {
            let (_, body) =
                self.request(Method::POST, request.route.path(), request.message, request.credential).await?;
            let mut verifier = ChecksumVerifier::new(request.length, response);
            body.chunks(100).try_for_each(|part| verifier.part(part))?;
            verifier.finish()
        })
    }
}

/// One request as a server observes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObservedRequest {
    Manifest,
    Message { route: Route, bytes: usize, answer: usize },
}

/// Records which requests all servers observe, in order.
pub struct Recorder {
    pub inner: Arc<dyn Transport>,
    pub number: usize,
    pub log: Arc<Mutex<Vec<(usize, ObservedRequest)>>>,
}

impl Exchange for Recorder {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn fetch_manifest(&self) -> TransportFuture<'_, ManifestResponse> {
        self.log.lock().unwrap().push((self.number, ObservedRequest::Manifest));
        self.inner.fetch_manifest()
    }

    fn send<'a>(&'a self, request: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        let bytes = request.message.len();
        let observed = ObservedRequest::Message { route: request.route, bytes, answer: request.length };
        self.log.lock().unwrap().push((self.number, observed));
        self.inner.send(request, response)
    }
}

/// A fault of a server or of the connection to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Never answers.
    Hangs,
    /// Cannot be reached.
    Unreachable,
    /// Closes the connection in the middle of every answer.
    Dies,
    /// The last byte of every response is missing.
    Truncates,
    /// Flips a bit of the key-check value.
    WrongKeyCheck,
    /// Lies in the answers of phases.
    WrongAnswer,
    /// Lies in the answers of record fetches.
    WrongRecord,
    /// Closes the connection once, then works.
    DiesOnce,
    /// The first response is damaged in transit, which shows at its end; later ones are not.
    DamagedOnce,
}

/// A server with a fault. It records the messages that it receives.
pub struct Faulty {
    pub inner: Arc<dyn Transport>,
    pub fault: Fault,
    pub attempts: Mutex<Vec<Bytes>>,
}

impl Exchange for Faulty {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn fetch_manifest(&self) -> TransportFuture<'_, ManifestResponse> {
        self.inner.fetch_manifest()
    }

    fn send<'a>(&'a self, request: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        self.attempts.lock().unwrap().push(request.message.clone());
        let first = self.attempts.lock().unwrap().len() == 1;
        Box::pin(async move {
            let (route, length, mut bytes) = (request.route, request.length, vec![]);
            let lead = Message::decode(&request.message).unwrap().header.kind.lead();
            self.inner.send(request, &mut bytes).await?;
            // A server that dies has already sent one half, and that half is wrong.
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
                (Fault::WrongKeyCheck, _) => bytes[0] ^= 1,
                // Zeros are wrong but valid field elements. Flipped bits may be no field element,
                // which is a malformed answer instead of a lie.
                (Fault::WrongAnswer, Route::Answer) | (Fault::WrongRecord, Route::Record) => {
                    bytes[lead..].fill(0);
                }
                _ => {}
            }
            response.part(&bytes);
            Ok(())
        })
    }
}
