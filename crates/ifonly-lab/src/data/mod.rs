//! The data sets of the paper: their origin, their checksums, and how their values become levels.
//!
//! The files are not part of the project. A file with another checksum is used too, but the report
//! then says that the numbers may differ.

mod compas;
mod table;
mod wine;

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

pub use compas::{CompasSplit, compas};
pub use wine::{UnitQuantiser, Wine, WineDatabase, wine};

use crate::LabError;

/// A file that an experiment reads.
#[derive(Debug, Clone, Copy)]
pub struct DataFile {
    /// The file name in the data folder.
    pub name: &'static str,
    /// The SHA-256 of the file from which the documented numbers were computed.
    pub sha256: &'static str,
    /// The source of the original, and how to make the file from it.
    pub origin: &'static str,
}

/// White wines, by quality.
pub const WINE: DataFile = DataFile {
    name: "wine-white.csv",
    sha256: "0f9b72c6f593bd8b91edc4f5584f0939849e843c3584a4a2fa5b6f2e25be5277",
    origin: "UCI Machine Learning Repository, data set 186 \"Wine Quality\" (Cortez et al. 2009), \
         https://archive.ics.uci.edu/dataset/186/wine+quality: winequality-white.csv with commas for semicolons and \
         underscores for spaces in the header",
};

/// Two-year recidivism scores (COMPAS).
pub const COMPAS: DataFile = DataFile {
    name: "compas.csv",
    sha256: "f178844949c3fbd97ab984cd9e67460c3c2318a7cf8fc8d92d3c3426279d6e11",
    origin: "ProPublica, \"compas-analysis\", https://github.com/propublica/compas-analysis: \
         compas-scores-two-years.csv cut to the 6172 rows with -30 <= days_b_screening_arrest <= 30, is_recid != -1, \
         c_charge_degree != O and score_text != N/A, and to the columns age, sex, race, age_cat, priors_count, \
         juv_fel_count, juv_misd_count, juv_other_count, days_b_screening_arrest, jail_days (whole days between \
         c_jail_in and c_jail_out), charge_degree and is_recid",
};

impl DataFile {
    /// The path of the file in this folder, if it exists.
    pub fn find(&self, folder: Option<&Path>) -> Option<PathBuf> {
        folder.map(|folder| folder.join(self.name)).filter(|path| path.is_file())
    }

    /// Whether the checksum of the file is the known one.
    pub fn is_genuine(&self, path: &Path) -> Result<bool, LabError> {
        Ok(self.digest(path)? == self.sha256)
    }

    /// The SHA-256 checksum of the file at this path.
    pub fn digest(&self, path: &Path) -> Result<String, LabError> {
        let bytes = std::fs::read(path).map_err(|source| LabError::File { path: path.into(), source })?;
        Ok(hex::encode(Sha256::digest(&bytes)))
    }
}

/// The data folder: `given`, or the environment variable `IFONLY_DATA`, if either is set.
pub fn folder(given: Option<&Path>) -> Option<PathBuf> {
    given.map(Path::to_path_buf).or_else(|| std::env::var_os("IFONLY_DATA").map(PathBuf::from))
}

/// The floor bins of the paper: the first bin of `0..r` with `lo ≤ v < lo + step` in floating
/// point; r if there is no such bin.
///
/// Rounding leaves gaps between some bins. A value in a gap gets the top bin, far from its
/// neighbours. Use this function only to reproduce the numbers of the paper.
pub(crate) fn first_bin(value: f64, r: u32) -> u32 {
    let step = 1.0 / f64::from(r);
    let contains = |bin: &u32| {
        let low = f64::from(*bin) * step;
        low <= value && value < low + step
    };
    (0..r).find(contains).unwrap_or(r)
}

#[cfg(test)]
mod tests {
    use super::first_bin;

    #[test]
    fn the_bins_of_the_paper_have_gaps_in_floating_point() {
        assert_eq!((first_bin(0.0, 10), first_bin(0.55, 10), first_bin(1.0, 10)), (0, 5, 10));
        // Volatile acidity has multiples of 1/1020. Some are in a gap between two of the 99 bins.
        let in_top_bin = (0..1020).filter(|&i| first_bin(f64::from(i) / 1020.0, 99) == 99).count();
        let expected = (0..1020).filter(|&i| f64::from(i) / 1020.0 * 99.0 >= 99.0).count();
        assert!(in_top_bin > expected, "{in_top_bin} {expected}");
    }
}
