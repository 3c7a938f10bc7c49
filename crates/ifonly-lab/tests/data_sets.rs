//! The paper's data sets, where they are at hand: the facts that a reproduction starts from.

use std::path::PathBuf;

use ifonly_lab::data::{COMPAS, DataFile, WINE, compas, wine};
use ifonly_lab::leakage::{Population, Scheme, Setting, exact};

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
    let setting = Setting::new(Scheme::named("baseline").unwrap(), split.r, 20, 5);
    let population = Population::Rows { rows: &split.accepted, queries: &split.rejected };
    let bits = exact(&setting, population).unwrap();
    assert!((bits - 33.780519).abs() < 0.5e-6, "{bits}");
    assert!((bits / 2003f64.log2() - 3.079931).abs() < 0.5e-6);
}
