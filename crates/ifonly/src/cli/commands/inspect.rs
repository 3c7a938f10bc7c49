//! `ifonly inspect`: the manifest of a bundle or of running servers, with the traffic of each
//! scheme.

use crate::cli::exit::{CommandError, CommandOutcome, out, out_json};
use ifonly_bundle::{Bundle, ManifestSummary, summarise};
use ifonly_values::manifest::Manifest;
use std::path::Path;

/// Show the manifest of a bundle or of running servers.
///
/// The output lists columns, operators, schemes with their traffic, and the values that `ifonly
/// ask` can require: digest (--manifest), public key (--signer) and threshold (--threshold). For
/// servers it also shows the fingerprint of their root key. If a server cannot be compared, the
/// output is that of the others, and the exit code is 5.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ifonly inspect loans.bundle --check
  ifonly inspect https://a.example https://b.example --json")]
pub(crate) struct Args {
    /// Bundle, or the addresses of all servers. The manifests of the servers must be equal.
    #[arg(value_name = "BUNDLE|URL", required = true)]
    subject: Vec<String>,
    /// Print manifest, digest and schemes as JSON instead of text.
    #[arg(long)]
    json: bool,
    /// Also verify the checksums of rows and records of a bundle, which reads all of it.
    #[arg(long)]
    check: bool,
    #[cfg(feature = "ask")]
    #[command(flatten)]
    connection: crate::cli::connection_args::ConnectionArgs,
}

pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    #[cfg(feature = "ask")]
    if args.subject.iter().all(|subject| subject.starts_with("http://") || subject.starts_with("https://")) {
        let pins = ifonly_client::Pins::default();
        let client = crate::cli::connection_args::run(args.connection.connect(&args.subject, &pins))?;
        let key = client.key_fingerprint().map(|key| RootKeySummary { epoch: key.epoch, fingerprint: key.to_string() });
        print(args, client.manifest(), key)?;
        client.check_all_compared()?;
        return Ok(CommandOutcome::Success);
    }
    print(args, &manifest(args)?, None)?;
    Ok(CommandOutcome::Success)
}

/// The root key that the servers publish.
#[derive(serde::Serialize)]
struct RootKeySummary {
    epoch: u32,
    fingerprint: String,
}

fn print(args: &Args, manifest: &Manifest, key: Option<RootKeySummary>) -> Result<(), CommandError> {
    #[derive(serde::Serialize)]
    struct Document<'a> {
        #[serde(flatten)]
        summary: ManifestSummary<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        root_key: Option<RootKeySummary>,
    }
    let summary = summarise(manifest);
    if args.json {
        return out_json(&Document { summary, root_key: key });
    }
    let key = key.map(|key| format!("root key: epoch {}, fingerprint {}\n", key.epoch, key.fingerprint));
    out(&format!("{summary}{}", key.unwrap_or_default()))
}

fn manifest(args: &Args) -> Result<Manifest, CommandError> {
    let [bundle] = args.subject.as_slice() else {
        return Err(CommandError::Input(
            "give one bundle, or the addresses of all servers (http:// or https://)".into(),
        ));
    };
    if args.check {
        Ok(Bundle::open(Path::new(bundle)).map_err(CommandError::input)?.manifest().clone())
    } else {
        Bundle::manifest_of(Path::new(bundle)).map_err(CommandError::input)
    }
}
