//! Where a server is, and the token that it requires.

use std::collections::BTreeMap;

/// The address of a server, and the token if its operator requires one.
#[derive(Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// `https://host[:port][/prefix]`.
    pub url: String,
    /// The bearer token.
    #[serde(default)]
    pub token: Option<String>,
}

impl<T: Into<String>> From<T> for Endpoint {
    /// A server that requires no token.
    fn from(url: T) -> Endpoint {
        Endpoint { url: url.into(), token: None }
    }
}

// A token is a secret.
impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Endpoint({}, {})", self.url, if self.token.is_some() { "with a token" } else { "no token" })
    }
}

/// The tokens of a user: one for all servers, and others for single servers.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct EndpointTokens {
    /// The token of every server without one of its own.
    pub all: Option<String>,
    /// Tokens of single servers, by address.
    pub own: BTreeMap<String, String>,
}

/// A token is for an address that none of the servers has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("none of the servers has the address {0}")]
pub struct TokenWithoutServer(pub String);

impl EndpointTokens {
    /// The servers at these addresses, each with its token.
    pub fn endpoints(&self, urls: &[String]) -> Result<Vec<Endpoint>, TokenWithoutServer> {
        if let Some(url) = self.own.keys().find(|url| !urls.contains(url)) {
            return Err(TokenWithoutServer(url.clone()));
        }
        let token = |url: &String| self.own.get(url).or(self.all.as_ref()).cloned();
        Ok(urls.iter().map(|url| Endpoint { url: url.clone(), token: token(url) }).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_one_server_takes_precedence_and_is_never_printed() {
        let urls = ["https://a.example".to_owned(), "https://b.example".to_owned()];
        let own = BTreeMap::from([(urls[1].clone(), "def".to_owned())]);
        let tokens = EndpointTokens { all: Some("abc".into()), own };
        let endpoints = tokens.endpoints(&urls).unwrap();
        let shown: Vec<_> = endpoints.iter().map(|endpoint| endpoint.token.as_deref()).collect();
        assert_eq!(shown, [Some("abc"), Some("def")]);
        assert!(!format!("{endpoints:?}").contains("def"));
        assert_eq!(tokens.endpoints(&urls[..1]), Err(TokenWithoutServer(urls[1].clone())));
    }
}
