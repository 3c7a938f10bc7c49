//! The command line: arguments, commands, output, hints and exit codes.
//!
//! Only this module names command-line flags. Errors of the other crates name parameters and
//! configuration keys; `hints` adds the flags.

#[cfg(any(feature = "ask", feature = "serve", feature = "build", feature = "lab"))]
#[doc(hidden)]
pub mod arguments;
#[cfg(any(feature = "ask", feature = "serve", feature = "build", feature = "lab"))]
pub(crate) mod commands;
#[cfg(feature = "ask")]
pub(crate) mod connection_args;
#[cfg(any(feature = "ask", feature = "serve", feature = "build", feature = "lab"))]
pub(crate) mod exit;
#[cfg(any(feature = "ask", feature = "serve", feature = "build"))]
pub(crate) mod hints;
#[cfg(feature = "ask")]
pub(crate) mod profile_args;
#[cfg(feature = "ask")]
pub(crate) mod profile_file;
#[cfg(feature = "ask")]
pub(crate) mod render;
pub mod sanitize;
#[cfg(all(test, feature = "ask"))]
mod wish_surfaces;
