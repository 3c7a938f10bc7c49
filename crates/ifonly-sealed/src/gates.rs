//! The gates of a search: adder, comparison, choice, one-hot bits. Costs are in ANDs for each row or pair of rows.

use crate::program::{Builder, Read, Source, Sum, Term, Wire};

/// Words and lanes of a gate.
pub(crate) type Size = (usize, u32);

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// k ANDs, k rounds.
    Ripple,
    /// Nearly 3k ANDs, ⌈log2 k⌉ + 1 rounds.
    Tree,
}

/// `V^(1) + V^(2) + V^(3) mod 2^k` of what the servers entered: carry-save, then ripple; 2k − 3 ANDs, k − 1 rounds.
pub(crate) fn add_inputs(builder: &mut Builder, bits: usize, size: Size) -> Vec<Wire> {
    let input = |server, bit: usize| Term {
        source: Source::Input { server, bit: bit as u8 },
        read: Read::From(0),
        beyond: false,
    };
    // majority(x, y, z) = (x ⊕ z)(y ⊕ z) ⊕ z, one AND: the carry into the next bit.
    let saved: Vec<Wire> = (0..bits - 1)
        .map(|bit| {
            let [x, y, z] = [1, 2, 3].map(|server| input(server, bit));
            builder.and(size, Sum::of([x, z]), Sum::of([y, z]), Sum::of([z]))
        })
        .collect();
    let mut carry: Option<Wire> = None;
    let mut sums = Vec::with_capacity(bits);
    for bit in 0..bits {
        let [x, y, z] = [1, 2, 3].map(|server| input(server, bit));
        let Some(saved) = bit.checked_sub(1).map(|below| saved[below].all()) else {
            sums.push(builder.xor(size, Sum::of([x, y, z])));
            continue;
        };
        let (sum, next) = match carry.map(Wire::all) {
            None => (Sum::of([x, y, z, saved]), (Sum::of([x, y, z]), Sum::of([saved]), Sum::default())),
            Some(carry) => (
                Sum::of([x, y, z, saved, carry]),
                (Sum::of([x, y, z, carry]), Sum::of([saved, carry]), Sum::of([carry])),
            ),
        };
        if bit + 1 < bits {
            carry = Some(builder.and(size, next.0, next.1, next.2));
        }
        sums.push(builder.xor(size, sum));
    }
    sums
}

/// 1 where the right value is smaller than the left one: the borrow of right − left.
pub(crate) fn right_is_less(
    builder: &mut Builder,
    size: Size,
    left: &[Term],
    right: &[Term],
    comparison: Comparison,
) -> Wire {
    let pairs: Vec<(Term, Term)> = left.iter().copied().zip(right.iter().copied()).collect();
    match comparison {
        Comparison::Ripple => {
            // borrow' = majority(¬right, left, borrow)
            let (left, right) = pairs[0];
            let first = builder.and(size, Sum::of([right]).not(), Sum::of([left]), Sum::default());
            pairs[1..].iter().fold(first, |borrow, &(left, right)| {
                let borrow = borrow.all();
                builder.and(size, Sum::of([right, borrow]).not(), Sum::of([left, borrow]), Sum::of([borrow]))
            })
        }
        Comparison::Tree => {
            // Of a group of bits: whether right is less, and (where a lower group exists) whether they are equal.
            let mut groups: Vec<(Wire, Option<Sum>)> = Vec::with_capacity(pairs.len());
            for (bit, &(left, right)) in pairs.iter().enumerate() {
                let less = builder.and(size, Sum::of([right]).not(), Sum::of([left]), Sum::default());
                groups.push((less, (bit > 0).then(|| Sum::of([left, right]).not())));
            }
            while groups.len() > 1 {
                let mut joined = Vec::with_capacity(groups.len().div_ceil(2));
                for pair in groups.chunks(2) {
                    joined.push(match *pair {
                        [(low, low_equal), (high, Some(equal))] => {
                            let less = builder.and(size, equal, Sum::of([low.all()]), Sum::of([high.all()]));
                            let both = low_equal.map(|low| builder.and(size, equal, low, Sum::default()));
                            (less, both.map(|both| Sum::of([both.all()])))
                        }
                        _ => pair[0],
                    });
                }
                groups = joined;
            }
            groups[0].0
        }
    }
}

/// `right` where `choice` is 1, else `left`; one AND.
pub(crate) fn choose(builder: &mut Builder, size: Size, choice: Wire, left: Term, right: Term) -> Wire {
    builder.and(size, Sum::of([choice.all()]), Sum::of([left, right]), Sum::of([left]))
}

/// 1 where none of the bits is; one AND less than there are bits, in a tree.
pub(crate) fn none(builder: &mut Builder, size: Size, bits: &[Wire]) -> Wire {
    let mut factors: Vec<Sum> = bits.iter().map(|bit| Sum::of([bit.all()]).not()).collect();
    while factors.len() > 1 {
        factors = factors
            .chunks(2)
            .map(|pair| match *pair {
                [x, y] => Sum::of([builder.and(size, x, y, Sum::default()).all()]),
                _ => pair[0],
            })
            .collect();
    }
    builder.xor(size, factors[0])
}

/// From `seed` (a bit in lane 0) and the bits of an index, lowest first, to `words` words of `lanes` lanes that hold the seed at
/// word `index mod 2^a`, lane `⌊index/2^a⌋`, a = ⌈log2 words⌉, and 0 elsewhere. One AND for each place but the first.
///
/// Whatever holds the seed for the bits of the index so far is split by the next one, bit b of weight m: what was at place e
/// stays there if b is 0 and goes to e + m if b is 1. Where e + m does not exist, b is known to be 0.
pub(crate) fn one_hot(builder: &mut Builder, (words, lanes): Size, seed: Wire, index: &[Wire]) -> Wire {
    let word_bits = words.next_power_of_two().trailing_zeros() as usize;
    let mut hot = seed;
    let mut reached = 1;
    for bit in &index[word_bits..] {
        let more = reached.min(lanes - reached);
        let there = builder.and((1, more), Sum::of([hot.all()]), Sum::of([bit.read(Read::Spread)]), Sum::default());
        hot = builder.xor((1, reached + more), Sum::of([hot.all(), there.all(), there.read(Read::Up(reached))]));
        reached += more;
    }
    let mut reached = 1;
    for bit in &index[..word_bits] {
        let more = reached.min(words - reached);
        let split = builder.register(reached + more, lanes);
        let factors = (Sum::of([hot.all()]), Sum::of([bit.read(Read::Spread)]));
        builder.write(split, reached, more, Some(factors), Sum::default());
        let there = split.read(Read::From(reached as u32));
        builder.write(split, 0, more, None, Sum::of([hot.all(), there]));
        if more < reached {
            builder.write(split, more, reached - more, None, Sum::of([hot.read(Read::From(more as u32))]));
        }
        hot = split;
        reached += more;
    }
    hot
}
