//! Random questions about random whole numbers, with the answers of brute force.
#![allow(dead_code, missing_docs, unreachable_pub)]

use ifonly::{Answer, Bundle, ProfileValues, WishList};
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_values::manifest::{Manifest, ManifestFields};
use ifonly_values::schema::{Feature, FeatureKind, Scale, Schema, Value};

/// As many rows as there may be sessions and words around: 1, 2, 3, then one less, as many and one
/// more than powers of two.
pub const COUNTS: [usize; 20] = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129];
/// The most rows of a search.
pub const TOP: usize = 4;

pub fn name(column: usize) -> String {
    format!("column {column}")
}

/// Whole numbers from 0 to `range` in every column.
pub struct Numbers {
    pub range: i64,
    pub columns: usize,
    pub rows: Vec<Vec<i64>>,
}

/// A person, wishes, and the squared distances of the rows that qualify, the nearest first.
pub struct Question {
    pub own: Vec<i64>,
    pub wishes: WishList,
    pub costs: Vec<i64>,
}

impl Numbers {
    pub fn draw(columns: usize, range: i64, count: usize, random: &mut SeededRandom) -> Numbers {
        let mut draw = || random.below(range as u64 + 1) as i64;
        let rows = (0..count).map(|_| (0..columns).map(|_| draw()).collect()).collect();
        Numbers { range, columns, rows }
    }

    /// Three servers' bundle with the sealed search alone.
    pub fn bundle(&self) -> Bundle {
        let kind = FeatureKind::from(Scale::whole_numbers(0, self.range).unwrap());
        let features = (0..self.columns).map(|column| Feature::new(name(column), kind.clone())).collect();
        let schema = Schema::new(features).unwrap();
        let texts: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(i64::to_string).collect()).collect();
        let bundle = Bundle::of_values(&schema, &texts, |schema, rows, length| {
            let mut contents = ManifestFields::new("random", schema, rows, length, 3);
            contents.terms.top_limit = TOP;
            contents.offer_all();
            contents.schemes.retain(|offer| offer.name == "sealed");
            Manifest::new(ManifestFields { default_scheme: "sealed".into(), ..contents })
        });
        bundle.unwrap()
    }

    /// Somebody who keeps, raises or lowers some columns and asks for some rows.
    pub fn question(&self, random: &mut SeededRandom) -> Question {
        let own: Vec<i64> = (0..self.columns).map(|_| random.below(self.range as u64 + 1) as i64).collect();
        let kinds: Vec<u64> = own.iter().map(|_| random.below(5)).collect();
        let of = |kind: u64| (0..self.columns).filter(|&k| kinds[k] == kind).map(name).collect::<Vec<_>>();
        let top = 1 + random.below(TOP as u64) as usize;
        let wishes = WishList { immutable: of(0), only_up: of(1), only_down: of(2), top, ..WishList::default() };
        let qualifies = |row: &&Vec<i64>| {
            (0..self.columns).all(|k| match kinds[k] {
                0 => row[k] == own[k],
                1 => row[k] >= own[k],
                2 => row[k] <= own[k],
                _ => true,
            })
        };
        let mut costs: Vec<i64> = self.rows.iter().filter(qualifies).map(|row| squared(&own, row)).collect();
        costs.sort_unstable();
        Question { own, wishes, costs }
    }
}

impl Question {
    pub fn values(&self) -> ProfileValues {
        self.own.iter().enumerate().map(|(k, &v)| (name(k), Value::Number(v as f64))).collect()
    }

    /// Whether the answer has the nearest rows, and nothing that it should not have.
    pub fn check(&self, answer: &Answer, what: &str) {
        let theirs = |record: &[(String, Value)]| -> Vec<i64> {
            let number = |(_, value): &(String, Value)| match value {
                Value::Number(number) => *number as i64,
                Value::Text(text) => text.parse().unwrap(),
            };
            record.iter().map(number).collect()
        };
        let found: Vec<i64> = answer.found.iter().map(|near| squared(&self.own, &theirs(&near.record))).collect();
        assert_eq!(found, self.costs[..self.costs.len().min(self.wishes.top)], "{what}");
        assert_eq!(answer.matching_rows, None, "how many qualify is not told");
    }
}

fn squared(a: &[i64], b: &[i64]) -> i64 {
    a.iter().zip(b).map(|(a, b)| (a - b).pow(2)).sum()
}

/// What has been asked, so that a test can say that it saw every kind.
#[derive(Debug, Default)]
pub struct Seen {
    pub asked: usize,
    pub nobody: usize,
    pub ties: usize,
    pub several: usize,
}

impl Seen {
    pub fn count(&mut self, question: &Question) {
        let costs = &question.costs;
        self.asked += 1;
        self.nobody += usize::from(costs.is_empty());
        self.ties += usize::from(costs.len() > 1 && costs[0] == costs[1]);
        self.several += usize::from(question.wishes.top > 1 && costs.len() > 1);
    }
}
