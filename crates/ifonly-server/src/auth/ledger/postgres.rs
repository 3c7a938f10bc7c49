//! A ledger in PostgreSQL: one table row per line. One statement, which is its own transaction,
//! increments a count.
//!
//! The isolation level `READ COMMITTED` is sufficient: of two statements that update the same row,
//! the second waits for the first and sees its result.

use crate::auth::ledger::runtime::StoreRuntime;
use crate::auth::ledger::store::{CounterStore, SpendOutcome, SpendRequest, StoreLedger};
use crate::auth::ledger::{LedgerConfig, LedgerError, tls};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{Client, Config, Error, Socket, Statement};

/// Creates the tables. It runs only if they are missing, because even `IF NOT EXISTS` needs the
/// privilege to create. The lock is for frontends that start at the same time.
const CREATE: &str = "\
BEGIN;
SELECT pg_advisory_xact_lock(7593041157038);
CREATE TABLE IF NOT EXISTS ifonly_ledger (ledger text PRIMARY KEY, identity text NOT NULL);
CREATE TABLE IF NOT EXISTS ifonly_spent (
    ledger text NOT NULL, line text NOT NULL, spent bigint NOT NULL, PRIMARY KEY (ledger, line));
COMMIT";

/// Increments a count. $1 ledger, $2 line, $3 identity, $4 limit, $5 seen, $6 floor. A missing line
/// counts as 0. The result has no row if nothing was counted.
const SPEND: &str = "\
INSERT INTO ifonly_spent AS known (ledger, line, spent)
SELECT $1::text, $2::text, $6::bigint + 1
 WHERE EXISTS (SELECT FROM ifonly_ledger WHERE ledger = $1 AND identity = $3::text)
   AND (($5::bigint = 0 AND $6 < $4::bigint) OR EXISTS (SELECT FROM ifonly_spent WHERE ledger = $1 AND line = $2))
ON CONFLICT (ledger, line) DO UPDATE SET spent = GREATEST(known.spent, $6) + 1
 WHERE GREATEST(known.spent, $6) < $4 AND known.spent >= $5
RETURNING spent";

/// Identity and count, to find out why nothing was counted.
const READ_STATE: &str = "\
SELECT (SELECT identity FROM ifonly_ledger WHERE ledger = $1), (SELECT spent FROM ifonly_spent WHERE ledger = $1 AND line = $2)";

/// Reads whether the database flushes its writes and whether it is a standby, and makes commits of
/// this connection wait for the flush.
const CHECK_DURABILITY: &str = "\
SELECT current_setting('fsync'), pg_is_in_recovery(),
       CASE WHEN current_setting('synchronous_commit') = 'remote_apply' THEN ''
            ELSE set_config('synchronous_commit', 'on', false) END";

pub(crate) fn open(url: &str, config: &LedgerConfig, server: &str) -> Result<StoreLedger<Postgres>, LedgerError> {
    // The error of the URL parser is not shown, because it may repeat a part of the password.
    let invalid = || LedgerError::Config("invalid URL; use postgres://user:password@host:5432/database".into());
    let (url, secure) = without_ssl_mode(url);
    let mut settings: Config = url.parse().map_err(|_| invalid())?;
    if settings.get_hosts().is_empty() {
        return Err(invalid());
    }
    let is_local = |host: &Host| match host {
        Host::Tcp(name) => name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()),
        _ => true,
    };
    let secure = secure.unwrap_or_else(|| !settings.get_hosts().iter().all(is_local));
    settings.ssl_mode(if secure { SslMode::Require } else { SslMode::Disable });
    settings.connect_timeout(config.timeout()).application_name("ifonly");
    let tls = secure.then(|| tls::client(config.ca.as_deref())).transpose()?;
    StoreLedger::open(Postgres { settings, tls, ledger: server.into(), timeout: config.timeout() }, config.timeout())
}

/// The URL without `sslmode`, and whether `sslmode` requests TLS: `disable` does not; `require`,
/// `verify-ca` and `verify-full` do, and the certificate is always checked. Otherwise the result is
/// `None`, and TLS is used unless the database is on this machine.
fn without_ssl_mode(url: &str) -> (String, Option<bool>) {
    let Some((base, query)) = url.split_once('?') else { return (url.into(), None) };
    let mode = query.split('&').find_map(|pair| pair.strip_prefix("sslmode="));
    let rest: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("sslmode=")).collect();
    let mark = if rest.is_empty() { "" } else { "?" };
    let secure = match mode {
        Some("disable") => Some(false),
        Some("require" | "verify-ca" | "verify-full") => Some(true),
        _ => None,
    };
    (format!("{base}{mark}{}", rest.join("&")), secure)
}

/// The store and its settings.
pub(crate) struct Postgres {
    settings: Config,
    tls: Option<Arc<ClientConfig>>,
    ledger: String,
    timeout: Duration,
}

/// A connection and its runtime.
pub(crate) struct PgConnection {
    client: Client,
    spend: Option<Statement>,
    runtime: StoreRuntime,
}

impl Postgres {
    fn unreachable(&self, reason: impl ToString) -> LedgerError {
        LedgerError::Unreachable { store: self.display_url(), reason: reason.to_string() }
    }

    /// Runs a future of this connection with the time limit.
    fn wait<T>(
        &self,
        runtime: &StoreRuntime,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, PostgresError> {
        match runtime.wait(self.timeout, work) {
            Some(Ok(done)) => Ok(done),
            Some(Err(error)) => Err(PostgresError { is_refusal: error.as_db_error().is_some(), reason: chain(&error) }),
            None => Err(PostgresError {
                is_refusal: false,
                reason: format!("no reply within {} s", self.timeout.as_secs()),
            }),
        }
    }
}

/// Why a request failed.
struct PostgresError {
    /// Whether the database reported the error; then it has rolled back the statement.
    is_refusal: bool,
    reason: String,
}

/// The texts of an error and its causes. They may name users and databases, not passwords.
fn chain(error: &Error) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

impl CounterStore for Postgres {
    type Connection = PgConnection;

    fn display_url(&self) -> String {
        let host = match self.settings.get_hosts().first() {
            Some(Host::Tcp(host)) => host.clone(),
            #[cfg(unix)]
            Some(Host::Unix(path)) => path.display().to_string(),
            _ => String::new(),
        };
        let port = self.settings.get_ports().first().copied().unwrap_or(5432);
        format!("postgres://{host}:{port}/{}", self.settings.get_dbname().unwrap_or_default())
    }

    fn connect(&self) -> Result<PgConnection, LedgerError> {
        let runtime = StoreRuntime::new().map_err(|error| self.unreachable(error))?;
        let connecting = async {
            let (client, connection) = self.settings.connect(Tls(self.tls.clone())).await?;
            // The client reports the errors of the connection too.
            tokio::spawn(async { drop(connection.await) });
            let row = client.query_one(CHECK_DURABILITY, &[]).await?;
            Ok((client, row.try_get::<_, String>(0)?, row.try_get::<_, bool>(1)?))
        };
        let (client, fsync, is_standby) =
            self.wait(&runtime, connecting).map_err(|error| self.unreachable(error.reason))?;
        let not_durable =
            |reason: &str| Err(LedgerError::NotDurable { store: self.display_url(), reason: reason.into() });
        if fsync != "on" {
            return not_durable("it does not flush its writes; set fsync to on");
        }
        if is_standby {
            return not_durable("it is a standby; use the address of the primary");
        }
        Ok(PgConnection { client, spend: None, runtime })
    }

    fn identify(&self, connection: &mut PgConnection, proposal: &str) -> Result<String, LedgerError> {
        let PgConnection { client, runtime, .. } = connection;
        let work = async {
            let exists = "SELECT to_regclass('ifonly_ledger') IS NOT NULL AND to_regclass('ifonly_spent') IS NOT NULL";
            if !client.query_one(exists, &[]).await?.try_get::<_, bool>(0)? {
                client.batch_execute(CREATE).await?;
            }
            let create = "INSERT INTO ifonly_ledger VALUES ($1, $2) ON CONFLICT DO NOTHING";
            client.execute(create, &[&self.ledger, &proposal]).await?;
            let read = "SELECT identity FROM ifonly_ledger WHERE ledger = $1";
            client.query_one(read, &[&self.ledger]).await?.try_get(0)
        };
        self.wait(runtime, work).map_err(|error| self.unreachable(error.reason))
    }

    fn is_open(&self, connection: &mut PgConnection) -> bool {
        connection.runtime.process_arrivals();
        !connection.client.is_closed()
    }

    fn spend(&self, connection: &mut PgConnection, request: &SpendRequest<'_>) -> Result<SpendOutcome, LedgerError> {
        let PgConnection { client, spend, runtime } = connection;
        let statement = match spend {
            Some(statement) => statement,
            None => {
                let prepared = self.wait(runtime, client.prepare(SPEND));
                spend.insert(prepared.map_err(|error| self.unreachable(error.reason))?)
            }
        };
        let signed = |number: u64| i64::try_from(number).expect("counts are at most MAX_COUNT");
        let (limit, seen, floor) = (signed(request.limit), signed(request.seen), signed(request.floor));
        let store = || self.display_url();
        let counting = async {
            let values: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
                [&self.ledger, &request.line, &request.identity, &limit, &seen, &floor];
            let row = client.query_opt(&*statement, &values).await?;
            row.map(|row| row.try_get::<_, i64>(0)).transpose()
        };
        let counted = self.wait(runtime, counting).map_err(|PostgresError { is_refusal, reason }| {
            if is_refusal {
                LedgerError::Refused { store: store(), reason }
            } else {
                LedgerError::Unconfirmed { store: store(), reason }
            }
        })?;
        if let Some(count) = counted {
            let negative = |_| LedgerError::Unconfirmed { store: store(), reason: "the count is negative".into() };
            return u64::try_from(count).map(SpendOutcome::Counted).map_err(negative);
        }
        let reading = async {
            let row = client.query_one(READ_STATE, &[&self.ledger, &request.line]).await?;
            Ok((row.try_get::<_, Option<String>>(0)?, row.try_get::<_, Option<i64>>(1)?))
        };
        let (identity, spent) = self.wait(runtime, reading).map_err(|error| self.unreachable(error.reason))?;
        let spent = spent.unwrap_or(0);
        match () {
            () if identity.as_deref() != Some(request.identity) => Ok(SpendOutcome::OtherLedger),
            () if spent < seen => Ok(SpendOutcome::CountDecreased),
            () if spent.max(floor) >= limit => Ok(SpendOutcome::LimitReached),
            // Another client has changed the row between the two statements.
            () => Err(LedgerError::Refused { store: store(), reason: "the count changed at the same time".into() }),
        }
    }
}

/// The TLS connector. It is `None` if the settings disable TLS.
#[derive(Clone)]
struct Tls(Option<Arc<ClientConfig>>);

struct Connect(Option<Arc<ClientConfig>>, String);

/// A stream over TLS.
struct Secured(tokio_rustls::client::TlsStream<Socket>);

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Secured;
    type TlsConnect = Connect;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<Connect> {
        Ok(Connect(self.0.clone(), domain.into()))
    }
}

impl TlsConnect<Socket> for Connect {
    type Stream = Secured;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Secured>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let config = self.0.ok_or_else(|| io::Error::other("TLS is not configured"))?;
            let name = ServerName::try_from(self.1).map_err(io::Error::other)?;
            tokio_rustls::TlsConnector::from(config).connect(name, socket).await.map(Secured)
        })
    }
}

impl TlsStream for Secured {
    /// The certificate is checked against its authority, so no channel binding is needed.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
