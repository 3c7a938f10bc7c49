//! A ledger in PostgreSQL: a row per line, counted by one statement, which is a transaction of its
//! own.
//!
//! `READ COMMITTED` is enough: of two statements that meet at a row, the second waits for the first
//! and sees what it wrote.

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
use tokio::runtime::Runtime;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{Client, Config, Error, Socket, Statement};

/// Made only where they are missing, since even `IF NOT EXISTS` needs the right to create. The lock
/// is for fronts that start at once.
const CREATE: &str = "\
BEGIN;
SELECT pg_advisory_xact_lock(7593041157038);
CREATE TABLE IF NOT EXISTS ifonly_ledger (ledger text PRIMARY KEY, identity text NOT NULL);
CREATE TABLE IF NOT EXISTS ifonly_spent (
    ledger text NOT NULL, line text NOT NULL, spent bigint NOT NULL, PRIMARY KEY (ledger, line));
COMMIT";

/// $1 ledger, $2 line, $3 identity, $4 limit, $5 seen, $6 floor. A line that is not there counts as
/// 0; no row comes back where nothing was counted.
const SPEND: &str = "\
INSERT INTO ifonly_spent AS known (ledger, line, spent)
SELECT $1::text, $2::text, $6::bigint + 1
 WHERE EXISTS (SELECT FROM ifonly_ledger WHERE ledger = $1 AND identity = $3::text)
   AND (($5::bigint = 0 AND $6 < $4::bigint) OR EXISTS (SELECT FROM ifonly_spent WHERE ledger = $1 AND line = $2))
ON CONFLICT (ledger, line) DO UPDATE SET spent = GREATEST(known.spent, $6) + 1
 WHERE GREATEST(known.spent, $6) < $4 AND known.spent >= $5
RETURNING spent";

/// Why nothing was counted.
const WHY: &str = "\
SELECT (SELECT identity FROM ifonly_ledger WHERE ledger = $1), (SELECT spent FROM ifonly_spent WHERE ledger = $1 AND line = $2)";

/// Whether the server flushes what it acknowledges; then, for this connection, that a commit waits
/// for the flush.
const CHECK: &str = "\
SELECT current_setting('fsync'), pg_is_in_recovery(),
       CASE WHEN current_setting('synchronous_commit') = 'remote_apply' THEN ''
            ELSE set_config('synchronous_commit', 'on', false) END";

pub(crate) fn open(url: &str, config: &LedgerConfig, server: &str) -> Result<StoreLedger<Postgres>, LedgerError> {
    // What the reader of URLs says may repeat a part of the password.
    let unreadable =
        || LedgerError::Place("its URL cannot be read; write postgres://user:password@host:5432/database".into());
    let (url, secure) = without_mode(url);
    let mut settings: Config = url.parse().map_err(|_| unreadable())?;
    if settings.get_hosts().is_empty() {
        return Err(unreadable());
    }
    let local = |host: &Host| match host {
        Host::Tcp(name) => name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()),
        _ => true,
    };
    let secure = secure.unwrap_or_else(|| !settings.get_hosts().iter().all(local));
    settings.ssl_mode(if secure { SslMode::Require } else { SslMode::Disable });
    settings.connect_timeout(config.timeout()).application_name("ifonly");
    let tls = secure.then(|| tls::client(config.ca.as_deref())).transpose()?;
    StoreLedger::open(Postgres { settings, tls, ledger: server.into(), timeout: config.timeout() }, config.timeout())
}

/// The URL without `sslmode`, and whether it wants TLS: not with `disable`; with `require` and
/// beyond always, and checked; by default unless the database is on this machine.
fn without_mode(url: &str) -> (String, Option<bool>) {
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

/// Where it is.
pub(crate) struct Postgres {
    settings: Config,
    tls: Option<Arc<ClientConfig>>,
    ledger: String,
    timeout: Duration,
}

/// A connection with the runtime that drives it, whenever somebody waits for it.
pub(crate) struct PgConnection {
    client: Client,
    spend: Option<Statement>,
    /// There until it is dropped.
    runtime: Option<Runtime>,
}

impl Drop for PgConnection {
    fn drop(&mut self) {
        // It may be dropped on a thread that drives another runtime, where waiting for this one is
        // not allowed.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Postgres {
    fn unreachable(&self, reason: impl ToString) -> LedgerError {
        LedgerError::Unreachable { store: self.shown(), reason: reason.to_string() }
    }

    /// Waits for something of this connection, as long as the time limit allows.
    fn wait<T>(&self, runtime: &Runtime, work: impl Future<Output = Result<T, Error>>) -> Result<T, PostgresError> {
        match runtime.block_on(async { tokio::time::timeout(self.timeout, work).await }) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(PostgresError { refused: error.as_db_error().is_some(), reason: chain(&error) }),
            Err(_) => Err(PostgresError {
                refused: false,
                reason: format!("it said nothing for {} seconds", self.timeout.as_secs()),
            }),
        }
    }
}

/// What went wrong.
struct PostgresError {
    /// The server said so: whatever was asked was rolled back.
    refused: bool,
    reason: String,
}

/// An error and its causes. They name users and databases, not passwords.
fn chain(error: &Error) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

impl CounterStore for Postgres {
    type Connection = PgConnection;

    fn shown(&self) -> String {
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
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| self.unreachable(error))?;
        let connecting = async {
            let (client, connection) = self.settings.connect(Tls(self.tls.clone())).await?;
            // Its errors come to the client too.
            tokio::spawn(async { drop(connection.await) });
            let row = client.query_one(CHECK, &[]).await?;
            Ok((client, row.try_get::<_, String>(0)?, row.try_get::<_, bool>(1)?))
        };
        let (client, flushes, standby) =
            self.wait(&runtime, connecting).map_err(|fault| self.unreachable(fault.reason))?;
        let careless = |reason: &str| Err(LedgerError::Careless { store: self.shown(), reason: reason.into() });
        if flushes != "on" {
            return careless("it does not flush what it writes; set fsync to on");
        }
        if standby {
            return careless("it is a standby; name the primary");
        }
        Ok(PgConnection { client, spend: None, runtime: Some(runtime) })
    }

    fn identify(&self, session: &mut PgConnection, proposal: &str) -> Result<String, LedgerError> {
        let PgConnection { client, runtime: Some(runtime), .. } = session else {
            return Err(self.unreachable("closed"));
        };
        let work = async {
            let there = "SELECT to_regclass('ifonly_ledger') IS NOT NULL AND to_regclass('ifonly_spent') IS NOT NULL";
            if !client.query_one(there, &[]).await?.try_get::<_, bool>(0)? {
                client.batch_execute(CREATE).await?;
            }
            let make = "INSERT INTO ifonly_ledger VALUES ($1, $2) ON CONFLICT DO NOTHING";
            client.execute(make, &[&self.ledger, &proposal]).await?;
            let read = "SELECT identity FROM ifonly_ledger WHERE ledger = $1";
            client.query_one(read, &[&self.ledger]).await?.try_get(0)
        };
        self.wait(runtime, work).map_err(|fault| self.unreachable(fault.reason))
    }

    fn is_open(&self, session: &mut PgConnection) -> bool {
        let Some(runtime) = &session.runtime else { return false };
        // Nothing drives the connection while nobody waits: let it see what has come in the
        // meantime.
        runtime.block_on(async {
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
        });
        !session.client.is_closed()
    }

    fn spend(&self, session: &mut PgConnection, claim: &SpendRequest<'_>) -> Result<SpendOutcome, LedgerError> {
        let PgConnection { client, spend, runtime: Some(runtime) } = session else {
            return Err(self.unreachable("closed"));
        };
        let statement = match spend {
            Some(statement) => statement,
            None => {
                let prepared = self.wait(runtime, client.prepare(SPEND));
                spend.insert(prepared.map_err(|fault| self.unreachable(fault.reason))?)
            }
        };
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let (limit, seen, floor) = (signed(claim.limit), signed(claim.seen), signed(claim.floor));
        let store = || self.shown();
        let counting = async {
            let values: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
                [&self.ledger, &claim.line, &claim.identity, &limit, &seen, &floor];
            let row = client.query_opt(&*statement, &values).await?;
            row.map(|row| row.try_get::<_, i64>(0)).transpose()
        };
        let counted = self.wait(runtime, counting).map_err(|PostgresError { refused, reason }| match refused {
            true => LedgerError::Refused { store: store(), reason },
            false => LedgerError::Lost { store: store(), reason },
        })?;
        if let Some(count) = counted {
            let below = |_| LedgerError::Lost { store: store(), reason: "it gave a count below zero".into() };
            return u64::try_from(count).map(SpendOutcome::Counted).map_err(below);
        }
        let asking = async {
            let row = client.query_one(WHY, &[&self.ledger, &claim.line]).await?;
            Ok((row.try_get::<_, Option<String>>(0)?, row.try_get::<_, Option<i64>>(1)?))
        };
        let (identity, spent) = self.wait(runtime, asking).map_err(|fault| self.unreachable(fault.reason))?;
        let spent = spent.unwrap_or(0);
        match () {
            () if identity.as_deref() != Some(claim.identity) => Ok(SpendOutcome::Another),
            () if spent < seen => Ok(SpendOutcome::Less),
            () if spent.max(floor) >= limit => Ok(SpendOutcome::Spent),
            // Somebody has changed it in between.
            () => Err(LedgerError::Refused { store: store(), reason: "it changed meanwhile".into() }),
        }
    }
}

/// TLS for connections that need it; where it is `None` the settings say that nobody asks for it.
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
            let config = self.0.ok_or_else(|| io::Error::other("nobody asked for TLS"))?;
            let name = ServerName::try_from(self.1).map_err(io::Error::other)?;
            tokio_rustls::TlsConnector::from(config).connect(name, socket).await.map(Secured)
        })
    }
}

impl TlsStream for Secured {
    /// The certificate is checked by its authority, so the password need not be bound to it.
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
