//! Dot products modulo q in byte limbs: the plan for machines that multiply bytes with bytes and
//! sum four products in one instruction.
//!
//! A coefficient of F_q is written as `Σ_l digit_l·256^l` with signed bytes as digits. 3, 4 or 8
//! digits represent every residue for q ≤ 2^24, 2^32 and 2^64, if the representative is taken from
//! the range of the digits, which is not symmetric around 0. Every term is a group of four bytes
//! per row with four coefficients:
//!
//! - four levels of one byte;
//! - two levels of two bytes (the upper byte has 256 times the coefficient);
//! - the lower or upper bytes of four squares;
//! - the bytes of a plane beside the rows.
//!
//! Squared norms of one-byte levels are computed as `Σ y·(y − 128)`, which is also a product of
//! bytes, with 128 added to the slope.

use crate::dot::limbs16::{Features, PlaneTerm, Width};
use crate::row_store::{LevelBytes, RowStore};
use ifonly_algebra::field::{Field, FieldElement};

/// The largest number of limbs.
pub(crate) const MAX_LIMBS: usize = 8;
/// Groups of one chunk. `48·4·255·128·257` plus the squares stays below 2^31, so two adjacent limbs
/// fit 32 bits.
const CHUNK_GROUPS: usize = 48;
/// A bound on the squares of two-byte levels in the lowest limb of a chunk.
const CHUNK_SQUARES: u64 = 500_000_000;

/// Four digits of each limb, lowest byte first.
pub(crate) type ByteDigits = [[i8; 4]; MAX_LIMBS];

/// The terms that a feature group contributes in addition to the products with its digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteGroupEncoding {
    /// There are no feature groups.
    Planes,
    /// No further terms.
    Bytes,
    /// The sum `Σ y·(y − 128)`.
    Norm,
    /// Two further groups: the low and the high bytes of y², each with its own digits.
    Squares,
    /// The sum `Σ y²` of two-byte levels below 2^15.
    WordNorm,
}

impl ByteGroupEncoding {
    /// Entries of [`ByteChunk::groups`] for each group of the rows.
    pub(crate) const fn per_group(self) -> usize {
        if matches!(self, ByteGroupEncoding::Squares) { 3 } else { 1 }
    }
}

/// A dot product over the feature groups and some planes, plus a constant.
#[derive(Clone, Debug)]
pub(crate) struct ByteDot {
    pub(crate) encoding: ByteGroupEncoding,
    pub(crate) q: u64,
    /// Number of limbs: 3, 4 or 8.
    pub(crate) limbs: usize,
    pub(crate) chunks: Vec<ByteChunk>,
}

/// Terms whose sums fit their words.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByteChunk {
    /// Initial values of the sums: the digits of the constant.
    pub(crate) start: [i32; MAX_LIMBS],
    pub(crate) first_group: usize,
    /// [`ByteGroupEncoding::per_group`] entries for each group of the rows.
    pub(crate) groups: Vec<ByteDigits>,
    /// Indices of planes, with their digits.
    pub(crate) planes: Vec<(usize, ByteDigits)>,
}

impl ByteDot {
    /// Planes of a register.
    pub(crate) fn planes(&self) -> usize {
        if self.limbs == MAX_LIMBS { 2 } else { 1 }
    }

    /// The plan of `constant + features + Σ factor·register`. `None` if byte limbs cannot express
    /// it: large levels of two bytes, or their squares.
    pub(crate) fn new(
        width: Width,
        field: &Field,
        store: &RowStore,
        features: &Features<'_>,
        terms: &[PlaneTerm],
        constant: FieldElement,
    ) -> Option<ByteDot> {
        let encoding = match (features, store.level_bytes()) {
            (Features::None, _) => ByteGroupEncoding::Planes,
            (Features::Linear { norm: false, .. }, _) => ByteGroupEncoding::Bytes,
            (Features::Linear { norm: true, .. }, LevelBytes::One) => ByteGroupEncoding::Norm,
            (Features::Linear { norm: true, .. }, LevelBytes::Two) => ByteGroupEncoding::WordNorm,
            (Features::Squares { .. }, LevelBytes::One) => ByteGroupEncoding::Squares,
            (Features::Squares { .. }, LevelBytes::Two) => return None,
        };
        let mut planner = Planner::new(width, field, encoding);
        for (limb, digit) in planner.digits([constant]).into_iter().enumerate() {
            planner.current.start[limb] = i32::from(digit[0]);
        }
        match features {
            Features::None => {}
            Features::Linear { slope, .. } if store.level_bytes() == LevelBytes::Two => {
                for (slope, max_levels) in slope.chunks(2).zip(store.max_levels().chunks(2)) {
                    let both = |k: usize| {
                        let c = slope.get(k).copied().unwrap_or_default();
                        [c, field.mul(c, field.reduce(256))]
                    };
                    let ([a, b], [c, d]) = (both(0), both(1));
                    let squares = max_levels.iter().map(|&level| u64::from(level) * u64::from(level)).sum();
                    planner
                        .add_group([[a, b, c, d]], if encoding == ByteGroupEncoding::WordNorm { squares } else { 0 })?;
                }
            }
            Features::Linear { norm, slope } => {
                let offset = field.reduce(if *norm { 128 } else { 0 });
                for slope in slope.chunks(4) {
                    planner.add_group([padded(slope).map(|c| field.add(c, offset))], 0)?;
                }
            }
            Features::Squares { linear, square } => {
                let high = |square: [FieldElement; 4]| square.map(|c| field.mul(c, field.reduce(256)));
                for (linear, square) in linear.chunks(4).zip(square.chunks(4)) {
                    planner.add_group([padded(linear), padded(square), high(padded(square))], 0)?;
                }
            }
        }
        terms.iter().for_each(|term| planner.add_register(term));
        Some(planner.finish())
    }
}

/// Four coefficients. Missing features are zero in every row, so their coefficients do not matter.
fn padded(coefficients: &[FieldElement]) -> [FieldElement; 4] {
    std::array::from_fn(|k| coefficients.get(k).copied().unwrap_or_default())
}

struct Planner<'a> {
    field: &'a Field,
    dot: ByteDot,
    current: ByteChunk,
    squares: u64,
    groups_done: usize,
}

impl<'a> Planner<'a> {
    fn new(width: Width, field: &'a Field, encoding: ByteGroupEncoding) -> Self {
        let limbs = match width {
            Width::Wide => MAX_LIMBS,
            Width::Narrow if field.q() <= 1 << 24 => 3,
            Width::Narrow => 4,
        };
        let dot = ByteDot { encoding, q: field.q(), limbs, chunks: vec![] };
        Planner { field, dot, current: ByteChunk::default(), squares: 0, groups_done: 0 }
    }

    /// The digits of up to four coefficients.
    fn digits<const K: usize>(&self, coefficients: [FieldElement; K]) -> ByteDigits {
        let mut digits = [[0; 4]; MAX_LIMBS];
        // The largest number with this many digits, which has 127 in each.
        let largest = (0..self.dot.limbs).fold(0i128, |sum, _| sum * 256 + 127);
        for (k, c) in coefficients.into_iter().enumerate() {
            let value = i128::from(c.value());
            let mut rest = if value > largest { value - i128::from(self.dot.q) } else { value };
            for limb in digits.iter_mut().take(self.dot.limbs) {
                limb[k] = rest as i8;
                rest = (rest - i128::from(limb[k])) >> 8;
            }
            debug_assert_eq!(rest, 0, "q has too many bits for {} limbs", self.dot.limbs);
        }
        digits
    }

    /// Adds a group of the rows. `squares` bounds its contribution to the norm; `None` if that
    /// alone is too large.
    fn add_group<const P: usize>(&mut self, parts: [[FieldElement; 4]; P], squares: u64) -> Option<()> {
        if squares > CHUNK_SQUARES {
            return None;
        }
        if self.current.groups.len() + P > CHUNK_GROUPS || self.squares + squares > CHUNK_SQUARES {
            self.start_chunk();
        }
        for part in parts {
            self.current.groups.push(self.digits(part));
        }
        self.squares += squares;
        self.groups_done += 1;
        Some(())
    }

    fn add_register(&mut self, term: &PlaneTerm) {
        let planes = self.dot.planes();
        let mut factor = term.factor;
        for plane in 0..planes {
            if self.current.groups.len() + self.current.planes.len() == CHUNK_GROUPS {
                self.start_chunk();
            }
            let coefficients = std::array::from_fn(|_| {
                let this = factor;
                factor = self.field.mul(factor, self.field.reduce(256));
                this
            });
            let digits = self.digits::<4>(coefficients);
            self.current.planes.push((term.register * planes + plane, digits));
        }
    }

    fn start_chunk(&mut self) {
        let next = ByteChunk { first_group: self.groups_done, ..ByteChunk::default() };
        self.dot.chunks.push(std::mem::replace(&mut self.current, next));
        self.squares = 0;
    }

    fn finish(mut self) -> ByteDot {
        self.dot.chunks.push(self.current);
        self.dot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Backend, Blocks, Planes};
    use crate::row_store::BLOCK_ROWS;
    use ifonly_algebra::field::ModulusRule;
    use ifonly_algebra::random::{RandomSource, SeededRandom};
    use ifonly_algebra::row_function::{RowFunction, RowFunctionKind};

    #[test]
    fn chunks_have_no_more_groups_than_their_sums_allow() {
        let store = RowStore::build(&vec![255; 400], [vec![255u16; 400]]).unwrap();
        for bits in [21, 61] {
            let field = Field::above(1 << (bits - 1), ModulusRule::Deployment).unwrap();
            let slope = vec![FieldElement::ONE; 400];
            let terms: Vec<PlaneTerm> =
                (0..100).map(|register| PlaneTerm { register, factor: slope[0], below: field.q() }).collect();
            for features in [
                Features::Linear { norm: true, slope: &slope },
                Features::Squares { linear: &slope, square: &slope },
                Features::None,
            ] {
                let dot =
                    ByteDot::new(Width::of(&field), &field, &store, &features, &terms, FieldElement::ONE).unwrap();
                let terms_of = |chunk: &ByteChunk| chunk.groups.len() + chunk.planes.len();
                assert!(dot.chunks.iter().all(|chunk| terms_of(chunk) <= CHUNK_GROUPS), "{bits} bits, {features:?}");
                // No more chunks than necessary.
                let total: usize = dot.chunks.iter().map(terms_of).sum();
                assert!(dot.chunks.len() <= total / CHUNK_GROUPS + 2, "{bits} bits, {features:?}");
            }
        }
    }

    #[test]
    fn plans_evaluate_the_row_functions_at_every_width() {
        let mut random = SeededRandom::new(4);
        for bits in [5, 16, 24, 25, 31, 32, 62] {
            let q = Field::above(1 << (bits - 1), ModulusRule::Deployment).unwrap().q();
            let field = Field::new(q).unwrap();
            for (d, range) in [(1, 1), (7, 255), (32, 255), (200, 255), (33, 1000), (9, 15_000)] {
                let levels: Vec<u16> = (0..d).map(|_| range as u16 - random.below(2) as u16).collect();
                let store = RowStore::build(&vec![range; d], [&levels]).unwrap();
                let blocks = Blocks { bytes: store.data(), block_bytes: store.block_bytes() };
                let edge = |v: u64| vec![field.element(v % q).unwrap(); d];
                let slopes = [
                    edge(q / 2),
                    edge(q / 2 + 1),
                    edge(q - 1),
                    (0..d).map(|_| field.sample(&mut random)).collect::<Vec<_>>(),
                ];
                for slope in slopes {
                    let squares: Vec<FieldElement> = (0..d).map(|_| field.sample(&mut random)).collect();
                    let constant = field.sample(&mut random);
                    let cases = [
                        (Features::Linear { norm: false, slope: &slope }, false),
                        (Features::Linear { norm: true, slope: &slope }, false),
                        (Features::Squares { linear: &slope, square: &squares }, true),
                    ];
                    for (features, squared) in cases {
                        let kind = match features {
                            _ if squared => RowFunctionKind::Polynomial(vec![slope.clone(), squares.clone()]),
                            Features::Linear { norm: true, .. } => {
                                RowFunctionKind::Linear { norm: FieldElement::ONE, slope: slope.clone() }
                            }
                            _ => RowFunctionKind::Linear { norm: FieldElement::ZERO, slope: slope.clone() },
                        };
                        let width = Width::of(&field);
                        let value = random.below(q);
                        let term = PlaneTerm { register: 0, factor: field.sample(&mut random), below: q };
                        let Some(dot) = ByteDot::new(width, &field, &store, &features, &[term], constant) else {
                            assert!(squared && range > 255);
                            continue;
                        };
                        let function = RowFunction { kind, constant };
                        let expected = field.mul_add(
                            field.element(value).unwrap(),
                            term.factor,
                            function.evaluate(&field, &levels),
                        );
                        let words = [[value as u32; BLOCK_ROWS], [(value >> 32) as u32; BLOCK_ROWS]];
                        let planes = Planes { words: words.as_flattened(), stride: BLOCK_ROWS };
                        for backend in Backend::available() {
                            let mut out = vec![7; width.planes() * BLOCK_ROWS];
                            backend.kernels().byte_dot(&dot, blocks, planes, &mut out);
                            let high = out.get(BLOCK_ROWS).map_or(0, |&high| u64::from(high) << 32);
                            assert_eq!(u64::from(out[0]) | high, expected.value(), "{backend}, {bits} bits");
                        }
                    }
                }
            }
        }
    }
}
