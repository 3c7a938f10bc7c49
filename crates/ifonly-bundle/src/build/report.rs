//! The report of a build: features, excluded columns, warnings and sizes, as JSON (serde) and as
//! text for a terminal (`Display`).

use crate::build::group_report::{Exposure, GroupReport};
use crate::error::counted;
use crate::format::summary::{SchemeSummary, summarise};
use ifonly_core::d_min::MaskEffects;
use ifonly_core::scheme;
use ifonly_values::manifest::Manifest;
use ifonly_values::schema::{Feature, FeatureKind, Notation};
use std::fmt;
use std::path::PathBuf;

/// The result of a build. `Display` prints it for a terminal.
#[derive(Clone, Debug, serde::Serialize)]
pub struct BuildReport {
    /// Number of rows in the data.
    pub rows_read: u64,
    /// Number of accepted rows without missing values, whether grouped or not.
    pub rows_accepted: u64,
    /// Number of accepted rows that were dropped because of missing values.
    pub rows_dropped: u64,
    /// How rows were grouped; `None` if the records are original rows.
    pub groups: Option<GroupReport>,
    /// How recognisable the original rows are, and what grouping costs.
    pub exposure: Option<Exposure>,
    /// Whether to warn that the records are original rows.
    pub warn_of_originals: bool,
    /// The features in the order of the schema.
    pub features: Vec<FeatureReport>,
    /// Columns that did not become features.
    pub left_out: Vec<ExcludedColumn>,
    /// Features that determine the accept mask exactly (target leakage); empty without a mask.
    pub telling: Vec<String>,
    /// Why the recommended scheme is not offered, if it is not.
    pub not_recommended: Option<String>,
    /// What masks do with these rows, if a mask scheme was requested and the data has rejected
    /// rows.
    pub masks: Option<MaskEffects>,
    /// Whether the replaced bundle had the same name and version, but other rows.
    pub version_reused: bool,
    /// The file of the signing key.
    pub signing_key: PathBuf,
    /// Whether this build created the signing key.
    pub key_is_new: bool,
    /// Sizes of the files.
    pub sizes: BundleSizes,
    /// The manifest of the bundle.
    pub manifest: Manifest,
}

/// One feature of the bundle.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct FeatureReport {
    /// The name of the feature.
    pub name: String,
    /// `numeric`, `ordinal` or `categorical`.
    pub kind: &'static str,
    /// R_k, the max level.
    pub range: u32,
    /// Number of levels that values can have. Of a categorical feature with two categories, only
    /// the first and the last level are used.
    pub levels: u32,
    /// The scale that maps numbers to levels.
    pub scale: &'static str,
    /// Width of the widest interval that is one level, with its unit; `None` if every level is one
    /// value.
    pub widest: Option<String>,
    /// Share of the accepted rows in the level with the most rows, if rows were counted.
    pub fullest: Option<f64>,
    /// The values of that level.
    pub fullest_level: Option<String>,
    /// The bounds, or the values in shortened form.
    pub values: String,
    /// Number of values outside the bounds, which were moved to the nearest bound.
    pub clamped: u64,
}

/// A column that did not become a feature.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ExcludedColumn {
    /// The name of the column.
    pub column: String,
    /// Why it is not a feature.
    pub reason: String,
}

/// Sizes of the files of a bundle, in bytes.
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
    /// The report for a feature. `histogram` has the number of rows with each level; it is empty if
    /// rows were not counted.
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
            Some(unit) => format!("{values} {}", unit.in_language("en")),
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
            fullest_level: most.and_then(|(level, _)| feature.show_level(level)).map(|level| level.to_string()),
            values,
            clamped,
        }
    }

    /// Whether one interval holds so many rows that the feature hardly affects costs and
    /// constraints.
    fn collapses(&self) -> bool {
        self.widest.is_some() && self.fullest.is_some_and(|share| share > 0.25)
    }
}

/// The width of the widest interval of a numeric feature; in days or seconds for dates and times.
fn widest(feature: &Feature) -> Option<String> {
    let FeatureKind::Numeric { scale, notation } = &feature.kind else { return None };
    if scale.is_exact() {
        return None;
    }
    let width = |level: u32| scale.interval(level).map(|interval| interval.high - interval.low);
    let widest = (0..=scale.max_level()).filter_map(width).filter(|width| width.is_finite()).fold(0.0, f64::max);
    // Rounded, because binary fractions have long decimal representations.
    let number = format!("{widest:.3e}").parse::<f64>().unwrap_or(widest);
    Some(match notation {
        Notation::Date => format!("{number} days"),
        Notation::Timestamp => format!("{number} s"),
        _ => number.to_string(),
    })
}

impl BuildReport {
    /// Warnings for the author of the bundle.
    pub fn warnings(&self) -> Vec<String> {
        let left_out = self
            .left_out
            .iter()
            .map(|excluded| format!("column {:?} is excluded: {}", excluded.column, excluded.reason));
        let leaking = self.telling.iter().map(|name| {
            format!(
                "feature {name:?} determines the target exactly (target leakage); exclude it if it encodes the decision"
            )
        });
        let clamped = self.features.iter().filter(|feature| feature.clamped > 0).map(|feature| {
            let FeatureReport { name, clamped, values, .. } = feature;
            match clamped {
                1 => format!("feature {name:?}: 1 value outside {values} was moved to the nearest bound"),
                _ => format!("feature {name:?}: {clamped} values outside {values} were moved to the nearest bound"),
            }
        });
        let collapsed = self.features.iter().filter(|feature| feature.collapses()).map(|feature| {
            let FeatureReport { name, fullest, fullest_level, .. } = feature;
            let (share, level) = (100.0 * fullest.unwrap_or_default(), fullest_level.as_deref().unwrap_or_default());
            format!(
                "feature {name:?}: {share:.0}% of the rows are in one level, {level}; another scale (exact, log), more \
                 levels or narrower bounds would distinguish them"
            )
        });
        let terms = &self.manifest.fields().params;
        let nominal = self.manifest.schema().features().iter().filter(|feature| feature.is_nominal());
        let nominal: Vec<String> = nominal.map(|feature| format!("{:?}", feature.name)).collect();
        let nominal = (!nominal.is_empty()).then(|| {
            let names = nominal.join(", ");
            format!(
                "more than two categories in {names}: only table schemes can be offered; set one_hot = true to offer \
                 others"
            )
        });
        let scheme = self.not_recommended.iter().map(|reason| {
            let default = &self.manifest.fields().default_scheme;
            format!("the default scheme is {default}, because the recommended scheme cannot be offered: {reason}")
        });
        let summary = summarise(&self.manifest);
        // `scheme::named` does not know joint searches, which reveal less than gated schemes.
        let reveals_more =
            |scheme: &&SchemeSummary| scheme::named(scheme.name).is_some_and(|scheme| !scheme.is_gated());
        let extra = summary.schemes.iter().filter(reveals_more).map(|summary| {
            let repeats = if summary.rounds > 1 && terms.shuffle {
                "; all its phases use one row order, so the shuffle protects the rows less"
            } else {
                ""
            };
            format!(
                "scheme {} reveals more than the gated schemes: {}{repeats}. A client that breaks the protocol gets at \
                 most {}",
                summary.name,
                summary.learns,
                summary.cheat()
            )
        });
        let extra: Vec<String> = extra.collect();
        let costly = (terms.silent + terms.lying > 0 || terms.verified).then(|| {
            let most = summary.schemes.iter().max_by_key(|scheme| (scheme.cheat_bits, scheme.cheat_records));
            most.map(|scheme| {
                format!(
                    "tolerance of silent or lying servers and verified answers also help clients that break the protocol; \
                     with {} they get at most {}",
                    scheme.name,
                    scheme.cheat()
                )
            })
        });
        let filled = self.manifest.schema().features().iter().filter_map(|feature| {
            let default = feature.default.as_ref()?;
            Some(format!("feature {:?}: missing values are replaced by {default:?}", feature.column()))
        });
        let mut filled: Vec<String> = filled.collect();
        filled.dedup();
        let dropped = match self.rows_dropped {
            0 => None,
            1 => Some("1 accepted row was dropped because of missing values".into()),
            rows => Some(format!("{rows} accepted rows were dropped because of missing values")),
        };
        let reused = self.version_reused.then(|| {
            let dataset = &self.manifest.fields().dataset;
            format!(
                "the replaced bundle had other rows under the same name and version ({}, version {}); give every change \
                 of the data its own version",
                dataset.name, dataset.version
            )
        });
        let weakest = summary.weakest().map(|weakest| {
            format!(
                "if servers need no token, anyone may search: with {} a client that breaks the protocol gets {} per \
                 search",
                weakest.name,
                weakest.cheat()
            )
        });
        let originals = self.warn_of_originals.then(|| {
            "every record is the original row of one accepted person. Every operator holds all of them, and a person \
             who asks with a few facts about an accepted person can read the rest. Build with --group 10 to publish \
             groups instead, or with --group 1 to keep original rows without this warning"
                .to_owned()
        });
        let extra = originals.into_iter().chain(extra).chain(costly.flatten()).chain(reused).chain(weakest);
        left_out
            .chain(leaking)
            .chain(filled)
            .chain(dropped)
            .chain(clamped)
            .chain(collapsed)
            .chain(nominal)
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
        if let Some(masks) = &self.masks {
            writeln!(f, "{}", wrapped(&described(masks)))?;
        }
        let BundleSizes { manifest, rows, records } = self.sizes;
        writeln!(f, "{} of {} accepted", self.rows_accepted, counted(self.rows_read, "row"))?;
        if let Some(groups) = &self.groups {
            write!(f, "{groups}")?;
        }
        if let Some(exposure) = &self.exposure {
            write!(f, "{exposure}")?;
        }
        writeln!(f, "{rows} bytes of rows, {records} bytes of records, {manifest} bytes of manifest")?;
        let Some(signer) = self.manifest.fields().signer else { return Ok(()) };
        let (new, key) = (if self.key_is_new { "new " } else { "" }, self.signing_key.display());
        writeln!(f, "records signed with the {new}key {key}, public key {signer}")?;
        writeln!(f, "never copy this key to a server: its holder can forge records")
    }
}

/// The effects of masks in words.
fn described(masks: &MaskEffects) -> String {
    const SHOWN: usize = 10;
    let gap = |gap: Option<u64>| gap.map_or_else(|| "none".into(), |gap| gap.to_string());
    let closure = match masks.in_closure.as_deref() {
        None => "whether they lie in the closure D_c would take too long to compute".to_owned(),
        Some([]) => "none of them lies in the closure D_c".into(),
        Some(found) => {
            let shown: Vec<String> = found.iter().take(SHOWN).map(|row| (row + 1).to_string()).collect();
            let more = if found.len() > SHOWN { ", …" } else { "" };
            format!("{} of them in the closure D_c (rejected row {}{more})", found.len(), shown.join(", "))
        }
    };
    format!(
        "masks: over {}, with equal weights, the smallest gap of distances (d_min of the paper) is {}, without ties {}; \
         {closure}; masks below {} give an exact answer in {:.1}% of searches",
        counted(masks.samples as u64, "rejected row"),
        gap(masks.d_min),
        gap(masks.distinct),
        masks.chosen,
        100.0 * masks.exact_share
    )
}

/// Width of the output, in columns of a terminal.
const WIDTH: usize = 80;

/// Wraps a text at [`WIDTH`] columns, except for words that are longer. Indents all lines but the
/// first.
pub(crate) fn wrapped(text: &str) -> String {
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

/// Prints the features as a table of at most [`WIDTH`] columns.
pub(crate) fn write_features(f: &mut fmt::Formatter<'_>, features: &[FeatureReport]) -> fmt::Result {
    const MAX_NAME: usize = 24;
    let column_width = |texts: &mut dyn Iterator<Item = usize>, min: usize| texts.max().unwrap_or(0).max(min);
    let name = column_width(&mut features.iter().map(|feature| feature.name.chars().count().min(MAX_NAME)), 7);
    let none = || "-".to_owned();
    let wide = |feature: &FeatureReport| feature.widest.clone().unwrap_or_else(none);
    let widest = column_width(&mut features.iter().map(|feature| wide(feature).chars().count()), 6);
    writeln!(
        f,
        "{:name$}  {:11}  {:>6}  {:>widest$}  {:>7}  values",
        "feature", "kind", "levels", "widest", "fullest"
    )?;
    for feature in features {
        let line = format!(
            "{:name$}  {:11}  {:>6}  {:>widest$}  {:>7}  {}",
            cut(&feature.name, MAX_NAME),
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
    if text.chars().count() > length { text.chars().take(length - 1).chain(['…']).collect() } else { text.to_owned() }
}

/// The first few words, and the number of all words if there are more.
fn shown(words: &[String], between: &str) -> String {
    const SHOWN: usize = 6;
    // Words with commas are quoted, so that users can copy them into a list of permitted values.
    let quoted = |word: &String| if word.contains(',') { format!("\"{word}\"") } else { word.clone() };
    let mut parts: Vec<String> = words.iter().take(SHOWN).map(quoted).collect();
    if words.len() > SHOWN {
        parts.push(format!("… ({} in total)", words.len()));
    }
    parts.join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_lines_are_at_most_as_wide_as_the_terminal() {
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
