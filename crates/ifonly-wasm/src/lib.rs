//! Asking from a browser or from Node: `ifonly-client` over `fetch`, for JavaScript.
//!
//! All of the protocol is Rust. What JavaScript calls is a `WasmClient`: `connect`, `inspect`,
//! `check`, `ask`; plain data goes in and out as JSON, so that there is one form of it on the
//! command line, in Python and here. Randomness is `crypto.getRandomValues` and nothing else.
//!
//! [`form`] and [`fault`] compile anywhere; what speaks with JavaScript only for WebAssembly.
#![forbid(unsafe_code)]

#[cfg(target_family = "wasm")]
pub mod client;
#[cfg(target_family = "wasm")]
mod clock;
pub mod error;
#[cfg(target_family = "wasm")]
mod fetch;
pub mod form_schema;
#[cfg(target_family = "wasm")]
mod traffic_monitor;
