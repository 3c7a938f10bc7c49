//! The HTTP interface: listener, connections, routes, problem documents and response bodies.

pub(crate) mod connection;
pub mod listener;
pub mod problem;
pub(crate) mod response_body;
pub mod routes;
