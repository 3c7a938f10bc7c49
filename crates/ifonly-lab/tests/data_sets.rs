//! The paper's data sets, where they are at hand: the facts that a reproduction starts from.

use std::path::PathBuf;

use ifonly_lab::data::{COMPAS, DataFile, UnitQuantiser, WINE, compas, wine};
use ifonly_lab::leakage::{LeakageModel, LeakageScheme, Population, exact};
use ifonly_lab::reproduce::wine::share_right;

/// The file, or none: then there is nothing to test, and the test says so.
fn find(file: DataFile) -> Option<PathBuf> {
    let beside = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    let folder = std::env::var_os("IFONLY_DATA").map_or(beside, PathBuf::from);
    let found = file.find(Some(&folder));
    if found.is_none() {
        eprintln!("skipped: no {} in {}", file.name, folder.display());
    }
    found
}

#[test]
fn wine_has_the_papers_rows() {
    let Some(path) = find(WINE) else { return };
    assert!(WINE.is_genuine(&path).unwrap());
    let wine = wine(&path).unwrap();
    assert_eq!((wine.accepted.len(), wine.rejected.len()), (3788, 183));
}

#[test]
fn compas_has_the_papers_rows_and_its_true_leakage() {
    let Some(path) = find(COMPAS) else { return };
    assert!(COMPAS.is_genuine(&path).unwrap());
    let split = compas(&path).unwrap();
    assert_eq!((split.rejected.len(), split.accepted.len()), (560, 717));
    assert_eq!(split.accepted[0].len(), 20);
    let setting = LeakageModel::new(LeakageScheme::named("baseline").unwrap(), split.r, 20, 5);
    let population = Population::Rows { rows: &split.accepted, queries: &split.rejected };
    let bits = exact(&setting, population).unwrap();
    assert!((bits - 33.780519).abs() < 0.5e-6, "{bits}");
    assert!((bits / 2003f64.log2() - 3.079931).abs() < 0.5e-6);
}

/// A few rounds of the accuracy figure through the real protocol; the whole figure is `ifonly
/// reproduce`'s.
#[test]
fn wine_accuracies_are_those_known_within_four_standard_errors() {
    const ROUNDS: u64 = 8;
    let Some(path) = find(WINE) else { return };
    let wine = wine(&path).unwrap();
    for (levels, d_min, known) in [(20, 1, 0.631), (20, 50, 0.249), (100, 1, 0.914), (100, 50, 0.874)] {
        let share = |round| {
            let database = wine.round(500, 50, 5, round);
            share_right(&wine, &database, UnitQuantiser::PaperBins, levels, d_min, round).unwrap()
        };
        let shares: Vec<f64> = (0..ROUNDS).map(share).collect();
        let mean = shares.iter().sum::<f64>() / ROUNDS as f64;
        let variance = shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / (ROUNDS - 1) as f64;
        let error = (variance / ROUNDS as f64).sqrt().max(0.01);
        assert!((mean - known).abs() < 4.0 * error, "n={levels}, d_min={d_min}: {mean} ± {error}, known {known}");
    }
}
