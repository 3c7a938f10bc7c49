//! The grouping of a dataset, as the manifest states it. Every record of such a dataset is computed
//! from a group of at least k accepted people.

use super::{ManifestError, refuse};
use crate::schema::Schema;
use ifonly_core::params::Params;

/// The only method: cuts at medians, then MDAV (maximum distance to average vector) within each
/// leaf. A representative has the median level or the majority word of its group.
pub const GROUP_METHOD: &str = "cuts-mdav";

/// How accepted people were grouped.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupTerms {
    /// The method, [`GROUP_METHOD`].
    pub method: String,
    /// Every record stands for at least this number of accepted people.
    pub k: u32,
    /// Columns in which all people of a group have the same value.
    pub keep: Vec<String>,
    /// Columns of which every group has at least `l` values, none with more than 80 % of its
    /// people.
    pub sensitive: Vec<String>,
    /// The number of values of sensitive columns; 1 without such columns.
    pub l: u32,
    /// Accepted people that no record stands for, rounded up to a multiple of k.
    pub left_out: u64,
}

impl GroupTerms {
    /// The sentence that every surface shows.
    pub fn notice(&self) -> String {
        GroupTerms::notice_for(self.k.into())
    }

    /// The sentence for groups of at least k people.
    pub fn notice_for(k: u64) -> String {
        format!("stands for at least {k} accepted people; nobody's own record")
    }

    pub(super) fn check(&self, schema: &Schema) -> Result<(), ManifestError> {
        if self.method != GROUP_METHOD {
            return refuse("groups.method", &self.method, format!("must be {GROUP_METHOD}"));
        }
        if !(2..=Params::MAX_ROWS as u64).contains(&self.k.into()) {
            return refuse("groups.k", self.k, format!("must be 2 to {}", Params::MAX_ROWS));
        }
        if self.l == 0 || self.l > self.k || self.l > 1 && self.sensitive.is_empty() {
            return refuse("groups.l", self.l, "must be 1 to k, and 1 without sensitive columns");
        }
        if !self.left_out.is_multiple_of(self.k.into()) {
            return refuse("groups.left_out", self.left_out, "must be a multiple of k");
        }
        let columns = schema.columns();
        let unknown = |name: &&String| !columns.iter().any(|column| column.name == name.as_str());
        match self.keep.iter().chain(&self.sensitive).find(unknown) {
            Some(name) => refuse("groups", name, "the schema has no such column"),
            None => Ok(()),
        }
    }
}
