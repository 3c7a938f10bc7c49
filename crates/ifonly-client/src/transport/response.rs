//! Interprets HTTP responses. The code is the same for sockets and browsers.

use crate::transport::TransportError;
use ifonly_core::http_api::{CHECKSUM_LENGTH, MANIFEST_PATH, ProblemType};
use std::time::Duration;

/// The longest problem document that the client reads, in bytes.
pub const MAX_PROBLEM_LENGTH: usize = 16 << 10;

/// The error for a response with another status than 200.
///
/// The status alone decides whether the error is [`Busy`](TransportError::Busy), which the client
/// retries, or [`Refused`](TransportError::Refused). The detail comes from outside, so it is
/// shortened and freed of control characters.
pub fn refusal(status: u16, retry_after: Option<&str>, body: &[u8]) -> TransportError {
    #[derive(serde::Deserialize)]
    struct Document {
        r#type: Option<String>,
        detail: Option<String>,
    }
    let document = serde_json::from_slice(body).unwrap_or(Document { r#type: None, detail: None });
    let problem = document.r#type.as_deref().and_then(ProblemType::of);
    let detail = document.detail.as_deref().map(plain);
    let seconds = retry_after.and_then(|seconds| seconds.parse().ok());
    if matches!(status, 502..=504) {
        let retry_after = Duration::from_secs(seconds.unwrap_or(1));
        return TransportError::Busy { status, problem, detail, retry_after };
    }
    let mut detail = detail.unwrap_or_else(|| "the server gave no reason".into());
    if let Some(seconds) = seconds {
        detail += &format!("; the server says to retry in {}", span(seconds));
    }
    TransportError::Refused { status, problem, detail }
}

/// Checks the announced length of the body (`Content-Length`) for a response of `length` bytes.
pub fn check_length(announced: Option<&str>, length: usize) -> Result<(), TransportError> {
    let need = length + CHECKSUM_LENGTH;
    match announced.and_then(|text| text.parse().ok()).filter(|&announced: &u64| announced != need as u64) {
        Some(have) => Err(TransportError::Length { have, need }),
        None => Ok(()),
    }
}

/// The index that a server claims in its header.
pub fn index(claimed: Option<&str>) -> Result<u8, TransportError> {
    let index = claimed.and_then(|claimed| claimed.parse().ok());
    index.ok_or(TransportError::NotAServer("its response has no valid ifonly-server-index header"))
}

/// Paths of the previous manifests whose digests the header lists. Invalid digests are ignored, and
/// only the first few are used.
pub fn previous_manifest_paths(header: &[u8]) -> Vec<String> {
    const LIMIT: usize = 4;
    let digests = header.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter_map(|digest| {
        let digest = std::str::from_utf8(digest).ok()?;
        (digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(digest)
    });
    digests.take(LIMIT).map(|digest| format!("{MANIFEST_PATH}/{digest}")).collect()
}

/// Shortens a text from outside and removes control characters.
pub fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(300).collect()
}

/// The host of an address, in lower case, without port, path and final dot.
pub fn host(address: &str) -> String {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.rsplit_once('@').map_or(authority, |(_, authority)| authority);
    let host = match (authority.rfind(']'), authority.rfind(':')) {
        (Some(end), _) => &authority[..=end],
        (None, Some(colon)) => &authority[..colon],
        (None, None) => authority,
    };
    // An address of IP version 6 has several texts.
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match inner.and_then(|inner| inner.parse::<std::net::Ipv6Addr>().ok()) {
        Some(address) => format!("[{address}]"),
        None => host.trim_end_matches('.').to_ascii_lowercase(),
    }
}

/// Whether a host is this machine, so that no other machine can read the traffic.
pub fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A time in words, rounded up.
fn span(seconds: u64) -> String {
    match seconds {
        1 => "1 second".into(),
        0..120 => format!("{seconds} seconds"),
        120..7200 => format!("{} minutes", seconds.div_ceil(60)),
        7200..172_800 => format!("{} hours", seconds.div_ceil(3600)),
        _ => format!("{} days", seconds.div_ceil(86_400)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_four_previous_manifests_are_fetched_by_digest() {
        let digest = "0123456789abcdef".repeat(4);
        let path = format!("/v1/manifest/{digest}");
        assert_eq!(
            previous_manifest_paths(format!("{digest}, ../../etc,{digest}x,\n{digest}").as_bytes()),
            [&*path, &*path]
        );
        assert_eq!(previous_manifest_paths([&*digest; 9].join(",").as_bytes()).len(), 4);
        assert!(previous_manifest_paths(b"").is_empty());
    }

    #[test]
    fn retry_times_are_rounded_up() {
        assert_eq!([1, 119, 121, 7199].map(span), ["1 second", "119 seconds", "3 minutes", "120 minutes"]);
        assert_eq!([7200, 90_000, 200_000].map(span), ["2 hours", "25 hours", "3 days"]);
    }

    #[test]
    fn only_loopback_addresses_are_this_machine() {
        for host in ["localhost", "127.0.0.1", "127.8.8.8", "[::1]", "::1"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["localhost.example", "128.0.0.1", "127.0.0.1.example", "", "[::2]"] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn an_announced_length_must_be_right() {
        assert_eq!(check_length(None, 4), Ok(()));
        assert_eq!(check_length(Some("20"), 4), Ok(()));
        assert_eq!(check_length(Some("21"), 4), Err(TransportError::Length { have: 21, need: 20 }));
    }

    #[test]
    fn a_server_must_claim_a_valid_index() {
        assert_eq!(index(Some("3")), Ok(3));
        for claimed in [None, Some(""), Some("x"), Some("256")] {
            assert!(matches!(index(claimed), Err(TransportError::NotAServer(_))));
        }
    }

    #[test]
    fn details_are_shortened_and_have_no_control_characters() {
        let body =
            format!(r#"{{"type":"urn:ifonly:problem:budget-exhausted","detail":"\u001b[31m{}"}}"#, "x".repeat(999));
        let TransportError::Refused { status: 429, problem: Some(ProblemType::BudgetExhausted), detail } =
            refusal(429, Some("7200"), body.as_bytes())
        else {
            panic!("a different error");
        };
        assert!(detail.len() < 400 && !detail.contains('\u{1b}') && detail.ends_with("retry in 2 hours"));
    }

    #[test]
    fn a_temporary_failure_contains_the_detail_of_the_server() {
        let body = r#"{"type":"urn:ifonly:problem:shards-unavailable","detail":"rows 4 to 8 are unavailable\u0007"}"#;
        let busy = refusal(503, Some("7"), body.as_bytes());
        let text = "cannot answer at the moment (HTTP 503, shards-unavailable): rows 4 to 8 are unavailable";
        assert_eq!((busy.to_string().as_str(), busy.is_transient()), (text, true));
        let long = format!(r#"{{"detail":"\u001b{}"}}"#, "x".repeat(9999));
        let busy = refusal(503, None, long.as_bytes()).to_string();
        assert!(busy.len() < 400 && !busy.contains('\u{1b}'), "{busy}");
        // A gateway that does not send problem documents.
        let text = "cannot answer at the moment (HTTP 502)";
        assert_eq!(refusal(502, None, b"<html>").to_string(), text);
        assert!(!refusal(401, None, body.as_bytes()).is_transient());
    }
}
