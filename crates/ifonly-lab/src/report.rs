//! Reports as Markdown, HTML, JSON, SVG and PNG. A report is a list of report items; an item has a
//! text, a table and optionally a figure.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::LabError;
use crate::figure::Figure;

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
    /// The figure, if any.
    pub figure: Option<Figure>,
}

impl ReportItem {
    /// The item as Markdown. Its figure is the file `name.svg` in the same folder.
    pub fn markdown(&self) -> String {
        let mut page = format!("## {}\n\n{}\n", self.title, self.text);
        if !self.columns.is_empty() {
            // Ignoring the result is safe: writing to a string cannot fail.
            let _ = writeln!(page, "\n{}\n{}", line(&self.columns), line(&vec!["---".into(); self.columns.len()]));
            for row in &self.rows {
                let _ = writeln!(page, "{}", line(row));
            }
        }
        if self.figure.is_some() {
            let _ = writeln!(page, "\n![{}]({}.svg)", self.title, self.name);
        }
        page
    }

    /// The number of rows whose last column, the verdict, says that a value differs without a
    /// reason.
    pub fn unexplained(&self) -> usize {
        let has_verdict = self.columns.last().is_some_and(|column| column == "verdict");
        let differs = |row: &&Vec<String>| row.last().is_some_and(|cell| cell.starts_with("NOT CONFIRMED"));
        if has_verdict { self.rows.iter().filter(differs).count() } else { 0 }
    }

    /// The item as HTML with its figure inline.
    fn html(&self) -> Result<String, LabError> {
        let row = |cells: &[String], tag: &str| {
            let cells: Vec<String> = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect();
            format!("<tr>{}</tr>\n", cells.concat())
        };
        let rows: String = self.rows.iter().map(|cells| row(cells, "td")).collect();
        let figure = self.figure.as_ref().map(Figure::svg).transpose()?.unwrap_or_default();
        Ok(format!(
            "<h2>{}</h2>\n<p>{}</p>\n<table>\n{}{rows}</table>\n{figure}\n",
            escaped(&self.title),
            escaped(&self.text),
            row(&self.columns, "th")
        ))
    }

    /// The item as text for a terminal, with aligned columns and without the figure.
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

/// Writes `NAME.md`, `NAME.json` and one SVG and PNG per figure into a folder. Returns the paths.
pub fn write(
    folder: &Path,
    name: &str,
    title: &str,
    preface: &str,
    items: &[ReportItem],
) -> Result<Vec<PathBuf>, LabError> {
    std::fs::create_dir_all(folder).map_err(|source| LabError::File { path: folder.into(), source })?;
    let mut files = Vec::new();
    let mut save = |name: String, content: Vec<u8>| {
        let path = folder.join(name);
        std::fs::write(&path, content).map_err(|source| LabError::File { path: path.clone(), source })?;
        files.push(path);
        Ok::<(), LabError>(())
    };
    let pages: Vec<String> = items.iter().map(ReportItem::markdown).collect();
    save(format!("{name}.md"), format!("# {title}\n\n{preface}\n\n{}", pages.join("\n")).into_bytes())?;
    let json = serde_json::json!({ "title": title, "items": items });
    save(format!("{name}.json"), format!("{json:#}\n").into_bytes())?;
    for item in items {
        if let Some(figure) = &item.figure {
            save(format!("{}.svg", item.name), figure.svg()?.into_bytes())?;
            save(format!("{}.png", item.name), figure.png()?)?;
        }
    }
    Ok(files)
}

/// Writes `NAME.html`, one file with all tables and figures. Returns its path.
pub fn write_html(
    folder: &Path,
    name: &str,
    title: &str,
    preface: &str,
    items: &[ReportItem],
) -> Result<PathBuf, LabError> {
    let style = "body{font:15px sans-serif;max-width:70em;margin:2em auto;padding:0 1em}\
         table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.2em .5em;text-align:left}\
         svg{max-width:100%;height:auto}p.head{white-space:pre-line}";
    let pages: Vec<String> = items.iter().map(ReportItem::html).collect::<Result<_, _>>()?;
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title><style>{style}</style></head>\n\
         <body><h1>{0}</h1>\n<p class=\"head\">{1}</p>\n{2}</body></html>\n",
        escaped(title),
        escaped(preface),
        pages.concat()
    );
    let path = folder.join(format!("{name}.html"));
    std::fs::write(&path, page).map_err(|source| LabError::File { path: path.clone(), source })?;
    Ok(path)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
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
            figure: None,
        };
        assert_eq!(item.markdown(), "## T\n\nwords\n\n| \\|I\\| | bits |\n| --- | --- |\n| 0 | 1.5 |\n");
    }
}
