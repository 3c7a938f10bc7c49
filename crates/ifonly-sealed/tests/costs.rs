//! What a search costs is what was promised, and what is sent is what the cost says.

mod common;

use common::{Source, search};
use ifonly_algebra::random::{Random, SeededRandom};
use ifonly_sealed::{Circuit, Cost, Shape};
use std::sync::Arc;

fn cost(rows: usize, bits: usize, ripple_levels: usize) -> Cost {
    Circuit::new(&Shape::new(rows, bits, bits - 4).unwrap().ripple_levels(ripple_levels)).cost()
}

#[test]
fn a_search_of_thirty_bits_stays_within_its_budget() {
    for rows in [10_000, 100_000, 1_000_000, 10_000_000] {
        let cost = cost(rows, 30, 0);
        let per_row = |total: u64| total as f64 / rows as f64;
        println!(
            "{rows} rows: {:.2} ANDs, {} rounds, {:.2} bytes ({:.2} with keys), {:.2} bytes of memory per row",
            per_row(cost.ands),
            cost.rounds,
            per_row(cost.bytes),
            per_row(cost.bytes_keyed),
            per_row(cost.memory),
        );
        assert!(per_row(cost.bytes) <= 60.0 && per_row(cost.bytes_keyed) <= 30.0);
        assert!(per_row(cost.memory) <= 32.0);
    }
    // The counts of the protocol's description.
    let cost = cost(100_000, 30, 0);
    assert_eq!((cost.ands.div_ceil(100_000), cost.rounds), (173, 167));
}

#[test]
fn a_ripple_takes_half_the_ands_of_a_tree_in_more_rounds() {
    let (tree, mixed, ripple) = (cost(100_000, 30, 0), cost(100_000, 30, 3), cost(100_000, 30, usize::MAX));
    assert!(ripple.ands < mixed.ands && mixed.ands < tree.ands);
    assert!(tree.rounds < mixed.rounds && mixed.rounds < ripple.rounds);
    // Of a comparison: 30 against 83, for every row but one and for a word without a neighbour here and there.
    let difference = (tree.ands - ripple.ands) as f64 / 100_000.0;
    assert!((53.0..53.5).contains(&difference), "{difference}");
    // 30 rounds against 6 in each of 16 levels; in the first the ripple runs along with the sum's, and costs fewer than a tree.
    assert_eq!(ripple.rounds - tree.rounds, 16 * (30 - 6) - 4);
    assert!(cost(100_000, 30, 1).rounds < tree.rounds);
}

#[test]
fn servers_send_exactly_what_the_cost_says_whatever_the_values() {
    for (source, ripples) in [(Source::Drawn, 0), (Source::Keyed, 2)] {
        let shape = Shape::new(5000, 7, 5).unwrap().top(2).unwrap().record_bytes(21).unwrap().ripple_levels(ripples);
        let circuit = Arc::new(Circuit::new(&shape));
        let cost = circuit.cost();
        let mut lengths = vec![];
        for seed in 0..2 {
            let mut random = SeededRandom::new(seed);
            let values: Vec<u64> = (0..5000).map(|_| random.below(if seed == 0 { 128 } else { 2 })).collect();
            let mut seen = vec![];
            search(&circuit, &values, source, &mut random, &mut |letter| {
                seen.push((letter.from, letter.to, letter.frame[..8].to_vec(), letter.frame.len()));
            });
            lengths.push(seen);
        }
        assert_eq!(lengths[0], lengths[1], "frames, their order and their lengths are public");
        for server in 1..=3 {
            let sent: usize = lengths[0].iter().filter(|sent| sent.0 == server).map(|sent| sent.3).sum();
            assert_eq!(sent as u64, if source == Source::Drawn { cost.bytes } else { cost.bytes_keyed });
        }
    }
}
