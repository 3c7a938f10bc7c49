//! What HTTP responses say, whoever fetched them: a socket of this machine or a browser.

use crate::transport::TransportError;
use ifonly_core::http_api::{CHECKSUM_LENGTH, MANIFEST_PATH, ProblemType};
use std::time::Duration;

/// Problem documents longer than this are not read.
pub const LONGEST_PROBLEM: usize = 16 << 10;

/// What anything but an answer says, for good or for now. It comes from outside, so it is shortened
/// and has no control characters when it is shown; whether it is asked again goes by the status
/// alone.
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
    let mut detail = detail.unwrap_or_else(|| "it does not say why".into());
    if let Some(seconds) = seconds {
        detail += &format!("; it says to come again in {}", span(seconds));
    }
    TransportError::Refused { status, problem, detail }
}

/// Whether a claimed length is that of a response of `length` bytes.
pub fn check_length(claimed: Option<&str>, length: usize) -> Result<(), TransportError> {
    let need = length + CHECKSUM_LENGTH;
    match claimed.and_then(|claimed| claimed.parse().ok()).filter(|&claimed: &u64| claimed != need as u64) {
        Some(have) => Err(TransportError::Length { have, need }),
        None => Ok(()),
    }
}

/// Which server it is, by its header.
pub fn index(claimed: Option<&str>) -> Result<u8, TransportError> {
    let index = claimed.and_then(|claimed| claimed.parse().ok());
    index.ok_or(TransportError::NotAServer("it does not say which server it is"))
}

/// Where the manifests are whose digests a header names; a few at most.
pub fn previous_manifest_paths(named: &[u8]) -> Vec<String> {
    const MOST: usize = 4;
    let digests = named.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter_map(|digest| {
        let digest = std::str::from_utf8(digest).ok()?;
        (digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(digest)
    });
    digests.take(MOST).map(|digest| format!("{MANIFEST_PATH}/{digest}")).collect()
}

/// A text from outside, short and without control characters.
pub fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(300).collect()
}

/// Whether an address is this machine's own, so that nobody reads what goes there.
pub fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A time to wait, as people say it.
fn span(seconds: u64) -> String {
    match seconds {
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
    fn earlier_manifests_are_asked_for_by_digest_and_only_a_few() {
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
    fn times_to_wait_are_rounded_up() {
        assert_eq!([1, 119, 121, 7199].map(span), ["1 seconds", "119 seconds", "3 minutes", "120 minutes"]);
        assert_eq!([7200, 90_000, 200_000].map(span), ["2 hours", "25 hours", "3 days"]);
    }

    #[test]
    fn loopback_is_this_machine_and_nothing_that_looks_like_it() {
        for host in ["localhost", "127.0.0.1", "127.8.8.8", "[::1]", "::1"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["localhost.example", "128.0.0.1", "127.0.0.1.example", "", "[::2]"] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn a_claimed_length_is_the_right_one_or_none() {
        assert_eq!(check_length(None, 4), Ok(()));
        assert_eq!(check_length(Some("20"), 4), Ok(()));
        assert_eq!(check_length(Some("21"), 4), Err(TransportError::Length { have: 21, need: 20 }));
    }

    #[test]
    fn a_server_says_which_one_it_is() {
        assert_eq!(index(Some("3")), Ok(3));
        for claimed in [None, Some(""), Some("x"), Some("256")] {
            assert!(matches!(index(claimed), Err(TransportError::NotAServer(_))));
        }
    }

    #[test]
    fn what_a_server_says_is_shortened_and_harmless() {
        let body = format!(r#"{{"type":"urn:ifonly:problem:budget-spent","detail":"\u001b[31m{}"}}"#, "x".repeat(999));
        let TransportError::Refused { status: 429, problem: Some(ProblemType::BudgetExhausted), detail } =
            refusal(429, Some("7200"), body.as_bytes())
        else {
            panic!("another error");
        };
        assert!(detail.len() < 400 && !detail.contains('\u{1b}') && detail.ends_with("come again in 2 hours"));
    }

    #[test]
    fn a_server_that_cannot_answer_for_now_says_why_if_it_can() {
        let body = r#"{"type":"urn:ifonly:problem:shards","detail":"rows 4 to 8 are away\u0007"}"#;
        let busy = refusal(503, Some("7"), body.as_bytes());
        let said = "cannot answer at the moment (503, shards): rows 4 to 8 are away";
        assert_eq!((busy.to_string().as_str(), busy.is_transient()), (said, true));
        let long = format!(r#"{{"detail":"\u001b{}"}}"#, "x".repeat(9999));
        let busy = refusal(503, None, long.as_bytes()).to_string();
        assert!(busy.len() < 400 && !busy.contains('\u{1b}'), "{busy}");
        // A gateway that knows nothing of problem documents.
        let said = "cannot answer at the moment (502)";
        assert_eq!(refusal(502, None, b"<html>").to_string(), said);
        assert!(!refusal(401, None, body.as_bytes()).is_transient());
    }
}
