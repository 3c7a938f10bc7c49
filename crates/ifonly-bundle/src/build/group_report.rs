//! What a build reports about groups and about the exposure of the original rows.

use crate::build::report::wrapped;
use crate::error::counted;
use ifonly_values::manifest::GroupTerms;
use std::fmt;

/// The groups of a bundle. Only `terms` is published.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct GroupReport {
    /// What the manifest states.
    pub terms: GroupTerms,
    /// Number of groups, which is the number of records.
    pub groups: u64,
    /// Number of accepted rows in these groups.
    pub people: u64,
    /// Number of accepted rows in no group.
    pub left_out: u64,
    /// Number of representatives that the model did not accept; `None` without a model.
    pub refused_by_model: Option<u64>,
    /// Normalised certainty penalty: the span of a column in a group divided by that in the table,
    /// on average over columns and people. 0 means groups of equal people.
    pub certainty_penalty: f64,
    /// Number of records with a word "mixed".
    pub mixed_groups: u64,
    /// Number of records that equal an accepted row in every column.
    pub equal_to_row: u64,
    /// Number of records that equal exactly one accepted row.
    pub equal_to_unique_row: u64,
}

impl fmt::Display for GroupReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GroupReport { terms, groups, people, left_out, .. } = self;
        let (records, people) = (counted(*groups, "record"), counted(*people, "accepted row"));
        writeln!(f, "{}", wrapped(&format!("{records} for {people}; every record {}", terms.notice())))?;
        if *left_out > 0 {
            writeln!(f, "{} in no group", counted(*left_out, "accepted row"))?;
        }
        if let Some(refused) = self.refused_by_model {
            writeln!(f, "{} that the model does not accept were left out", counted(refused, "representative"))?;
        }
        if self.mixed_groups > 0 {
            writeln!(
                f,
                "{} with a word \"mixed\", because no word has a majority",
                counted(self.mixed_groups, "record")
            )?;
        }
        if self.equal_to_row > 0 {
            let (equal, unique) = (counted(self.equal_to_row, "record"), self.equal_to_unique_row);
            let text = format!(
                "{equal} equal an accepted row in every column, because its values are the medians and majorities of \
                 its group; {unique} of them equal exactly one row"
            );
            writeln!(f, "{}", wrapped(&text))?;
        }
        Ok(())
    }
}

/// The exposure of the accepted rows of a table.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Exposure {
    /// Number of accepted rows.
    pub rows: u64,
    /// Number of them that are unique in all columns together.
    pub unique: u64,
    /// Number of combinations of three columns that were examined.
    pub combinations: u64,
    /// Number of rows that are unique in a combination, on average.
    pub unique_in_three: f64,
    /// The combination with the most unique rows, and their number.
    pub worst_three: Option<([String; 3], u64)>,
    /// Number of rejected rows that were asked for.
    pub questions: u64,
    /// Number of accepted rows among which the nearest were searched: a sample of large tables.
    pub searched: u64,
    /// Median and 90th percentile of the distance to the nearest accepted row.
    pub ungrouped: Option<[f64; 2]>,
    /// The same for groups, by size.
    pub grouped: Vec<GroupPrice>,
    /// The largest size at which the median distance is at most 1.5 times that without groups.
    pub recommended: Option<u32>,
}

/// The price of grouping.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct GroupPrice {
    /// The size of the groups.
    pub k: u32,
    /// Median and 90th percentile of the distance to the nearest representative.
    pub distance: [f64; 2],
    /// Both divided by those without groups; `None` if these are 0.
    pub ratio: [Option<f64>; 2],
}

impl fmt::Display for Exposure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |count: f64| 100.0 * count / self.rows.max(1) as f64;
        let mut text =
            format!("exposure: {:.1}% of the accepted rows are unique in all columns", share(self.unique as f64));
        if let Some((columns, count)) = &self.worst_three {
            let (mean, worst) = (share(self.unique_in_three), share(*count as f64));
            text +=
                &format!(", {mean:.1}% in three columns on average, and at most {worst:.1}% ({})", columns.join(", "));
        }
        writeln!(f, "{}", wrapped(&text))?;
        let Some([median, high]) = self.ungrouped else { return Ok(()) };
        let sampled = if self.searched < self.rows { format!(", of {} sampled", self.searched) } else { String::new() };
        writeln!(
            f,
            "distance of {} rejected rows to the nearest{sampled}, median and 90th percentile:",
            self.questions
        )?;
        writeln!(f, "  without groups {median:.3} and {high:.3}")?;
        let times = |ratio: &Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        for GroupPrice { k, distance: [median, high], ratio: [one, two] } in &self.grouped {
            writeln!(f, "  --group {k:<6} {median:.3} and {high:.3}, {} and {} times as far", times(one), times(two))?;
        }
        match self.recommended {
            Some(k) => writeln!(f, "recommended: --group {k}, the largest with a median at most 1.5 times as far"),
            None => writeln!(f, "no size of groups keeps the median below 1.5 times; weigh the price against exposure"),
        }
    }
}
