//! A search returns the result of brute force: the nearest matching rows, the lower row first if
//! costs are equal, or no row.

mod common;

use common::{Source, brute_force, search};
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_sealed::{Circuit, SealedParams};
use std::sync::Arc;

/// Distribution of the values of a test case.
#[derive(Clone, Copy, Debug)]
enum Values {
    Uniform,
    FewCosts,
    NoRowMatches,
    AllRowsTie,
    OnlyTheLastMatches,
    Largest,
}

impl Values {
    const ALL: [Values; 6] = [
        Values::Uniform,
        Values::FewCosts,
        Values::NoRowMatches,
        Values::AllRowsTie,
        Values::OnlyTheLastMatches,
        Values::Largest,
    ];

    fn draw(self, rows: usize, bits: usize, cost_bits: usize, random: &mut SeededRandom) -> Vec<u64> {
        let gate = 1 << cost_bits;
        let gates = 1 << (bits - cost_bits);
        let tie = random.below(gate);
        let last = rows - 1;
        (0..rows)
            .map(|row| match self {
                Values::Uniform => random.below(1 << bits),
                Values::FewCosts => random.below(gate.min(3)) + gate * random.below(2),
                Values::NoRowMatches => random.below(gate) + gate * (1 + random.below(gates - 1)),
                Values::AllRowsTie => tie,
                Values::OnlyTheLastMatches => random.below(gate) + gate * u64::from(row != last),
                Values::Largest => (1 << bits) - 1,
            })
            .collect()
    }
}

fn check(rows: usize, bits: usize, cost_bits: usize, top: usize, seed: u64, source: Source) {
    let params = SealedParams::new(rows, bits, cost_bits).unwrap().top(top).unwrap();
    let params = params.record_bytes(seed as usize % 13).unwrap();
    let circuit = Arc::new(Circuit::new(&params));
    let mut random = SeededRandom::new(seed);
    for kind in Values::ALL {
        let values = kind.draw(rows, bits, cost_bits, &mut random);
        let found = search(&circuit, &values, source, &mut random, &mut |_| {});
        let expected = brute_force(&params, cost_bits, &values);
        assert!(found == expected, "{rows} rows, k = {bits}, c = {cost_bits}, top {top}, {kind:?}, seed {seed}");
    }
}

#[test]
fn random_searches_find_what_brute_force_finds() {
    let mut random = SeededRandom::new(13);
    for seed in 0..400 {
        let rows = 1 + random.below(200) as usize;
        let bits = 1 + random.below(32) as usize;
        let cost_bits = random.below(bits as u64) as usize;
        let source = [Source::Drawn, Source::Keyed][random.below(2) as usize];
        check(rows, bits, cost_bits, 1, seed, source);
    }
}

#[test]
fn small_row_counts_and_those_around_powers_of_two_work() {
    let around_powers = (6..=13).flat_map(|j| [(1 << j) - 1, 1 << j, (1 << j) + 1]);
    for rows in (1..=20).chain(around_powers).chain([1000, 4033, 4095 * 3]) {
        check(rows, 6, 4, 1, rows as u64, Source::Drawn);
    }
}

#[test]
fn several_ranks_are_the_nearest_rows_in_order() {
    let mut random = SeededRandom::new(14);
    for seed in 0..60 {
        let rows = 1 + random.below(if seed % 2 == 0 { 8 } else { 300 }) as usize;
        let bits = 2 + random.below(10) as usize;
        let top = 1 + random.below(6) as usize;
        let source = [Source::Drawn, Source::Keyed][random.below(2) as usize];
        check(rows, bits, bits - 1 - random.below(bits as u64 / 2) as usize, top, seed, source);
    }
}

#[test]
fn the_widest_and_the_narrowest_values_work() {
    for (bits, cost_bits) in [(1, 0), (2, 0), (2, 1), (3, 2), (63, 62), (63, 0), (31, 27), (33, 29)] {
        check(70, bits, cost_bits, 2, 5, Source::Drawn);
    }
}

#[test]
fn messages_of_several_frames_work() {
    for source in [Source::Drawn, Source::Keyed] {
        check(30_011, 9, 7, 1, 6, source);
    }
}

/// A gate on known facts that singles out one person finds nobody.
#[test]
fn fewer_matching_rows_than_the_floor_find_no_row() {
    let mut random = SeededRandom::new(15);
    for seed in 0..200 {
        let rows = 1 + random.below(if seed % 2 == 0 { 9 } else { 300 }) as usize;
        let (bits, cost_bits, top) = (4 + random.below(6) as usize, 3, 1 + random.below(3) as usize);
        let floor = 1 + random.below(rows as u64) as usize;
        let params = SealedParams::new(rows, bits, cost_bits).unwrap().top(top).unwrap();
        let circuit = Arc::new(Circuit::new(&params.floor(floor).unwrap()));
        let source = [Source::Drawn, Source::Keyed][seed % 2];
        // One row fewer than the floor, the floor, one row more, no row, all rows.
        for matching in [floor - 1, floor, (floor + 1).min(rows), 0, rows] {
            let mut values: Vec<u64> = (0..rows).map(|row| random.below(8) + 8 * u64::from(row >= matching)).collect();
            (0..rows).for_each(|row| values.swap(row, random.below(rows as u64) as usize));
            let found = search(&circuit, &values, source, &mut random, &mut |_| {});
            let mut expected = brute_force(&params, cost_bits, &values);
            if matching < floor {
                expected.iter_mut().for_each(|rank| *rank = None);
            }
            assert!(found == expected, "{rows} rows, {matching} match, floor {floor}, top {top}, seed {seed}");
        }
    }
}

#[test]
fn parameters_out_of_range_are_refused() {
    assert!(SealedParams::new(0, 8, 4).is_err());
    assert!(SealedParams::new(1 << 33, 8, 4).is_err());
    assert!(SealedParams::new(5, 0, 0).is_err());
    assert!(SealedParams::new(5, 64, 4).is_err());
    assert!(SealedParams::new(5, 8, 8).is_err(), "at least one bit must count violated gates");
    let params = SealedParams::new(5, 8, 4).unwrap();
    assert!(params.top(0).is_err() && params.top(65).is_err());
    assert!(params.floor(0).is_err() && params.floor(6).is_err() && params.floor(5).is_ok());
    assert!(params.record_bytes(1 << 21).is_err());
}
