//! The manifest: everything public about a deployment, the same at all servers, and all that a
//! client needs to ask.
//!
//! It is JSON in one canonical form: the fields of [`Contents`] in their order, without spaces. Its
//! digest, BLAKE3 in key derivation mode over exactly these bytes, goes into every transcript. A
//! [`Manifest`] was validated: every scheme has the one q that the deployment rule gives, distinct
//! non-zero points and as many as servers, and all sizes are within limits.

use crate::record::MAX_TEXT;
use crate::schema::{Schema, nearest};
use ifonly_algebra::field::ModulusRule;
use ifonly_core::aont::MAX_RECORD;
use ifonly_core::params::{ManifestParams, Params};
use ifonly_core::scheme::instance::{SchemeInstance, SchemeInstanceError};
use ifonly_core::scheme::sealed::SealedScheme;
use ifonly_core::scheme::{self, CostModel, Scheme, sealed};
use ifonly_core::search::HeaderContext;
use ifonly_core::signature::{PublicKey, RecordVerifier, SIGNATURE_LENGTH, SignatureContext};
use ifonly_core::transcript::VERSION;
use std::sync::Arc;

mod schemes;

pub use schemes::{OfferedScheme, SchemeEntry, scheme_entries};

/// The format's version.
pub(crate) const FORMAT: u32 = 2;
/// A manifest's text ends here, in bytes.
pub const MAX_JSON: usize = 16 << 20;
/// Σ(R_k + 1) ends here, so that cost tables stay small beside the answers.
pub const MAX_LEVELS: usize = 1 << 22;
/// So many records may be fetched per search at most.
pub(crate) const MAX_TOP: usize = 1000;
/// So many epochs may be served at once at most.
const MAX_EPOCHS: usize = 16;

const DIGEST_CONTEXT: &str = "ifonly manifest v1";

/// The fields of a manifest, in the order of its canonical form; one that has more is not
/// canonical.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ManifestFields {
    /// The version of the manifest's format.
    pub format: u32,
    /// The version of the protocol.
    pub protocol: u8,
    /// What is served.
    pub dataset: Dataset,
    /// The features.
    pub schema: Schema,
    /// M.
    pub rows: usize,
    /// Bytes of every record, its signature included.
    pub record_length: usize,
    /// Whose key signed the records; `None` where nobody did.
    pub signer: Option<PublicKey>,
    /// Its limits and parameters.
    #[serde(flatten)]
    pub terms: ManifestParams,
    /// The schemes that may be asked for.
    pub schemes: Vec<SchemeEntry>,
    /// The one to prefer.
    pub default_scheme: String,
    /// The root keys in use; the first is the current one.
    pub key_epochs: Vec<u32>,
    /// Who runs the servers, in order.
    pub operators: Vec<Operator>,
}

/// What is served: a dataset's name and version, and who is in it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dataset {
    /// For people.
    pub name: String,
    /// Any text that changes with the data.
    pub version: String,
    /// By which definition its rows were accepted, in words; `None` where nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<String>,
}

/// Who runs a server.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operator {
    /// The server's number, counted from 1.
    pub index: u8,
    /// For people.
    pub name: String,
    /// Where it listens, if that is public.
    pub url: Option<String>,
}

/// A validated manifest.
#[derive(Clone)]
pub struct Manifest {
    contents: ManifestFields,
    offered: Vec<OfferedScheme>,
    json: String,
    digest: [u8; 32],
    subject: SignatureContext,
}

/// Why a manifest is refused. Whoever made the bundle must repair it; a client must not ask under
/// it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// Not a manifest at all.
    #[error("not a manifest: {0}")]
    Json(String),
    /// Too long to be read.
    #[error("not a manifest: {bytes} bytes, more than {MAX_JSON}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Another text with the same meaning; its digest would be another one.
    #[error("the manifest is not in its canonical form: it was edited or reformatted; build the bundle again")]
    NotCanonical,
    /// Made by a later program.
    #[error("the manifest has {what} {found}, this program knows {known}; use matching versions")]
    Version {
        /// Format or protocol.
        what: &'static str,
        /// What it says.
        found: u32,
        /// What we can.
        known: u32,
    },
    /// A field has an impossible value.
    #[error("manifest, {field} = {value}: {reason}")]
    Value {
        /// Which field.
        field: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it.
        reason: Box<str>,
    },
    /// A scheme cannot run under these parameters.
    #[error("manifest, scheme {scheme}: {source}")]
    Deployment {
        /// Which scheme.
        scheme: String,
        /// Why.
        source: SchemeInstanceError,
    },
    /// q is not what the rule gives.
    #[error("manifest, scheme {scheme}: q = {found}, but the rule gives {right}")]
    WrongField {
        /// Which scheme.
        scheme: String,
        /// As listed.
        found: u64,
        /// As it must be.
        right: u64,
    },
    /// There is no such scheme.
    #[error("there is no scheme {name:?} here{}", .nearest.as_ref().map_or(String::new(), |near| format!("; did you mean {near:?}?")))]
    UnknownScheme {
        /// As given.
        name: String,
        /// What may have been meant.
        nearest: Option<String>,
    },
    /// A scheme that compares levels where levels are labels.
    #[error(
        "scheme {scheme} compares levels, but those of feature {feature:?} are labels; use a table scheme or one_hot"
    )]
    NeedsTables {
        /// Which scheme.
        scheme: &'static str,
        /// The feature.
        feature: String,
    },
    /// More servers than operators.
    #[error("scheme {scheme} needs {need} servers, but there are {have}")]
    TooFewOperators {
        /// Which scheme.
        scheme: &'static str,
        /// N.
        need: usize,
        /// Operators.
        have: usize,
    },
}

impl ManifestFields {
    /// The usual deployment of a database at `servers` servers: T = 1, shuffled, weights up to 10,
    /// and the gated schemes that fit.
    pub fn new(name: &str, schema: Schema, rows: usize, record_length: usize, servers: u8) -> ManifestFields {
        let operator = |index: u8| Operator { index, name: format!("server {index}"), url: None };
        let mut contents = ManifestFields {
            format: FORMAT,
            protocol: VERSION,
            dataset: Dataset { name: name.into(), version: "1".into(), accepted: None },
            rows,
            record_length,
            signer: None,
            terms: ManifestParams { immutable_limit: schema.features().len(), ..ManifestParams::default() },
            schemes: vec![],
            default_scheme: scheme::DEFAULT.name.into(),
            key_epochs: vec![0],
            operators: (1..=servers).map(operator).collect(),
            schema,
        };
        contents.terms.cost_limit = contents.usual_cost_limit();
        contents.offer_gated();
        contents
    }

    /// The largest cost limit with which all features' costs together still fit into 40 bits:
    /// clients scale their costs to it, and that is enough for weights, counted changes and an
    /// order that rounding does not disturb.
    pub fn usual_cost_limit(&self) -> u64 {
        // A little less than 2^40, so that the largest prime below it exceeds the sum.
        const SUM: u64 = (1 << 40) - (1 << 10);
        SUM / self.schema.features().len().max(1) as u64
    }

    /// Lists the gated schemes that fit, after the other fields have been set: people need no
    /// others, and others tell more about rows.
    fn offer_gated(&mut self) {
        self.offer_all();
        self.schemes.retain(|offer| scheme::named(&offer.name).is_some_and(Scheme::is_gated));
    }

    /// Lists every scheme that fits, after the other fields have been set.
    pub fn offer_all(&mut self) {
        self.schemes = scheme_entries(&self.schema, &self.params(), self.operators.len());
    }

    /// What the records are signed for.
    pub fn subject(&self) -> SignatureContext {
        // Plain data with texts as keys always has a JSON form.
        let schema = serde_json::to_string(&self.schema).unwrap_or_default();
        SignatureContext::new(&self.dataset.name, &self.dataset.version, &schema)
    }

    /// What the schemes need to know.
    pub fn params(&self) -> Params {
        Params::under(&self.terms, self.schema.max_levels(), self.rows)
    }
}

impl Manifest {
    /// These contents, if all of them are right.
    pub fn new(contents: ManifestFields) -> Result<Manifest, ManifestError> {
        check_plain(&contents)?;
        let params = contents.params();
        let mut offered: Vec<OfferedScheme> = vec![];
        for offer in &contents.schemes {
            if offered.iter().any(|earlier| earlier.scheme().name == offer.name) {
                return refuse("schemes", &offer.name, "is listed twice");
            }
            offered.push(match offer.name == sealed::SCHEME.name {
                true => OfferedScheme::Sealed(sealed(offer, &contents, &params)?.into()),
                false => OfferedScheme::Scans(instance(offer, &contents, &params)?.into()),
            });
        }
        let json = serde_json::to_string(&contents).map_err(|error| ManifestError::Json(error.to_string()))?;
        if json.len() > MAX_JSON {
            return Err(ManifestError::TooLong { bytes: json.len() });
        }
        let digest = *blake3::Hasher::new_derive_key(DIGEST_CONTEXT).update(json.as_bytes()).finalize().as_bytes();
        let subject = contents.subject();
        let manifest = Manifest { contents, offered, json, digest, subject };
        manifest.scheme(&manifest.contents.default_scheme)?;
        Ok(manifest)
    }

    /// Reads the canonical form, and no other: the digest is that of the bytes.
    pub fn from_json(bytes: &[u8]) -> Result<Manifest, ManifestError> {
        if bytes.len() > MAX_JSON {
            return Err(ManifestError::TooLong { bytes: bytes.len() });
        }
        let contents = serde_json::from_slice(bytes).map_err(|error| ManifestError::Json(error.to_string()))?;
        let manifest = Manifest::new(contents)?;
        if manifest.json.as_bytes() == bytes { Ok(manifest) } else { Err(ManifestError::NotCanonical) }
    }

    /// The canonical form, as bundles store it and servers send it.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// What goes into every transcript.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// All fields.
    pub fn fields(&self) -> &ManifestFields {
        &self.contents
    }

    /// The features.
    pub fn schema(&self) -> &Schema {
        &self.contents.schema
    }

    /// M.
    pub fn rows(&self) -> usize {
        self.contents.rows
    }

    /// What the records are signed for, and by whom; `None` where nobody signed them.
    pub fn signer(&self) -> Option<RecordVerifier> {
        self.contents.signer.map(|key| RecordVerifier { key, subject: self.subject })
    }

    /// Bytes of every record, its signature included.
    pub fn record_length(&self) -> usize {
        self.contents.record_length
    }

    /// The largest k of a search for the k nearest.
    pub fn top_limit(&self) -> usize {
        self.contents.terms.top_limit
    }

    /// Who runs the servers.
    pub fn operators(&self) -> &[Operator] {
        &self.contents.operators
    }

    /// The schemes on offer, ready to use.
    pub fn schemes(&self) -> &[OfferedScheme] {
        &self.offered
    }

    /// The schemes in which servers scan for the user.
    pub fn instances(&self) -> impl Iterator<Item = &Arc<SchemeInstance>> {
        self.offered.iter().filter_map(OfferedScheme::scans)
    }

    /// The sealed search, if it is on offer.
    pub fn sealed(&self) -> Option<&Arc<SealedScheme>> {
        self.offered.iter().find_map(|offered| match offered {
            OfferedScheme::Sealed(sealed) => Some(sealed),
            OfferedScheme::Scans(_) => None,
        })
    }

    /// The scheme of that name, if it is on offer.
    pub fn scheme(&self, name: &str) -> Result<&OfferedScheme, ManifestError> {
        let named = |offered: &&OfferedScheme| offered.scheme().name == name;
        let unknown = || unknown_scheme(name, self.offered.iter().map(|offered| offered.scheme().name));
        self.offered.iter().find(named).ok_or_else(unknown)
    }

    /// The same, if servers scan for the user in it.
    pub fn instance(&self, name: &str) -> Result<&Arc<SchemeInstance>, ManifestError> {
        let unknown = || unknown_scheme(name, self.instances().map(|instance| instance.scheme().name));
        self.instances().find(|instance| instance.scheme().name == name).ok_or_else(unknown)
    }

    /// The scheme to prefer.
    pub fn default_scheme(&self) -> &OfferedScheme {
        // `new` has found it; the first is there because it did.
        self.scheme(&self.contents.default_scheme).unwrap_or(&self.offered[0])
    }

    /// Servers that some scheme asks.
    pub fn servers(&self) -> usize {
        self.offered.iter().map(OfferedScheme::servers).max().unwrap_or(0)
    }

    /// What goes into every header beside the scheme.
    pub fn header_context(&self) -> HeaderContext {
        // `new` refuses an empty list of epochs.
        let epoch = self.contents.key_epochs.first().copied().unwrap_or_default();
        HeaderContext { digest: self.digest, epoch, record_length: self.contents.record_length, signer: self.signer() }
    }
}

impl std::fmt::Debug for Manifest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Manifest({})", self.json)
    }
}

impl serde::Serialize for Manifest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.contents.serialize(serializer)
    }
}

fn instance(offer: &SchemeEntry, contents: &ManifestFields, params: &Params) -> Result<SchemeInstance, ManifestError> {
    let scheme = scheme::named(&offer.name)
        .ok_or_else(|| unknown_scheme(&offer.name, scheme::ALL.iter().map(|scheme| scheme.name)))?;
    let wrap = |source| ManifestError::Deployment { scheme: offer.name.clone(), source };
    needs_no_tables(scheme, &contents.schema)?;
    let instance = SchemeInstance::with_field(scheme, params.clone(), offer.q, &offer.alphas).map_err(wrap)?;
    let right = SchemeInstance::new(scheme, params.clone(), ModulusRule::Deployment).map_err(wrap)?.field().q();
    if offer.q != right {
        return Err(ManifestError::WrongField { scheme: offer.name.clone(), found: offer.q, right });
    }
    let (need, have) = (instance.servers(), contents.operators.len());
    if need > have {
        return Err(ManifestError::TooFewOperators { scheme: scheme.name, need, have });
    }
    Ok(instance)
}

fn sealed(offer: &SchemeEntry, contents: &ManifestFields, params: &Params) -> Result<SealedScheme, ManifestError> {
    let wrap = |source| ManifestError::Deployment { scheme: offer.name.clone(), source };
    let sealed = SealedScheme::new(params.clone()).map_err(wrap)?;
    let right = SchemeEntry::for_sealed(&sealed);
    if offer.q != right.q {
        return Err(ManifestError::WrongField { scheme: offer.name.clone(), found: offer.q, right: right.q });
    }
    if offer.alphas != right.alphas {
        return refuse("alphas of sealed", format!("{:?}", offer.alphas), "must be 1, 2, 3");
    }
    let (need, have) = (sealed::SERVERS, contents.operators.len());
    if need > have {
        return Err(ManifestError::TooFewOperators { scheme: sealed::SCHEME.name, need, have });
    }
    Ok(sealed)
}

/// Differences of labels mean nothing, so only costs given as tables may compare them.
fn needs_no_tables(scheme: &'static Scheme, schema: &Schema) -> Result<(), ManifestError> {
    match schema.features().iter().find(|feature| feature.is_nominal()) {
        Some(feature) if !scheme.carries_costs(CostModel::Table) => {
            Err(ManifestError::NeedsTables { scheme: scheme.name, feature: feature.name.clone() })
        }
        _ => Ok(()),
    }
}

fn unknown_scheme<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> ManifestError {
    ManifestError::UnknownScheme { name: name.into(), nearest: nearest(name, names).map(str::to_owned) }
}

fn refuse<T>(field: &'static str, value: impl ToString, reason: impl Into<Box<str>>) -> Result<T, ManifestError> {
    Err(ManifestError::Value { field, value: value.to_string(), reason: reason.into() })
}

/// What can be checked without looking at the schemes.
fn check_plain(contents: &ManifestFields) -> Result<(), ManifestError> {
    let versions = [("format", contents.format, FORMAT), ("protocol", contents.protocol.into(), VERSION.into())];
    if let Some((what, found, known)) = versions.into_iter().find(|(_, found, known)| found != known) {
        return Err(ManifestError::Version { what, found, known });
    }
    let Dataset { name, version, accepted } = &contents.dataset;
    let urls = contents.operators.iter().filter_map(|operator| operator.url.as_ref());
    let names = contents.operators.iter().map(|operator| &operator.name);
    for text in [name, version].into_iter().chain(accepted).chain(names).chain(urls) {
        if text.is_empty() || text.len() > MAX_TEXT {
            return refuse(
                "names, versions, definitions and URLs",
                format!("{} bytes", text.len()),
                format!("must be 1 to {MAX_TEXT} bytes"),
            );
        }
    }
    if let Err(error) = contents.params().check() {
        return refuse(error.parameter, error.value, error.reason);
    }
    let levels: usize = contents.schema.max_levels().iter().map(|&range| range as usize + 1).sum();
    if levels > MAX_LEVELS {
        return refuse(
            "schema",
            format!("{levels} levels"),
            format!("all features together have at most {MAX_LEVELS}"),
        );
    }
    if contents.record_length == 0 || contents.record_length > MAX_RECORD {
        return refuse("record_length", contents.record_length, format!("must be in 1..={MAX_RECORD}"));
    }
    if contents.signer.is_some() && contents.record_length <= SIGNATURE_LENGTH {
        return refuse("record_length", contents.record_length, "leaves no room for a text beside the signature");
    }
    if contents.terms.top_limit == 0 || contents.terms.top_limit > MAX_TOP {
        return refuse("top_limit", contents.terms.top_limit, format!("must be in 1..={MAX_TOP}"));
    }
    let mut key_epochs = contents.key_epochs.clone();
    key_epochs.sort_unstable();
    key_epochs.dedup();
    if key_epochs.is_empty() || key_epochs.len() != contents.key_epochs.len() || key_epochs.len() > MAX_EPOCHS {
        return refuse("epochs", contents.key_epochs.len(), format!("must be 1 to {MAX_EPOCHS} different numbers"));
    }
    let numbered = contents.operators.iter().zip(1..=u8::MAX).all(|(operator, place)| operator.index == place);
    if contents.operators.is_empty() || u8::try_from(contents.operators.len()).is_err() || !numbered {
        return refuse(
            "operators",
            contents.operators.len(),
            format!("must be 1 to {}, numbered from 1 in order", u8::MAX),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
