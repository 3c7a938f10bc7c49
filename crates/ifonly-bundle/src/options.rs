//! The options of a build. The command line (feature `clap`) and the Python package (serde) use the
//! same type.
//!
//! Only the data and the output are required; every other option has a default.

use crate::columns::schema_file::{MissingPolicy, ScaleName};
#[cfg(feature = "clap")]
use crate::error::COST_BITS;
use ifonly_core::params::ParamOptions;
use ifonly_core::signature::BundleId;
use std::path::PathBuf;

/// The data, the output and the settings of one build.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct BuildOptions {
    /// CSV or Parquet files, optionally compressed (gzip, Zstandard), or directories of them; - for
    /// standard input. The rows of all files form one table.
    #[cfg_attr(feature = "clap", arg(required = true, value_name = "DATA"))]
    pub data: Vec<PathBuf>,
    /// Directory of the bundle.
    #[cfg_attr(feature = "clap", arg(short, long, value_name = "BUNDLE"))]
    pub output: PathBuf,
    /// Target column. Without it, here and in the schema file, all rows count as accepted.
    #[cfg_attr(feature = "clap", arg(long, value_name = "COLUMN"))]
    pub target: Option<String>,
    /// Accepted value or comparison such as '>=5'; repeatable, one match is enough. Replaces those
    /// of the schema file.
    #[cfg_attr(feature = "clap", arg(long, value_name = "VALUE"))]
    pub accept: Vec<String>,
    /// Schema file (TOML); docs/bundles.md describes it.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub schema: Option<PathBuf>,
    /// Maximum number of levels of a continuous column without its own setting; default 1,000,
    /// fewer in wide tables.
    #[cfg_attr(feature = "clap", arg(long, value_name = "LEVELS"))]
    pub levels: Option<u32>,
    /// Scale of numeric columns without their own setting; default: one level per value if that
    /// fits, otherwise round steps.
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub scale: Option<ScaleName>,
    /// Treatment of missing values in columns without their own setting; default refuse.
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub missing: Option<MissingPolicy>,
    /// Field separator of CSV files; default: detected from the header.
    #[cfg_attr(feature = "clap", arg(long, value_name = "CHARACTER", value_parser = delimiter))]
    pub delimiter: Option<u8>,
    /// Name of the dataset; default: name of the data file or directory, or of the bundle if there
    /// are several inputs.
    #[cfg_attr(feature = "clap", arg(long))]
    pub name: Option<String>,
    /// Version of the dataset; default "1".
    #[cfg_attr(feature = "clap", arg(id = "data_version", long = "data-version", value_name = "VERSION"))]
    pub version: Option<String>,
    /// Signing key file, as `ifonly keygen --signing-key` creates it; default BUNDLE.signing.key,
    /// created if missing. Never copy this key to a server.
    #[cfg_attr(feature = "clap", arg(long, value_name = "KEY"))]
    pub signing_key: Option<PathBuf>,
    /// Bundle id, 32 hexadecimal digits; default: random. Only builds with the same id can give the
    /// same bytes.
    #[cfg_attr(feature = "clap", arg(long, value_name = "ID"))]
    pub bundle_id: Option<BundleId>,
    /// Replace people by groups: every record stands for at least K accepted people and is
    /// no original row. 1 keeps original rows without a warning.
    #[cfg_attr(feature = "clap", arg(long, value_name = "K"))]
    pub group: Option<u32>,
    /// Cut groups where an earlier bundle was cut (file OLD.cuts.json beside it), so that two
    /// versions reveal little when compared.
    #[cfg_attr(feature = "clap", arg(long, value_name = "OLD"))]
    pub cuts: Option<PathBuf>,
    /// Replace an existing bundle.
    #[cfg_attr(feature = "clap", arg(long))]
    pub replace: bool,
    /// How the bundle will be served.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub deployment: DeploymentOptions,
}

/// How a bundle will be served. The defaults are those of
/// [`ManifestFields::new`](ifonly_values::manifest::ManifestFields::new).
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct DeploymentOptions {
    /// Number of servers; default 2.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub servers: Option<u8>,
    /// Operator of the next server: "Name" or "Name=https://address"; repeatable, one per server in
    /// order. Determines the number of servers.
    #[cfg_attr(feature = "clap", arg(long = "operator", value_name = "NAME[=URL]"))]
    pub operators: Vec<String>,
    /// Bits of the largest cost, instead of --cost-limit; default 24 to 28 so that a search answers
    /// one 32-bit word per row, 31 with more than 250 features. More bits round finer, double the
    /// download and more, and give a client that cheats more bits of every row.
    #[cfg_attr(feature = "clap", arg(long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(COST_BITS), conflicts_with = "cost_limit"))]
    pub cost_bits: Option<u32>,
    /// Limits and protocol parameters.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub terms: ParamOptions,
    /// Scheme to offer; repeatable. Default: the sealed search alone if there are three operators,
    /// otherwise all gated schemes that fit. Non-gated schemes reveal more about the rows.
    #[cfg_attr(feature = "clap", arg(long = "scheme", value_name = "SCHEME"))]
    pub schemes: Vec<String>,
    /// Scheme that clients use by default.
    #[cfg_attr(feature = "clap", arg(long, value_name = "SCHEME"))]
    pub default_scheme: Option<String>,
    /// Key epoch in use; repeatable, the current epoch first.
    #[cfg_attr(feature = "clap", arg(long = "epoch", value_name = "EPOCH"))]
    pub key_epochs: Vec<u32>,
}

#[cfg(feature = "clap")]
fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("the delimiter must be one ASCII character".into()),
    }
}
