//! Random queries on random integers, with the results of brute force.
#![allow(dead_code, missing_docs, unreachable_pub)]

use ifonly::{Answer, Bundle, ProfileValues, WishList};
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_values::manifest::{Manifest, ManifestFields};
use ifonly_values::schema::{Feature, FeatureKind, Scale, Schema, Value};

/// Numbers of rows: 1 to 5, and the neighbours of powers of two, at which words and tournament
/// levels change.
pub const COUNTS: [usize; 20] = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129];
/// Maximum number of rows to find.
pub const TOP: usize = 4;

pub fn name(column: usize) -> String {
    format!("column {column}")
}

/// Rows of integers from 0 to `range`.
pub struct Numbers {
    pub range: i64,
    pub columns: usize,
    pub rows: Vec<Vec<i64>>,
}

/// A profile, wishes, and the squared distances of the matching rows in ascending order.
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

    /// A bundle for three servers that offers only the scheme `sealed`.
    pub fn bundle(&self) -> Bundle {
        let kind = FeatureKind::from(Scale::whole_numbers(0, self.range).unwrap());
        let features = (0..self.columns).map(|column| Feature::new(name(column), kind.clone())).collect();
        let schema = Schema::new(features).unwrap();
        let texts: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(i64::to_string).collect()).collect();
        let bundle = Bundle::of_values(&schema, &texts, |schema, rows, length| {
            let mut fields = ManifestFields::new("random", schema, rows, length, 3);
            fields.params.top_limit = TOP;
            fields.offer_all();
            fields.schemes.retain(|entry| entry.name == "sealed");
            Manifest::new(ManifestFields { default_scheme: "sealed".into(), ..fields })
        });
        bundle.unwrap()
    }

    /// A random profile with random wishes: some columns are immutable, only up or only down.
    pub fn question(&self, random: &mut SeededRandom) -> Question {
        let own: Vec<i64> = (0..self.columns).map(|_| random.below(self.range as u64 + 1) as i64).collect();
        let kinds: Vec<u64> = own.iter().map(|_| random.below(5)).collect();
        let of = |kind: u64| (0..self.columns).filter(|&k| kinds[k] == kind).map(name).collect::<Vec<_>>();
        let top = 1 + random.below(TOP as u64) as usize;
        let wishes = WishList { immutable: of(0), only_up: of(1), only_down: of(2), top, ..WishList::default() };
        let matches = |row: &&Vec<i64>| {
            (0..self.columns).all(|k| match kinds[k] {
                0 => row[k] == own[k],
                1 => row[k] >= own[k],
                2 => row[k] <= own[k],
                _ => true,
            })
        };
        let mut costs: Vec<i64> = self.rows.iter().filter(matches).map(|row| squared(&own, row)).collect();
        costs.sort_unstable();
        Question { own, wishes, costs }
    }
}

impl Question {
    pub fn values(&self) -> ProfileValues {
        self.own.iter().enumerate().map(|(k, &v)| (name(k), Value::Number(v as f64))).collect()
    }

    /// Asserts that the answer has exactly the nearest rows.
    pub fn check(&self, answer: &Answer, what: &str) {
        let levels = |record: &[(String, Value)]| -> Vec<i64> {
            let number = |(_, value): &(String, Value)| match value {
                Value::Number(number) => *number as i64,
                Value::Text(text) => text.parse().unwrap(),
            };
            record.iter().map(number).collect()
        };
        let found: Vec<i64> = answer.found.iter().map(|near| squared(&self.own, &levels(&near.record))).collect();
        assert_eq!(found, self.costs[..self.costs.len().min(self.wishes.top)], "{what}");
        assert_eq!(answer.matching_rows, None, "a sealed search does not reveal the number of matching rows");
    }
}

fn squared(a: &[i64], b: &[i64]) -> i64 {
    a.iter().zip(b).map(|(a, b)| (a - b).pow(2)).sum()
}

/// Counts of the kinds of queries, so that a test can assert that all kinds occurred.
#[derive(Debug, Default)]
pub struct QueryCounts {
    pub queries: usize,
    pub no_match: usize,
    pub ties: usize,
    pub several: usize,
}

impl QueryCounts {
    pub fn add(&mut self, question: &Question) {
        let costs = &question.costs;
        self.queries += 1;
        self.no_match += usize::from(costs.is_empty());
        self.ties += usize::from(costs.len() > 1 && costs[0] == costs[1]);
        self.several += usize::from(question.wishes.top > 1 && costs.len() > 1);
    }
}
