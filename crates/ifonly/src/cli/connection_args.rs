//! The way to servers: whom to trust, which token to show, how long to wait, what to insist on. The
//! same flags wherever servers are asked.

use crate::cli::exit::CommandError;
use ifonly_client::transport::http;
use ifonly_client::transport::http::TlsTrust;
use ifonly_client::{Client, Pins, RetryPolicy, Transport};
use ifonly_core::signature::PublicKey;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What servers must offer, or they are refused.
#[derive(Debug, clap::Args)]
pub(crate) struct PinArgs {
    /// Refuse servers of which fewer than this many together could learn something.
    #[arg(long, value_name = "T")]
    threshold: Option<usize>,
    /// Refuse another manifest than the one with this digest, which `ifonly inspect` prints.
    #[arg(long, value_name = "DIGEST")]
    manifest: Option<String>,
    /// Refuse records that are not signed by this public key, which `ifonly inspect` prints.
    #[arg(long, value_name = "KEY")]
    signer: Option<PublicKey>,
    /// Refuse servers of other operators than these, in the order of their numbers.
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
    /// Trust only the authorities in this PEM file.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// A bearer token for all servers, or URL=TOKEN for one of them; better in the environment
    /// (spaces between several) or in a file than on the command line.
    #[arg(
        long = "token",
        value_name = "[URL=]TOKEN",
        env = "IFONLY_TOKEN",
        hide_env_values = true,
        value_delimiter = ' '
    )]
    tokens: Vec<String>,
    /// A file with one such token per line.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// How long one exchange with a server may take, retries included.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Allow plain HTTP to other machines. Whoever reads the links to all servers then reads your
    /// question.
    #[arg(long)]
    plain_http: bool,
}

impl ConnectionArgs {
    /// Meets the servers at these addresses.
    pub(crate) async fn connect(&self, urls: &[String], pins: &Pins) -> Result<Client, CommandError> {
        let trust = match &self.ca {
            Some(path) => TlsTrust::pem(&read(path)?)?,
            None => TlsTrust::system()?,
        };
        let trust = trust.plain_http(self.plain_http);
        let policy = RetryPolicy { deadline: Duration::from_secs(self.timeout), ..RetryPolicy::default() };
        let tokens = self.tokens()?;
        let named = |token: &&(Option<String>, String)| token.0.as_ref().is_some_and(|url| !urls.contains(url));
        if let Some((Some(url), _)) = tokens.iter().find(named) {
            return Err(CommandError::Input(format!("--token {url}=…: none of the servers has this address")));
        }
        let mut servers: Vec<Arc<dyn Transport>> = vec![];
        for url in urls {
            let own = tokens.iter().find(|(named, _)| named.as_ref() == Some(url));
            let token =
                own.or_else(|| tokens.iter().find(|(named, _)| named.is_none())).map(|(_, token)| token.as_str());
            servers.extend(http::servers(std::slice::from_ref(url), &trust, token, policy)?);
        }
        Ok(Client::connect(servers, pins).await?)
    }

    /// All tokens, each with the address that it is for, if it is for one only.
    fn tokens(&self) -> Result<Vec<(Option<String>, String)>, CommandError> {
        let file = self.token_file.as_ref().map(read).transpose()?.unwrap_or_default();
        let file = String::from_utf8(file).map_err(|_| CommandError::Input("--token-file: it is not text".into()))?;
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

/// Runs something that asks servers.
pub(crate) fn run<T>(asking: impl Future<Output = Result<T, CommandError>>) -> Result<T, CommandError> {
    tokio::runtime::Runtime::new().map_err(CommandError::machine)?.block_on(asking)
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
