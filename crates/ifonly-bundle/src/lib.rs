//! From a table to a bundle: read CSV, Parquet or Arrow, find out what the columns mean, quantise,
//! and write what servers load.
//!
//! [`build`] goes over the data twice: once to learn names, kinds and bounds (`stats`, `infer`),
//! once to encode the accepted rows. A [`Bundle`] is a directory with the public manifest, the
//! quantised rows, the original rows as signed records, and checksums; [`Bundle::open`] believes
//! none of it before it has checked. Nothing here knows the network or the keys, and nothing is
//! left half-written.
//!
#![cfg_attr(feature = "build", doc = "```")]
#![cfg_attr(not(feature = "build"), doc = "```ignore")]
//! use ifonly_bundle::{BuildOptions, Bundle, build};
//! # let desk = tempfile::tempdir()?;
//! # let (data, output) = (desk.path().join("loans.csv"), desk.path().join("loans.bundle"));
//! std::fs::write(&data, "income,job,approved\n2100,nurse,yes\n900,baker,no\n1800,pilot,yes\n")?;
//! let (target, accept) = (Some("approved".into()), vec!["yes".into()]); let options = BuildOptions
//! { data: vec![data], output, target, accept, ..BuildOptions::default() }; let report =
//! build(&options, &mut |_progress| {})?; println!("{report}");
//! assert_eq!(Bundle::open(&options.output)?.manifest().rows(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Without the feature `build` bundles are opened and made of values in memory, but not of files: a server needs no Parquet.
#![cfg_attr(not(feature = "build"), allow(dead_code, reason = "reports and staging are the build's"))]
#![forbid(unsafe_code)]

mod build;
mod columns;
mod error;
mod format;
mod input;
#[cfg(feature = "build")]
mod options;

#[cfg(feature = "build")]
pub use build::accept::{AcceptCondition, AcceptMask};
#[cfg(feature = "build")]
pub use build::parts::{LevelCounts, PartFiles, SigningJob};
#[cfg(feature = "build")]
pub use build::plan::EncodingPlan;
pub use build::report::{BuildReport, BundleSizes, ExcludedColumn, FeatureReport};
#[cfg(feature = "build")]
pub use build::run::{Build, BuildInputs, build, build_from};
#[cfg(feature = "build")]
pub use build::signing_key::{load_key, save_key};
#[cfg(feature = "build")]
pub use build::task::BuildTask;
#[cfg(feature = "build")]
pub use columns::schema_file::{
    FeatureOverrides, KindName, MissingPolicy, Scalar, ScaleName, SchemaFile, UnlistedColumns,
};
#[cfg(feature = "build")]
pub use columns::table_stats::TableStats;
pub use error::{BuildError, FileLocation, OpenError};
pub use format::open::Bundle;
pub use format::split::{BundleMetadata, BundlePart, SplitError};
pub use format::summary::{ManifestSummary, SchemeSummary, summarise};
#[cfg(feature = "build")]
pub use format::write::ScratchDir;
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
