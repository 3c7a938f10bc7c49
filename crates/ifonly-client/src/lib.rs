//! Asking the servers: meet them, compare what they say about themselves, run a search, explain its record.
//!
//! [`transport`] moves bytes to one server; [`meeting`] makes sure that all of them offer the same; [`session`] runs every
//! phase and every record fetch of a search, whatever turns up; [`explain`] turns the record into "yours" and "theirs".
//! Which requests are sent, their sizes, number and order follow from the manifest, the scheme and k, never from secrets.
#![forbid(unsafe_code)]

pub mod error;
pub mod exchange;
pub mod explain;
pub mod http;
pub mod meeting;
pub mod session;
pub mod transport;

pub use error::ClientError;
pub use exchange::Policy;
pub use explain::{Change, Explanation, Profile};
pub use ifonly_core::service::Route;
pub use meeting::Meeting;
pub use session::{Report, Traffic};
pub use transport::{Greeting, Transport, TransportError};
