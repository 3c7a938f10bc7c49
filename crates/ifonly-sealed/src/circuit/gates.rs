//! The gates of a search: adder, comparison, choice, one-hot bits. Costs are in ANDs for each row
//! or pair of rows.

use crate::circuit::program::{CircuitBuilder, Operand, ReadPattern, Wire, XorSum, XorTerm};

/// Words and lanes of a gate.
pub(crate) type GateSize = (usize, u32);

/// `V^(1) + V^(2) + V^(3) mod 2^k` of what the servers entered: carry-save, then ripple; 2k − 3
/// ANDs, k − 1 rounds. A carry is saved in the round before it is used, so that what was entered is
/// forgotten bit by bit while the sum grows in its place.
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
            // majority(x, y, z) = (x ⊕ z)(y ⊕ z) ⊕ z, one AND: the carry into the next bit.
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

/// 1 where the right value is smaller than the left one: the borrow of right − left. By ripple
/// within blocks of bits, then by a tree of blocks. With b bits to a block, k + (k − b)(b − 1)/b +
/// 2k/b ANDs or so and b + ⌈log2(k/b)⌉ rounds.
pub(crate) fn right_is_less(
    builder: &mut CircuitBuilder,
    size: GateSize,
    left: &[XorTerm],
    right: &[XorTerm],
    block: usize,
) -> Wire {
    let pairs: Vec<(XorTerm, XorTerm)> = left.iter().copied().zip(right.iter().copied()).collect();
    // Of a group of bits: whether right is less, and (where a lower group exists) whether they are
    // equal.
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

/// `right` where `choice` is 1, else `left`; one AND.
pub(crate) fn choose(
    builder: &mut CircuitBuilder,
    size: GateSize,
    choice: Wire,
    left: XorTerm,
    right: XorTerm,
) -> Wire {
    builder.and(size, XorSum::of([choice.all()]), XorSum::of([left, right]), XorSum::of([left]))
}

/// 1 where none of the bits is; one AND less than there are bits, in a tree.
pub(crate) fn none(builder: &mut CircuitBuilder, size: GateSize, bits: &[Wire]) -> Wire {
    let none = product(builder, size, bits.iter().map(|bit| XorSum::of([bit.all()]).not()).collect());
    builder.xor(size, none)
}

/// The product of at least one factor, in a tree.
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

/// From `seed` (a bit in lane 0) and the bits of an index, lowest first, to `words` words of
/// `lanes` lanes that hold the seed at word `index mod 2^a`, lane `⌊index/2^a⌋`, a = ⌈log2 words⌉,
/// and 0 elsewhere. One AND for each place but the first.
///
/// Whatever holds the seed for the bits of the index so far is split by the next one, bit b of
/// weight m: what was at place e stays there if b is 0 and goes to e + m if b is 1. Where e + m
/// does not exist, b is known to be 0.
pub(crate) fn one_hot(builder: &mut CircuitBuilder, (words, lanes): GateSize, seed: Wire, index: &[Wire]) -> Wire {
    let word_bits = words.next_power_of_two().trailing_zeros() as usize;
    let mut hot = seed;
    let mut reached = 1;
    for bit in &index[word_bits..] {
        let more = reached.min(lanes - reached);
        let there = builder.and(
            (1, more),
            XorSum::of([hot.all()]),
            XorSum::of([bit.read(ReadPattern::Spread)]),
            XorSum::default(),
        );
        hot = builder
            .xor((1, reached + more), XorSum::of([hot.all(), there.all(), there.read(ReadPattern::Up(reached))]));
        reached += more;
    }
    let mut reached = 1;
    for bit in &index[..word_bits] {
        let more = reached.min(words - reached);
        let split = builder.register(reached + more, lanes);
        let factors = (XorSum::of([hot.all()]), XorSum::of([bit.read(ReadPattern::Spread)]));
        builder.write(split, reached, more, Some(factors), XorSum::default());
        let there = split.read(ReadPattern::From(reached as u32));
        builder.write(split, 0, more, None, XorSum::of([hot.all(), there]));
        if more < reached {
            builder.write(split, more, reached - more, None, XorSum::of([hot.read(ReadPattern::From(more as u32))]));
        }
        hot = split;
        reached += more;
    }
    hot
}
