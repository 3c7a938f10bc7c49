//! What a build did, for people and programs.

use ifonly_core::manifest::Manifest;
use ifonly_core::schema::{Feature, Kind};
use std::fmt;

/// What was built. Its `Display` is the table that a terminal shows.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// Rows in the data.
    pub rows_read: u64,
    /// Rows in the bundle.
    pub rows_accepted: u64,
    /// The features in order.
    pub features: Vec<FeatureReport>,
    /// Columns that did not become features.
    pub left_out: Vec<LeftOut>,
    /// Why the recommended scheme is not on offer, if it is not.
    pub not_recommended: Option<String>,
    /// Bytes on the disk.
    pub sizes: Sizes,
    /// What was written.
    pub manifest: Manifest,
}

/// One feature.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FeatureReport {
    /// Its name.
    pub name: String,
    /// `numeric`, `ordinal` or `categorical`.
    pub kind: &'static str,
    /// R_k, the largest level.
    pub range: u32,
    /// Its bounds or values, shortened.
    pub values: String,
    /// How many values lay outside the bounds and were moved to the nearest one.
    pub clamped: u64,
}

/// A column that did not become a feature.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct LeftOut {
    /// Its name.
    pub column: String,
    /// Why.
    pub reason: String,
}

/// Bytes of a bundle's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Sizes {
    /// `manifest.json`.
    pub manifest: u64,
    /// `rows`.
    pub rows: u64,
    /// `records`.
    pub records: u64,
}

impl FeatureReport {
    /// About this feature.
    pub fn new(feature: &Feature, clamped: u64) -> FeatureReport {
        let (kind, values) = match &feature.kind {
            Kind::Numeric { min, max, .. } => ("numeric", format!("{min} to {max}")),
            Kind::Ordinal { ranks } => ("ordinal", shown(ranks, " < ")),
            Kind::Categorical { categories, .. } => ("categorical", shown(categories, ", ")),
        };
        let values = match &feature.unit {
            Some(unit) => format!("{values} {unit}"),
            None => values,
        };
        FeatureReport { name: feature.name.clone(), kind, range: feature.range(), values, clamped }
    }
}

impl Report {
    /// What its author may want to look at.
    pub fn warnings(&self) -> Vec<String> {
        let left_out = self.left_out.iter().map(|out| format!("column {:?} is left out: {}", out.column, out.reason));
        let clamped = self.features.iter().filter(|feature| feature.clamped > 0).map(|feature| {
            let FeatureReport { name, clamped, values, .. } = feature;
            format!("feature {name:?}: {clamped} values outside {values} were moved to the nearest bound")
        });
        let nominal = self.manifest.schema().features().iter().filter(|feature| feature.is_nominal());
        let nominal: Vec<String> = nominal.map(|feature| format!("{:?}", feature.name)).collect();
        let labels = (!nominal.is_empty()).then(|| {
            let names = nominal.join(", ");
            format!("more than two categories in {names}: only table schemes are offered; one_hot = true lifts that")
        });
        let scheme = self.not_recommended.iter().map(|reason| {
            let default = &self.manifest.contents().default_scheme;
            format!("the default scheme is {default}, because the recommended one cannot be offered: {reason}")
        });
        left_out.chain(clamped).chain(labels).chain(scheme).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_features(f, &self.features)?;
        for warning in self.warnings() {
            writeln!(f, "warning: {warning}")?;
        }
        let Sizes { manifest, rows, records } = self.sizes;
        writeln!(f, "{} of {} rows accepted", self.rows_accepted, self.rows_read)?;
        writeln!(f, "{rows} bytes of rows, {records} bytes of records, {manifest} bytes of manifest")
    }
}

/// The features as a table.
pub(crate) fn write_features(f: &mut fmt::Formatter<'_>, features: &[FeatureReport]) -> fmt::Result {
    let width = features.iter().map(|feature| feature.name.chars().count()).max().unwrap_or(0).max("feature".len());
    writeln!(f, "{:width$}  {:11}  {:>5}  values", "feature", "kind", "R")?;
    for FeatureReport { name, kind, range, values, .. } in features {
        writeln!(f, "{name:width$}  {kind:11}  {range:>5}  {values}")?;
    }
    Ok(())
}

/// The first few words.
fn shown(words: &[String], between: &str) -> String {
    const SHOWN: usize = 6;
    let mut parts: Vec<&str> = words.iter().take(SHOWN).map(String::as_str).collect();
    let more = format!("… ({} in all)", words.len());
    if words.len() > SHOWN {
        parts.push(&more);
    }
    parts.join(between)
}
