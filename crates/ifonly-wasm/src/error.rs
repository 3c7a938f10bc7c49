//! Errors as data for JavaScript: a code that the page translates, the features and the servers.

use ifonly_client::{ClientError, TransportError};
use ifonly_values::schema::SchemaError;
use ifonly_values::wishes::WishError;

/// An error for JavaScript.
#[derive(Debug, serde::Serialize)]
pub struct JsError {
    /// The category: `input`, `servers` or `integrity`, as on the command line.
    pub kind: &'static str,
    /// The code of the error.
    pub code: &'static str,
    /// The error in English.
    pub message: String,
    /// The features that the error concerns.
    pub features: Vec<String>,
    /// The servers that the error concerns.
    pub servers: Vec<ServerFailureInfo>,
}

/// A server that gave no valid response.
#[derive(Debug, serde::Serialize)]
pub struct ServerFailureInfo {
    /// Its address.
    pub server: String,
    /// The type of the server's problem document, or the name of the transport error.
    pub code: &'static str,
    /// The reason in English.
    pub message: String,
}

impl JsError {
    /// An error in the caller's input.
    pub fn input(message: String) -> JsError {
        JsError { kind: "input", code: "input", message, features: vec![], servers: vec![] }
    }
}

impl From<&ClientError> for JsError {
    fn from(error: &ClientError) -> JsError {
        let kind = error.category().name();
        let code = match error {
            ClientError::Url { .. } => "url",
            ClientError::NoServerReachable(_) => "no-server-reachable",
            ClientError::SameIndex { .. } => "same-index",
            ClientError::OtherAddress { .. } => "other-address",
            ClientError::ManifestsDiffer(_) => "manifests-differ",
            ClientError::Pinned { .. } => "pinned",
            ClientError::Manifest(_) => "manifest",
            ClientError::Top { .. } => "top",
            ClientError::TooLarge { .. } => "too-large",
            ClientError::TooFewServers { .. } => "too-few-servers",
            ClientError::Scheme(_) => "scheme",
            ClientError::Missing(_) => "missing",
            ClientError::Wish(_) | ClientError::Secret(_) => "wish",
            ClientError::Profile(_) => "profile",
            ClientError::Search { .. } if kind == "servers" => "too-few-answers",
            ClientError::Search { .. } => "search",
            _ => "other",
        };
        let features = match error {
            ClientError::Missing(features) => features.clone(),
            ClientError::Profile(error) | ClientError::Wish(WishError::Schema(error)) => about(error),
            ClientError::Wish(
                WishError::Impossible { feature }
                | WishError::Weight { feature, .. }
                | WishError::Range { feature, .. }
                | WishError::Outside { feature, .. }
                | WishError::Cost { feature, .. }
                | WishError::NoOrder { feature, .. }
                | WishError::NoDeviation { feature },
            ) => vec![feature.clone()],
            _ => vec![],
        };
        let servers = match error {
            ClientError::ManifestsDiffer(digests) => digests
                .iter()
                .map(|(server, digest)| ServerFailureInfo {
                    server: server.clone(),
                    code: "offers",
                    message: digest.clone(),
                })
                .collect(),
            error => error
                .failures()
                .iter()
                .map(|failure| ServerFailureInfo {
                    server: failure.server.clone(),
                    code: name(&failure.error),
                    message: failure.error.to_string(),
                })
                .collect(),
        };
        JsError { kind, code, message: error.to_string(), features, servers }
    }
}

/// The code of a transport error.
pub fn name(error: &TransportError) -> &'static str {
    match error {
        TransportError::Refused { problem: Some(problem), .. }
        | TransportError::Busy { problem: Some(problem), .. } => problem.name(),
        TransportError::Refused { .. } => "refused",
        TransportError::CutOff(_) => "cut-off",
        TransportError::TimedOut(_) => "slow",
        TransportError::Busy { .. } => "busy",
        TransportError::Length { .. } | TransportError::Damaged => "damaged",
        TransportError::NotAServer(_) => "not-a-server",
        TransportError::Manifest(_) => "manifest",
        _ => "unreachable",
    }
}

fn about(error: &SchemaError) -> Vec<String> {
    match error {
        SchemaError::UnknownFeature { name, .. } => vec![name.clone()],
        SchemaError::Missing { feature }
        | SchemaError::NotANumber { feature, .. }
        | SchemaError::NotPermitted { feature, .. }
        | SchemaError::Invalid { feature, .. } => vec![feature.clone()],
        _ => vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ifonly_client::ServerFailure;
    use ifonly_core::http_api::ProblemType;

    #[test]
    fn an_error_has_a_category_its_features_and_its_servers() {
        let error = JsError::from(&ClientError::Missing(vec!["age".into(), "job".into()]));
        assert_eq!((error.kind, error.code, error.features.len()), ("input", "missing", 2));
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
        assert_eq!((error.kind, error.code), ("servers", "no-server-reachable"));
        let codes: Vec<&str> = error.servers.iter().map(|server| server.code).collect();
        assert_eq!(codes, ["unauthorized", "refused", "unreachable", "shards-unavailable", "busy"]);
        assert!(error.message.contains("rows 4 to 8"), "{}", error.message);
        let differ = ClientError::ManifestsDiffer(vec![("a".into(), "1".into()), ("b".into(), "2".into())]);
        let error = JsError::from(&differ);
        assert_eq!((error.kind, error.servers.len()), ("integrity", 2));
    }
}
