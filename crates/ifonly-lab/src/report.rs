//! Reports as Markdown, JSON and SVG. A report is a list of report items; an item has a text, a
//! table and optionally a plot.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::LabError;
use crate::plot::Plot;

/// A table or figure of a report.
#[derive(Debug, Clone, Serialize)]
pub struct ReportItem {
    /// A short name, for file names and the command line.
    pub name: &'static str,
    /// The heading.
    pub title: String,
    /// What was computed, the result, and the reason for differences from the paper.
    pub text: String,
    /// The column names of the table.
    pub columns: Vec<String>,
    /// The rows of the table, one cell per column.
    pub rows: Vec<Vec<String>>,
    /// The plot, if any.
    pub plot: Option<Plot>,
}

impl ReportItem {
    /// The item as Markdown. Its plot is the file `name.svg` in the same folder.
    pub fn markdown(&self) -> String {
        let mut page = format!("## {}\n\n{}\n", self.title, self.text);
        if !self.columns.is_empty() {
            // Ignoring the result is safe: writing to a string cannot fail.
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

    /// The item as text for a terminal, with aligned columns and without the plot.
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

/// Writes `NAME.md`, `NAME.json` and one SVG per plot into a folder. Returns the paths.
pub fn write(
    folder: &Path,
    name: &str,
    title: &str,
    preface: &str,
    items: &[ReportItem],
) -> Result<Vec<PathBuf>, LabError> {
    std::fs::create_dir_all(folder).map_err(|source| LabError::File { path: folder.into(), source })?;
    let mut files = Vec::new();
    let mut save = |name: String, content: String| {
        let path = folder.join(name);
        std::fs::write(&path, content).map_err(|source| LabError::File { path: path.clone(), source })?;
        files.push(path);
        Ok::<(), LabError>(())
    };
    let pages: Vec<String> = items.iter().map(ReportItem::markdown).collect();
    save(format!("{name}.md"), format!("# {title}\n\n{preface}\n\n{}", pages.join("\n")))?;
    let json = serde_json::json!({ "title": title, "items": items });
    save(format!("{name}.json"), format!("{json:#}\n"))?;
    for item in items {
        if let Some(plot) = &item.plot {
            save(format!("{}.svg", item.name), plot.svg()?)?;
        }
    }
    Ok(files)
}

/// A fraction as a percentage.
pub(crate) fn percent(fraction: f64) -> String {
    format!("{:.1}%", 100.0 * fraction)
}

/// Table cells from strings.
pub(crate) fn cells<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(String::from).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_tables_escape_vertical_bars() {
        let item = ReportItem {
            name: "x",
            title: "T".into(),
            text: "words".into(),
            columns: cells(["|I|", "bits"]),
            rows: vec![cells(["0", "1.5"])],
            plot: None,
        };
        assert_eq!(item.markdown(), "## T\n\nwords\n\n| \\|I\\| | bits |\n| --- | --- |\n| 0 | 1.5 |\n");
    }
}
