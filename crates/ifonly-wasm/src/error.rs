//! What went wrong, as data: a page says it in the person's language and shows it where it belongs.

use ifonly_client::{ClientError, TransportError};
use ifonly_values::schema::SchemaError;
use ifonly_values::wishes::WishError;

/// An error for JavaScript.
#[derive(Debug, serde::Serialize)]
pub struct JsError {
    /// Whose fault: `input`, `servers` or `integrity`, as on the command line.
    pub kind: &'static str,
    /// Which error.
    pub code: &'static str,
    /// The same in English words.
    pub message: String,
    /// The features that it is about.
    pub features: Vec<String>,
    /// The servers that it is about.
    pub servers: Vec<ServerFailureInfo>,
}

/// A server that gave nothing.
#[derive(Debug, serde::Serialize)]
pub struct ServerFailureInfo {
    /// Its address.
    pub server: String,
    /// Which trouble: the name of the server's own problem document, or what the transport calls
    /// it.
    pub code: &'static str,
    /// The same in English words.
    pub message: String,
}

impl JsError {
    /// A mistake of the caller, in words.
    pub fn input(message: String) -> JsError {
        JsError { kind: "input", code: "input", message, features: vec![], servers: vec![] }
    }
}

impl From<&ClientError> for JsError {
    fn from(error: &ClientError) -> JsError {
        let kind = error.category().name();
        let code = match error {
            ClientError::Url { .. } => "url",
            ClientError::NobodyThere(_) => "nobody-there",
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
            ClientError::ManifestsDiffer(said) => said
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

/// What a server's trouble is called.
pub fn name(error: &TransportError) -> &'static str {
    match error {
        TransportError::Refused { problem: Some(problem), .. }
        | TransportError::Busy { problem: Some(problem), .. } => problem.name(),
        TransportError::Refused { .. } => "refused",
        TransportError::CutOff(_) => "cut-off",
        TransportError::UploadTimeout(_) => "slow",
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
    fn an_error_says_whose_fault_it_is_which_fields_and_which_servers() {
        let problem = JsError::from(&ClientError::Missing(vec!["age".into(), "job".into()]));
        assert_eq!((problem.kind, problem.code, problem.features.len()), ("input", "missing", 2));
        let wish = WishError::Impossible { feature: "age".into() };
        assert_eq!(JsError::from(&ClientError::Wish(wish)).features, ["age"]);
        let refused = |problem| TransportError::Refused { status: 401, problem, detail: "no token".into() };
        let busy = |problem| TransportError::Busy {
            status: 503,
            problem,
            detail: Some("rows 4 to 8 are away".into()),
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
        let problem = JsError::from(&ClientError::NobodyThere(server_failures));
        assert_eq!((problem.kind, problem.code), ("servers", "nobody-there"));
        let codes: Vec<&str> = problem.servers.iter().map(|server| server.code).collect();
        assert_eq!(codes, ["unauthorized", "refused", "unreachable", "shards", "busy"]);
        assert!(problem.message.contains("rows 4 to 8"), "{}", problem.message);
        let differ = ClientError::ManifestsDiffer(vec![("a".into(), "1".into()), ("b".into(), "2".into())]);
        let problem = JsError::from(&differ);
        assert_eq!((problem.kind, problem.servers.len()), ("integrity", 2));
    }
}
