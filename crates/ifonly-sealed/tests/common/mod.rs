//! Complete searches, and brute force to compare with.

#![allow(dead_code)] // each test file uses some of it

use ifonly_algebra::keys::{RootKey, TranscriptKeys};
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_sealed::simulate::{self, FrameInTransit};
use ifonly_sealed::{Circuit, Party, PartyRandomness, SealedParams, SealedResult, combine, share};
use std::sync::Arc;

/// Source of the random bits of the three parties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Drawn,
    Keyed,
}

/// The record of a row: its number plus 1, repeated up to the length of a record.
pub(crate) fn record(params: &SealedParams, row: usize) -> Vec<u8> {
    let length = params.answer_bytes() / params.ranks() - 8;
    (row as u32 + 1).to_le_bytes().into_iter().cycle().take(length).collect()
}

/// The pair key of a server and its next server in one session.
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

/// The answers of finished parties to the client.
pub(crate) fn answers(circuit: &Circuit, parties: [Party; 3]) -> [Vec<u8>; 3] {
    let params = circuit.params();
    parties.map(|party| {
        let sums: Vec<Vec<u8>> = (0..params.ranks())
            .map(|rank| {
                let selection = party.selection(rank).unwrap();
                assert_eq!(selection.len(), params.rows().div_ceil(8));
                let mut sum = record(params, 0);
                sum.fill(0);
                for row in (0..params.rows()).filter(|row| selection[row / 8] >> (row % 8) & 1 == 1) {
                    sum.iter_mut().zip(record(params, row)).for_each(|(sum, byte)| *sum ^= byte);
                }
                sum
            })
            .collect();
        party.answer(&sums).unwrap()
    })
}

/// Runs a complete search. `inspect` gets every frame.
pub(crate) fn search(
    circuit: &Arc<Circuit>,
    values: &[u64],
    source: Source,
    random: &mut SeededRandom,
    inspect: &mut dyn FnMut(&FrameInTransit),
) -> Vec<Option<SealedResult>> {
    let params = circuit.params();
    let shares = share(params.bits(), values, random);
    let mut parties = parties(circuit, &shares, source, random);
    let results = simulate::run(&mut parties, random, |frame| {
        inspect(&frame);
        vec![frame]
    });
    assert_eq!(results, [Ok(()), Ok(()), Ok(())]);
    let [a, b, c] = answers(circuit, parties);
    combine(params, [&a, &b, &c]).unwrap()
}

/// The matching rows, nearest first, the lower row first if costs are equal.
pub(crate) fn brute_force(params: &SealedParams, cost_bits: usize, values: &[u64]) -> Vec<Option<SealedResult>> {
    let mut rows: Vec<usize> = (0..values.len()).filter(|&row| values[row] >> cost_bits == 0).collect();
    rows.sort_by_key(|&row| values[row]);
    let found = |&row: &usize| Some(SealedResult { cost: values[row], record: record(params, row) });
    let mut found: Vec<_> = rows.iter().take(params.ranks()).map(found).collect();
    found.resize(params.ranks(), None);
    found
}
