//! Where the random bits of a party come from.

use crate::party::zero_sharing::PrefetchedWords;
use ifonly_algebra::keys::TranscriptKeys;

/// Source of the random bits of a party.
#[derive(Debug)]
pub enum PartyRandomness {
    /// The generator that the caller passes. With the operating system's generator, privacy is
    /// information-theoretic.
    Drawn,
    /// Like `Drawn`, starting with random words that the servers sent before the session.
    Prefetched(PrefetchedWords),
    /// Keys that pairs of servers share for this session. This halves the traffic; privacy is
    /// computational.
    Keyed {
        /// Key shared with the previous server.
        with_previous: TranscriptKeys,
        /// Key shared with the next server.
        with_next: TranscriptKeys,
    },
}
