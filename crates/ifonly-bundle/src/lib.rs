//! From a table to a bundle: read CSV, Parquet or Arrow, find out what the columns mean, quantise, and write what servers load.
//!
//! [`build`] goes over the data twice: once to learn names, kinds and bounds (`stats`, `infer`),
//! once to encode the accepted rows. A [`Bundle`] is a directory with the public manifest, the quantised rows, the
//! original rows as signed records, and checksums; [`Bundle::open`] believes none of it before it has checked. Nothing here knows the
//! network or the keys, and nothing is left half-written.
//!
#![cfg_attr(feature = "build", doc = "```")]
#![cfg_attr(not(feature = "build"), doc = "```ignore")]
//! use ifonly_bundle::{BuildOptions, Bundle, build};
//! # let desk = tempfile::tempdir()?;
//! # let (data, output) = (desk.path().join("loans.csv"), desk.path().join("loans.bundle"));
//! std::fs::write(&data, "income,job,approved\n2100,nurse,yes\n900,baker,no\n1800,pilot,yes\n")?;
//! let (target, accept) = (Some("approved".into()), vec!["yes".into()]);
//! let options = BuildOptions { data: vec![data], output, target, accept, ..BuildOptions::default() };
//! let report = build(&options, &mut |_progress| {})?;
//! println!("{report}");
//! assert_eq!(Bundle::open(&options.output)?.manifest().rows(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Without the feature `build` bundles are opened and made of values in memory, but not of files: a server needs no Parquet.
#![cfg_attr(not(feature = "build"), allow(dead_code, reason = "reports and staging are the build's"))]
#![forbid(unsafe_code)]

#[cfg(feature = "build")]
mod accept;
#[cfg(feature = "arrow")]
mod arrow_source;
#[cfg(feature = "build")]
mod assemble;
#[cfg(feature = "build")]
mod bits;
#[cfg(feature = "build")]
mod build;
mod bundle;
#[cfg(feature = "build")]
mod by_text;
#[cfg(feature = "build")]
mod csv_source;
mod cut;
#[cfg(feature = "build")]
mod deploy;
mod deviation;
#[cfg(feature = "build")]
mod distinct;
mod error;
mod format;
#[cfg(feature = "build")]
mod infer;
#[cfg(feature = "build")]
mod input;
#[cfg(feature = "build")]
mod learnt;
#[cfg(feature = "build")]
mod options;
#[cfg(feature = "build")]
mod ordinal;
#[cfg(feature = "build")]
mod parquet_source;
#[cfg(feature = "build")]
mod parts;
#[cfg(feature = "build")]
mod plan;
#[cfg(feature = "build")]
mod reading;
mod report;
#[cfg(feature = "build")]
mod settings;
mod sign;
#[cfg(feature = "build")]
mod signing_key;
#[cfg(feature = "build")]
mod source;
#[cfg(feature = "build")]
mod spread;
#[cfg(feature = "build")]
mod stats;
mod summary;
#[cfg(feature = "build")]
mod tables;
mod values;
#[cfg(feature = "build")]
mod work;
mod write;

#[cfg(feature = "build")]
pub use accept::{AcceptCondition, AcceptMask};
#[cfg(feature = "arrow")]
pub use arrow_source::ArrowTable;
#[cfg(feature = "build")]
pub use build::{Build, BuildInputs, build, build_from};
pub use bundle::Bundle;
pub use cut::{BundleMetadata, BundlePart, SplitError};
pub use error::{BuildError, FileLocation, OpenError};
#[cfg(feature = "build")]
pub use input::Input;
#[cfg(feature = "build")]
pub use learnt::TableStats;
#[cfg(feature = "build")]
pub use options::{BuildOptions, DeploymentOptions};
#[cfg(feature = "build")]
pub use parts::{LevelCounts, PartFiles, SigningJob};
#[cfg(feature = "build")]
pub use plan::EncodingPlan;
pub use report::{BuildReport, BundleSizes, ExcludedColumn, FeatureReport};
#[cfg(feature = "build")]
pub use settings::{FeatureOverrides, KindName, MissingPolicy, Scalar, ScaleName, SchemaFile, UnlistedColumns};
#[cfg(feature = "build")]
pub use signing_key::{load_key, save_key};
#[cfg(feature = "build")]
pub use source::{BuildProgress, BuildStage, ProgressCallback};
pub use summary::{ManifestSummary, SchemeSummary, summarise};
#[cfg(feature = "build")]
pub use tables::TablePart;
#[cfg(feature = "build")]
pub use work::BuildTask;
#[cfg(feature = "build")]
pub use write::ScratchDir;
