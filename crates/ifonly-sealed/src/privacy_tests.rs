//! Privacy by enumeration, on searches so small that every draw can be played.
//!
//! What is enumerated: for two rows of one bit *everything* (the user's shares, all three servers' draws). For larger searches,
//! given what a server drew itself and was sent ahead (drawn once, from a seed), everything that the two others draw: then the
//! server receives every possible transcript exactly once, whatever the values are. Leaving out any word of the
//! zero-sharings breaks that. Searches of several words of rows are too large to enumerate: there, each bit of a peer's
//! randomness is shown to flip its own place in what arrives, and nothing before it, which says the same.

use crate::simulate::{self, Letter};
use crate::{Circuit, Party, Peer, Randomness, Shape, combine, share};
use ifonly_core::random::{Exhaustive, Random, SeededRandom};
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

/// Plays all values of the lanes that are in use of the words it is asked to, and repeats the others from a seed.
struct Script<'a> {
    circuit: &'a Circuit,
    all: &'a mut Exhaustive,
    fixed: SeededRandom,
    /// Whether this word of this draw is played.
    played: &'a dyn Fn(Draw, usize) -> bool,
    next: usize,
}

impl<'a> Script<'a> {
    fn new(circuit: &'a Circuit, all: &'a mut Exhaustive, seed: u64, played: &'a dyn Fn(Draw, usize) -> bool) -> Self {
        Script { circuit, all, fixed: SeededRandom::new(seed), played, next: 0 }
    }
}

impl Random for Script<'_> {
    fn fill(&mut self, bytes: &mut [u8]) {
        let draw = ORDER[self.next];
        self.next += 1;
        self.fixed.fill(bytes);
        let lanes = match draw {
            Draw::Masks(_) => vec![self.circuit.shape.lanes(); bytes.len() / 8],
            Draw::Zero(_) => zero_lanes(self.circuit),
        };
        assert_eq!(8 * lanes.len(), bytes.len(), "all that a party draws comes in one piece");
        for (place, (word, lanes)) in bytes.chunks_mut(8).zip(lanes).enumerate() {
            if (self.played)(draw, place) {
                word.copy_from_slice(&self.all.below(1 << lanes).to_le_bytes());
            }
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

/// What one server receives, as one number: the words of all payloads, each in as many bits as there are lanes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct View(u128);

impl View {
    fn add(&mut self, lanes: u32, frame: &[u8]) {
        for word in frame[crate::HEADER_BYTES..].chunks(8) {
            let word = u64::from_le_bytes(word.try_into().unwrap());
            assert!(self.0.leading_zeros() > lanes && word >> lanes == 0);
            self.0 = self.0 << lanes | u128::from(word);
        }
    }
}

/// Runs a session on shares; gives what each server received in steps, random bits ahead of use apart, and the parties.
fn session(
    circuit: &Arc<Circuit>,
    shares: &[Vec<u64>; 3],
    random: &mut dyn Random,
    left_out: Option<usize>,
) -> ([View; 3], [Party; 3]) {
    let mut parties = [1, 2, 3].map(|n| {
        let mut party = Party::new(circuit, n, Randomness::Drawn, |row| shares[n - 1][row], random).unwrap();
        left_out.into_iter().for_each(|word| party.leave_out(word));
        party
    });
    let mut views = [View::default(); 3];
    let lanes = circuit.shape.lanes();
    let results = simulate::run(&mut parties, random, |letter: Letter| {
        if letter.frame[..4] != [0; 4] {
            views[letter.to.of(letter.from) - 1].add(lanes, &letter.frame);
        }
        vec![letter]
    });
    assert_eq!(results, [Ok(()), Ok(()), Ok(())]);
    (views, parties)
}

#[test]
fn any_two_of_the_users_shares_are_uniform() {
    let mut tables = [[0, 0], [1, 3], [2, 1], [3, 3]].map(|table: [u64; 2]| {
        let mut pairs = [(); 3].map(|()| HashMap::new());
        let mut all = Exhaustive::default();
        while all.turn() {
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

/// Two rows of one bit. How often each server sees each view (its share of the values included), over all draws of everybody.
fn all_views(values: [u64; 2]) -> [HashMap<(View, Vec<u64>, u128), u32>; 3] {
    let circuit = Arc::new(Circuit::new(&Shape::new(2, 1, 0).unwrap()));
    let ands = and_words(&circuit);
    let mut counts = [(); 3].map(|()| HashMap::new());
    let mut all = Exhaustive::default();
    while all.turn() {
        let shares = share(1, &values, &mut all);
        let mut sent_ahead = [0u128; 3];
        let played = |draw: Draw, word: usize| matches!(draw, Draw::Masks(_)) || word < ands;
        let mut script = Script::new(&circuit, &mut all, 1, &played);
        let (views, _) = {
            let mut parties = [1, 2, 3].map(|n| {
                Party::new(&circuit, n, Randomness::Drawn, |row| shares[n - 1][row], &mut script).unwrap()
            });
            let mut views = [View::default(); 3];
            let results = simulate::run(&mut parties, &mut script, |letter| {
                let to = letter.to.of(letter.from) - 1;
                if letter.frame[..4] == [0; 4] {
                    // One bit of each word is in use.
                    let words = letter.frame[8..].chunks(8).take(ands);
                    sent_ahead[to] = words.fold(1, |sum, word| sum << 1 | u128::from(word[0] & 1));
                } else {
                    views[to].add(2, &letter.frame);
                }
                vec![letter]
            });
            assert!(results.iter().all(Result::is_ok));
            (views, parties)
        };
        for n in 0..3 {
            *counts[n].entry((views[n], shares[n].clone(), sent_ahead[n])).or_insert(0) += 1;
        }
    }
    counts
}

#[test]
fn a_server_sees_the_same_distribution_whatever_the_values_are() {
    let counts = all_views([0, 0]);
    // Its share (2 bits), two inputs (4), three ANDs and their random bits (6): every view occurs, each equally often.
    for counts in &counts {
        assert_eq!(counts.len(), 1 << 12);
        assert!(counts.values().all(|&count| count == 1 << (19 - 12)));
    }
    for values in [[0, 1], [1, 0], [1, 1]] {
        assert!(all_views(values) == counts, "{values:?}");
    }
}

/// Whether a server receives every possible transcript exactly once while the two others' draws are played.
fn receives_everything_once(circuit: &Arc<Circuit>, server: usize, values: &[u64], seed: u64, left_out: Option<usize>) -> bool {
    let shares = share(circuit.shape.bits, values, &mut SeededRandom::new(seed));
    let (next, previous) = (Peer::Next.of(server), Peer::Previous.of(server));
    let ands = and_words(circuit);
    let played = |draw, word| match draw {
        Draw::Masks(n) => n == next || n == previous,
        // r of the previous server is in the view already; r of the server's own is its own.
        Draw::Zero(n) => n == next && word < ands,
    };
    let received: u64 =
        2 * circuit.shape.rows as u64 * circuit.shape.bits as u64 + u64::from(zero_lanes(circuit)[..ands].iter().sum::<u32>());
    let mut seen = std::collections::HashSet::new();
    let mut all = Exhaustive::default();
    let mut runs = 0u64;
    while all.turn() {
        let mut script = Script::new(circuit, &mut all, seed, &played);
        let (views, _) = session(circuit, &shares, &mut script, left_out);
        runs += 1;
        if !seen.insert(views[server - 1]) {
            return false;
        }
    }
    assert_eq!(runs, 1 << received, "as many draws as transcripts");
    true
}

fn circuit(rows: usize, bits: usize, cost_bits: usize, top: usize, ripples: usize) -> Arc<Circuit> {
    let shape = Shape::new(rows, bits, cost_bits).unwrap().top(top).unwrap().ripple_levels(ripples);
    Arc::new(Circuit::new(&shape))
}

#[test]
fn given_what_it_drew_a_server_receives_every_transcript_once() {
    // Three rows, one of which has no neighbour; two rows, one after another; a cost.
    let searches: [(Arc<Circuit>, &[&[u64]]); 3] = [
        (circuit(3, 1, 0, 1, 1), &[&[0, 1, 0], &[1, 1, 1]]),
        (circuit(2, 1, 0, 2, 0), &[&[0, 0], &[1, 0], &[1, 1], &[0, 1]]),
        (circuit(1, 3, 2, 1, 0), &[&[0], &[3], &[5]]),
    ];
    for (circuit, secrets) in searches {
        for (seed, values) in secrets.iter().enumerate() {
            for server in 1..=3 {
                assert!(receives_everything_once(&circuit, server, values, seed as u64, None), "{server}, {values:?}");
            }
        }
    }
    let circuit = circuit(2, 2, 1, 1, 0);
    for (server, values) in [(1, [0, 1]), (2, [1, 1]), (3, [3, 2])] {
        assert!(receives_everything_once(&circuit, server, &values, 7, None), "{server}, {values:?}");
    }
}

#[test]
fn every_zero_sharing_of_an_and_is_needed() {
    for circuit in [circuit(2, 2, 1, 1, 0), circuit(2, 2, 1, 1, 1), circuit(2, 1, 0, 2, 0)] {
        for word in 0..and_words(&circuit) {
            for server in 1..=3 {
                let values = vec![0; 2];
                assert!(!receives_everything_once(&circuit, server, &values, 3, Some(word)), "{word} at {server}");
            }
        }
    }
}

#[test]
fn in_searches_of_several_words_each_random_bit_of_a_peer_flips_its_own_place_and_nothing_before_it() {
    let circuit = circuit(130, 3, 1, 2, 1);
    let lanes = zero_lanes(&circuit);
    let mut draw = SeededRandom::new(5);
    let values: Vec<u64> = (0..130).map(|_| draw.below(8)).collect();
    let shares = share(3, &values, &mut draw);
    let transcript = |flip: Option<(usize, u32)>, server: usize| {
        let mut words: Vec<u64> = vec![];
        let mut random = Flip { source: SeededRandom::new(6), server: Peer::Next.of(server), flip, next: 0 };
        let mut parties =
            [1, 2, 3].map(|n| Party::new(&circuit, n, Randomness::Drawn, |row| shares[n - 1][row], &mut random).unwrap());
        let results = simulate::run(&mut parties, &mut random, |letter| {
            // z of the next server, which comes after the input.
            if letter.to == Peer::Previous && letter.from == Peer::Next.of(server) && letter.frame[0] > 1 {
                words.extend(letter.frame[8..].chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())));
            }
            vec![letter]
        });
        assert!(results.iter().all(Result::is_ok));
        words
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

impl Random for Flip {
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

/// How often the user receives which answers while the re-sharing of servers 2 and 3 is played, everything else from a seed.
fn answers_seen(circuit: &Arc<Circuit>, values: &[u64], seed: u64, left_out: Option<usize>) -> HashMap<[Vec<u8>; 3], u32> {
    let shares = share(circuit.shape.bits, values, &mut SeededRandom::new(seed));
    let ands = and_words(circuit);
    let played = |draw, word: usize| matches!(draw, Draw::Zero(2 | 3)) && word >= ands;
    let mut seen = HashMap::new();
    let mut all = Exhaustive::default();
    while all.turn() {
        let mut script = Script::new(circuit, &mut all, seed, &played);
        let (_, parties) = session(circuit, &shares, &mut script, left_out);
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
fn only_the_result_is_seen(circuit: &Arc<Circuit>, seen: &HashMap<[Vec<u8>; 3], u32>) -> bool {
    let lanes: u32 = zero_lanes(circuit)[and_words(circuit)..].iter().sum();
    let says = |[a, b, c]: &[Vec<u8>; 3]| combine(&circuit.shape, [a, b, c]).unwrap();
    let one = seen.keys().next().map(says);
    seen.len() == 1 << (2 * lanes) && seen.values().all(|&count| count == 1) && seen.keys().all(|key| Some(says(key)) == one)
}

#[test]
fn the_user_receives_the_result_and_uniform_bits() {
    let costs = circuit(2, 4, 2, 1, 0);
    let ranks = circuit(3, 1, 0, 2, 0);
    for (circuit, secrets) in [(&costs, [[1, 2, 0], [3, 3, 0], [7, 15, 0]]), (&ranks, [[0, 0, 1], [1, 1, 1], [0, 1, 0]])] {
        for values in secrets {
            for seed in 0..3 {
                let seen = answers_seen(circuit, &values[..circuit.shape.rows], seed, None);
                assert!(only_the_result_is_seen(circuit, &seen), "{values:?}");
            }
        }
        for word in and_words(circuit)..circuit.zero_words() {
            let seen = answers_seen(circuit, &[0; 3][..circuit.shape.rows], 0, Some(word));
            assert!(!only_the_result_is_seen(circuit, &seen), "leaving out word {word} must show");
        }
    }
}

#[test]
fn the_record_is_re_shared_too() {
    // Servers' sums of records, which must not reach the user: two rows, whose records are 01 and 02.
    let shape = Shape::new(2, 1, 0).unwrap().record_bytes(1).unwrap();
    let circuit = Arc::new(Circuit::new(&shape));
    assert!(only_the_result_is_seen(&circuit, &answers_seen(&circuit, &[1, 0], 0, None)));
    let record = circuit.zero_words() - 1;
    assert!(!only_the_result_is_seen(&circuit, &answers_seen(&circuit, &[1, 0], 0, Some(record))));
}
