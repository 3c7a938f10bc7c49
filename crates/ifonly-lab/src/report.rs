//! Reports: exhibits (a table, a few plain sentences, a picture) written as Markdown, JSON and SVG.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::LabError;
use crate::plot::Plot;

/// One table or figure.
#[derive(Debug, Clone, Serialize)]
pub struct ReportItem {
    /// One word, used for files and on the command line.
    pub name: &'static str,
    /// What it is called in a report.
    pub title: String,
    /// What was done and what came out, in plain words; where the paper differs, why.
    pub text: String,
    /// The table's columns.
    pub columns: Vec<String>,
    /// The table's rows, one cell per column.
    pub rows: Vec<Vec<String>>,
    /// The picture, if there is one.
    pub plot: Option<Plot>,
}

impl ReportItem {
    /// The exhibit as Markdown; its picture is the file `name.svg` beside it.
    pub fn markdown(&self) -> String {
        let mut page = format!("## {}\n\n{}\n", self.title, self.text);
        if !self.columns.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(page, "\n{}\n{}", line(&self.columns), line(&vec!["---".into(); self.columns.len()]));
            for row in &self.rows {
                let _ = writeln!(page, "{}", line(row));
            }
        }
        if self.plot.is_some() {
            let _ = writeln!(page, "\n![{}]({}.svg)", self.title, self.name);
        }
        page
    }
}

impl ReportItem {
    /// The exhibit for a terminal: columns aligned, no picture.
    pub fn text_page(&self) -> String {
        let rows = || std::iter::once(&self.columns).chain(&self.rows);
        let width = |column: usize| {
            rows().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut page = format!("{}\n\n{}\n\n", self.title, self.text);
        for row in rows() {
            let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
            let _ = writeln!(page, "{}", cells.join("  ").trim_end());
        }
        page
    }
}

fn line(cells: &[String]) -> String {
    let escaped: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |", escaped.join(" | "))
}

/// Writes `NAME.md`, `NAME.json` and one SVG per picture into a folder; returns the files.
pub fn write(
    folder: &Path,
    name: &str,
    title: &str,
    preface: &str,
    exhibits: &[ReportItem],
) -> Result<Vec<PathBuf>, LabError> {
    std::fs::create_dir_all(folder).map_err(|source| LabError::File { path: folder.into(), source })?;
    let mut files = Vec::new();
    let mut save = |name: String, content: String| {
        let path = folder.join(name);
        std::fs::write(&path, content).map_err(|source| LabError::File { path: path.clone(), source })?;
        files.push(path);
        Ok::<(), LabError>(())
    };
    let pages: Vec<String> = exhibits.iter().map(ReportItem::markdown).collect();
    save(format!("{name}.md"), format!("# {title}\n\n{preface}\n\n{}", pages.join("\n")))?;
    let json = serde_json::json!({ "title": title, "exhibits": exhibits });
    save(format!("{name}.json"), format!("{json:#}\n"))?;
    for exhibit in exhibits {
        if let Some(plot) = &exhibit.plot {
            save(format!("{}.svg", exhibit.name), plot.svg()?)?;
        }
    }
    Ok(files)
}

/// A share as a percentage.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

/// Table cells from anything that prints.
pub(crate) fn cells<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(String::from).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_one_cell_per_column_and_keeps_bars() {
        let exhibit = ReportItem {
            name: "x",
            title: "T".into(),
            text: "words".into(),
            columns: cells(["|I|", "bits"]),
            rows: vec![cells(["0", "1.5"])],
            plot: None,
        };
        assert_eq!(exhibit.markdown(), "## T\n\nwords\n\n| \\|I\\| | bits |\n| --- | --- |\n| 0 | 1.5 |\n");
    }
}
