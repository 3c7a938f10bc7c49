//! Proof of privacy by enumeration, on searches small enough to run with every random value.
//!
//! - One row of two bits: enumerates *all* randomness, that of the client and of all three servers.
//! - Larger searches: fixes the random values of one server and the random words it received (from
//!   some seeds), and enumerates those of its two peers. The server then receives every possible
//!   transcript exactly once, whatever the values are. If any word of the zero sharings is omitted,
//!   the transcripts of some server depend on the values.
//! - Searches with several words of rows are too large to enumerate. There, each bit of a peer's
//!   randomness flips its own bit of the received messages and no earlier bit. This map is
//!   triangular, hence a bijection, so the messages are uniform.

use crate::simulate::{self, FrameInTransit};
use crate::{Circuit, Party, PartyRandomness, Peer, SealedParams, combine, share};
use ifonly_algebra::random::{ExhaustiveRandom, RandomSource, SeededRandom};
use std::collections::HashMap;
use std::sync::Arc;

/// What the words of one draw are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Draw {
    /// The input masks of server n.
    Masks(usize),
    /// r_n.
    Zero(usize),
}

/// The order of draws if three parties run in one thread.
const ORDER: [Draw; 6] = [Draw::Masks(1), Draw::Masks(2), Draw::Masks(3), Draw::Zero(1), Draw::Zero(2), Draw::Zero(3)];

/// Enumerates all values of the used lanes of the words that `enumerated` selects. The other words
/// depend on a seed only.
struct EnumeratedRandom<'a> {
    lanes: u32,
    zero_lanes: &'a [u32],
    all: &'a mut ExhaustiveRandom,
    seed: u64,
    /// Whether to enumerate this word of this draw.
    enumerated: &'a dyn Fn(Draw, usize) -> bool,
    next: usize,
}

impl RandomSource for EnumeratedRandom<'_> {
    fn fill(&mut self, bytes: &mut [u8]) {
        let draw = ORDER[self.next];
        self.next += 1;
        let zero = matches!(draw, Draw::Zero(_));
        assert!(!zero || 8 * self.zero_lanes.len() == bytes.len(), "a party draws all its random words at once");
        for (position, word) in bytes.chunks_mut(8).enumerate() {
            let lanes = if zero { self.zero_lanes[position] } else { self.lanes };
            let value = if (self.enumerated)(draw, position) {
                self.all.below(1 << lanes)
            } else {
                let mixed = (self.seed << 32 | (self.next << 16 | position) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 17
            };
            word.copy_from_slice(&value.to_le_bytes());
        }
    }
}

/// Number of used lanes of each word of the zero sharings.
fn zero_lanes(circuit: &Circuit) -> Vec<u32> {
    let gates = circuit.program.rounds.iter().flat_map(|round| &round.ands);
    let mut lanes: Vec<u32> = gates.flat_map(|gate| std::iter::repeat_n(gate.lanes, gate.words)).collect();
    for _ in 0..circuit.params.top {
        lanes.push(circuit.params.cost_bits as u32 + 1);
        let mut rest = circuit.params.record_bytes;
        while rest > 0 {
            lanes.push(8 * rest.min(8) as u32);
            rest = rest.saturating_sub(8);
        }
    }
    lanes
}

/// Words of zero sharing for AND gates; those of the answers follow them.
fn and_words(circuit: &Circuit) -> usize {
    circuit.zero_words() - circuit.params.top * circuit.params.answer_words()
}

/// The words of a frame.
fn words(frame: &[u8]) -> impl Iterator<Item = u64> {
    frame[crate::HEADER_BYTES..].as_chunks().0.iter().map(|word| u64::from_le_bytes(*word))
}

/// All payloads that one server receives, as one number. Each word takes as many bits as there are
/// lanes.
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

/// Runs a session on shares. Returns for each server the received payloads of steps 1 and higher
/// and the received random words, and the parties.
fn session(
    circuit: &Arc<Circuit>,
    shares: &[Vec<u64>; 3],
    random: &mut dyn RandomSource,
    omitted: Option<usize>,
) -> ([View; 3], [Vec<u64>; 3], [Party; 3]) {
    let mut parties = [1, 2, 3].map(|n| {
        let mut party = Party::new(circuit, n, PartyRandomness::Drawn, |row| shares[n - 1][row], random).unwrap();
        omitted.into_iter().for_each(|word| party.omit_zero_word(word));
        party
    });
    let mut views = [View::default(); 3];
    let mut random_words = [const { vec![] }; 3];
    let lanes = circuit.params.lanes();
    let results = simulate::run(&mut parties, random, |frame: FrameInTransit| {
        let to = frame.to.of(frame.from) - 1;
        if frame.bytes[..4] == [0; 4] {
            random_words[to].extend(words(&frame.bytes));
        } else {
            views[to].add(lanes, &frame.bytes);
        }
        vec![frame]
    });
    assert_eq!(results, [Ok(()), Ok(()), Ok(())]);
    (views, random_words, parties)
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

/// One row of two bits. Counts how often each server has each view over all random values of client
/// and servers. The view includes the server's share and the random words it received.
fn all_views(value: u64) -> [HashMap<u128, u32>; 3] {
    let circuit = circuit(1, 2, 1, 1);
    let ands = and_words(&circuit);
    let zero_lanes = zero_lanes(&circuit);
    let enumerated = |draw: Draw, word: usize| matches!(draw, Draw::Masks(_)) || word < ands;
    let mut counts = [(); 3].map(|()| HashMap::new());
    let mut all = ExhaustiveRandom::default();
    while all.next_run() {
        let shares = share(2, &[value], &mut all);
        let mut source = EnumeratedRandom {
            lanes: 1,
            zero_lanes: &zero_lanes,
            all: &mut all,
            seed: 1,
            enumerated: &enumerated,
            next: 0,
        };
        let (views, random_words, _) = session(&circuit, &shares, &mut source, None);
        for n in 0..3 {
            // One bit of each received random word is used. The word for the answer is not
            // enumerated.
            let random_bits = random_words[n].iter().take(ands).fold(0, |sum, word| sum << 1 | u128::from(word & 1));
            *counts[n].entry((views[n].0 << ands | random_bits) << 2 | u128::from(shares[n][0])).or_insert(0) += 1;
        }
    }
    counts
}

#[test]
fn a_server_sees_the_same_distribution_whatever_the_values_are() {
    let counts = all_views(0);
    // A view has 10 bits: the share (2), two inputs (4), two ANDs and their random bits (4). Every
    // view occurs equally often.
    for counts in &counts {
        assert_eq!(counts.len(), 1 << 10);
        assert!(counts.values().all(|&count| count == 1 << (16 - 10)));
    }
    for value in 1..4 {
        assert!(all_views(value) == counts, "{value}");
    }
}

/// Counts how often a server receives each transcript over all random values of its two peers. Its
/// own random values and the random words it receives depend on the seed.
fn received(
    circuit: &Arc<Circuit>,
    server: usize,
    shares: &[Vec<u64>; 3],
    seed: u64,
    omitted: Option<usize>,
) -> HashMap<View, u64> {
    let ands = and_words(circuit);
    let zero_lanes = zero_lanes(circuit);
    let enumerated = |draw, word| match draw {
        Draw::Masks(n) => n != server,
        // The view already contains r of the previous server and r of this server.
        Draw::Zero(n) => n == Peer::Next.of(server) && word < ands,
    };
    let lanes = circuit.params.lanes();
    let mut counts = HashMap::new();
    let mut all = ExhaustiveRandom::default();
    while all.next_run() {
        let mut source =
            EnumeratedRandom { lanes, zero_lanes: &zero_lanes, all: &mut all, seed, enumerated: &enumerated, next: 0 };
        let (views, ..) = session(circuit, shares, &mut source, omitted);
        *counts.entry(views[server - 1]).or_insert(0) += 1;
    }
    counts
}

/// Whether a server receives every possible transcript exactly once.
fn receives_everything_once(circuit: &Arc<Circuit>, server: usize, values: &[u64], seed: u64) -> bool {
    let shares = share(circuit.params.bits, values, &mut SeededRandom::new(seed));
    let ands: u32 = zero_lanes(circuit)[..and_words(circuit)].iter().sum();
    let transcripts = 1 << (2 * circuit.params.rows * circuit.params.bits + ands as usize);
    let counts = received(circuit, server, &shares, seed, None);
    counts.len() == transcripts && counts.values().all(|&count| count == 1)
}

fn circuit(rows: usize, bits: usize, cost_bits: usize, top: usize) -> Arc<Circuit> {
    with_floor(rows, bits, cost_bits, top, 1)
}

fn with_floor(rows: usize, bits: usize, cost_bits: usize, top: usize, floor: usize) -> Arc<Circuit> {
    let params = SealedParams::new(rows, bits, cost_bits).unwrap().top(top).unwrap();
    Arc::new(Circuit::new(&params.floor(floor).unwrap()))
}

#[test]
fn for_fixed_own_randomness_a_server_receives_every_transcript_once() {
    for seed in 0..32 {
        for values in [[0, 0], [0, 1], [1, 0], [1, 1]] {
            for server in 1..=3 {
                for circuit in [circuit(2, 1, 0, 1), with_floor(2, 1, 0, 1, 2)] {
                    assert!(receives_everything_once(&circuit, server, &values, seed), "{server}, {values:?}");
                }
            }
        }
    }
    // Two ranks, without and with a floor; three rows, one of them unpaired; two rows with costs;
    // one row with costs.
    let searches: [(Arc<Circuit>, &[&[u64]]); 5] = [
        (circuit(2, 1, 0, 2), &[&[0, 0], &[1, 0], &[1, 1]]),
        (with_floor(2, 1, 0, 2, 2), &[&[0, 0], &[1, 0], &[1, 1]]),
        (circuit(3, 1, 0, 1), &[&[0, 1, 0]]),
        (circuit(2, 2, 1, 1), &[&[1, 3]]),
        (circuit(1, 3, 2, 1), &[&[0], &[3], &[5]]),
    ];
    for (circuit, secrets) in searches {
        for (seed, values) in secrets.iter().enumerate() {
            // The largest case runs for one server only. The servers differ only in their component
            // of the constant 1.
            for server in 1..=if circuit.params.cost_bits == 1 { 1 } else { 3 } {
                assert!(receives_everything_once(&circuit, server, values, seed as u64), "{server}, {values:?}");
            }
        }
    }
}

#[test]
fn every_zero_sharing_of_an_and_is_needed() {
    // If a word is omitted, the messages to some server depend on the values, although its own
    // share stays the same.
    let circuits = [circuit(2, 1, 0, 1), circuit(2, 1, 0, 2), circuit(1, 3, 2, 1), with_floor(2, 1, 0, 1, 2)];
    for circuit in circuits {
        let leaks = |server: usize, seed: u64, word: Option<usize>| {
            let bits = circuit.params.bits;
            let transcripts = |other: u64| {
                let mut shares = share(bits, &vec![0; circuit.params.rows], &mut SeededRandom::new(seed));
                // Adding to the share of another server changes the values, but nothing that this
                // server holds.
                for (row, entry) in shares[server % 3].iter_mut().enumerate() {
                    *entry = (*entry + (other >> (row * bits))) % (1 << bits);
                }
                received(&circuit, server, &shares, seed, word)
            };
            let baseline = transcripts(0);
            (1..1 << (circuit.params.rows * bits)).any(|other| transcripts(other) != baseline)
        };
        assert!((1..=3).all(|server| !leaks(server, 0, None)));
        for word in 0..and_words(&circuit) {
            assert!((0..8).any(|seed| (1..=3).any(|server| leaks(server, seed, Some(word)))), "word {word}");
        }
    }
}

#[test]
fn in_searches_of_several_words_each_random_bit_of_a_peer_flips_its_own_bit_and_no_earlier_bit() {
    // The values are wide enough for several comparison blocks from the second level on. With a
    // floor, all bits of the counts and of their comparison are ANDs.
    each_random_bit_flips_its_own_bit(&circuit(130, 5, 1, 2));
    each_random_bit_flips_its_own_bit(&with_floor(70, 3, 1, 1, 21));
}

fn each_random_bit_flips_its_own_bit(circuit: &Arc<Circuit>) {
    let SealedParams { rows, bits, .. } = circuit.params;
    let lanes = zero_lanes(circuit);
    let mut draw = SeededRandom::new(5);
    let values: Vec<u64> = (0..rows).map(|_| draw.below(1 << bits)).collect();
    let shares = share(bits, &values, &mut draw);
    let transcript = |flip: Option<(usize, u32)>, server: usize| {
        let mut received: Vec<u64> = vec![];
        let mut random = FlippedRandom { source: SeededRandom::new(6), server: Peer::Next.of(server), flip, next: 0 };
        let mut parties = [1, 2, 3]
            .map(|n| Party::new(circuit, n, PartyRandomness::Drawn, |row| shares[n - 1][row], &mut random).unwrap());
        let results = simulate::run(&mut parties, &mut random, |frame| {
            // z of the next server, which follows the input.
            if frame.to == Peer::Previous && frame.from == Peer::Next.of(server) && frame.bytes[0] > 1 {
                received.extend(words(&frame.bytes));
            }
            vec![frame]
        });
        assert!(results.iter().all(Result::is_ok));
        received
    };
    for server in 1..=3 {
        let baseline = transcript(None, server);
        assert_eq!(baseline.len(), and_words(circuit));
        for (word, &lanes) in lanes[..baseline.len()].iter().enumerate() {
            let lane = draw.below(u64::from(lanes)) as u32;
            let flipped = transcript(Some((word, lane)), server);
            assert_eq!(baseline[..word], flipped[..word]);
            assert_eq!(baseline[word] ^ flipped[word], 1 << lane, "word {word}");
        }
    }
}

/// Seeded random values, with one bit of the zero sharings of one server flipped.
struct FlippedRandom {
    source: SeededRandom,
    server: usize,
    flip: Option<(usize, u32)>,
    next: usize,
}

impl RandomSource for FlippedRandom {
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

/// Counts how often the client receives each triple of answers over all r of servers 2 and 3, from
/// word `first` on. All other random values depend on a seed.
fn count_answers(
    circuit: &Arc<Circuit>,
    values: &[u64],
    seed: u64,
    first: usize,
    omitted: Option<usize>,
) -> HashMap<[Vec<u8>; 3], u32> {
    let shares = share(circuit.params.bits, values, &mut SeededRandom::new(seed));
    let zero_lanes = zero_lanes(circuit);
    let lanes = circuit.params.lanes();
    let enumerated = |draw, word: usize| matches!(draw, Draw::Zero(2 | 3)) && word >= first;
    let mut counts = HashMap::new();
    let mut all = ExhaustiveRandom::default();
    while all.next_run() {
        let mut source =
            EnumeratedRandom { lanes, zero_lanes: &zero_lanes, all: &mut all, seed, enumerated: &enumerated, next: 0 };
        let (.., parties) = session(circuit, &shares, &mut source, omitted);
        let answers = parties.map(|party| {
            let sums: Vec<Vec<u8>> = (0..circuit.params.top)
                .map(|rank| {
                    let bits = party.selection(rank).unwrap()[0];
                    // The records are 01, 02, 04, …, so the sum is the set of its rows.
                    vec![bits; circuit.params.record_bytes]
                })
                .collect();
            party.answer(&sums).unwrap()
        });
        *counts.entry(answers).or_insert(0) += 1;
    }
    counts
}

/// Whether the answers are uniform among all triples with the same result.
fn only_the_result_is_revealed(circuit: &Arc<Circuit>, first: usize, counts: &HashMap<[Vec<u8>; 3], u32>) -> bool {
    let lanes: u32 = zero_lanes(circuit)[first..].iter().sum();
    let result = |[a, b, c]: &[Vec<u8>; 3]| combine(&circuit.params, [a, b, c]).unwrap();
    let one = counts.keys().next().map(result);
    counts.len() == 1 << (2 * lanes)
        && counts.values().all(|&count| count == 1)
        && counts.keys().all(|key| Some(result(key)) == one)
}

#[test]
fn the_client_receives_the_result_and_uniform_bits() {
    let costs = circuit(2, 4, 2, 1);
    let ranks = circuit(3, 1, 0, 2);
    let floor = with_floor(3, 1, 0, 2, 2);
    for (circuit, secrets) in [
        (&costs, [[1, 2, 0], [3, 3, 0], [7, 15, 0]]),
        (&ranks, [[0, 0, 1], [1, 1, 1], [0, 1, 0]]),
        (&floor, [[0, 0, 1], [1, 1, 1], [1, 0, 1]]),
    ] {
        let first = and_words(circuit);
        for values in secrets {
            for seed in 0..3 {
                let counts = count_answers(circuit, &values[..circuit.params.rows], seed, first, None);
                assert!(only_the_result_is_revealed(circuit, first, &counts), "{values:?}");
            }
        }
        for word in first..circuit.zero_words() {
            let counts = count_answers(circuit, &[0; 3][..circuit.params.rows], 0, first, Some(word));
            assert!(
                !only_the_result_is_revealed(circuit, first, &counts),
                "the omission of word {word} must be noticed"
            );
        }
    }
}

#[test]
fn the_client_cannot_tell_how_many_rows_match_below_the_floor() {
    let circuit = with_floor(3, 1, 0, 2, 3);
    let first = and_words(&circuit);
    let answers = |values: &[u64], seed| -> std::collections::HashSet<[Vec<u8>; 3]> {
        count_answers(&circuit, values, seed, first, None).into_keys().collect()
    };
    // No row, one row, two rows match.
    let none = answers(&[1, 1, 1], 0);
    for values in [[1, 1, 0], [0, 1, 1], [0, 0, 1]] {
        assert!(answers(&values, 1) == none, "{values:?}");
    }
    assert!(answers(&[0, 0, 0], 1) != none, "the comparison can fail");
}

#[test]
fn the_record_sums_are_masked_too() {
    // The client must not see the record sums of single servers. Two rows with the records 01 and
    // 02.
    let params = SealedParams::new(2, 1, 0).unwrap().record_bytes(1).unwrap();
    let circuit = Arc::new(Circuit::new(&params));
    let record = circuit.zero_words() - 1;
    assert!(only_the_result_is_revealed(&circuit, record, &count_answers(&circuit, &[1, 0], 0, record, None)));
    let counts = count_answers(&circuit, &[1, 0], 0, circuit.zero_words(), Some(record));
    let again = count_answers(&circuit, &[1, 0], 1, circuit.zero_words(), Some(record));
    let sums = |counts: &HashMap<[Vec<u8>; 3], u32>| {
        let answers: Vec<_> = counts.keys().cloned().collect();
        answers[0].clone().map(|answer| answer[8])
    };
    // Without the mask the client receives the sums themselves: components of the one-hot bits,
    // below 4.
    for sums in [sums(&counts), sums(&again)] {
        assert_eq!(sums[0] ^ sums[1] ^ sums[2], 2);
        assert!(sums.iter().all(|sum| *sum < 4));
    }
}
