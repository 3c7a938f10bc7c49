//! Representatives: the median level of each ordered column and the majority word of every other
//! one. A word without a majority becomes "mixed". No representative is chosen from the rows.

use super::GroupRequest;
use super::cuts::frequencies;
use super::table::{GroupColumnKind, GroupTable};

/// One record: a function of the rows of a group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Representative {
    /// The code of each column; `None` means mixed.
    pub(crate) codes: Vec<Option<u16>>,
    /// The accepted rows that it stands for.
    pub(crate) rows: Vec<u32>,
    /// The percentage of accepted rows among the 2k rows of its leaf nearest to it; `None` if the
    /// table has no rejected rows.
    pub(crate) accepted_percent: Option<u8>,
}

/// The representatives of the groups of a leaf, with the rejected rows of the leaf.
pub(crate) fn of_leaf(
    table: &GroupTable,
    request: &GroupRequest,
    groups: Vec<Vec<u32>>,
    rejected: &[u32],
) -> Vec<Representative> {
    let accepted: Vec<u32> = groups.iter().flatten().copied().collect();
    let has_rejected = table.rows() > table.accepted();
    let of = |group: Vec<u32>| {
        let codes = codes(table, &group);
        let percent = has_rejected.then(|| accepted_percent(table, &codes, &accepted, rejected, 2 * request.k));
        Representative { codes, rows: group, accepted_percent: percent }
    };
    groups.into_iter().map(of).collect()
}

fn codes(table: &GroupTable, rows: &[u32]) -> Vec<Option<u16>> {
    let code = |(column, kind): (usize, &GroupColumnKind)| match kind {
        GroupColumnKind::Ordered { .. } => {
            let mut codes: Vec<u16> = rows.iter().map(|&row| table.code(row as usize, column)).collect();
            let middle = (codes.len() - 1) / 2;
            Some(*codes.select_nth_unstable(middle).1)
        }
        GroupColumnKind::Words { words } => {
            let counts = frequencies(table, column, words.len(), rows);
            let majority = counts.iter().position(|&count| count as usize * 2 > rows.len());
            majority.map(|word| word as u16)
        }
    };
    table.columns().iter().map(|column| &column.kind).enumerate().map(code).collect()
}

fn accepted_percent(table: &GroupTable, codes: &[Option<u16>], accepted: &[u32], rejected: &[u32], count: usize) -> u8 {
    let near = |rows: &[u32], is_accepted: bool| {
        let distance = |&row: &u32| (table.distance(table.row(row as usize), codes), !is_accepted, row);
        rows.iter().map(distance).collect::<Vec<_>>()
    };
    let mut all = near(accepted, true);
    all.extend(near(rejected, false));
    let count = count.min(all.len());
    if count < all.len() {
        all.select_nth_unstable_by(count, |a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    }
    let accepted = all[..count].iter().filter(|(_, is_rejected, _)| !is_rejected).count();
    // At most 100.
    (accepted * 100 / count.max(1)) as u8
}
