//! Whatever runs a search, led the same way.

use ifonly_algebra::random::OsRandom;
use ifonly_core::search::{Fault, Outcome, Outgoing, Search};

/// A search in progress.
#[derive(Debug)]
pub(crate) enum Machine {
    /// Servers scan; the user decodes and fetches.
    Scans(Box<Search>),
    /// Three servers search among themselves.
    Sealed(Box<ifonly_sealed::Search>),
}

impl Machine {
    pub(crate) fn next(&mut self, random: &mut OsRandom) -> Option<Outgoing> {
        match self {
            Machine::Scans(search) => search.next(random),
            Machine::Sealed(search) => search.next(random),
        }
    }

    pub(crate) fn receive_part(&mut self, server: usize, bytes: &[u8]) {
        match self {
            Machine::Scans(search) => search.receive_part(server, bytes),
            Machine::Sealed(search) => search.receive_part(server, bytes),
        }
    }

    pub(crate) fn forget(&mut self, server: usize) {
        match self {
            Machine::Scans(search) => search.forget(server),
            Machine::Sealed(search) => search.forget(server),
        }
    }

    pub(crate) fn finish(self) -> Result<Outcome, Fault> {
        match self {
            Machine::Scans(search) => search.finish(),
            Machine::Sealed(search) => search.finish(),
        }
    }
}
