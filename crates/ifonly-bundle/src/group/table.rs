//! The encoded rows of all parts in memory, column by column as grouping sees them: numbers and
//! ordered words have positions, other words are equal or not.

use crate::build::parts::{LevelCounts, PartFiles};
use crate::error::BuildError;
use ifonly_values::schema::{Feature, Schema};
use std::collections::BTreeMap;
use std::path::Path;

/// A column of the table: one feature, or all features of a one-hot column.
#[derive(Clone, Debug)]
pub(crate) struct GroupColumn {
    pub(crate) name: String,
    pub(crate) kind: GroupColumnKind,
}

/// How values of a column compare.
#[derive(Clone, Debug)]
pub(crate) enum GroupColumnKind {
    /// Position of each level, divided by the spread of the column.
    Ordered { positions: Vec<f64>, spread: f64 },
    /// Words without an order.
    Words { words: Vec<String> },
}

/// Rows as codes, accepted rows first. The code of a number is its level, that of a word its index.
#[derive(Clone, Debug)]
pub(crate) struct GroupTable {
    columns: Vec<GroupColumn>,
    codes: Vec<u16>,
    accepted: usize,
}

impl GroupTable {
    pub(crate) fn new(schema: &Schema, spreads: Option<&BTreeMap<String, f64>>) -> GroupTable {
        let features = schema.features();
        let column = |column: ifonly_values::schema::Column<'_>| {
            let group = &features[column.features.clone()];
            GroupColumn { name: column.name.to_owned(), kind: kind(column.name, group, spreads) }
        };
        GroupTable { columns: schema.columns().into_iter().map(column).collect(), codes: vec![], accepted: 0 }
    }

    /// The rows of all parts.
    pub(crate) fn read(
        schema: &Schema,
        spreads: Option<&BTreeMap<String, f64>>,
        parts: &[LevelCounts],
        directory: &Path,
    ) -> Result<GroupTable, BuildError> {
        let mut table = GroupTable::new(schema, spreads);
        let columns: Vec<_> = schema.columns().into_iter().map(|column| column.features).collect();
        let features = schema.features().len();
        let accepted: u64 = parts.iter().map(|part| part.kept).sum();
        let rejected: u64 = parts.iter().map(|part| part.rejected).sum();
        table.codes.reserve_exact((accepted + rejected) as usize * table.columns.len());
        for (number, counts) in parts.iter().enumerate() {
            let mut levels = PartFiles::new(directory, number).levels(counts.kept, features)?;
            while let Some(row) = levels.next()? {
                for (index, features) in columns.iter().enumerate() {
                    let code = table.code_of(index, &row[features.clone()]);
                    table.codes.push(code);
                }
            }
        }
        table.accepted = accepted as usize;
        for (number, counts) in parts.iter().enumerate() {
            let mut levels = PartFiles::new(directory, number).rejected(counts.rejected, features)?;
            while let Some(row) = levels.next()? {
                for (index, features) in columns.iter().enumerate() {
                    let code = table.code_of(index, &row[features.clone()]);
                    table.codes.push(code);
                }
            }
        }
        Ok(table)
    }

    /// A table of these rows.
    #[cfg(test)]
    pub(crate) fn with_rows(columns: Vec<GroupColumn>, codes: Vec<u16>, accepted: usize) -> GroupTable {
        GroupTable { columns, codes, accepted }
    }

    /// A table of these accepted and rejected rows of another one.
    pub(crate) fn sample(&self, accepted: &[usize], rejected: &[usize]) -> GroupTable {
        let codes = accepted.iter().chain(rejected).flat_map(|&row| self.row(row)).copied().collect();
        GroupTable { columns: self.columns.clone(), codes, accepted: accepted.len() }
    }

    pub(crate) fn columns(&self) -> &[GroupColumn] {
        &self.columns
    }

    /// The number of all rows.
    pub(crate) fn rows(&self) -> usize {
        self.codes.len() / self.columns.len()
    }

    /// The number of accepted rows, which come first.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted
    }

    pub(crate) fn row(&self, row: usize) -> &[u16] {
        &self.codes[row * self.columns.len()..][..self.columns.len()]
    }

    pub(crate) fn code(&self, row: usize, column: usize) -> u16 {
        self.codes[row * self.columns.len() + column]
    }

    /// The code of a value from the levels of the features of its column.
    pub(crate) fn code_of(&self, column: usize, levels: &[u16]) -> u16 {
        match (&self.columns[column].kind, levels) {
            (GroupColumnKind::Words { words }, [level]) if words.len() == 2 => u16::from(*level > 0),
            (_, [level]) => *level,
            // A row has exactly one word of a one-hot column.
            (_, levels) => levels.iter().position(|level| *level > 0).unwrap_or(0) as u16,
        }
    }

    /// The cost of a change from one row to another under the default metric: squares of
    /// differences divided by the spread, and 1 for another word. `None` is the word "mixed".
    pub(crate) fn distance(&self, row: &[u16], other: &[Option<u16>]) -> f64 {
        let costs = self.columns.iter().zip(row).zip(other).map(|((column, &code), &other)| match &column.kind {
            GroupColumnKind::Ordered { positions, .. } => {
                let there = other.map_or(0.0, |other| positions[usize::from(other)]);
                (positions[usize::from(code)] - there).powi(2)
            }
            GroupColumnKind::Words { .. } => f64::from(u8::from(other != Some(code))),
        });
        costs.sum()
    }

    /// The spread of each column with an order.
    pub(crate) fn spreads(&self) -> BTreeMap<String, f64> {
        let spread = |column: &GroupColumn| match column.kind {
            GroupColumnKind::Ordered { spread, .. } => Some((column.name.clone(), spread)),
            GroupColumnKind::Words { .. } => None,
        };
        self.columns.iter().filter_map(spread).collect()
    }

    /// The values of some columns as one text that does not depend on the scale.
    pub(crate) fn name_of(&self, columns: &[usize], codes: &[u16]) -> String {
        let value = |(&column, &code): (&usize, &u16)| match &self.columns[column].kind {
            GroupColumnKind::Ordered { positions, spread } => (positions[usize::from(code)] * spread).to_string(),
            GroupColumnKind::Words { words } => words[usize::from(code)].clone(),
        };
        columns.iter().zip(codes).map(value).collect::<Vec<_>>().join("\n")
    }
}

fn kind(name: &str, features: &[Feature], spreads: Option<&BTreeMap<String, f64>>) -> GroupColumnKind {
    let first = &features[0];
    if features.len() > 1 || first.one_hot.is_some() {
        let word = |feature: &Feature| feature.one_hot.as_ref().map_or(String::new(), |part| part.category.clone());
        return GroupColumnKind::Words { words: features.iter().map(word).collect() };
    }
    if first.is_categorical() {
        return GroupColumnKind::Words { words: first.words().to_vec() };
    }
    let known = spreads.and_then(|spreads| spreads.get(name)).copied();
    let spread = known.unwrap_or_else(|| first.value_range());
    let positions = (0..=first.max_level()).map(|level| first.bounded(first.middle(level)) / spread).collect();
    GroupColumnKind::Ordered { positions, spread }
}
