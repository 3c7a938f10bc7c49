//! Inner products of levels with shares, by limb width, and table look-ups.

pub(crate) mod limbs16;
pub(crate) mod limbs8;
pub(crate) mod lookup;
