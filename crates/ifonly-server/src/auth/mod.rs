//! Authorisation: bearer tokens, and the ledger that counts their searches.

pub mod ledger;
pub mod tokens;
