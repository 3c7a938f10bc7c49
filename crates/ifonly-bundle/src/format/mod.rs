//! The bundle on disk: files, writing, opening, splitting into parts for shards, and a
//! summary of the manifest.

pub(crate) mod files;
pub(crate) mod open;
pub(crate) mod split;
pub(crate) mod summary;
pub(crate) mod write;
