//! `ifonly shard`: some rows of one server, for its fronts.

use crate::cli::commands::serve::{end, log};
use crate::cli::exit::{CommandError, CommandOutcome};
use ifonly_bundle::BundleMetadata;
use ifonly_server::config::{self, Limits};
use ifonly_server::shards::{self, ShardConfig};
use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;

/// Hold some rows of a server whose rows do not fit one machine.
///
/// A shard answers the fronts of its server (`ifonly serve --shards`) and nobody else: both show
/// the same certificate. It prints the address it bound, then answers until SIGINT or SIGTERM. A
/// new bundle needs new shards, beside the old ones until the fronts have taken it up.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example: ifonly keygen --certificate inside.pem
         ifonly shard loans.bundle --rows 0:5000000 --key root.key --cert inside.pem --cert-key inside.key --listen 10.0.0.4:7001
         ifonly shard parts/part-0 --key root.key --cert inside.pem --cert-key inside.key --listen 10.0.0.4:7001")]
pub(crate) struct Args {
    /// A bundle, or a part of one made by `ifonly split`.
    bundle: PathBuf,
    /// Which rows of a whole bundle, counted from 0: FIRST:END, without END itself. Either may be
    /// left out.
    #[arg(long, value_name = "A:B", value_parser = rows)]
    rows: Option<(Option<usize>, Option<usize>)>,
    /// Root keys, one per key epoch; those of the server.
    #[arg(long = "key", value_name = "FILE", required = true)]
    keys: Vec<PathBuf>,
    /// The certificate that fronts and shards of this server show each other, PEM.
    #[arg(long, value_name = "FILE")]
    cert: PathBuf,
    /// The certificate's private key, PEM.
    #[arg(long, value_name = "FILE")]
    cert_key: PathBuf,
    /// Where to listen for fronts, HOST:PORT; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = config::address)]
    listen: SocketAddr,
    /// Where to listen for operators: health, readiness and metrics.
    #[arg(long, value_name = "ADDRESS", value_parser = config::address)]
    admin: Option<SocketAddr>,
    /// Allow the admin port on another address than loopback, on a network of your own.
    #[arg(long)]
    public_admin: bool,
    /// Requests at work at once; each may take two values of memory per row, of up to 8 bytes each,
    /// or four where answers are verified.
    #[arg(long, value_name = "N")]
    max_concurrent: Option<usize>,
    /// Memory for values that wait for their front, because the person there reads slowly; beyond
    /// that those that have waited longest give way.
    #[arg(long, value_name = "MB")]
    buffer_megabytes: Option<u64>,
    /// How much to log: error, warn, info or debug. Logs are JSON lines on standard error, without
    /// query contents.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log: String,
}

/// `A:B`, `A:` or `:B`.
fn rows(text: &str) -> Result<(Option<usize>, Option<usize>), String> {
    let wrong = || "write it as FIRST:END, such as 0:1000; rows count from 0".to_owned();
    let (first, end) = text.split_once(':').ok_or_else(wrong)?;
    let number = |text: &str| match text.is_empty() {
        true => Ok(None),
        false => text.parse().map(Some).map_err(|_| wrong()),
    };
    let (first, end) = (number(first)?, number(end)?);
    match (first.unwrap_or(0), end) {
        (first, Some(end)) if first >= end => Err(format!("{first}:{end} are no rows")),
        _ => Ok((first, end)),
    }
}

pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    log(&args.log)?;
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
    let served = runtime.block_on(shards::run(config, |shard, rows| {
        if let Ok(address) = shard.address() {
            println!("listening on https://{address}");
        }
        if let Some(address) = shard.admin_address() {
            println!("admin on http://{address}");
        }
        println!("rows {}:{}", rows.start, rows.end);
    }));
    // Stopped while it was reading, it does not read on.
    runtime.shutdown_background();
    end(served)
}
