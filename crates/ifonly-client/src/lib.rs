//! The client: connects to all servers, runs a search, and explains the records that were found.
//!
//! [`Client::connect`] fetches the manifests of the servers and compares them. [`Client::ask`]
//! takes a [profile](ProfileValues) and a [`WishList`] and returns an [`Answer`]. The number, order
//! and sizes of requests depend only on the manifest, the scheme and the number of requested
//! records: every phase and every record fetch runs, retries follow a fixed policy, and errors are
//! reported at the end.
//!
//! Only `transport::http` needs a runtime, sockets and a clock; the feature `http` enables it. The
//! rest of the crate works with any implementation of [`Transport`].
#![forbid(unsafe_code)]

pub mod answer;
pub mod client;
pub mod error;
pub mod query;
pub mod search;
pub mod transport;

pub use answer::Answer;
pub use answer::explanation::{Change, Explanation};
pub use client::{Client, Pins};
pub use error::{ClientError, ServerFailure};
pub use ifonly_core::http_api::Route;
pub use query::profile::{Profile, ProfileError, ProfileValues};
pub use query::template::{describe_values, template};
pub use query::wish_list::{WishList, message_codes};
pub use search::pacing::Clock;
pub use search::run::{SearchReport, Traffic};
pub use search::ways::{UnknownWaysBy, WaysBy};
pub use transport::credential::{Credential, CredentialSource, NoCredentials};
pub use transport::endpoint::{Endpoint, EndpointTokens};
pub use transport::retry::{RetryPolicy, Retrying};
pub use transport::{ManifestResponse, ResponseSink, ServedManifest, Transport, TransportError};
