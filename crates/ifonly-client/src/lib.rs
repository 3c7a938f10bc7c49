//! Asking: connects to the servers, runs a search over them, and explains what was found.
//!
//! [`Client::connect`] meets the servers and compares what they offer; [`Client::ask`] takes a
//! person's [`Values`] and [`WishList`] and gives an [`Answer`]. What goes over the network depends
//! on the manifest, the scheme and the number of records wanted, and on nothing else: every phase
//! and every fetch runs, retries follow a fixed policy, and faults are reported at the end.
//!
//! Only [`http`] needs a runtime, sockets or a clock, and it can be left out (feature `http`).
//! Everything else runs wherever somebody implements [`Transport`].
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
pub use query::profile::{Profile, ProfileValues};
pub use query::template::{takes, template};
pub use query::wish_list::WishList;
pub use search::pacing::Clock;
pub use search::run::{SearchReport, Traffic};
pub use transport::retry::{RetryPolicy, Retrying};
pub use transport::{ManifestResponse, ResponseSink, Transport, TransportError};
