//! The answer to one search: explanations, traffic, and notes for the user.
//!
//! Its serialised form is the JSON output of the command line and of the other interfaces.

use crate::answer::explanation::{Change, Explanation};
use crate::error::ServerFailure;
use crate::search::run::Traffic;
use ifonly_values::manifest::Dataset;
use ifonly_values::schema::Value;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// The answer to one search.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Explanations, nearest first; empty if no row matches.
    pub found: Vec<Explanation>,
    /// The requested number of records.
    pub requested: usize,
    /// The scheme.
    pub scheme: &'static str,
    /// The number of servers that the scheme uses.
    pub servers: usize,
    /// Bytes sent and received.
    pub traffic: Traffic,
    /// The number of matching rows; `None` if the scheme does not reveal it.
    pub matching_rows: Option<usize>,
    /// The number of rows.
    pub rows: usize,
    /// Name and version of the dataset.
    pub dataset: Dataset,
    /// Indices, from 1, of servers whose wrong answers were corrected.
    pub lying_servers: Vec<usize>,
    /// Servers that failed during the search but were tolerated.
    pub server_failures: Vec<ServerFailure>,
    /// The wishes that decided which rows match, in words.
    pub wishes: Vec<String>,
    /// Notes for the user: how wishes were interpreted, values that were ignored, servers that
    /// could not be connected.
    pub notes: Vec<String>,
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Document<'a> {
            found: bool,
            cost: Option<f64>,
            record: Option<Record<'a>>,
            changes: &'a [Change],
            #[serde(skip_serializing_if = "Option::is_none")]
            nearest: Option<&'a [Explanation]>,
            scheme: &'a str,
            servers: usize,
            bytes_up: u64,
            bytes_down: u64,
            matching_rows: Option<usize>,
            dataset: &'a Dataset,
            lying_servers: &'a [usize],
            server_failures: Vec<String>,
            wishes: &'a [String],
            notes: &'a [String],
        }
        let first = self.found.first();
        Document {
            found: first.is_some(),
            cost: first.map(|first| first.cost),
            record: first.map(|first| Record(&first.record)),
            changes: first.map_or(&[], |first| &first.changes),
            nearest: (self.requested > 1).then_some(&self.found),
            scheme: self.scheme,
            servers: self.servers,
            bytes_up: self.traffic.up,
            bytes_down: self.traffic.down,
            matching_rows: self.matching_rows,
            dataset: &self.dataset,
            lying_servers: &self.lying_servers,
            server_failures: self.server_failures.iter().map(ToString::to_string).collect(),
            wishes: &self.wishes,
            notes: &self.notes,
        }
        .serialize(serializer)
    }
}

impl Serialize for Explanation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("cost", &self.cost)?;
        map.serialize_entry("record", &Record(&self.record))?;
        map.serialize_entry("changes", &self.changes)?;
        map.end()
    }
}

impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(5))?;
        map.serialize_entry("feature", &self.feature)?;
        map.serialize_entry("yours", &Plain(&self.yours))?;
        map.serialize_entry("theirs", &Plain(&self.theirs))?;
        map.serialize_entry("same_level", &self.same_level)?;
        map.serialize_entry("contribution", &self.contribution)?;
        map.end()
    }
}

/// Serialises a record as a map from columns to original values.
struct Record<'a>(&'a [(String, Value)]);

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, Plain(value))))
    }
}

/// Serialises whole numbers without a decimal point.
struct Plain<'a>(&'a Value);

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        match self.0 {
            Value::Number(number) if number.fract() == 0.0 && number.abs() < EXACT => {
                serializer.serialize_i64(*number as i64)
            }
            Value::Number(number) => serializer.serialize_f64(*number),
            Value::Text(text) => serializer.serialize_str(text),
        }
    }
}

pub mod explanation;
