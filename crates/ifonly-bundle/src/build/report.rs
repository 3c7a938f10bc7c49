//! What a build did, for people and programs.

use crate::format::summary::{SchemeSummary, summarise};
use ifonly_core::scheme;
use ifonly_values::manifest::Manifest;
use ifonly_values::schema::{Feature, FeatureKind, Notation};
use std::fmt;
use std::path::PathBuf;

/// What was built. Its `Display` is the table that a terminal shows.
#[derive(Clone, Debug, serde::Serialize)]
pub struct BuildReport {
    /// Rows in the data.
    pub rows_read: u64,
    /// Rows in the bundle.
    pub rows_accepted: u64,
    /// Accepted rows that are not in the bundle because a value was missing.
    pub rows_dropped: u64,
    /// The features in order.
    pub features: Vec<FeatureReport>,
    /// Columns that did not become features.
    pub left_out: Vec<ExcludedColumn>,
    /// Features that alone say whom the mask accepts, where a mask said who was accepted.
    pub telling: Vec<String>,
    /// Why the recommended scheme is not on offer, if it is not.
    pub not_recommended: Option<String>,
    /// The file with the key that signed the records.
    pub signing_key: PathBuf,
    /// Whether that key was made just now.
    pub key_is_new: bool,
    /// Bytes on the disk.
    pub sizes: BundleSizes,
    /// What was written.
    pub manifest: Manifest,
}

/// One feature.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct FeatureReport {
    /// Its name.
    pub name: String,
    /// `numeric`, `ordinal` or `categorical`.
    pub kind: &'static str,
    /// R_k, the largest level.
    pub range: u32,
    /// How many levels values can have; two categories are the first and the last level of their
    /// range.
    pub levels: u32,
    /// How numbers become levels.
    pub scale: &'static str,
    /// The widest interval of numbers that is one level, as people write it; `None` where every
    /// level is one value.
    pub widest: Option<String>,
    /// The share of accepted rows in the fullest level, where rows have been counted.
    pub fullest: Option<f64>,
    /// Which level that is, in values.
    pub fullest_level: Option<String>,
    /// Its bounds or values, shortened.
    pub values: String,
    /// How many values lay outside the bounds and were moved to the nearest one.
    pub clamped: u64,
}

/// A column that did not become a feature.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ExcludedColumn {
    /// Its name.
    pub column: String,
    /// Why.
    pub reason: String,
}

/// Bytes of a bundle's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct BundleSizes {
    /// `manifest.json`.
    pub manifest: u64,
    /// `rows`.
    pub rows: u64,
    /// `records`.
    pub records: u64,
}

impl FeatureReport {
    /// About this feature, whose levels so many rows have; nothing is said about rows that nobody
    /// counted.
    pub fn new(feature: &Feature, clamped: u64, histogram: &[u64]) -> FeatureReport {
        let (kind, scale, values) = match &feature.kind {
            FeatureKind::Numeric { scale, notation } => {
                let (min, max) = scale.bounds();
                ("numeric", scale.name(), format!("{} to {}", notation.write(min), notation.write(max)))
            }
            FeatureKind::Ordinal { ranks } => ("ordinal", "every value", shown(ranks, " < ")),
            FeatureKind::Categorical { categories, .. } => ("categorical", "every value", shown(categories, ", ")),
        };
        let values = match &feature.unit {
            Some(unit) => format!("{values} {unit}"),
            None => values,
        };
        let rows: u64 = histogram.iter().sum();
        let most = (0..).zip(histogram).max_by_key(|(_, count)| **count).filter(|_| rows > 0);
        FeatureReport {
            name: feature.name.clone(),
            kind,
            range: feature.max_level(),
            levels: if feature.words().is_empty() { feature.max_level() + 1 } else { feature.words().len() as u32 },
            scale,
            widest: widest(feature),
            fullest: most.map(|(_, &count)| count as f64 / rows as f64),
            fullest_level: most.and_then(|(level, _)| feature.show_level(level)),
            values,
            clamped,
        }
    }

    /// Whether so many rows fall into one interval that wishes and costs hardly see the feature.
    fn collapses(&self) -> bool {
        self.widest.is_some() && self.fullest.is_some_and(|share| share > 0.25)
    }
}

/// The widest interval of a numeric feature, as a number with its unit; days and seconds for dates.
fn widest(feature: &Feature) -> Option<String> {
    let FeatureKind::Numeric { scale, notation } = &feature.kind else { return None };
    if scale.is_exact() {
        return None;
    }
    let width = |level: u32| scale.interval(level).map(|interval| interval.high - interval.low);
    let widest = (0..=scale.max_level()).filter_map(width).filter(|width| width.is_finite()).fold(0.0, f64::max);
    // Binary fractions leave a tail that nobody wants to read.
    let number = format!("{widest:.3e}").parse::<f64>().unwrap_or(widest);
    Some(match notation {
        Notation::Date => format!("{number} days"),
        Notation::Timestamp => format!("{number} s"),
        _ => number.to_string(),
    })
}

impl BuildReport {
    /// What its author may want to look at.
    pub fn warnings(&self) -> Vec<String> {
        let left_out = self.left_out.iter().map(|out| format!("column {:?} is left out: {}", out.column, out.reason));
        let telling = self.telling.iter().map(|name| {
            format!("feature {name:?} alone says who was accepted: if it is the decision itself, exclude it")
        });
        let clamped = self.features.iter().filter(|feature| feature.clamped > 0).map(|feature| {
            let FeatureReport { name, clamped, values, .. } = feature;
            format!("feature {name:?}: {clamped} values outside {values} were moved to the nearest bound")
        });
        let collapsed = self.features.iter().filter(|feature| feature.collapses()).map(|feature| {
            let FeatureReport { name, fullest, fullest_level, .. } = feature;
            let (share, level) = (100.0 * fullest.unwrap_or_default(), fullest_level.as_deref().unwrap_or_default());
            format!(
                "feature {name:?}: {share:.0}% of the rows are in one level, {level}; another scale (exact, log), more \
                 levels or nearer bounds would tell them apart"
            )
        });
        let terms = &self.manifest.fields().terms;
        let nominal = self.manifest.schema().features().iter().filter(|feature| feature.is_nominal());
        let nominal: Vec<String> = nominal.map(|feature| format!("{:?}", feature.name)).collect();
        let labels = (!nominal.is_empty()).then(|| {
            let names = nominal.join(", ");
            format!("more than two categories in {names}: only table schemes are offered; one_hot = true lifts that")
        });
        let scheme = self.not_recommended.iter().map(|reason| {
            let default = &self.manifest.fields().default_scheme;
            format!("the default scheme is {default}, because the recommended one cannot be offered: {reason}")
        });
        let summary = summarise(&self.manifest);
        // A sealed search is not among the named ones, and gives less.
        let beyond = |offer: &&SchemeSummary| scheme::named(offer.name).is_some_and(|scheme| !scheme.is_gated());
        let extra = summary.schemes.iter().filter(beyond).map(|offer| {
            let repeats = match offer.rounds > 1 && terms.shuffle {
                true => "; its later rounds see the rows in one order, so shuffling protects them less",
                false => "",
            };
            format!(
                "scheme {} gives more away than the gated ones: {}{repeats}. Cheating: {}",
                offer.name,
                offer.learns,
                offer.cheat()
            )
        });
        let extra: Vec<String> = extra.collect();
        let costly = (terms.silent + terms.lying > 0 || terms.verified).then(|| {
            let most = summary.schemes.iter().max_by_key(|offer| (offer.cheat_bits, offer.cheat_records));
            most.map(|offer| {
                format!(
                    "servers to spare and verified answers also serve clients that cheat; with {}: {}",
                    offer.name,
                    offer.cheat()
                )
            })
        });
        let filled = self.manifest.schema().features().iter().filter_map(|feature| {
            let stands = feature.default.as_ref()?;
            Some(format!("feature {:?}: {stands:?} stands for missing values", feature.column()))
        });
        let mut filled: Vec<String> = filled.collect();
        filled.dedup();
        let dropped = (self.rows_dropped > 0)
            .then(|| format!("{} accepted rows are left out, because a value is missing", self.rows_dropped));
        let extra = extra.into_iter().chain(costly.flatten());
        left_out
            .chain(telling)
            .chain(filled)
            .chain(dropped)
            .chain(clamped)
            .chain(collapsed)
            .chain(labels)
            .chain(scheme)
            .chain(extra)
            .collect()
    }
}

impl fmt::Display for BuildReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_features(f, &self.features)?;
        for warning in self.warnings() {
            writeln!(f, "{}", wrapped(&format!("warning: {warning}")))?;
        }
        let BundleSizes { manifest, rows, records } = self.sizes;
        writeln!(f, "{} of {} rows accepted", self.rows_accepted, self.rows_read)?;
        writeln!(f, "{rows} bytes of rows, {records} bytes of records, {manifest} bytes of manifest")?;
        let Some(signer) = self.manifest.fields().signer else { return Ok(()) };
        let (new, key) = (if self.key_is_new { "new " } else { "" }, self.signing_key.display());
        writeln!(f, "records signed with the {new}key {key}, public key {signer}")?;
        writeln!(f, "keep that file from the servers and from everybody else: with it, records can be forged")
    }
}

/// Columns of a terminal that everybody has.
const WIDTH: usize = 80;

/// The text in lines of at most 80 columns, but for words that are longer; all lines but the first
/// are indented.
fn wrapped(text: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split(' ') {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines += &line;
            line = format!("\n  {word}");
        } else {
            line += if line.is_empty() { "" } else { " " };
            line += word;
        }
    }
    lines + &line
}

/// The features as a table of at most 80 columns.
pub(crate) fn write_features(f: &mut fmt::Formatter<'_>, features: &[FeatureReport]) -> fmt::Result {
    const LONGEST_NAME: usize = 24;
    let longest = |texts: &mut dyn Iterator<Item = usize>, least: usize| texts.max().unwrap_or(0).max(least);
    let name = longest(&mut features.iter().map(|feature| feature.name.chars().count().min(LONGEST_NAME)), 7);
    let none = || "-".to_owned();
    let wide = |feature: &FeatureReport| feature.widest.clone().unwrap_or_else(none);
    let widest = longest(&mut features.iter().map(|feature| wide(feature).chars().count()), 6);
    writeln!(
        f,
        "{:name$}  {:11}  {:>6}  {:>widest$}  {:>7}  values",
        "feature", "kind", "levels", "widest", "fullest"
    )?;
    for feature in features {
        let line = format!(
            "{:name$}  {:11}  {:>6}  {:>widest$}  {:>7}  {}",
            cut(&feature.name, LONGEST_NAME),
            feature.kind,
            feature.levels,
            wide(feature),
            feature.fullest.map_or_else(none, |share| format!("{:.1}%", 100.0 * share)),
            feature.values
        );
        writeln!(f, "{}", cut(&line, WIDTH))?;
    }
    Ok(())
}

fn cut(text: &str, length: usize) -> String {
    match text.chars().count() > length {
        true => text.chars().take(length - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// The first few words.
fn shown(words: &[String], between: &str) -> String {
    const SHOWN: usize = 6;
    // Quotes as `ifonly ask --permit` takes them.
    let quoted = |word: &String| if word.contains(',') { format!("\"{word}\"") } else { word.clone() };
    let mut parts: Vec<String> = words.iter().take(SHOWN).map(quoted).collect();
    if words.len() > SHOWN {
        parts.push(format!("… ({} in all)", words.len()));
    }
    parts.join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_before_the_terminal_does() {
        let text = format!("warning: {} {} end", "some words ".repeat(20).trim(), "x".repeat(100));
        let lines: Vec<String> = wrapped(&text).lines().map(str::to_owned).collect();
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH || line.trim() == "x".repeat(100)), "{lines:?}");
        assert_eq!(lines.join(" ").split_whitespace().collect::<Vec<_>>(), text.split_whitespace().collect::<Vec<_>>());
        assert_eq!(wrapped("short"), "short");
    }

    #[test]
    fn words_with_commas_are_quoted() {
        assert_eq!(shown(&["A, north".into(), "B".into()], ", "), "\"A, north\", B");
    }
}
