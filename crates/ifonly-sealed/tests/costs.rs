//! The cost of a search stays within its documented limits, and servers send exactly that many
//! bytes.

mod common;

use common::{Source, search};
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_sealed::{Circuit, CircuitCost, SealedParams};
use std::sync::Arc;

fn cost(rows: usize, bits: usize) -> CircuitCost {
    Circuit::new(&SealedParams::new(rows, bits, bits - 4).unwrap()).cost()
}

#[test]
fn bytes_and_memory_per_row_stay_within_their_limits() {
    // 44 bits: eleven features with the default cost limit.
    for bits in [30, 44] {
        for rows in [10_000, 100_000, 1_000_000, 10_000_000] {
            let cost = cost(rows, bits);
            let per_row = |total: u64| total as f64 / rows as f64;
            println!(
                "{rows} rows of {bits} bits: {:.2} ANDs, {} rounds, {:.2} bytes ({:.2} with keys), {:.2} bytes of memory per row",
                per_row(cost.ands),
                cost.rounds,
                per_row(cost.bytes),
                per_row(cost.bytes_keyed),
                per_row(cost.memory),
            );
            // The last levels, within one word, have a fixed cost.
            let (fixed, fixed_keyed) = (25_000, 12_500);
            assert!(cost.bytes <= 60 * rows as u64 + fixed && cost.bytes_keyed <= 30 * rows as u64 + fixed_keyed);
            assert!(rows < 100_000 || per_row(cost.bytes) <= 60.0 && per_row(cost.bytes_keyed) <= 30.0);
            assert!(per_row(cost.memory) <= 32.0);
        }
    }
}

#[test]
fn a_floor_costs_at_most_six_ands_per_row_and_three_rounds() {
    for rows in [10_000, 100_000, 1_000_000, 10_000_000] {
        let params = SealedParams::new(rows, 44, 40).unwrap();
        let [plain, floor] = [params, params.floor(5).unwrap()].map(|params| Circuit::new(&params).cost());
        let per_row = |more: u64, less: u64| (more - less) as f64 / rows as f64;
        println!(
            "{rows} rows: {:.2} ANDs and {:.2} bytes per row more ({:.2} with keys), {} rounds more",
            per_row(floor.ands, plain.ands),
            per_row(floor.bytes, plain.bytes),
            per_row(floor.bytes_keyed, plain.bytes_keyed),
            floor.rounds - plain.rounds,
        );
        assert!(per_row(floor.ands, plain.ands) <= 6.0 && floor.rounds <= plain.rounds + 3);
    }
}

#[test]
fn twice_the_rows_take_one_more_level_of_rounds() {
    // Three rounds of ripple, four joins and a choice; and one more index bit to expand.
    for rows in [1 << 16, 1 << 18, 1 << 20] {
        assert_eq!(cost(2 * rows, 44).rounds - cost(rows, 44).rounds, 3 + 4 + 1 + 1);
    }
}

#[test]
fn servers_send_exactly_as_many_bytes_as_the_cost_states_for_all_values() {
    for source in [Source::Drawn, Source::Keyed] {
        let params = SealedParams::new(5000, 7, 5).unwrap().top(2).unwrap().record_bytes(21).unwrap();
        let circuit = Arc::new(Circuit::new(&params));
        let cost = circuit.cost();
        let mut lengths = vec![];
        for seed in 0..2 {
            let mut random = SeededRandom::new(seed);
            let values: Vec<u64> = (0..5000).map(|_| random.below(if seed == 0 { 128 } else { 2 })).collect();
            let mut frames = vec![];
            search(&circuit, &values, source, &mut random, &mut |frame| {
                frames.push((frame.from, frame.to, frame.bytes[..8].to_vec(), frame.bytes.len()));
            });
            lengths.push(frames);
        }
        assert_eq!(lengths[0], lengths[1], "number, order and lengths of frames do not depend on the values");
        for server in 1..=3 {
            let sent: usize = lengths[0].iter().filter(|sent| sent.0 == server).map(|sent| sent.3).sum();
            assert_eq!(sent as u64, if source == Source::Drawn { cost.bytes } else { cost.bytes_keyed });
        }
    }
}
