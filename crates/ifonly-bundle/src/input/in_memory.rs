//! A bundle from values at hand, without files: for demonstrations, measurements, tests and other
//! programs.

use crate::columns::deviation::with_deviations;
use crate::error::{BuildError, FileLocation};
use crate::format::layout;
use crate::format::open::Bundle;
use ifonly_scan::RowStoreBuilder;
use ifonly_values::manifest::{Manifest, ManifestError};
use ifonly_values::record;
use ifonly_values::schema::{Schema, Value};
use std::path::{Path, PathBuf};

impl Bundle {
    /// The bundle of accepted rows, each with one text per column of the schema; an empty text is a
    /// missing value.
    ///
    /// Its records are not signed; [`Bundle::signed`] makes it one whose records are. `manifest`
    /// makes the manifest from the schema (with the deviations of these rows), M and the record
    /// length.
    pub fn of_values<R: AsRef<[S]>, S: AsRef<str>>(
        schema: &Schema,
        rows: &[R],
        manifest: impl FnOnce(Schema, usize, usize) -> Result<Manifest, ManifestError>,
    ) -> Result<Bundle, BuildError> {
        let columns = schema.columns();
        let mut longest = vec![0; columns.len()];
        for row in rows {
            longest.iter_mut().zip(row.as_ref()).for_each(|(most, text)| *most = text.as_ref().len().max(*most));
        }
        let length = layout::record_length(longest);
        let mut store = RowStoreBuilder::new(&schema.max_levels(), rows.len()).map_err(of_store)?;
        let mut records = Vec::with_capacity(length * rows.len());
        let mut histograms: Vec<Vec<u64>> =
            schema.max_levels().iter().map(|&range| vec![0; range as usize + 1]).collect();
        for (place, row) in (1..).map(FileLocation::Row).zip(rows) {
            let texts = row.as_ref();
            let whole = |reason: String| BuildError::Row { path: given(), place, reason };
            if texts.len() != columns.len() {
                return Err(whole(format!("{} values for {} columns", texts.len(), columns.len())));
            }
            let mut encoded = vec![];
            for (column, text) in columns.iter().zip(texts) {
                let cell =
                    |reason: String| BuildError::Cell { path: given(), place, column: column.name.into(), reason };
                let value = Value::from(text.as_ref());
                schema.encode_column(column, &value, &mut encoded).map_err(|error| cell(error.to_string()))?;
            }
            let levels: Vec<u16> = encoded.iter().map(|encoded| encoded.level as u16).collect();
            // A schema's levels end at its ranges.
            histograms.iter_mut().zip(&levels).for_each(|(counts, &level)| counts[usize::from(level)] += 1);
            store.push(&levels).map_err(of_store)?;
            records.extend(record::encode(texts, length).map_err(|error| whole(error.to_string()))?);
        }
        let manifest = manifest(with_deviations(schema.clone(), &histograms)?, rows.len(), length)?;
        Bundle::in_memory(manifest, store.finish(), records)
    }
}

/// Errors name a file; these rows have none.
fn given() -> PathBuf {
    "the given rows".into()
}

fn of_store(error: ifonly_scan::StoreError) -> BuildError {
    BuildError::of_rows(error, Path::new("the given rows"))
}
