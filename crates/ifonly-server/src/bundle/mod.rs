//! The bundle that is served: the current one, and previous ones in their grace period.

pub mod loaded;
