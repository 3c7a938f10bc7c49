//! What a build is asked for, in the words of the command line. Whatever is left open has a
//! default, so that a data file and a name are enough.

use crate::columns::schema_file::{MissingPolicy, ScaleName};
use ifonly_core::params::ParamOptions;
use std::path::PathBuf;

/// What to build from what.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct BuildOptions {
    /// CSV or Parquet files, also compressed (gzip, Zstandard), or directories of them; - is
    /// standard input. Their rows follow each other.
    #[cfg_attr(feature = "clap", arg(required = true, value_name = "DATA"))]
    pub data: Vec<PathBuf>,
    /// The bundle's directory.
    #[cfg_attr(feature = "clap", arg(short, long, value_name = "BUNDLE"))]
    pub output: PathBuf,
    /// The column that says who was accepted; without one, here or in the schema file, every row
    /// was.
    #[cfg_attr(feature = "clap", arg(long, value_name = "COLUMN"))]
    pub target: Option<String>,
    /// A value or a comparison such as '>=5' that means acceptance; any of several is enough. They
    /// take the place of the schema file's.
    #[cfg_attr(feature = "clap", arg(long, value_name = "VALUE"))]
    pub accept: Vec<String>,
    /// A schema file (TOML); docs/bundles.md describes it.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub schema: Option<PathBuf>,
    /// The most levels of a continuous column that does not say otherwise: 1,000, or fewer in wide
    /// tables.
    #[cfg_attr(feature = "clap", arg(long, value_name = "LEVELS"))]
    pub levels: Option<u32>,
    /// How numbers become levels where columns do not say otherwise: a level per value or round
    /// steps, unless given.
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub scale: Option<ScaleName>,
    /// What happens to missing values of columns that do not say otherwise.
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub missing: Option<MissingPolicy>,
    /// What separates the fields of a CSV file; the header tells where it is not given.
    #[cfg_attr(feature = "clap", arg(long, value_name = "CHARACTER", value_parser = delimiter))]
    pub delimiter: Option<u8>,
    /// The dataset's name; the file's or directory's unless given, or the bundle's where there are
    /// several.
    #[cfg_attr(feature = "clap", arg(long))]
    pub name: Option<String>,
    /// The dataset's version; "1" unless given.
    #[cfg_attr(feature = "clap", arg(id = "data_version", long = "data-version", value_name = "VERSION"))]
    pub version: Option<String>,
    /// The key that signs the records, as `ifonly keygen --signing-key` makes it; unless given, the
    /// one beside the bundle, BUNDLE.signing.key, which is made where there is none. It must not go
    /// to the servers.
    #[cfg_attr(feature = "clap", arg(long, value_name = "KEY"))]
    pub signing_key: Option<PathBuf>,
    /// Replace a bundle of that name.
    #[cfg_attr(feature = "clap", arg(long))]
    pub replace: bool,
    /// How it will be served.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub deployment: DeploymentOptions,
}

/// How a bundle will be served. What is not given is as in
/// [`Contents::new`](ifonly_values::manifest::Contents::new).
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct DeploymentOptions {
    /// How many servers will hold it; 2 unless given.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub servers: Option<u8>,
    /// Who runs a server and where, in order: "Name" or "Name=https://address". Their number is
    /// that of the servers.
    #[cfg_attr(feature = "clap", arg(long = "operator", value_name = "NAME[=URL]"))]
    pub operators: Vec<String>,
    /// Limits and parameters.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub terms: ParamOptions,
    /// Which schemes to offer; those of the gated family that fit unless given. Others tell people
    /// more about the rows.
    #[cfg_attr(feature = "clap", arg(long = "scheme", value_name = "SCHEME"))]
    pub schemes: Vec<String>,
    /// The scheme to prefer.
    #[cfg_attr(feature = "clap", arg(long, value_name = "SCHEME"))]
    pub default_scheme: Option<String>,
    /// The key epochs in use, the current one first.
    #[cfg_attr(feature = "clap", arg(long = "epoch", value_name = "EPOCH"))]
    pub epochs: Vec<u32>,
}

#[cfg(feature = "clap")]
fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("it must be one ASCII character".into()),
    }
}
