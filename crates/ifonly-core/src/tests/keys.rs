//! The servers' common randomness: labels do not collide, values are exactly uniform, streams have
//! random access, and epochs matter.

use crate::field::{Field, FieldElement};
use crate::keys::{Purpose, RootKey};
use crate::row_function::RowRandomness;
use std::collections::{BTreeMap, BTreeSet};

fn purposes() -> Vec<Purpose> {
    let numbers = [0, 1, 2, 255, 256, 257, u16::MAX];
    let mut all = vec![Purpose::Rho, Purpose::Sigma, Purpose::Mu, Purpose::KeyCheck];
    for a in numbers {
        all.extend([Purpose::Order { part: a }, Purpose::RecordPad { j: a }]);
        all.extend(numbers.map(|b| Purpose::Pad { output: a, j: b }));
    }
    all
}

#[test]
fn labels_and_streams_of_different_purposes_differ() {
    let keys = RootKey::new(1, [1; 32]).transcript(&[2; 32]);
    let labels: BTreeSet<[u8; 6]> = purposes().into_iter().map(Purpose::label).collect();
    assert_eq!(labels.len(), purposes().len());
    let streams: BTreeSet<[u8; 32]> = purposes()
        .into_iter()
        .map(|purpose| {
            let mut bytes = [0; 32];
            keys.stream(purpose).fill(0, &mut bytes);
            bytes
        })
        .collect();
    assert_eq!(streams.len(), purposes().len());
}

#[test]
fn keys_epochs_and_transcripts_all_matter() {
    let value = |epoch, key, tau| RootKey::new(epoch, [key; 32]).transcript(&[tau; 32]).check_value();
    let all = BTreeSet::from([value(1, 1, 1), value(2, 1, 1), value(1, 2, 1), value(1, 1, 2)]);
    assert_eq!(all.len(), 4);
    assert_eq!(value(1, 1, 1), value(1, 1, 1));
}

#[test]
fn any_part_of_a_stream_can_be_read_by_itself() {
    let stream = RootKey::new(1, [1; 32]).transcript(&[2; 32]).stream(Purpose::Rho);
    let mut whole = vec![0; 5000];
    stream.fill(0, &mut whole);
    for (start, length) in [(0, 1), (1, 16), (15, 2), (16, 16), (511, 513), (4999, 1), (37, 4000), (5000, 0)] {
        let mut part = vec![0; length];
        stream.fill(start as u64, &mut part);
        assert_eq!(part, whole[start..start + length], "{start}+{length}");
    }
}

#[test]
fn every_number_of_a_row_is_in_its_range_and_all_values_occur() {
    // q = 5 and q = 17 reject often (3 of 8, 15 of 32). q just above 2^32 uses wide words.
    for q in [5u64, 17, 257, 4_294_967_311] {
        let field = Field::new(q).unwrap();
        let rows = RootKey::new(1, [1; 32]).transcript(&[3; 32]).rows(&field, 2, 2, 3);
        let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
        for row in 0..4_000 {
            let pad = rows.pad(1, 2, row);
            assert!(pad.value() < q && !rows.rho(row).is_zero() && rows.mu(row).value() < 3);
            *counts.entry(pad.value()).or_default() += 1;
        }
        if q < 20 {
            let expected = 4_000 / q as u32;
            assert_eq!(counts.len() as u64, q);
            // Six standard deviations of a binomial count.
            let tolerance = 6.0 * f64::from(expected).sqrt();
            assert!(counts.values().all(|&count| f64::from(count.abs_diff(expected)) < tolerance), "{counts:?}");
        }
    }
}

#[test]
fn different_rows_outputs_and_coefficients_have_different_pads() {
    let field = Field::new((1 << 61) - 1).unwrap();
    let rows = RootKey::new(1, [1; 32]).transcript(&[4; 32]).rows(&field, 3, 3, 1);
    let mut seen: BTreeSet<FieldElement> = BTreeSet::new();
    for row in 0..200 {
        for output in 0..3 {
            assert!((1..=3).all(|j| seen.insert(rows.pad(output, j, row))));
        }
        assert!(seen.insert(rows.rho(row)) && seen.insert(rows.sigma(row)));
        assert!(rows.mu(row).is_zero());
    }
}
