//! The HTTP surface: `GET /v1/manifest`, `POST /v1/answer`, `POST /v1/record`, and on the admin
//! port health, readiness and metrics. Everything that costs time runs on blocking threads.

use crate::auth::tokens::{Bearer, Tokens};
use crate::bundle::loaded::{BundleVersions, LoadedBundle};
use crate::compute::database::{AnswerError, Database};
use crate::compute::sealed;
use crate::config::Limits;
use crate::http::connection::{BusyGuard, ClientConnection};
use crate::http::problem::Problem;
use crate::http::response_body;
use crate::http::response_body::{ResponseBody, ResponseProgress};
use crate::limits::admission::{AdmissionQueue, RunPermit};
use crate::limits::eviction::{EvictingPool, PoolSlot};
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
use ifonly_core::http_api::{CHECKSUM_LENGTH, EARLIER_HEADER, MANIFEST_PATH, MESSAGE_TYPE, Route, SERVER_HEADER};
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

/// All that requests share.
#[derive(Debug)]
pub struct AppState {
    pub(crate) versions: BundleVersions,
    pub(crate) tokens: RwLock<Arc<Tokens>>,
    pub(crate) admission: AdmissionQueue,
    /// Messages on their way in and answers on their way out, in bytes.
    pub(crate) transit: Arc<EvictingPool>,
    pub(crate) limits: Limits,
    pub(crate) origins: Vec<HeaderValue>,
    pub(crate) metrics: Metrics,
    pub(crate) draining: AtomicBool,
    /// The lines to the other servers of sealed searches.
    pub(crate) peers: Option<Arc<PeerNetwork>>,
}

impl AppState {
    /// Serves `holding` within `limits`; browsers may ask from `origins` (`*` for any).
    pub fn new(loaded: LoadedBundle, tokens: Tokens, limits: Limits, origins: Vec<HeaderValue>) -> AppState {
        AppState {
            versions: BundleVersions::new(loaded),
            tokens: RwLock::new(Arc::new(tokens)),
            admission: AdmissionQueue::new(limits.max_concurrent, limits.queue, limits.address_percent),
            transit: EvictingPool::new(limits.buffer_megabytes.saturating_mul(1 << 20)),
            limits,
            origins,
            metrics: Metrics::default(),
            draining: AtomicBool::new(false),
            peers: None,
        }
    }

    /// With lines to the other servers of sealed searches.
    pub fn with_peers(mut self, peers: Option<Arc<PeerNetwork>>) -> AppState {
        self.peers = peers;
        self
    }

    /// The versions held.
    pub fn versions(&self) -> &BundleVersions {
        &self.versions
    }

    /// The numbers.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Bytes of messages and answers on their way.
    pub fn in_transit(&self) -> u64 {
        self.transit.taken()
    }

    pub(crate) fn tokens(&self) -> Arc<Tokens> {
        self.tokens.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}

/// The paths for clients.
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

/// The paths for operators.
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
    let text = app.metrics.render(app.admission.running(), app.admission.inside(), app.in_transit());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// Browsers ask first and want permission in every response. Nothing here rests on cookies, so any
/// origin may be allowed; without one there is nothing for browsers.
fn cors(origins: &[HeaderValue]) -> Option<CorsLayer> {
    let any = origins.iter().any(|allowed| allowed == "*");
    let layer = CorsLayer::new()
        .allow_origin(if any { AllowOrigin::any() } else { AllowOrigin::list(origins.iter().cloned()) })
        .allow_methods([Method::GET, Method::POST])
        .allow_headers([header::AUTHORIZATION, header::CONTENT_TYPE])
        .expose_headers([
            HeaderName::from_static(SERVER_HEADER),
            HeaderName::from_static(EARLIER_HEADER),
            header::RETRY_AFTER,
            header::CONTENT_LENGTH,
        ])
        .max_age(Duration::from_secs(86_400));
    (!origins.is_empty()).then_some(layer)
}

/// The current manifest, or the one with the digest in the path.
async fn manifest(State(app): State<Arc<AppState>>, uri: Uri, headers: HeaderMap) -> Response {
    let started = Instant::now();
    let authorization = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let digest = uri.path().strip_prefix(MANIFEST_PATH).and_then(|rest| rest.strip_prefix('/'));
    let response = offered(&app, authorization, digest).unwrap_or_else(IntoResponse::into_response);
    app.metrics.request(MANIFEST_PATH, response.status().as_u16(), started.elapsed());
    response
}

fn offered(app: &AppState, authorization: Option<&[u8]>, digest: Option<&str>) -> Result<Response, Problem> {
    app.tokens().bearer(authorization)?;
    let all = app.versions.all();
    let named = |loaded: &&Arc<LoadedBundle>| digest.is_none_or(|digest| hex::encode(loaded.digest()) == digest);
    let loaded = all.iter().find(named).ok_or(Refusal::Manifest)?;
    // Servers are reloaded one after another, and clients need one manifest that all of them offer.
    let earlier: Vec<String> = all.iter().skip(1).map(|loaded| hex::encode(loaded.digest())).collect();
    let mut response = loaded.manifest().into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(SERVER_HEADER, HeaderValue::from(u16::from(loaded.index())));
    if let (Some(earlier), false) = (HeaderValue::from_str(&earlier.join(",")).ok(), earlier.is_empty()) {
        headers.insert(EARLIER_HEADER, earlier);
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

/// Everything up to the first byte of the answer.
async fn admit(
    app: &Arc<AppState>,
    route: Route,
    request: HttpRequest,
    started: Instant,
) -> Result<(usize, Body), Problem> {
    let authorization = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let bearer = app.tokens().bearer(authorization)?;
    let limit = app.versions.longest_message();
    let claimed = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if claimed.is_some_and(|claimed: u64| claimed > limit as u64) {
        return Err(Problem::TooLarge { limit });
    }
    let overloaded = Problem::Overloaded { retry_after: app.limits.retry_after_seconds };
    let connection = request.extensions().get::<Arc<ClientConnection>>().cloned();
    let address = connection.as_ref().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |connection| connection.address());
    // Whoever would get no turn is told so before the body is read; the turn itself waits for no
    // upload.
    drop(app.admission.enter(address).ok_or(overloaded.clone())?);
    let slot = app.transit.enter(address, claimed.unwrap_or(limit as u64)).ok_or(overloaded.clone())?;
    let body = tokio::select! {
        body = read(&app.limits, request.into_body(), limit) => body?,
        () = slot.evicted() => return Err(overloaded),
    };
    drop(slot);
    app.metrics.bytes_in.fetch_add(body.len() as u64, Ordering::Relaxed);
    let working = connection.as_ref().map(ClientConnection::work);
    let message = Message::decode(&body).map_err(Refusal::from)?;
    drop(body);
    if sealed::is_asked_for(&message) {
        let whole = sealed::respond(app, bearer, message).await?;
        app.metrics.request(route.path(), 200, started.elapsed());
        app.metrics.bytes_out.fetch_add(whole.len() as u64, Ordering::Relaxed);
        return Ok((whole.len(), Body::from(whole)));
    }
    let turn = app.admission.enter(address).ok_or(overloaded.clone())?;
    let waiting = Duration::from_secs(app.limits.queue_seconds);
    let permit = tokio::time::timeout(waiting, turn.run()).await.ok().flatten().ok_or(overloaded)?;
    let (sender, receiver) = oneshot::channel();
    let at_work = ComputeGuard { _permit: permit, _working: working, slot: None };
    let answering = AnswerTask { app: app.clone(), route, bearer, started, address, connection };
    let runtime = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || {
        let _inside = runtime.enter();
        answering.run(message, sender, at_work);
    });
    // Without a word from the work it has panicked, which is a fault of this program.
    let (length, reader) = receiver.await.unwrap_or(Err(Problem::Internal))?;
    Ok((length, Body::new(reader)))
}

/// The whole body, which must be here in time and never stand still for long.
async fn read(limits: &Limits, mut body: Body, limit: usize) -> Result<Bytes, Problem> {
    let seconds = limits.upload_seconds;
    let reading = async {
        let mut whole = BytesMut::new();
        loop {
            let seconds = limits.stall_seconds;
            let frame = tokio::time::timeout(Duration::from_secs(seconds), body.frame()).await;
            let Some(frame) = frame.map_err(|_| Problem::UploadTimeout { seconds })? else { return Ok(whole.freeze()) };
            let frame = frame.map_err(|_| Problem::IncompleteBody)?;
            let data = frame.data_ref().map_or(&[][..], |data| data);
            if whole.len() + data.len() > limit {
                return Err(Problem::TooLarge { limit });
            }
            whole.extend_from_slice(data);
        }
    };
    tokio::time::timeout(Duration::from_secs(seconds), reading).await.unwrap_or(Err(Problem::UploadTimeout { seconds }))
}

/// What an answer has as long as it waits for nobody's network: the right to run, and places that
/// nobody else may get.
struct ComputeGuard {
    _permit: RunPermit,
    _working: Option<BusyGuard>,
    slot: Option<Arc<PoolSlot>>,
}

impl Drop for ComputeGuard {
    fn drop(&mut self) {
        self.slot.iter().for_each(|slot| slot.rest());
    }
}

/// One request on its blocking thread.
struct AnswerTask {
    app: Arc<AppState>,
    route: Route,
    bearer: Bearer,
    started: Instant,
    address: IpAddr,
    connection: Option<Arc<ClientConnection>>,
}

type Head = oneshot::Sender<Result<(usize, ResponseBody), Problem>>;

/// Ends the connection of an answer that nobody reads, or whose place somebody else has got.
async fn see_out(
    progress: Arc<ResponseProgress>,
    slot: Arc<PoolSlot>,
    connection: Option<Arc<ClientConnection>>,
    app: Arc<AppState>,
) {
    let [stall, limit] = [app.limits.stall_seconds, app.limits.answer_seconds].map(Duration::from_secs);
    let read = tokio::select! {
        watched = response_body::watch(&progress, stall, limit) => watched.is_continue(),
        () = slot.evicted() => false,
    };
    if let Some(connection) = connection.filter(|_| !read) {
        app.metrics.unread.fetch_add(1, Ordering::Relaxed);
        connection.close();
    }
}

impl AnswerTask {
    fn run(self, message: Message, head: Head, at_work: ComputeGuard) {
        if let Err((head, problem)) = self.checked(message, head, at_work) {
            let _ = head.send(Err(problem));
        }
    }

    fn checked(&self, message: Message, head: Head, mut at_work: ComputeGuard) -> Result<(), (Head, Problem)> {
        // Nothing but the public header is looked at here; the replica checks the message as a
        // whole.
        let header = message.header.clone();
        let right = header.stage.route();
        if right != self.route {
            return Err((head, Problem::WrongPath { path: right.path() }));
        }
        let loaded = match self.app.versions.find(&header.digest) {
            Ok(loaded) => loaded,
            Err(refusal) => return Err((head, refusal.into())),
        };
        let request = match loaded.protocol().check(message) {
            Ok(request) => request,
            Err(refusal) => return Err((head, refusal.into())),
        };
        let (length, per_session) = match &request {
            CheckedRequest::Answer(ask) => (Database::answer_length(ask), 1),
            CheckedRequest::Record(ask) => (Database::record_length(ask), loaded.most_records()),
            CheckedRequest::Sealed(_) => return Err((head, Problem::Internal)),
        };
        // Nobody pays for what cannot be had.
        let paid = |()| self.app.tokens().spend(self.bearer, header.stage, per_session);
        if let Err(problem) = loaded.database().ready().and_then(paid) {
            return Err((head, problem));
        }
        let length = length + CHECKSUM_LENGTH;
        let room = loaded.database().room(length, self.app.limits.buffer_megabytes);
        let limit = Duration::from_secs(self.app.limits.answer_seconds);
        let (mut writer, reader, progress) = response_body::body(length, room, limit);
        let slot = Arc::new(self.app.transit.enter_working(self.address, length as u64));
        at_work.slot = Some(slot.clone());
        let mut at_work = Some(at_work);
        // What fails before the first byte is still told.
        let mut waiting = Some((head, reader));
        let whole = self.write(&loaded, &request, &mut |bytes| {
            if let Some((head, reader)) = waiting.take() {
                if head.send(Ok((length, reader))).is_err() {
                    return ControlFlow::Break(());
                }
                let (slot, connection) = (slot.clone(), self.connection.clone());
                tokio::spawn(see_out(progress.clone(), slot, connection, self.app.clone()));
            }
            // Once it has waited for its reader it needs the network more than anything else.
            writer.send(bytes, || drop(at_work.take()))
        });
        if let (Err(AnswerError::Failed(problem)), Some((head, _))) = (&whole, waiting.take()) {
            return Err((head, problem.clone()));
        }
        // From here on the answer needs nothing but its client's network.
        drop(at_work);
        let (route, scheme, stage) = (self.route.path(), header.scheme.as_str(), header.stage);
        let took = self.started.elapsed();
        self.app.metrics.request(route, 200, took);
        match whole {
            Ok(()) => self.app.metrics.bytes_out.fetch_add(length as u64, Ordering::Relaxed),
            Err(_) => self.app.metrics.aborted.fetch_add(1, Ordering::Relaxed),
        };
        let milliseconds = took.as_millis() as u64;
        tracing::info!(route, scheme, ?stage, whole = whole.is_ok(), milliseconds, "answered");
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
            CheckedRequest::Answer(ask) => loaded.database().answer(ask, &mut sink)?,
            CheckedRequest::Record(ask) => loaded.database().record(loaded.index(), ask, &mut sink)?,
            CheckedRequest::Sealed(_) => return Err(AnswerError::Failed(Problem::Internal)),
        }
        match out(&hasher.finalize().as_bytes()[..CHECKSUM_LENGTH]) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(AnswerError::Stopped),
        }
    }
}
