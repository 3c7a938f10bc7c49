//! The summary of a manifest: for every offered scheme, the servers, the field, the bytes per
//! search, and what a client that breaks the protocol can learn.

use crate::build::report::{FeatureReport, write_features};
use crate::error::counted;
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::sealed;
use ifonly_core::scheme::sealed::SealedScheme;
use ifonly_core::spir::RecordFetch;
use ifonly_values::manifest::{Manifest, OfferedScheme};
use std::fmt;

/// A manifest with the figures of its schemes. `Display` prints it for a terminal.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ManifestSummary<'a> {
    /// The manifest itself.
    pub manifest: &'a Manifest,
    /// Its digest, in hexadecimal.
    pub digest: String,
    /// One entry per offered scheme.
    pub schemes: Vec<SchemeSummary>,
}

/// The figures of one offered scheme.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SchemeSummary {
    /// The name of the scheme.
    pub name: &'static str,
    /// N, the number of servers.
    pub servers: usize,
    /// Number of phases before the record fetch.
    pub rounds: usize,
    /// q, the modulus of the field.
    pub q: u64,
    /// Bits per field element.
    pub bits: u32,
    /// Bytes of one search sent to all servers, with the fetch of one record.
    pub bytes_up: u64,
    /// Bytes of one search received from all servers, with the fetch of one record.
    pub bytes_down: u64,
    /// What the user learns in addition to the record.
    pub learns: &'static str,
    /// Upper bound on the bits of every row that a client that breaks the protocol learns per
    /// search.
    pub cheat_bits: u64,
    /// Number of records that such a client gets with one fetch.
    pub cheat_records: usize,
    /// Lower bound on the searches after which such a client knows all rows: bits of a row divided
    /// by `cheat_bits`, rounded up.
    pub cheat_searches: u64,
}

/// Computes the figures of a manifest.
pub fn summarise(manifest: &Manifest) -> ManifestSummary<'_> {
    let digest = hex::encode(manifest.digest());
    let row_bits: f64 = manifest.schema().max_levels().iter().map(|&max_level| f64::from(max_level + 1).log2()).sum();
    let scans = |instance: &SchemeInstance| {
        let traffic = instance.traffic(1, manifest.record_length());
        let cheat_bits = instance.cheated_elements() as u64 * u64::from(instance.field().bits());
        let fetch = RecordFetch::new(instance.params(), instance.servers(), manifest.record_length());
        SchemeSummary {
            name: instance.scheme().name,
            servers: instance.servers(),
            rounds: instance.phases(),
            q: instance.field().q(),
            bits: instance.field().bits(),
            bytes_up: traffic.up as u64,
            bytes_down: traffic.down as u64,
            learns: instance.scheme().learns,
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
            // A client that sends an arbitrary cost table gets the nearest records under that
            // table, and learns nothing about other rows.
            cheat_bits: 0,
            cheat_records: manifest.top_limit(),
            cheat_searches: manifest.rows().div_ceil(manifest.top_limit()) as u64,
        }
    };
    let scheme = |offered: &OfferedScheme| match offered {
        OfferedScheme::Scans(instance) => scans(instance),
        OfferedScheme::Sealed(scheme) => sealed(scheme),
    };
    ManifestSummary { manifest, digest, schemes: manifest.schemes().iter().map(scheme).collect() }
}

impl SchemeSummary {
    /// What a client that breaks the protocol gets per search, in words.
    pub(crate) fn cheat(&self) -> String {
        let SchemeSummary { cheat_bits, cheat_records, cheat_searches, .. } = self;
        let (bits, records) = (counted(*cheat_bits, "bit"), counted(*cheat_records as u64, "record"));
        format!("{bits} of every row and {records} per fetch; all rows not before search {cheat_searches}")
    }
}

impl fmt::Display for ManifestSummary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.manifest.fields();
        let rows = counted(fields.rows as u64, "row");
        writeln!(f, "{}, version {}: {rows}", fields.dataset.name, fields.dataset.version)?;
        if let Some(definition) = &fields.dataset.accepted {
            writeln!(f, "accepted: {definition}")?;
        }
        writeln!(f, "manifest {}", self.digest)?;
        match fields.signer {
            Some(signer) => writeln!(f, "records signed by {signer}")?,
            None => writeln!(f, "records are not signed: a lying server could forge a record")?,
        }
        for operator in &fields.operators {
            let url = operator.url.as_deref().unwrap_or("address not listed");
            writeln!(f, "server {}: {} ({url})", operator.index, operator.name)?;
        }
        writeln!(f)?;
        let features = fields.schema.features().iter().map(|feature| FeatureReport::new(feature, 0, &[]));
        write_features(f, &features.collect::<Vec<_>>())?;
        writeln!(f)?;
        writeln!(
            f,
            "{:22} N  phases  {:>20}  {:>12}  {:>12}  the user learns",
            "scheme", "q", "bytes up", "bytes down"
        )?;
        for scheme in &self.schemes {
            let SchemeSummary { name, servers, rounds, q, bytes_up, bytes_down, learns, .. } = scheme;
            let mark = if *name == fields.default_scheme { "*" } else { "" };
            let name = format!("{name}{mark}");
            writeln!(f, "{name:22} {servers}  {rounds:6}  {q:>20}  {bytes_up:>12}  {bytes_down:>12}  {learns}")?;
        }
        writeln!(f, "* default; bytes of one search over all servers, with one record, without HTTP and TLS")?;
        writeln!(f)?;
        writeln!(f, "A client that breaks the protocol gets per search at most:")?;
        for scheme in &self.schemes {
            writeln!(f, "{:22} {}", scheme.name, scheme.cheat())?;
        }
        Ok(())
    }
}
