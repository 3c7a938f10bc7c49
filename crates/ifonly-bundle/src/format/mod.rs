//! The bundle on disk: layout, writing, opening, splitting into shards, summary.

pub(crate) mod layout;
pub(crate) mod open;
pub(crate) mod split;
pub(crate) mod summary;
pub(crate) mod write;
