//! Flags for connecting to servers: trusted certificates, tokens, timeout, and pins. All commands
//! that connect to servers share them.

use crate::cli::exit::CommandError;
use ifonly_client::transport::http;
use ifonly_client::transport::http::TlsTrust;
use ifonly_client::{Client, EndpointTokens, Pins, RetryPolicy};
use ifonly_core::signature::PublicKey;
use std::path::PathBuf;
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
            allow_same_host: false,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct TrialArgs {
    /// For trials: allow two servers with the same host or certificate key, where one operator gets
    /// two shares of the query.
    #[arg(long)]
    pub(crate) allow_same_host: bool,
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
    #[command(flatten)]
    trial: TrialArgs,
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
        let endpoints = self.tokens()?.endpoints(urls);
        let endpoints = endpoints.map_err(|error| CommandError::Input(format!("--token: {error}")))?;
        let pins = Pins { allow_same_host: self.trial.allow_same_host, ..pins.clone() };
        Ok(Client::connect(http::servers(endpoints, &trust, policy)?, &pins).await?)
    }

    /// All tokens. Of several for the same servers, the first applies; flags precede the file.
    fn tokens(&self) -> Result<EndpointTokens, CommandError> {
        let file = self.token_file.as_ref().map(read).transpose()?.unwrap_or_default();
        let file = String::from_utf8(file)
            .map_err(|_| CommandError::Input("--token-file: the file is not UTF-8 text".into()))?;
        let lines = file.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut tokens = EndpointTokens::default();
        for text in self.tokens.iter().map(String::as_str).chain(lines) {
            match text.rsplit_once('=') {
                Some((url, token)) if url.starts_with("http://") || url.starts_with("https://") => {
                    tokens.own.entry(url.to_owned()).or_insert_with(|| token.to_owned());
                }
                _ => drop(tokens.all.get_or_insert_with(|| text.to_owned())),
            }
        }
        Ok(tokens)
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
    use ifonly::ErrorCategory;

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
        assert_eq!(tokens.all.as_deref(), Some("abc"));
        assert_eq!(Vec::from_iter(tokens.own), [("https://b.example".to_owned(), "def".to_owned())]);
        let urls = ["https://a.example".to_owned()];
        let failure = run(flags.connection.connect(&urls, &Pins::default())).unwrap_err().to_string();
        assert!(failure.contains("none of the servers has the address https://b.example"), "{failure}");
    }

    #[test]
    fn two_servers_with_one_host_are_refused_unless_a_flag_allows_it() {
        let urls = ["https://a.invalid/one".to_owned(), "https://A.invalid:8443/two".to_owned()];
        let failure = |flags: &[&str]| {
            let flags = Flags::parse_from([&["x", "--timeout", "1"], flags].concat());
            run(flags.connection.connect(&urls, &Pins::default())).unwrap_err()
        };
        let refused = failure(&[]);
        assert!(refused.category() == ErrorCategory::Input, "{refused}");
        assert!(refused.to_string().contains("have the same host, a.invalid"), "{refused}");
        assert!(refused.to_string().contains("--allow-same-host"), "{refused}");
        let tried = failure(&["--allow-same-host"]);
        assert!(tried.category() == ErrorCategory::Servers, "{tried}");
    }
}
