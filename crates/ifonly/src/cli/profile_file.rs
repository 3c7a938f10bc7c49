//! Reads a profile from a file or from standard input: JSON, TOML, or one row of a table in any
//! format that `ifonly build` reads.
//!
//! Without the feature `build`, only uncompressed JSON, TOML and CSV are supported.

use crate::cli::exit::CommandError;
use ifonly_client::{ProfileError, ProfileValues};
#[cfg(not(feature = "build"))]
use std::io::Read;
use std::path::Path;

/// Limit for JSON and TOML files. Tables are read row by row and have no limit.
pub(crate) const MAX_TEXT_BYTES: u64 = 16 << 20;

/// The error for a longer file.
pub(crate) fn too_long() -> String {
    format!("the file is larger than {} MB", MAX_TEXT_BYTES >> 20)
}

/// Reads a profile: JSON, TOML, or the row `row` (counted from 1) of a table. The path `-` is
/// standard input.
pub(crate) fn profile(path: &Path, row: u64) -> Result<ProfileValues, CommandError> {
    let file = InputFile::open(path)?;
    let refuse = |error: ProfileError| CommandError::Input(format!("profile {}: {error}", path.display()));
    match file.format(path)? {
        Format::Json => ProfileValues::from_json(&file.text()?).map_err(refuse),
        Format::Toml => ProfileValues::from_toml(&file.text()?).map_err(refuse),
        Format::Table => file.row(row),
    }
}

/// The format of a profile.
enum Format {
    Json,
    Toml,
    Table,
}

impl InputFile {
    /// Determines the format by the file extension, or else by the first line.
    fn format(&self, path: &Path) -> Result<Format, CommandError> {
        let packed = path.extension().is_some_and(|ending| ending == "gz" || ending == "zst");
        let bare = if packed { Path::new(path.file_stem().unwrap_or_default()) } else { path };
        let ending = bare.extension().unwrap_or_default().to_ascii_lowercase();
        match ending.to_str() {
            Some("json") => return Ok(Format::Json),
            Some("toml") => return Ok(Format::Toml),
            Some("csv" | "tsv") => return Ok(Format::Table),
            _ if self.is_parquet()? => return Ok(Format::Table),
            _ => {}
        }
        let text = self.text()?;
        let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or("");
        Ok(match first {
            object if object.starts_with('{') => Format::Json,
            // The header of a table could contain "=", but that is unlikely in its first line.
            key if key.contains('=') => Format::Toml,
            _ => Format::Table,
        })
    }
}

/// An input file in any format that a build reads.
#[cfg(feature = "build")]
struct InputFile(ifonly_bundle::Input);

#[cfg(feature = "build")]
impl InputFile {
    fn open(path: &Path) -> Result<InputFile, CommandError> {
        ifonly_bundle::Input::open(path, &mut |_| {}).map(InputFile).map_err(InputFile::refuse)
    }

    fn refuse(error: ifonly_bundle::BuildError) -> CommandError {
        CommandError::Input(format!("profile {error}"))
    }

    fn is_parquet(&self) -> Result<bool, CommandError> {
        self.0.is_parquet().map_err(InputFile::refuse)
    }

    fn text(&self) -> Result<String, CommandError> {
        self.0.text(MAX_TEXT_BYTES).map_err(InputFile::refuse)
    }

    fn row(self, row: u64) -> Result<ProfileValues, CommandError> {
        Ok(self.0.row(row).map_err(InputFile::refuse)?.into_iter().collect())
    }
}

/// An input file of plain text, for a program without the feature `build`.
#[cfg(not(feature = "build"))]
struct InputFile {
    name: String,
    text: String,
}

#[cfg(not(feature = "build"))]
impl InputFile {
    fn open(path: &Path) -> Result<InputFile, CommandError> {
        let name = path.display().to_string();
        let refuse = |error: String| CommandError::Input(format!("profile {name}: {error}"));
        let mut bytes = vec![];
        let read = match name.as_str() {
            "-" => std::io::stdin().lock().take(MAX_TEXT_BYTES + 1).read_to_end(&mut bytes),
            _ => std::fs::File::open(path).and_then(|file| file.take(MAX_TEXT_BYTES + 1).read_to_end(&mut bytes)),
        };
        read.map_err(|error| refuse(error.to_string()))?;
        if bytes.len() as u64 > MAX_TEXT_BYTES {
            return Err(refuse(too_long()));
        }
        let magic: [&[u8]; 3] = [b"PAR1", &[0x1f, 0x8b], &[0x28, 0xb5, 0x2f, 0xfd]];
        if magic.iter().any(|magic| bytes.starts_with(magic)) {
            let reason = "the file is Parquet or compressed; this build of ifonly reads only uncompressed JSON, TOML and CSV \
                          because it was compiled without the feature `build`";
            return Err(refuse(reason.into()));
        }
        let text = String::from_utf8(bytes).map_err(|_| refuse("the file is not UTF-8; save it as UTF-8".into()))?;
        Ok(InputFile { name, text })
    }

    fn is_parquet(&self) -> Result<bool, CommandError> {
        Ok(false)
    }

    fn text(&self) -> Result<String, CommandError> {
        Ok(self.text.clone())
    }

    fn row(self, row: u64) -> Result<ProfileValues, CommandError> {
        let refuse = |error: ProfileError| CommandError::Input(format!("profile {}: {error}", self.name));
        let tabs = self.text.lines().next().is_some_and(|header| header.contains('\t'));
        let read = if tabs { ProfileValues::from_tsv } else { ProfileValues::from_csv };
        read(&self.text, row as usize).map_err(refuse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_and_a_directory_are_refused() {
        assert!(profile(Path::new("/nowhere/at.all"), 1).is_err());
        assert!(profile(Path::new(env!("CARGO_MANIFEST_DIR")), 1).is_err());
    }

    #[test]
    fn the_first_line_decides_the_format_if_the_extension_is_unknown() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("me", "{\"age\": 41}"),
            ("me.txt", "# mine\n\nage = 41\n"),
            ("me.data", "name\tage\nAnn\t41\n"),
            ("me.json", "{\"age\": 41}"),
            ("me.TOML", "age = 41"),
            ("me.csv", "age,name\n41,Ann\n"),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            let values = profile(&path, 1).unwrap();
            assert_eq!(values.get("age").map(ToString::to_string).as_deref(), Some("41"), "{name}");
        }
        let failure = profile(&folder.path().join("me.csv"), 2).unwrap_err().to_string();
        assert!(failure.contains("me.csv") && failure.contains("row 2"), "{failure}");
    }
}
