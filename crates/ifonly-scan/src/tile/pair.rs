//! Two queries of a batch at once: what only depends on the rows is done once. That is `‖y‖²` for
//! the whole batch, and the work on the bytes of a row for each pair.

use super::{Scratch, Step, TileProgram, blocks_of};
use crate::backend::{DotPair, Kernels, Planes};
use crate::dot::limbs16::{AnyDot, Dot, Features, NARROW, Width};
use crate::row_store::{BLOCK_ROWS, RowStore};
use ifonly_algebra::field::{Field, FieldElement};

/// Larger than any `‖y‖²` that is taken, so that residues are the numbers themselves: the prime
/// 2^31 − 1.
const NORM_FIELD: u64 = (1 << 31) - 1;

/// The squared norms of the rows.
pub(crate) struct Norms<'a> {
    kernels: &'static dyn Kernels,
    store: &'a RowStore,
    dot: AnyDot,
}

impl<'a> Norms<'a> {
    /// `None` where pairs are not taken, or norms could be too large.
    pub(crate) fn new(kernels: &'static dyn Kernels, store: &'a RowStore) -> Option<Norms<'a>> {
        let largest: u64 = store.max_levels().iter().map(|&range| u64::from(range).pow(2)).sum();
        if !kernels.prefers_pairs() || largest >= NORM_FIELD {
            return None;
        }
        let field = Field::new(NORM_FIELD).ok()?;
        let slope = vec![FieldElement::ZERO; store.features()];
        let squares = Features::Linear { norm: true, slope: &slope };
        let dot = AnyDot::new(Width::Narrow, &field, store, &squares, &[], FieldElement::ZERO)?;
        Some(Norms { kernels, store, dot })
    }

    /// Those of a tile, up to whole blocks.
    pub(crate) fn fill(&self, first: usize, rows: usize, out: &mut Vec<u32>) {
        let stride = rows.next_multiple_of(BLOCK_ROWS);
        out.resize(stride, 0);
        let none = Planes { words: &[], stride };
        self.kernels.dot(&self.dot, blocks_of(self.store, first, stride), none, out);
    }
}

impl TileProgram<'_> {
    /// Whether [`run_pair`] takes this program with another one of the same store.
    pub(crate) fn pairs(&self) -> bool {
        self.last_dot().is_some_and(|dot| DotPair::new([dot, dot]).is_some())
    }

    /// The last step, if it is the only output.
    fn last_dot(&self) -> Option<&Dot<NARROW>> {
        match (self.steps.last(), &self.outputs[..]) {
            (Some(Step::Dot(AnyDot::Narrow(dot))), &[output]) if output + 1 == self.steps.len() => Some(dot),
            _ => None,
        }
    }
}

/// Runs two programs that pair over the same rows; `norms` are those of the tile.
pub(crate) fn run_pair(
    programs: [&TileProgram<'_>; 2],
    norms: &[u32],
    first: usize,
    rows: usize,
    scratch: [&mut Scratch; 2],
) {
    let stride = rows.next_multiple_of(BLOCK_ROWS);
    let [one, other] = programs;
    let pair = one.last_dot().zip(other.last_dot()).and_then(|(one, other)| DotPair::new([one, other]));
    let pair = pair.expect("both programs pair");
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
