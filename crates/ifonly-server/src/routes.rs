//! The HTTP surface: `GET /v1/manifest`, `POST /v1/answer`, `POST /v1/record`, and on the admin port health, readiness and
//! metrics. Everything that costs time runs on blocking threads.

use crate::admission::{Admission, Permit};
use crate::config::Limits;
use crate::database::Database;
use crate::holding::{Holding, Shelf};
use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::stream::{self, Reader, Writer};
use crate::tokens::{Bearer, Tokens};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use ifonly_core::replica::{Refusal, Request};
use ifonly_core::service::{CHECKSUM_LENGTH, MANIFEST_PATH, MESSAGE_TYPE, Route, SERVER_HEADER};
use ifonly_core::transcript::Message;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tower_http::cors::{AllowOrigin, CorsLayer};
use tower_http::set_header::SetResponseHeaderLayer;

/// All that requests share.
#[derive(Debug)]
pub struct App {
    pub(crate) shelf: Shelf,
    pub(crate) tokens: RwLock<Arc<Tokens>>,
    pub(crate) admission: Admission,
    pub(crate) limits: Limits,
    pub(crate) origins: Vec<HeaderValue>,
    pub(crate) metrics: Metrics,
    pub(crate) draining: AtomicBool,
}

impl App {
    /// Serves `holding` within `limits`; browsers may ask from `origins` (`*` for any).
    pub fn new(holding: Holding, tokens: Tokens, limits: Limits, origins: Vec<HeaderValue>) -> App {
        App {
            shelf: Shelf::new(holding),
            tokens: RwLock::new(Arc::new(tokens)),
            admission: Admission::new(limits.running, limits.queue),
            limits,
            origins,
            metrics: Metrics::default(),
            draining: AtomicBool::new(false),
        }
    }

    /// The versions held.
    pub fn shelf(&self) -> &Shelf {
        &self.shelf
    }

    /// The numbers.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn tokens(&self) -> Arc<Tokens> {
        self.tokens.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}

/// The paths for clients.
pub fn public(app: Arc<App>) -> Router {
    let not_get = || async { Problem::Method { allow: "GET" } };
    let not_post = || async { Problem::Method { allow: "POST" } };
    Router::new()
        .route(MANIFEST_PATH, get(manifest).fallback(not_get))
        .route(Route::Answer.path(), post(answer).fallback(not_post))
        .route(Route::Record.path(), post(record).fallback(not_post))
        .fallback(|| async { Problem::NotFound })
        .layer(cors(&app.origins))
        .layer(SetResponseHeaderLayer::overriding(header::CACHE_CONTROL, HeaderValue::from_static("no-store")))
        .with_state(app)
}

/// The paths for operators.
pub fn admin(app: Arc<App>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "alive\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .fallback(|| async { Problem::NotFound })
        .with_state(app)
}

async fn ready(State(app): State<Arc<App>>) -> Response {
    match app.draining.load(Ordering::Relaxed) {
        true => (StatusCode::SERVICE_UNAVAILABLE, "draining\n").into_response(),
        false => "ready\n".into_response(),
    }
}

async fn metrics(State(app): State<Arc<App>>) -> Response {
    let text = app.metrics.render(app.admission.running(), app.admission.inside());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// Browsers ask first and want permission in every response. Nothing here rests on cookies, so any origin may be allowed.
fn cors(origins: &[HeaderValue]) -> CorsLayer {
    let any = origins.iter().any(|allowed| allowed == "*");
    CorsLayer::new()
        .allow_origin(if any { AllowOrigin::any() } else { AllowOrigin::list(origins.iter().cloned()) })
        .allow_methods([Method::GET, Method::POST])
        .allow_headers([header::AUTHORIZATION, header::CONTENT_TYPE])
        .expose_headers([HeaderName::from_static(SERVER_HEADER), header::RETRY_AFTER, header::CONTENT_LENGTH])
        .max_age(Duration::from_secs(86_400))
}

async fn manifest(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let started = Instant::now();
    let bearer = app.tokens().bearer(headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes));
    let response = match (bearer, app.shelf.current()) {
        (Err(problem), _) => problem.into_response(),
        (_, None) => Problem::Internal.into_response(),
        (Ok(_), Some(holding)) => {
            let headers = [
                (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
                (HeaderName::from_static(SERVER_HEADER), HeaderValue::from(u16::from(holding.index()))),
            ];
            (headers, holding.manifest()).into_response()
        }
    };
    app.metrics.request(MANIFEST_PATH, response.status().as_u16(), started.elapsed());
    response
}

async fn answer(State(app): State<Arc<App>>, request: HttpRequest) -> Response {
    respond(app, Route::Answer, request).await
}

async fn record(State(app): State<Arc<App>>, request: HttpRequest) -> Response {
    respond(app, Route::Record, request).await
}

async fn respond(app: Arc<App>, route: Route, request: HttpRequest) -> Response {
    let started = Instant::now();
    match admit(&app, route, request, started).await {
        Ok((length, reader)) => {
            let headers = [
                (header::CONTENT_TYPE, HeaderValue::from_static(MESSAGE_TYPE)),
                (header::CONTENT_LENGTH, HeaderValue::from(length)),
            ];
            (headers, Body::new(reader)).into_response()
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
    app: &Arc<App>,
    route: Route,
    request: HttpRequest,
    started: Instant,
) -> Result<(usize, Reader), Problem> {
    let authorization = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let bearer = app.tokens().bearer(authorization)?;
    let limit = app.shelf.longest_message();
    let claimed = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if claimed.is_some_and(|claimed: u64| claimed > limit as u64) {
        return Err(Problem::TooLarge { limit });
    }
    let overloaded = Problem::Overloaded { retry_after: app.limits.retry_after_seconds };
    let ticket = app.admission.enter().ok_or(overloaded.clone())?;
    let body = read(app, request.into_body(), limit).await?;
    app.metrics.bytes_in.fetch_add(body.len() as u64, Ordering::Relaxed);
    let waiting = Duration::from_secs(app.limits.queue_seconds);
    let permit = tokio::time::timeout(waiting, ticket.run()).await.ok().flatten().ok_or(overloaded)?;
    let (sender, receiver) = oneshot::channel();
    let answering = Answering { app: app.clone(), route, body, bearer, started, _permit: permit };
    let runtime = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || {
        let _inside = runtime.enter();
        answering.run(sender);
    });
    // Without a word from the work it has panicked, which is a fault of this program.
    receiver.await.unwrap_or(Err(Problem::Internal))
}

async fn read(app: &App, body: Body, limit: usize) -> Result<Bytes, Problem> {
    let seconds = app.limits.upload_seconds;
    let collected = tokio::time::timeout(Duration::from_secs(seconds), Limited::new(body, limit).collect()).await;
    match collected {
        Err(_) => Err(Problem::TooSlow { seconds }),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Problem::TooLarge { limit }),
        Ok(Err(_)) => Err(Problem::Unreadable),
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
    }
}

/// One request on its blocking thread.
struct Answering {
    app: Arc<App>,
    route: Route,
    body: Bytes,
    bearer: Bearer,
    started: Instant,
    _permit: Permit,
}

type Head = oneshot::Sender<Result<(usize, Reader), Problem>>;

impl Answering {
    fn run(self, head: Head) {
        if let Err((head, problem)) = self.checked(head) {
            let _ = head.send(Err(problem));
        }
    }

    fn checked(&self, head: Head) -> Result<(), (Head, Problem)> {
        // Nothing but the public header is looked at here; the replica checks the message as a whole.
        let message = match Message::decode(&self.body) {
            Ok(message) => message,
            Err(error) => return Err((head, Refusal::from(error).into())),
        };
        let header = message.header.clone();
        let right = header.stage.route();
        if right != self.route {
            return Err((head, Problem::WrongPath { path: right.path() }));
        }
        let holding = match self.app.shelf.find(&header.digest) {
            Ok(holding) => holding,
            Err(refusal) => return Err((head, refusal.into())),
        };
        let request = match holding.replica().check(message) {
            Ok(request) => request,
            Err(refusal) => return Err((head, refusal.into())),
        };
        let (length, per_session) = match &request {
            Request::Answer(ask) => (Database::answer_length(ask), 1),
            Request::Record(ask) => (Database::record_length(ask), holding.most_records()),
        };
        if let Err(problem) = self.app.tokens().spend(self.bearer, header.stage, per_session) {
            return Err((head, problem));
        }
        let length = length + CHECKSUM_LENGTH;
        let (mut writer, reader) = stream::body(length, Duration::from_secs(self.app.limits.answer_seconds));
        if head.send(Ok((length, reader))).is_err() {
            return Ok(());
        }
        let whole = self.write(&holding, &request, &mut writer);
        let (route, scheme, stage) = (self.route.path(), header.scheme.as_str(), header.stage);
        let took = self.started.elapsed();
        self.app.metrics.request(route, 200, took);
        match whole {
            ControlFlow::Continue(()) => self.app.metrics.bytes_out.fetch_add(length as u64, Ordering::Relaxed),
            ControlFlow::Break(()) => self.app.metrics.aborted.fetch_add(1, Ordering::Relaxed),
        };
        let milliseconds = took.as_millis() as u64;
        tracing::info!(route, scheme, ?stage, whole = whole.is_continue(), milliseconds, "answered");
        Ok(())
    }

    fn write(&self, holding: &Holding, request: &Request<'_>, writer: &mut Writer) -> ControlFlow<()> {
        let mut hasher = blake3::Hasher::new();
        let mut sink = |bytes: &[u8]| {
            hasher.update(bytes);
            writer.send(bytes)
        };
        let sent = match request {
            Request::Answer(ask) => holding.database().answer(ask, &mut sink),
            Request::Record(ask) => holding.database().record(holding.index(), ask, &mut sink),
        };
        sent?;
        writer.send(&hasher.finalize().as_bytes()[..CHECKSUM_LENGTH])
    }
}
