//! The different values of a column, with their counts, while they are few.
//!
//! Beyond [`MAX_DISTINCT`] of them a column is merely "many", and of those only one thing is still
//! asked: whether most were new when they became too many. That depends on the order of the rows.
//! So that parts of a table can be looked at apart and still give what one reader would see, every
//! value is kept with the place where it came first, also when nobody lists the values any more.

use crate::columns::notation::is_other_date;
use crate::columns::text_map::TextMap;
use ifonly_values::schema::Notation;

/// More different values are not listed: no feature has more levels.
pub(crate) const MAX_DISTINCT: usize = 65_536;

/// One of the values.
#[derive(Clone, Copy)]
pub(crate) struct DistinctValue {
    pub(crate) count: u64,
    pub(crate) is: TextClass,
    /// How many values, equal or not, came before it.
    first: u64,
}

/// What a text is, so that its next occurrence need not be read.
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

/// The values.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
#[serde(from = "Sent", into = "Sent")]
pub(crate) struct DistinctValues {
    /// All, or the first [`MAX_DISTINCT`] of too many.
    seen: TextMap<DistinctValue>,
    state: State,
}

#[derive(Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
enum State {
    #[default]
    Listed,
    /// One more came, behind so many values.
    TooMany { at: u64 },
    /// One was too long to be a category, and would fill the memory.
    Long,
}

impl DistinctValues {
    /// What is known about a text, while values are listed.
    pub(crate) fn get_mut(&mut self, text: &str) -> Option<&mut DistinctValue> {
        match self.state {
            State::Listed => self.seen.get_mut(text),
            _ => None,
        }
    }

    /// All values, unless they are too many.
    pub(crate) fn listed(&self) -> Option<&TextMap<DistinctValue>> {
        (self.state == State::Listed).then_some(&self.seen)
    }

    /// Takes a value that is not listed, behind `before` others.
    pub(crate) fn insert(&mut self, text: &str, is: TextClass, before: u64) {
        if is_long(text) {
            *self = DistinctValues { seen: TextMap::default(), state: State::Long };
        } else if self.state == State::Listed {
            self.add(text, DistinctValue { count: 1, is, first: before });
        }
    }

    /// Whether one more would be too many.
    pub(crate) fn is_full(&self) -> bool {
        self.seen.len() >= MAX_DISTINCT
    }

    fn add(&mut self, text: &str, seen: DistinctValue) {
        match self.is_full() {
            true => self.state = State::TooMany { at: seen.first },
            false => self.seen.insert(text, seen),
        }
    }

    /// Whether most values were new when they became too many to list.
    pub(crate) fn mostly_new(&self) -> bool {
        match self.state {
            State::Listed => false,
            State::TooMany { at } => 2 * MAX_DISTINCT as u64 > at + 1,
            State::Long => true,
        }
    }

    /// Takes the values of the rows behind, with `before` values here.
    pub(crate) fn merge(&mut self, behind: DistinctValues, before: u64) {
        if behind.state == State::Long {
            *self = behind;
            return;
        }
        if self.state != State::Listed {
            return;
        }
        let mut entries: Vec<(String, DistinctValue)> = behind.seen.iter().map(|(text, seen)| (text, *seen)).collect();
        entries.sort_unstable_by_key(|(_, seen)| seen.first);
        for (text, seen) in entries {
            match self.seen.get_mut(&text) {
                Some(known) => known.count += seen.count,
                None => self.add(&text, DistinctValue { first: before + seen.first, ..seen }),
            }
            if self.state != State::Listed {
                return;
            }
        }
        // There are as many as can be, all of them also behind; so the one that was too many there
        // is too many here.
        if let State::TooMany { at } = behind.state {
            self.state = State::TooMany { at: before + at };
        }
    }
}

/// Long texts are no categories, and would fill the memory.
pub(crate) fn is_long(text: &str) -> bool {
    text.len() > ifonly_values::record::MAX_TEXT
}

/// How values travel: text, count and place, in the order in which they came.
#[derive(serde::Serialize, serde::Deserialize)]
struct Sent {
    seen: Vec<(String, u64, u64)>,
    state: State,
}

impl From<DistinctValues> for Sent {
    fn from(distinct: DistinctValues) -> Sent {
        // Nobody asks for the counts of some of too many values.
        let count = |seen: &DistinctValue| if distinct.state == State::Listed { seen.count } else { 0 };
        let mut seen: Vec<(String, u64, u64)> =
            distinct.seen.iter().map(|(text, seen)| (text, count(seen), seen.first)).collect();
        seen.sort_unstable_by_key(|(_, _, first)| *first);
        Sent { seen, state: distinct.state }
    }
}

impl From<Sent> for DistinctValues {
    fn from(sent: Sent) -> DistinctValues {
        let mut seen = TextMap::default();
        for (text, count, first) in sent.seen {
            let is = TextClass::of(&text);
            seen.insert(&text, DistinctValue { count, is, first });
        }
        DistinctValues { seen, state: sent.state }
    }
}
