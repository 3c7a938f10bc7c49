//! A search of either kind behind one interface: with scans by the servers, or sealed.

use ifonly_algebra::random::OsRandom;
use ifonly_core::search::{Search, SearchError, SearchResult, StepMessages};

/// A search in progress.
#[derive(Debug)]
pub(crate) enum AnySearch {
    /// The servers scan their rows; the client decodes the answers and fetches records.
    Scans(Box<Search>),
    /// Three servers compute the result together.
    Sealed(Box<ifonly_sealed::SealedSearch>),
}

impl AnySearch {
    pub(crate) fn next(&mut self, random: &mut OsRandom) -> Option<StepMessages> {
        match self {
            AnySearch::Scans(search) => search.next(random),
            AnySearch::Sealed(search) => search.next(random),
        }
    }

    pub(crate) fn receive_part(&mut self, server: usize, bytes: &[u8]) {
        match self {
            AnySearch::Scans(search) => search.receive_part(server, bytes),
            AnySearch::Sealed(search) => search.receive_part(server, bytes),
        }
    }

    pub(crate) fn forget(&mut self, server: usize) {
        match self {
            AnySearch::Scans(search) => search.forget(server),
            AnySearch::Sealed(search) => search.forget(server),
        }
    }

    pub(crate) fn finish(self) -> Result<SearchResult, SearchError> {
        match self {
            AnySearch::Scans(search) => search.finish(),
            AnySearch::Sealed(search) => search.finish(),
        }
    }
}
