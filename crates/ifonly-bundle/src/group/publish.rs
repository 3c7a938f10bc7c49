//! From representatives to a part of the build: their texts, and the schema that is published.
//!
//! Bounds, scales and deviations come from the representatives or from the schema file, never from
//! single rows. Of the words, those that at least k people of the table have are listed, and those
//! that a representative has.

use super::table::{GroupColumnKind, GroupTable};
use super::{GroupRequest, Grouping, Representative};
use crate::build::group_report::GroupReport;
use crate::build::parts::{LevelCounts, PartFiles};
use crate::build::plan::{ColumnRequests, EncodingPlan};
use crate::build::report::ExcludedColumn;
use crate::build::task::BuildTask;
use crate::columns::infer::ColumnEvidence;
use crate::columns::schema_file::{FeatureOverrides, Scalar};
use crate::columns::stats::{ColumnStats, Median, RowLocation};
use crate::error::{BuildError, FileLocation};
use crate::format::files;
use ifonly_values::manifest::{GROUP_METHOD, GroupTerms};
use ifonly_values::record::{self, GroupFacts};
use ifonly_values::schema::{Feature, FeatureKind, OneHot, Schema, Value};
use std::collections::HashMap;

/// The word for groups without a majority word.
const MIXED: &str = "mixed";

/// Decides which representatives a model accepts: gets the names of the columns and the texts of
/// all representatives.
pub type ModelCheck<'a> = dyn FnMut(&[String], &[Vec<String>]) -> Result<Vec<bool>, BuildError> + Send + 'a;

/// The published plan of a grouped build, and the counts of its only part.
pub(crate) struct Publication<'a> {
    pub(crate) requests: ColumnRequests<'a>,
    pub(crate) task: &'a BuildTask,
    pub(crate) plan: &'a EncodingPlan,
    pub(crate) table: &'a GroupTable,
    pub(crate) request: &'a GroupRequest,
}

impl Publication<'_> {
    pub(crate) fn publish(
        &self,
        grouping: Grouping,
        model: Option<&mut ModelCheck<'_>>,
        files: &PartFiles,
    ) -> Result<(EncodingPlan, LevelCounts), BuildError> {
        let names: Vec<String> = self.table.columns().iter().map(|column| column.name.clone()).collect();
        let mixed: Vec<String> = (0..names.len()).map(|column| self.mixed_word(column)).collect();
        let mut all: Vec<(Representative, Vec<String>)> = grouping
            .representatives
            .into_iter()
            .map(|representative| {
                let texts = self.texts(&representative, &mixed);
                (representative, texts)
            })
            .collect();
        let found = all.len();
        let checked = model.is_some();
        if let Some(model) = model {
            let texts: Vec<Vec<String>> = all.iter().map(|(_, texts)| texts.clone()).collect();
            let accepted = model(&names, &texts)?;
            if accepted.len() != found {
                let have = accepted.len();
                let reason =
                    format!("model: it returned {have} decisions for {found} representatives; return one per row");
                return Err(BuildError::Settings(reason));
            }
            let mut decisions = accepted.into_iter();
            all.retain(|_| decisions.next() == Some(true));
            if all.is_empty() {
                return Err(BuildError::Settings(
                    "model: it accepts no representative; check that it returns true for accepted rows".into(),
                ));
            }
        }
        let people: usize = all.iter().map(|(representative, _)| representative.rows.len()).sum();
        let left_out = (self.table.accepted() - people) as u64;
        let (equal_to_row, equal_to_unique_row) = self.coinciding(&all);
        let has_mixed = |(representative, _): &&(Representative, Vec<String>)| representative.codes.contains(&None);
        let mixed_groups = all.iter().filter(has_mixed).count() as u64;
        let (schema, kept, excluded) = self.schema(&all, &mixed)?;
        let k = self.request.k as u32;
        let published = |columns: &[usize]| {
            let names = columns.iter().filter(|column| kept.contains(column)).map(|&column| names[column].clone());
            names.collect::<Vec<_>>()
        };
        let sensitive = published(&self.request.diversity.columns);
        let terms = GroupTerms {
            method: GROUP_METHOD.into(),
            k,
            keep: published(&self.request.keep),
            l: if sensitive.is_empty() { 1 } else { self.request.diversity.l as u32 },
            sensitive,
            left_out: left_out.next_multiple_of(k.into()),
        };
        let report = GroupReport {
            terms,
            groups: all.len() as u64,
            people: people as u64,
            left_out,
            refused_by_model: checked.then_some((found - all.len()) as u64),
            certainty_penalty: all.iter().map(|(one, _)| self.penalty(one)).sum::<f64>() / people.max(1) as f64,
            mixed_groups,
            equal_to_row,
            equal_to_unique_row,
        };
        self.write(schema, kept, excluded, report, &all, files)
    }

    fn write(
        &self,
        schema: Schema,
        kept: Vec<usize>,
        excluded: Vec<ExcludedColumn>,
        report: GroupReport,
        all: &[(Representative, Vec<String>)],
        files: &PartFiles,
    ) -> Result<(EncodingPlan, LevelCounts), BuildError> {
        let k = report.terms.k;
        let texts = |(representative, texts): &(Representative, Vec<String>)| {
            let facts = GroupFacts::new(representative.rows.len() as u32, k, representative.accepted_percent);
            let values = kept.iter().map(|&column| texts[column].clone());
            values.chain(facts.texts()).collect::<Vec<String>>()
        };
        let mut longest = vec![0; kept.len() + 2];
        for one in all {
            longest.iter_mut().zip(texts(one)).for_each(|(most, text)| *most = text.len().max(*most));
        }
        let text_length = files::record_length(longest);
        let mut counts = LevelCounts::new(&schema);
        (counts.read, counts.accepted) = (self.plan.rows, self.plan.accepted);
        let mut to = files.create()?;
        let columns = schema.columns();
        for one in all {
            let texts = texts(one);
            let mut levels = vec![];
            for (column, text) in columns.iter().zip(&texts) {
                schema.encode_column(column, &Value::from(text.as_str()), &mut levels)?;
            }
            counts.count(&levels);
            let bytes = record::encode(&texts, text_length);
            to.push(&levels, &bytes.map_err(|error| BuildError::Settings(format!("a representative: {error}")))?)?;
        }
        to.finish()?;
        let left_out = self.plan.left_out.iter().cloned().chain(excluded).collect();
        let plan =
            EncodingPlan { schema, required: vec![], text_length, left_out, groups: Some(report), ..self.plan.clone() };
        Ok((plan, counts))
    }

    fn mixed_word(&self, column: usize) -> String {
        let mut mixed = MIXED.to_owned();
        if let GroupColumnKind::Words { words } = &self.table.columns()[column].kind {
            while words.contains(&mixed) {
                mixed += " group";
            }
        }
        mixed
    }

    fn texts(&self, representative: &Representative, mixed: &[String]) -> Vec<String> {
        let features = self.plan.schema.features();
        let columns = self.plan.schema.columns();
        let text =
            |(((column, codes), kind), mixed): (((&ifonly_values::schema::Column<'_>, &Option<u16>), _), &String)| {
                match (kind, codes) {
                    (_, None) => mixed.clone(),
                    (GroupColumnKind::Words { words }, Some(code)) => words[usize::from(*code)].clone(),
                    (GroupColumnKind::Ordered { .. }, Some(code)) => {
                        level_text(&features[column.features.start], (*code).into())
                    }
                }
            };
        let kinds = self.table.columns().iter().map(|column| column.kind.clone());
        columns.iter().zip(&representative.codes).zip(kinds).zip(mixed).map(text).collect()
    }

    /// The certainty penalty of a group, times its number of people.
    fn penalty(&self, one: &Representative) -> f64 {
        let column = |(column, kind): (usize, &GroupColumnKind)| {
            let codes = one.rows.iter().map(|&row| self.table.code(row as usize, column));
            match kind {
                GroupColumnKind::Ordered { positions, .. } => {
                    let (low, high) = (codes.clone().min().unwrap_or(0), codes.max().unwrap_or(0));
                    positions[usize::from(high)] - positions[usize::from(low)]
                }
                GroupColumnKind::Words { words } => {
                    let mut codes: Vec<u16> = codes.collect();
                    codes.sort_unstable();
                    codes.dedup();
                    (codes.len() - 1) as f64 / (words.len() - 1).max(1) as f64
                }
            }
        };
        let kinds = self.table.columns().iter().map(|column| &column.kind).enumerate();
        kinds.map(column).sum::<f64>() / self.table.columns().len() as f64 * one.rows.len() as f64
    }

    /// The number of representatives that equal an accepted row in every column, and of those that
    /// equal exactly one.
    fn coinciding(&self, all: &[(Representative, Vec<String>)]) -> (u64, u64) {
        let codes =
            |representative: &Representative| representative.codes.iter().copied().collect::<Option<Vec<u16>>>();
        let mut rows: HashMap<Vec<u16>, u64> =
            all.iter().filter_map(|(representative, _)| codes(representative)).map(|codes| (codes, 0)).collect();
        for row in 0..self.table.accepted() {
            if let Some(count) = rows.get_mut(self.table.row(row)) {
                *count += 1;
            }
        }
        let counts = || all.iter().filter_map(|(one, _)| codes(one)).filter_map(|codes| rows.get(&codes).copied());
        (counts().filter(|count| *count > 0).count() as u64, counts().filter(|count| *count == 1).count() as u64)
    }

    /// The published schema, the columns that are in it, and the others with the reasons.
    fn schema(
        &self,
        all: &[(Representative, Vec<String>)],
        mixed: &[String],
    ) -> Result<(Schema, Vec<usize>, Vec<ExcludedColumn>), BuildError> {
        let (mut features, mut kept, mut excluded) = (vec![], vec![], vec![]);
        let private = self.plan.schema.features();
        for (index, column) in self.plan.schema.columns().iter().enumerate() {
            let settings = self.requests.of(self.task, column.name)?;
            let group = &private[column.features.clone()];
            let published = match &group[0].kind {
                FeatureKind::Numeric { .. } => self.numeric(&group[0], settings, all, index)?,
                _ => self.words(group, &settings, all, index, &mixed[index]),
            };
            if published.is_empty() {
                excluded.push(ExcludedColumn {
                    column: column.name.into(),
                    reason: "it is constant: every group has the same value".into(),
                })
            } else {
                kept.push(index);
                features.extend(published);
            }
        }
        if features.is_empty() {
            let reasons = "every group has the same values; lower the number of people per group".into();
            return Err(BuildError::NoFeatures { reasons });
        }
        Ok((Schema::new(features)?, kept, excluded))
    }

    fn numeric(
        &self,
        feature: &Feature,
        mut settings: FeatureOverrides,
        all: &[(Representative, Vec<String>)],
        column: usize,
    ) -> Result<Vec<Feature>, BuildError> {
        let FeatureKind::Numeric { notation, .. } = &feature.kind else { return Ok(vec![]) };
        let mut stats = ColumnStats::new(Median::Unwanted);
        let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
        for (row, (_, texts)) in (1..).zip(all) {
            let location = RowLocation { file: 0, position: FileLocation::Row(row) };
            stats.take(location, &texts[column], true, &[]);
            if let Some(number) = notation.read(&texts[column]) {
                (min, max) = (min.min(number), max.max(number));
            }
        }
        settings.default = feature.default.clone().map(Scalar::Text);
        let (levels, scale) = self.requests.scale();
        let evidence = ColumnEvidence {
            files: self.task.tables.files(),
            name: &feature.name,
            stats: &stats,
            settings: &settings,
            levels,
            scale,
        };
        let kind = evidence.numeric_kind(notation, min, max)?;
        Ok(kind.map(|kind| Feature { kind, ..feature.clone() }).into_iter().collect())
    }

    /// The features of a column of words.
    fn words(
        &self,
        group: &[Feature],
        settings: &FeatureOverrides,
        all: &[(Representative, Vec<String>)],
        column: usize,
        mixed: &str,
    ) -> Vec<Feature> {
        let listed = settings.categories.is_some() || settings.ranks.is_some();
        let first = &group[0];
        let words: Vec<String> = match &self.table.columns()[column].kind {
            GroupColumnKind::Words { words } => words.clone(),
            GroupColumnKind::Ordered { .. } => first.words().to_vec(),
        };
        let mut counts = vec![0; words.len()];
        (0..self.table.rows()).for_each(|row| counts[usize::from(self.table.code(row, column))] += 1);
        let in_records: std::collections::HashSet<&str> = all.iter().map(|(_, texts)| texts[column].as_str()).collect();
        let is_published = |(word, count): &(&String, &usize)| {
            let is_default = first.default.as_ref() == Some(*word);
            listed || **count >= self.request.k || in_records.contains(word.as_str()) || is_default
        };
        let mut published: Vec<String> =
            words.iter().zip(&counts).filter(is_published).map(|(word, _)| word.clone()).collect();
        if published.len() < 2 {
            return vec![];
        }
        let is_mixed = in_records.contains(mixed) && !words.iter().any(|word| word == mixed);
        if is_mixed {
            published.push(mixed.to_owned());
        }
        // A label must not name a word that is not published.
        let labels = |words: &[String]| {
            let all = group.iter().flat_map(|feature| &feature.word_labels);
            all.filter(|(word, _)| words.contains(word)).map(|(word, label)| (word.clone(), label.clone())).collect()
        };
        match &first.kind {
            FeatureKind::Ordinal { .. } => {
                let word_labels = labels(&published);
                vec![Feature { kind: FeatureKind::Ordinal { ranks: published }, word_labels, ..first.clone() }]
            }
            FeatureKind::Categorical { range, .. } if first.one_hot.is_none() => {
                let word_labels = labels(&published);
                let kind = FeatureKind::Categorical { categories: published, range: *range };
                vec![Feature { kind, mixed: is_mixed, word_labels, ..first.clone() }]
            }
            _ => {
                let column = first.column();
                let part = |word: &String| Feature {
                    name: format!("{column}={word}"),
                    one_hot: Some(OneHot { column: column.into(), category: word.clone() }),
                    mixed: is_mixed && word == mixed,
                    word_labels: labels(std::slice::from_ref(word)),
                    ..first.clone()
                };
                published.iter().map(part).collect()
            }
        }
    }
}

/// The text of a level: its word, or the middle of its interval in the notation of the column.
fn level_text(feature: &Feature, level: u32) -> String {
    match &feature.kind {
        FeatureKind::Numeric { notation, .. } => notation.write(feature.bounded(feature.middle(level))),
        _ => feature.decode_level(level).map_or(String::new(), |word| word.to_string()),
    }
}
