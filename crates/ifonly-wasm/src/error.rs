//! Errors as data for JavaScript: a code that the page translates, the features and the servers.

use ifonly_client::{ClientError, ServerFailure};
use ifonly_values::message::{Coded, CodedMessage};

/// An error for JavaScript.
#[derive(Debug, serde::Serialize)]
pub struct JsError {
    /// The category: `input`, `servers` or `integrity`, as on the command line.
    pub kind: &'static str,
    /// The code, its arguments and the error in English.
    #[serde(flatten)]
    pub message: CodedMessage,
    /// The features that the error concerns.
    pub features: Vec<String>,
    /// The servers that the error concerns.
    pub servers: Vec<ServerFailure>,
    /// If the servers serve different manifests: each server and the digest of its manifest.
    pub manifests: Vec<(String, String)>,
}

impl JsError {
    /// An error in the caller's input.
    pub fn input(message: String) -> JsError {
        let message = CodedMessage::new("input", message);
        JsError { kind: "input", message, features: vec![], servers: vec![], manifests: vec![] }
    }
}

impl From<&ClientError> for JsError {
    fn from(error: &ClientError) -> JsError {
        let message = error.coded();
        let manifests = match error {
            ClientError::ManifestsDiffer(digests) => digests.clone(),
            _ => vec![],
        };
        JsError {
            kind: error.category().name(),
            features: message.features(),
            message,
            servers: error.failures().to_vec(),
            manifests,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ifonly_client::TransportError;
    use ifonly_core::http_api::ProblemType;
    use ifonly_values::wishes::WishError;

    #[test]
    fn an_error_has_a_category_its_features_and_its_servers() {
        let error = JsError::from(&ClientError::Missing(vec!["age".into(), "job".into()]));
        assert_eq!((error.kind, error.message.code, error.features.len()), ("input", "missing", 2));
        let wish = WishError::Impossible { feature: "age".into() };
        assert_eq!(JsError::from(&ClientError::Wish(wish)).features, ["age"]);
        let refused = |problem| TransportError::Refused { status: 401, problem, detail: "no token".into() };
        let busy = |problem| TransportError::Busy {
            status: 503,
            problem,
            detail: Some("rows 4 to 8 are unavailable".into()),
            retry_after: std::time::Duration::from_secs(1),
        };
        let failure = |error| ServerFailure { server: "https://a.example".into(), error };
        let server_failures = vec![
            failure(refused(Some(ProblemType::Unauthorized))),
            failure(refused(None)),
            failure(TransportError::ConnectionRefused),
            failure(busy(Some(ProblemType::ShardsUnavailable))),
            failure(busy(None)),
        ];
        let error = JsError::from(&ClientError::NoServerReachable(server_failures));
        assert_eq!((error.kind, error.message.code), ("servers", "no-server-reachable"));
        let codes: Vec<&str> = error.servers.iter().map(|server| server.error.code()).collect();
        assert_eq!(codes, ["unauthorized", "refused", "unreachable", "shards-unavailable", "busy"]);
        assert!(error.message.message.contains("rows 4 to 8"), "{}", error.message);
        let differ = ClientError::ManifestsDiffer(vec![("a".into(), "1".into()), ("b".into(), "2".into())]);
        let error = JsError::from(&differ);
        assert_eq!((error.kind, error.manifests.len()), ("integrity", 2));
    }
}
