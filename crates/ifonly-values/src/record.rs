//! Records: the original values of a row, as text. A search ends with a record.
//!
//! For every column of the schema in order, a record contains the length of the text in bytes (two
//! bytes, little-endian) and the text in UTF-8. Zeros fill the rest. All records have the same
//! length.
//!
//! If the manifest states groups, two more texts follow the columns: the number of people that the
//! record stands for, as a band such as `10-19`, and the percentage of accepted people near it,
//! which is empty if the data has no others.
//!
//! A client shows the original values. It also computes the levels from them and checks that the
//! record has the decoded cost.

use crate::manifest::Manifest;
use crate::schema::{Schema, SchemaError, Value};

/// Maximum bytes of a text in a record, a schema or a manifest.
pub const MAX_TEXT: usize = 4096;

/// The original values of a row.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    values: Vec<(String, String)>,
    group: Option<GroupFacts>,
}

/// What a record says about the group of people that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct GroupFacts {
    /// It stands for at least this number of accepted people.
    pub at_least: u32,
    /// It stands for at most this number of accepted people.
    pub at_most: u32,
    /// The percentage of accepted people among all people of the table near the record, rounded
    /// down to a multiple of 10; `None` if the table has no others.
    pub accepted_percent: Option<u8>,
}

impl GroupFacts {
    /// The facts about a group of this size. The size is published as a band: 10 to 19, 20 to 49,
    /// 50 to 99, 100 to 199, and so on; never below `k`.
    pub fn new(people: u32, k: u32, accepted_percent: Option<u8>) -> GroupFacts {
        let mut bounds = (0..9).flat_map(|power| [1, 2, 5].map(|digit| digit * 10u32.pow(power)));
        let above = bounds.find(|bound| *bound > people).unwrap_or(u32::MAX);
        let below = (0..9).flat_map(|power| [1, 2, 5].map(|digit| digit * 10u32.pow(power)));
        let low = below.take_while(|bound| *bound <= people).last().unwrap_or(1);
        let percent = accepted_percent.map(|percent| percent.min(100) / 10 * 10);
        GroupFacts { at_least: low.max(k), at_most: above - 1, accepted_percent: percent }
    }

    /// The two texts of the record.
    pub fn texts(&self) -> [String; 2] {
        let percent = self.accepted_percent.map_or(String::new(), |percent| percent.to_string());
        [format!("{}-{}", self.at_least, self.at_most), percent]
    }

    /// Reads the two texts; only the form of [`GroupFacts::texts`] is valid.
    fn from_texts(people: &str, percent: &str) -> Option<GroupFacts> {
        let (at_least, at_most) = people.split_once('-')?;
        let accepted_percent = match percent {
            "" => None,
            percent => Some(percent.parse().ok().filter(|percent| *percent <= 100)?),
        };
        let facts = GroupFacts { at_least: at_least.parse().ok()?, at_most: at_most.parse().ok()?, accepted_percent };
        (facts.at_least <= facts.at_most && facts.texts() == [people, percent]).then_some(facts)
    }
}

impl std::fmt::Display for GroupFacts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stands for {} to {} accepted people", self.at_least, self.at_most)?;
        match self.accepted_percent {
            Some(percent) => write!(f, "; of the people nearest to it, {percent}% or more were accepted"),
            None => Ok(()),
        }
    }
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Record(..)")
    }
}

/// Why a record could not be encoded or decoded. In a search, a record that cannot be decoded means
/// that a server lied or has another database.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The record ends too early.
    #[error("the record is malformed: it ends within column {column:?}")]
    Short {
        /// The name of the column.
        column: String,
    },
    /// What the record says about its group is not in the right form.
    #[error("the record is malformed: it does not say how many people it stands for")]
    Group,
    /// Bytes after the last text are not zero.
    #[error("the record is malformed: its padding is not zero")]
    Padding,
    /// A text is not UTF-8.
    #[error("the record is malformed: column {column:?} is not UTF-8")]
    NotText {
        /// The name of the column.
        column: String,
    },
    /// A text is too long.
    #[error("the value is too long; the maximum is {MAX_TEXT} bytes")]
    TooLong,
    /// The texts together exceed the record length.
    #[error("the record needs {need} bytes, but the record length is {length}")]
    Length {
        /// Bytes that the texts need.
        need: usize,
        /// The record length.
        length: usize,
    },
    /// A value is not valid under the schema.
    #[error("the record does not match the schema: {0}")]
    Schema(#[from] SchemaError),
}

/// Bytes of these texts in a record, without the padding.
pub fn encoded_length<T: AsRef<str>>(texts: &[T]) -> usize {
    texts.iter().map(|text| 2 + text.as_ref().len()).sum()
}

/// Encodes a record from one text per column of the schema, in order.
pub fn encode<T: AsRef<str>>(texts: &[T], length: usize) -> Result<Vec<u8>, RecordError> {
    let need = encoded_length(texts);
    if need > length {
        return Err(RecordError::Length { need, length });
    }
    let mut bytes = Vec::with_capacity(length);
    for text in texts.iter().map(T::as_ref) {
        if text.len() > MAX_TEXT {
            return Err(RecordError::TooLong);
        }
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    bytes.resize(length, 0);
    Ok(bytes)
}

impl Record {
    /// Decodes a record of a bundle with this manifest.
    pub fn of(manifest: &Manifest, bytes: &[u8]) -> Result<Record, RecordError> {
        let (mut record, mut rest) = Record::take(manifest.schema(), bytes)?;
        if let Some(terms) = &manifest.fields().dataset.groups {
            let mut text = || std::str::from_utf8(take_text(&mut rest)?).ok();
            let (people, percent) = (text().ok_or(RecordError::Group)?, text().ok_or(RecordError::Group)?);
            let facts = GroupFacts::from_texts(people, percent).filter(|facts| facts.at_least >= terms.k);
            record.group = Some(facts.ok_or(RecordError::Group)?);
        }
        record.padded_with(rest)
    }

    /// Decodes a record of a bundle without groups under this schema.
    pub fn decode(schema: &Schema, bytes: &[u8]) -> Result<Record, RecordError> {
        let (record, rest) = Record::take(schema, bytes)?;
        record.padded_with(rest)
    }

    /// The values, and the bytes after them.
    fn take<'a>(schema: &Schema, bytes: &'a [u8]) -> Result<(Record, &'a [u8]), RecordError> {
        let mut rest = bytes;
        let mut values = vec![];
        for column in schema.columns() {
            let text = take_text(&mut rest).ok_or_else(|| RecordError::Short { column: column.name.into() })?.to_vec();
            let text = String::from_utf8(text).map_err(|_| RecordError::NotText { column: column.name.into() })?;
            values.push((column.name.to_owned(), text));
        }
        Ok((Record { values, group: None }, rest))
    }

    fn padded_with(self, rest: &[u8]) -> Result<Record, RecordError> {
        if rest.iter().all(|&byte| byte == 0) { Ok(self) } else { Err(RecordError::Padding) }
    }

    /// The group that the record stands for; `None` if it is one person's row.
    pub fn group(&self) -> Option<GroupFacts> {
        self.group
    }

    /// Column names and original texts, in the schema's order.
    pub fn values(&self) -> &[(String, String)] {
        &self.values
    }

    /// The original text of a column.
    pub fn value(&self, column: &str) -> Option<&str> {
        self.values.iter().find(|(name, _)| name == column).map(|(_, text)| text.as_str())
    }

    /// The levels of the row, for [`confirm`](ifonly_core::cost_check::confirm).
    pub fn levels(&self, schema: &Schema) -> Result<Vec<u16>, RecordError> {
        let encoded = schema.encode(|column| self.value(column).map(Value::from))?;
        // The cast cannot truncate: max levels are at most 65,535.
        Ok(encoded.iter().map(|encoded| encoded.level as u16).collect())
    }
}

/// Removes the next text and its length from `rest`. Returns the text.
fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, tail) = rest.split_first_chunk()?;
    let (text, tail) = tail.split_at_checked(u16::from_le_bytes(*length).into())?;
    *rest = tail;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Feature, FeatureKind, Quantiser, Scale};

    fn schema() -> Schema {
        let numeric = FeatureKind::from(Scale::levels(0.0, 10.0, 10, Quantiser::Round).unwrap());
        let words = FeatureKind::Ordinal { ranks: vec!["low".into(), "hoch".into()] };
        Schema::new(vec![Feature::new("a", numeric), Feature::new("b", words)]).unwrap()
    }

    #[test]
    fn records_return_the_original_values_and_their_levels() {
        let bytes = encode(&["3.6", "hoch"], 16).unwrap();
        assert_eq!(bytes, b"\x03\x003.6\x04\x00hoch\0\0\0\0\0");
        let record = Record::decode(&schema(), &bytes).unwrap();
        assert_eq!(record.value("a"), Some("3.6"));
        assert_eq!(record.values()[1], ("b".into(), "hoch".into()));
        assert_eq!(record.levels(&schema()), Ok(vec![4, 1]));
    }

    #[test]
    fn sizes_of_groups_are_published_as_bands() {
        let facts = |people, k| GroupFacts::new(people, k, Some(97));
        let band = |people, k| (facts(people, k).at_least, facts(people, k).at_most);
        assert_eq!(
            [band(10, 10), band(19, 10), band(20, 10), band(57, 10), band(13, 12), band(7, 5)],
            [(10, 19), (10, 19), (20, 49), (50, 99), (12, 19), (5, 9)]
        );
        let texts = facts(10, 10).texts();
        assert_eq!(texts, ["10-19", "90"]);
        assert_eq!(GroupFacts::from_texts("10-19", "90"), Some(facts(10, 10)));
        for (people, percent) in [("10", "90"), ("19-10", "90"), ("010-19", ""), ("10-19", "101"), ("10-19", "+9")] {
            assert_eq!(GroupFacts::from_texts(people, percent), None, "{people} {percent}");
        }
    }

    #[test]
    fn malformed_records_are_refused() {
        let bytes = encode(&["3.6", "hoch"], 16).unwrap();
        for length in 0..11 {
            assert!(matches!(Record::decode(&schema(), &bytes[..length]), Err(RecordError::Short { .. })));
        }
        let with = |index: usize, byte: u8| {
            let mut changed = bytes.clone();
            changed[index] = byte;
            Record::decode(&schema(), &changed)
        };
        assert_eq!(with(15, 1), Err(RecordError::Padding));
        assert_eq!(with(7, 0xff), Err(RecordError::NotText { column: "b".into() }));
        assert!(matches!(with(1, 0xff), Err(RecordError::Short { .. })));
        assert!(matches!(with(7, b'x').unwrap().levels(&schema()), Err(RecordError::Schema(_))));
    }

    #[test]
    fn rows_that_exceed_the_limits_are_refused() {
        assert_eq!(encode(&["abc"], 4), Err(RecordError::Length { need: 5, length: 4 }));
        assert_eq!(encode(&["x".repeat(MAX_TEXT + 1)], 10_000), Err(RecordError::TooLong));
    }
}
