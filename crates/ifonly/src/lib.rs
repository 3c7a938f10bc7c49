//! Private counterfactual retrieval: "if only I had …", answered without showing anyone who is
//! asking.
//!
//! One door to the crates behind it, by role; each role is a feature, and all are on by default:
//!
//! | feature | what it is for | begin with |
//! |---|---|---|
//! | `build` | making a bundle from a table | [`build()`], [`BuildOptions`] |
//! | `serve` | being one of the servers, or all of them at home | [`Bundle`], [`Server`], [`Config`](server::Config); [`Loopback`] |
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
//! let (target, accept) = (Some("approved".into()), vec!["yes".into()]); let options = BuildOptions
//! { data: vec![data], output, target, accept, ..BuildOptions::default() }; println!("{}",
//! build(&options, &mut |_progress| {})?);
//! assert_eq!(Bundle::open(&options.output)?.manifest().rows(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Each operator serves it under the root key that all of them share ([`server::daemon`] does the same from a [`Config`](server::Config),
//! with tokens and TLS):
#![cfg_attr(feature = "serve", doc = "```no_run")]
#![cfg_attr(not(feature = "serve"), doc = "```ignore")]
//! use ifonly::server::{Holding, config::Limits, keyfile, routes::App, tokens::Tokens};
//! use ifonly::{Bundle, Server};
//! # async fn serve(stop: impl Future<Output = ()>) -> Result<(), Box<dyn std::error::Error>> {
//! let bundle = Bundle::open("loans.bundle".as_ref())?;
//! let holding = Holding::new(&bundle, 1, vec![keyfile::load("root.key".as_ref())?])?;
//! let app = App::new(holding, Tokens::new(vec![], None)?, Limits::default(), vec![]);
//! let server = Server::bind(app, "127.0.0.1:8001".parse()?, None, None).await?;
//! server.run(stop).await;
//! # Ok(())
//! # }
//! ```
//!
//! A person asks all of them at once; none learns anything:
#![cfg_attr(feature = "ask", doc = "```no_run")]
#![cfg_attr(not(feature = "ask"), doc = "```ignore")]
//! use ifonly::client::{Policy, http};
//! use ifonly::{Client, Pins, Values, WishList};
//! # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
//! let urls = ["https://one.example:8443".into(), "https://two.example:8443".into()]; let servers =
//! http::servers(&urls, &http::Trust::system()?, None, Policy::default())?; let client =
//! Client::connect(servers, &Pins { threshold: Some(1), ..Pins::default() }).await?; let values =
//! Values::from_json(r#"{"income": 1500, "job": "nurse"}"#)?; let wishes = WishList { immutable:
//! vec!["job".into()], ..WishList::default() }; for change in client.ask(&values,
//! &wishes).await?.found.iter().flat_map(|nearest| &nearest.changes) {
//!     println!("{}: {} instead of {}", change.feature, change.theirs, change.yours);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The readme has all three in one small program, with servers that are [`InProcess`].
#![forbid(unsafe_code)]

// The command line speaks of this crate as other programs do.
extern crate self as ifonly;

#[cfg(feature = "lab")]
pub mod bundle_rows;
pub mod cli;
#[cfg(feature = "bench")]
mod end_to_end;
mod local;
#[cfg(feature = "bench")]
mod sealed_bench;
#[cfg(feature = "bench")]
mod timing;

/// What the readme shows is a test.
#[cfg(all(doctest, feature = "ask", feature = "serve"))]
#[doc = include_str!("../README.md")]
struct Readme;

pub use ifonly_algebra as algebra;
#[cfg(any(feature = "build", feature = "serve"))]
pub use ifonly_bundle::{self as bundle, Bundle};
#[cfg(feature = "build")]
pub use ifonly_bundle::{BuildOptions, build};
#[cfg(feature = "ask")]
pub use ifonly_client::{self as client, Answer, Client, Explanation, Pins, ProfileValues, WishList};
pub use ifonly_core as core;
#[cfg(feature = "lab")]
pub use ifonly_lab as lab;
#[cfg(feature = "bench")]
pub use ifonly_scan as scan;
#[cfg(feature = "serve")]
pub use ifonly_server::{self as server, Server};
pub use ifonly_values as values;
pub use ifonly_values::error_category::ErrorCategory;
pub use ifonly_values::manifest::Manifest;
pub use ifonly_values::wishes::Wishes;
#[cfg(all(feature = "ask", feature = "serve"))]
pub use local::in_process::InProcess;
#[cfg(feature = "serve")]
pub use local::loopback::{Loopback, LoopbackError};
