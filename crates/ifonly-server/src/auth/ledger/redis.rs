//! A ledger in Redis or Valkey: one hash with a field per line. A script, which runs atomically,
//! increments the counts.
//!
//! Redis keeps its data in memory and may lose it. At every connection the ledger checks the
//! settings: the server must be a primary, write an append-only file, and evict nothing.
//!
//! The crate `redis` speaks the protocol. This module opens the socket, so that TLS has the same
//! settings for all stores, and closed connections are noticed without a request.

use crate::auth::ledger::runtime::StoreRuntime;
use crate::auth::ledger::store::{CounterStore, SpendOutcome, SpendRequest, StoreLedger};
use crate::auth::ledger::{LedgerConfig, LedgerError, tls};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ErrorKind, FromRedisValue, IntoConnectionInfo, RedisConnectionInfo,
    RedisError,
};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Increments a count. The result is the new count, 0 if the limit is reached, -1 if the count is
/// below `seen`, or -2 if the ledger has another identity. `%.0f` writes numbers without an
/// exponent. The only write is the last command, so an error has changed nothing.
const SPEND: &str = "\
local key, identity, line = KEYS[1], ARGV[1], ARGV[2]
local limit, seen, floor = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
if redis.call('HGET', key, 'identity') ~= identity then return -2 end
local spent = tonumber(redis.call('HGET', key, line) or '0')
if spent < seen then return -1 end
if spent < floor then spent = floor end
if spent >= limit then return 0 end
redis.call('HSET', key, line, string.format('%.0f', spent + 1))
return spent + 1";

/// Creates the ledger if it is missing; returns its identity.
const IDENTIFY: &str = "\
redis.call('HSETNX', KEYS[1], 'identity', ARGV[1])
return redis.call('HGET', KEYS[1], 'identity')";

/// Maximum bytes that a store may send in reply to one command. The reply to INFO has a few
/// thousand bytes.
const MAX_REPLY: usize = 1 << 20;

pub(crate) fn open(url: &str, config: &LedgerConfig, server: &str) -> Result<StoreLedger<Redis>, LedgerError> {
    let (address, login, is_secure) =
        parse(url).ok_or_else(|| LedgerError::Config("invalid URL; use redis://user:password@host:6379/0".into()))?;
    let tls = is_secure.then(|| tls::client(config.ca.as_deref())).transpose()?;
    let (timeout, replicas) = (config.timeout(), config.replicas);
    let key = format!("ifonly:ledger:{server}");
    StoreLedger::open(Redis { address, login, tls, timeout, replicas, key }, timeout)
}

/// The address, the login and whether to use TLS. Accepted are
/// `redis://[user][:password]@host[:port][/database]`, `rediss://` with TLS, `valkey` for `redis`,
/// and `redis+unix:///path[?db=N&user=…&pass=…]` for a Unix socket. `None` if the URL is invalid;
/// the errors of the crate may repeat the password.
fn parse(url: &str) -> Option<(ConnectionAddr, RedisConnectionInfo, bool)> {
    let (scheme, rest) = url.split_once("://")?;
    let (scheme, is_secure) = match scheme {
        "redis" | "valkey" => ("redis", false),
        "rediss" | "valkeys" => ("redis", true),
        "redis+unix" => ("redis+unix", false),
        _ => return None,
    };
    let info = format!("{scheme}://{rest}").into_connection_info().ok()?;
    let login = info.redis_settings().clone().set_skip_set_lib_name();
    // Redis accepts a user without a password; the crate sends the user only with a password.
    let login = match (login.username(), login.password()) {
        (Some(_), None) => login.set_password(""),
        _ => login,
    };
    Some((info.addr().clone(), login, is_secure))
}

/// The store and its settings.
pub(crate) struct Redis {
    address: ConnectionAddr,
    login: RedisConnectionInfo,
    tls: Option<Arc<ClientConfig>>,
    timeout: Duration,
    /// How many replicas must confirm a count.
    replicas: u32,
    key: String,
}

/// A connection and its runtime.
pub(crate) struct RedisLink {
    connection: MultiplexedConnection,
    state: Arc<StreamState>,
    runtime: StoreRuntime,
}

/// Why a command failed.
struct CommandFailure {
    /// Whether the store reported the error; then the command has changed nothing.
    is_refusal: bool,
    /// The code of a refusal, such as NOPERM. The text may repeat the command and its password.
    code: Option<String>,
    reason: String,
}

impl Redis {
    fn unreachable(&self, reason: impl ToString) -> LedgerError {
        LedgerError::Unreachable { store: self.display_url(), reason: reason.to_string() }
    }

    fn failure(&self, error: Option<RedisError>) -> CommandFailure {
        let Some(error) = error else {
            let reason = format!("no reply within {} s", self.timeout.as_secs());
            return CommandFailure { is_refusal: false, code: None, reason };
        };
        let is_refusal = matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension);
        CommandFailure { is_refusal, code: error.code().map(Into::into), reason: error.to_string() }
    }

    /// Sends a command and waits for its reply.
    fn command<T: FromRedisValue>(&self, link: &mut RedisLink, command: &Cmd) -> Result<T, CommandFailure> {
        link.state.allowance.store(MAX_REPLY, Ordering::SeqCst);
        let reply = link.runtime.wait(self.timeout, command.query_async(&mut link.connection));
        match reply {
            Some(Ok(reply)) => Ok(reply),
            Some(Err(error)) => Err(self.failure(Some(error))),
            None => Err(self.failure(None)),
        }
    }

    /// Runs a command that must succeed before anything is counted.
    fn prepare<T: FromRedisValue>(&self, link: &mut RedisLink, name: &str, command: &Cmd) -> Result<T, LedgerError> {
        self.command(link, command).map_err(|failure| match failure {
            CommandFailure { is_refusal: true, code, .. } => {
                self.unreachable(format!("the command {name} failed: {}", code.unwrap_or_else(|| "ERR".into())))
            }
            CommandFailure { reason, .. } => self.unreachable(reason),
        })
    }

    /// Opens the socket, with TLS if it is configured.
    async fn stream(&self) -> io::Result<Box<dyn StoreSocket>> {
        match &self.address {
            ConnectionAddr::Tcp(host, port) => {
                let socket = TcpStream::connect((host.as_str(), *port)).await?;
                socket.set_nodelay(true)?;
                let Some(config) = &self.tls else { return Ok(Box::new(socket)) };
                let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                Ok(Box::new(tokio_rustls::TlsConnector::from(config.clone()).connect(name, socket).await?))
            }
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => Ok(Box::new(tokio::net::UnixStream::connect(path).await?)),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Checks the output of `INFO`: refuses a store that may lose counts.
    fn check(&self, info: &str) -> Result<(), LedgerError> {
        let value = |key: &str| info.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':'));
        let not_durable =
            |reason: &str| Err(LedgerError::NotDurable { store: self.display_url(), reason: reason.into() });
        if value("loading").is_some_and(|loading| loading != "0") {
            return Err(self.unreachable("it is still loading its data"));
        }
        if value("role") != Some("master") {
            return not_durable("it is a replica; use the address of the primary");
        }
        if value("maxmemory_policy") != Some("noeviction") {
            return not_durable("it may evict counts when memory is short; set maxmemory-policy to noeviction");
        }
        if value("aof_enabled") != Some("1") {
            return not_durable("it keeps its data only in memory or in snapshots; set appendonly to yes");
        }
        Ok(())
    }
}

impl CounterStore for Redis {
    type Connection = RedisLink;

    fn display_url(&self) -> String {
        match &self.address {
            ConnectionAddr::Unix(path) => format!("redis+unix://{}", path.display()),
            ConnectionAddr::Tcp(host, port) => {
                let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
                let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
                format!("{scheme}://{open}{host}{close}:{port}/{}", self.login.db())
            }
            _ => "redis".into(),
        }
    }

    fn connect(&self) -> Result<RedisLink, LedgerError> {
        let runtime = StoreRuntime::new().map_err(|error| self.unreachable(error))?;
        let state = Arc::new(StreamState { is_closed: AtomicBool::new(false), allowance: AtomicUsize::new(MAX_REPLY) });
        // Every wait has the time limit of the ledger, so the limit of the crate is not needed.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let connecting = async {
            let stream = WatchedStream { inner: self.stream().await?, state: state.clone() };
            let (connection, driver) = MultiplexedConnection::new_with_config(&self.login, stream, config).await?;
            let state = state.clone();
            tokio::spawn(async move {
                driver.await;
                state.is_closed.store(true, Ordering::SeqCst);
            });
            Ok::<_, RedisError>(connection)
        };
        let connection = match runtime.wait(self.timeout, connecting) {
            Some(Ok(connection)) => connection,
            // The texts of other errors than I/O may repeat the password.
            Some(Err(error)) if !error.is_io_error() => {
                return Err(self.unreachable(format!("the login failed: {}", error.code().unwrap_or(error.category()))));
            }
            failed => return Err(self.unreachable(self.failure(failed.and_then(Result::err)).reason)),
        };
        let mut link = RedisLink { connection, state, runtime };
        let info: String = self.prepare(&mut link, "INFO", &redis::cmd("INFO"))?;
        self.check(&info).map(|()| link)
    }

    fn identify(&self, link: &mut RedisLink, proposal: &str) -> Result<String, LedgerError> {
        let mut command = redis::cmd("EVAL");
        command.arg(IDENTIFY).arg(1).arg(&self.key).arg(proposal);
        self.prepare(link, "EVAL", &command)
    }

    fn is_open(&self, link: &mut RedisLink) -> bool {
        link.runtime.process_arrivals();
        !link.state.is_closed.load(Ordering::SeqCst)
    }

    fn spend(&self, link: &mut RedisLink, request: &SpendRequest<'_>) -> Result<SpendOutcome, LedgerError> {
        let unconfirmed = |reason: String| LedgerError::Unconfirmed { store: self.display_url(), reason };
        let mut command = redis::cmd("EVAL");
        command.arg(SPEND).arg(1).arg(&self.key).arg(request.identity).arg(request.line);
        command.arg(request.limit).arg(request.seen).arg(request.floor);
        let count = match self.command::<i64>(link, &command) {
            Ok(-2) => return Ok(SpendOutcome::OtherLedger),
            Ok(-1) => return Ok(SpendOutcome::CountDecreased),
            Ok(0) => return Ok(SpendOutcome::LimitReached),
            Ok(count) => u64::try_from(count).map_err(|_| unconfirmed("the count is negative".into()))?,
            Err(CommandFailure { is_refusal: true, reason, .. }) => {
                return Err(LedgerError::Refused { store: self.display_url(), reason });
            }
            Err(CommandFailure { reason, .. }) => return Err(unconfirmed(reason)),
        };
        if self.replicas > 0 {
            // Half of the time limit, so that the reply arrives before the limit.
            let milliseconds = u64::try_from(self.timeout.as_millis() / 2).expect("a time limit of at most a minute");
            let mut command = redis::cmd("WAIT");
            command.arg(self.replicas).arg(milliseconds);
            match self.command::<i64>(link, &command) {
                Ok(have) if have >= i64::from(self.replicas) => {}
                Ok(_) => {
                    return Err(unconfirmed(format!(
                        "too few replicas confirmed the count; required: {}",
                        self.replicas
                    )));
                }
                Err(failure) => return Err(unconfirmed(failure.reason)),
            }
        }
        Ok(SpendOutcome::Counted(count))
    }
}

/// A socket, with or without TLS.
trait StoreSocket: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> StoreSocket for S {}

/// What the ledger and the stream of one connection share.
struct StreamState {
    /// Whether the store has closed the connection.
    is_closed: AtomicBool,
    /// How many bytes the store may still send in reply to the current command.
    allowance: AtomicUsize,
}

/// A stream that notices its end and limits the length of replies.
struct WatchedStream {
    inner: Box<dyn StoreSocket>,
    state: Arc<StreamState>,
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        let read = buffer.filled().len() - before;
        match &polled {
            Poll::Pending => return polled,
            Poll::Ready(Ok(())) if read > 0 => {
                let left = self.state.allowance.load(Ordering::SeqCst).checked_sub(read);
                if let Some(left) = left {
                    self.state.allowance.store(left, Ordering::SeqCst);
                    return polled;
                }
            }
            Poll::Ready(_) => {
                self.state.is_closed.store(true, Ordering::SeqCst);
                return polled;
            }
        }
        self.state.is_closed.store(true, Ordering::SeqCst);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "the reply is too long; is this a Redis server?")))
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    fn store(url: &str) -> Option<Redis> {
        let (address, login, is_secure) = parse(url)?;
        let tls = is_secure.then(|| tls::client(None).unwrap());
        Some(Redis { address, login, tls, timeout: Duration::from_secs(60), replicas: 0, key: "k".into() })
    }

    #[test]
    fn urls_are_parsed_and_displayed_without_passwords() {
        let read = |text: &str| {
            let store = store(text)?;
            let login = |part: Option<&str>| part.unwrap_or_default().to_owned();
            Some((store.display_url(), login(store.login.username()), login(store.login.password())))
        };
        let is = |shown: &str, user: &str, password: &str| Some((shown.into(), user.into(), password.into()));
        assert_eq!(read("redis://h"), is("redis://h:6379/0", "", ""));
        assert_eq!(read("valkeys://u:p%40%2f@h:1/3"), is("rediss://h:1/3", "u", "p@/"));
        assert_eq!(read("rediss://:p@p@[::1]:7/"), is("rediss://[::1]:7/0", "", "p@p"));
        assert_eq!(read("redis+unix:///tmp/a?db=2&pass=x"), is("redis+unix:///tmp/a", "", "x"));
        for wrong in ["redis://", "redis://h:x", "redis://h/x", "redis://[::1", "http://h", "x"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    /// The result of opening a ledger in a store that replies to every request with these bytes.
    fn open_with_replies(bytes: &'static [u8]) -> LedgerError {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("redis://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let _ = socket.read(&mut [0; 4096]).and_then(|_| socket.write_all(bytes));
        });
        let error = StoreLedger::open(store(&url).unwrap(), Duration::from_secs(60)).unwrap_err();
        server.join().unwrap();
        error
    }

    #[test]
    fn replies_that_are_not_valid_or_too_long_are_errors() {
        let long: &'static [u8] = Box::leak([&b"$9999999\r\n"[..], &vec![b'x'; 2 << 20]].concat().into_boxed_slice());
        let replies: [&'static [u8]; 6] =
            [b"", b":x\r\n", b"$99999999999\r\n", b"HTTP/1.1 400\r\n", b"+\xff\r\n", long];
        for reply in replies {
            let error = open_with_replies(reply);
            assert!(matches!(error, LedgerError::Unreachable { .. }), "{error}");
        }
        let error = open_with_replies(b"-NOPERM you may not, hush\r\n").to_string();
        assert!(error.contains("INFO failed: NOPERM") && !error.contains("hush"), "{error}");
    }
}
