//! Explanation linkage: what somebody who knows a few facts about an accepted person reads from the
//! records, and how much less if records stand for groups.
//!
//! The attacks follow Anonymeter (Giomi et al., arXiv 2211.10459) and Goethals et al. (arXiv
//! 2210.12051). Every attack runs against people whose rows the records were computed from, and
//! against a control group from the same table. Only the difference is due to the records.
//!
//! * singling out: ask for a person's values in [`KNOWN`] columns. The person is exposed if the
//!   nearest record has all their other values too.
//! * linking: two sources know one half of the columns each. They link the person if both find the
//!   same record.
//! * inferring: all columns but one are known; the nearest record gives that one. Numbers count as
//!   found within `TOLERANCE` of the spread.
//! * membership: the probability that a person is nearer to a record than a control person is.
//! * pureness: the share of accepted people among the `NEAR` people nearest to a record.

use rayon::prelude::*;
use serde::Serialize;

use crate::LabError;
use crate::plot::{AxisScale, Curve, Plot};
use crate::random::Stream;
use crate::report::{ReportItem, percent};

/// The number of columns that the attacker knows.
pub const KNOWN: usize = 3;
/// The largest number of attacked people, and of control people.
pub const PEOPLE: usize = 500;
/// Numbers count as inferred within this share of their spread.
const TOLERANCE: f64 = 0.05;
/// The number of people by which pureness is measured.
const NEAR: usize = 20;

/// A value: a position divided by the spread of its column, or a word.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LinkageValue {
    /// A number or an ordered word.
    Position(f64),
    /// A word; `None` means mixed, which equals nothing.
    Word(Option<u16>),
}

/// One attacked database.
#[derive(Debug, Clone)]
pub struct LinkageTarget {
    /// What is attacked.
    pub name: String,
    /// The smallest number of people per record.
    pub k: usize,
    /// The records.
    pub records: Vec<Vec<LinkageValue>>,
    /// People whose rows the records were computed from.
    pub people: Vec<Vec<LinkageValue>>,
    /// Accepted people of the same table in no record; empty if there are none.
    pub control: Vec<Vec<LinkageValue>>,
}

/// Success rates of all attacks, from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct LinkageRates {
    /// Exposed by one question with known columns.
    pub singled_out: f64,
    /// Linked between two sources.
    pub linked: f64,
    /// A column inferred from all others.
    pub inferred: f64,
}

/// One of the rates.
type RateOf = fn(&LinkageRates) -> f64;

fn cost(person: &[LinkageValue], record: &[LinkageValue], columns: &[usize]) -> f64 {
    let of = |&column: &usize| match (person[column], record[column]) {
        (LinkageValue::Position(a), LinkageValue::Position(b)) => (a - b) * (a - b),
        (a, b) => f64::from(u8::from(!is_equal(a, b))),
    };
    columns.iter().map(of).sum()
}

fn is_equal(a: LinkageValue, b: LinkageValue) -> bool {
    a == b && a != LinkageValue::Word(None)
}

/// The first of the nearest records in these columns, and its cost.
fn nearest(records: &[Vec<LinkageValue>], person: &[LinkageValue], columns: &[usize]) -> (usize, f64) {
    let mut best = (0, f64::INFINITY);
    for (index, record) in records.iter().enumerate() {
        let cost = cost(person, record, columns);
        if cost < best.1 {
            best = (index, cost);
        }
    }
    best
}

/// Attacks each of these people once with each attack.
pub fn rates(records: &[Vec<LinkageValue>], people: &[Vec<LinkageValue>], seed: u64) -> LinkageRates {
    let columns = people.first().map_or(0, Vec::len);
    let all: Vec<usize> = (0..columns).collect();
    let attack = |(index, person): (usize, &Vec<LinkageValue>)| {
        let mut shuffled = all.clone();
        Stream::new(seed, index as u64).shuffle(&mut shuffled);
        let known = &shuffled[..KNOWN.min(columns)];
        let record = &records[nearest(records, person, known).0];
        let singled_out = all.iter().all(|&column| is_equal(record[column], person[column]));
        let (half, other) = shuffled.split_at(columns / 2);
        let linked = nearest(records, person, half).0 == nearest(records, person, other).0;
        let secret = index % columns;
        let others: Vec<usize> = all.iter().copied().filter(|&column| column != secret).collect();
        let inferred = match (records[nearest(records, person, &others).0][secret], person[secret]) {
            (LinkageValue::Position(a), LinkageValue::Position(b)) => (a - b).abs() <= TOLERANCE,
            (a, b) => is_equal(a, b),
        };
        [singled_out, linked, inferred]
    };
    let hits: Vec<[bool; 3]> = people.par_iter().enumerate().map(attack).collect();
    let rate = |at: usize| hits.iter().filter(|hit| hit[at]).count() as f64 / hits.len().max(1) as f64;
    LinkageRates { singled_out: rate(0), linked: rate(1), inferred: rate(2) }
}

/// The probability that a person is nearer to a record than a control person; ties count one half.
pub fn membership(target: &LinkageTarget) -> Option<f64> {
    if target.control.is_empty() || target.people.is_empty() {
        return None;
    }
    let columns: Vec<usize> = (0..target.people[0].len()).collect();
    let distances = |people: &[Vec<LinkageValue>]| -> Vec<f64> {
        people.par_iter().map(|person| nearest(&target.records, person, &columns).1).collect()
    };
    let (inside, outside) = (distances(&target.people), distances(&target.control));
    let score = |a: &f64| -> f64 {
        outside
            .iter()
            .map(|b| {
                if a < b {
                    1.0
                } else if a == b {
                    0.5
                } else {
                    0.0
                }
            })
            .sum()
    };
    Some(inside.iter().map(score).sum::<f64>() / (inside.len() * outside.len()) as f64)
}

/// The mean share of accepted people among the nearest people of the whole table.
pub fn pureness(records: &[Vec<LinkageValue>], table: &[(Vec<LinkageValue>, bool)]) -> f64 {
    let columns: Vec<usize> = (0..table.first().map_or(0, |(row, _)| row.len())).collect();
    let step = records.len().div_ceil(PEOPLE).max(1);
    let sampled: Vec<&Vec<LinkageValue>> = records.iter().step_by(step).collect();
    let near = NEAR.min(table.len());
    if near == 0 {
        return 0.0;
    }
    let share = |record: &&Vec<LinkageValue>| {
        let mut costs: Vec<(f64, bool)> =
            table.iter().map(|(row, accepted)| (cost(row, record, &columns), *accepted)).collect();
        costs.select_nth_unstable_by(near - 1, |a, b| a.0.total_cmp(&b.0));
        costs[..near].iter().filter(|(_, accepted)| *accepted).count() as f64 / near as f64
    };
    sampled.par_iter().map(share).sum::<f64>() / sampled.len().max(1) as f64
}

/// The report item: all attacks on all targets. `table` has all people with whether they were
/// accepted.
pub fn run(targets: &[LinkageTarget], table: &[(Vec<LinkageValue>, bool)], seed: u64) -> Result<ReportItem, LabError> {
    if targets.iter().any(|target| target.records.is_empty() || target.people.is_empty()) {
        return Err(LabError::parameter("data", "the linkage attack needs records and accepted people"));
    }
    let (mut rows, mut points) = (vec![], vec![]);
    for target in targets {
        let attacked = rates(&target.records, &target.people, seed);
        let control = (!target.control.is_empty()).then(|| rates(&target.records, &target.control, seed));
        let beside = |of: RateOf| match &control {
            Some(control) => format!("{} ({})", percent(of(&attacked)), percent(of(control))),
            None => percent(of(&attacked)),
        };
        rows.push(vec![
            target.name.clone(),
            target.records.len().to_string(),
            beside(|rates| rates.singled_out),
            beside(|rates| rates.linked),
            beside(|rates| rates.inferred),
            membership(target).map_or("-".into(), |score| format!("{score:.3}")),
            percent(pureness(&target.records, table)),
        ]);
        if control.is_some() {
            points.push((target.k as f64, attacked));
        }
    }
    let curve = |(name, of): (&str, RateOf)| Curve {
        name: name.into(),
        points: points.iter().map(|(k, rates)| (*k, 100.0 * of(rates))).collect(),
        errors: vec![],
    };
    let curves: [(&str, RateOf); 3] = [
        ("exposed by one question", |rates| rates.singled_out),
        ("linked", |rates| rates.linked),
        ("one column inferred", |rates| rates.inferred),
    ];
    let columns = ["records", "number", "exposed by one question", "linked", "inferred", "membership", "pureness"];
    Ok(ReportItem {
        name: "linkage",
        title: "Explanation linkage: records of people and of groups".into(),
        text: format!(
            "The attacker knows {KNOWN} random columns of an accepted person, asks for exactly these values, and reads \
             the rest from the nearest record. A person is exposed if the record has all their values. Linked: two \
             sources that know half of the columns each find the same record. Inferred: one column from all others, \
             numbers within {TOLERANCE} of the spread. Membership: the probability that a person is nearer to a record \
             than a control person; 0.5 is chance. Pureness: the share of accepted people among the {NEAR} nearest to \
             a record. In brackets: the same attack on accepted people in no record. At most {PEOPLE} people are \
             attacked."
        ),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
        figure: Some(
            Plot {
                title: "People exposed, by people per record".into(),
                x: "people per record (k)".into(),
                y: "people (%)".into(),
                x_scale: AxisScale::Linear,
                y_range: Some((0.0, 105.0)),
                curves: curves.into_iter().map(curve).collect(),
            }
            .into(),
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(index: u32) -> Vec<LinkageValue> {
        let position = |factor: u32| LinkageValue::Position(f64::from(index * factor % 211) / 211.0);
        vec![position(1), position(7), position(31), position(77), LinkageValue::Word(Some((index % 5) as u16))]
    }

    #[test]
    fn original_rows_expose_everyone_and_a_record_of_all_exposes_no_one() {
        let people: Vec<_> = (0..100).map(person).collect();
        let control: Vec<_> = (100..200).map(person).collect();
        let originals = rates(&people, &people, 1);
        // Three columns identify these people, except where a position repeats.
        assert!(originals.singled_out > 0.9 && originals.linked > 0.9, "{originals:?}");
        assert_eq!(rates(&people, &control, 1).singled_out, 0.0);
        let one = vec![vec![LinkageValue::Position(0.5); 4].into_iter().chain([LinkageValue::Word(None)]).collect()];
        let grouped = rates(&one, &people, 1);
        assert_eq!((grouped.singled_out, grouped.linked), (0.0, 1.0));
        let target = |records: Vec<Vec<LinkageValue>>| LinkageTarget {
            name: "t".into(),
            k: 1,
            records,
            people: people.clone(),
            control: control.clone(),
        };
        assert_eq!(membership(&target(people.clone())), Some(1.0));
        assert!((membership(&target(one)).unwrap() - 0.5).abs() < 0.1);
    }

    #[test]
    fn pureness_is_the_share_of_accepted_people_nearby() {
        let row = |position: f64, accepted: bool| (vec![LinkageValue::Position(position)], accepted);
        let table: Vec<_> = (0..20).map(|_| row(0.0, true)).chain((0..20).map(|_| row(1.0, false))).collect();
        let at = |position: f64| pureness(&[vec![LinkageValue::Position(position)]], &table);
        assert_eq!((at(0.1), at(0.9)), (1.0, 0.0));
    }
}
