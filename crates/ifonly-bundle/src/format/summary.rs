//! What a manifest promises in numbers: for every scheme on offer, servers, field and bytes per
//! search.

use crate::build::report::{FeatureReport, write_features};
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::sealed;
use ifonly_core::scheme::sealed::SealedScheme;
use ifonly_core::spir::RecordFetch;
use ifonly_values::manifest::{Manifest, OfferedScheme};
use std::fmt;

/// A manifest for people and programs. Its `Display` is what a terminal shows.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ManifestSummary<'a> {
    /// The manifest itself.
    pub manifest: &'a Manifest,
    /// Its digest, in hexadecimal.
    pub digest: String,
    /// One entry per scheme on offer.
    pub schemes: Vec<SchemeSummary>,
}

/// One scheme on offer.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SchemeSummary {
    /// Its name.
    pub name: &'static str,
    /// N.
    pub servers: usize,
    /// Rounds before the record is fetched.
    pub rounds: usize,
    /// The field.
    pub q: u64,
    /// Bits per symbol.
    pub bits: u32,
    /// Bytes of one search to all servers, the fetch of one record included.
    pub bytes_up: u64,
    /// Bytes of one search from all servers, the fetch of one record included.
    pub bytes_down: u64,
    /// What the user learns beside the record.
    pub learns: &'static str,
    /// The most bits of every row that one search gives a client that breaks the protocol.
    pub cheat_bits: u64,
    /// How many records one fetch gives such a client.
    pub cheat_records: usize,
    /// Before so many searches no such client knows all rows: what a row holds, divided by these
    /// bits.
    pub cheat_searches: u64,
}

/// The numbers of a manifest.
pub fn summarise(manifest: &Manifest) -> ManifestSummary<'_> {
    let digest = hex::encode(manifest.digest());
    let row_bits: f64 = manifest.schema().max_levels().iter().map(|&range| f64::from(range + 1).log2()).sum();
    let scans = |deployment: &SchemeInstance| {
        let traffic = deployment.traffic(1, manifest.record_length());
        let cheat_bits = deployment.cheated_elements() as u64 * u64::from(deployment.field().bits());
        let fetch = RecordFetch::new(deployment.params(), deployment.servers(), manifest.record_length());
        SchemeSummary {
            name: deployment.scheme().name,
            servers: deployment.servers(),
            rounds: deployment.phases(),
            q: deployment.field().q(),
            bits: deployment.field().bits(),
            bytes_up: traffic.up as u64,
            bytes_down: traffic.down as u64,
            learns: deployment.scheme().learns,
            cheat_bits,
            cheat_records: fetch.cheated_records(),
            cheat_searches: (row_bits / cheat_bits as f64).ceil() as u64,
        }
    };
    let sealed = |sealed: &SealedScheme| {
        let traffic = sealed.traffic(1, manifest.record_length());
        SchemeSummary {
            name: sealed::SCHEME.name,
            servers: sealed::SERVERS,
            rounds: 1,
            q: 1 << sealed.bits(),
            bits: sealed.bits() as u32,
            bytes_up: traffic.up as u64,
            bytes_down: traffic.down as u64,
            learns: sealed::SCHEME.learns,
            // A cheat gets the nearest records of a table of its own, and nothing of any other row.
            cheat_bits: 0,
            cheat_records: manifest.top_limit(),
            cheat_searches: manifest.rows().div_ceil(manifest.top_limit()) as u64,
        }
    };
    let scheme = |offered: &OfferedScheme| match offered {
        OfferedScheme::Scans(deployment) => scans(deployment),
        OfferedScheme::Sealed(here) => sealed(here),
    };
    ManifestSummary { manifest, digest, schemes: manifest.schemes().iter().map(scheme).collect() }
}

impl SchemeSummary {
    /// What a client that breaks the protocol gets, in words.
    pub(crate) fn cheat(&self) -> String {
        let SchemeSummary { cheat_bits, cheat_records, cheat_searches, .. } = self;
        let records = if *cheat_records == 1 { "1 record" } else { &format!("{cheat_records} records") };
        format!("{cheat_bits} bits of every row and {records} per fetch; all rows not before search {cheat_searches}")
    }
}

impl fmt::Display for ManifestSummary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let contents = self.manifest.fields();
        writeln!(f, "{}, version {}: {} rows", contents.dataset.name, contents.dataset.version, contents.rows)?;
        if let Some(definition) = &contents.dataset.accepted {
            writeln!(f, "accepted: {definition}")?;
        }
        writeln!(f, "manifest {}", self.digest)?;
        match contents.signer {
            Some(signer) => writeln!(f, "records signed by {signer}")?,
            None => writeln!(f, "records are not signed: a lying server could forge one")?,
        }
        for operator in &contents.operators {
            let url = operator.url.as_deref().unwrap_or("address not listed");
            writeln!(f, "server {}: {} ({url})", operator.index, operator.name)?;
        }
        writeln!(f)?;
        let features = contents.schema.features().iter().map(|feature| FeatureReport::new(feature, 0, &[]));
        write_features(f, &features.collect::<Vec<_>>())?;
        writeln!(f)?;
        writeln!(
            f,
            "{:22} N  rounds  {:>20}  {:>12}  {:>12}  the user learns",
            "scheme", "q", "bytes up", "bytes down"
        )?;
        for scheme in &self.schemes {
            let SchemeSummary { name, servers, rounds, q, bytes_up, bytes_down, learns, .. } = scheme;
            let mark = if *name == contents.default_scheme { "*" } else { "" };
            let name = format!("{name}{mark}");
            writeln!(f, "{name:22} {servers}  {rounds:6}  {q:>20}  {bytes_up:>12}  {bytes_down:>12}  {learns}")?;
        }
        writeln!(f, "* default; bytes of a whole search, all servers, with one record, without HTTP and TLS")?;
        writeln!(f)?;
        writeln!(f, "A client that breaks the protocol gets, per search, at most:")?;
        for scheme in &self.schemes {
            writeln!(f, "{:22} {}", scheme.name, scheme.cheat())?;
        }
        Ok(())
    }
}
