//! Running a search over all servers.

pub(crate) mod any_search;
pub mod pacing;
pub mod run;
pub(crate) mod server_assignment;
