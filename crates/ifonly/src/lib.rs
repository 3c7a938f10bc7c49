//! Private counterfactual retrieval: "if only I had …", answered without showing anyone who is asking.
//!
//! One door to the crates behind it, by role; each role is a feature, and all are on by default:
//!
//! | feature | what it is for | begin with |
//! |---|---|---|
//! | `build` | making a bundle from a table | [`build()`], [`BuildOptions`] |
//! | `serve` | being one of the servers | [`Bundle`], [`Server`], [`Config`](server::Config) |
//! | `ask` | asking them | [`Client`], [`Values`], [`WishList`] |
//! | `lab` | what a user learns | [`lab`] |
//! | `bench` | measuring | [`scan::bench`] |
//!
//! An institution makes a bundle of its accepted rows, which every operator of a server gets:
#![cfg_attr(feature = "build", doc = "```")]
#![cfg_attr(not(feature = "build"), doc = "```ignore")]
//! use ifonly::{BuildOptions, Bundle, build};
//! # let desk = tempfile::tempdir()?;
//! # let (data, output) = (desk.path().join("loans.csv"), desk.path().join("loans.bundle"));
//! std::fs::write(&data, "income,job,approved\n2100,nurse,yes\n900,baker,no\n1800,pilot,yes\n")?;
//! let (target, accept) = (Some("approved".into()), vec!["yes".into()]);
//! let options = BuildOptions { data, output, target, accept, ..BuildOptions::default() };
//! println!("{}", build(&options, &mut |_progress| {})?);
//! assert_eq!(Bundle::open(&options.output)?.manifest().rows(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

#[cfg(any(feature = "build", feature = "serve"))]
pub use ifonly_bundle::Bundle;
#[cfg(feature = "build")]
pub use ifonly_bundle::{BuildOptions, build};
#[cfg(feature = "ask")]
pub use ifonly_client::{self as client, Answer, Client, Explanation, Pins, Values, WishList};
pub use ifonly_core::{self as core, manifest::Manifest, wishes::Wishes};
#[cfg(feature = "lab")]
pub use ifonly_lab as lab;
#[cfg(feature = "bench")]
pub use ifonly_scan as scan;
#[cfg(feature = "serve")]
pub use ifonly_server::{self as server, Server};
