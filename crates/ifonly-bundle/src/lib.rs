//! Bundles: the directories that servers load, and how to build them from tables.
//!
//! [`build`] reads a CSV, Parquet or Arrow table twice. The first pass collects statistics of each
//! column, from which the schema is inferred (`columns`). The second pass quantises the accepted
//! rows and signs their records (`build`).
//!
//! A [`Bundle`] is a directory with the public manifest, the quantised rows, the original rows as
//! signed records, and checksums (`format`). [`Bundle::open`] checks every file before use. A build
//! writes a complete bundle or nothing.
//!
//! This crate does not use the network, and it does not know the servers' root keys.
//!
#![cfg_attr(feature = "build", doc = "```")]
#![cfg_attr(not(feature = "build"), doc = "```ignore")]
//! use ifonly_bundle::{BuildOptions, Bundle, build};
//! # let directory = tempfile::tempdir()?;
//! # let data = directory.path().join("loans.csv");
//! # let output = directory.path().join("loans.bundle");
//! std::fs::write(&data, "income,job,approved\n2100,nurse,yes\n900,baker,no\n1800,pilot,yes\n")?;
//! let options = BuildOptions {
//!     data: vec![data],
//!     output,
//!     target: Some("approved".into()),
//!     accept: vec!["yes".into()],
//!     ..BuildOptions::default()
//! };
//! let report = build(&options, &mut |_progress| {})?;
//! println!("{report}");
//! assert_eq!(Bundle::open(&options.output)?.manifest().rows(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Without the feature `build`, bundles can be opened and made from values in memory, but not from
//! files: a server needs no CSV or Parquet reader.
#![cfg_attr(not(feature = "build"), allow(dead_code, reason = "only builds use reports and staging"))]
#![forbid(unsafe_code)]

mod build;
mod columns;
mod error;
mod format;
#[cfg(feature = "build")]
mod group;
mod input;
#[cfg(feature = "build")]
mod options;

#[cfg(feature = "build")]
pub use build::accept::{AcceptCondition, AcceptError, AcceptMask};
pub use build::group_report::{Exposure, GroupPrice, GroupReport};
#[cfg(feature = "build")]
pub use build::parts::{LevelCounts, PartFiles, SigningJob};
#[cfg(feature = "build")]
pub use build::plan::EncodingPlan;
pub use build::report::{BuildReport, BundleSizes, ExcludedColumn, FeatureReport};
#[cfg(feature = "build")]
pub use build::run::{Build, BuildInputs, GroupModel, build, build_from};
#[cfg(feature = "build")]
pub use build::signing_key::{load_key, save_key};
#[cfg(feature = "build")]
pub use build::task::BuildTask;
#[cfg(feature = "build")]
pub use columns::schema_file::{
    FeatureOverrides, KindName, MissingPolicy, Scalar, ScaleName, SchemaFile, SchemaFileError, UnlistedColumns,
};
#[cfg(feature = "build")]
pub use columns::table_stats::TableStats;
pub use error::{BuildError, FileLocation, OpenError};
pub use format::open::Bundle;
pub use format::split::{BundleMetadata, BundlePart, SplitError};
pub use format::summary::{ManifestSummary, SchemeSummary, summarise};
#[cfg(feature = "build")]
pub use format::write::ScratchDir;
#[cfg(feature = "build")]
pub use group::publish::ModelCheck;
#[cfg(feature = "build")]
pub use group::trial::{GroupTrial, TrialRecord};
#[cfg(feature = "arrow")]
pub use input::arrow::ArrowTable;
#[cfg(feature = "build")]
pub use input::file::Input;
#[cfg(feature = "build")]
pub use input::source::{BuildProgress, BuildStage, ProgressCallback};
#[cfg(feature = "build")]
pub use input::table_set::TablePart;
#[cfg(feature = "build")]
pub use options::{BuildOptions, DeploymentOptions};
