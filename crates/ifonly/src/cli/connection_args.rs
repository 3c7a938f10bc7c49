//! Flags for connecting to servers: trusted certificates, tokens, timeout, and pins. All commands
//! that connect to servers share them.

use crate::cli::exit::CommandError;
use ifonly_client::transport::http;
use ifonly_client::transport::http::TlsTrust;
use ifonly_client::{Client, Pins, RetryPolicy, Transport};
use ifonly_core::signature::PublicKey;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Values that the manifest must have (pins). If one differs, no query is sent.
#[derive(Debug, clap::Args)]
pub(crate) struct PinArgs {
    /// Require a privacy threshold of at least T: any T servers together learn nothing.
    #[arg(long, value_name = "T")]
    threshold: Option<usize>,
    /// Require the manifest with this digest, as printed by `ifonly inspect`.
    #[arg(long, value_name = "DIGEST")]
    manifest: Option<String>,
    /// Require records signed by this public key, as printed by `ifonly inspect`.
    #[arg(long, value_name = "KEY")]
    signer: Option<PublicKey>,
    /// Require these operators, separated by commas, in the order of the server indices.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    operators: Option<Vec<String>>,
}

impl PinArgs {
    pub(crate) fn pins(&self) -> Pins {
        Pins {
            threshold: self.threshold,
            manifest: self.manifest.clone(),
            signer: self.signer,
            operators: self.operators.clone(),
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct ConnectionArgs {
    /// PEM file of the only certificate authorities to trust; default: those of the system.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Bearer token for all servers, or URL=TOKEN for one server; repeatable. Other users of this
    /// machine can read command lines, so prefer --token-file or the environment variable, in
    /// which spaces separate several tokens.
    #[arg(
        long = "token",
        value_name = "[URL=]TOKEN",
        env = "IFONLY_TOKEN",
        hide_env_values = true,
        value_delimiter = ' '
    )]
    tokens: Vec<String>,
    /// File with one TOKEN or URL=TOKEN per line; lines that start with # are ignored.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Time limit for one request to a server, in seconds, retries included.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Allow plain HTTP to other machines. An eavesdropper on all links can read your query.
    #[arg(long)]
    plain_http: bool,
}

impl ConnectionArgs {
    /// Connects to the servers at these addresses and compares their manifests.
    pub(crate) async fn connect(&self, urls: &[String], pins: &Pins) -> Result<Client, CommandError> {
        let trust = match &self.ca {
            Some(path) => TlsTrust::pem(&read(path)?)?,
            None => TlsTrust::system()?,
        };
        let trust = trust.plain_http(self.plain_http);
        let policy = RetryPolicy { deadline: Duration::from_secs(self.timeout), ..RetryPolicy::default() };
        let tokens = self.tokens()?;
        let unknown = |token: &&(Option<String>, String)| token.0.as_ref().is_some_and(|url| !urls.contains(url));
        if let Some((Some(url), _)) = tokens.iter().find(unknown) {
            return Err(CommandError::Input(format!("--token {url}=…: none of the servers has this address")));
        }
        let mut servers: Vec<Arc<dyn Transport>> = vec![];
        for url in urls {
            let own = tokens.iter().find(|(owner, _)| owner.as_ref() == Some(url));
            let token =
                own.or_else(|| tokens.iter().find(|(owner, _)| owner.is_none())).map(|(_, token)| token.as_str());
            servers.extend(http::servers(std::slice::from_ref(url), &trust, token, policy)?);
        }
        Ok(Client::connect(servers, pins).await?)
    }

    /// All tokens, each with the address of its server; `None` means all servers.
    fn tokens(&self) -> Result<Vec<(Option<String>, String)>, CommandError> {
        let file = self.token_file.as_ref().map(read).transpose()?.unwrap_or_default();
        let file = String::from_utf8(file)
            .map_err(|_| CommandError::Input("--token-file: the file is not UTF-8 text".into()))?;
        let lines = file.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let parse = |text: &str| match text.rsplit_once('=') {
            Some((url, token)) if url.starts_with("http://") || url.starts_with("https://") => {
                (Some(url.to_owned()), token.to_owned())
            }
            _ => (None, text.to_owned()),
        };
        Ok(self.tokens.iter().map(String::as_str).chain(lines).map(parse).collect())
    }
}

fn read(path: &PathBuf) -> Result<Vec<u8>, CommandError> {
    std::fs::read(path).map_err(|error| CommandError::Input(format!("{}: {error}", path.display())))
}

/// Runs a future that communicates with servers.
pub(crate) fn run<T>(future: impl Future<Output = Result<T, CommandError>>) -> Result<T, CommandError> {
    tokio::runtime::Runtime::new().map_err(CommandError::machine)?.block_on(future)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        connection: ConnectionArgs,
    }

    #[test]
    fn tokens_are_for_all_servers_or_for_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "# ours\nhttps://b.example=def\n\n").unwrap();
        let file = file.path().to_str().unwrap();
        let flags = Flags::parse_from(["x", "--token", "abc", "--token-file", file]);
        let tokens = flags.connection.tokens().unwrap();
        assert_eq!(tokens, [(None, "abc".into()), (Some("https://b.example".into()), "def".into())]);
        let urls = ["https://a.example".to_owned()];
        let failure = run(flags.connection.connect(&urls, &Pins::default())).unwrap_err().to_string();
        assert!(failure.contains("https://b.example=…: none of the servers"), "{failure}");
    }
}
