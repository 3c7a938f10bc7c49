//! Asking: connects to the servers, runs a search over them, and explains what was found.
//!
//! [`Client::connect`] meets the servers and compares what they offer; [`Client::ask`] takes a person's [`Values`] and
//! [`WishList`] and gives an [`Answer`]. What goes over the network depends on the manifest, the scheme and the number of
//! records wanted, and on nothing else: every phase and every fetch runs, retries follow a fixed policy, and faults are
//! reported at the end.
//!
//! Only [`http`] needs a runtime, sockets or a clock, and it can be left out (feature `http`). Everything else runs wherever
//! somebody implements [`Transport`].
#![forbid(unsafe_code)]

pub mod answer;
pub mod client;
pub mod error;
pub mod explain;
#[cfg(feature = "http")]
pub mod http;
mod machine;
pub mod pace;
pub mod patience;
pub mod profile;
pub mod reply;
pub mod search;
mod seats;
mod template;
pub mod transport;
pub mod wishlist;

pub use answer::Answer;
pub use client::{Client, Pins};
pub use error::{ClientError, ServerFailure};
pub use explain::{Change, Explanation};
pub use ifonly_core::service::Route;
pub use pace::Clock;
pub use patience::{RetryPolicy, Retrying};
pub use profile::{Profile, ProfileValues};
pub use search::{SearchReport, Traffic};
pub use template::{takes, template};
pub use transport::{ManifestResponse, ResponseSink, Transport, TransportError};
pub use wishlist::WishList;
