//! Whose fault it is: the caller's or a peer's.

/// Why the machine stops.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealedError {
    /// A search that this machine does not run. A fault of the caller.
    #[error("{what} is {value}; it must be from {least} to {most}")]
    Shape {
        /// Which parameter.
        what: &'static str,
        /// What was asked for.
        value: u64,
        /// The smallest that works.
        least: u64,
        /// The largest that works.
        most: u64,
    },
    /// Something that the machine cannot do in its present state. A fault of the caller.
    #[error("{0}")]
    Misuse(&'static str),
    /// A peer that sent what it should not have, or went away. The session is over; the next one
    /// may work.
    #[error("server {server} {fault}")]
    Peer {
        /// Which of the three servers, from 1.
        server: usize,
        /// What it did.
        fault: PeerFault,
    },
    /// Answers that do not belong together: the servers did not run the same search.
    #[error("the answers of the three servers do not fit together: {0}")]
    Answers(&'static str),
}

/// What a peer did.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerFault {
    /// A frame without a whole header.
    #[error("sent {0} bytes, which are not a frame")]
    NoFrame(usize),
    /// Another message than the one that is due.
    #[error("sent part {chunk} of step {step}; due was {due}")]
    OutOfOrder {
        /// The frame's step.
        step: u32,
        /// The frame's part.
        chunk: u32,
        /// What was due.
        due: ExpectedFrame,
    },
    /// A message of another length than the search prescribes.
    #[error("sent {have} bytes in part {chunk} of step {step}; {need} were due")]
    Length {
        /// The frame's step.
        step: u32,
        /// The frame's part.
        chunk: u32,
        /// Bytes after the header.
        have: usize,
        /// Bytes that the search prescribes.
        need: usize,
    },
    /// Bits where there are no rows.
    #[error("set bits of rows that do not exist in step {step}")]
    BeyondRows {
        /// The frame's step.
        step: u32,
    },
    /// It went away while something was due.
    #[error("went away; due was {0}")]
    Vanished(ExpectedFrame),
}

/// The message that is due from a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExpectedFrame {
    /// Nothing more.
    Nothing,
    /// A part of a step.
    Part {
        /// The step: 0 are random bits, 1 is the input, then one for each round.
        step: u32,
        /// The part, from 0.
        chunk: u32,
    },
}

impl std::fmt::Display for ExpectedFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ExpectedFrame::Nothing => f.write_str("nothing more"),
            ExpectedFrame::Part { step, chunk } => write!(f, "part {chunk} of step {step}"),
        }
    }
}
