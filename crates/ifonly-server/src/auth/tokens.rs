//! Bearer tokens and their budgets.
//!
//! Tokens are long random strings, so the configuration stores a plain BLAKE3 hash of each. Every
//! check compares the hash in constant time with all entries.
//!
//! A budget is a number of searches n. The server keeps no state per search, so it counts requests
//! by message kind: n requests of every phase, and n·k record fetches, where k is the limit of the
//! manifest. A search that skips its first phase therefore saves nothing. A repeated request counts
//! again. A [ledger](crate::auth::ledger), which all frontends of one server share, keeps the
//! counts.
//!
//! Tokens may be reloaded during an upload. A [`Bearer`] is therefore only the hash that the client
//! showed; its entry is looked up again when the request is charged.

use crate::auth::ledger::{DEFAULT_TIMEOUT, FileLedger, Ledger, LedgerError};
use crate::http::problem::Problem;
use ifonly_core::transcript::MessageKind;
use std::path::Path;

/// One token in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenEntry {
    /// The name of the token in the ledger.
    pub name: String,
    /// BLAKE3 of the token, 64 hexadecimal digits.
    pub hash: String,
    /// The budget in searches; without it, the token is not limited.
    #[serde(default)]
    pub searches: Option<u64>,
}

/// Why the tokens of a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokensError {
    /// The name is not unique, or the ledger cannot store it.
    #[error("invalid token name {0:?}; names must be unique and consist of letters, digits, '.', '_' and '-'")]
    Name(String),
    /// The hash is invalid.
    #[error("token {0:?}: the hash must be 64 hexadecimal digits, the BLAKE3 hash of the token")]
    Hash(String),
    /// The ledger cannot be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A budget needs a ledger; otherwise every restart would renew it.
    #[error("token {0:?} has a budget of searches; set ledger in the configuration to count them")]
    NoLedger(String),
}

/// The tokens of a server. Without tokens, every client may search.
#[derive(Debug)]
pub struct Tokens {
    entries: Vec<(TokenEntry, blake3::Hash)>,
    ledger: Option<Box<dyn Ledger>>,
}

/// The hash of the token of a request, or `None` if the request has no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bearer(Option<blake3::Hash>);

impl Bearer {
    /// From the value of an `Authorization` header.
    fn of(authorization: Option<&[u8]>) -> Bearer {
        let token = authorization.and_then(|value| {
            let (scheme, token) = value.split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
        });
        Bearer(token.map(blake3::hash))
    }
}

impl Tokens {
    /// Tokens whose searches a file counts. With an empty list, every client may search.
    pub fn new(entries: Vec<TokenEntry>, ledger: Option<&Path>) -> Result<Tokens, TokensError> {
        let ledger = ledger.map(|path| FileLedger::open(path, DEFAULT_TIMEOUT)).transpose()?;
        Tokens::counted_in(entries, ledger.map(|ledger| Box::new(ledger) as Box<dyn Ledger>))
    }

    /// Tokens whose searches the given ledger counts.
    pub fn counted_in(entries: Vec<TokenEntry>, ledger: Option<Box<dyn Ledger>>) -> Result<Tokens, TokensError> {
        let mut known: Vec<(TokenEntry, blake3::Hash)> = vec![];
        for entry in entries {
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
            if entry.name.is_empty()
                || !entry.name.chars().all(is_allowed)
                || known.iter().any(|(other, _)| other.name == entry.name)
            {
                return Err(TokensError::Name(entry.name));
            }
            if entry.searches.is_some() && ledger.is_none() {
                return Err(TokensError::NoLedger(entry.name));
            }
            let Ok(hash) = blake3::Hash::from_hex(&entry.hash) else { return Err(TokensError::Hash(entry.name)) };
            known.push((entry, hash));
        }
        Ok(Tokens { entries: known, ledger })
    }

    /// Adopts the counts of `previous`, so that a reload renews no budget, whatever happened to the
    /// ledger.
    pub(crate) fn inherit(&self, previous: &Tokens) {
        if let (Some(ledger), Some(previous)) = (&self.ledger, &previous.ledger) {
            ledger.inherit(previous.known());
        }
    }

    /// Checks the value of an `Authorization` header.
    pub fn bearer(&self, authorization: Option<&[u8]>) -> Result<Bearer, Problem> {
        let bearer = Bearer::of(authorization);
        self.entry(bearer).map(|_| bearer)
    }

    /// The entry of a token; `None` if every client may search.
    fn entry(&self, bearer: Bearer) -> Result<Option<&TokenEntry>, Problem> {
        if self.entries.is_empty() {
            return Ok(None);
        }
        let hash = bearer.0.ok_or(Problem::Unauthorized)?;
        // `blake3::Hash` compares in constant time. The loop visits all entries, so its duration
        // does not depend on which entry matches.
        let mut found = None;
        for (entry, known) in &self.entries {
            if *known == hash {
                found = Some(entry);
            }
        }
        found.map(Some).ok_or(Problem::Unauthorized)
    }

    /// Charges one request to the token. Every message kind is counted separately; one search
    /// allows `per_search` requests of this kind. The ledger may block, so call this on a blocking
    /// thread.
    pub fn spend(&self, bearer: Bearer, kind: MessageKind, per_search: u64) -> Result<(), Problem> {
        let Some((entry, searches)) = self.entry(bearer)?.and_then(|entry| Some((entry, entry.searches?))) else {
            return Ok(());
        };
        let ledger = self.ledger.as_ref().ok_or(Problem::LedgerUnavailable)?;
        match ledger.spend(&format!("{} {}", entry.name, kind_name(kind)), searches.saturating_mul(per_search)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Problem::BudgetExhausted),
            Err(error) => {
                tracing::error!(%error, "the ledger could not count a request; the server refused it");
                Err(Problem::LedgerUnavailable)
            }
        }
    }
}

/// The name of a message kind in the ledger.
fn kind_name(kind: MessageKind) -> String {
    match kind {
        MessageKind::Phase(phase) => format!("phase{phase}"),
        MessageKind::Record => "record".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, token: &str, searches: Option<u64>) -> TokenEntry {
        TokenEntry { name: name.into(), hash: blake3::hash(token.as_bytes()).to_hex().to_string(), searches }
    }

    #[test]
    fn only_known_tokens_are_accepted_and_without_tokens_every_client_is() {
        let tokens = Tokens::new(vec![entry("a", "one", None), entry("b", "two", None)], None).unwrap();
        assert_eq!(tokens.bearer(Some(b"Bearer two")), Ok(Bearer(Some(blake3::hash(b"two")))));
        assert_eq!(tokens.bearer(Some(b"bearer one ")), Ok(Bearer(Some(blake3::hash(b"one")))));
        for wrong in [None, Some(&b"Bearer three"[..]), Some(b"Basic one"), Some(b"one"), Some(b""), Some(b"Bearer ")] {
            assert_eq!(tokens.bearer(wrong), Err(Problem::Unauthorized));
        }
        let open = Tokens::new(vec![], None).unwrap();
        assert_eq!(open.bearer(None), Ok(Bearer(None)));
    }

    #[test]
    fn budgets_are_shared_through_the_ledger_and_outlive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let make = || Tokens::new(vec![entry("a", "one", Some(2)), entry("b", "two", None)], Some(&path)).unwrap();
        let (first, second) = (make(), make());
        let a = first.bearer(Some(b"Bearer one")).unwrap();
        assert_eq!(first.spend(a, MessageKind::Phase(0), 1), Ok(()));
        assert_eq!(second.spend(a, MessageKind::Phase(0), 1), Ok(()));
        assert_eq!(first.spend(a, MessageKind::Phase(0), 1), Err(Problem::BudgetExhausted));
        assert_eq!(make().spend(a, MessageKind::Phase(0), 1), Err(Problem::BudgetExhausted));
        // Every message kind has its own count; a search allows k record fetches.
        for _ in 0..6 {
            assert_eq!(second.spend(a, MessageKind::Record, 3), Ok(()));
        }
        assert_eq!(first.spend(a, MessageKind::Record, 3), Err(Problem::BudgetExhausted));
        let b = first.bearer(Some(b"Bearer two")).unwrap();
        assert!((0..10).all(|_| first.spend(b, MessageKind::Phase(0), 1).is_ok()));
    }

    #[test]
    fn a_ledger_that_shrinks_or_is_replaced_renews_no_budget() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let make = || Tokens::new(vec![entry("a", "one", Some(3))], Some(&path)).unwrap();
        let shrink = || std::fs::write(&path, "").unwrap();
        let shorten = || std::fs::write(&path, "a phase0\n").unwrap();
        let replace = || {
            std::fs::write(folder.path().join("new"), "a phase0\n".repeat(9)).unwrap();
            std::fs::rename(folder.path().join("new"), &path).unwrap();
        };
        let remove = || std::fs::remove_file(&path).unwrap();
        for damage in [&shrink as &dyn Fn(), &shorten, &replace, &remove] {
            let _ = std::fs::remove_file(&path);
            let tokens = make();
            let a = tokens.bearer(Some(b"Bearer one")).unwrap();
            for _ in 0..2 {
                assert_eq!(tokens.spend(a, MessageKind::Phase(0), 1), Ok(()));
            }
            damage();
            for _ in 0..3 {
                assert_eq!(tokens.spend(a, MessageKind::Phase(0), 1), Err(Problem::LedgerUnavailable));
            }
            // A reload finds an empty ledger, and the spent searches still count.
            std::fs::write(&path, "").unwrap();
            let reloaded = make();
            reloaded.inherit(&tokens);
            assert_eq!(reloaded.spend(a, MessageKind::Phase(0), 1), Ok(()));
            assert_eq!(reloaded.spend(a, MessageKind::Phase(0), 1), Err(Problem::BudgetExhausted));
        }
    }

    #[test]
    fn a_request_is_charged_to_the_tokens_after_a_reload_during_its_upload() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let make = |entries| Tokens::new(entries, Some(&path)).unwrap();
        let before = make(vec![entry("a", "one", Some(1)), entry("b", "two", Some(1))]);
        let (a, b) = (before.bearer(Some(b"Bearer one")).unwrap(), before.bearer(Some(b"Bearer two")).unwrap());
        // Token a is revoked, and another token has its position in the list.
        let after = make(vec![entry("b", "two", Some(1)), entry("c", "three", Some(1))]);
        assert_eq!(after.spend(a, MessageKind::Phase(0), 1), Err(Problem::Unauthorized));
        assert_eq!(after.spend(b, MessageKind::Phase(0), 1), Ok(()));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "b phase0\n");
        assert_eq!(after.spend(b, MessageKind::Phase(0), 1), Err(Problem::BudgetExhausted));
        // A request from the time without tokens has no token to charge.
        let anonymous = make(vec![]).bearer(None).unwrap();
        assert_eq!(after.spend(anonymous, MessageKind::Phase(0), 1), Err(Problem::Unauthorized));
    }

    #[test]
    fn invalid_entries_are_refused() {
        let bad_hash = TokenEntry { hash: "00".into(), ..entry("a", "x", None) };
        assert!(matches!(Tokens::new(vec![bad_hash], None), Err(TokensError::Hash(_))));
        let twice = vec![entry("a", "x", None), entry("a", "y", None)];
        assert!(matches!(Tokens::new(twice, None), Err(TokensError::Name(_))));
        assert!(matches!(Tokens::new(vec![entry("a b", "x", None)], None), Err(TokensError::Name(_))));
        assert!(matches!(Tokens::new(vec![entry("a", "x", Some(1))], None), Err(TokensError::NoLedger(_))));
    }
}
