//! Privacy by enumeration, on searches so small that every draw can be played.
//!
//! What is enumerated: for one row of two bits *everything* (the user's shares, all three servers'
//! draws). For larger searches, given what a server drew itself and was sent ahead (from some
//! seeds), everything that the two others draw: then the server receives every possible transcript
//! exactly once, whatever the values are. Without any one word of the zero-sharings some server's
//! transcripts depend on the values. Searches of several words of rows are too large to enumerate:
//! there, each bit of a peer's randomness is shown to flip its own place in what arrives, and
//! nothing before it, which says the same.

use crate::simulate::{self, FrameInTransit};
use crate::{Circuit, Party, PartyRandomness, Peer, SealedParams, combine, share};
use ifonly_algebra::random::{ExhaustiveRandom, RandomSource, SeededRandom};
use std::collections::HashMap;
use std::sync::Arc;

/// Who drew some words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Draw {
    /// The masks of server n's values.
    Masks(usize),
    /// r_n.
    Zero(usize),
}

/// The order in which three parties in one thread draw.
const ORDER: [Draw; 6] = [Draw::Masks(1), Draw::Masks(2), Draw::Masks(3), Draw::Zero(1), Draw::Zero(2), Draw::Zero(3)];

/// Plays all values of the lanes that are in use of the words it is asked to; the others depend on
/// a seed alone.
struct Script<'a> {
    lanes: u32,
    zero_lanes: &'a [u32],
    all: &'a mut ExhaustiveRandom,
    seed: u64,
    /// Whether this word of this draw is played.
    played: &'a dyn Fn(Draw, usize) -> bool,
    next: usize,
}

impl RandomSource for Script<'_> {
    fn fill(&mut self, bytes: &mut [u8]) {
        let draw = ORDER[self.next];
        self.next += 1;
        let zero = matches!(draw, Draw::Zero(_));
        assert!(!zero || 8 * self.zero_lanes.len() == bytes.len(), "all that a party draws comes in one piece");
        for (place, word) in bytes.chunks_mut(8).enumerate() {
            let lanes = if zero { self.zero_lanes[place] } else { self.lanes };
            let value = if (self.played)(draw, place) {
                self.all.below(1 << lanes)
            } else {
                let mixed = (self.seed << 32 | (self.next << 16 | place) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 17
            };
            word.copy_from_slice(&value.to_le_bytes());
        }
    }
}

/// How many lanes of each word of the zero-sharings are used.
fn zero_lanes(circuit: &Circuit) -> Vec<u32> {
    let gates = circuit.gates.stages.iter().flat_map(|stage| &stage.ands);
    let mut lanes: Vec<u32> = gates.flat_map(|gate| std::iter::repeat_n(gate.lanes, gate.words)).collect();
    for _ in 0..circuit.shape.top {
        lanes.push(circuit.shape.cost_bits as u32 + 1);
        let mut rest = circuit.shape.record_bytes;
        while rest > 0 {
            lanes.push(8 * rest.min(8) as u32);
            rest = rest.saturating_sub(8);
        }
    }
    lanes
}

/// Words of zero-sharings for ANDs; those of answers come after them.
fn and_words(circuit: &Circuit) -> usize {
    circuit.zero_words() - circuit.shape.top * circuit.shape.answer_words()
}

/// The words of a frame.
fn words(frame: &[u8]) -> impl Iterator<Item = u64> {
    frame[crate::HEADER_BYTES..].as_chunks().0.iter().map(|word| u64::from_le_bytes(*word))
}

/// What one server receives, as one number: the words of all payloads, each in as many bits as
/// there are lanes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct View(u128);

impl View {
    fn add(&mut self, lanes: u32, frame: &[u8]) {
        for word in words(frame) {
            assert!(self.0.leading_zeros() > lanes && word >> lanes == 0);
            self.0 = self.0 << lanes | u128::from(word);
        }
    }
}

/// Runs a session on shares; gives what each server received in steps, the random words that were
/// sent ahead, and the parties.
fn session(
    circuit: &Arc<Circuit>,
    shares: &[Vec<u64>; 3],
    random: &mut dyn RandomSource,
    left_out: Option<usize>,
) -> ([View; 3], [Vec<u64>; 3], [Party; 3]) {
    let mut parties = [1, 2, 3].map(|n| {
        let mut party = Party::new(circuit, n, PartyRandomness::Drawn, |row| shares[n - 1][row], random).unwrap();
        left_out.into_iter().for_each(|word| party.leave_out(word));
        party
    });
    let mut views = [View::default(); 3];
    let mut ahead = [const { vec![] }; 3];
    let lanes = circuit.shape.lanes();
    let results = simulate::run(&mut parties, random, |letter: FrameInTransit| {
        let to = letter.to.of(letter.from) - 1;
        if letter.frame[..4] == [0; 4] {
            ahead[to].extend(words(&letter.frame));
        } else {
            views[to].add(lanes, &letter.frame);
        }
        vec![letter]
    });
    assert_eq!(results, [Ok(()), Ok(()), Ok(())]);
    (views, ahead, parties)
}

#[test]
fn any_two_of_the_users_shares_are_uniform() {
    let mut tables = [[0, 0], [1, 3], [2, 1], [3, 3]].map(|table: [u64; 2]| {
        let mut pairs = [(); 3].map(|()| HashMap::new());
        let mut all = ExhaustiveRandom::default();
        while all.next_run() {
            let shares = share(2, &table, &mut all);
            for (n, pairs) in pairs.iter_mut().enumerate() {
                *pairs.entry([shares[n].clone(), shares[(n + 1) % 3].clone()].concat()).or_insert(0) += 1;
            }
        }
        pairs
    });
    assert!(tables[0].iter().all(|pairs| pairs.len() == 256));
    assert!(tables.windows(2).all(|pair| pair[0] == pair[1]));
    tables[1][0].clear();
    assert!(tables[0] != tables[1], "the comparison can fail");
}

/// One row of two bits. How often each server sees each view, its share of the values and what was
/// sent ahead included, over all draws of everybody.
fn all_views(value: u64) -> [HashMap<u128, u32>; 3] {
    let circuit = circuit(1, 2, 1, 1);
    let ands = and_words(&circuit);
    let zero_lanes = zero_lanes(&circuit);
    let played = |draw: Draw, word: usize| matches!(draw, Draw::Masks(_)) || word < ands;
    let mut counts = [(); 3].map(|()| HashMap::new());
    let mut all = ExhaustiveRandom::default();
    while all.next_run() {
        let shares = share(2, &[value], &mut all);
        let mut script = Script { lanes: 1, zero_lanes: &zero_lanes, all: &mut all, seed: 1, played: &played, next: 0 };
        let (views, ahead, _) = session(&circuit, &shares, &mut script, None);
        for n in 0..3 {
            // One bit of each word that was sent ahead is in use; the word for the answer is not
            // played.
            let ahead = ahead[n].iter().take(ands).fold(0, |sum, word| sum << 1 | u128::from(word & 1));
            *counts[n].entry((views[n].0 << ands | ahead) << 2 | u128::from(shares[n][0])).or_insert(0) += 1;
        }
    }
    counts
}

#[test]
fn a_server_sees_the_same_distribution_whatever_the_values_are() {
    let counts = all_views(0);
    // Its share (2 bits), two inputs (4), two ANDs and their random bits (4): every view occurs,
    // each equally often.
    for counts in &counts {
        assert_eq!(counts.len(), 1 << 10);
        assert!(counts.values().all(|&count| count == 1 << (16 - 10)));
    }
    for value in 1..4 {
        assert!(all_views(value) == counts, "{value}");
    }
}

/// How often a server receives which transcript while all that the two others draw is played; what
/// it draws itself and is sent ahead depends on the seed.
fn received(
    circuit: &Arc<Circuit>,
    server: usize,
    shares: &[Vec<u64>; 3],
    seed: u64,
    left_out: Option<usize>,
) -> HashMap<View, u64> {
    let ands = and_words(circuit);
    let zero_lanes = zero_lanes(circuit);
    let played = |draw, word| match draw {
        Draw::Masks(n) => n != server,
        // r of the previous server is in the view already; r of the server's own is its own.
        Draw::Zero(n) => n == Peer::Next.of(server) && word < ands,
    };
    let lanes = circuit.shape.lanes();
    let mut seen = HashMap::new();
    let mut all = ExhaustiveRandom::default();
    while all.next_run() {
        let mut script = Script { lanes, zero_lanes: &zero_lanes, all: &mut all, seed, played: &played, next: 0 };
        let (views, ..) = session(circuit, shares, &mut script, left_out);
        *seen.entry(views[server - 1]).or_insert(0) += 1;
    }
    seen
}

/// Whether a server receives every possible transcript exactly once.
fn receives_everything_once(circuit: &Arc<Circuit>, server: usize, values: &[u64], seed: u64) -> bool {
    let shares = share(circuit.shape.bits, values, &mut SeededRandom::new(seed));
    let ands: u32 = zero_lanes(circuit)[..and_words(circuit)].iter().sum();
    let transcripts = 1 << (2 * circuit.shape.rows * circuit.shape.bits + ands as usize);
    let seen = received(circuit, server, &shares, seed, None);
    seen.len() == transcripts && seen.values().all(|&count| count == 1)
}

fn circuit(rows: usize, bits: usize, cost_bits: usize, top: usize) -> Arc<Circuit> {
    let shape = SealedParams::new(rows, bits, cost_bits).unwrap().top(top).unwrap();
    Arc::new(Circuit::new(&shape))
}

#[test]
fn given_what_it_drew_a_server_receives_every_transcript_once() {
    for seed in 0..32 {
        for values in [[0, 0], [0, 1], [1, 0], [1, 1]] {
            for server in 1..=3 {
                assert!(receives_everything_once(&circuit(2, 1, 0, 1), server, &values, seed), "{server}, {values:?}");
            }
        }
    }
    // Two ranks; three rows, one of which has no neighbour; two rows with costs; one row with
    // costs.
    let searches: [(Arc<Circuit>, &[&[u64]]); 4] = [
        (circuit(2, 1, 0, 2), &[&[0, 0], &[1, 0], &[1, 1]]),
        (circuit(3, 1, 0, 1), &[&[0, 1, 0]]),
        (circuit(2, 2, 1, 1), &[&[1, 3]]),
        (circuit(1, 3, 2, 1), &[&[0], &[3], &[5]]),
    ];
    for (circuit, secrets) in searches {
        for (seed, values) in secrets.iter().enumerate() {
            // The largest for one server only: the three differ in nothing but where the constant 1
            // is.
            for server in 1..=if circuit.shape.cost_bits == 1 { 1 } else { 3 } {
                assert!(receives_everything_once(&circuit, server, values, seed as u64), "{server}, {values:?}");
            }
        }
    }
}

#[test]
fn every_zero_sharing_of_an_and_is_needed() {
    // Without it some server, whose own share stays the same, receives something that depends on
    // the values.
    let circuits = [circuit(2, 1, 0, 1), circuit(2, 1, 0, 2), circuit(1, 3, 2, 1)];
    for circuit in circuits {
        let tells = |server: usize, seed: u64, word: Option<usize>| {
            let bits = circuit.shape.bits;
            let seen = |other: u64| {
                let mut shares = share(bits, &vec![0; circuit.shape.rows], &mut SeededRandom::new(seed));
                // Adding to another server's share changes the values, and nothing that this server
                // has.
                for (row, entry) in shares[server % 3].iter_mut().enumerate() {
                    *entry = (*entry + (other >> (row * bits))) % (1 << bits);
                }
                received(&circuit, server, &shares, seed, word)
            };
            let usual = seen(0);
            (1..1 << (circuit.shape.rows * bits)).any(|other| seen(other) != usual)
        };
        assert!((1..=3).all(|server| !tells(server, 0, None)));
        for word in 0..and_words(&circuit) {
            assert!((0..8).any(|seed| (1..=3).any(|server| tells(server, seed, Some(word)))), "word {word}");
        }
    }
}

#[test]
fn in_searches_of_several_words_each_random_bit_of_a_peer_flips_its_own_place_and_nothing_before_it() {
    // Values so wide that blocks of bits are joined, from the second level on.
    let circuit = circuit(130, 5, 1, 2);
    let lanes = zero_lanes(&circuit);
    let mut draw = SeededRandom::new(5);
    let values: Vec<u64> = (0..130).map(|_| draw.below(32)).collect();
    let shares = share(5, &values, &mut draw);
    let transcript = |flip: Option<(usize, u32)>, server: usize| {
        let mut seen: Vec<u64> = vec![];
        let mut random = Flip { source: SeededRandom::new(6), server: Peer::Next.of(server), flip, next: 0 };
        let mut parties = [1, 2, 3]
            .map(|n| Party::new(&circuit, n, PartyRandomness::Drawn, |row| shares[n - 1][row], &mut random).unwrap());
        let results = simulate::run(&mut parties, &mut random, |letter| {
            // z of the next server, which comes after the input.
            if letter.to == Peer::Previous && letter.from == Peer::Next.of(server) && letter.frame[0] > 1 {
                seen.extend(words(&letter.frame));
            }
            vec![letter]
        });
        assert!(results.iter().all(Result::is_ok));
        seen
    };
    for server in 1..=3 {
        let usual = transcript(None, server);
        assert_eq!(usual.len(), and_words(&circuit));
        for (place, &lanes) in lanes[..usual.len()].iter().enumerate() {
            let lane = draw.below(u64::from(lanes)) as u32;
            let flipped = transcript(Some((place, lane)), server);
            assert_eq!(usual[..place], flipped[..place]);
            assert_eq!(usual[place] ^ flipped[place], 1 << lane, "word {place}");
        }
    }
}

/// Seeded, with one bit of one server's zero-sharings flipped.
struct Flip {
    source: SeededRandom,
    server: usize,
    flip: Option<(usize, u32)>,
    next: usize,
}

impl RandomSource for Flip {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.source.fill(bytes);
        if let Some((word, lane)) = self.flip
            && ORDER[self.next] == Draw::Zero(self.server)
        {
            bytes[8 * word + lane as usize / 8] ^= 1 << (lane % 8);
        }
        self.next += 1;
    }
}

/// How often the user receives which answers while the re-sharing of servers 2 and 3 is played,
/// from word `first` of it on; everything else depends on a seed.
fn answers_seen(
    circuit: &Arc<Circuit>,
    values: &[u64],
    seed: u64,
    first: usize,
    left_out: Option<usize>,
) -> HashMap<[Vec<u8>; 3], u32> {
    let shares = share(circuit.shape.bits, values, &mut SeededRandom::new(seed));
    let zero_lanes = zero_lanes(circuit);
    let lanes = circuit.shape.lanes();
    let played = |draw, word: usize| matches!(draw, Draw::Zero(2 | 3)) && word >= first;
    let mut seen = HashMap::new();
    let mut all = ExhaustiveRandom::default();
    while all.next_run() {
        let mut script = Script { lanes, zero_lanes: &zero_lanes, all: &mut all, seed, played: &played, next: 0 };
        let (.., parties) = session(circuit, &shares, &mut script, left_out);
        let answers = parties.map(|party| {
            let sums: Vec<Vec<u8>> = (0..circuit.shape.top)
                .map(|rank| {
                    let bits = party.selection(rank).unwrap()[0];
                    // Records 01, 02, 04, …: the sum names its rows.
                    vec![bits; circuit.shape.record_bytes]
                })
                .collect();
            party.answer(&sums).unwrap()
        });
        *seen.entry(answers).or_insert(0) += 1;
    }
    seen
}

/// Whether the answers are uniform among those that say the same.
fn only_the_result_is_seen(circuit: &Arc<Circuit>, first: usize, seen: &HashMap<[Vec<u8>; 3], u32>) -> bool {
    let lanes: u32 = zero_lanes(circuit)[first..].iter().sum();
    let says = |[a, b, c]: &[Vec<u8>; 3]| combine(&circuit.shape, [a, b, c]).unwrap();
    let one = seen.keys().next().map(says);
    seen.len() == 1 << (2 * lanes)
        && seen.values().all(|&count| count == 1)
        && seen.keys().all(|key| Some(says(key)) == one)
}

#[test]
fn the_user_receives_the_result_and_uniform_bits() {
    let costs = circuit(2, 4, 2, 1);
    let ranks = circuit(3, 1, 0, 2);
    for (circuit, secrets) in
        [(&costs, [[1, 2, 0], [3, 3, 0], [7, 15, 0]]), (&ranks, [[0, 0, 1], [1, 1, 1], [0, 1, 0]])]
    {
        let first = and_words(circuit);
        for values in secrets {
            for seed in 0..3 {
                let seen = answers_seen(circuit, &values[..circuit.shape.rows], seed, first, None);
                assert!(only_the_result_is_seen(circuit, first, &seen), "{values:?}");
            }
        }
        for word in first..circuit.zero_words() {
            let seen = answers_seen(circuit, &[0; 3][..circuit.shape.rows], 0, first, Some(word));
            assert!(!only_the_result_is_seen(circuit, first, &seen), "leaving out word {word} must show");
        }
    }
}

#[test]
fn the_record_is_re_shared_too() {
    // Servers' sums of records, which must not reach the user: two rows, whose records are 01 and
    // 02.
    let shape = SealedParams::new(2, 1, 0).unwrap().record_bytes(1).unwrap();
    let circuit = Arc::new(Circuit::new(&shape));
    let record = circuit.zero_words() - 1;
    assert!(only_the_result_is_seen(&circuit, record, &answers_seen(&circuit, &[1, 0], 0, record, None)));
    let seen = answers_seen(&circuit, &[1, 0], 0, circuit.zero_words(), Some(record));
    let again = answers_seen(&circuit, &[1, 0], 1, circuit.zero_words(), Some(record));
    let sums = |seen: &HashMap<[Vec<u8>; 3], u32>| {
        let answers: Vec<_> = seen.keys().cloned().collect();
        answers[0].clone().map(|answer| answer[8])
    };
    // Without it the user gets what the servers summed: components of the one-hot bits, and no byte
    // of noise.
    for sums in [sums(&seen), sums(&again)] {
        assert_eq!(sums[0] ^ sums[1] ^ sums[2], 2);
        assert!(sums.iter().all(|sum| *sum < 4));
    }
}
