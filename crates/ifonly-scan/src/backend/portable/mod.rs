//! The kernels in plain Rust, for every machine. They are what [`Kernels`] does where a backend
//! says nothing else.
//!
//! Everything that is fast is `inline(always)`: vector backends take over what they do not write by
//! hand, compiled for their instructions.

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

/// Every machine has it.
pub(super) fn find() -> Option<&'static dyn Kernels> {
    Some(&Portable)
}

impl Kernels for Portable {
    fn name(&self) -> &'static str {
        "portable"
    }
}
