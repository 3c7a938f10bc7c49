//! Whole searches and their brute force.

#![allow(dead_code)] // each test uses its part

use ifonly_algebra::keys::{RootKey, TranscriptKeys};
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_sealed::simulate::{self, FrameInTransit};
use ifonly_sealed::{Circuit, Party, PartyRandomness, SealedParams, SealedResult, combine, share};
use std::sync::Arc;

/// Where the three servers' random bits come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Drawn,
    Keyed,
}

/// The record of a row: its number, repeated as often as there is room.
pub(crate) fn record(shape: &SealedParams, row: usize) -> Vec<u8> {
    let length = shape.answer_bytes() / shape.ranks() - 8;
    (row as u32 + 1).to_le_bytes().into_iter().cycle().take(length).collect()
}

/// The key of a server and the next one, in one session.
pub(crate) fn pair_key(server: usize, session: [u8; 32]) -> TranscriptKeys {
    RootKey::new(1, [server as u8; 32]).transcript(&session)
}

/// Three parties that hold shares of the values.
pub(crate) fn parties(
    circuit: &Arc<Circuit>,
    shares: &[Vec<u64>; 3],
    source: Source,
    random: &mut SeededRandom,
) -> [Party; 3] {
    let mut session = [0; 32];
    random.fill(&mut session);
    [1, 2, 3].map(|n| {
        let randomness = match source {
            Source::Drawn => PartyRandomness::Drawn,
            Source::Keyed => PartyRandomness::Keyed {
                with_previous: pair_key((n + 1) % 3 + 1, session),
                with_next: pair_key(n, session),
            },
        };
        Party::new(circuit, n, randomness, |row| shares[n - 1][row], random).unwrap()
    })
}

/// What the user gets from finished parties.
pub(crate) fn answers(circuit: &Circuit, parties: [Party; 3]) -> [Vec<u8>; 3] {
    let shape = circuit.shape();
    parties.map(|party| {
        let sums: Vec<Vec<u8>> = (0..shape.ranks())
            .map(|rank| {
                let selection = party.selection(rank).unwrap();
                assert_eq!(selection.len(), shape.rows().div_ceil(8));
                let mut sum = record(shape, 0);
                sum.fill(0);
                for row in (0..shape.rows()).filter(|row| selection[row / 8] >> (row % 8) & 1 == 1) {
                    sum.iter_mut().zip(record(shape, row)).for_each(|(sum, byte)| *sum ^= byte);
                }
                sum
            })
            .collect();
        party.answer(&sums).unwrap()
    })
}

/// A whole search.
pub(crate) fn search(
    circuit: &Arc<Circuit>,
    values: &[u64],
    source: Source,
    random: &mut SeededRandom,
    see: &mut dyn FnMut(&FrameInTransit),
) -> Vec<Option<SealedResult>> {
    let shape = circuit.shape();
    let shares = share(shape.bits(), values, random);
    let mut parties = parties(circuit, &shares, source, random);
    let results = simulate::run(&mut parties, random, |letter| {
        see(&letter);
        vec![letter]
    });
    assert_eq!(results, [Ok(()), Ok(()), Ok(())]);
    let [a, b, c] = answers(circuit, parties);
    combine(shape, [&a, &b, &c]).unwrap()
}

/// The rows that qualify, nearest first, the lower row first where costs are equal.
pub(crate) fn brute_force(shape: &SealedParams, cost_bits: usize, values: &[u64]) -> Vec<Option<SealedResult>> {
    let mut rows: Vec<usize> = (0..values.len()).filter(|&row| values[row] >> cost_bits == 0).collect();
    rows.sort_by_key(|&row| values[row]);
    let found = |&row: &usize| Some(SealedResult { cost: values[row], record: record(shape, row) });
    let mut found: Vec<_> = rows.iter().take(shape.ranks()).map(found).collect();
    found.resize(shape.ranks(), None);
    found
}
