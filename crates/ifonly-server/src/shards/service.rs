//! A shard: serves some rows of one server to its frontends.
//!
//! It evaluates row functions, sums tables and adds records of its rows. The frontend applies row
//! order, pads and packing. So a shard knows no schemes and no client messages, and it keeps
//! nothing of a request.

use super::tls::ShardTls;
use super::wire;
use crate::bundle::loaded::{LoadError, check_keys, shard_check};
use crate::compute::database::SCANNER;
use crate::config::Limits;
use crate::http::listener::ServeError;
use crate::http::routes::{HEALTH_PATH, METRICS_PATH, READY_PATH};
use crate::limits::admission::{AdmissionQueue, RunPermit};
use crate::limits::eviction::{EvictingPool, PoolEntry};
use crate::shards::remote_parts::{IDENTITY, RECORDS, SUMS, VALUES, WORDS};
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
use ifonly_algebra::shuffle::BucketIndices;
use ifonly_bundle::BundlePart;
use ifonly_core::aont;
use ifonly_core::server_protocol::ServerProtocol;
use ifonly_scan::parts::{LocalPart, LocalRecords, PartError, RecordPart, RowPart, ValueStream};
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

/// Maximum size of one piece of a response in bytes; pieces hold complete rows.
const PIECE_BYTES: usize = 1 << 16;
/// Maximum number of pieces that wait for the network.
const QUEUED_PIECES: usize = 4;
/// Time limit of a whole response. Frontends end requests of slow clients, and TCP ends those of
/// dead frontends. This limit ends requests that a frontend never reads.
const RESPONSE_LIMIT: Duration = Duration::from_secs(3600);
/// Common address of all frontends, for limits per address.
const FRONTENDS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct ShardIdentity {
    /// Digest of the manifest, in hexadecimal.
    pub(crate) manifest: String,
    /// First row, and last row plus 1.
    pub(crate) rows: (usize, usize),
    /// For each key epoch a check value that is equal only with the same key and data.
    pub(crate) keys: Vec<(u32, String)>,
}

/// The loaded rows and records of a shard.
pub struct LoadedShard {
    identity: ShardIdentity,
    rows: LocalPart,
    records: Vec<(u32, LocalRecords)>,
    longest: usize,
}

impl std::fmt::Debug for LoadedShard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LoadedShard(rows {:?})", self.identity.rows)
    }
}

impl LoadedShard {
    /// Takes the rows of a part and encodes its records under every key.
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
        let encode = |key: &RootKey| {
            let mut bytes = vec![0; length * part.rows().len()];
            for (row, (record, target)) in (first as u64..).zip(part.records().zip(bytes.chunks_exact_mut(length))) {
                protocol.encode_record_into(key, row, record, target);
            }
            (key.epoch(), LocalRecords::new(first, length, bytes))
        };
        let records = keys.iter().map(encode).collect();
        let identity = ShardIdentity {
            manifest: hex::encode(manifest.digest()),
            rows: (part.rows().start, part.rows().end),
            keys: keys.iter().map(|key| (key.epoch(), shard_check(key))).collect(),
        };
        let max_levels = part.store().max_levels();
        let longest = wire::longest_values(max_levels).max(protocol.longest_message().saturating_add(8));
        Ok(LoadedShard { identity, rows: LocalPart::new(&SCANNER, part.store().clone(), first), records, longest })
    }

    /// The rows of this shard.
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
    /// Memory of responses that wait for frontends, in bytes.
    buffers: Arc<EvictingPool>,
    limits: Limits,
    counts: Counts,
}

impl ShardState {
    /// Reserves memory for a response. All frontends share one address; each limits its own
    /// clients.
    fn entry(&self, bytes: usize) -> PoolEntry {
        self.buffers.enter_busy(FRONTENDS, bytes as u64)
    }
}

/// A shard with bound ports that does not serve yet.
pub struct ShardServer {
    shard: Arc<ShardState>,
    acceptor: Arc<MtlsAcceptor>,
    listener: TcpListener,
    admin: Option<TcpListener>,
}

/// Replaces the certificate of a running shard.
#[derive(Clone)]
pub struct ShardHandle(Arc<MtlsAcceptor>);

impl std::fmt::Debug for ShardHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ShardHandle(..)")
    }
}

impl ShardHandle {
    /// Presents this certificate from now on and accepts no other. Connections of frontends with
    /// the previous one end.
    pub fn replace_certificate(&self, tls: &ShardTls) {
        self.0.replace(tls.certificates());
    }
}

impl std::fmt::Debug for ShardServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ShardServer({:?})", self.shard.loaded)
    }
}

impl ShardServer {
    /// Binds the ports.
    pub async fn bind(
        loaded: LoadedShard,
        tls: ShardTls,
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
        // One frontend may use the whole admission queue.
        let admission = AdmissionQueue::new(limits.max_concurrent, limits.queue, 100);
        let buffers = EvictingPool::new(limits.buffer_megabytes.saturating_mul(1 << 20));
        let shard = Arc::new(ShardState { loaded, admission, buffers, limits, counts: Counts::default() });
        let acceptor = MtlsAcceptor::new(tls.certificates(), "shard");
        Ok(ShardServer { shard, acceptor, listener, admin })
    }

    /// A handle to replace the certificate while the shard serves.
    pub fn handle(&self) -> ShardHandle {
        ShardHandle(self.acceptor.clone())
    }

    /// Address for frontends.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Address of the admin port.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref()?.local_addr().ok()
    }

    /// Serves until `stop`, then finishes the running requests.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let ShardServer { shard, acceptor, listener, admin } = self;
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
            () = accept(listener, routes(shard), acceptor, &graceful) => {}
            () = stop => {}
        }
        let limit = Duration::from_secs(limits.shutdown_seconds);
        if tokio::time::timeout(limit, graceful.shutdown()).await.is_err() {
            tracing::warn!("shutdown limit reached; dropped unfinished responses");
        }
    }
}

async fn accept(listener: TcpListener, router: Router, acceptor: Arc<MtlsAcceptor>, graceful: &GracefulShutdown) {
    loop {
        let connection = mtls_acceptor::next(&listener).await;
        let (acceptor, service, watcher) =
            (acceptor.clone(), TowerToHyperService::new(router.clone()), graceful.watcher());
        tokio::spawn(async move {
            if let Some((stream, withdrawal)) = acceptor.accept(connection).await {
                tokio::select! {
                    biased;
                    () = withdrawal.withdrawn() => {}
                    _ = watcher.watch(http().serve_connection(TokioIo::new(stream), service)) => {}
                }
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
        .route(WORDS, post(|State(shard), request| answer(shard, request, words)))
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
    // Serialization of strings and numbers cannot fail.
    serde_json::to_string(&shard.loaded.identity).expect("an identity is plain data").into_response()
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

/// Status and reason of a refused request; the reason is for the log of the frontend.
struct ShardRefusal(StatusCode, String);

impl From<(StatusCode, &str)> for ShardRefusal {
    fn from((status, reason): (StatusCode, &str)) -> ShardRefusal {
        ShardRefusal(status, reason.into())
    }
}

/// Sends a response piece by piece.
struct ResponseSender {
    pieces: mpsc::Sender<Bytes>,
    runtime: tokio::runtime::Handle,
    deadline: tokio::time::Instant,
    /// Permit to compute. It is released at the first wait for the frontend, which may read other
    /// shards first or wait for its client.
    permit: Option<RunPermit>,
    /// Memory of the response. From the first wait on, other requests may evict it.
    entry: PoolEntry,
}

impl ResponseSender {
    /// Sends a piece. Returns false if the frontend disconnected, the time limit passed or the
    /// response was evicted.
    fn send(&mut self, piece: Bytes) -> bool {
        let piece = match self.pieces.try_send(piece) {
            Ok(()) => return true,
            Err(TrySendError::Closed(_)) => return false,
            Err(TrySendError::Full(piece)) => piece,
        };
        if let Some(permit) = self.permit.take() {
            drop(permit);
            self.entry.end_task();
        }
        self.runtime.block_on(async {
            tokio::select! {
                sent = tokio::time::timeout_at(self.deadline, self.pieces.send(piece)) => matches!(sent, Ok(Ok(()))),
                () = self.entry.evicted() => {
                    tracing::warn!("evicted a response that waited for its frontend (limits.buffer_megabytes)");
                    false
                }
            }
        })
    }
}

/// Starts a response of this length, whose memory is reserved by the entry.
type Begin<'b> = dyn FnMut(u64, PoolEntry) -> ResponseSender + 'b;

type Task = fn(&ShardState, &[u8], &mut Begin<'_>) -> Result<(), ShardRefusal>;

/// Handles a request.
async fn answer(shard: Arc<ShardState>, request: Request, work: Task) -> Response {
    match begin(&shard, request, work).await {
        Ok((length, body)) => {
            shard.counts.answered.fetch_add(1, Ordering::Relaxed);
            shard.counts.bytes.fetch_add(length, Ordering::Relaxed);
            ([(header::CONTENT_LENGTH, length)], Body::new(body)).into_response()
        }
        Err(ShardRefusal(status, reason)) => {
            shard.counts.refused.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%status, reason, "refused a request");
            (status, reason).into_response()
        }
    }
}

/// Reads and queues a request, and starts to compute. Returns length and body of the response.
async fn begin(shard: &Arc<ShardState>, request: Request, work: Task) -> Result<(u64, Pieces), ShardRefusal> {
    let reading = Limited::new(request.into_body(), shard.loaded.longest).collect();
    let upload = Duration::from_secs(shard.limits.upload_seconds);
    let body = match tokio::time::timeout(upload, reading).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) => {
            return Err(ShardRefusal(StatusCode::BAD_REQUEST, format!("the request could not be read: {error}")));
        }
        Err(_) => {
            return Err((StatusCode::REQUEST_TIMEOUT, "the request did not arrive within limits.upload_seconds").into());
        }
    };
    let overloaded = || ShardRefusal::from((StatusCode::SERVICE_UNAVAILABLE, "the shard has too many requests"));
    let turn = shard.admission.enter(FRONTENDS).ok_or_else(overloaded)?;
    let waiting = Duration::from_secs(shard.limits.queue_seconds);
    let permit: RunPermit = tokio::time::timeout(waiting, turn.run()).await.ok().flatten().ok_or_else(overloaded)?;
    let (head, started) = tokio::sync::oneshot::channel();
    let (shard, runtime) = (shard.clone(), tokio::runtime::Handle::current());
    tokio::task::spawn_blocking(move || {
        let (mut head, mut permit) = (Some(head), Some(permit));
        let deadline = tokio::time::Instant::now() + RESPONSE_LIMIT;
        let mut begin = |length: u64, entry: PoolEntry| {
            let (pieces, received) = mpsc::channel(QUEUED_PIECES);
            if let Some(head) = head.take() {
                let _ = head.send(Ok((length, Pieces(received))));
            }
            ResponseSender { pieces, runtime: runtime.clone(), deadline, permit: permit.take(), entry }
        };
        let done = work(&shard, &body, &mut begin);
        if let (Err(refused), Some(head)) = (done, head.take()) {
            let _ = head.send(Err(refused));
        }
        // The request contains secret shares. Zeroizes it if this is the only reference.
        if let Ok(mut body) = body.try_into_mut() {
            body.as_mut().zeroize();
        }
    });
    let failed = || ShardRefusal::from((StatusCode::INTERNAL_SERVER_ERROR, "internal error of the shard; see its log"));
    started.await.unwrap_or_else(|_| Err(failed()))
}

fn malformed() -> ShardRefusal {
    (StatusCode::BAD_REQUEST, "malformed request; frontend and shard may be of different releases").into()
}

fn values(shard: &ShardState, body: &[u8], begin: &mut Begin<'_>) -> Result<(), ShardRefusal> {
    let part = &shard.loaded.rows;
    let (functions, bucket_indices) = wire::read_values(body, part.max_levels()).ok_or_else(malformed)?;
    let row = functions.bytes_per_row();
    let entry = reserve(shard, row, bucket_indices.as_ref());
    let values = part.evaluate(&functions, bucket_indices.as_ref()).map_err(refused)?;
    stream(values, part.rows().len(), row, entry, begin);
    Ok(())
}

fn words(shard: &ShardState, body: &[u8], begin: &mut Begin<'_>) -> Result<(), ShardRefusal> {
    let part = &shard.loaded.rows;
    let (tables, draws, bucket_indices) = wire::read_words(body, part.max_levels()).ok_or_else(malformed)?;
    let row = size_of::<u32>();
    let entry = reserve(shard, row, bucket_indices.as_ref());
    let words = part.lifted_words(&tables, &draws, bucket_indices.as_ref()).map_err(refused)?;
    stream(words, part.rows().len(), row, entry, begin);
    Ok(())
}

fn refused(error: PartError) -> ShardRefusal {
    ShardRefusal(StatusCode::BAD_REQUEST, error.to_string())
}

/// Memory of a response with this many bytes per row. In stored order, rows are computed while they
/// are read and need no buffer.
fn reserve(shard: &ShardState, row: usize, bucket_indices: Option<&BucketIndices>) -> PoolEntry {
    shard.entry(if bucket_indices.is_some() { shard.loaded.rows.rows().len() * row } else { 0 })
}

/// Sends all rows, each in `row` bytes.
fn stream(mut values: Box<dyn ValueStream + '_>, rows: usize, row: usize, entry: PoolEntry, begin: &mut Begin<'_>) {
    let mut remaining = rows * row;
    let mut sender = begin(remaining as u64, entry);
    while remaining > 0 {
        let mut piece = vec![0; (PIECE_BYTES / row * row).min(remaining)];
        if let Err(error) = values.read(&mut piece) {
            tracing::error!(%error, "the rows of a part could not be computed");
            return;
        }
        remaining -= piece.len();
        if !sender.send(piece.into()) {
            return;
        }
    }
}

fn sums(shard: &ShardState, body: &[u8], begin: &mut Begin<'_>) -> Result<(), ShardRefusal> {
    let part = &shard.loaded.rows;
    let entries = wire::read_sums(body, part.max_levels()).ok_or_else(malformed)?;
    let mut rest = entries.as_slice();
    let tables = part.max_levels().iter().map(|&max_level| {
        let (table, tail) = rest.split_at(max_level as usize + 1);
        rest = tail;
        table
    });
    let tables: Vec<&[u64]> = tables.collect();
    let entry = shard.entry(8 * part.rows().len());
    let mut sums = vec![0; part.rows().len()];
    part.table_sums(&tables, &mut sums).map_err(|error| ShardRefusal(StatusCode::BAD_REQUEST, error.to_string()))?;
    let mut sender = begin(8 * sums.len() as u64, entry);
    let mut pieces = sums.chunks(PIECE_BYTES / 8);
    let _ = pieces.all(|sums| sender.send(sums.iter().flat_map(|sum| sum.to_le_bytes()).collect()));
    sums.zeroize();
    Ok(())
}

fn records(shard: &ShardState, body: &[u8], begin: &mut Begin<'_>) -> Result<(), ShardRefusal> {
    let (epoch, selection) = wire::read_records(body).ok_or_else(malformed)?;
    let records = shard.loaded.records.iter().find(|(loaded, _)| *loaded == epoch);
    let (_, records) =
        records.ok_or_else(|| ShardRefusal(StatusCode::CONFLICT, format!("no root key for key epoch {epoch}")))?;
    let sum = SCANNER.run(|| records.sum(&selection));
    let sum = sum.map_err(|error| ShardRefusal(StatusCode::BAD_REQUEST, error.to_string()))?;
    begin(sum.len() as u64, shard.entry(sum.len())).send(sum.into());
    Ok(())
}

/// Body of a response. It ends early if the computation failed; the frontend notices that by the
/// Content-Length.
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
