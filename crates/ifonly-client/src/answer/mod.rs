//! The answer to one search: explanations, traffic, and notes for the user.
//!
//! Its serialised form is the JSON output of the command line and of the other interfaces.

use crate::answer::explanation::{Change, Explanation};
use crate::error::ServerFailure;
use crate::search::run::Traffic;
use ifonly_values::coded;
use ifonly_values::manifest::{Dataset, GroupTerms};
use ifonly_values::message::CodedMessage;
use ifonly_values::record::GroupFacts;
use ifonly_values::schema::Value;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// The answer to one search.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Explanations, nearest first; empty if no row matches.
    pub found: Vec<Explanation>,
    /// The requested number of records.
    pub requested: usize,
    /// The requested number of ways.
    pub requested_ways: usize,
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
    /// Indices, from 1, of servers whose wrong answers or wrong claims of an index were corrected.
    pub lying_servers: Vec<usize>,
    /// Servers that failed but were tolerated: at the connection or during the search.
    pub server_failures: Vec<ServerFailure>,
    /// The wishes that decided which rows match.
    pub wishes: Vec<CodedMessage>,
    /// Notes for the user: how wishes were interpreted, values that were ignored, and whether the
    /// result may be wrong.
    pub notes: Vec<CodedMessage>,
}

/// A note about the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerNote {
    /// The answers contain what honest servers do not send: a wrong or impossible cost, or a record
    /// that is damaged, not signed or does not match.
    MayNotBeNearest,
    /// Every record stands for at least k accepted people.
    StandsFor {
        /// The smallest number of people.
        k: u64,
    },
}

coded! { AnswerNote {
    AnswerNote::MayNotBeNearest => "may-not-be-nearest" {},
    AnswerNote::StandsFor { k } => "stands-for" { k },
} }

impl std::fmt::Display for AnswerNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AnswerNote::MayNotBeNearest => f.write_str("the result may not be the nearest: a server may be lying"),
            AnswerNote::StandsFor { k } => write!(f, "the record {}", GroupTerms::notice_for(*k)),
        }
    }
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Document<'a> {
            found: bool,
            cost: Option<f64>,
            sentence: Option<&'a str>,
            record: Option<Record<'a>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            group: Option<GroupFacts>,
            changes: &'a [Change],
            #[serde(skip_serializing_if = "Option::is_none")]
            nearest: Option<&'a [Explanation]>,
            #[serde(skip_serializing_if = "Option::is_none")]
            ways: Option<&'a [Explanation]>,
            scheme: &'a str,
            servers: usize,
            bytes_up: u64,
            bytes_down: u64,
            matching_rows: Option<usize>,
            dataset: &'a Dataset,
            lying_servers: &'a [usize],
            server_failures: &'a [ServerFailure],
            wishes: &'a [CodedMessage],
            notes: &'a [CodedMessage],
        }
        let first = self.found.first();
        Document {
            found: first.is_some(),
            cost: first.map(|first| first.cost),
            sentence: first.map(|first| first.sentence.as_str()),
            record: first.map(|first| Record(&first.record)),
            group: first.and_then(|first| first.group),
            changes: first.map_or(&[], |first| &first.changes),
            nearest: (self.requested > 1).then_some(&self.found),
            ways: (self.requested_ways > 1).then_some(&self.found),
            scheme: self.scheme,
            servers: self.servers,
            bytes_up: self.traffic.up,
            bytes_down: self.traffic.down,
            matching_rows: self.matching_rows,
            dataset: &self.dataset,
            lying_servers: &self.lying_servers,
            server_failures: &self.server_failures,
            wishes: &self.wishes,
            notes: &self.notes,
        }
        .serialize(serializer)
    }
}

impl Serialize for Explanation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("cost", &self.cost)?;
        map.serialize_entry("sentence", &self.sentence)?;
        map.serialize_entry("record", &Record(&self.record))?;
        if let Some(group) = &self.group {
            map.serialize_entry("group", group)?;
        }
        map.serialize_entry("changes", &self.changes)?;
        if !self.held.is_empty() {
            map.serialize_entry("held", &self.held)?;
        }
        map.end()
    }
}

impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(6))?;
        map.serialize_entry("feature", &self.feature)?;
        map.serialize_entry("yours", &Plain(&self.yours))?;
        map.serialize_entry("theirs", &Plain(&self.theirs))?;
        map.serialize_entry("same_level", &self.same_level)?;
        map.serialize_entry("within_tolerance", &self.within_tolerance)?;
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
pub mod sentence;
