//! Dot products of levels with coefficients in 16-bit limbs and in byte limbs, and look-up tables.

pub(crate) mod limbs16;
pub(crate) mod limbs8;
pub(crate) mod lookup;
