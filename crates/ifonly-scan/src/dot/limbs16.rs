//! Dot products modulo q in 16-bit limbs: the plan that every kernel executes.
//!
//! A coefficient c of F_q, centred around 0, is written as `c = Σ_l digit_l·weight_l` with signed
//! 16-bit digits and the weights `1, 65280, 65280·2^16, 65280·2^32`. Two digits represent every
//! residue for q < 2^31 ([`NARROW`]), four for q < 2^62 ([`WIDE`]). A kernel multiplies the bytes
//! of a row with the digits of each limb and sums in 32 bits, without reduction until the end of
//! the row. Then `value = Σ_l sum_l·weight_l`. The kernel estimates the quotient by q in floating
//! point and computes the remainder exactly in wrapping integers.
//!
//! The lowest weight step is 65280 = 2^16 − 256 rather than 2^16. The lowest digit then leaves room
//! to add a level to it, so `y·(y + digit_0)` includes the squared norm for one additional
//! addition.
//!
//! Quadratic row functions over fields of up to 24 bits use another encoding. With u = y − 128,
//! both u and u² ≤ 2^14 are 16-bit numbers, and digits of 12 bits leave enough room for their sums
//! in 32 bits. Larger fields use y² as two bytes.
//!
//! Three kinds of terms enter as groups of four bytes per row:
//!
//! - features;
//! - *planes*, which are values beside the rows, such as pads and blinding factors (a plane times c
//!   is its four bytes times `c·256^t`);
//! - the two bytes of y² for quadratic row functions.
//!
//! A plan is divided into chunks wherever a sum could exceed 32 bits or the quotient could become
//! inexact.

use crate::row_store::{LevelBytes, RowStore};
use ifonly_algebra::field::{Field, FieldElement};

/// Number of limbs for q < 2^31.
pub(crate) const NARROW: usize = 2;
/// Number of limbs for q < 2^62.
pub(crate) const WIDE: usize = 4;
const LOW_WEIGHT: i64 = 65280;
/// The weight of each limb.
pub(crate) const WEIGHTS: [i64; WIDE] = [1, LOW_WEIGHT, LOW_WEIGHT << 16, LOW_WEIGHT << 32];
/// The weight of the second of two limbs for [`GroupEncoding::CentredSquares`].
const CENTRED_WEIGHT: i64 = 1 << 12;
/// The largest number with two signed digits of 12 bits, which represent 2^24 numbers.
const MAX_CENTRED: i64 = 2047 * (CENTRED_WEIGHT + 1);

/// Products of a plane that is not split into bytes stay below this.
const WHOLE_PLANE_LIMIT: i128 = 1 << 30;

/// The digits of four bytes for each limb, in the order of bytes 0, 2, 1, 3 (or of two 16-bit
/// levels, then zeros). A kernel multiplies the even and the odd bytes of a group as two vectors of
/// pairs.
pub(crate) type GroupDigits<const L: usize> = [[i16; 4]; L];

/// Two digits as a 32-bit lane.
#[inline]
pub(crate) fn lane([a, b]: [i16; 2]) -> i32 {
    (u32::from(a as u16) | u32::from(b as u16) << 16) as i32
}

/// How field elements are stored beside the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// One plane of words, for odd q < 2^31. Montgomery products need an odd q.
    Narrow,
    /// A plane of low words and a plane of high words.
    Wide,
}

impl Width {
    pub(crate) fn of(field: &Field) -> Width {
        if field.q() < 1 << 31 && field.q() % 2 == 1 { Width::Narrow } else { Width::Wide }
    }

    /// Words per field element.
    pub(crate) fn planes(self) -> usize {
        match self {
            Width::Narrow => 1,
            Width::Wide => 2,
        }
    }
}

/// How the bytes of a feature group encode levels, and which terms they contribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupEncoding {
    /// No features; only planes.
    Planes,
    /// `Σ c·y`, one byte per level.
    Bytes,
    /// `Σ y·(y + c)`, one byte per level.
    BytesNorm,
    /// `Σ (c·y + e·y²)`, one byte per level; three [`GroupDigits`] per group: for y, for the low
    /// bytes and for the high bytes of y².
    BytesSquares,
    /// `Σ (c·u + e·u²)` with u = y − 128, one byte per level; two [`GroupDigits`] per group: for u
    /// and for u².
    CentredSquares,
    /// `Σ c·y`, two bytes per level, levels below 2^15.
    Words,
    /// `Σ y·(y + c)`, two bytes per level, levels below 2^15.
    WordsNorm,
}

impl GroupEncoding {
    /// Entries of [`Chunk::groups`] for each group of the rows.
    pub(crate) const fn per_group(self) -> usize {
        match self {
            GroupEncoding::BytesSquares => 3,
            GroupEncoding::CentredSquares => 2,
            _ => 1,
        }
    }
}

/// The encodings as types, for kernels that are compiled for each of them.
pub(crate) mod groups {
    pub(crate) struct NoFeatures;
    /// Levels of one byte, with or without `y²`.
    pub(crate) struct ByteLevels<const NORM: bool>;
    /// Levels of one byte and both bytes of their squares.
    pub(crate) struct Squares;
    /// Levels of one byte minus 128, and their squares.
    pub(crate) struct CentredSquares;
    /// Levels of two bytes, with or without `y²`.
    pub(crate) struct WordLevels<const NORM: bool>;
}

/// A dot product in the width of its field.
#[derive(Clone, Debug)]
pub(crate) enum AnyDot {
    Narrow(Dot<NARROW>),
    Wide(Dot<WIDE>),
}

impl AnyDot {
    /// [`Dot::new`].
    pub(crate) fn new(
        width: Width,
        field: &Field,
        store: &RowStore,
        features: &Features<'_>,
        terms: &[PlaneTerm],
        constant: FieldElement,
    ) -> Option<AnyDot> {
        match width {
            Width::Narrow => Dot::new(field, store, features, terms, constant).map(AnyDot::Narrow),
            Width::Wide => Dot::new(field, store, features, terms, constant).map(AnyDot::Wide),
        }
    }
}

/// A dot product over the feature groups and some planes, plus a constant.
#[derive(Clone, Debug)]
pub(crate) struct Dot<const L: usize> {
    pub(crate) encoding: GroupEncoding,
    pub(crate) q: u64,
    /// The weight of each limb. Only the second can differ from [`WEIGHTS`], and only in narrow
    /// plans.
    pub(crate) weights: [i64; L],
    pub(crate) chunks: Vec<Chunk<L>>,
}

/// Terms whose sums fit 32 bits per limb.
#[derive(Clone, Debug)]
pub(crate) struct Chunk<const L: usize> {
    /// Initial values of the sums: the digits of the constant.
    pub(crate) start: [i32; L],
    pub(crate) first_group: usize,
    /// [`GroupEncoding::per_group`] entries for each group of the rows.
    pub(crate) groups: Vec<GroupDigits<L>>,
    /// Indices of planes, with their digits.
    pub(crate) planes: Vec<(usize, GroupDigits<L>)>,
    /// Indices of planes whose factor is so small that word times factor fits the lowest limb
    /// without a split into bytes: pads at the evaluation points ±1 and ±2.
    pub(crate) whole_planes: Vec<(usize, i32)>,
}

impl<const L: usize> Chunk<L> {
    fn starting(first_group: usize) -> Self {
        Chunk { start: [0; L], first_group, groups: vec![], planes: vec![], whole_planes: vec![] }
    }
}

/// A plane and its factor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlaneTerm {
    /// Index of the register. A register has one plane if narrow, two if wide.
    pub(crate) register: usize,
    pub(crate) factor: FieldElement,
    /// An exclusive bound on its values; q if they are reduced.
    pub(crate) below: u64,
}

/// The features of a row function in the form that kernels support.
#[derive(Debug)]
pub(crate) enum Features<'a> {
    /// No features.
    None,
    /// `Σ slope_k·y_k`, optionally plus `‖y‖²`.
    Linear {
        /// Whether `‖y‖²` is added.
        norm: bool,
        slope: &'a [FieldElement],
    },
    /// `Σ linear_k·y_k + square_k·y_k²`.
    Squares { linear: &'a [FieldElement], square: &'a [FieldElement] },
}

impl<const L: usize> Dot<L> {
    /// The plan of `constant + features + Σ factor·register`. `None` if a single group could
    /// overflow (large levels of two bytes, or their squares); such row functions use look-up
    /// tables.
    pub(crate) fn new(
        field: &Field,
        store: &RowStore,
        features: &Features<'_>,
        terms: &[PlaneTerm],
        constant: FieldElement,
    ) -> Option<Dot<L>> {
        let encoding = encoding_of(store, features, L == NARROW && field.q() <= 1 << 24)?;
        let mut constant = constant;
        if let (GroupEncoding::CentredSquares, Features::Squares { linear, square }) = (encoding, features) {
            // c·y + e·y² = (c + 256·e)·u + e·u² + (128·c + 16384·e).
            for (&c, &e) in linear.iter().zip(*square) {
                constant = field.mul_add(c, field.reduce(128), field.mul_add(e, field.reduce(16384), constant));
            }
        }
        let mut plan = Planner::<L>::new(field, encoding, constant);
        match features {
            Features::None => {}
            Features::Linear { norm, slope } => {
                let per_group = store.level_bytes().features_per_group();
                for (slope, max_levels) in slope.chunks(per_group).zip(store.max_levels().chunks(per_group)) {
                    plan.add_group(&[slope], max_levels, *norm)?;
                }
            }
            Features::Squares { linear, square } if encoding == GroupEncoding::CentredSquares => {
                let times_256 = field.reduce(256);
                for (linear, square) in linear.chunks(4).zip(square.chunks(4)) {
                    let both = linear.iter().zip(square);
                    let slope: Vec<FieldElement> = both.map(|(&c, &e)| field.mul_add(e, times_256, c)).collect();
                    plan.add_group(&[&slope, square], &[128; 4], false)?;
                }
            }
            Features::Squares { linear, square } => {
                let times_256 = field.reduce(256);
                let high: Vec<FieldElement> = square.iter().map(|&c| field.mul(c, times_256)).collect();
                let parts = linear.chunks(4).zip(square.chunks(4)).zip(high.chunks(4));
                for ((linear, square), high) in parts {
                    plan.add_group(&[linear, square, high], &[255; 4], false)?;
                }
            }
        }
        for term in terms {
            plan.add_register(term);
        }
        Some(plan.finish())
    }
}

fn encoding_of(store: &RowStore, features: &Features<'_>, centred: bool) -> Option<GroupEncoding> {
    match (features, store.level_bytes()) {
        (Features::None, _) => Some(GroupEncoding::Planes),
        (Features::Linear { norm: false, .. }, LevelBytes::One) => Some(GroupEncoding::Bytes),
        (Features::Linear { norm: true, .. }, LevelBytes::One) => Some(GroupEncoding::BytesNorm),
        (Features::Squares { .. }, LevelBytes::One) if centred => Some(GroupEncoding::CentredSquares),
        (Features::Squares { .. }, LevelBytes::One) => Some(GroupEncoding::BytesSquares),
        (Features::Squares { .. }, LevelBytes::Two) => None,
        (Features::Linear { norm, .. }, LevelBytes::Two) => {
            let signed = store.max_levels().iter().all(|&max_level| max_level < 1 << 15);
            signed.then_some(if *norm { GroupEncoding::WordsNorm } else { GroupEncoding::Words })
        }
    }
}

/// The digits of a field element of up to 24 bits, 12 bits each.
fn centred_digits<const L: usize>(field: &Field, c: FieldElement) -> [i16; L] {
    let value = c.value() as i64;
    let value = if value > MAX_CENTRED { value - field.q() as i64 } else { value };
    let low = (value + 2048).rem_euclid(CENTRED_WEIGHT) - 2048;
    let high = (value - low) / CENTRED_WEIGHT;
    debug_assert!((-2048..2048).contains(&high), "q has too many bits for two digits of 12");
    std::array::from_fn(|limb| [low, high].get(limb).map_or(0, |&digit| digit as i16))
}

/// The digits of a field element.
fn digits<const L: usize>(field: &Field, c: FieldElement) -> [i16; L] {
    let mut rest = field.signed(c);
    let mut digits = [0; L];
    for (limb, digit) in digits.iter_mut().enumerate() {
        // The lowest digit lies in −32768..=32511, so that a level up to 255 can be added to it.
        let step = if limb == 0 { LOW_WEIGHT } else { 1 << 16 };
        let low = (rest + 32768).rem_euclid(step) - 32768;
        *digit = low as i16;
        rest = (rest - low) / step;
    }
    debug_assert_eq!(rest, 0, "q has too many bits for {L} limbs");
    digits
}

struct Planner<'a, const L: usize> {
    field: &'a Field,
    dot: Dot<L>,
    current: Chunk<L>,
    bounds: [i128; L],
    groups_done: usize,
}

impl<'a, const L: usize> Planner<'a, L> {
    fn new(field: &'a Field, encoding: GroupEncoding, constant: FieldElement) -> Self {
        let second = if encoding == GroupEncoding::CentredSquares { CENTRED_WEIGHT } else { LOW_WEIGHT };
        let weights = std::array::from_fn(|limb| if limb == 1 { second } else { WEIGHTS[limb] });
        let dot = Dot { encoding, q: field.q(), weights, chunks: vec![] };
        let mut planner = Planner { field, dot, current: Chunk::starting(0), bounds: [0; L], groups_done: 0 };
        planner.current.start = planner.digits(constant).map(i32::from);
        planner.bounds = planner.current.start.map(|digit| i128::from(digit.abs()));
        planner
    }

    fn digits(&self, c: FieldElement) -> [i16; L] {
        if self.dot.encoding == GroupEncoding::CentredSquares {
            centred_digits(self.field, c)
        } else {
            digits(self.field, c)
        }
    }

    /// Adds one feature group. `parts` has the factors of y, or of y and both bytes of y², or of u
    /// and u². `max_levels` bounds the levels of two bytes and the centred levels.
    fn add_group(&mut self, parts: &[&[FieldElement]], max_levels: &[u32], norm: bool) -> Option<()> {
        let words = matches!(self.dot.encoding, GroupEncoding::Words | GroupEncoding::WordsNorm);
        let mut entries = vec![];
        let mut added = [0i128; L];
        for (power, part) in parts.iter().enumerate() {
            let mut entry = [[0; 4]; L];
            for (k, &factor) in part.iter().enumerate() {
                let digits = self.digits(factor);
                let bound = match self.dot.encoding {
                    GroupEncoding::Words | GroupEncoding::WordsNorm => i128::from(max_levels[k]),
                    GroupEncoding::CentredSquares => i128::from(max_levels[k]).pow(1 + power as u32),
                    _ => 255,
                };
                // Two-byte levels are in memory order, bytes in the order 0, 2, 1, 3.
                let index = if words { k } else { [0, 2, 1, 3][k] };
                for limb in 0..L {
                    entry[limb][index] = digits[limb];
                    added[limb] += bound * i128::from(digits[limb]).abs();
                }
                if norm {
                    added[0] += bound * bound;
                }
            }
            entries.push(entry);
        }
        if !self.make_room(added) {
            return None;
        }
        self.current.groups.extend(entries);
        self.groups_done += 1;
        Some(())
    }

    fn add_register(&mut self, term: &PlaneTerm) {
        let planes = L / NARROW;
        let product = i128::from(self.field.signed(term.factor)).abs() * i128::from(term.below);
        let added = std::array::from_fn(|limb| if limb == 0 { product } else { 0 });
        if planes == 1 && product < WHOLE_PLANE_LIMIT && self.make_room(added) {
            self.current.whole_planes.push((term.register, self.field.signed(term.factor) as i32));
            return;
        }
        let mut factor = term.factor;
        let step = self.field.reduce(256);
        for plane in 0..planes {
            let mut entry = [[0; 4]; L];
            let mut added = [0i128; L];
            for index in [0, 2, 1, 3] {
                let digits = self.digits(factor);
                for limb in 0..L {
                    entry[limb][index] = digits[limb];
                    added[limb] += 255 * i128::from(digits[limb]).abs();
                }
                factor = self.field.mul(factor, step);
            }
            let fits = self.make_room(added);
            debug_assert!(fits, "four bytes times digits below 2^15 stay below 2^25 and 2^10·q");
            self.current.planes.push((term.register * planes + plane, entry));
        }
    }

    /// Starts a new chunk if the current one has no room for sums that grow by `added`. Returns
    /// false if an empty chunk has no room either.
    fn make_room(&mut self, added: [i128; L]) -> bool {
        let sum = |a: [i128; L]| std::array::from_fn(|limb| a[limb] + added[limb]);
        if !self.fits(sum(self.bounds)) {
            let next = Chunk::starting(self.groups_done);
            self.dot.chunks.push(std::mem::replace(&mut self.current, next));
            self.bounds = [0; L];
            if !self.fits(added) {
                return false;
            }
        }
        self.bounds = sum(self.bounds);
        true
    }

    /// Whether sums within `bounds` fit 32 bits per limb and the floating-point estimate of the
    /// quotient is off by less than 1/4. In narrow plans (f32), four roundings of 2^-24 each stay
    /// below that if |value|/q ≤ 2^19. Wide plans use f64 and need a quotient of at most 31 bits.
    fn fits(&self, bounds: [i128; L]) -> bool {
        let value: i128 = bounds.iter().zip(self.dot.weights).map(|(&bound, weight)| bound * i128::from(weight)).sum();
        let quotient_bits = if L == NARROW { 19 } else { 30 };
        bounds.iter().all(|&bound| bound < 1 << 31) && value >> quotient_bits < i128::from(self.dot.q)
    }

    fn finish(mut self) -> Dot<L> {
        self.dot.chunks.push(self.current);
        self.dot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ifonly_algebra::field::ModulusRule;
    use ifonly_algebra::random::SeededRandom;

    #[test]
    fn digits_times_weights_are_the_centred_field_element() {
        let mut random = SeededRandom::new(1);
        for bits in [2, 8, 16, 17, 24, 30, 31, 40, 48, 61, 62] {
            let q = Field::above(1 << (bits - 1), ModulusRule::Deployment).unwrap().q();
            let field = Field::new(q).unwrap();
            let edges = [0, 1, q / 2, q / 2 + 1, q - 1].map(|v| field.element(v).unwrap());
            let samples = (0..1000).map(|_| field.sample(&mut random)).chain(edges);
            for element in samples {
                let value = |digits: &[i16]| -> i128 {
                    digits.iter().zip(WEIGHTS).map(|(&d, w)| i128::from(d) * i128::from(w)).sum()
                };
                let centred = i128::from(field.signed(element));
                if bits <= 31 {
                    let digits = digits::<NARROW>(&field, element);
                    assert_eq!(value(&digits), centred);
                    assert!(digits[0] <= i16::MAX - 255);
                }
                if bits <= 24 {
                    let [low, high] = centred_digits::<NARROW>(&field, element).map(i64::from);
                    let value = low + CENTRED_WEIGHT * high;
                    assert_eq!(value.rem_euclid(q as i64), element.value() as i64);
                }
                assert_eq!(value(&digits::<WIDE>(&field, element)), centred);
            }
        }
    }

    #[test]
    fn the_sums_of_every_chunk_fit_32_bits() {
        let mut random = SeededRandom::new(2);
        let store = RowStore::build(&[1], [[0u16]]).unwrap();
        let field = Field::above(1 << 30, ModulusRule::Deployment).unwrap();
        let mut term = |register| PlaneTerm { register, factor: field.sample(&mut random), below: field.q() };
        let terms: Vec<PlaneTerm> = (0..1000).map(&mut term).collect();
        let dot = Dot::<NARROW>::new(&field, &store, &Features::None, &terms, FieldElement::ONE).unwrap();
        assert_eq!(dot.chunks.iter().map(|chunk| chunk.planes.len()).sum::<usize>(), 1000);
        for chunk in &dot.chunks {
            let largest = |limb: usize| -> i64 {
                let digits = chunk.planes.iter().flat_map(|(_, digits)| digits[limb]);
                digits.map(|digit| 255 * i64::from(digit).abs()).sum::<i64>() + i64::from(chunk.start[limb]).abs()
            };
            assert!(largest(0) < 1 << 31 && largest(1) < 1 << 31);
        }
    }

    #[test]
    fn two_digits_of_12_bits_represent_every_element_of_the_largest_supported_field() {
        let field = Field::new(16_777_213).unwrap();
        for value in [0, 1, 2047, 2048, field.q() - 1].into_iter().chain(8_380_000..8_400_000) {
            let digits = centred_digits::<NARROW>(&field, field.element(value).unwrap()).map(i64::from);
            assert!(digits.iter().all(|digit| (-2048..2048).contains(digit)), "{value}");
            assert_eq!((digits[0] + CENTRED_WEIGHT * digits[1]).rem_euclid(16_777_213), value as i64);
        }
    }
}
