//! The bundle on disk: byte layout, writing, opening, splitting into parts for shards, and a
//! summary of the manifest.

pub(crate) mod layout;
pub(crate) mod open;
pub(crate) mod split;
pub(crate) mod summary;
pub(crate) mod write;
