//! Servers on loopback, the files of the web page, and the data of the demo.

#[cfg(all(feature = "ask", feature = "serve"))]
pub(crate) mod demo_loans;
#[cfg(feature = "serve")]
pub(crate) mod loopback;
#[cfg(feature = "ask")]
pub(crate) mod page;
