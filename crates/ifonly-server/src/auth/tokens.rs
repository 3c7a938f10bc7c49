//! Who may ask, and how often.
//!
//! Tokens are long random words, so a plain BLAKE3 hash of them can be stored; hashes are compared
//! in constant time and all of them every time. A budget is a number of sessions. Because the
//! server keeps nothing per query, it counts requests of every stage instead: a token with n
//! sessions has n requests of every phase and n·k record fetches, k the manifest's limit. A search
//! that skips its first phase thus gains nothing. A repeated request counts again.
//!
//! What is spent is counted in a [ledger](crate::auth::ledger), which all fronts of a logical
//! server share.
//!
//! Tokens may be reloaded while a message uploads. So a [`Bearer`] is what was shown, and whose it
//! is, is looked up again when it spends.

use crate::auth::ledger::{FileLedger, Ledger, LedgerError, PATIENCE};
use crate::http::problem::Problem;
use ifonly_core::transcript::MessageKind;
use std::path::Path;

/// One token in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenEntry {
    /// What the ledger calls it.
    pub name: String,
    /// BLAKE3 of the token, 64 hexadecimal digits.
    pub hash: String,
    /// How many sessions it is good for; without, any number.
    #[serde(default)]
    pub searches: Option<u64>,
}

/// Why tokens cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokensError {
    /// A name that the ledger could not hold, or twice the same.
    #[error("token name {0:?} must be unique and of letters, digits, '.', '_' and '-'")]
    Name(String),
    /// No hash.
    #[error("token {0:?}: the hash must be 64 hexadecimal digits; `ifonly keygen --token` prints one")]
    Hash(String),
    /// The ledger cannot be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A budget without a ledger would be forgotten at every restart.
    #[error("token {0:?} has a budget of sessions, so the configuration needs a `ledger` to count them in")]
    NoLedger(String),
}

/// The tokens of a server, or none if everybody may ask.
#[derive(Debug)]
pub struct Tokens {
    entries: Vec<(TokenEntry, blake3::Hash)>,
    ledger: Option<Box<dyn Ledger>>,
}

/// What a request has shown: the hash of its token, if there was one.
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
    /// These tokens, counted in a file; an empty list lets everybody in.
    pub fn new(entries: Vec<TokenEntry>, ledger: Option<&Path>) -> Result<Tokens, TokensError> {
        let ledger = ledger.map(|path| FileLedger::open(path, PATIENCE)).transpose()?;
        Tokens::counted_in(entries, ledger.map(|ledger| Box::new(ledger) as Box<dyn Ledger>))
    }

    /// These tokens, counted in any ledger.
    pub fn counted_in(entries: Vec<TokenEntry>, ledger: Option<Box<dyn Ledger>>) -> Result<Tokens, TokensError> {
        let mut known: Vec<(TokenEntry, blake3::Hash)> = vec![];
        for entry in entries {
            let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
            if entry.name.is_empty()
                || !entry.name.chars().all(fine)
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

    /// Counts on from what `earlier` has counted: whatever happened to the ledger, a reload renews
    /// no budget.
    pub(crate) fn inherit(&self, earlier: &Tokens) {
        if let (Some(ledger), Some(earlier)) = (&self.ledger, &earlier.ledger) {
            ledger.inherit(earlier.known());
        }
    }

    /// Whether the value of an `Authorization` header lets in.
    pub fn bearer(&self, authorization: Option<&[u8]>) -> Result<Bearer, Problem> {
        let bearer = Bearer::of(authorization);
        self.entry(bearer).map(|_| bearer)
    }

    /// Whose token it is; `None` where everybody may ask.
    fn entry(&self, bearer: Bearer) -> Result<Option<&TokenEntry>, Problem> {
        if self.entries.is_empty() {
            return Ok(None);
        }
        let hash = bearer.0.ok_or(Problem::Unauthorized)?;
        // `blake3::Hash` compares in constant time; going through all entries hides which one it
        // was.
        let mut found = None;
        for (entry, known) in &self.entries {
            if *known == hash {
                found = Some(entry);
            }
        }
        found.map(Some).ok_or(Problem::Unauthorized)
    }

    /// Spends one request of whoever has this token now; each stage is counted apart, `per_session`
    /// of it belong to a session. May wait for the ledger, so it belongs on a thread that may
    /// block.
    pub fn spend(&self, bearer: Bearer, stage: MessageKind, per_search: u64) -> Result<(), Problem> {
        let Some((entry, searches)) = self.entry(bearer)?.and_then(|entry| Some((entry, entry.searches?))) else {
            return Ok(());
        };
        let ledger = self.ledger.as_ref().ok_or(Problem::LedgerUnavailable)?;
        match ledger.spend(&format!("{} {}", entry.name, word(stage)), searches.saturating_mul(per_search)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Problem::BudgetExhausted),
            Err(error) => {
                tracing::error!(%error, "a session could not be counted, so nothing was answered");
                Err(Problem::LedgerUnavailable)
            }
        }
    }
}

/// A stage as the ledger writes it.
fn word(stage: MessageKind) -> String {
    match stage {
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
    fn only_known_tokens_pass_and_without_tokens_everybody_does() {
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
        // Every stage has its own count, and records come k to a session.
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
        for harm in [&shrink as &dyn Fn(), &shorten, &replace, &remove] {
            let _ = std::fs::remove_file(&path);
            let tokens = make();
            let a = tokens.bearer(Some(b"Bearer one")).unwrap();
            for _ in 0..2 {
                assert_eq!(tokens.spend(a, MessageKind::Phase(0), 1), Ok(()));
            }
            harm();
            for _ in 0..3 {
                assert_eq!(tokens.spend(a, MessageKind::Phase(0), 1), Err(Problem::LedgerUnavailable));
            }
            // A reload finds an empty ledger, and what was spent is spent all the same.
            std::fs::write(&path, "").unwrap();
            let reloaded = make();
            reloaded.inherit(&tokens);
            assert_eq!(reloaded.spend(a, MessageKind::Phase(0), 1), Ok(()));
            assert_eq!(reloaded.spend(a, MessageKind::Phase(0), 1), Err(Problem::BudgetExhausted));
        }
    }

    #[test]
    fn tokens_that_are_reloaded_during_a_request_count_as_they_are_then() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let make = |entries| Tokens::new(entries, Some(&path)).unwrap();
        let before = make(vec![entry("a", "one", Some(1)), entry("b", "two", Some(1))]);
        let (a, b) = (before.bearer(Some(b"Bearer one")).unwrap(), before.bearer(Some(b"Bearer two")).unwrap());
        // a is revoked, and its place in the list is another's.
        let after = make(vec![entry("b", "two", Some(1)), entry("c", "three", Some(1))]);
        assert_eq!(after.spend(a, MessageKind::Phase(0), 1), Err(Problem::Unauthorized));
        assert_eq!(after.spend(b, MessageKind::Phase(0), 1), Ok(()));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "b phase0\n");
        assert_eq!(after.spend(b, MessageKind::Phase(0), 1), Err(Problem::BudgetExhausted));
        // Whoever came when everybody might ask has no token to pay with.
        let nobody = make(vec![]).bearer(None).unwrap();
        assert_eq!(after.spend(nobody, MessageKind::Phase(0), 1), Err(Problem::Unauthorized));
    }

    #[test]
    fn faulty_entries_are_refused() {
        let bad_hash = TokenEntry { hash: "00".into(), ..entry("a", "x", None) };
        assert!(matches!(Tokens::new(vec![bad_hash], None), Err(TokensError::Hash(_))));
        let twice = vec![entry("a", "x", None), entry("a", "y", None)];
        assert!(matches!(Tokens::new(twice, None), Err(TokensError::Name(_))));
        assert!(matches!(Tokens::new(vec![entry("a b", "x", None)], None), Err(TokensError::Name(_))));
        assert!(matches!(Tokens::new(vec![entry("a", "x", Some(1))], None), Err(TokensError::NoLedger(_))));
    }
}
