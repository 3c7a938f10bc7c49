//! Several files and directories as one table. The rows of all files are concatenated in the order
//! in which the files are given.
//!
//! All files must have the same columns in the same order; their formats may differ. A directory
//! stands for the table files directly in it, sorted by name. Other files in it are an error, so
//! that no rows are skipped silently.

use crate::build::report::ExcludedColumn;
use crate::columns::stats::RowLocation;
use crate::error::BuildError;
use crate::input::file;
use crate::input::file::Input;
use crate::input::source::{BuildProgress, BuildStage, ProgressCallback, SourceRow, TableSource, report_progress};
use crate::options::BuildOptions;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Number of files that stay open between the passes. Further files are opened again in each pass.
const MAX_OPEN: usize = 64;
/// Maximum number of files.
const MAX_FILES: usize = 1 << 20;

/// One table in one or more files, or in memory.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct TableSet {
    files: Vec<PathBuf>,
    sizes: Vec<Size>,
    delimiter: Option<u8>,
    columns: Vec<String>,
    unusable: Vec<ExcludedColumn>,
    /// The files that stay open, by index. A copy in another process opens files by name.
    #[serde(skip)]
    open: Vec<Option<TableSource>>,
}

/// The size of one file.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Size {
    bytes: u64,
    /// The value of [`SourceRow::done`] at its last row.
    total: u64,
    /// The number of rows of each row group.
    groups: Vec<u64>,
}

/// Consecutive rows of a table: the unit of work in a build with several workers.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TablePart {
    pieces: Vec<Piece>,
}

/// A whole file, or some of its row groups.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Piece {
    file: usize,
    groups: Option<Range<usize>>,
}

impl TableSet {
    /// Opens all files and checks that their columns agree.
    pub(crate) fn open(options: &BuildOptions, watch: ProgressCallback<'_>) -> Result<TableSet, BuildError> {
        let files = files(&options.data)?;
        let mut tables: Option<TableSet> = None;
        for path in files {
            let source = TableSource::of(Input::open_with_callback(&path, watch)?, options.delimiter)?;
            match &mut tables {
                None => tables = Some(TableSet::of(source, options.delimiter)),
                Some(tables) => tables.push(source)?,
            }
        }
        tables.ok_or_else(|| BuildError::Settings("no data: give a file or a directory of files".into()))
    }

    /// A set with one table.
    pub(crate) fn of(source: TableSource, delimiter: Option<u8>) -> TableSet {
        let (columns, unusable) = (source.columns().to_vec(), source.unusable().to_vec());
        let mut tables = TableSet { files: vec![], sizes: vec![], delimiter, columns, unusable, open: vec![] };
        tables.add(source);
        tables
    }

    fn push(&mut self, source: TableSource) -> Result<(), BuildError> {
        self.check_columns(&source)?;
        for unusable in source.unusable() {
            if !self.unusable.contains(unusable) {
                self.unusable.push(unusable.clone());
            }
        }
        self.add(source);
        Ok(())
    }

    fn add(&mut self, source: TableSource) {
        self.files.push(source.path().clone());
        self.sizes.push(Size { bytes: source.bytes(), total: source.total(), groups: source.groups().to_vec() });
        let open = self.files.len() <= MAX_OPEN || source.is_unique();
        self.open.push(open.then_some(source));
    }

    /// The same table with other rows, from memory.
    #[cfg(feature = "arrow")]
    pub(crate) fn with_rows(mut self, source: TableSource) -> Result<TableSet, BuildError> {
        self.check_columns(&source)?;
        (self.files, self.sizes, self.open) = (vec![], vec![], vec![]);
        self.add(source);
        Ok(self)
    }

    fn check_columns(&self, source: &TableSource) -> Result<(), BuildError> {
        if source.columns() == self.columns {
            return Ok(());
        }
        let first = self.first();
        let only = |these: &[String], those: &[String]| these.iter().find(|name| !those.contains(name)).cloned();
        let difference = match (only(&self.columns, source.columns()), only(source.columns(), &self.columns)) {
            (Some(name), _) => format!("it has no column {name:?}"),
            (None, Some(name)) => format!("it has an additional column {name:?}"),
            (None, None) => "they are in a different order".into(),
        };
        let reason = format!(
            "its columns differ from those of {}: {difference}; all files must have the same columns in the same order",
            first.display()
        );
        Err(BuildError::File { path: source.path().clone(), reason })
    }

    /// The names of the files in messages.
    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The first file, for errors that concern all files.
    pub(crate) fn first(&self) -> PathBuf {
        self.files.first().expect("a set has at least one file").clone()
    }

    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Columns that cannot be features because of their type.
    pub(crate) fn unusable(&self) -> &[ExcludedColumn] {
        &self.unusable
    }

    /// All rows as one part.
    pub(crate) fn all_rows(&self) -> TablePart {
        TablePart { pieces: (0..self.files.len()).map(|file| Piece { file, groups: None }).collect() }
    }

    /// All rows in consecutive parts of about this many bytes. Parts can be larger, because only
    /// Parquet files can be divided, between row groups.
    pub(crate) fn parts(&self, bytes: u64) -> Vec<TablePart> {
        let mut parts = vec![];
        let (mut pieces, mut weight): (Vec<Piece>, u64) = (vec![], 0);
        for (file, size) in self.sizes.iter().enumerate() {
            let groups = 0..size.groups.len();
            let divided: Vec<Piece> = match size.groups.len() {
                0 | 1 => vec![Piece { file, groups: None }],
                _ => groups.map(|group| Piece { file, groups: Some(group..group + 1) }).collect(),
            };
            for piece in divided {
                weight += self.weight(&piece);
                match pieces.last_mut() {
                    // Adjacent row groups of one file become one piece.
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

    /// The range of [`SourceRow::done`] over the rows of a piece.
    fn span(&self, piece: &Piece) -> Range<u64> {
        let Some(size) = self.sizes.get(piece.file) else { return 0..0 };
        let rows = |groups: Range<usize>| size.groups.get(groups).unwrap_or_default().iter().sum::<u64>();
        match &piece.groups {
            None => 0..size.total,
            Some(groups) => rows(0..groups.start)..rows(0..groups.end),
        }
    }

    /// The bytes of a piece: its share of the bytes of its file. Progress over all files is
    /// measured in bytes, although [`SourceRow::done`] may count rows.
    fn weight(&self, piece: &Piece) -> u64 {
        let (bytes, total) = self.sizes.get(piece.file).map_or((0, 0), |size| (size.bytes, size.total));
        let span = self.span(piece);
        scaled(bytes, span.end - span.start, total)
    }

    /// Visits the rows of a part in order.
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
        report_progress(watch, BuildProgress { stage, done: 0, total })?;
        for piece in &part.pieces {
            let (span, weight) = (self.span(piece), self.weight(piece));
            let opened;
            let source = match self.open.get(piece.file) {
                Some(Some(open)) => open,
                _ => {
                    opened = self.reopen(piece.file, watch)?;
                    &opened
                }
            };
            source.scan(piece.groups.clone(), &mut |row| {
                count += 1;
                if count.is_multiple_of(REPORT_EVERY) {
                    let share = scaled(weight, row.done.saturating_sub(span.start), span.end - span.start);
                    report_progress(
                        watch,
                        BuildProgress { stage, done: (before + share.min(weight)).min(total), total },
                    )?;
                }
                visit(RowLocation { file: piece.file, position: row.location }, &row)
            })?;
            before += weight;
        }
        report_progress(watch, BuildProgress { stage, done: total, total })
    }

    /// Opens a file that is not open in this process.
    fn reopen(&self, file: usize, watch: ProgressCallback<'_>) -> Result<TableSource, BuildError> {
        let unknown = || BuildError::Settings("a part refers to a file that its build task does not have".into());
        let source = TableSource::of(
            Input::open_with_callback(self.files.get(file).ok_or_else(unknown)?, watch)?,
            self.delimiter,
        )?;
        self.check_columns(&source)?;
        Ok(source)
    }
}

/// `bytes · part / whole`; `bytes` if `whole` is 0.
fn scaled(bytes: u64, part: u64, whole: u64) -> u64 {
    if whole == 0 {
        return bytes;
    }
    // Fits: at most `bytes`, because `part` is limited to `whole`.
    (u128::from(bytes) * u128::from(part.min(whole)) / u128::from(whole)) as u64
}

/// The default name of the dataset: the name of its only file or directory without extensions, or
/// otherwise of the bundle.
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

/// The files for these paths, with directories replaced by their tables.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, BuildError> {
    let mut files = vec![];
    for path in paths {
        if path.is_dir() {
            files.extend(tables_in(path)?)
        } else {
            files.push(path.clone())
        }
        if files.len() > MAX_FILES {
            return Err(BuildError::Settings(format!("more than {MAX_FILES} files; merge some of them")));
        }
    }
    let stdin_count = files.iter().filter(|path| path.as_path() == Path::new("-")).count();
    match stdin_count {
        0 | 1 => Ok(files),
        _ => Err(BuildError::Settings("standard input can be read only once; give - only once".into())),
    }
}

/// The table files directly in a directory, sorted by name.
fn tables_in(directory: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let io = |source| BuildError::Io { action: "read", path: directory.into(), source };
    let refuse = |path: PathBuf, reason: &str| Err(BuildError::File { path, reason: reason.into() });
    let mut tables = vec![];
    for entry in fs::read_dir(directory).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Marker and checksum files of other programs, such as _SUCCESS and .part-0.crc.
        if name.starts_with(['.', '_']) {
            continue;
        }
        if path.is_dir() {
            return refuse(path, "a directory of tables must not have subdirectories; give this directory by itself");
        }
        if !is_table_name(&name) {
            return refuse(
                path,
                "not a table: its name must end with .csv, .tsv, .txt or .parquet, optionally with .gz or .zst; move it \
                 elsewhere, or give the tables by name",
            );
        }
        tables.push(path);
    }
    tables.sort_unstable();
    if tables.is_empty() { refuse(directory.into(), "this directory has no tables") } else { Ok(tables) }
}

fn is_table_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.strip_suffix(".gz").or(name.strip_suffix(".zst")).unwrap_or(&name);
    [".csv", ".tsv", ".txt", ".parquet"].iter().any(|extension| name.ends_with(extension))
}
