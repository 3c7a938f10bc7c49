//! Exactness and privacy of the lifted gate, by enumeration of all draws in tiny fields.

use crate::field::{FieldElement, ModulusRule};
use crate::keys::RootKey;
use crate::lifted::*;
use crate::random::{ExhaustiveRandom, RandomSource, SeededRandom};
use crate::row_function::Rows;
use crate::share::{EvaluationPoints, share};
use std::collections::BTreeMap;

fn draw(format: &LiftedFormat, random: &mut impl RandomSource) -> LiftedDraw {
    let (q, p) = (format.cost_field(), format.gate_field());
    LiftedDraw {
        rho: p.sample_nonzero(random),
        gate_pad: p.sample(random),
        sigma: q.sample(random),
        cost_pad: q.sample(random),
    }
}

/// Both words of one row, for any entries of the two servers.
fn words(format: &LiftedFormat, sums: [u32; 2], draw: &LiftedDraw) -> (u32, u32) {
    (answer_word(format, sums[0], draw), answer_word(format, sums[1], draw))
}

type View = BTreeMap<(u32, u32), usize>;

/// How often every pair of words occurs over all draws.
fn view(format: &LiftedFormat, sums: [u32; 2]) -> View {
    let mut counts = View::new();
    let mut all = ExhaustiveRandom::default();
    while all.next_run() {
        *counts.entry(words(format, sums, &draw(format, &mut all))).or_insert(0) += 1;
    }
    counts
}

#[test]
fn a_client_learns_at_most_q_plus_1_outcomes_whatever_it_sends() {
    for (q, p) in [(5, 3), (7, 3), (7, 5)] {
        let format = LiftedFormat::new(q, p).unwrap();
        let mut views: Vec<View> = vec![];
        for first in 0..format.product() {
            for second in 0..format.product() {
                let view = view(&format, [first, second]);
                // The view depends on whether E = 0, and then on 2C = c_1 - c_2 only.
                let ((c1, e1), (c2, e2)) = (format.separate(first), format.separate(second));
                let expected = format.join(
                    if e1 == e2 { format.cost_field().sub(c1, c2) } else { FieldElement::ZERO },
                    format.gate_field().reduce(u64::from(e1 != e2)),
                );
                let same = self::view(&format, [expected, 0]);
                assert_eq!(view, same, "q = {q}, p = {p}: {first}, {second}");
                if !views.contains(&view) {
                    views.push(view);
                }
            }
        }
        assert_eq!(views.len() as u64, q + 1);
    }
}

#[test]
fn rows_outside_the_gate_are_uniform() {
    let format = LiftedFormat::new(7, 3).unwrap();
    let sums = [format.join(FieldElement::ONE, FieldElement::ONE), 0];
    let mut values = BTreeMap::new();
    for ((first, second), count) in view(&format, sums) {
        let value = decode_word(&format, first, second).unwrap();
        *values.entry((value.gate, value.cost)).or_insert(0) += count;
    }
    // Every non-zero gate with every cost, equally often.
    assert_eq!(values.len(), 2 * 7);
    assert!(values.keys().all(|(gate, _)| !gate.is_zero()));
    assert!(values.values().all(|&count| count == 3 * 7 * 2 * 7 / 14));
}

#[test]
fn a_small_q_would_leak_the_gate() {
    // The same formulas with p > q: e_1 - e_2 can be a multiple of q, and the cost stays visible.
    let (q, p) = (3u64, 7);
    let costs = |e: u64| {
        let mut seen = [0; 3];
        for (sigma, pad) in (0..q).flat_map(|sigma| (0..q).map(move |pad| (sigma, pad))) {
            let (first, second) = ((sigma * e + pad) % q, pad);
            seen[((first + q - second) % q) as usize] += 1;
        }
        seen
    };
    assert!((1..p).any(|e| costs(e) != [3, 3, 3]));
    assert!((1..q).all(|e| costs(e) == [3, 3, 3]));
}

#[test]
fn shared_tables_decode_to_the_costs_of_matching_rows() {
    let mut random = SeededRandom::new(26);
    let lengths = vec![4, 3, 9];
    for (q, p) in [(268_435_399, 13), (16_777_213, 251), (101, 5)] {
        let format = LiftedFormat::new(q, p).unwrap();
        let (cost_field, gate_field) = (format.cost_field(), format.gate_field());
        let entries: usize = lengths.iter().sum();
        let cost: Vec<_> = (0..entries).map(|_| cost_field.reduce(random.below(q / 3))).collect();
        let gate: Vec<_> = (0..entries).map(|_| gate_field.reduce(random.below(4) / 3)).collect();
        let shares = |field, secret| {
            let points = EvaluationPoints::usual(field, 2).unwrap();
            share(field, points.as_slice(), 1, secret, &mut SeededRandom::new(q))
        };
        let (cost_shares, gate_shares) = (shares(cost_field, &cost), shares(gate_field, &gate));
        let table = |server: usize, side| {
            LiftedTables::new(&format, side, lengths.clone(), &cost_shares[server], &gate_shares[server])
        };
        let tables = [table(0, LiftedSide::First), table(1, LiftedSide::Second)];
        let rows: Vec<Vec<u16>> =
            (0..200).map(|_| lengths.iter().map(|&length| random.below(length as u64) as u16).collect()).collect();
        let rows = Rows::new(&[3, 2, 8], rows).unwrap();
        let order: Vec<u32> = (0..200).rev().collect();
        let draws = RootKey::new(1, [3; 32]).transcript(&[4; 32]).lifted(&format);
        let answers = tables.each_ref().map(|tables| answer(tables, &rows, &draws, Some(&order)));
        for (position, (&first, &second)) in answers[0].iter().zip(&answers[1]).enumerate() {
            let row = rows.row(order[position] as usize);
            let entry = |table: &[FieldElement]| -> u64 {
                let starts = [0, lengths[0], lengths[0] + lengths[1]];
                row.iter().zip(starts).map(|(&level, start)| table[start + usize::from(level)].value()).sum()
            };
            let value = decode_word(&format, first, second).unwrap();
            assert_eq!(value.gate.is_zero(), entry(&gate) == 0);
            if value.gate.is_zero() {
                assert_eq!(value.cost.value(), entry(&cost) % q);
            }
        }
        let copy = LiftedTables::from_entries(&format, lengths.clone(), tables[0].entries().to_vec());
        assert!(copy.as_ref() == Some(&tables[0]));
        let mut entries = tables[0].entries().to_vec();
        entries[0] = format.product();
        assert!(LiftedTables::from_entries(&format, lengths.clone(), entries).is_none());
    }
}

#[test]
fn the_format_of_the_default_fills_the_word() {
    let format = LiftedFormat::for_database(11, 1 << 27, ModulusRule::Deployment).unwrap();
    assert_eq!(format.word(format.cost_field().reduce(5), format.gate_field().reduce(12)), 12 << 28 | 5);
}
