//! A shard as a process.

use super::service::{LoadedShard, ShardServer};
use super::tls::ShardTls;
use crate::config::{ConfigError, Limits};
use crate::daemon::{DaemonError, stop_signal, unless};
use crate::key_file;
use ifonly_bundle::BundlePart;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;

/// What a shard needs to know.
#[derive(Clone, Debug)]
pub struct ShardConfig {
    /// A bundle, or a part of one.
    pub bundle: PathBuf,
    /// Which rows of it.
    pub rows: Option<Range<usize>>,
    /// Root keys, one per epoch.
    pub keys: Vec<PathBuf>,
    /// The certificate that front and shards show each other, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
    /// Where fronts connect; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where operators connect; none without.
    pub admin: Option<SocketAddr>,
    /// Whether the admin port may be on another address than loopback.
    pub public_admin: bool,
    /// How much is too much.
    pub limits: Limits,
}

/// Answers fronts until a signal ends it, which counts while rows are still being read (see
/// [`crate::daemon::run`]); `ready` hears of the shard before it takes the first connection.
pub async fn run(config: ShardConfig, ready: impl FnOnce(&ShardServer, Range<usize>)) -> Result<(), DaemonError> {
    if let Some(admin) = config.admin.filter(|admin| !admin.ip().is_loopback() && !config.public_admin) {
        return Err(ConfigError::PublicAdmin(admin).into());
    }
    let mut stop = std::pin::pin!(stop_signal().map_err(DaemonError::Signals)?);
    let (limits, listen, admin) = (config.limits, config.listen, config.admin);
    let Some((loaded, inside)) = unless(stop.as_mut(), move || load(config)).await? else { return Ok(()) };
    let rows = loaded.rows();
    let server = ShardServer::bind(loaded, inside, limits, listen, admin).await?;
    ready(&server, rows.clone());
    tracing::info!(first = rows.start, end = rows.end, "serving rows");
    server.run(stop).await;
    tracing::info!("stopped");
    Ok(())
}

/// Everything that the configuration names. The records are sealed then: their file is needed no
/// more.
fn load(config: ShardConfig) -> Result<(LoadedShard, ShardTls), DaemonError> {
    let keys = config.keys.iter().map(|path| key_file::load(path)).collect::<Result<Vec<_>, _>>()?;
    let inside = ShardTls::load(&config.certificate, &config.key)?;
    let part = BundlePart::open(&config.bundle, config.rows).map_err(|error| DaemonError::Bundle(Box::new(error)))?;
    Ok((LoadedShard::new(&part, keys)?, inside))
}
