//! The kernels in plain Rust, for every machine. They are the default methods of [`Kernels`].
//!
//! Fast functions are `inline(always)`, so that vector backends can compile them for their own
//! instructions.

mod bits;
mod bytes;
mod dot;
mod modular;
mod records;

pub(crate) use bits::{mask_long_words, mask_words, pack_halves, pack_words, unpack_words};
pub(crate) use bytes::{byte_dot, look_up};
pub(crate) use dot::dot;
pub(crate) use modular::*;
pub(crate) use records::{gf256_sum, read, xor_selected};

use super::Kernels;

#[derive(Debug)]
pub(super) struct Portable;

/// Always available.
pub(super) fn find() -> Option<&'static dyn Kernels> {
    Some(&Portable)
}

impl Kernels for Portable {
    fn name(&self) -> &'static str {
        "portable"
    }
}
