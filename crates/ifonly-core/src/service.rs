//! What a server offers over HTTP, said once for both sides: routes, header names, lengths and problem types.

/// Bytes of the key-check value with which every response begins.
pub const CHECK_LENGTH: usize = 16;

/// Where a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// For a phase's answer.
    Answer,
    /// For a record.
    Record,
}

impl Route {
    /// Its path.
    pub fn path(self) -> &'static str {
        match self {
            Route::Answer => "/v1/answer",
            Route::Record => "/v1/record",
        }
    }
}
