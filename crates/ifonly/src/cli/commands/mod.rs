//! The commands, one file each: arguments, help text and `run`.

#[cfg(feature = "ask")]
pub(crate) mod ask;
#[cfg(feature = "lab")]
pub(crate) mod attack;
pub(crate) mod bench;
#[cfg(feature = "build")]
pub(crate) mod build;
pub(crate) mod completions;
#[cfg(all(feature = "ask", feature = "serve"))]
pub(crate) mod demo;
#[cfg(all(feature = "ask", feature = "serve"))]
mod demo_page;
#[cfg(any(feature = "build", feature = "serve"))]
pub(crate) mod inspect;
#[cfg(feature = "serve")]
pub(crate) mod keygen;
#[cfg(feature = "lab")]
pub(crate) mod leakage;
#[cfg(feature = "ask")]
pub(crate) mod page;
#[cfg(feature = "ask")]
pub(crate) mod profile;
#[cfg(feature = "serve")]
pub(crate) mod serve;
#[cfg(feature = "serve")]
pub(crate) mod shard;
#[cfg(feature = "serve")]
pub(crate) mod split;
