//! The record that a search ends with: the original row, not the quantised one.
//!
//! For every column of the schema, in order: the length of its text in bytes (two bytes,
//! little-endian), then the text in UTF-8. Zeros fill up to the record length, which is the same
//! for all rows. From the texts a client shows the original values and recomputes the levels, so it
//! can check that the record has the cost that was decoded for it.

use crate::schema::{Schema, SchemaError, Value};

/// A text of a record, a schema or a manifest ends here, in bytes.
pub const MAX_TEXT: usize = 4096;

/// An original row, column by column.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    values: Vec<(String, String)>,
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Record(..)")
    }
}

/// Why a row is no record, or bytes are none. In a search it means that a server lied or holds
/// another database.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The bytes end early.
    #[error("the record is malformed: it ends within column {column:?}")]
    Short {
        /// Which column.
        column: String,
    },
    /// Something follows the last text.
    #[error("the record is malformed: its padding is not zero")]
    Padding,
    /// A text is not UTF-8.
    #[error("the record is malformed: column {column:?} is not UTF-8")]
    NotText {
        /// Which column.
        column: String,
    },
    /// A text does not fit.
    #[error("the value is longer than {MAX_TEXT} bytes")]
    TooLong,
    /// The texts do not fit.
    #[error("the row needs {need} bytes, but records have {length}")]
    Length {
        /// Bytes of the row.
        need: usize,
        /// The record length.
        length: usize,
    },
    /// A value that the schema does not know.
    #[error("the record does not fit the schema: {0}")]
    Schema(#[from] SchemaError),
}

/// Bytes that these texts need before padding.
pub fn encoded_length<T: AsRef<str>>(texts: &[T]) -> usize {
    texts.iter().map(|text| 2 + text.as_ref().len()).sum()
}

/// The record of these texts, one per column of the schema in order.
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
    /// Reads a record of a database with this schema.
    pub fn decode(schema: &Schema, bytes: &[u8]) -> Result<Record, RecordError> {
        let mut rest = bytes;
        let mut values = vec![];
        for column in schema.columns() {
            let text = take_text(&mut rest).ok_or_else(|| RecordError::Short { column: column.name.into() })?.to_vec();
            let text = String::from_utf8(text).map_err(|_| RecordError::NotText { column: column.name.into() })?;
            values.push((column.name.to_owned(), text));
        }
        match rest.iter().all(|&byte| byte == 0) {
            true => Ok(Record { values }),
            false => Err(RecordError::Padding),
        }
    }

    /// Column names and original texts, in the schema's order.
    pub fn values(&self) -> &[(String, String)] {
        &self.values
    }

    /// The original text of a column.
    pub fn value(&self, column: &str) -> Option<&str> {
        self.values.iter().find(|(name, _)| name == column).map(|(_, text)| text.as_str())
    }

    /// The row as the database stores it, for [`confirm`](ifonly_core::search::confirm).
    pub fn levels(&self, schema: &Schema) -> Result<Vec<u16>, RecordError> {
        let encoded = schema.encode(|column| self.value(column).map(Value::from))?;
        // A schema's ranges end at 65535.
        Ok(encoded.iter().map(|encoded| encoded.level as u16).collect())
    }
}

/// The next text, without its length.
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
    fn the_original_row_comes_back_and_gives_its_levels() {
        let bytes = encode(&["3.6", "hoch"], 16).unwrap();
        assert_eq!(bytes, b"\x03\x003.6\x04\x00hoch\0\0\0\0\0");
        let record = Record::decode(&schema(), &bytes).unwrap();
        assert_eq!(record.value("a"), Some("3.6"));
        assert_eq!(record.values()[1], ("b".into(), "hoch".into()));
        assert_eq!(record.levels(&schema()), Ok(vec![4, 1]));
    }

    #[test]
    fn bytes_that_are_no_record_are_refused() {
        let bytes = encode(&["3.6", "hoch"], 16).unwrap();
        for length in 0..11 {
            assert!(matches!(Record::decode(&schema(), &bytes[..length]), Err(RecordError::Short { .. })));
        }
        let with = |place: usize, byte: u8| {
            let mut bent = bytes.clone();
            bent[place] = byte;
            Record::decode(&schema(), &bent)
        };
        assert_eq!(with(15, 1), Err(RecordError::Padding));
        assert_eq!(with(7, 0xff), Err(RecordError::NotText { column: "b".into() }));
        assert!(matches!(with(1, 0xff), Err(RecordError::Short { .. })));
        assert!(matches!(with(7, b'x').unwrap().levels(&schema()), Err(RecordError::Schema(_))));
    }

    #[test]
    fn rows_that_do_not_fit_are_refused() {
        assert_eq!(encode(&["abc"], 4), Err(RecordError::Length { need: 5, length: 4 }));
        assert_eq!(encode(&["x".repeat(MAX_TEXT + 1)], 10_000), Err(RecordError::TooLong));
    }
}
