//! Kinds of search behind one interface.
//!
//! There are two kinds. In a [`SchemeInstance`] the servers scan their rows one by one, and the
//! client decodes the answers and fetches records. In a [`SealedScheme`] the servers compute the
//! result together. Everything that depends on the kind and on public values only is here: clients,
//! manifests, reports and forms need not distinguish the kinds.

use crate::params::Params;
use crate::scheme::instance::{CommunicationCost, SchemeInstance};
use crate::scheme::sealed::{self, SealedScheme};
use crate::scheme::{ALL, Scheme};

/// Every scheme of every kind, those with scans first.
pub fn every() -> impl Iterator<Item = &'static Scheme> + Clone {
    ALL.iter().copied().chain([sealed::SCHEME])
}

/// The scheme of any kind with this name.
pub fn find(name: &str) -> Option<&'static Scheme> {
    every().find(|scheme| scheme.name == name)
}

/// What a client that breaks the protocol gets in one search at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheatBound {
    /// Bits of every row.
    pub row_bits: u64,
    /// Records per fetch.
    pub records: usize,
}

/// A scheme of any kind with its parameters.
pub trait SearchKind: std::fmt::Debug + Send + Sync {
    /// The scheme.
    fn scheme(&self) -> &'static Scheme;

    /// The parameters.
    fn params(&self) -> &Params;

    /// Number of servers that the scheme uses.
    fn servers(&self) -> usize;

    /// Number of steps before the client fetches records.
    fn phases(&self) -> usize;

    /// Whether the client fetches every record in a step of its own.
    fn fetches_records(&self) -> bool;

    /// The largest number of rows that one search can find. The manifest may set a lower limit.
    fn top_limit(&self) -> usize;

    /// How many searches the first message of a search for `top` rows counts as.
    fn searches(&self, top: usize) -> usize;

    /// The number that values are reduced by: the modulus of the field, or a power of two.
    fn modulus(&self) -> u64;

    /// The modulus of violations, if the scheme has a lifted gate.
    fn gate_modulus(&self) -> Option<u64> {
        None
    }

    /// Bits of a value.
    fn bits(&self) -> u32;

    /// The evaluation point of each server, or its index.
    fn points(&self) -> Vec<i64>;

    /// Bytes of all messages and responses of a search for `top` rows, without HTTP and TLS.
    fn traffic(&self, top: usize, record_length: usize) -> CommunicationCost;

    /// What a client that breaks the protocol gets, if the manifest allows `top` records per
    /// search.
    fn cheat(&self, top: usize, record_length: usize) -> CheatBound;
}

impl SearchKind for SchemeInstance {
    fn scheme(&self) -> &'static Scheme {
        self.scheme()
    }

    fn params(&self) -> &Params {
        self.params()
    }

    fn servers(&self) -> usize {
        self.servers()
    }

    fn phases(&self) -> usize {
        self.phases()
    }

    fn fetches_records(&self) -> bool {
        true
    }

    fn top_limit(&self) -> usize {
        usize::MAX
    }

    fn searches(&self, _: usize) -> usize {
        1
    }

    fn modulus(&self) -> u64 {
        self.field().q()
    }

    fn gate_modulus(&self) -> Option<u64> {
        self.lifted().map(|format| format.gate_field().q())
    }

    fn bits(&self) -> u32 {
        self.field().bits()
    }

    fn points(&self) -> Vec<i64> {
        self.points().iter().map(|&point| self.field().signed(point)).collect()
    }

    fn traffic(&self, top: usize, record_length: usize) -> CommunicationCost {
        self.traffic(top, record_length)
    }

    fn cheat(&self, _: usize, record_length: usize) -> CheatBound {
        let row_bits = self.cheated_elements() as u64 * u64::from(self.field().bits());
        CheatBound { row_bits, records: self.record_fetch(record_length).cheated_records() }
    }
}

impl SearchKind for SealedScheme {
    fn scheme(&self) -> &'static Scheme {
        sealed::SCHEME
    }

    fn params(&self) -> &Params {
        self.params()
    }

    fn servers(&self) -> usize {
        sealed::SERVERS
    }

    fn phases(&self) -> usize {
        1
    }

    fn fetches_records(&self) -> bool {
        false
    }

    fn top_limit(&self) -> usize {
        sealed::MAX_TOP
    }

    fn searches(&self, top: usize) -> usize {
        top
    }

    fn modulus(&self) -> u64 {
        // The shift cannot overflow: a value has at most 63 bits.
        1 << self.bits()
    }

    fn bits(&self) -> u32 {
        self.bits() as u32
    }

    fn points(&self) -> Vec<i64> {
        (1..=sealed::SERVERS as i64).collect()
    }

    fn traffic(&self, top: usize, record_length: usize) -> CommunicationCost {
        self.traffic(top, record_length)
    }

    /// A client that sends an arbitrary cost table gets the nearest records under that table, and
    /// learns nothing about other rows.
    fn cheat(&self, top: usize, _: usize) -> CheatBound {
        CheatBound { row_bits: 0, records: top.min(sealed::MAX_TOP) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheme_is_found_by_its_name_and_only_the_sealed_one_is_joint() {
        for scheme in every() {
            assert_eq!(find(scheme.name).map(|found| found.name), Some(scheme.name));
            assert_eq!(scheme.is_joint(), scheme.name == "sealed");
        }
        assert!(find("unheard-of").is_none());
    }
}
