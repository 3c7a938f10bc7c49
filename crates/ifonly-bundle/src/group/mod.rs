//! Groups of at least k accepted people, and one representative for each. The step is between
//! encoding and writing, in a build with `group`.
//!
//! 1. `table` holds the encoded rows of all parts, accepted and rejected.
//! 2. `cuts` divides the accepted rows at medians into leaves of at most [`MAX_LEAF`] rows.
//! 3. `mdav` divides each leaf into groups, by the distance that questions use.
//! 4. `diversity` merges groups in which a sensitive column has too few values.
//! 5. `representative` computes the record of each group: median levels and majority words.
//! 6. `publish` derives the public schema from the representatives, so that bounds and deviations
//!    in the manifest do not come from single rows.
//!
//! `exposure` reports how recognisable the original rows are, and what grouping costs.
//!
//! The groups depend only on the rows and their order. They do not depend on the number of threads
//! or on how the data was divided among workers.

pub(crate) mod cuts;
pub(crate) mod diversity;
pub(crate) mod exposure;
pub(crate) mod mdav;
pub(crate) mod publish;
pub(crate) mod representative;
pub(crate) mod table;
#[cfg(test)]
mod tests;
pub(crate) mod trial;

use crate::error::{BuildError, counted};
use cuts::{CutFile, CutTree};
use diversity::Diversity;
use rayon::prelude::*;
use representative::Representative;
use std::collections::BTreeMap;
use table::GroupTable;

/// Maximum number of rows of a leaf. Larger leaves would give slightly better groups, but MDAV is
/// quadratic.
pub(crate) const MAX_LEAF: usize = 256;

/// What a build asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupRequest {
    pub(crate) k: usize,
    /// Indices of columns that stay exact.
    pub(crate) keep: Vec<usize>,
    pub(crate) diversity: Diversity,
}

/// The groups of a table.
#[derive(Debug, Default)]
pub(crate) struct Grouping {
    pub(crate) representatives: Vec<Representative>,
    /// Accepted rows that are in no group.
    pub(crate) left_out: u64,
    /// Where the table was cut, for the next version of the dataset.
    pub(crate) cuts: CutFile,
}

/// Divides the accepted rows into groups. Uses the cuts of an earlier version where they still
/// leave enough rows on both sides.
pub(crate) fn group(
    table: &GroupTable,
    request: &GroupRequest,
    earlier: Option<&CutFile>,
) -> Result<Grouping, BuildError> {
    let k = request.k;
    if k < 2 || k > table.accepted() {
        let rows = counted(table.accepted() as u64, "accepted row");
        return Err(BuildError::Settings(format!(
            "group = {k}: must be 2 to the number of rows, but there are {rows}"
        )));
    }
    let mut partitions: BTreeMap<Vec<u16>, (Vec<u32>, Vec<u32>)> = BTreeMap::new();
    for row in 0..table.rows() {
        let key = request.keep.iter().map(|&column| table.code(row, column)).collect();
        let (accepted, rejected) = partitions.entry(key).or_default();
        // The number of rows is at most `Params::MAX_ROWS`, which fits.
        (if row < table.accepted() { accepted } else { rejected }).push(row as u32);
    }
    let divided: Vec<Option<(String, CutTree, Vec<Representative>)>> = partitions
        .into_par_iter()
        .map(|(key, (accepted, rejected))| {
            if accepted.len() < k || !request.diversity.holds(table, &accepted) {
                return None;
            }
            let name = table.name_of(&request.keep, &key);
            let known = earlier.and_then(|file| file.trees.get(&name));
            let (tree, representatives) = cuts::divide(table, request, accepted, rejected, known, 0);
            Some((name, tree, representatives))
        })
        .collect();
    let mut grouping = Grouping::default();
    grouping.cuts.spreads = table.spreads();
    for (name, tree, representatives) in divided.into_iter().flatten() {
        grouping.cuts.trees.insert(name, tree);
        grouping.representatives.extend(representatives);
    }
    let grouped: usize = grouping.representatives.iter().map(|representative| representative.rows.len()).sum();
    grouping.left_out = (table.accepted() - grouped) as u64;
    if grouping.representatives.is_empty() {
        Err(BuildError::Settings(format!(
            "group = {k}: no group is possible, because every combination of the columns in `keep` has fewer than {k} \
             accepted rows or too few sensitive values; keep fewer columns or lower l"
        )))
    } else {
        Ok(grouping)
    }
}
