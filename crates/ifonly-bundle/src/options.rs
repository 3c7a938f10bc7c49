//! What a build is asked for. Whatever is left open has a default, so that a data file and a name are enough.

use ifonly_core::manifest::Operator;
use std::path::PathBuf;

/// What to build from what.
#[derive(Clone, Debug, Default)]
pub struct BuildOptions {
    /// A CSV or Parquet file.
    pub data: PathBuf,
    /// The bundle's directory.
    pub output: PathBuf,
    /// Whether a bundle of that name is replaced.
    pub replace: bool,
    /// The column that says who was accepted; without one, here or in the schema file, every row was.
    pub target: Option<String>,
    /// Values or comparisons such as `>=5`, any of which means acceptance. They take the place of the schema file's.
    pub accept: Vec<String>,
    /// A schema file.
    pub schema: Option<PathBuf>,
    /// R of continuous columns that do not say otherwise; 100 unless the schema file says so.
    pub levels: Option<u32>,
    /// What separates the fields of a CSV file; the header tells where it is not given.
    pub delimiter: Option<u8>,
    /// The dataset's name; the file's unless given.
    pub name: Option<String>,
    /// The dataset's version; "1" unless given.
    pub version: Option<String>,
    /// How it will be served.
    pub deployment: DeploymentOptions,
}

/// How a bundle will be served. What is not given is as in [`Contents::new`](ifonly_core::manifest::Contents::new).
#[derive(Clone, Debug, Default)]
pub struct DeploymentOptions {
    /// How many servers there are; 2 unless given.
    pub servers: Option<u8>,
    /// Who runs them, in order; their number takes the place of `servers`.
    pub operators: Vec<Operator>,
    /// T.
    pub threshold: Option<usize>,
    /// S.
    pub silent: Option<usize>,
    /// B.
    pub lying: Option<usize>,
    /// Whether every search lists the rows in a fresh order.
    pub shuffle: Option<bool>,
    /// Whether lies show.
    pub verified: Option<bool>,
    /// L1.
    pub weight_limit: Option<u64>,
    /// F.
    pub immutable_limit: Option<usize>,
    /// d_min.
    pub mask: Option<u64>,
    /// p.
    pub exponent: Option<u32>,
    /// The largest entry of a cost table; unless given, what weights and counted changes need.
    pub cost_limit: Option<u64>,
    /// The largest k.
    pub top_limit: Option<usize>,
    /// The schemes to offer; all that fit unless given.
    pub schemes: Vec<String>,
    /// The scheme to prefer.
    pub default_scheme: Option<String>,
    /// The key epochs, the current one first.
    pub epochs: Vec<u32>,
}
