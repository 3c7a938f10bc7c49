//! A profile from a file or from standard input: JSON, TOML, or a row of any table that `ifonly
//! build` reads.

use crate::cli::exit::CommandError;
use ifonly_client::ProfileValues;
#[cfg(not(feature = "build"))]
use std::io::Read;
use std::path::Path;

/// Longer texts are neither profiles nor costs; tables may be as long as they like.
pub(crate) const LONGEST: u64 = 16 << 20;

/// What is said about longer ones.
pub(crate) fn too_long() -> String {
    format!("more than {} MB are too many", LONGEST >> 20)
}

/// Reads a profile: JSON, TOML, or the row `row` (counted from 1) of a table; `-` is standard
/// input.
pub(crate) fn profile(path: &Path, row: u64) -> Result<ProfileValues, CommandError> {
    let given = InputFile::open(path)?;
    let refuse = |error: String| CommandError::Input(format!("profile {}: {error}", path.display()));
    match given.format(path)? {
        Format::Json => ProfileValues::from_json(&given.text()?).map_err(refuse),
        Format::Toml => ProfileValues::from_toml(&given.text()?).map_err(refuse),
        Format::Table => given.row(row),
    }
}

/// What a profile is.
enum Format {
    Json,
    Toml,
    Table,
}

impl InputFile {
    /// Its ending says what it is, and without a known one its beginning.
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
            // A column may have such a name, but hardly the first of a person's table.
            key if key.contains('=') => Format::Toml,
            _ => Format::Table,
        })
    }
}

/// What was given: any file that a build reads.
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
        self.0.text(LONGEST).map_err(InputFile::refuse)
    }

    fn row(self, row: u64) -> Result<ProfileValues, CommandError> {
        Ok(self.0.row(row).map_err(InputFile::refuse)?.into_iter().collect())
    }
}

/// What was given: text, where this program was made for asking only.
#[cfg(not(feature = "build"))]
struct Given {
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
            "-" => std::io::stdin().lock().take(LONGEST + 1).read_to_end(&mut bytes),
            _ => std::fs::File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes)),
        };
        read.map_err(|error| refuse(error.to_string()))?;
        if bytes.len() as u64 > LONGEST {
            return Err(refuse(too_long()));
        }
        let magic: [&[u8]; 3] = [b"PAR1", &[0x1f, 0x8b], &[0x28, 0xb5, 0x2f, 0xfd]];
        if magic.iter().any(|magic| bytes.starts_with(magic)) {
            let reason = "it is Parquet or compressed, and this ifonly reads plain JSON, TOML and CSV; one with the feature \
                          `build`, as it comes by default, reads the rest";
            return Err(refuse(reason.into()));
        }
        let text = String::from_utf8(bytes).map_err(|_| refuse("it is not UTF-8; save it as UTF-8".into()))?;
        Ok(InputFile { name, text })
    }

    fn is_parquet(&self) -> Result<bool, CommandError> {
        Ok(false)
    }

    fn text(&self) -> Result<String, CommandError> {
        Ok(self.text.clone())
    }

    fn row(self, row: u64) -> Result<ProfileValues, CommandError> {
        let refuse = |error: String| CommandError::Input(format!("profile {}: {error}", self.name));
        let tabs = self.text.lines().next().is_some_and(|header| header.contains('\t'));
        let read = if tabs { ProfileValues::from_tsv } else { ProfileValues::from_csv };
        read(&self.text, row as usize).map_err(refuse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_refused() {
        assert!(profile(Path::new("/nowhere/at.all"), 1).is_err());
        assert!(profile(Path::new(env!("CARGO_MANIFEST_DIR")), 1).is_err());
    }

    #[test]
    fn beginnings_tell_what_endings_do_not() {
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
