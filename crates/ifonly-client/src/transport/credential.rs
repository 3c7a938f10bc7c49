//! Credentials for single searches.
//!
//! An account token belongs to an [`Endpoint`](super::endpoint::Endpoint) and is in every request.
//! A [`Credential`] belongs to one search: it is in the first message to its server, and later
//! messages carry the ticket of the search instead. Which requests carry a credential, and how many
//! a search takes, depends on public values only; a dummy search takes as many.

/// A request header that authorises one search at one server. `Debug` does not print the value.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    header: &'static str,
    value: String,
}

impl Credential {
    /// A credential in this header; `None` if a header cannot have this value.
    pub fn new(header: &'static str, value: String) -> Option<Credential> {
        let is_visible = !value.is_empty() && value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        is_visible.then_some(Credential { header, value })
    }

    /// The name of the header.
    pub fn header(&self) -> &'static str {
        self.header
    }

    /// The value of the header.
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credential({}, ..)", self.header)
    }
}

/// Too few credentials are left for a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no credentials are left for this search")]
pub struct NoCredentials;

/// Provides every search with its own credentials.
pub trait CredentialSource: Send + Sync {
    /// Takes one credential per server, in the order of the server indices, for one search. The
    /// search counts as `searches` searches: a sealed search for several rows counts as several.
    /// Credentials are not returned if the search fails.
    fn take(&self, servers: usize, searches: usize) -> Result<Vec<Credential>, NoCredentials>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_a_valid_header_and_is_never_printed() {
        let credential = Credential::new("ifonly-token", "abc def".into()).unwrap();
        assert_eq!((credential.header(), credential.value()), ("ifonly-token", "abc def"));
        assert_eq!(format!("{credential:?}"), "Credential(ifonly-token, ..)");
        for value in ["", "a\nb", "ä", "\u{7f}"] {
            assert_eq!(Credential::new("ifonly-token", value.into()), None, "{value:?}");
        }
    }
}
