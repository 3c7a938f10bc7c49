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
//! let options = BuildOptions { data, output, target, accept, ..BuildOptions::default() };
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
mod build;
mod bundle;
#[cfg(feature = "build")]
mod by_text;
#[cfg(feature = "build")]
mod csv_source;
#[cfg(feature = "build")]
mod deploy;
mod deviation;
mod error;
mod format;
#[cfg(feature = "build")]
mod infer;
#[cfg(feature = "build")]
mod input;
#[cfg(feature = "build")]
mod options;
#[cfg(feature = "build")]
mod ordinal;
#[cfg(feature = "build")]
mod parquet_source;
mod part;
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
mod stats;
mod summary;
mod values;
mod write;

#[cfg(feature = "build")]
pub use accept::{Accept, Mask};
#[cfg(feature = "arrow")]
pub use arrow_source::ArrowTable;
#[cfg(feature = "build")]
pub use build::{Inputs, build, build_from};
pub use bundle::Bundle;
pub use error::{BuildError, OpenError, Place};
#[cfg(feature = "build")]
pub use input::Input;
#[cfg(feature = "build")]
pub use options::{BuildOptions, DeploymentOptions};
pub use part::{BundlePart, Outline, SplitError};
pub use report::{FeatureReport, LeftOut, Report, Sizes};
#[cfg(feature = "build")]
pub use settings::{FeatureSettings, KindName, Missing, Others, Scalar, ScaleName, Settings};
#[cfg(feature = "build")]
pub use signing_key::{load_key, save_key};
#[cfg(feature = "build")]
pub use source::{Progress, Stage, Watch};
pub use summary::{SchemeSummary, Summary, summarise};
