//! The client for browsers and Node: `ifonly-client` with a transport over `fetch`.
//!
//! The whole protocol runs in Rust. JavaScript calls `connect` and the methods of `WasmClient`:
//! `inspect`, `check`, `ask`. Data goes in and out as JSON in the same format as on the command
//! line and in Python. The only source of randomness is `crypto.getRandomValues`.
//!
//! [`form_schema`] and [`error`] compile for every target; the bindings to JavaScript compile for
//! WebAssembly only.
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
