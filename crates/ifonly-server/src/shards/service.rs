//! A shard: some rows of one server, for its fronts and nobody else.
//!
//! It evaluates forms, sums tables and adds up records of its rows. What becomes of these (order,
//! pads, packing) is the front's work, so a shard knows no scheme, no message and no person. It
//! keeps nothing of what it was asked.

use super::tls::ShardTls;
use super::wire;
use crate::bundle::loaded::{LoadError, check_keys, shard_check};
use crate::compute::database::SCANNER;
use crate::config::Limits;
use crate::http::listener::ServeError;
use crate::http::routes::{HEALTH_PATH, METRICS_PATH, READY_PATH};
use crate::limits::admission::{AdmissionQueue, RunPermit};
use crate::limits::eviction::{EvictingPool, PoolSlot};
use crate::shards::remote_parts::{IDENTITY, RECORDS, SUMS, VALUES};
use crate::tls::mtls_acceptor;
use crate::tls::mtls_acceptor::MtlsAcceptor;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http::{StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, Limited};
use hyper::server::conn::http1::Builder;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use ifonly_algebra::keys::RootKey;
use ifonly_bundle::BundlePart;
use ifonly_core::aont;
use ifonly_core::server_protocol::ServerProtocol;
use ifonly_scan::parts::{LocalPart, LocalRecords, RecordPart, RowPart};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self};
use zeroize::Zeroize;

/// Bytes that are sent at a time, less what is no whole row.
const PIECE_BYTES: usize = 1 << 16;
/// Pieces that may wait for the network.
const AHEAD: usize = 4;
/// How long an answer may wait for its front in all. Fronts end what takes people too long, and the
/// network ends what is for a front that died; this ends what a front has forgotten.
const FORGOTTEN: Duration = Duration::from_secs(3600);
/// Where fronts are, for limits per address.
const FRONTS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// What a shard says it is.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct ShardIdentity {
    /// The digest of the manifest, hexadecimal.
    pub(crate) manifest: String,
    /// The first row, and the one behind the last.
    pub(crate) rows: (usize, usize),
    /// For each key epoch what only servers with the same key and the same data can say.
    pub(crate) keys: Vec<(u32, String)>,
}

/// The rows of a shard, ready to answer.
pub struct LoadedShard {
    identity: ShardIdentity,
    rows: LocalPart,
    records: Vec<(u32, LocalRecords)>,
    longest: usize,
}

impl std::fmt::Debug for LoadedShard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ShardHolding(rows {:?})", self.identity.rows)
    }
}

impl LoadedShard {
    /// Shares the part's rows and seals its records under every key.
    pub fn new(part: &BundlePart, keys: Vec<RootKey>) -> Result<LoadedShard, LoadError> {
        let manifest = part.manifest();
        let keys = check_keys(manifest, keys, &part.data_digest())?;
        let protocol = ServerProtocol::new(
            1,
            manifest.digest(),
            manifest.instances().cloned(),
            keys.clone(),
            manifest.record_length(),
        );
        let length = manifest.record_length() + aont::OVERHEAD;
        let first = part.rows().start;
        let seal = |key: &RootKey| {
            let mut bytes = vec![0; length * part.rows().len()];
            for (row, (record, place)) in (first as u64..).zip(part.records().zip(bytes.chunks_exact_mut(length))) {
                protocol.encode_record_into(key, row, record, place);
            }
            (key.epoch(), LocalRecords::new(first, length, bytes))
        };
        let records = keys.iter().map(seal).collect();
        let identity = ShardIdentity {
            manifest: hex::encode(manifest.digest()),
            rows: (part.rows().start, part.rows().end),
            keys: keys.iter().map(|key| (key.epoch(), shard_check(key))).collect(),
        };
        let ranges = part.store().max_levels();
        let longest = wire::longest_values(ranges).max(protocol.longest_message().saturating_add(8));
        Ok(LoadedShard { identity, rows: LocalPart::new(&SCANNER, part.store().clone(), first), records, longest })
    }

    /// Which rows.
    pub fn rows(&self) -> Range<usize> {
        self.rows.rows()
    }
}

#[derive(Debug, Default)]
struct Counts {
    answered: AtomicU64,
    refused: AtomicU64,
    bytes: AtomicU64,
}

struct ShardState {
    loaded: LoadedShard,
    admission: AdmissionQueue,
    /// Values that are held for fronts, in bytes.
    transit: Arc<EvictingPool>,
    limits: Limits,
    counts: Counts,
}

impl ShardState {
    /// A place for so many bytes. Fronts share one, and each of them limits its clients.
    fn slot(&self, bytes: usize) -> PoolSlot {
        self.transit.enter_working(FRONTS, bytes as u64)
    }
}

/// A shard that has its ports and has not begun.
pub struct ShardServer {
    shard: Arc<ShardState>,
    inside: ShardTls,
    listener: TcpListener,
    admin: Option<TcpListener>,
}

impl std::fmt::Debug for ShardServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ShardServer({:?})", self.shard.loaded)
    }
}

impl ShardServer {
    /// Takes the ports.
    pub async fn bind(
        loaded: LoadedShard,
        inside: ShardTls,
        limits: Limits,
        listen: SocketAddr,
        admin: Option<SocketAddr>,
    ) -> Result<ShardServer, ServeError> {
        let bind =
            async |address| TcpListener::bind(address).await.map_err(|error| ServeError::Bind { address, error });
        let listener = bind(listen).await?;
        let admin = match admin {
            Some(address) => Some(bind(address).await?),
            None => None,
        };
        // One front may have all places.
        let admission = AdmissionQueue::new(limits.max_concurrent, limits.queue, 100);
        let transit = EvictingPool::new(limits.buffer_megabytes.saturating_mul(1 << 20));
        let shard = Arc::new(ShardState { loaded, admission, transit, limits, counts: Counts::default() });
        Ok(ShardServer { shard, inside, listener, admin })
    }

    /// Where fronts connect.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Where operators connect.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref()?.local_addr().ok()
    }

    /// Answers until `stop`, then finishes what it has begun.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let ShardServer { shard, inside, listener, admin } = self;
        let (limits, graceful) = (shard.limits, GracefulShutdown::new());
        if let Some(admin) = admin {
            let router = admin_routes(shard.clone());
            tokio::spawn(async move {
                loop {
                    let (socket, _) = mtls_acceptor::next(&admin).await;
                    let service = TowerToHyperService::new(router.clone());
                    tokio::spawn(http().serve_connection(TokioIo::new(socket), service));
                }
            });
        }
        tokio::select! {
            () = accept(listener, routes(shard), inside.acceptor(), &graceful) => {}
            () = stop => {}
        }
        let limit = Duration::from_secs(limits.shutdown_seconds);
        if tokio::time::timeout(limit, graceful.shutdown()).await.is_err() {
            tracing::warn!("some answers did not finish in time and were dropped");
        }
    }
}

async fn accept(listener: TcpListener, router: Router, acceptor: Arc<MtlsAcceptor>, graceful: &GracefulShutdown) {
    loop {
        let connection = mtls_acceptor::next(&listener).await;
        let (acceptor, service, watcher) =
            (acceptor.clone(), TowerToHyperService::new(router.clone()), graceful.watcher());
        tokio::spawn(async move {
            if let Some(stream) = acceptor.accept(connection).await {
                let _ = watcher.watch(http().serve_connection(TokioIo::new(stream), service)).await;
            }
        });
    }
}

fn http() -> Builder {
    let mut builder = Builder::new();
    builder.timer(TokioTimer::new());
    builder
}

fn routes(shard: Arc<ShardState>) -> Router {
    Router::new()
        .route(IDENTITY, get(|State(shard): State<Arc<ShardState>>| async move { identity(&shard) }))
        .route(VALUES, post(|State(shard), request| answer(shard, request, values)))
        .route(SUMS, post(|State(shard), request| answer(shard, request, sums)))
        .route(RECORDS, post(|State(shard), request| answer(shard, request, records)))
        .with_state(shard)
}

fn admin_routes(shard: Arc<ShardState>) -> Router {
    Router::new()
        .route(HEALTH_PATH, get(|| async { "alive\n" }))
        .route(READY_PATH, get(|| async { "ready\n" }))
        .route(METRICS_PATH, get(|State(shard): State<Arc<ShardState>>| async move { metrics(&shard) }))
        .with_state(shard)
}

fn identity(shard: &ShardState) -> Response {
    // Text and numbers always are JSON.
    serde_json::to_string(&shard.loaded.identity).unwrap_or_default().into_response()
}

fn metrics(shard: &ShardState) -> Response {
    let Counts { answered, refused, bytes } = &shard.counts;
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let text = format!(
        "# TYPE ifonly_shard_requests_total counter\n\
         ifonly_shard_requests_total{{result=\"answered\"}} {}\n\
         ifonly_shard_requests_total{{result=\"refused\"}} {}\n\
         # TYPE ifonly_shard_sent_bytes_total counter\nifonly_shard_sent_bytes_total {}\n\
         # TYPE ifonly_shard_requests_running gauge\nifonly_shard_requests_running {}\n",
        count(answered),
        count(refused),
        count(bytes),
        shard.admission.running(),
    );
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// What a shard does not answer, in words for the front's log.
struct Refused(StatusCode, String);

impl From<(StatusCode, &str)> for Refused {
    fn from((status, reason): (StatusCode, &str)) -> Refused {
        Refused(status, reason.into())
    }
}

/// Where the answer of a request goes, piece by piece.
struct Feed {
    pieces: mpsc::Sender<Bytes>,
    runtime: tokio::runtime::Handle,
    deadline: tokio::time::Instant,
    /// The right to run, until there is a first wait for the front: that may read the other shards
    /// first, or wait for somebody's network.
    permit: Option<RunPermit>,
    /// The place of what is held meanwhile, which somebody else may then get.
    slot: PoolSlot,
}

impl Feed {
    /// False when the front has gone or has not read everything in time, or when somebody else has
    /// got the place.
    fn send(&mut self, piece: Bytes) -> bool {
        let piece = match self.pieces.try_send(piece) {
            Ok(()) => return true,
            Err(TrySendError::Closed(_)) => return false,
            Err(TrySendError::Full(piece)) => piece,
        };
        if let Some(permit) = self.permit.take() {
            drop(permit);
            self.slot.rest();
        }
        self.runtime.block_on(async {
            tokio::select! {
                sent = tokio::time::timeout_at(self.deadline, self.pieces.send(piece)) => matches!(sent, Ok(Ok(()))),
                () = self.slot.evicted() => {
                    tracing::warn!("an answer that waited for its front has given way to others (--transit-megabytes)");
                    false
                }
            }
        })
    }
}

/// Begins an answer of so many bytes; what is held for it has this place.
type Begin<'b> = dyn FnMut(u64, PoolSlot) -> Feed + 'b;

type Task = fn(&ShardState, &[u8], &mut Begin<'_>) -> Result<(), Refused>;

/// A request, from its place in the queue to the first byte of its answer.
async fn answer(shard: Arc<ShardState>, request: Request, work: Task) -> Response {
    match begin(&shard, request, work).await {
        Ok((length, body)) => {
            shard.counts.answered.fetch_add(1, Ordering::Relaxed);
            shard.counts.bytes.fetch_add(length, Ordering::Relaxed);
            ([(header::CONTENT_LENGTH, length)], Body::new(body)).into_response()
        }
        Err(Refused(status, reason)) => {
            shard.counts.refused.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%status, reason, "refused");
            (status, reason).into_response()
        }
    }
}

async fn begin(shard: &Arc<ShardState>, request: Request, work: Task) -> Result<(u64, Pieces), Refused> {
    let reading = Limited::new(request.into_body(), shard.loaded.longest).collect();
    let upload = Duration::from_secs(shard.limits.upload_seconds);
    let body = match tokio::time::timeout(upload, reading).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) => return Err(Refused(StatusCode::BAD_REQUEST, format!("the request cannot be read: {error}"))),
        Err(_) => return Err((StatusCode::REQUEST_TIMEOUT, "the request did not arrive in time").into()),
    };
    let overloaded = || Refused::from((StatusCode::SERVICE_UNAVAILABLE, "the shard has as much to do as it takes"));
    let turn = shard.admission.enter(FRONTS).ok_or_else(overloaded)?;
    let waiting = Duration::from_secs(shard.limits.queue_seconds);
    let permit: RunPermit = tokio::time::timeout(waiting, turn.run()).await.ok().flatten().ok_or_else(overloaded)?;
    let (head, answered) = tokio::sync::oneshot::channel();
    let (shard, runtime) = (shard.clone(), tokio::runtime::Handle::current());
    tokio::task::spawn_blocking(move || {
        let (mut head, mut permit) = (Some(head), Some(permit));
        let deadline = tokio::time::Instant::now() + FORGOTTEN;
        let mut begin = |length: u64, slot: PoolSlot| {
            let (pieces, received) = mpsc::channel(AHEAD);
            if let Some(head) = head.take() {
                let _ = head.send(Ok((length, Pieces(received))));
            }
            Feed { pieces, runtime: runtime.clone(), deadline, permit: permit.take(), slot }
        };
        let done = work(&shard, &body, &mut begin);
        if let (Err(refused), Some(head)) = (done, head.take()) {
            let _ = head.send(Err(refused));
        }
        // Shares: where this was the only copy, it is wiped.
        if let Ok(mut body) = body.try_into_mut() {
            body.as_mut().zeroize();
        }
    });
    let failed = || Refused::from((StatusCode::INTERNAL_SERVER_ERROR, "the shard failed; its log has the reason"));
    answered.await.unwrap_or_else(|_| Err(failed()))
}

fn malformed() -> Refused {
    (StatusCode::BAD_REQUEST, "this is no request for rows of these ranges; front and shard are of different releases")
        .into()
}

fn values(shard: &ShardState, body: &[u8], begin: &mut Begin<'_>) -> Result<(), Refused> {
    let part = &shard.loaded.rows;
    let (functions, digits) = wire::read_values(body, part.ranges()).ok_or_else(malformed)?;
    let row = functions.bytes_per_row();
    let mut left = part.rows().len() * row;
    // In stored order values are computed as they are read, and nothing is held.
    let slot = shard.slot(if digits.is_some() { left } else { 0 });
    let mut values = part
        .evaluate(&functions, digits.as_ref())
        .map_err(|error| Refused(StatusCode::BAD_REQUEST, error.to_string()))?;
    let mut feed = begin(left as u64, slot);
    while left > 0 {
        let mut piece = vec![0; (PIECE_BYTES / row * row).min(left)];
        if let Err(error) = values.read(&mut piece) {
            tracing::error!(%error, "the rows gave no values");
            return Ok(());
        }
        left -= piece.len();
        if !feed.send(piece.into()) {
            return Ok(());
        }
    }
    Ok(())
}

fn sums(shard: &ShardState, body: &[u8], begin: &mut Begin<'_>) -> Result<(), Refused> {
    let part = &shard.loaded.rows;
    let entries = wire::read_sums(body, part.ranges()).ok_or_else(malformed)?;
    let mut rest = entries.as_slice();
    let tables = part.ranges().iter().map(|&range| {
        let (table, behind) = rest.split_at(range as usize + 1);
        rest = behind;
        table
    });
    let tables: Vec<&[u64]> = tables.collect();
    let slot = shard.slot(8 * part.rows().len());
    let mut sums = vec![0; part.rows().len()];
    part.table_sums(&tables, &mut sums).map_err(|error| Refused(StatusCode::BAD_REQUEST, error.to_string()))?;
    let mut feed = begin(8 * sums.len() as u64, slot);
    let mut pieces = sums.chunks(PIECE_BYTES / 8);
    let _ = pieces.all(|sums| feed.send(sums.iter().flat_map(|sum| sum.to_le_bytes()).collect()));
    sums.zeroize();
    Ok(())
}

fn records(shard: &ShardState, body: &[u8], begin: &mut Begin<'_>) -> Result<(), Refused> {
    let (epoch, selection) = wire::read_records(body).ok_or_else(malformed)?;
    let records = shard.loaded.records.iter().find(|(held, _)| *held == epoch);
    let (_, records) = records.ok_or_else(|| Refused(StatusCode::CONFLICT, format!("no key for epoch {epoch}")))?;
    let sum = SCANNER.run(|| records.sum(&selection));
    let sum = sum.map_err(|error| Refused(StatusCode::BAD_REQUEST, error.to_string()))?;
    begin(sum.len() as u64, shard.slot(sum.len())).send(sum.into());
    Ok(())
}

/// An answer on its way out. It ends early if the work did: the length in its head then tells the
/// front.
struct Pieces(mpsc::Receiver<Bytes>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}
