//! Errors of a sealed search. Each variant says who is at fault: the caller, a peer or the servers.

/// Why a sealed search failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealedError {
    /// A parameter is outside its range. The caller is at fault.
    #[error("{what} is {value}; it must be from {least} to {most}")]
    ParamOutOfRange {
        /// Name of the parameter.
        what: &'static str,
        /// Value that the caller passed.
        value: u64,
        /// Smallest valid value.
        least: u64,
        /// Largest valid value.
        most: u64,
    },
    /// The call is not valid in the present state of the party. The caller is at fault.
    #[error("{0}")]
    Misuse(&'static str),
    /// A peer sent an invalid frame or closed its stream too early. The session has failed; a new
    /// session may succeed.
    #[error("server {server} {fault}")]
    Peer {
        /// Index of the peer, 1 to 3.
        server: usize,
        /// What the peer did.
        fault: PeerFault,
    },
    /// The three answers contradict each other, so a server did not follow the protocol.
    #[error("the answers of the three servers are inconsistent: {0}")]
    Answers(&'static str),
}

/// How a peer violated the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerFault {
    /// A frame is shorter than its header.
    #[error("sent a frame of length {0}, shorter than the header")]
    ShortFrame(usize),
    /// A frame is not the next one in order.
    #[error("sent part {chunk} of step {step}; expected {due}")]
    OutOfOrder {
        /// Step of the frame.
        step: u32,
        /// Part of the frame.
        chunk: u32,
        /// Frame that was expected.
        due: ExpectedFrame,
    },
    /// A frame has the wrong length.
    #[error("sent part {chunk} of step {step} with a payload of {have} bytes; expected {need} bytes")]
    Length {
        /// Step of the frame.
        step: u32,
        /// Part of the frame.
        chunk: u32,
        /// Bytes after the header.
        have: usize,
        /// Bytes that the parameters of the search require.
        need: usize,
    },
    /// A bit outside the lanes in use is 1.
    #[error("set bits of rows that do not exist in step {step}")]
    BeyondRows {
        /// Step of the frame.
        step: u32,
    },
    /// The peer closed its stream while a frame was expected.
    #[error("closed its stream; expected {0}")]
    Closed(ExpectedFrame),
}

/// The frame that is expected from a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExpectedFrame {
    /// No further frame.
    Nothing,
    /// A part of a step.
    Part {
        /// The step: 0 for random words, 1 for the input, 1 + j for circuit round j.
        step: u32,
        /// The part of the step, counted from 0.
        chunk: u32,
    },
}

impl std::fmt::Display for ExpectedFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ExpectedFrame::Nothing => f.write_str("no further frame"),
            ExpectedFrame::Part { step, chunk } => write!(f, "part {chunk} of step {step}"),
        }
    }
}
