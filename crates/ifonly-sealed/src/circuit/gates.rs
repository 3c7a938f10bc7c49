//! Building blocks of the circuit: adder, comparison, choice, product and one-hot bits. Costs are
//! numbers of AND gates per row or pair of rows.

use crate::circuit::program::{CircuitBuilder, Operand, ReadPattern, Wire, XorSum, XorTerm};

/// Number of words and lanes of a gate.
pub(crate) type GateSize = (usize, u32);

/// `V^(1) + V^(2) + V^(3) mod 2^k` of the inputs, by a carry-save and a ripple adder: 2k − 3 ANDs,
/// k − 1 rounds. The carry-save step for a bit runs one round before its result is used, so the
/// memory of the input bits is reused for the bits of the sum.
pub(crate) fn add_inputs(builder: &mut CircuitBuilder, bits: usize, size: GateSize) -> Vec<Wire> {
    let input = |server, bit: usize| XorTerm {
        source: Operand::Input { server, bit: bit as u8 },
        read: ReadPattern::From(0),
        beyond: false,
    };
    let (mut saved, mut carry): (Option<Wire>, Option<Wire>) = (None, None);
    let mut sums = Vec::with_capacity(bits);
    for bit in 0..bits {
        let [x, y, z] = [1, 2, 3].map(|server| input(server, bit));
        let below = saved.map(Wire::all);
        if bit + 1 < bits {
            // The carry into the next bit: majority(x, y, z) = (x ⊕ z)(y ⊕ z) ⊕ z, one AND.
            saved = Some(builder.and_after(bit, size, XorSum::of([x, z]), XorSum::of([y, z]), XorSum::of([z])));
        }
        let Some(saved) = below else {
            sums.push(builder.xor(size, XorSum::of([x, y, z])));
            continue;
        };
        let (sum, next) = match carry.map(Wire::all) {
            None => (XorSum::of([x, y, z, saved]), (XorSum::of([x, y, z]), XorSum::of([saved]), XorSum::default())),
            Some(carry) => (
                XorSum::of([x, y, z, saved, carry]),
                (XorSum::of([x, y, z, carry]), XorSum::of([saved, carry]), XorSum::of([carry])),
            ),
        };
        if bit + 1 < bits {
            carry = Some(builder.and(size, next.0, next.1, next.2));
        }
        sums.push(builder.xor(size, sum));
    }
    sums
}

/// The sum of two numbers of equal width, one bit wider, by a ripple adder: one AND per bit.
pub(crate) fn add_counts(
    builder: &mut CircuitBuilder,
    size: GateSize,
    left: &[XorTerm],
    right: &[XorTerm],
) -> Vec<Wire> {
    let mut carry: Option<Wire> = None;
    let mut sum = Vec::with_capacity(left.len() + 1);
    for (&left, &right) in left.iter().zip(right) {
        let (bit, next) = match carry.map(Wire::all) {
            None => (XorSum::of([left, right]), [XorSum::of([left]), XorSum::of([right]), XorSum::default()]),
            Some(carry) => (
                XorSum::of([left, right, carry]),
                [XorSum::of([left, carry]), XorSum::of([right, carry]), XorSum::of([carry])],
            ),
        };
        let [x, y, plus] = next;
        carry = Some(builder.and(size, x, y, plus));
        sum.push(builder.xor(size, bit));
    }
    sum.extend(carry);
    sum
}

/// 1 if a number in lane 0 is at least `least`, which is positive and not wider: one AND per bit
/// above the lowest 1 of `least`.
pub(crate) fn at_least(builder: &mut CircuitBuilder, number: &[Wire], least: usize) -> Wire {
    let mut result: Option<XorSum> = None;
    for (bit, wire) in number.iter().enumerate() {
        let wire = XorSum::of([wire.all()]);
        let is_one = least >> bit & 1 == 1;
        result = match result {
            // The lower bits of `least` are 0, so the lower bits of every number reach them.
            None => is_one.then_some(wire),
            Some(lower) if is_one => Some(XorSum::of([builder.and((1, 1), wire, lower, XorSum::default()).all()])),
            // wire OR lower
            Some(lower) => {
                Some(XorSum::of([builder.and((1, 1), wire.not(), lower.not(), XorSum::default()).all()]).not())
            }
        };
    }
    builder.xor((1, 1), result.unwrap_or_default())
}

/// 1 where the right value is smaller than the left value: the borrow of right − left. A ripple
/// within blocks of bits, then a tree over the blocks. With b bits per block it takes about k +
/// (k − b)(b − 1)/b + 2k/b ANDs and b + ⌈log2(k/b)⌉ rounds.
pub(crate) fn right_is_less(
    builder: &mut CircuitBuilder,
    size: GateSize,
    left: &[XorTerm],
    right: &[XorTerm],
    block: usize,
) -> Wire {
    let pairs: Vec<(XorTerm, XorTerm)> = left.iter().copied().zip(right.iter().copied()).collect();
    // For each group of bits: whether right is less, and whether both are equal. Equality is not
    // needed for the lowest group.
    let mut groups: Vec<(Wire, Option<XorSum>)> = Vec::with_capacity(pairs.len().div_ceil(block));
    for pairs in pairs.chunks(block) {
        let (left, right) = pairs[0];
        let first = builder.and(size, XorSum::of([right]).not(), XorSum::of([left]), XorSum::default());
        // borrow' = majority(¬right, left, borrow)
        let less = pairs[1..].iter().fold(first, |borrow, &(left, right)| {
            let borrow = borrow.all();
            builder.and(size, XorSum::of([right, borrow]).not(), XorSum::of([left, borrow]), XorSum::of([borrow]))
        });
        let equal = (!groups.is_empty()).then(|| {
            let equal = pairs.iter().map(|&(left, right)| XorSum::of([left, right]).not());
            product(builder, size, equal.collect())
        });
        groups.push((less, equal));
    }
    while groups.len() > 1 {
        let mut joined = Vec::with_capacity(groups.len().div_ceil(2));
        for pair in groups.chunks(2) {
            joined.push(match *pair {
                [(low, low_equal), (high, Some(equal))] => {
                    let less = builder.and(size, equal, XorSum::of([low.all()]), XorSum::of([high.all()]));
                    let both = low_equal.map(|low| builder.and(size, equal, low, XorSum::default()));
                    (less, both.map(|both| XorSum::of([both.all()])))
                }
                _ => pair[0],
            });
        }
        groups = joined;
    }
    groups[0].0
}

/// `right` where `choice` is 1, otherwise `left`; one AND.
pub(crate) fn choose(
    builder: &mut CircuitBuilder,
    size: GateSize,
    choice: Wire,
    left: XorTerm,
    right: XorTerm,
) -> Wire {
    builder.and(size, XorSum::of([choice.all()]), XorSum::of([left, right]), XorSum::of([left]))
}

/// 1 where all bits are 0: a tree with one AND fewer than there are bits.
pub(crate) fn none(builder: &mut CircuitBuilder, size: GateSize, bits: &[Wire]) -> Wire {
    let none = product(builder, size, bits.iter().map(|bit| XorSum::of([bit.all()]).not()).collect());
    builder.xor(size, none)
}

/// The product of one or more factors, as a tree of ANDs.
fn product(builder: &mut CircuitBuilder, size: GateSize, mut factors: Vec<XorSum>) -> XorSum {
    while factors.len() > 1 {
        factors = factors
            .chunks(2)
            .map(|pair| match *pair {
                [x, y] => XorSum::of([builder.and(size, x, y, XorSum::default()).all()]),
                _ => pair[0],
            })
            .collect();
    }
    factors[0]
}

/// One-hot bits: `words` words of `lanes` lanes that are 0 except at one position, which holds
/// `seed` (a bit in lane 0). The position is word `index mod 2^a`, lane `⌊index/2^a⌋`, with a =
/// ⌈log2 words⌉; `index` has its lowest bit first. One AND for each position but the first.
///
/// Each index bit b of weight m splits the positions so far: the value at position e stays there if
/// b is 0, and moves to e + m if b is 1. If position e + m does not exist, b is always 0.
pub(crate) fn one_hot(builder: &mut CircuitBuilder, (words, lanes): GateSize, seed: Wire, index: &[Wire]) -> Wire {
    let word_bits = words.next_power_of_two().trailing_zeros() as usize;
    let mut hot = seed;
    let mut positions = 1;
    for bit in &index[word_bits..] {
        let more = positions.min(lanes - positions);
        let moved = builder.and(
            (1, more),
            XorSum::of([hot.all()]),
            XorSum::of([bit.read(ReadPattern::Spread)]),
            XorSum::default(),
        );
        hot = builder
            .xor((1, positions + more), XorSum::of([hot.all(), moved.all(), moved.read(ReadPattern::Up(positions))]));
        positions += more;
    }
    let mut positions = 1;
    for bit in &index[..word_bits] {
        let more = positions.min(words - positions);
        let split = builder.register(positions + more, lanes);
        let factors = (XorSum::of([hot.all()]), XorSum::of([bit.read(ReadPattern::Spread)]));
        builder.write(split, positions, more, Some(factors), XorSum::default());
        let moved = split.read(ReadPattern::From(positions as u32));
        builder.write(split, 0, more, None, XorSum::of([hot.all(), moved]));
        if more < positions {
            builder.write(split, more, positions - more, None, XorSum::of([hot.read(ReadPattern::From(more as u32))]));
        }
        hot = split;
        positions += more;
    }
    hot
}
