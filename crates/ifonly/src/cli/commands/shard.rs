//! `ifonly shard`: serves a range of rows to the frontends of one server.

use crate::cli::commands::serve::{outcome, start_log};
use crate::cli::exit::{CommandError, CommandOutcome};
use ifonly_bundle::BundleMetadata;
use ifonly_server::config::{self, Limits};
use ifonly_server::shards::{self, ShardConfig};
use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;

/// Serve a range of rows to the frontends of one server, if the rows do not fit one machine.
///
/// A shard answers only frontends (`ifonly serve --shards`) that show the same certificate. It
/// prints its address when it is ready. SIGINT and SIGTERM stop it. SIGHUP reloads only the
/// certificate: for a new bundle, start new shards, and stop the old ones after the frontends have
/// reloaded.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ifonly keygen --shard-certificate inside.pem
  ifonly split loans.bundle --parts 2 -o parts
  ifonly shard parts/part-0 --key root.key --listen 10.0.0.4:7001 \\
      --cert inside.pem --cert-key inside.key
  ifonly shard loans.bundle --rows 0:5000000 --key root.key --listen 10.0.0.4:7001 \\
      --cert inside.pem --cert-key inside.key --max-concurrent 8 --buffer-megabytes 2048")]
pub(crate) struct Args {
    /// Bundle, or a part of a bundle written by `ifonly split`.
    bundle: PathBuf,
    /// Rows of a whole bundle, counted from 0; END is excluded. Without FIRST, from row 0; without
    /// END, to the last row. Default: all rows.
    #[arg(long, value_name = "[FIRST]:[END]", value_parser = rows)]
    rows: Option<(Option<usize>, Option<usize>)>,
    /// Root key file of the server; repeat the flag for several key epochs.
    #[arg(long = "key", value_name = "FILE", required = true)]
    keys: Vec<PathBuf>,
    /// Certificate of the frontends and shards of this server, PEM; created by `ifonly keygen
    /// --shard-certificate`.
    #[arg(long, value_name = "FILE")]
    cert: PathBuf,
    /// Private key of the certificate, PEM.
    #[arg(long, value_name = "FILE")]
    cert_key: PathBuf,
    /// Address for frontends, HOST:PORT; port 0 selects a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = config::address)]
    listen: SocketAddr,
    /// Address for health, readiness and metrics, HOST:PORT; default: none.
    #[arg(long, value_name = "ADDRESS", value_parser = config::address)]
    admin: Option<SocketAddr>,
    /// Allow an admin address other than loopback, on a private network.
    #[arg(long)]
    public_admin: bool,
    /// Maximum concurrent requests; default: number of CPU cores. Each request needs up to 16 bytes
    /// of memory per row, or 32 with verified answers.
    #[arg(long, value_name = "N")]
    max_concurrent: Option<usize>,
    /// Memory for buffered responses, in megabytes; at the limit the oldest is evicted. Default
    /// 1024.
    #[arg(long, value_name = "MB")]
    buffer_megabytes: Option<u64>,
    /// Log level: error, warn, info or debug. The log is JSON lines on standard error; it never
    /// contains queries.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log: String,
}

/// Parses `FIRST:END`, `FIRST:`, `:END` or `:`.
fn rows(text: &str) -> Result<(Option<usize>, Option<usize>), String> {
    let invalid = || "use FIRST:END, such as 0:1000; rows are counted from 0".to_owned();
    let (first, end) = text.split_once(':').ok_or_else(invalid)?;
    let number = |text: &str| if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(|_| invalid()) };
    let (first, end) = (number(first)?, number(end)?);
    match (first.unwrap_or(0), end) {
        (first, Some(end)) if first >= end => {
            Err(format!("{first}:{end} is empty; END is excluded and must be larger than FIRST"))
        }
        _ => Ok((first, end)),
    }
}

pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    start_log(&args.log)?;
    let mut limits = Limits::default();
    limits.max_concurrent = args.max_concurrent.unwrap_or(limits.max_concurrent).max(1);
    limits.buffer_megabytes = args.buffer_megabytes.unwrap_or(limits.buffer_megabytes);
    let rows = match args.rows {
        None => None,
        Some((first, end)) => {
            let end = match end {
                Some(end) => end,
                None => BundleMetadata::open(&args.bundle).map_err(CommandError::input)?.manifest().rows(),
            };
            Some(Range { start: first.unwrap_or(0), end })
        }
    };
    let config = ShardConfig {
        bundle: args.bundle.clone(),
        rows,
        keys: args.keys.clone(),
        certificate: args.cert.clone(),
        key: args.cert_key.clone(),
        listen: args.listen,
        admin: args.admin,
        public_admin: args.public_admin,
        limits,
    };
    let runtime = tokio::runtime::Runtime::new().map_err(CommandError::machine)?;
    let result = runtime.block_on(shards::run(config, |shard, rows| {
        if let Ok(address) = shard.address() {
            println!("listening on https://{address}");
        }
        if let Some(address) = shard.admin_address() {
            println!("admin on http://{address}");
        }
        println!("rows {}:{}", rows.start, rows.end);
    }));
    // A signal may have stopped the shard while it was loading; the loading thread is abandoned.
    runtime.shutdown_background();
    outcome(result)
}
