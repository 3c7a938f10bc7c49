//! The summary of a manifest: for every offered scheme, the servers, the field, the bytes per
//! search, and what a client that breaks the protocol can learn.

use crate::build::report::{FeatureReport, write_features};
use crate::error::counted;
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
    let scheme = |offered: &OfferedScheme| {
        let traffic = offered.traffic(1, manifest.record_length());
        let cheat = offered.cheat(manifest.top_limit(), manifest.record_length());
        SchemeSummary {
            name: offered.scheme().name,
            servers: offered.servers(),
            rounds: offered.phases(),
            q: offered.modulus(),
            bits: offered.bits(),
            bytes_up: traffic.up as u64,
            bytes_down: traffic.down as u64,
            learns: offered.scheme().learns,
            cheat_bits: cheat.row_bits,
            cheat_records: cheat.records,
            cheat_searches: match cheat.row_bits {
                0 => manifest.rows().div_ceil(cheat.records) as u64,
                bits => (row_bits / bits as f64).ceil() as u64,
            },
        }
    };
    ManifestSummary { manifest, digest, schemes: manifest.schemes().iter().map(scheme).collect() }
}

impl ManifestSummary<'_> {
    /// The offered scheme that gives away most: the fewest searches for all rows, then the most
    /// bits of every row.
    pub fn weakest(&self) -> Option<&SchemeSummary> {
        self.schemes.iter().min_by_key(|scheme| (scheme.cheat_searches, std::cmp::Reverse(scheme.cheat_bits)))
    }
}

impl SchemeSummary {
    /// What a client that breaks the protocol gets per search, in words.
    pub fn cheat(&self) -> String {
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
        match &fields.dataset.groups {
            Some(groups) => {
                let (method, k, l, left_out) = (&groups.method, groups.k, groups.l, groups.left_out);
                writeln!(f, "every record {}", groups.notice())?;
                write!(f, "groups: method {method}, k = {k}, l = {l}, at most {left_out} accepted people left out")?;
                for (key, columns) in [("keep", &groups.keep), ("sensitive", &groups.sensitive)] {
                    if !columns.is_empty() {
                        write!(f, ", {key} {}", columns.join(", "))?;
                    }
                }
                writeln!(f)?;
            }
            None => writeln!(f, "every record is the original row of one accepted person")?,
        }
        if fields.params.floor > 1 {
            let floor = counted(fields.params.floor as u64, "row");
            writeln!(f, "floor: a search with fewer than {floor} that match finds no record")?;
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
