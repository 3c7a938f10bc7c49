//! The configuration key `ledger`: a path, a URL, or a table with further settings.
//!
//! A URL may contain a password, so it can come from a file or an environment variable, where
//! cluster secrets are stored. No log line, error or `Debug` output contains the URL.

use crate::auth::ledger::LedgerError;
use std::path::PathBuf;
use std::time::Duration;

/// The location of the ledger. In TOML, a string (a path or a URL), or a table with exactly one of
/// `file`, `url`, `url_file` and `url_env`, and the other keys.
#[derive(Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerConfig {
    file: Option<PathBuf>,
    url: Option<String>,
    url_file: Option<PathBuf>,
    url_env: Option<String>,
    /// The name of the ledger in a store with several ledgers; by default the name of the dataset
    /// and the server index.
    pub(crate) name: Option<String>,
    /// PEM file of the authority that issued the certificate of the store; by default the
    /// authorities of the operating system.
    pub(crate) ca: Option<PathBuf>,
    /// Time limit for a connection and for a reply; for a file, until the line is written.
    #[serde(default = "default_timeout_seconds")]
    timeout_seconds: u64,
    /// For Redis: how many replicas must confirm a count.
    #[serde(default)]
    pub(crate) replicas: u32,
}

const fn default_timeout_seconds() -> u64 {
    3
}

/// The default time limit.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(default_timeout_seconds());

/// The resolved location of a ledger.
pub(crate) enum LedgerLocation {
    File(PathBuf),
    /// The URL of a store, password included.
    Url(String),
}

/// URL schemes of the supported stores.
const URL_SCHEMES: [&str; 7] = ["postgres", "postgresql", "redis", "rediss", "redis+unix", "valkey", "valkeys"];

impl LedgerConfig {
    /// A configuration with only a path or a URL. A text with `://` is a URL.
    pub fn new(text: &str) -> LedgerConfig {
        let is_url = text.contains("://");
        LedgerConfig {
            file: (!is_url).then(|| text.into()),
            url: is_url.then(|| text.into()),
            url_file: None,
            url_env: None,
            name: None,
            ca: None,
            timeout_seconds: default_timeout_seconds(),
            replicas: 0,
        }
    }

    /// Sets the time limit.
    pub fn with_timeout_seconds(self, seconds: u64) -> LedgerConfig {
        LedgerConfig { timeout_seconds: seconds, ..self }
    }

    /// Sets how many replicas must confirm a count.
    pub fn with_replicas(self, replicas: u32) -> LedgerConfig {
        LedgerConfig { replicas, ..self }
    }

    /// The paths, which are relative to the directory of the configuration file.
    pub(crate) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.file.iter_mut().chain(&mut self.url_file).chain(&mut self.ca)
    }

    /// Time limit for a connection and for a reply; for a file, until the line is written.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }

    /// Resolves the location; reads the file or environment variable that contains the URL.
    pub(crate) fn location(&self) -> Result<LedgerLocation, LedgerError> {
        let invalid = |text: String| Err(LedgerError::Config(text));
        if !(1..=60).contains(&self.timeout_seconds) {
            return invalid("timeout_seconds must be from 1 to 60".into());
        }
        let url = match (&self.file, &self.url, &self.url_file, &self.url_env) {
            (Some(path), None, None, None) => return Ok(LedgerLocation::File(path.clone())),
            (None, Some(url), None, None) => url.clone(),
            (None, None, Some(path), None) => {
                std::fs::read_to_string(path).map_err(|error| LedgerError::File { path: path.clone(), error })?
            }
            (None, None, None, Some(name)) => match std::env::var(name) {
                Ok(url) => url,
                Err(_) => return invalid(format!("url_env: the environment variable {name} is not set")),
            },
            _ => return invalid("set exactly one of file, url, url_file and url_env".into()),
        };
        let url = url.trim();
        // The error does not quote the URL, because it may contain a password.
        match url.split_once("://") {
            Some((scheme, _)) if URL_SCHEMES.contains(&scheme) => Ok(LedgerLocation::Url(url.into())),
            _ => invalid(format!("the URL must begin with one of {}, followed by ://", URL_SCHEMES.join(", "))),
        }
    }
}

impl std::fmt::Debug for LedgerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let url = self.url.as_ref().map(|_| "…");
        let mut shown = f.debug_struct("LedgerConfig");
        shown.field("file", &self.file).field("url", &url).field("url_file", &self.url_file);
        shown.field("url_env", &self.url_env).field("name", &self.name).field("ca", &self.ca);
        shown.field("timeout_seconds", &self.timeout_seconds).field("replicas", &self.replicas).finish()
    }
}

/// Deserializes a string or a table.
pub(crate) fn deserialize_some<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<LedgerConfig>, D::Error> {
    struct StringOrTable;

    impl<'de> serde::de::Visitor<'de> for StringOrTable {
        type Value = LedgerConfig;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a path, a URL, or a table with file, url, url_file or url_env")
        }

        fn visit_str<E>(self, text: &str) -> Result<LedgerConfig, E> {
            Ok(LedgerConfig::new(text))
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<LedgerConfig, A::Error> {
            serde::Deserialize::deserialize(serde::de::value::MapAccessDeserializer::new(map))
        }
    }

    from.deserialize_any(StringOrTable).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn read(toml: &str) -> LedgerConfig {
        Config::parse(toml).unwrap().ledger.unwrap()
    }

    fn url(config: &LedgerConfig) -> String {
        match config.location() {
            Ok(LedgerLocation::Url(url)) => url,
            Ok(LedgerLocation::File(path)) => panic!("a file: {path:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_ledger_is_a_path_or_a_url_from_the_configuration_a_file_or_the_environment() {
        assert!(
            matches!(read("ledger = \"a/b\"").location(), Ok(LedgerLocation::File(path)) if path.to_str() == Some("a/b"))
        );
        assert_eq!(url(&read("ledger = \"valkey://h\"")), "valkey://h");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("url");
        std::fs::write(&path, "redis://:word@h/2\n").unwrap();
        let config = read(&format!("ledger = {{ url_file = {path:?}, name = \"n\", replicas = 1 }}"));
        assert_eq!((url(&config), config.name.as_deref(), config.replicas), ("redis://:word@h/2".into(), Some("n"), 1));
        // Every machine has this variable, and its value is not a URL.
        assert!(url(&read("ledger = { url_env = \"PATH\" }")).contains("must begin with one of postgres"));
        assert!(url(&read("ledger = { url_env = \"IFONLY_NO_SUCH\" }")).contains("IFONLY_NO_SUCH"));
        for (toml, reason) in [
            ("ledger = {}", "exactly one"),
            ("ledger = { url = \"redis://h\", file = \"x\" }", "exactly one"),
            ("ledger = \"mysql://h\"", "must begin with"),
            ("ledger = { file = \"x\", timeout_seconds = 0 }", "timeout_seconds"),
        ] {
            let Err(error) = read(toml).location() else { panic!("{toml}") };
            assert!(error.to_string().contains(reason), "{toml}: {error}");
        }
    }

    #[test]
    fn debug_output_and_errors_contain_no_password() {
        let config = read("ledger = \"postgres://u:hush@h/d\"");
        assert!(!format!("{config:?}").contains("hush"));
        // The TOML parser quotes the invalid line; `Config::load` removes lines with a URL.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.toml");
        for wrong in [
            "ledger = { url = \"redis://:hush@h\", nmae = \"x\" }",
            "ledger = \"redis://:hush@h",
            "leger = \"redis://:hush@h\"",
        ] {
            std::fs::write(&path, format!("index = 1\n{wrong}\n")).unwrap();
            let error = Config::load(&path).unwrap_err().to_string();
            assert!(!error.contains("hush") && error.contains("line 2"), "{error}");
        }
    }
}
