//! Bundles from values in memory, without files: for demonstrations, benchmarks, tests and programs
//! that have their own tables.

use crate::columns::deviation::with_deviations;
use crate::error::{BuildError, FileLocation, counted};
use crate::format::files;
use crate::format::open::Bundle;
use ifonly_scan::RowStoreBuilder;
use ifonly_values::manifest::{Manifest, ManifestError};
use ifonly_values::record;
use ifonly_values::schema::{Schema, Value};
use std::path::PathBuf;

impl Bundle {
    /// A bundle from accepted rows, each with one text per column of the schema. An empty text is a
    /// missing value.
    ///
    /// The records are not signed; [`Bundle::signed`] signs them. `manifest` makes the manifest
    /// from the schema (with the deviations of these rows), the number of rows and the record
    /// length.
    pub fn of_values<R: AsRef<[S]>, S: AsRef<str>>(
        schema: &Schema,
        rows: &[R],
        manifest: impl FnOnce(Schema, usize, usize) -> Result<Manifest, ManifestError>,
    ) -> Result<Bundle, BuildError> {
        let columns = schema.columns();
        let mut longest = vec![0; columns.len()];
        for row in rows {
            longest.iter_mut().zip(row.as_ref()).for_each(|(max, text)| *max = text.as_ref().len().max(*max));
        }
        let length = files::record_length(longest);
        let mut store = RowStoreBuilder::new(&schema.max_levels(), rows.len()).map_err(store_error)?;
        let mut records = Vec::with_capacity(length * rows.len());
        let mut histograms: Vec<Vec<u64>> =
            schema.max_levels().iter().map(|&max_level| vec![0; max_level as usize + 1]).collect();
        for (location, row) in (1..).map(FileLocation::Row).zip(rows) {
            let texts = row.as_ref();
            let row_error = |reason: String| BuildError::Row { path: given_rows(), location, reason };
            if texts.len() != columns.len() {
                let (values, columns) = (counted(texts.len() as u64, "value"), counted(columns.len() as u64, "column"));
                return Err(row_error(format!("{values} for {columns}")));
            }
            let mut encoded = vec![];
            for (column, text) in columns.iter().zip(texts) {
                let cell = |reason: String| BuildError::Cell {
                    path: given_rows(),
                    location,
                    column: column.name.into(),
                    reason,
                };
                let value = Value::from(text.as_ref());
                schema.encode_column(column, &value, &mut encoded).map_err(|error| cell(error.to_string()))?;
            }
            let levels: Vec<u16> = encoded.iter().map(|encoded| encoded.level as u16).collect();
            // In bounds: no encoded level exceeds the max level of its feature.
            histograms.iter_mut().zip(&levels).for_each(|(counts, &level)| counts[usize::from(level)] += 1);
            store.push(&levels).map_err(store_error)?;
            records.extend(record::encode(texts, length).map_err(|error| row_error(error.to_string()))?);
        }
        let manifest = manifest(with_deviations(schema.clone(), &histograms)?, rows.len(), length)?;
        Bundle::in_memory(manifest, store.finish(), records)
    }
}

/// Stands for the name of a file in errors.
fn given_rows() -> PathBuf {
    "the given rows".into()
}

fn store_error(error: ifonly_scan::StoreError) -> BuildError {
    BuildError::of_rows(error, &given_rows())
}
