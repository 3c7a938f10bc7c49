//! Account tokens: bearer tokens with budgets.
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
//! Tokens may be reloaded during an upload. A [`Pass`] is therefore only the hash of the token that
//! the client showed; its entry is looked up again when the request is charged.

use crate::auth::ledger::{DEFAULT_TIMEOUT, FileLedger, Ledger, LedgerError};
use crate::auth::{Authorisation, Pass, Stage};
use crate::http::problem::Problem;
use http::{HeaderMap, header};
use ifonly_core::transcript::MessageKind;
use std::path::Path;
use std::sync::Arc;

/// The name of this way to authorise.
const WAY: &str = "account tokens";

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

impl TokenEntry {
    /// The entry with its budget, if it has one.
    fn budget(&self) -> Option<(&TokenEntry, u64)> {
        self.searches.map(|searches| (self, searches))
    }
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
pub struct AccountTokens {
    entries: Vec<(TokenEntry, blake3::Hash)>,
    ledger: Option<Box<dyn Ledger>>,
}

impl From<AccountTokens> for Arc<dyn Authorisation> {
    fn from(tokens: AccountTokens) -> Arc<dyn Authorisation> {
        Arc::new(tokens)
    }
}

impl AccountTokens {
    /// Tokens whose searches a file counts. With an empty list, every client may search.
    pub fn new(entries: Vec<TokenEntry>, ledger: Option<&Path>) -> Result<AccountTokens, TokensError> {
        let ledger = ledger.map(|path| FileLedger::open(path, DEFAULT_TIMEOUT)).transpose()?;
        AccountTokens::counted_in(entries, ledger.map(|ledger| Box::new(ledger) as Box<dyn Ledger>))
    }

    /// Tokens whose searches the given ledger counts.
    pub fn counted_in(entries: Vec<TokenEntry>, ledger: Option<Box<dyn Ledger>>) -> Result<AccountTokens, TokensError> {
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
        Ok(AccountTokens { entries: known, ledger })
    }

    /// The entry of a token; `None` if every client may search.
    fn entry(&self, token: Option<blake3::Hash>) -> Result<Option<&TokenEntry>, Problem> {
        if self.entries.is_empty() {
            return Ok(None);
        }
        let hash = token.ok_or(Problem::Unauthorized)?;
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
}

impl Authorisation for AccountTokens {
    fn admit(&self, headers: &HeaderMap) -> Result<Pass, Problem> {
        let token = headers.get(header::AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.as_bytes().split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
        });
        let credential = token.map(blake3::hash);
        self.entry(credential).map(|_| Pass { way: WAY, credential })
    }

    fn spend(&self, pass: &Pass, stage: &Stage) -> Result<(), Problem> {
        let Some((entry, budget)) =
            self.entry(pass.credential.filter(|_| pass.way == WAY))?.and_then(TokenEntry::budget)
        else {
            return Ok(());
        };
        let ledger = self.ledger.as_ref().ok_or(Problem::LedgerUnavailable)?;
        let line = format!("{} {}", entry.name, kind_name(stage.kind));
        let limit = budget.saturating_mul(stage.per_search);
        // The first unit is charged only if all fit. With concurrent requests a later unit may
        // fail: then less than the budget is answered, never more.
        let first = ledger.spend(&line, limit.saturating_sub(stage.searches.saturating_sub(1)));
        let charged = (1..stage.searches).fold(first, |charged, _| match charged {
            Ok(true) => ledger.spend(&line, limit),
            refused => refused,
        });
        match charged {
            Ok(true) => Ok(()),
            Ok(false) => Err(Problem::BudgetExhausted),
            Err(error) => {
                tracing::error!(%error, "the ledger could not count a request; the server refused it");
                Err(Problem::LedgerUnavailable)
            }
        }
    }

    fn ledger(&self) -> Option<&dyn Ledger> {
        self.ledger.as_deref()
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

    fn showing(authorization: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::AUTHORIZATION, http::HeaderValue::from_static(authorization))])
    }

    fn admit(tokens: &AccountTokens, authorization: &'static str) -> Pass {
        tokens.admit(&showing(authorization)).unwrap()
    }

    fn pass(token: Option<&str>) -> Pass {
        Pass { way: WAY, credential: token.map(|token| blake3::hash(token.as_bytes())) }
    }

    fn stage(kind: MessageKind, per_search: u64) -> Stage {
        Stage { search: [0; 32], kind, per_search, searches: 1 }
    }

    const FIRST: Stage = Stage { search: [0; 32], kind: MessageKind::Phase(0), per_search: 1, searches: 1 };

    fn entry(name: &str, token: &str, searches: Option<u64>) -> TokenEntry {
        TokenEntry { name: name.into(), hash: blake3::hash(token.as_bytes()).to_hex().to_string(), searches }
    }

    #[test]
    fn only_known_tokens_are_accepted_and_without_tokens_every_client_is() {
        let tokens = AccountTokens::new(vec![entry("a", "one", None), entry("b", "two", None)], None).unwrap();
        assert_eq!(tokens.admit(&showing("Bearer two")), Ok(pass(Some("two"))));
        assert_eq!(tokens.admit(&showing("bearer one ")), Ok(pass(Some("one"))));
        for wrong in ["Bearer three", "Basic one", "one", "", "Bearer "] {
            assert_eq!(tokens.admit(&showing(wrong)), Err(Problem::Unauthorized));
        }
        assert_eq!(tokens.admit(&HeaderMap::new()), Err(Problem::Unauthorized));
        let open = AccountTokens::new(vec![], None).unwrap();
        assert_eq!(open.admit(&HeaderMap::new()), Ok(pass(None)));
    }

    #[test]
    fn a_search_for_several_rows_is_charged_as_so_many_searches() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = AccountTokens::new(vec![entry("a", "one", Some(5))], Some(&folder.path().join("ledger"))).unwrap();
        let pass = admit(&tokens, "Bearer one");
        let search = |rows| tokens.spend(&pass, &Stage { searches: rows, ..FIRST });
        assert_eq!(search(3), Ok(()));
        // What does not fit is refused and not charged.
        assert_eq!(search(3), Err(Problem::BudgetExhausted));
        assert_eq!((search(2), search(1)), (Ok(()), Err(Problem::BudgetExhausted)));
    }

    #[test]
    fn budgets_are_shared_through_the_ledger_and_outlive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let make =
            || AccountTokens::new(vec![entry("a", "one", Some(2)), entry("b", "two", None)], Some(&path)).unwrap();
        let (first, second) = (make(), make());
        let a = admit(&first, "Bearer one");
        assert_eq!(first.spend(&a, &FIRST), Ok(()));
        assert_eq!(second.spend(&a, &FIRST), Ok(()));
        assert_eq!(first.spend(&a, &FIRST), Err(Problem::BudgetExhausted));
        assert_eq!(make().spend(&a, &FIRST), Err(Problem::BudgetExhausted));
        // Every message kind has its own count; a search allows k record fetches.
        for _ in 0..6 {
            assert_eq!(second.spend(&a, &stage(MessageKind::Record, 3)), Ok(()));
        }
        assert_eq!(first.spend(&a, &stage(MessageKind::Record, 3)), Err(Problem::BudgetExhausted));
        let b = admit(&first, "Bearer two");
        assert!((0..10).all(|_| first.spend(&b, &FIRST).is_ok()));
    }

    #[test]
    fn a_ledger_that_shrinks_or_is_replaced_renews_no_budget() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let make = || AccountTokens::new(vec![entry("a", "one", Some(3))], Some(&path)).unwrap();
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
            let a = admit(&tokens, "Bearer one");
            for _ in 0..2 {
                assert_eq!(tokens.spend(&a, &FIRST), Ok(()));
            }
            damage();
            for _ in 0..3 {
                assert_eq!(tokens.spend(&a, &FIRST), Err(Problem::LedgerUnavailable));
            }
            // A reload finds an empty ledger, and the spent searches still count.
            std::fs::write(&path, "").unwrap();
            let reloaded = make();
            reloaded.inherit(&tokens);
            assert_eq!(reloaded.spend(&a, &FIRST), Ok(()));
            assert_eq!(reloaded.spend(&a, &FIRST), Err(Problem::BudgetExhausted));
        }
    }

    #[test]
    fn a_request_is_charged_to_the_tokens_after_a_reload_during_its_upload() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let make = |entries| AccountTokens::new(entries, Some(&path)).unwrap();
        let before = make(vec![entry("a", "one", Some(1)), entry("b", "two", Some(1))]);
        let (a, b) = (admit(&before, "Bearer one"), admit(&before, "Bearer two"));
        // Token a is revoked, and another token has its position in the list.
        let after = make(vec![entry("b", "two", Some(1)), entry("c", "three", Some(1))]);
        assert_eq!(after.spend(&a, &FIRST), Err(Problem::Unauthorized));
        assert_eq!(after.spend(&b, &FIRST), Ok(()));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "b phase0\n");
        assert_eq!(after.spend(&b, &FIRST), Err(Problem::BudgetExhausted));
        // A request from the time without tokens has no token to charge.
        let anonymous = make(vec![]).admit(&HeaderMap::new()).unwrap();
        assert_eq!(after.spend(&anonymous, &FIRST), Err(Problem::Unauthorized));
    }

    #[test]
    fn invalid_entries_are_refused() {
        let bad_hash = TokenEntry { hash: "00".into(), ..entry("a", "x", None) };
        assert!(matches!(AccountTokens::new(vec![bad_hash], None), Err(TokensError::Hash(_))));
        let twice = vec![entry("a", "x", None), entry("a", "y", None)];
        assert!(matches!(AccountTokens::new(twice, None), Err(TokensError::Name(_))));
        assert!(matches!(AccountTokens::new(vec![entry("a b", "x", None)], None), Err(TokensError::Name(_))));
        assert!(matches!(AccountTokens::new(vec![entry("a", "x", Some(1))], None), Err(TokensError::NoLedger(_))));
    }
}
