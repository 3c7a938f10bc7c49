//! Running a search over all servers.

pub mod pacing;
pub(crate) mod root_keys;
pub mod run;
pub(crate) mod server_assignment;
pub mod ways;
