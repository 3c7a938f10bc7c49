//! `ifonly keygen`: a new root key, a key that signs records, a token for a person or a program, or
//! the certificate by which the machines of one server know each other.

use crate::cli::exit::{CommandError, CommandOutcome};
use ifonly_algebra::random::{OsRandom, RandomSource};
#[cfg(feature = "build")]
use ifonly_core::signature::SigningKey;
use ifonly_server::key_file;
use std::path::PathBuf;

/// Make a root key or a signing key, in a file that only its owner can read, or a bearer token.
///
/// All servers of a deployment need the same root key, and nobody else may have it. A signing key
/// is for whoever builds bundles, and no server may have it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: ifonly keygen -o root.key\n         ifonly keygen --signing-key -o loans.signing.key\n         ifonly keygen --token branch-office --searches 1000\n         ifonly keygen --shard-certificate inside.pem"
)]
pub(crate) struct Args {
    /// Where to write the key, root.key or signing.key unless given; an existing file is never
    /// overwritten.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Make a key that signs records, for `ifonly build --sign`.
    #[cfg(feature = "build")]
    #[arg(long, conflicts_with_all = ["epoch", "token"])]
    signing_key: bool,
    /// Which key epoch it is for; the manifest names the epochs in use.
    #[arg(long, default_value_t = 0)]
    epoch: u32,
    /// Make a certificate for the fronts and shards of one server, with its key beside it (FILE
    /// with .key), instead.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "epoch", "token"])]
    shard_certificate: Option<PathBuf>,
    /// Further names in the certificate, for other uses of it.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', requires = "certificate")]
    names: Vec<String>,
    /// Print a token and its entry for a server's configuration instead.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["output", "epoch"])]
    token: Option<String>,
    /// The token's budget.
    #[arg(long, requires = "token")]
    searches: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    let output = |usual: &str| args.output.clone().unwrap_or_else(|| usual.into());
    #[cfg(feature = "build")]
    if args.signing_key {
        let (output, key) = (output("signing.key"), SigningKey::generate(&mut OsRandom::default()));
        ifonly_bundle::save_key(&output, &key).map_err(CommandError::machine)?;
        println!("wrote {}; keep it from the servers: with it, records can be forged", output.display());
        println!("public key {}", key.public());
        return Ok(CommandOutcome::Fine);
    }
    if let Some(path) = &args.shard_certificate {
        let key = path.with_extension("key");
        key_file::create_certificate(path, &key, &args.names).map_err(CommandError::machine)?;
        println!(
            "wrote {} and {}; copy both to all fronts and shards of this server over a safe way, and to nobody else",
            path.display(),
            key.display()
        );
        return Ok(CommandOutcome::Fine);
    }
    let Some(name) = &args.token else {
        let output = output("root.key");
        key_file::create(&output, args.epoch).map_err(CommandError::machine)?;
        println!(
            "wrote {} for key epoch {}; copy it to all servers over a safe way, and to nobody else",
            output.display(),
            args.epoch
        );
        return Ok(CommandOutcome::Fine);
    };
    let mut bytes = [0; 32];
    OsRandom::default().fill(&mut bytes);
    let token = hex::encode(bytes.as_slice());
    println!("# For {name}, and nobody else: {token}");
    println!("[[tokens]]\nname = {name:?}\nhash = \"{}\"", key_file::hash_token(&token));
    if let Some(searches) = args.searches {
        println!("searches = {searches}");
    }
    Ok(CommandOutcome::Fine)
}
