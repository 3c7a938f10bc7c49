//! Joins the encoded parts into one bundle. Rows are packed into blocks across the boundaries of
//! parts, records are concatenated, and the checksums of both are computed while writing.

use crate::build::parts::{LevelCounts, PartFiles, SigningJob};
use crate::build::report::BundleSizes;
use crate::build::signing_key::SigningKeyFile;
use crate::error::BuildError;
use crate::format::files;
use crate::format::write::{OutputKind, ScratchDir, StagingDir};
use crate::input::source::{BuildProgress, BuildStage, ProgressCallback, report_progress};
use crate::options::BuildOptions;
use ifonly_core::signature::{SIGNATURE_LENGTH, SigningKey};
use ifonly_scan::RowWriter;
use ifonly_values::manifest::Manifest;

impl<'a> SigningJob<'a> {
    /// The signing job for the records that this manifest describes.
    pub fn new(manifest: &Manifest, key: &'a SigningKey) -> Result<SigningJob<'a>, BuildError> {
        let fields = manifest.fields();
        let text_length = fields.record_length.checked_sub(SIGNATURE_LENGTH).filter(|length| *length > 0);
        let short = || BuildError::Mismatch("the manifest's records have no room for a signature".into());
        Ok(SigningJob { key, context: fields.signature_context(), text_length: text_length.ok_or_else(short)? })
    }
}

/// Writes the bundle from the parts in the scratch directory and moves it to the output path.
/// Removes the files of each part after reading them.
pub(crate) fn assemble(
    options: &BuildOptions,
    key_file: &SigningKeyFile,
    manifest: &Manifest,
    parts: &[LevelCounts],
    scratch: &ScratchDir,
    watch: ProgressCallback<'_>,
) -> Result<BundleSizes, BuildError> {
    const REPORT_EVERY: usize = 1 << 16;
    let signing = SigningJob::new(manifest, &key_file.key)?;
    let (max_levels, rows) = (manifest.schema().max_levels(), manifest.rows());
    let length = signing.text_length + SIGNATURE_LENGTH;
    let staging = StagingDir::new(&options.output, OutputKind::Bundle, options.replace)?;
    let directory = staging.directory();
    let rows_path = options.output.join(files::ROWS);
    let of_rows = |error| BuildError::of_rows(error, &rows_path);
    let mut store = RowWriter::new(directory.file(files::ROWS)?, &max_levels, rows).map_err(of_rows)?;
    let mut records = directory.file(files::RECORDS)?;
    records.write(&files::records_header(rows, length))?;
    let mut done = 0;
    let mut report =
        |done: u64| report_progress(watch, BuildProgress { stage: BuildStage::Signing, done, total: rows as u64 });
    report(0)?;
    for (number, counts) in parts.iter().enumerate() {
        let part = PartFiles::new(scratch.directory(), number);
        let mut levels = part.levels(counts.kept, max_levels.len())?;
        let mut count: usize = 0;
        while let Some(row) = levels.next()? {
            store.push(row).map_err(of_rows)?;
            count += 1;
            if count.is_multiple_of(REPORT_EVERY) {
                report(done)?;
            }
        }
        let mut append = |bytes: &[u8]| {
            report(done)?;
            done += (bytes.len() / length) as u64;
            records.write(bytes)
        };
        if part.is_signed() {
            part.records_into(counts.kept, length, &mut append)?
        } else {
            part.sign_into(&signing, counts.kept, &mut append)?
        }
        part.remove();
    }
    report(done)?;
    let (rows_hash, rows_bytes) = store.finish().map_err(of_rows)?.finish()?;
    let (records_hash, records_bytes) = records.finish()?;
    let mut file = directory.file(files::MANIFEST)?;
    file.write(manifest.json().as_bytes())?;
    let (manifest_hash, manifest_bytes) = file.finish()?;
    let hashes = [(files::MANIFEST, manifest_hash), (files::ROWS, rows_hash), (files::RECORDS, records_hash)];
    let mut file = directory.file(files::CHECKSUMS)?;
    file.write(files::checksums(&hashes).as_bytes())?;
    file.finish()?;
    key_file.save_then(|| staging.commit(options.replace))?;
    Ok(BundleSizes { manifest: manifest_bytes, rows: rows_bytes, records: records_bytes })
}
