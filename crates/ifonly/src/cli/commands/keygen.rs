//! `ifonly keygen`: generates a root key, a signing key, a bearer token, or the certificate with
//! which the frontends and shards of one server authenticate each other.

use crate::cli::exit::{CommandError, CommandOutcome};
use ifonly_algebra::random::{OsRandom, RandomSource};
#[cfg(feature = "build")]
use ifonly_core::signature::SigningKey;
use ifonly_server::key_file;
use std::path::PathBuf;

/// Generate a root key, a signing key, a bearer token or a certificate for shards.
///
/// All servers of a deployment share one root key; only they may have it. The signing key belongs
/// to the institution that builds bundles; no server may have it. Key files are readable only by
/// their owner.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ifonly keygen -o root.key
  ifonly keygen --fingerprint root.key
  ifonly keygen --signing-key -o loans.signing.key
  ifonly keygen --token branch-office --searches 1000
  ifonly keygen --shard-certificate inside.pem")]
pub(crate) struct Args {
    /// File for the key; default root.key, or signing.key with --signing-key. An existing file is
    /// never overwritten.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Generate a key that signs records, for `ifonly build --signing-key`.
    #[cfg(feature = "build")]
    #[arg(long, conflicts_with_all = ["epoch", "token"])]
    signing_key: bool,
    /// Key epoch of the root key; the manifest lists the epochs in use.
    #[arg(long, value_name = "N", default_value_t = 0)]
    epoch: u32,
    /// Print the fingerprint of an existing root key, to compare it with other operators. Servers
    /// publish it and log it when they start.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "epoch", "token", "shard_certificate"])]
    fingerprint: Option<PathBuf>,
    /// Generate a certificate for the frontends and shards of one server. Its private key is
    /// written beside it, with the extension .key.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "epoch", "token"])]
    shard_certificate: Option<PathBuf>,
    /// Additional DNS names in the certificate, separated by commas; default: none.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', requires = "shard_certificate")]
    names: Vec<String>,
    /// Create a bearer token; print it with its configuration entry. NAME identifies its owner.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["output", "epoch"])]
    token: Option<String>,
    /// Budget of the token: number of searches; default: no limit.
    #[arg(long, value_name = "N", requires = "token")]
    searches: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    let output = |default: &str| args.output.clone().unwrap_or_else(|| default.into());
    #[cfg(feature = "build")]
    if args.signing_key {
        let (output, key) = (output("signing.key"), SigningKey::generate(&mut OsRandom::default()));
        ifonly_bundle::save_key(&output, &key).map_err(CommandError::machine)?;
        println!("wrote {}. Never copy this key to a server: its holder can forge records.", output.display());
        println!("public key {}", key.public());
        return Ok(CommandOutcome::Success);
    }
    if let Some(path) = &args.shard_certificate {
        let key = path.with_extension("key");
        key_file::create_certificate(path, &key, &args.names).map_err(CommandError::machine)?;
        println!(
            "wrote {} and {}. Copy both to every frontend and shard of this server over an encrypted channel, and nowhere else.",
            path.display(),
            key.display()
        );
        return Ok(CommandOutcome::Success);
    }
    if let Some(path) = &args.fingerprint {
        let key = key_file::load(path).map_err(CommandError::input)?;
        println!("key epoch {}, fingerprint {}", key.epoch(), key.fingerprint());
        return Ok(CommandOutcome::Success);
    }
    let Some(name) = &args.token else {
        let output = output("root.key");
        let fingerprint = key_file::create(&output, args.epoch).map_err(CommandError::machine)?;
        println!(
            "wrote {} for key epoch {}. Copy the key to every server over an encrypted channel, and nowhere else.",
            output.display(),
            args.epoch
        );
        println!("fingerprint {fingerprint}. Every operator compares it: ifonly keygen --fingerprint FILE.");
        return Ok(CommandOutcome::Success);
    };
    let mut bytes = [0; 32];
    OsRandom::default().fill(&mut bytes);
    let token = hex::encode(bytes.as_slice());
    println!("# Give this token to {name} only: {token}");
    println!("[[tokens]]\nname = {name:?}\nhash = \"{}\"", key_file::hash_token(&token));
    if let Some(searches) = args.searches {
        println!("searches = {searches}");
    }
    Ok(CommandOutcome::Success)
}
