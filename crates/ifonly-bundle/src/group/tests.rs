//! Properties of groups on random tables.

use super::diversity::Diversity;
use super::table::{GroupColumn, GroupColumnKind, GroupTable};
use super::*;

fn random_table(rows: usize, accepted: usize, seed: u64) -> GroupTable {
    let mut state = seed;
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let ordered = |levels: usize| GroupColumnKind::Ordered {
        positions: (0..levels).map(|level| level as f64 / (levels - 1) as f64).collect(),
        spread: 1.0,
    };
    let words = |count: usize| GroupColumnKind::Words { words: (0..count).map(|word| word.to_string()).collect() };
    let kinds = [ordered(1000), words(2), ordered(5), words(9), ordered(100)];
    let limits = [1000, 2, 5, 9, 100];
    let mut codes: Vec<u16> = vec![];
    for row in 0..rows {
        if row > 0 && below(5) == 0 {
            // A duplicate of the previous row.
            codes.extend_from_within(codes.len() - limits.len()..)
        } else {
            codes.extend(limits.map(|limit| below(limit).min(below(limit)) as u16))
        }
    }
    let column = |(index, kind): (usize, GroupColumnKind)| GroupColumn { name: index.to_string(), kind };
    GroupTable::with_rows(kinds.into_iter().enumerate().map(column).collect(), codes, accepted)
}

fn check(table: &GroupTable, request: &GroupRequest) -> Grouping {
    let grouping = group(table, request, None).unwrap();
    let mut rows: Vec<u32> = grouping.representatives.iter().flat_map(|one| one.rows.clone()).collect();
    rows.sort_unstable();
    assert!(rows.windows(2).all(|pair| pair[0] < pair[1]), "a row is in two groups");
    assert_eq!(rows.len() as u64 + grouping.left_out, table.accepted() as u64);
    assert!(rows.last().is_none_or(|row| (*row as usize) < table.accepted()), "a rejected row is in a group");
    for one in &grouping.representatives {
        assert!(one.rows.len() >= request.k);
        assert!(request.diversity.holds(table, &one.rows));
        // The representative of the same rows in a table without all other rows is the same.
        let alone = table.sample(&one.rows.iter().map(|&row| row as usize).collect::<Vec<_>>(), &[]);
        let again = group(&alone, &GroupRequest { k: one.rows.len(), ..GroupRequest::default() }, None).unwrap();
        assert_eq!(again.representatives[0].codes, one.codes);
    }
    grouping
}

#[test]
fn representatives_are_functions_of_their_group_of_at_least_k_accepted_rows() {
    for (seed, rows, accepted, k) in [(1, 900, 700, 5), (2, 300, 300, 10), (3, 3000, 1200, 20), (4, 500, 450, 200)] {
        let table = random_table(rows, accepted, seed);
        let grouping = check(&table, &GroupRequest { k, ..GroupRequest::default() });
        assert_eq!(grouping.left_out, 0);
        assert!(grouping.representatives.iter().all(|one| one.rows.len() < 2 * k || k > 100));
        let diversity = Diversity { columns: vec![1, 3], l: 2 };
        check(&table, &GroupRequest { k, diversity: diversity.clone(), keep: vec![] });
        check(&table, &GroupRequest { k, diversity: Diversity { columns: vec![3], l: 2 }, keep: vec![1] });
    }
}

#[test]
fn equal_rows_form_groups_without_any_cut() {
    let equal: Vec<usize> = vec![3; 2000];
    let table = random_table(10, 10, 7).sample(&equal, &[]);
    let grouping = check(&table, &GroupRequest { k: 10, ..GroupRequest::default() });
    assert!(grouping.representatives.len() >= 100);
    assert!(grouping.cuts.trees.values().all(|tree| *tree == CutTree::Leaf));
}

#[test]
fn groups_do_not_depend_on_the_number_of_threads() {
    let table = random_table(9000, 8000, 5);
    let request = GroupRequest { k: 10, ..GroupRequest::default() };
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| group(&table, &request, None).unwrap().representatives)
    };
    assert!(on(1) == on(3));
}

/// A cut at the median and MDAV both need ties to be decided: groups by brute force on one column.
#[test]
fn mdav_takes_the_rows_nearest_to_the_extremes() {
    let positions: Vec<f64> = (0..100).map(f64::from).collect();
    let kind = GroupColumnKind::Ordered { positions, spread: 1.0 };
    let columns = vec![GroupColumn { name: "a".into(), kind }];
    let codes: Vec<u16> = vec![0, 99, 50, 1, 98, 51, 2, 97, 52, 49];
    let table = GroupTable::with_rows(columns, codes.clone(), codes.len());
    let rows: Vec<u32> = (0..10).collect();
    let groups: Vec<Vec<u16>> = mdav::split(&table, 3, &rows)
        .into_iter()
        .map(|rows| rows.into_iter().map(|row| codes[row as usize]).collect())
        .collect();
    assert_eq!(groups, [vec![0, 1, 2], vec![99, 98, 97], vec![50, 51, 52, 49]]);
}
