//! Several files, and directories of them, as one table: their rows one after the other, in the
//! order in which they are named.
//!
//! All files have the same columns in the same order, whatever their formats. A directory stands
//! for the tables directly in it, in the order of their names; what else is in it is refused by
//! name, because rows that are left out in silence are missed by nobody.

use crate::build::report::ExcludedColumn;
use crate::columns::stats::RowLocation;
use crate::error::BuildError;
use crate::input::file;
use crate::input::file::Input;
use crate::input::source::{BuildProgress, BuildStage, ProgressCallback, SourceRow, TableSource, tell};
use crate::options::BuildOptions;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// So many files stay open between the passes over the data; more are opened again each time.
const KEPT_OPEN: usize = 64;
/// More files are not listed.
const MAX_FILES: usize = 1 << 20;

/// One table in one or more files, or in memory.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct TableSet {
    files: Vec<PathBuf>,
    sizes: Vec<Size>,
    delimiter: Option<u8>,
    columns: Vec<String>,
    unusable: Vec<ExcludedColumn>,
    /// Per file, if it stays open. A copy of this in another process opens them by their names.
    #[serde(skip)]
    open: Vec<Option<TableSource>>,
}

/// How large a file is.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Size {
    bytes: u64,
    /// What the `done` of its rows reaches.
    total: u64,
    /// The rows of each row group.
    groups: Vec<u64>,
}

/// Some rows of a table that follow each other: one task of a build that many workers share.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TablePart {
    pieces: Vec<Piece>,
}

/// A file, or some of its row groups.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Piece {
    file: usize,
    groups: Option<Range<usize>>,
}

impl TableSet {
    /// Opens all files and looks at their columns.
    pub(crate) fn open(options: &BuildOptions, watch: ProgressCallback<'_>) -> Result<TableSet, BuildError> {
        let files = files(&options.data)?;
        let mut tables: Option<TableSet> = None;
        for path in files {
            let source = TableSource::of(Input::open_watched(&path, watch)?, options.delimiter)?;
            match &mut tables {
                None => tables = Some(TableSet::of(source, options.delimiter)),
                Some(tables) => tables.push(source)?,
            }
        }
        tables.ok_or_else(|| BuildError::Settings("no data: name a file or a directory of them".into()))
    }

    /// One table.
    pub(crate) fn of(source: TableSource, delimiter: Option<u8>) -> TableSet {
        let (columns, unusable) = (source.columns().to_vec(), source.unusable().to_vec());
        let mut tables = TableSet { files: vec![], sizes: vec![], delimiter, columns, unusable, open: vec![] };
        tables.keep(source);
        tables
    }

    fn push(&mut self, source: TableSource) -> Result<(), BuildError> {
        self.check_columns(&source)?;
        for unusable in source.unusable() {
            if !self.unusable.contains(unusable) {
                self.unusable.push(unusable.clone());
            }
        }
        self.keep(source);
        Ok(())
    }

    fn keep(&mut self, source: TableSource) {
        self.files.push(source.path().clone());
        self.sizes.push(Size { bytes: source.bytes(), total: source.total(), groups: source.groups().to_vec() });
        let open = self.files.len() <= KEPT_OPEN || source.is_unique();
        self.open.push(open.then_some(source));
    }

    /// The same table with other rows, which are in memory.
    #[cfg(feature = "arrow")]
    pub(crate) fn with_rows(mut self, source: TableSource) -> Result<TableSet, BuildError> {
        self.check_columns(&source)?;
        (self.files, self.sizes, self.open) = (vec![], vec![], vec![]);
        self.keep(source);
        Ok(self)
    }

    fn check_columns(&self, source: &TableSource) -> Result<(), BuildError> {
        if source.columns() == self.columns {
            return Ok(());
        }
        let first = self.files.first().cloned().unwrap_or_default();
        let only = |these: &[String], those: &[String]| these.iter().find(|name| !those.contains(name)).cloned();
        let how = match (only(&self.columns, source.columns()), only(source.columns(), &self.columns)) {
            (Some(name), _) => format!("it has no column {name:?}"),
            (None, Some(name)) => format!("it has a column {name:?} too"),
            (None, None) => "they are in another order".into(),
        };
        let reason = format!("its columns are not those of {}: {how}; all files must have the same", first.display());
        Err(BuildError::File { path: source.path().clone(), reason })
    }

    /// What messages call the files.
    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The file to name when something is wrong with all of them.
    pub(crate) fn first(&self) -> PathBuf {
        self.files.first().cloned().unwrap_or_default()
    }

    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Columns that cannot be features, whatever they mean.
    pub(crate) fn unusable(&self) -> &[ExcludedColumn] {
        &self.unusable
    }

    /// All rows.
    pub(crate) fn whole(&self) -> TablePart {
        TablePart { pieces: (0..self.files.len()).map(|file| Piece { file, groups: None }).collect() }
    }

    /// All rows in parts of about so many bytes, or more where a file cannot be cut: only Parquet
    /// can, between its row groups.
    pub(crate) fn parts(&self, bytes: u64) -> Vec<TablePart> {
        let mut parts = vec![];
        let (mut pieces, mut weight): (Vec<Piece>, u64) = (vec![], 0);
        for (file, size) in self.sizes.iter().enumerate() {
            let groups = 0..size.groups.len();
            let cuts: Vec<Piece> = match size.groups.len() {
                0 | 1 => vec![Piece { file, groups: None }],
                _ => groups.map(|group| Piece { file, groups: Some(group..group + 1) }).collect(),
            };
            for piece in cuts {
                weight += self.weight(&piece);
                match pieces.last_mut() {
                    // Neighbours in one file are one piece.
                    Some(Piece { file: last, groups: Some(range) }) if *last == piece.file => {
                        range.end = piece.groups.map_or(range.end, |groups| groups.end);
                    }
                    _ => pieces.push(piece),
                }
                if weight >= bytes {
                    parts.push(TablePart { pieces: std::mem::take(&mut pieces) });
                    weight = 0;
                }
            }
        }
        if !pieces.is_empty() {
            parts.push(TablePart { pieces });
        }
        parts
    }

    /// From where to where the `done` of a piece's rows goes.
    fn span(&self, piece: &Piece) -> Range<u64> {
        let Some(size) = self.sizes.get(piece.file) else { return 0..0 };
        let rows = |groups: Range<usize>| size.groups.get(groups).unwrap_or_default().iter().sum::<u64>();
        match &piece.groups {
            None => 0..size.total,
            Some(groups) => rows(0..groups.start)..rows(0..groups.end),
        }
    }

    /// Its share of its file's bytes: whatever a file counts, all files together are measured in
    /// bytes.
    fn weight(&self, piece: &Piece) -> u64 {
        let (bytes, total) = self.sizes.get(piece.file).map_or((0, 0), |size| (size.bytes, size.total));
        let span = self.span(piece);
        scaled(bytes, span.end - span.start, total)
    }

    /// The rows of a part in order.
    pub(crate) fn scan(
        &self,
        part: &TablePart,
        stage: BuildStage,
        watch: ProgressCallback<'_>,
        visit: &mut dyn FnMut(RowLocation, &SourceRow<'_>) -> Result<(), BuildError>,
    ) -> Result<(), BuildError> {
        const REPORT_EVERY: u64 = 4096;
        let total = part.pieces.iter().map(|piece| self.weight(piece)).sum();
        let (mut before, mut count) = (0, 0u64);
        tell(watch, BuildProgress { stage, done: 0, total })?;
        for piece in &part.pieces {
            let (span, weight) = (self.span(piece), self.weight(piece));
            let opened;
            let source = match self.open.get(piece.file) {
                Some(Some(open)) => open,
                _ => {
                    opened = self.opened(piece.file, watch)?;
                    &opened
                }
            };
            source.scan(piece.groups.clone(), &mut |row| {
                count += 1;
                if count.is_multiple_of(REPORT_EVERY) {
                    let share = scaled(weight, row.done.saturating_sub(span.start), span.end - span.start);
                    tell(watch, BuildProgress { stage, done: (before + share.min(weight)).min(total), total })?;
                }
                visit(RowLocation { file: piece.file, place: row.place }, &row)
            })?;
            before += weight;
        }
        tell(watch, BuildProgress { stage, done: total, total })
    }

    /// A file that is not open any more, or is not yet in this process.
    fn opened(&self, file: usize, watch: ProgressCallback<'_>) -> Result<TableSource, BuildError> {
        let lost = || BuildError::Settings("a part of the work names a file that the work does not have".into());
        let source =
            TableSource::of(Input::open_watched(self.files.get(file).ok_or_else(lost)?, watch)?, self.delimiter)?;
        self.check_columns(&source)?;
        Ok(source)
    }
}

/// `bytes · part / whole`, and all of them where there is no whole.
fn scaled(bytes: u64, part: u64, whole: u64) -> u64 {
    if whole == 0 {
        return bytes;
    }
    // Below `bytes`, because no part is larger than its whole.
    (u128::from(bytes) * u128::from(part.min(whole)) / u128::from(whole)) as u64
}

/// The name of the dataset, where nobody gives one: that of its only file or directory, without
/// endings, otherwise that of the bundle.
pub(crate) fn dataset_name(options: &BuildOptions) -> String {
    match options.data.as_slice() {
        [path] if path.is_dir() => {
            let path = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
            path.file_name().unwrap_or_default().to_string_lossy().into_owned()
        }
        [path] => file::stem(path),
        _ => file::stem(&options.output),
    }
}

/// The files that these paths mean.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, BuildError> {
    let mut files = vec![];
    for path in paths {
        match path.is_dir() {
            true => files.extend(tables_in(path)?),
            false => files.push(path.clone()),
        }
        if files.len() > MAX_FILES {
            return Err(BuildError::Settings(format!("more than {MAX_FILES} files; put some of them together")));
        }
    }
    let inputs = files.iter().filter(|path| path.as_path() == Path::new("-")).count();
    match inputs {
        0 | 1 => Ok(files),
        _ => Err(BuildError::Settings("standard input can be read once; give - once".into())),
    }
}

/// The tables directly in a directory, in the order of their names.
fn tables_in(directory: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let io = |source| BuildError::Io { action: "read", path: directory.into(), source };
    let refuse = |path: PathBuf, reason: &str| Err(BuildError::File { path, reason: reason.into() });
    let mut tables = vec![];
    for entry in fs::read_dir(directory).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // What other programs leave beside their tables: _SUCCESS, .part-0.crc.
        if name.starts_with(['.', '_']) {
            continue;
        }
        if path.is_dir() {
            return refuse(path, "a directory in a directory of tables is not looked into; name it by itself");
        }
        if !is_table_name(&name) {
            return refuse(
                path,
                "its name ends as no table does (.csv, .tsv, .txt, .parquet, also with .gz or .zst); move it elsewhere, or name \
                 the tables by themselves",
            );
        }
        tables.push(path);
    }
    tables.sort_unstable();
    match tables.is_empty() {
        true => refuse(directory.into(), "there are no tables in this directory"),
        false => Ok(tables),
    }
}

fn is_table_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.strip_suffix(".gz").or(name.strip_suffix(".zst")).unwrap_or(&name);
    [".csv", ".tsv", ".txt", ".parquet"].iter().any(|ending| name.ends_with(ending))
}
