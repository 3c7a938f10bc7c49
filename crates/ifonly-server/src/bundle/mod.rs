//! The bundles that are served: the current one, and previous ones in their grace period.

pub mod loaded;
pub mod versions;
