//! From a table to a bundle: read CSV or Parquet, find out what the columns mean, quantise, and write what servers load.
//!
//! [`build`] goes over the data twice: once to learn names, kinds and bounds (`stats`, `infer`),
//! once to encode the accepted rows. A [`Bundle`] is a directory with the public manifest, the quantised rows, the
//! original rows as records, and checksums; [`Bundle::open`] believes none of it before it has checked. Nothing here knows the
//! network or the keys, and nothing is left half-written.
//!
//! ```
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
#![forbid(unsafe_code)]

mod accept;
mod build;
mod bundle;
mod csv_source;
mod deploy;
mod deviation;
mod error;
mod format;
mod infer;
mod options;
mod ordinal;
mod parquet_source;
mod reading;
mod report;
mod settings;
mod source;
mod stats;
mod summary;
mod values;
mod write;

pub use accept::Accept;
pub use build::build;
pub use bundle::Bundle;
pub use error::{BuildError, OpenError, Place};
pub use options::{BuildOptions, DeploymentOptions};
pub use report::{FeatureReport, LeftOut, Report, Sizes};
pub use settings::{FeatureSettings, KindName, Missing, Others, Scalar, ScaleName, Settings};
pub use source::{Progress, Stage};
pub use summary::{SchemeSummary, Summary, summarise};
