//! The data sets of the paper: their rows, the leakage on COMPAS and the accuracy on wine. A test
//! without its data file is skipped.

use std::path::PathBuf;

use ifonly_lab::data::{COMPAS, DataFile, UnitQuantiser, WINE, compas, wine};
use ifonly_lab::leakage::{LeakageModel, LeakageScheme, Population, exact};
use ifonly_lab::reproduce::wine::fraction_right;

/// The path of the file, if it exists. Otherwise prints that the test is skipped.
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
fn wine_has_the_rows_of_the_paper() {
    let Some(path) = find(WINE) else { return };
    assert!(WINE.is_genuine(&path).unwrap());
    let wine = wine(&path).unwrap();
    assert_eq!((wine.accepted.len(), wine.rejected.len()), (3788, 183));
}

#[test]
fn compas_has_the_rows_of_the_paper_and_the_documented_leakage() {
    let Some(path) = find(COMPAS) else { return };
    assert!(COMPAS.is_genuine(&path).unwrap());
    let split = compas(&path).unwrap();
    assert_eq!((split.rejected.len(), split.accepted.len()), (560, 717));
    assert_eq!(split.accepted[0].len(), 20);
    let model = LeakageModel::new(LeakageScheme::named("baseline").unwrap(), split.r, 20, 5);
    let population = Population::Rows { rows: &split.accepted, queries: &split.rejected };
    let bits = exact(&model, population).unwrap();
    assert!((bits - 33.780519).abs() < 0.5e-6, "{bits}");
    assert!((bits / 2003f64.log2() - 3.079931).abs() < 0.5e-6);
}

/// A few rounds of the accuracy figure through the real protocol. `ifonly reproduce` computes the
/// whole figure.
#[test]
fn wine_accuracies_are_within_four_standard_errors_of_the_documented_ones() {
    const ROUNDS: u64 = 8;
    let Some(path) = find(WINE) else { return };
    let wine = wine(&path).unwrap();
    for (levels, d_min, known) in [(20, 1, 0.631), (20, 50, 0.249), (100, 1, 0.914), (100, 50, 0.874)] {
        let share = |round| {
            let database = wine.round(500, 50, 5, round);
            fraction_right(&wine, &database, UnitQuantiser::PaperBins, levels, d_min, round).unwrap()
        };
        let shares: Vec<f64> = (0..ROUNDS).map(share).collect();
        let mean = shares.iter().sum::<f64>() / ROUNDS as f64;
        let variance = shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / (ROUNDS - 1) as f64;
        let error = (variance / ROUNDS as f64).sqrt().max(0.01);
        assert!((mean - known).abs() < 4.0 * error, "n={levels}, d_min={d_min}: {mean} ± {error}, known {known}");
    }
}
