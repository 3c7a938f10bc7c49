//! What a determined user learns over several sessions, and what stops them.
//!
//! Every attack plays its sessions against a database of uniform rows and counts what it has *proved*: a row
//! is recovered when exactly one row of `[0:R]^d` fits all that was seen, and that row is the true one. The
//! attacks are lower bounds on what is possible: a cleverer one may need fewer sessions, none is ruled out here.

pub mod linking;
mod pairs;
pub mod partials;
pub mod radix;
mod sessions;
mod share;
pub mod stopping;
pub mod trilateration;

pub use sessions::{ModelSessions, Session, Sessions, World};
pub use share::Share;
