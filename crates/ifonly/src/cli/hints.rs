//! Hints: what to do about an error, with the command-line flags that help.
//!
//! The other crates name parameters and configuration keys. This module adds the flags that set
//! them, and the next step after a server failure.

#[cfg(any(feature = "build", feature = "serve"))]
use ifonly_bundle::BuildError;
#[cfg(feature = "ask")]
use ifonly_client::{ClientError, TransportError};
#[cfg(feature = "ask")]
use ifonly_core::http_api::ProblemType;
#[cfg(feature = "serve")]
use ifonly_server::daemon::DaemonError;

/// A client error with its hints. Several servers may fail for one reason, so each hint is given
/// once.
#[cfg(feature = "ask")]
pub(crate) fn for_client(error: &ClientError) -> String {
    let mut hints: Vec<&str> = error.failures().iter().filter_map(|failure| for_failure(&failure.error)).collect();
    hints.sort_unstable();
    hints.dedup();
    if !hints.is_empty() {
        return format!("{error}. What to do: {}.", hints.join("; "));
    }
    with_flags(
        error,
        match error {
            ClientError::Url { url, reason } if url.starts_with("http://") && reason.contains("plain HTTP") => {
                &["--plain-http"]
            }
            ClientError::SameHost { .. } | ClientError::SameCertificateKey { .. } => &["--allow-same-host"],
            ClientError::Top { .. } => &["--top"],
            ClientError::Ways { .. } => &["--ways"],
            ClientError::TopAndWays => &["--top", "--ways"],
            ClientError::Scheme(_) => &["--scheme"],
            _ => &[],
        },
    )
}

#[cfg(feature = "ask")]
fn for_failure(error: &TransportError) -> Option<&'static str> {
    match error {
        TransportError::Refused { problem: Some(ProblemType::Unauthorized), .. } => Some(
            "pass the token from the operator with --token [URL=]TOKEN, --token-file FILE or the environment variable \
             IFONLY_TOKEN; if you did, ask the operator whether the token is still valid",
        ),
        TransportError::Refused { problem: Some(ProblemType::BudgetExhausted), .. } => {
            Some("ask the operator for more searches, or pass another token with --token; a retry will not help")
        }
        TransportError::UnknownAuthority => Some(
            "if the operator has its own certificate authority, get the certificate of that authority over a trusted \
             channel and pass it with --ca FILE",
        ),
        TransportError::ConnectionRefused => Some("check the address and the port, and whether the server is running"),
        TransportError::NoTls => Some(
            "the server has no certificate: ask its operator for the https:// address; http:// is only for servers on \
             this machine",
        ),
        TransportError::NotPlain => Some("write https:// in the address of the server"),
        _ => None,
    }
}

/// An error of `serve` or `shard` with the flags that set the configuration keys it names.
#[cfg(feature = "serve")]
pub(crate) fn for_daemon(error: &DaemonError) -> String {
    let flags: Vec<&str> = error.config_keys().iter().filter_map(|key| serve_flag(key)).collect();
    with_flags(error, &flags)
}

/// The flag of `ifonly serve` for a configuration key.
#[cfg(feature = "serve")]
fn serve_flag(key: &str) -> Option<&'static str> {
    Some(match key {
        "bundle" => "BUNDLE",
        "index" => "--index",
        "keys" => "--key",
        "listen" => "--listen",
        "admin" => "--admin",
        "public_admin" => "--public-admin",
        "plain_http" => "--plain-http",
        "tls.certificate" => "--cert",
        "tls.key" => "--cert-key",
        "peers.listen" => "--peers-listen",
        "peers.next.address" => "--next",
        "peers.next.certificate" => "--next-cert",
        "peers.previous.certificate" => "--previous-cert",
        "shards.addresses" => "--shards",
        "shards.file" => "--shards-file",
        "shards.certificate" => "--shards-cert",
        "shards.key" => "--shards-key",
        "limits.max_concurrent" => "--max-concurrent",
        "limits.queue" => "--queue",
        _ => return None,
    })
}

/// An error of `build` or `split` with the flags of the parameters it names.
#[cfg(any(feature = "build", feature = "serve"))]
pub(crate) fn for_build(error: &BuildError) -> String {
    const PARAMETERS: [(&str, &str); 12] = [
        ("cost_limit", "--cost-limit"),
        ("cost_bits", "--cost-bits"),
        ("d_min", "--d-min"),
        ("default_scheme", "--default-scheme"),
        ("immutable_limit", "--immutable-limit"),
        ("signing_key", "--signing-key"),
        ("top_limit", "--top-limit"),
        ("floor", "--floor"),
        ("weight_limit", "--weight-limit"),
        ("key_epochs", "--epoch"),
        ("`missing`", "--missing"),
        ("create a key first", "ifonly keygen --signing-key"),
    ];
    if let BuildError::Exists { .. } = error {
        return with_flags(error, &["--replace"]);
    }
    let text = error.to_string();
    let named = PARAMETERS.iter().filter(|(parameter, _)| text.contains(parameter));
    with_flags(error, &named.map(|(_, flag)| *flag).collect::<Vec<_>>())
}

fn with_flags(error: &impl std::fmt::Display, flags: &[&str]) -> String {
    if flags.is_empty() { error.to_string() } else { format!("{error} (on the command line: {})", flags.join(", ")) }
}

#[cfg(all(test, feature = "serve"))]
mod tests {
    use super::*;
    use ifonly_server::config::ConfigError;

    #[test]
    fn a_missing_configuration_key_is_named_with_its_flag() {
        let text = for_daemon(&ConfigError::Missing("index").into());
        assert!(text.ends_with("(on the command line: --index)"), "{text}");
        let text = for_daemon(&ConfigError::PeersWithoutTls.into());
        assert!(text.contains("--cert, --cert-key"), "{text}");
    }

    #[test]
    fn an_existing_bundle_can_be_replaced() {
        let text = for_build(&BuildError::Exists { path: "loans.bundle".into() });
        assert!(text.contains("loans.bundle") && text.contains("--replace"), "{text}");
    }
}
