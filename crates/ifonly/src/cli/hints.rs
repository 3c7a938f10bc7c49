//! What a person can do when servers give nothing: which flag, whom to ask. Said once for each kind
//! of trouble.

use ifonly_client::{ClientError, TransportError};
use ifonly_core::http_api::ProblemType;

/// The error, and what to do about it.
pub(crate) fn explained(error: &ClientError) -> String {
    let mut advice: Vec<&str> = error.failures().iter().filter_map(|failure| advice(&failure.error)).collect();
    advice.sort_unstable();
    advice.dedup();
    match advice.is_empty() {
        true => error.to_string(),
        false => format!("{error}. What to do: {}.", advice.join("; ")),
    }
}

fn advice(error: &TransportError) -> Option<&'static str> {
    match error {
        TransportError::Refused { problem: Some(ProblemType::Unauthorized), .. } => Some(
            "give the token that the operator gave you with --token [URL=]TOKEN, --token-file FILE or in IFONLY_TOKEN; if you \
             did, ask them whether it is still good",
        ),
        TransportError::Refused { problem: Some(ProblemType::BudgetExhausted), .. } => Some(
            "ask the operator for more sessions, or give another token with --token; asking again now changes nothing",
        ),
        TransportError::UnknownAuthority => Some(
            "if the operator's authority is their own, get its certificate from them by a way that you trust and give it with \
             --ca FILE",
        ),
        TransportError::ConnectionRefused => Some("check the address and the port, and whether the server runs"),
        TransportError::NoTls => Some(
            "the server has no certificate: ask its operator for the https:// address; http:// is for servers on this machine",
        ),
        TransportError::NotPlain => Some("write https:// in the server's address"),
        _ => None,
    }
}
