//! The parts of a bundle one after the other: rows packed into blocks across the seams, records
//! behind each other, and what both hash to.

use crate::build::parts::{LevelCounts, PartFiles, SigningJob};
use crate::build::report::BundleSizes;
use crate::build::signing_key::SigningKeyFile;
use crate::error::BuildError;
use crate::format::layout;
use crate::format::write::{OutputKind, ScratchDir, StagingDir};
use crate::input::source::{BuildProgress, BuildStage, ProgressCallback, tell};
use crate::options::BuildOptions;
use ifonly_core::signature::{SIGNATURE_LENGTH, SigningKey};
use ifonly_scan::RowWriter;
use ifonly_values::manifest::Manifest;

impl<'a> SigningJob<'a> {
    /// For the records that this manifest announces.
    pub fn new(manifest: &Manifest, key: &'a SigningKey) -> Result<SigningJob<'a>, BuildError> {
        let contents = manifest.fields();
        let text_length = contents.record_length.checked_sub(SIGNATURE_LENGTH).filter(|length| *length > 0);
        let short = || BuildError::Mismatch("the manifest's records have no room for a signature".into());
        Ok(SigningJob { key, subject: contents.subject(), text_length: text_length.ok_or_else(short)? })
    }
}

/// Makes the bundle of the parts in a workplace, whose files are gone afterwards, and puts it in
/// its place.
pub(crate) fn assemble(
    options: &BuildOptions,
    keeping: &SigningKeyFile,
    manifest: &Manifest,
    tallies: &[LevelCounts],
    workplace: &ScratchDir,
    watch: ProgressCallback<'_>,
) -> Result<BundleSizes, BuildError> {
    const LOOK_UP_EVERY: usize = 1 << 16;
    let signing = SigningJob::new(manifest, &keeping.key)?;
    let (ranges, rows) = (manifest.schema().max_levels(), manifest.rows());
    let length = signing.text_length + SIGNATURE_LENGTH;
    let staging = StagingDir::new(&options.output, OutputKind::Bundle, options.replace)?;
    let folder = staging.folder();
    let rows_path = options.output.join(layout::ROWS);
    let of_rows = |error| BuildError::of_rows(error, &rows_path);
    let mut store = RowWriter::new(folder.file(layout::ROWS)?, &ranges, rows).map_err(of_rows)?;
    let mut records = folder.file(layout::RECORDS)?;
    records.write(&layout::records_header(rows, length))?;
    let mut done = 0;
    let mut at = |done: u64| tell(watch, BuildProgress { stage: BuildStage::Signing, done, total: rows as u64 });
    at(0)?;
    for (number, tally) in tallies.iter().enumerate() {
        let part = PartFiles::new(workplace.directory(), number);
        let mut levels = part.levels(tally.kept, ranges.len())?;
        let mut count: usize = 0;
        while let Some(row) = levels.next()? {
            store.push(row).map_err(of_rows)?;
            count += 1;
            if count.is_multiple_of(LOOK_UP_EVERY) {
                at(done)?;
            }
        }
        let mut append = |bytes: &[u8]| {
            at(done)?;
            done += (bytes.len() / length) as u64;
            records.write(bytes)
        };
        match part.is_signed() {
            true => part.records_into(tally.kept, length, &mut append)?,
            false => part.sign_into(&signing, tally.kept, &mut append)?,
        }
        part.remove();
    }
    at(done)?;
    let (rows_hash, rows_bytes) = store.finish().map_err(of_rows)?.finish()?;
    let (records_hash, records_bytes) = records.finish()?;
    let mut file = folder.file(layout::MANIFEST)?;
    file.write(manifest.json().as_bytes())?;
    let (manifest_hash, manifest_bytes) = file.finish()?;
    let hashes = [(layout::MANIFEST, manifest_hash), (layout::ROWS, rows_hash), (layout::RECORDS, records_hash)];
    let mut file = folder.file(layout::CHECKSUMS)?;
    file.write(layout::checksums(&hashes).as_bytes())?;
    file.finish()?;
    keeping.keep(|| staging.commit(options.replace))?;
    Ok(BundleSizes { manifest: manifest_bytes, rows: rows_bytes, records: records_bytes })
}
