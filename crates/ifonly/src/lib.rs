//! Private counterfactual retrieval: find the nearest accepted case without revealing your data.
//!
//! This crate re-exports the crates of the workspace by role. Each role is a feature; all are
//! enabled by default:
//!
//! | feature | role | start with |
//! |---|---|---|
//! | `build` | institution: build a bundle from a table | [`build()`], [`BuildOptions`] |
//! | `serve` | operator: run one server, or all on this machine | [`Server`], [`Loopback`] |
//! | `ask` | user: search | [`Client`], [`ProfileValues`], [`WishList`] |
//! | `lab` | analysis: what a user learns | [`lab`] |
//!
//! An institution builds a bundle of its accepted rows. Every operator gets a copy:
#![cfg_attr(feature = "build", doc = "```")]
#![cfg_attr(not(feature = "build"), doc = "```ignore")]
//! use ifonly::{BuildOptions, Bundle, build};
//! # let folder = tempfile::tempdir()?;
//! # let (data, output) = (folder.path().join("loans.csv"), folder.path().join("loans.bundle"));
//! std::fs::write(&data, "income,job,approved\n2100,nurse,yes\n900,baker,no\n1800,pilot,yes\n")?;
//! let options = BuildOptions {
//!     data: vec![data],
//!     output,
//!     target: Some("approved".into()),
//!     accept: vec!["yes".into()],
//!     ..BuildOptions::default()
//! };
//! println!("{}", build(&options, &mut |_progress| {})?);
//! assert_eq!(Bundle::open(&options.output)?.manifest().rows(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Each operator serves the bundle with the root key that all servers share. [`server::daemon`]
//! does the same from a [`Config`](server::Config), with tokens, TLS and reloads:
#![cfg_attr(feature = "serve", doc = "```no_run")]
#![cfg_attr(not(feature = "serve"), doc = "```ignore")]
//! use ifonly::server::auth::account_tokens::AccountTokens;
//! use ifonly::server::http::routes::AppState;
//! use ifonly::server::{LoadedBundle, config::Limits, key_file};
//! use ifonly::{Bundle, Server};
//! # async fn serve(stop: impl Future<Output = ()>) -> Result<(), Box<dyn std::error::Error>> {
//! let bundle = Bundle::open("loans.bundle".as_ref())?;
//! let loaded = LoadedBundle::new(&bundle, 1, vec![key_file::load("root.key".as_ref())?])?;
//! let app = AppState::new(loaded, AccountTokens::new(vec![], None)?, Limits::default(), vec![]);
//! let server = Server::bind(app, "127.0.0.1:8001".parse()?, None, None).await?;
//! server.run(stop).await;
//! # Ok(())
//! # }
//! ```
//!
//! A user searches on all servers at once. No server learns anything about the user's values:
#![cfg_attr(feature = "ask", doc = "```no_run")]
#![cfg_attr(not(feature = "ask"), doc = "```ignore")]
//! use ifonly::client::RetryPolicy;
//! use ifonly::client::transport::http::{self, TlsTrust};
//! use ifonly::{Client, Pins, ProfileValues, WishList};
//! # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
//! let urls = ["https://one.example:8443", "https://two.example:8443"];
//! let servers = http::servers(urls, &TlsTrust::system()?, RetryPolicy::default())?;
//! let pins = Pins { threshold: Some(1), ..Pins::default() };
//! let client = Client::connect(servers, &pins).await?;
//! let profile = ProfileValues::from_json(r#"{"income": 1500, "job": "nurse"}"#)?;
//! let wishes = WishList { immutable: vec!["job".into()], ..WishList::default() };
//! let answer = client.ask(&profile, &wishes).await?;
//! for change in answer.found.iter().flat_map(|nearest| &nearest.changes) {
//!     println!("{}: {} instead of {}", change.feature, change.theirs, change.yours);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! `examples/` has a small program for each role: `build.rs`, `serve.rs` and `ask.rs`. The README
//! shows all roles in one program, with servers on [`Loopback`].
#![forbid(unsafe_code)]

// The command line uses the paths of this crate that other programs use.
extern crate self as ifonly;

#[cfg(feature = "lab")]
pub mod bundle_rows;
pub mod cli;
#[cfg(all(feature = "build", feature = "lab"))]
pub mod linkage;
mod local;

/// Runs the example of the README as a test.
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
#[cfg(feature = "serve")]
pub use ifonly_server::{self as server, Server};
pub use ifonly_values as values;
pub use ifonly_values::error_category::ErrorCategory;
pub use ifonly_values::manifest::Manifest;
pub use ifonly_values::wishes::Wishes;
#[cfg(feature = "serve")]
pub use local::loopback::{Loopback, LoopbackError, LoopbackOptions, LoopbackTls};
