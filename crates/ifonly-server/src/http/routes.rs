//! The routes: `GET /v1/manifest`, `POST /v1/answer` and `POST /v1/record` for clients; health,
//! readiness and metrics on the admin port.
//!
//! A message is checked in this order: credentials, length, admission queue, upload, route,
//! manifest, protocol, availability of the rows, budget. Computation and ledger access run on
//! blocking threads. The response is streamed while it is computed.

use crate::auth::{Authorisation, CREDENTIAL_HEADERS, Pass, Stage};
use crate::bundle::loaded::LoadedBundle;
use crate::bundle::versions::BundleVersions;
use crate::compute::database::AnswerError;
use crate::compute::sealed;
use crate::config::Limits;
use crate::http::connection::{BusyGuard, ClientConnection};
use crate::http::problem::Problem;
use crate::http::response_body;
use crate::http::response_body::{ResponseBody, ResponseProgress};
use crate::limits::admission::{AdmissionQueue, RunPermit};
use crate::limits::eviction::{EvictingPool, PoolEntry};
use crate::metrics::Metrics;
use crate::peers::PeerNetwork;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use http_body_util::BodyExt;
use ifonly_core::http_api::{
    CHECKSUM_LENGTH, KEY_FINGERPRINTS_HEADER, MANIFEST_PATH, MESSAGE_TYPE, PREVIOUS_MANIFESTS_HEADER, Route,
    SERVER_INDEX_HEADER, write_fingerprints,
};
use ifonly_core::server_protocol::{CheckedRequest, Refusal};
use ifonly_core::transcript::Message;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tower_http::cors::{AllowOrigin, CorsLayer};
use tower_http::set_header::SetResponseHeaderLayer;

/// The state that all requests share.
#[derive(Debug)]
pub struct AppState {
    pub(crate) versions: BundleVersions,
    pub(crate) authorisation: RwLock<Arc<dyn Authorisation>>,
    pub(crate) admission: AdmissionQueue,
    /// Memory for messages and responses in transfer, in bytes.
    pub(crate) buffers: Arc<EvictingPool>,
    pub(crate) limits: Limits,
    pub(crate) origins: Vec<HeaderValue>,
    pub(crate) metrics: Metrics,
    pub(crate) draining: AtomicBool,
    /// The connections to the peers of sealed searches.
    pub(crate) peers: Option<Arc<PeerNetwork>>,
}

impl AppState {
    /// State for a server of `loaded`. Web pages of `origins` may search (`*` for all).
    pub fn new(
        loaded: LoadedBundle,
        authorisation: impl Into<Arc<dyn Authorisation>>,
        limits: Limits,
        origins: Vec<HeaderValue>,
    ) -> AppState {
        AppState {
            versions: BundleVersions::new(loaded),
            authorisation: RwLock::new(authorisation.into()),
            admission: AdmissionQueue::new(limits.max_concurrent, limits.queue, limits.address_percent),
            buffers: EvictingPool::new(limits.buffer_megabytes.saturating_mul(1 << 20)),
            limits,
            origins,
            metrics: Metrics::default(),
            draining: AtomicBool::new(false),
            peers: None,
        }
    }

    /// Adds the connections to the peers of sealed searches.
    pub fn with_peers(mut self, peers: Option<Arc<PeerNetwork>>) -> AppState {
        self.peers = peers;
        self
    }

    /// The bundles that are served.
    pub fn versions(&self) -> &BundleVersions {
        &self.versions
    }

    /// The metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Bytes of messages and responses in transfer.
    pub fn buffered_bytes(&self) -> u64 {
        self.buffers.used()
    }

    pub(crate) fn authorisation(&self) -> Arc<dyn Authorisation> {
        self.authorisation.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}

/// The routes for clients.
pub fn public(app: Arc<AppState>) -> Router {
    let not_get = || async { Problem::MethodNotAllowed { allow: "GET" } };
    let not_post = || async { Problem::MethodNotAllowed { allow: "POST" } };
    let router = Router::new()
        .route(MANIFEST_PATH, get(manifest).fallback(not_get))
        .route(&format!("{MANIFEST_PATH}/{{digest}}"), get(manifest).fallback(not_get))
        .route(Route::Answer.path(), post(answer).fallback(not_post))
        .route(Route::Record.path(), post(record).fallback(not_post))
        .fallback(|| async { Problem::NotFound });
    let router = match cors(&app.origins) {
        Some(cors) => router.layer(cors),
        None => router,
    };
    router
        .layer(SetResponseHeaderLayer::overriding(header::CACHE_CONTROL, HeaderValue::from_static("no-store")))
        .with_state(app)
}

pub(crate) const HEALTH_PATH: &str = "/healthz";
pub(crate) const READY_PATH: &str = "/readyz";
pub(crate) const METRICS_PATH: &str = "/metrics";

/// The routes of the admin port.
pub fn admin(app: Arc<AppState>) -> Router {
    Router::new()
        .route(HEALTH_PATH, get(|| async { "alive\n" }))
        .route(READY_PATH, get(ready))
        .route(METRICS_PATH, get(metrics))
        .fallback(|| async { Problem::NotFound })
        .with_state(app)
}

async fn ready(State(app): State<Arc<AppState>>) -> Response {
    if app.draining.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "draining\n").into_response();
    }
    match app.versions.current().map_or(Ok(()), |loaded| loaded.database().complete()) {
        Ok(()) => "ready\n".into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

async fn metrics(State(app): State<Arc<AppState>>) -> Response {
    let text = app.metrics.render(app.admission.running(), app.admission.admitted(), app.buffered_bytes());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// The CORS headers; `None` if no origin is allowed. The server uses no cookies, so `*` gives a
/// page no more rights than its visitor has.
fn cors(origins: &[HeaderValue]) -> Option<CorsLayer> {
    let any = origins.iter().any(|allowed| allowed == "*");
    let layer = CorsLayer::new()
        .allow_origin(if any { AllowOrigin::any() } else { AllowOrigin::list(origins.iter().cloned()) })
        .allow_methods([Method::GET, Method::POST])
        .allow_headers(CREDENTIAL_HEADERS.into_iter().chain([header::CONTENT_TYPE]).collect::<Vec<_>>())
        .expose_headers([
            HeaderName::from_static(SERVER_INDEX_HEADER),
            HeaderName::from_static(PREVIOUS_MANIFESTS_HEADER),
            HeaderName::from_static(KEY_FINGERPRINTS_HEADER),
            header::RETRY_AFTER,
            header::CONTENT_LENGTH,
        ])
        .max_age(Duration::from_secs(86_400));
    (!origins.is_empty()).then_some(layer)
}

/// The current manifest, or the manifest with the digest in the path.
async fn manifest(State(app): State<Arc<AppState>>, uri: Uri, headers: HeaderMap) -> Response {
    let started = Instant::now();
    let digest = uri.path().strip_prefix(MANIFEST_PATH).and_then(|rest| rest.strip_prefix('/'));
    let response = manifest_response(&app, &headers, digest).unwrap_or_else(IntoResponse::into_response);
    app.metrics.request(MANIFEST_PATH, response.status().as_u16(), started.elapsed());
    response
}

fn manifest_response(app: &AppState, headers: &HeaderMap, digest: Option<&str>) -> Result<Response, Problem> {
    app.authorisation().admit(headers)?;
    let all = app.versions.all();
    let named = |loaded: &&Arc<LoadedBundle>| digest.is_none_or(|digest| hex::encode(loaded.digest()) == digest);
    let loaded = all.iter().find(named).ok_or(Refusal::Manifest)?;
    // Servers reload one after another. With the previous digests, a client can find a manifest
    // that all servers offer.
    let previous: Vec<String> = all.iter().skip(1).map(|loaded| hex::encode(loaded.digest())).collect();
    let mut response = loaded.manifest().into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(SERVER_INDEX_HEADER, HeaderValue::from(u16::from(loaded.index())));
    if let Ok(value) = HeaderValue::from_str(&write_fingerprints(loaded.fingerprints())) {
        headers.insert(KEY_FINGERPRINTS_HEADER, value);
    }
    if let (Some(value), false) = (HeaderValue::from_str(&previous.join(",")).ok(), previous.is_empty()) {
        headers.insert(PREVIOUS_MANIFESTS_HEADER, value);
    }
    Ok(response)
}

async fn answer(State(app): State<Arc<AppState>>, request: HttpRequest) -> Response {
    respond(app, Route::Answer, request).await
}

async fn record(State(app): State<Arc<AppState>>, request: HttpRequest) -> Response {
    respond(app, Route::Record, request).await
}

async fn respond(app: Arc<AppState>, route: Route, request: HttpRequest) -> Response {
    let started = Instant::now();
    match admit(&app, route, request, started).await {
        Ok((length, body)) => {
            let headers = [
                (header::CONTENT_TYPE, HeaderValue::from_static(MESSAGE_TYPE)),
                (header::CONTENT_LENGTH, HeaderValue::from(length)),
            ];
            (headers, body).into_response()
        }
        Err(problem) => {
            let (route, status) = (route.path(), problem.status().as_u16());
            app.metrics.request(route, status, started.elapsed());
            tracing::info!(route, status, problem = problem.kind().name(), "refused");
            problem.into_response()
        }
    }
}

/// Handles a message up to the first byte of its response. Returns the length of the body and the
/// body.
async fn admit(
    app: &Arc<AppState>,
    route: Route,
    request: HttpRequest,
    started: Instant,
) -> Result<(usize, Body), Problem> {
    let pass = app.authorisation().admit(request.headers())?;
    let limit = app.versions.longest_message();
    let content_length =
        request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if content_length.is_some_and(|length: u64| length > limit as u64) {
        return Err(Problem::TooLarge { limit });
    }
    let overloaded = Problem::Overloaded { retry_after: app.limits.retry_after_seconds };
    let connection = request.extensions().get::<Arc<ClientConnection>>().cloned();
    let address = connection.as_ref().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |connection| connection.address());
    // An overloaded server refuses the request before it reads the body. It enters the queue only
    // after the upload, so that no place in the queue waits for the network.
    drop(app.admission.enter(address).ok_or(overloaded.clone())?);
    let entry = app.buffers.enter(address, content_length.unwrap_or(limit as u64)).ok_or(overloaded.clone())?;
    let body = tokio::select! {
        body = read(&app.limits, request.into_body(), limit) => body?,
        () = entry.evicted() => return Err(overloaded),
    };
    drop(entry);
    app.metrics.bytes_in.fetch_add(body.len() as u64, Ordering::Relaxed);
    let busy = connection.as_ref().map(ClientConnection::begin_work);
    let message = Message::decode(&body).map_err(Refusal::from)?;
    drop(body);
    if sealed::is_sealed(&message) {
        let response = sealed::respond(app, pass, address, message).await?;
        app.metrics.request(route.path(), 200, started.elapsed());
        app.metrics.bytes_out.fetch_add(response.len() as u64, Ordering::Relaxed);
        return Ok((response.len(), Body::from(response)));
    }
    let queued = app.admission.enter(address).ok_or(overloaded.clone())?;
    let queue_timeout = Duration::from_secs(app.limits.queue_seconds);
    let permit = tokio::time::timeout(queue_timeout, queued.run()).await.ok().flatten().ok_or(overloaded)?;
    let (sender, receiver) = oneshot::channel();
    let guard = ComputeGuard { _permit: permit, _busy: busy, entry: None };
    let task = AnswerTask { app: app.clone(), route, pass, started, address, connection };
    let runtime = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || {
        let _runtime = runtime.enter();
        task.run(message, sender, guard);
    });
    // If the task sends nothing, it has panicked: an internal error.
    let (length, reader) = receiver.await.unwrap_or(Err(Problem::Internal))?;
    Ok((length, Body::new(reader)))
}

/// Reads the whole body within `upload_seconds`, with no pause longer than `stall_seconds`.
async fn read(limits: &Limits, mut body: Body, limit: usize) -> Result<Bytes, Problem> {
    let seconds = limits.upload_seconds;
    let reading = async {
        let mut bytes = BytesMut::new();
        loop {
            let seconds = limits.stall_seconds;
            let frame = tokio::time::timeout(Duration::from_secs(seconds), body.frame()).await;
            let Some(frame) = frame.map_err(|_| Problem::UploadTimeout { seconds })? else { return Ok(bytes.freeze()) };
            let frame = frame.map_err(|_| Problem::IncompleteBody)?;
            let data = frame.data_ref().map_or(&[][..], |data| data);
            if bytes.len() + data.len() > limit {
                return Err(Problem::TooLarge { limit });
            }
            bytes.extend_from_slice(data);
        }
    };
    tokio::time::timeout(Duration::from_secs(seconds), reading).await.unwrap_or(Err(Problem::UploadTimeout { seconds }))
}

/// Held while the server computes an answer: the permit to run, and the protection from eviction.
/// Dropped when only the network is needed.
struct ComputeGuard {
    _permit: RunPermit,
    _busy: Option<BusyGuard>,
    entry: Option<Arc<PoolEntry>>,
}

impl Drop for ComputeGuard {
    fn drop(&mut self) {
        self.entry.iter().for_each(|entry| entry.end_task());
    }
}

/// The computation of one answer on a blocking thread.
struct AnswerTask {
    app: Arc<AppState>,
    route: Route,
    pass: Pass,
    started: Instant,
    address: IpAddr,
    connection: Option<Arc<ClientConnection>>,
}

/// Receives the length and the body of the response before its first byte, or a problem.
type Head = oneshot::Sender<Result<(usize, ResponseBody), Problem>>;

/// Closes the connection if the client does not read the response, or if the response was evicted.
async fn watch_response(
    progress: Arc<ResponseProgress>,
    entry: Arc<PoolEntry>,
    connection: Option<Arc<ClientConnection>>,
    app: Arc<AppState>,
) {
    let [stall, limit] = [app.limits.stall_seconds, app.limits.answer_seconds].map(Duration::from_secs);
    let finished = tokio::select! {
        watched = response_body::watch(&progress, stall, limit) => watched.is_continue(),
        () = entry.evicted() => false,
    };
    if let Some(connection) = connection.filter(|_| !finished) {
        app.metrics.stalled.fetch_add(1, Ordering::Relaxed);
        connection.close();
    }
}

impl AnswerTask {
    fn run(self, message: Message, head: Head, guard: ComputeGuard) {
        if let Err((head, problem)) = self.answer(message, head, guard) {
            let _ = head.send(Err(problem));
        }
    }

    fn answer(&self, message: Message, head: Head, mut guard: ComputeGuard) -> Result<(), (Head, Problem)> {
        // This function reads only the public header; the protocol checks the whole message.
        let header = message.header.clone();
        let expected = header.kind.route();
        if expected != self.route {
            return Err((head, Problem::WrongPath { path: expected.path() }));
        }
        let loaded = match self.app.versions.find(&header.digest) {
            Ok(loaded) => loaded,
            Err(refusal) => return Err((head, refusal.into())),
        };
        let request = match loaded.protocol().check(message) {
            Ok(request) => request,
            Err(refusal) => return Err((head, refusal.into())),
        };
        let (length, search, per_search) = match &request {
            CheckedRequest::Answer(request) => (request.response_length, request.search, 1),
            CheckedRequest::Record(request) => (request.response_length, request.search, loaded.most_records()),
        };
        // Requests that cannot be answered are not charged.
        let stage = Stage { search, kind: header.kind, per_search, searches: 1 };
        let charge = |()| self.app.authorisation().spend(&self.pass, &stage);
        if let Err(problem) = loaded.database().ready().and_then(charge) {
            return Err((head, problem));
        }
        let length = length + CHECKSUM_LENGTH;
        let capacity = loaded.database().buffer_capacity(length, self.app.limits.buffer_megabytes);
        let limit = Duration::from_secs(self.app.limits.answer_seconds);
        let (mut writer, reader, progress) = response_body::body(length, capacity, limit);
        let entry = Arc::new(self.app.buffers.enter_busy(self.address, length as u64));
        guard.entry = Some(entry.clone());
        let mut guard = Some(guard);
        // A failure before the first byte still becomes a problem document.
        let mut unsent_head = Some((head, reader));
        let written = self.write(&loaded, &request, &mut |bytes| {
            if let Some((head, reader)) = unsent_head.take() {
                if head.send(Ok((length, reader))).is_err() {
                    return ControlFlow::Break(());
                }
                let (entry, connection) = (entry.clone(), self.connection.clone());
                tokio::spawn(watch_response(progress.clone(), entry, connection, self.app.clone()));
            }
            // A writer that waits for its reader depends on the network, so it returns its permit.
            writer.send(bytes, || drop(guard.take()))
        });
        if let (Err(AnswerError::Failed(problem)), Some((head, _))) = (&written, unsent_head.take()) {
            return Err((head, problem.clone()));
        }
        // From here on, the response needs only the network.
        drop(guard);
        let (route, scheme, stage) = (self.route.path(), header.scheme.as_str(), header.kind);
        let took = self.started.elapsed();
        self.app.metrics.request(route, 200, took);
        match written {
            Ok(()) => self.app.metrics.bytes_out.fetch_add(length as u64, Ordering::Relaxed),
            Err(_) => self.app.metrics.aborted.fetch_add(1, Ordering::Relaxed),
        };
        let milliseconds = took.as_millis() as u64;
        tracing::info!(route, scheme, ?stage, complete = written.is_ok(), milliseconds, "answered");
        Ok(())
    }

    fn write(
        &self,
        loaded: &LoadedBundle,
        request: &CheckedRequest<'_>,
        out: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), AnswerError> {
        let mut hasher = blake3::Hasher::new();
        let mut sink = |bytes: &[u8]| {
            hasher.update(bytes);
            out(bytes)
        };
        match request {
            CheckedRequest::Answer(request) => loaded.database().answer(request, &mut sink)?,
            CheckedRequest::Record(request) => loaded.database().record(loaded.index(), request, &mut sink)?,
        }
        match out(&hasher.finalize().as_bytes()[..CHECKSUM_LENGTH]) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(AnswerError::Stopped),
        }
    }
}
