//! From a table to a bundle: read CSV or Parquet, find out what the columns mean, quantise, and write what servers load.
//!
//! [`build`] goes over the data twice: once to learn names, kinds and bounds (`stats`, `infer`),
//! once to encode the accepted rows. A [`Bundle`] is a directory with the public manifest, the quantised rows, the
//! original rows as records, and checksums; [`Bundle::open`] believes none of it before it has checked. Nothing here knows the
//! network or the keys, and nothing is left half-written.
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
mod report;
mod settings;
mod source;
mod stats;
mod summary;
mod write;

pub use accept::Accept;
pub use build::build;
pub use bundle::Bundle;
pub use error::{BuildError, OpenError, Place};
pub use options::{BuildOptions, DeploymentOptions};
pub use report::{FeatureReport, LeftOut, Report, Sizes};
pub use settings::{FeatureSettings, KindName, Others, Scalar, Settings};
pub use source::{Progress, Stage};
pub use summary::{SchemeSummary, Summary, summarise};
