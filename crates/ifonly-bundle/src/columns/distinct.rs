//! The distinct values of a column with their counts, up to [`MAX_DISTINCT`] values.
//!
//! Beyond this limit the values are no longer listed. Only one question remains: whether most
//! values were new when the limit was exceeded, which depends on the order of the rows. Therefore
//! every value is stored with the position of its first occurrence, also after the limit. So the
//! results of separate parts of a table can be merged to exactly the result for the whole table.

use crate::columns::notation::is_other_date;
use crate::columns::text_map::TextMap;
use ifonly_values::schema::Notation;

/// Maximum number of listed values: no feature has more levels.
pub(crate) const MAX_DISTINCT: usize = 65_536;

/// One distinct value.
#[derive(Clone, Copy)]
pub(crate) struct DistinctValue {
    pub(crate) count: u64,
    pub(crate) class: TextClass,
    /// Number of values, equal or not, before its first occurrence.
    first: u64,
}

/// The class of a text, stored so that repeated values are parsed once.
#[derive(Clone, Copy)]
pub(crate) enum TextClass {
    Number(f64),
    OtherDate,
    Word,
}

impl TextClass {
    pub(crate) fn of(text: &str) -> TextClass {
        match Notation::Plain.read(text) {
            Some(number) => TextClass::Number(number),
            None if is_other_date(text) => TextClass::OtherDate,
            None => TextClass::Word,
        }
    }
}

/// The distinct values of a column.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
#[serde(from = "SerialValues", into = "SerialValues")]
pub(crate) struct DistinctValues {
    /// All values, or the first [`MAX_DISTINCT`] if there are more.
    values: TextMap<DistinctValue>,
    state: State,
}

#[derive(Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
enum State {
    #[default]
    Listed,
    /// The limit was exceeded, after `at` values.
    TooMany { at: u64 },
    /// A value was too long for a category. Long values are not stored, to bound the memory.
    Long,
}

impl DistinctValues {
    /// The entry of a text, while values are listed.
    pub(crate) fn get_mut(&mut self, text: &str) -> Option<&mut DistinctValue> {
        match self.state {
            State::Listed => self.values.get_mut(text),
            _ => None,
        }
    }

    /// All values; `None` if there are too many.
    pub(crate) fn listed(&self) -> Option<&TextMap<DistinctValue>> {
        (self.state == State::Listed).then_some(&self.values)
    }

    /// Adds a value that is not listed yet; `before` values came before it.
    pub(crate) fn insert(&mut self, text: &str, class: TextClass, before: u64) {
        if is_long(text) {
            *self = DistinctValues { values: TextMap::default(), state: State::Long };
        } else if self.state == State::Listed {
            self.add(text, DistinctValue { count: 1, class, first: before });
        }
    }

    /// Whether one more value would exceed the limit.
    pub(crate) fn is_full(&self) -> bool {
        self.values.len() >= MAX_DISTINCT
    }

    fn add(&mut self, text: &str, value: DistinctValue) {
        if self.is_full() { self.state = State::TooMany { at: value.first } } else { self.values.insert(text, value) }
    }

    /// Whether most values were new when the limit was exceeded.
    pub(crate) fn mostly_new(&self) -> bool {
        match self.state {
            State::Listed => false,
            State::TooMany { at } => 2 * MAX_DISTINCT as u64 > at + 1,
            State::Long => true,
        }
    }

    /// Adds the values of the rows that follow; `before` values have come so far.
    pub(crate) fn merge(&mut self, next: DistinctValues, before: u64) {
        if next.state == State::Long {
            *self = next;
            return;
        }
        if self.state != State::Listed {
            return;
        }
        let mut entries: Vec<(String, DistinctValue)> =
            next.values.iter().map(|(text, value)| (text, *value)).collect();
        entries.sort_unstable_by_key(|(_, value)| value.first);
        for (text, value) in entries {
            match self.values.get_mut(&text) {
                Some(known) => known.count += value.count,
                None => self.add(&text, DistinctValue { first: before + value.first, ..value }),
            }
            if self.state != State::Listed {
                return;
            }
        }
        // If the following rows exceeded the limit, they alone had MAX_DISTINCT values, all of
        // which are listed here now. So the value that exceeded the limit there exceeds it here
        // too.
        if let State::TooMany { at } = next.state {
            self.state = State::TooMany { at: before + at };
        }
    }
}

/// Whether a text is too long for a category, and is therefore not stored.
pub(crate) fn is_long(text: &str) -> bool {
    text.len() > ifonly_values::record::MAX_TEXT
}

/// The serialised form: text, count and first occurrence, in the order of first occurrence.
#[derive(serde::Serialize, serde::Deserialize)]
struct SerialValues {
    values: Vec<(String, u64, u64)>,
    state: State,
}

impl From<DistinctValues> for SerialValues {
    fn from(distinct: DistinctValues) -> SerialValues {
        // Beyond the limit, counts are not used; zeros make the serialised form independent of
        // parts.
        let count = |value: &DistinctValue| if distinct.state == State::Listed { value.count } else { 0 };
        let mut values: Vec<(String, u64, u64)> =
            distinct.values.iter().map(|(text, value)| (text, count(value), value.first)).collect();
        values.sort_unstable_by_key(|(_, _, first)| *first);
        SerialValues { values, state: distinct.state }
    }
}

impl From<SerialValues> for DistinctValues {
    fn from(serial: SerialValues) -> DistinctValues {
        let mut values = TextMap::default();
        for (text, count, first) in serial.values {
            let class = TextClass::of(&text);
            values.insert(&text, DistinctValue { count, class, first });
        }
        DistinctValues { values, state: serial.state }
    }
}
