//! Dot products modulo q in byte limbs: the plan for machines that multiply bytes with bytes and
//! sum four products at once.
//!
//! A coefficient of F_q is written as `Σ_l digit_l·256^l` with signed bytes as digits; 3, 4 or 8 of
//! them hold every residue of q ≤ 2^24, 2^32 and 2^64, if the representative is taken from the
//! range that the digits span, which is not quite symmetric. Everything that is summed is a group
//! of four bytes per row with four coefficients: four levels of one byte, two of two bytes (the
//! upper byte with 256 times the coefficient), the lower or upper bytes of four squares, and the
//! bytes of a number beside the rows.
//!
//! Squared norms of one-byte levels come as `Σ y·(y − 128)`, a product of bytes as well, with 128
//! added to the slope.

use crate::dot::limbs16::{Features, PlaneTerm, Width};
use crate::row_store::{LevelBytes, RowStore};
use ifonly_algebra::field::{Field, FieldElement};

/// The most limbs.
pub(crate) const MOST_LIMBS: usize = 8;
/// Groups of one piece: `48·4·255·128·257` and the squares beside them stay below 2^31, so two
/// neighbouring limbs fit 32 bits.
const PIECE_GROUPS: usize = 48;
/// What the squares of two-byte levels may add to the lowest limb of a piece.
const PIECE_SQUARES: u64 = 500_000_000;

/// Four digits of each limb, lowest byte first.
pub(crate) type ByteDigits = [[i8; 4]; MOST_LIMBS];

/// What is done with a feature group beside the products with its digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteGroupEncoding {
    /// There are no feature groups.
    Planes,
    /// Nothing.
    Bytes,
    /// `Σ y·(y − 128)` is added.
    Norm,
    /// The bytes of y² are two further groups, each with its own digits.
    Squares,
    /// `Σ y²` of two-byte levels below 2^15 is added.
    WordNorm,
}

impl ByteGroupEncoding {
    /// Entries of [`Piece::groups`] for each group of the rows.
    pub(crate) const fn per_group(self) -> usize {
        if matches!(self, ByteGroupEncoding::Squares) { 3 } else { 1 }
    }
}

/// A dot product over the feature groups and some planes, plus a constant.
#[derive(Clone, Debug)]
pub(crate) struct ByteDot {
    pub(crate) meaning: ByteGroupEncoding,
    pub(crate) q: u64,
    /// 3, 4 or 8.
    pub(crate) limbs: usize,
    pub(crate) pieces: Vec<ByteChunk>,
}

/// ManifestParams whose sums fit their words.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByteChunk {
    /// What the sums start from: the digits of the constant.
    pub(crate) start: [i32; MOST_LIMBS],
    pub(crate) first_group: usize,
    /// [`ByteMeaning::per_group`] entries per group.
    pub(crate) groups: Vec<ByteDigits>,
    /// Planes by number with their digits.
    pub(crate) planes: Vec<(usize, ByteDigits)>,
}

impl ByteDot {
    /// Planes of a number.
    pub(crate) fn planes(&self) -> usize {
        if self.limbs == MOST_LIMBS { 2 } else { 1 }
    }

    /// The plan of `constant + features + Σ factor·number`. `None` for what has no byte form: large
    /// levels of two bytes, or their squares.
    pub(crate) fn new(
        width: Width,
        field: &Field,
        store: &RowStore,
        features: &Features<'_>,
        terms: &[PlaneTerm],
        constant: FieldElement,
    ) -> Option<ByteDot> {
        let meaning = match (features, store.level_bytes()) {
            (Features::None, _) => ByteGroupEncoding::Planes,
            (Features::Linear { norm: false, .. }, _) => ByteGroupEncoding::Bytes,
            (Features::Linear { norm: true, .. }, LevelBytes::One) => ByteGroupEncoding::Norm,
            (Features::Linear { norm: true, .. }, LevelBytes::Two) => ByteGroupEncoding::WordNorm,
            (Features::Squares { .. }, LevelBytes::One) => ByteGroupEncoding::Squares,
            (Features::Squares { .. }, LevelBytes::Two) => return None,
        };
        let mut planner = Planner::new(width, field, meaning);
        for (limb, digit) in planner.digits([constant]).into_iter().enumerate() {
            planner.current.start[limb] = i32::from(digit[0]);
        }
        match features {
            Features::None => {}
            Features::Linear { slope, .. } if store.level_bytes() == LevelBytes::Two => {
                for (slope, ranges) in slope.chunks(2).zip(store.max_levels().chunks(2)) {
                    let both = |k: usize| {
                        let c = slope.get(k).copied().unwrap_or_default();
                        [c, field.mul(c, field.reduce(256))]
                    };
                    let ([a, b], [c, d]) = (both(0), both(1));
                    let squares = ranges.iter().map(|&range| u64::from(range) * u64::from(range)).sum();
                    planner
                        .add_group([[a, b, c, d]], if meaning == ByteGroupEncoding::WordNorm { squares } else { 0 })?;
                }
            }
            Features::Linear { norm, slope } => {
                let moved = field.reduce(if *norm { 128 } else { 0 });
                for slope in slope.chunks(4) {
                    planner.add_group([padded(slope).map(|c| field.add(c, moved))], 0)?;
                }
            }
            Features::Squares { linear, square } => {
                let high = |square: [FieldElement; 4]| square.map(|c| field.mul(c, field.reduce(256)));
                for (linear, square) in linear.chunks(4).zip(square.chunks(4)) {
                    planner.add_group([padded(linear), padded(square), high(padded(square))], 0)?;
                }
            }
        }
        terms.iter().for_each(|term| planner.add_number(term));
        Some(planner.finish())
    }
}

/// Four coefficients; features that are not there are zero in every row, whatever they are
/// multiplied with.
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
    fn new(width: Width, field: &'a Field, meaning: ByteGroupEncoding) -> Self {
        let limbs = match width {
            Width::Wide => MOST_LIMBS,
            Width::Narrow if field.q() <= 1 << 24 => 3,
            Width::Narrow => 4,
        };
        let dot = ByteDot { meaning, q: field.q(), limbs, pieces: vec![] };
        Planner { field, dot, current: ByteChunk::default(), squares: 0, groups_done: 0 }
    }

    /// Digits of up to four coefficients.
    fn digits<const K: usize>(&self, coefficients: [FieldElement; K]) -> ByteDigits {
        let mut digits = [[0; 4]; MOST_LIMBS];
        // The largest number with this many digits: 127 in each.
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

    /// A group of the rows; `squares` bounds what its norm adds. `None` if that alone is too much.
    fn add_group<const P: usize>(&mut self, parts: [[FieldElement; 4]; P], squares: u64) -> Option<()> {
        if squares > PIECE_SQUARES {
            return None;
        }
        if self.current.groups.len() + P > PIECE_GROUPS || self.squares + squares > PIECE_SQUARES {
            self.start_piece();
        }
        for part in parts {
            self.current.groups.push(self.digits(part));
        }
        self.squares += squares;
        self.groups_done += 1;
        Some(())
    }

    fn add_number(&mut self, term: &PlaneTerm) {
        let planes = self.dot.planes();
        let mut factor = term.factor;
        for plane in 0..planes {
            if self.current.groups.len() + self.current.planes.len() == PIECE_GROUPS {
                self.start_piece();
            }
            let coefficients = std::array::from_fn(|_| {
                let this = factor;
                factor = self.field.mul(factor, self.field.reduce(256));
                this
            });
            let digits = self.digits::<4>(coefficients);
            self.current.planes.push((term.number * planes + plane, digits));
        }
    }

    fn start_piece(&mut self) {
        let next = ByteChunk { first_group: self.groups_done, ..ByteChunk::default() };
        self.dot.pieces.push(std::mem::replace(&mut self.current, next));
        self.squares = 0;
    }

    fn finish(mut self) -> ByteDot {
        self.dot.pieces.push(self.current);
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
    fn pieces_have_no_more_groups_than_their_sums_have_room_for() {
        let store = RowStore::build(&vec![255; 400], [vec![255u16; 400]]).unwrap();
        for bits in [21, 61] {
            let field = Field::above(1 << (bits - 1), ModulusRule::Deployment).unwrap();
            let slope = vec![FieldElement::ONE; 400];
            let terms: Vec<PlaneTerm> =
                (0..100).map(|number| PlaneTerm { number, factor: slope[0], below: field.q() }).collect();
            for features in [
                Features::Linear { norm: true, slope: &slope },
                Features::Squares { linear: &slope, square: &slope },
                Features::None,
            ] {
                let dot =
                    ByteDot::new(Width::of(&field), &field, &store, &features, &terms, FieldElement::ONE).unwrap();
                let held = |piece: &ByteChunk| piece.groups.len() + piece.planes.len();
                assert!(dot.pieces.iter().all(|piece| held(piece) <= PIECE_GROUPS), "{bits} bits, {features:?}");
                // As few pieces as that takes.
                let held: usize = dot.pieces.iter().map(held).sum();
                assert!(dot.pieces.len() <= held / PIECE_GROUPS + 2, "{bits} bits, {features:?}");
            }
        }
    }

    #[test]
    fn plans_are_the_forms_at_every_width() {
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
                        let shape = match features {
                            _ if squared => RowFunctionKind::Polynomial(vec![slope.clone(), squares.clone()]),
                            Features::Linear { norm: true, .. } => {
                                RowFunctionKind::Linear { norm: FieldElement::ONE, slope: slope.clone() }
                            }
                            _ => RowFunctionKind::Linear { norm: FieldElement::ZERO, slope: slope.clone() },
                        };
                        let width = Width::of(&field);
                        let number = random.below(q);
                        let term = PlaneTerm { number: 0, factor: field.sample(&mut random), below: q };
                        let Some(dot) = ByteDot::new(width, &field, &store, &features, &[term], constant) else {
                            assert!(squared && range > 255);
                            continue;
                        };
                        let function = RowFunction { shape, constant };
                        let expected = field.mul_add(
                            field.element(number).unwrap(),
                            term.factor,
                            function.evaluate(&field, &levels),
                        );
                        let words = [[number as u32; BLOCK_ROWS], [(number >> 32) as u32; BLOCK_ROWS]];
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
