//! Two queries of a batch at once. Work that depends only on the rows is done once: the squared
//! norms `‖y‖²` for the whole batch, and the split of the level bytes for each pair of queries.

use super::{Scratch, Step, TileProgram, blocks_of};
use crate::backend::{DotPair, Kernels, Planes};
use crate::dot::limbs16::{AnyDot, Dot, Features, NARROW, Width};
use crate::row_store::{BLOCK_ROWS, RowStore};
use ifonly_algebra::field::{Field, FieldElement};

/// The prime 2^31 − 1. It is larger than every supported `‖y‖²`, so residues are the norms
/// themselves.
const NORM_FIELD: u64 = (1 << 31) - 1;

/// Computes the squared norms of the rows.
pub(crate) struct Norms<'a> {
    kernels: &'static dyn Kernels,
    store: &'a RowStore,
    dot: AnyDot,
}

impl<'a> Norms<'a> {
    /// `None` if the backend has no pair kernel, or if norms could be too large.
    pub(crate) fn new(kernels: &'static dyn Kernels, store: &'a RowStore) -> Option<Norms<'a>> {
        let largest: u64 = store.max_levels().iter().map(|&max_level| u64::from(max_level).pow(2)).sum();
        if !kernels.prefers_pairs() || largest >= NORM_FIELD {
            return None;
        }
        let field = Field::new(NORM_FIELD).ok()?;
        let slope = vec![FieldElement::ZERO; store.features()];
        let squares = Features::Linear { norm: true, slope: &slope };
        let dot = AnyDot::new(Width::Narrow, &field, store, &squares, &[], FieldElement::ZERO)?;
        Some(Norms { kernels, store, dot })
    }

    /// Computes the norms of a tile, rounded up to whole blocks.
    pub(crate) fn fill(&self, first: usize, rows: usize, out: &mut Vec<u32>) {
        let stride = rows.next_multiple_of(BLOCK_ROWS);
        out.resize(stride, 0);
        let none = Planes { words: &[], stride };
        self.kernels.dot(&self.dot, blocks_of(self.store, first, stride), none, out);
    }
}

impl TileProgram<'_> {
    /// Whether [`run_pair`] supports this program together with another one of the same store.
    pub(crate) fn is_pairable(&self) -> bool {
        self.final_dot().is_some_and(|dot| DotPair::new([dot, dot]).is_some())
    }

    /// The final dot product, if its register is the only output.
    fn final_dot(&self) -> Option<&Dot<NARROW>> {
        match (self.steps.last(), &self.outputs[..]) {
            (Some(Step::Dot(AnyDot::Narrow(dot))), &[output]) if output + 1 == self.steps.len() => Some(dot),
            _ => None,
        }
    }
}

/// Runs two pairable programs over the same rows. `norms` has the norms of the tile.
pub(crate) fn run_pair(
    programs: [&TileProgram<'_>; 2],
    norms: &[u32],
    first: usize,
    rows: usize,
    scratch: [&mut Scratch; 2],
) {
    let stride = rows.next_multiple_of(BLOCK_ROWS);
    let [one, other] = programs;
    let pair = one.final_dot().zip(other.final_dot()).and_then(|(one, other)| DotPair::new([one, other]));
    let pair = pair.expect("both programs are pairable");
    let mut work = programs.into_iter().zip(scratch).map(|(program, scratch)| {
        let before = program.steps.len() - 1;
        program.run_steps(&program.steps[..before], first, rows, None, scratch);
        let (done, out) = scratch.words.split_at_mut(before * stride);
        (Planes { words: done, stride }, out)
    });
    if let (Some((one_planes, one_out)), Some((other_planes, other_out))) = (work.next(), work.next()) {
        let blocks = blocks_of(one.store, first, stride);
        one.kernels.dot_pair(pair, blocks, norms, [one_planes, other_planes], [one_out, other_out]);
    }
}
