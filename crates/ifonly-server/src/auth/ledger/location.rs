//! `ledger` in the configuration: a path, a URL, or a table that says more.
//!
//! A URL may hold a password, so it can come from a file or from the environment, where secrets of
//! a cluster are found; it appears in no log, no error and no `Debug`.

use crate::auth::ledger::LedgerError;
use std::path::PathBuf;
use std::time::Duration;

/// Where spent sessions are counted. In TOML a text, which is a path or a URL, or a table with one
/// of `file`, `url`, `url_file`, `url_env` and the other keys.
#[derive(Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerConfig {
    file: Option<PathBuf>,
    url: Option<String>,
    url_file: Option<PathBuf>,
    url_env: Option<String>,
    /// Whose counts these are in a store that holds several; the dataset's name and the server's
    /// number without.
    pub(crate) name: Option<String>,
    /// The authority that issued the store's certificate, PEM; those of the system without.
    pub(crate) ca: Option<PathBuf>,
    /// How long to wait for a connection, and for a reply; for a file, until a line is written.
    #[serde(default = "usual_timeout")]
    timeout_seconds: u64,
    /// Of a Redis: how many replicas must have a count before it is good.
    #[serde(default)]
    pub(crate) replicas: u32,
}

const fn usual_timeout() -> u64 {
    3
}

/// How long to wait where nothing else is said.
pub(crate) const PATIENCE: Duration = Duration::from_secs(usual_timeout());

/// What a configuration comes down to.
pub(crate) enum LedgerLocation {
    File(PathBuf),
    /// With everything in it.
    Url(String),
}

const STORES: [&str; 7] = ["postgres", "postgresql", "redis", "rediss", "redis+unix", "valkey", "valkeys"];

impl LedgerConfig {
    /// A path, or a URL if it looks like one.
    pub fn new(text: &str) -> LedgerConfig {
        let is_url = text.contains("://");
        LedgerConfig {
            file: (!is_url).then(|| text.into()),
            url: is_url.then(|| text.into()),
            url_file: None,
            url_env: None,
            name: None,
            ca: None,
            timeout_seconds: usual_timeout(),
            replicas: 0,
        }
    }

    /// With another time to wait.
    pub fn within(self, seconds: u64) -> LedgerConfig {
        LedgerConfig { timeout_seconds: seconds, ..self }
    }

    /// With so many replicas that must have every count.
    pub fn replicated(self, replicas: u32) -> LedgerConfig {
        LedgerConfig { replicas, ..self }
    }

    /// The paths in it, which are relative to the configuration's file.
    pub(crate) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.file.iter_mut().chain(&mut self.url_file).chain(&mut self.ca)
    }

    /// How long to wait for a connection, and for a reply; for a file, until a line is written.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }

    /// Reads whatever file or variable it names.
    pub(crate) fn place(&self) -> Result<LedgerLocation, LedgerError> {
        let wrong = |text: String| Err(LedgerError::Place(text));
        if !(1..=60).contains(&self.timeout_seconds) {
            return wrong("timeout_seconds must be from 1 to 60".into());
        }
        let url = match (&self.file, &self.url, &self.url_file, &self.url_env) {
            (Some(path), None, None, None) => return Ok(LedgerLocation::File(path.clone())),
            (None, Some(url), None, None) => url.clone(),
            (None, None, Some(path), None) => {
                std::fs::read_to_string(path).map_err(|error| LedgerError::File { path: path.clone(), error })?
            }
            (None, None, None, Some(name)) => match std::env::var(name) {
                Ok(url) => url,
                Err(_) => return wrong(format!("the environment variable {name}, which url_env names, is not set")),
            },
            _ => return wrong("give exactly one of file, url, url_file and url_env".into()),
        };
        let url = url.trim();
        // What stands before the first colon is no secret, unless there is no scheme at all.
        match url.split_once("://") {
            Some((scheme, _)) if STORES.contains(&scheme) => Ok(LedgerLocation::Url(url.into())),
            _ => wrong(format!("its URL must begin with one of {}, followed by ://", STORES.join(", "))),
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

/// Text or table, for a field of the configuration.
pub(crate) fn some<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<LedgerConfig>, D::Error> {
    struct Either;

    impl<'de> serde::de::Visitor<'de> for Either {
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

    from.deserialize_any(Either).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn read(toml: &str) -> LedgerConfig {
        Config::parse(toml).unwrap().ledger.unwrap()
    }

    fn url(config: &LedgerConfig) -> String {
        match config.place() {
            Ok(LedgerLocation::Url(url)) => url,
            Ok(LedgerLocation::File(path)) => panic!("a file: {path:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_ledger_is_a_path_or_a_url_from_here_or_from_elsewhere() {
        assert!(
            matches!(read("ledger = \"a/b\"").place(), Ok(LedgerLocation::File(path)) if path.to_str() == Some("a/b"))
        );
        assert_eq!(url(&read("ledger = \"valkey://h\"")), "valkey://h");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("url");
        std::fs::write(&path, "redis://:word@h/2\n").unwrap();
        let config = read(&format!("ledger = {{ url_file = {path:?}, name = \"n\", replicas = 1 }}"));
        assert_eq!((url(&config), config.name.as_deref(), config.replicas), ("redis://:word@h/2".into(), Some("n"), 1));
        // Every machine has this variable, and it is no URL.
        assert!(url(&read("ledger = { url_env = \"PATH\" }")).contains("must begin with one of postgres"));
        assert!(url(&read("ledger = { url_env = \"IFONLY_NO_SUCH\" }")).contains("IFONLY_NO_SUCH"));
        for (toml, why) in [
            ("ledger = {}", "exactly one"),
            ("ledger = { url = \"redis://h\", file = \"x\" }", "exactly one"),
            ("ledger = \"mysql://h\"", "must begin with"),
            ("ledger = { file = \"x\", timeout_seconds = 0 }", "timeout_seconds"),
        ] {
            let Err(error) = read(toml).place() else { panic!("{toml}") };
            assert!(error.to_string().contains(why), "{toml}: {error}");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        let config = read("ledger = \"postgres://u:hush@h/d\"");
        assert!(!format!("{config:?}").contains("hush"));
        // The reader of TOML shows the line that is wrong, so the file's reader leaves lines away
        // that may hold one.
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
