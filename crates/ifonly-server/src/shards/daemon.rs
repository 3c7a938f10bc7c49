//! Runs a shard as a process: loads its rows and serves frontends until a signal.

use super::service::{LoadedShard, ShardHandle, ShardServer};
use super::tls::ShardTls;
use crate::config::{ConfigError, Limits};
use crate::daemon::{DaemonError, Hangups, hangups, stop_signal, unless_stopped};
use crate::key_file;
use crate::limits::descriptors;
use ifonly_bundle::BundlePart;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;

/// Configuration of a shard process.
#[derive(Clone, Debug)]
pub struct ShardConfig {
    /// A bundle, or a part written by `ifonly split`.
    pub bundle: PathBuf,
    /// Rows to serve; all rows of the bundle if `None`.
    pub rows: Option<Range<usize>>,
    /// Files of the root keys, one per key epoch.
    pub keys: Vec<PathBuf>,
    /// Certificate that frontends and shards share (PEM file).
    pub certificate: PathBuf,
    /// Private key of the certificate (PEM file).
    pub key: PathBuf,
    /// Address for frontends; port 0 selects a free port.
    pub listen: SocketAddr,
    /// Address of the admin port, if any.
    pub admin: Option<SocketAddr>,
    /// Whether the admin port may have a non-loopback address.
    pub public_admin: bool,
    /// Limits of requests.
    pub limits: Limits,
}

/// Serves frontends until a stop signal. The signal also ends the loading of rows (see
/// [`crate::daemon::run`]). Calls `ready` before it accepts the first connection.
pub async fn run(config: ShardConfig, ready: impl FnOnce(&ShardServer, Range<usize>)) -> Result<(), DaemonError> {
    if let Some(admin) = config.admin.filter(|admin| !admin.ip().is_loopback() && !config.public_admin) {
        return Err(ConfigError::PublicAdmin(admin).into());
    }
    let mut stop = std::pin::pin!(stop_signal().map_err(DaemonError::Signals)?);
    let hangups = hangups().map_err(DaemonError::Signals)?;
    descriptors::raise_limit();
    let (limits, listen, admin) = (config.limits, config.listen, config.admin);
    let (certificate, key) = (config.certificate.clone(), config.key.clone());
    let Some((loaded, tls)) = unless_stopped(stop.as_mut(), move || load(config)).await? else { return Ok(()) };
    let rows = loaded.rows();
    let server = ShardServer::bind(loaded, tls, limits, listen, admin).await?;
    tokio::spawn(reload_on_hangup(hangups, server.handle(), certificate, key));
    ready(&server, rows.clone());
    tracing::info!(first = rows.start, end = rows.end, "serving rows");
    server.run(stop).await;
    tracing::info!("stopped");
    Ok(())
}

/// Loads the certificate again at every SIGHUP. If that fails, the previous one stays.
async fn reload_on_hangup(mut hangups: Hangups, shard: ShardHandle, certificate: PathBuf, key: PathBuf) {
    while hangups.recv().await.is_some() {
        match ShardTls::load(&certificate, &key) {
            Ok(tls) => {
                shard.replace_certificate(&tls);
                tracing::info!("reloaded the certificate");
            }
            Err(error) => tracing::error!(%error, "reload failed; still using the previous certificate"),
        }
    }
}

/// Loads all files of the configuration. Encodes the records, so their file is not needed
/// afterwards.
fn load(config: ShardConfig) -> Result<(LoadedShard, ShardTls), DaemonError> {
    let keys = config.keys.iter().map(|path| key_file::load(path)).collect::<Result<Vec<_>, _>>()?;
    let tls = ShardTls::load(&config.certificate, &config.key)?;
    let part = BundlePart::open(&config.bundle, config.rows).map_err(|error| DaemonError::Bundle(Box::new(error)))?;
    Ok((LoadedShard::new(&part, keys)?, tls))
}
