//! A CSV file as named columns of text. Errors name the row and the column.

use std::path::{Path, PathBuf};

use crate::LabError;

pub(super) struct Table {
    path: PathBuf,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn read(path: &Path) -> Result<Table, LabError> {
        let csv_error = |source| LabError::Csv { path: path.into(), source };
        let mut reader = csv::Reader::from_path(path).map_err(csv_error)?;
        let header = reader.headers().map_err(csv_error)?.iter().map(str::to_owned).collect();
        let mut rows = Vec::new();
        for record in reader.records() {
            rows.push(record.map_err(csv_error)?.iter().map(str::to_owned).collect());
        }
        Ok(Table { path: path.into(), header, rows })
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The cells of a column.
    pub(super) fn column(&self, name: &str) -> Result<impl Iterator<Item = &str>, LabError> {
        let index = self
            .header
            .iter()
            .position(|other| other == name)
            .ok_or_else(|| self.fault(0, name, "the file has no such column"))?;
        Ok(self.rows.iter().map(move |row| row[index].as_str()))
    }

    /// The cells of a column as finite numbers.
    pub(super) fn numbers(&self, name: &str) -> Result<Vec<f64>, LabError> {
        let parse = |(row, cell): (usize, &str)| match cell.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(value),
            _ => Err(self.fault(row + 1, name, &format!("{cell:?} is not a number"))),
        };
        self.column(name)?.enumerate().map(parse).collect()
    }

    fn fault(&self, row: usize, column: &str, reason: &str) -> LabError {
        LabError::Cell { file: self.path.clone(), row, column: column.into(), reason: reason.into() }
    }
}
