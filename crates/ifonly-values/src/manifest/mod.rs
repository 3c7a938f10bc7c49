//! The manifest: the public description of a deployment, equal at all servers. A client needs
//! nothing else to search.
//!
//! The canonical form is JSON: the fields of [`ManifestFields`] in their order, without spaces. The
//! digest is BLAKE3 in key derivation mode over exactly these bytes. It is part of every
//! transcript.
//!
//! A [`Manifest`] has been validated: every scheme has the q of the deployment rule and one
//! distinct non-zero point per server, and all sizes are within their limits.

use crate::record::MAX_TEXT;
use crate::schema::{LocalizedText, Schema, nearest, shortened};
use ifonly_algebra::field::{Field, ModulusRule};
use ifonly_algebra::lifted::LiftedFormat;
use ifonly_core::aont::MAX_RECORD;
use ifonly_core::params::{ManifestParams, Params};
use ifonly_core::scheme::instance::{SchemeInstance, SchemeInstanceError};
use ifonly_core::scheme::sealed::SealedScheme;
use ifonly_core::scheme::{self, CostModel, Scheme, kind};
use ifonly_core::search::HeaderContext;
use ifonly_core::signature::{BundleId, PublicKey, RecordVerifier, SIGNATURE_LENGTH, SignatureContext};
use ifonly_core::transcript::VERSION;
use std::sync::Arc;

mod groups;
mod schemes;

pub use groups::{GROUP_METHOD, GroupTerms};
pub use schemes::{OfferedScheme, SchemeEntry, scheme_entries};

/// Version of the manifest format.
pub(crate) const FORMAT: u32 = 3;
/// Maximum bytes of a manifest.
pub const MAX_JSON: usize = 16 << 20;
/// Maximum of Σ(R_k + 1). It keeps cost tables small compared with answers.
pub const MAX_LEVELS: usize = 1 << 22;
/// Maximum of `top_limit`, the number of records that a search may fetch.
pub(crate) const MAX_TOP: usize = 1000;
/// Maximum number of key epochs.
const MAX_EPOCHS: usize = 16;

const DIGEST_CONTEXT: &str = "ifonly manifest v1";

/// The fields of a manifest, in the order of the canonical form. A manifest with other fields is
/// not canonical.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ManifestFields {
    /// Version of the manifest format.
    pub format: u32,
    /// Version of the protocol.
    pub protocol: u8,
    /// The dataset.
    pub dataset: Dataset,
    /// The identifier of this build, drawn at random. Signatures of records are bound to it.
    pub bundle_id: BundleId,
    /// The features.
    pub schema: Schema,
    /// M, the number of rows.
    pub rows: usize,
    /// Bytes of every record, including its signature.
    pub record_length: usize,
    /// The key that signed the records; `None` if they are not signed.
    pub signer: Option<PublicKey>,
    /// Thresholds and limits.
    #[serde(flatten)]
    pub params: ManifestParams,
    /// The offered schemes.
    pub schemes: Vec<SchemeEntry>,
    /// The name of the scheme that clients use unless the user chooses another one.
    pub default_scheme: String,
    /// The key epochs that servers accept; the first is the current one.
    pub key_epochs: Vec<u32>,
    /// The operators of the servers, in the order of the server indices.
    pub operators: Vec<Operator>,
}

/// The dataset: its name, its version, and which rows it contains.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dataset {
    /// The name that users read.
    pub name: String,
    /// Any text that changes with the data.
    pub version: String,
    /// The accept condition in words; `None` if it is not stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<String>,
    /// How a found case is described: "was accepted", "got the loan".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<LocalizedText>,
    /// Columns that the build excluded by itself, for example because they look like identifiers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<String>,
    /// How accepted people were grouped; `None` if every record is one person's original row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<GroupTerms>,
}

/// The operator of one server.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operator {
    /// The server index, counted from 1.
    pub index: u8,
    /// The name that users read.
    pub name: String,
    /// The address of the server, if it is public.
    pub url: Option<String>,
}

/// A validated manifest.
#[derive(Clone)]
pub struct Manifest {
    fields: ManifestFields,
    offered: Vec<OfferedScheme>,
    json: String,
    digest: [u8; 32],
    signature_context: SignatureContext,
}

/// Why a manifest is refused. The institution must fix the bundle. A client must not search with a
/// refused manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The bytes are not JSON or have other fields.
    #[error("not a valid manifest: {0}")]
    Json(String),
    /// The manifest is too long.
    #[error("not a valid manifest: it has {bytes} bytes; the maximum is {MAX_JSON}")]
    TooLong {
        /// Length of the manifest.
        bytes: usize,
    },
    /// The same fields in another form, which has another digest.
    #[error("the manifest is not in canonical form because it was edited or reformatted; build the bundle again")]
    NotCanonical,
    /// The version of the format or of the protocol is not supported.
    #[error(
        "the manifest has {what} {found}, but this program supports {what} {known}; use matching versions of ifonly"
    )]
    Version {
        /// Format or protocol.
        what: &'static str,
        /// The version in the manifest.
        found: u32,
        /// The supported version.
        known: u32,
    },
    /// A field has a value that is not permitted.
    #[error("manifest, {field} = {value}: {reason}")]
    Value {
        /// The name of the field.
        field: &'static str,
        /// Its value.
        value: String,
        /// Why the value is refused.
        reason: Box<str>,
    },
    /// A scheme is not possible with these parameters.
    #[error("manifest, scheme {scheme}: {source}")]
    Scheme {
        /// The name of the scheme.
        scheme: String,
        /// The reason.
        source: SchemeInstanceError,
    },
    /// q is not the modulus of the deployment rule.
    #[error("manifest, scheme {scheme}: q is {found}, but the deployment rule gives {expected}")]
    WrongField {
        /// The name of the scheme.
        scheme: String,
        /// q in the manifest.
        found: u64,
        /// q by the rule.
        expected: u64,
    },
    /// The program does not know the scheme, or the manifest does not offer it.
    #[error("unknown scheme {name:?}{}", .nearest.as_ref().map_or(String::new(), |near| format!("; did you mean {near:?}?")))]
    UnknownScheme {
        /// The given name.
        name: String,
        /// The most similar known name.
        nearest: Option<String>,
    },
    /// The scheme computes with differences of levels, but the levels of a feature are labels.
    #[error(
        "scheme {scheme} uses differences of levels, but feature {feature:?} has more than two categories, which \
         have no differences; use a scheme with cost tables, or one_hot for this feature"
    )]
    NeedsTables {
        /// The name of the scheme.
        scheme: &'static str,
        /// The name of the feature.
        feature: String,
    },
    /// The scheme needs more servers than there are operators.
    #[error("scheme {scheme} needs {need} servers, but the number of servers is {have}")]
    TooFewOperators {
        /// The name of the scheme.
        scheme: &'static str,
        /// Number of servers that the scheme needs.
        need: usize,
        /// Number of operators.
        have: usize,
    },
}

impl ManifestFields {
    /// The default deployment with `servers` servers: T = 1, shuffled rows, weights up to 10, and
    /// all gated schemes that are possible.
    pub fn new(name: &str, schema: Schema, rows: usize, record_length: usize, servers: u8) -> ManifestFields {
        let operator = |index: u8| Operator { index, name: format!("server {index}"), url: None };
        let mut fields = ManifestFields {
            format: FORMAT,
            protocol: VERSION,
            dataset: Dataset {
                name: name.into(),
                version: "1".into(),
                accepted: None,
                outcome: None,
                excluded: vec![],
                groups: None,
            },
            bundle_id: BundleId::default(),
            rows,
            record_length,
            signer: None,
            params: ManifestParams { immutable_limit: schema.features().len(), ..ManifestParams::default() },
            schemes: vec![],
            default_scheme: scheme::DEFAULT.name.into(),
            key_epochs: vec![0],
            operators: (1..=servers).map(operator).collect(),
            schema,
        };
        fields.params.cost_limit = fields.usual_cost_limit();
        fields.offer_gated();
        fields
    }

    /// The default cost limit: the largest with which a search by tables answers one 32-bit word
    /// per row, or the largest with 31 bits if there are too many features for that. Clients scale
    /// their costs to the limit.
    pub fn usual_cost_limit(&self) -> u64 {
        const WITHOUT_WORDS: u32 = 31;
        let features = self.schema.features().len();
        match LiftedFormat::largest_bound(features) {
            Some(bound) => (bound / features.max(1) as u64).max(1),
            None => self.cost_limit_of_bits(WITHOUT_WORDS),
        }
    }

    /// The largest cost limit with which the sum of all features' costs fits into a field of this
    /// many bits, from 2 to 62.
    pub fn cost_limit_of_bits(&self, bits: u32) -> u64 {
        // The largest prime below 2^bits exceeds 2^(bits−1).
        let field = Field::above(1 << (bits.clamp(2, 62) - 1), ModulusRule::Deployment);
        let sum = field.map_or(1, |field| field.q() - 1);
        (sum / self.schema.features().len().max(1) as u64).max(1)
    }

    /// Offers all gated schemes that are possible with the other fields. Users need no other
    /// schemes, and other schemes reveal more about the rows.
    fn offer_gated(&mut self) {
        self.offer_all();
        self.schemes.retain(|entry| scheme::named(&entry.name).is_some_and(Scheme::is_gated));
    }

    /// Offers every scheme that is possible with the other fields.
    pub fn offer_all(&mut self) {
        self.schemes = scheme_entries(&self.schema, &self.params(), self.operators.len());
    }

    /// The context that the signatures of the records are bound to.
    pub fn signature_context(&self) -> SignatureContext {
        let schema = serde_json::to_string(&self.schema).expect("a schema is plain data with strings as keys");
        SignatureContext::new(&self.dataset.name, &self.dataset.version, self.bundle_id, &schema)
    }

    /// The parameters of the schemes: the field `params`, the max levels and the rows.
    pub fn params(&self) -> Params {
        Params::from_manifest(&self.params, self.schema.max_levels(), self.rows)
    }
}

impl Manifest {
    /// Validates the fields.
    pub fn new(fields: ManifestFields) -> Result<Manifest, ManifestError> {
        check_fields(&fields)?;
        let params = fields.params();
        let mut offered: Vec<OfferedScheme> = vec![];
        for entry in &fields.schemes {
            if offered.iter().any(|earlier| earlier.scheme().name == entry.name) {
                return refuse("schemes", &entry.name, "the scheme is listed twice");
            }
            offered.push(self::offered(entry, &fields, &params)?);
        }
        let json = serde_json::to_string(&fields).map_err(|error| ManifestError::Json(error.to_string()))?;
        if json.len() > MAX_JSON {
            return Err(ManifestError::TooLong { bytes: json.len() });
        }
        let digest = *blake3::Hasher::new_derive_key(DIGEST_CONTEXT).update(json.as_bytes()).finalize().as_bytes();
        let signature_context = fields.signature_context();
        let manifest = Manifest { fields, offered, json, digest, signature_context };
        manifest.scheme(&manifest.fields.default_scheme)?;
        Ok(manifest)
    }

    /// Reads the canonical form and refuses every other form: the digest is that of the bytes.
    pub fn from_json(bytes: &[u8]) -> Result<Manifest, ManifestError> {
        if bytes.len() > MAX_JSON {
            return Err(ManifestError::TooLong { bytes: bytes.len() });
        }
        let fields = serde_json::from_slice(bytes).map_err(|error| ManifestError::Json(error.to_string()))?;
        let manifest = Manifest::new(fields)?;
        if manifest.json.as_bytes() == bytes { Ok(manifest) } else { Err(ManifestError::NotCanonical) }
    }

    /// The canonical form, which bundles store and servers send.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// The digest of the canonical form. It is part of every transcript.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// All fields.
    pub fn fields(&self) -> &ManifestFields {
        &self.fields
    }

    /// The features.
    pub fn schema(&self) -> &Schema {
        &self.fields.schema
    }

    /// M, the number of rows.
    pub fn rows(&self) -> usize {
        self.fields.rows
    }

    /// Verifies the signatures of records; `None` if the records are not signed.
    pub fn signer(&self) -> Option<RecordVerifier> {
        self.fields.signer.map(|key| RecordVerifier { key, subject: self.signature_context })
    }

    /// Bytes of every record, including its signature.
    pub fn record_length(&self) -> usize {
        self.fields.record_length
    }

    /// Maximum number of records that a search may fetch.
    pub fn top_limit(&self) -> usize {
        self.fields.params.top_limit
    }

    /// The operators, in the order of the server indices.
    pub fn operators(&self) -> &[Operator] {
        &self.fields.operators
    }

    /// The offered schemes, ready to use.
    pub fn schemes(&self) -> &[OfferedScheme] {
        &self.offered
    }

    /// The offered schemes except the sealed search.
    pub fn instances(&self) -> impl Iterator<Item = &Arc<SchemeInstance>> {
        self.offered.iter().filter_map(OfferedScheme::scans)
    }

    /// The sealed search, if it is offered.
    pub fn sealed(&self) -> Option<&Arc<SealedScheme>> {
        self.offered.iter().find_map(OfferedScheme::sealed)
    }

    /// The offered scheme with this name.
    pub fn scheme(&self, name: &str) -> Result<&OfferedScheme, ManifestError> {
        let named = |offered: &&OfferedScheme| offered.scheme().name == name;
        let unknown = || unknown_scheme(name, self.offered.iter().map(|offered| offered.scheme().name));
        self.offered.iter().find(named).ok_or_else(unknown)
    }

    /// The offered scheme with this name, unless it is the sealed search.
    pub fn instance(&self, name: &str) -> Result<&Arc<SchemeInstance>, ManifestError> {
        let unknown = || unknown_scheme(name, self.instances().map(|instance| instance.scheme().name));
        self.instances().find(|instance| instance.scheme().name == name).ok_or_else(unknown)
    }

    /// The default scheme.
    pub fn default_scheme(&self) -> &OfferedScheme {
        self.scheme(&self.fields.default_scheme).expect("`new` found the default scheme")
    }

    /// Number of servers that the offered schemes use.
    pub fn servers(&self) -> usize {
        self.offered.iter().map(|offered| offered.servers()).max().expect("`new` found the default scheme")
    }

    /// The fields that the headers of all searches share.
    pub fn header_context(&self) -> HeaderContext {
        let epoch = self.fields.key_epochs.first().expect("`new` refuses an empty list of epochs");
        HeaderContext {
            digest: self.digest,
            epoch: *epoch,
            record_length: self.fields.record_length,
            signer: self.signer(),
        }
    }
}

impl std::fmt::Debug for Manifest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Manifest({})", self.json)
    }
}

impl serde::Serialize for Manifest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.fields.serialize(serializer)
    }
}

/// The scheme of an entry.
fn offered(entry: &SchemeEntry, fields: &ManifestFields, params: &Params) -> Result<OfferedScheme, ManifestError> {
    let scheme =
        kind::find(&entry.name).ok_or_else(|| unknown_scheme(&entry.name, kind::every().map(|scheme| scheme.name)))?;
    let wrap = |source| ManifestError::Scheme { scheme: entry.name.clone(), source };
    check_supports_labels(scheme, &fields.schema)?;
    let usual = OfferedScheme::usual(scheme, params.clone()).map_err(wrap)?;
    let offered = if scheme.is_joint() {
        OfferedScheme::Sealed(SealedScheme::new(params.clone()).map_err(wrap)?.with_floor(fields.params.floor).into())
    } else {
        let instance = SchemeInstance::with_field(scheme, params.clone(), entry.q, &entry.alphas).map_err(wrap)?;
        // Another p is refused below.
        let instance = match entry.p.filter(|&p| usual.gate_modulus() == Some(p)) {
            Some(p) if entry.q == usual.modulus() => instance.lifted_by(p).map_err(wrap)?,
            _ => instance,
        };
        OfferedScheme::Scans(instance.into())
    };
    let expected = usual.modulus();
    if entry.q != expected {
        return Err(ManifestError::WrongField { scheme: entry.name.clone(), found: entry.q, expected });
    }
    if entry.p != usual.gate_modulus() {
        let found = entry.p.map_or("absent".into(), |p| p.to_string());
        let rule = usual.gate_modulus().map_or("absent".into(), |p| p.to_string());
        return refuse("p", found, format!("must be {rule} for {} with these parameters", scheme.name));
    }
    // The points of a field may be chosen; the servers of a joint search have their indices.
    let points = offered.points();
    if entry.alphas != points {
        return refuse("alphas", format!("{:?}", entry.alphas), format!("must be {points:?} for {}", scheme.name));
    }
    let (need, have) = (offered.servers(), fields.operators.len());
    if need > have {
        return Err(ManifestError::TooFewOperators { scheme: scheme.name, need, have });
    }
    Ok(offered)
}

/// Refuses schemes without cost tables if levels of a feature are labels: differences of labels
/// mean nothing.
fn check_supports_labels(scheme: &'static Scheme, schema: &Schema) -> Result<(), ManifestError> {
    match schema.features().iter().find(|feature| feature.is_nominal()) {
        Some(feature) if !scheme.supports_costs(CostModel::Table) => {
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

/// Checks everything except the schemes.
fn check_fields(fields: &ManifestFields) -> Result<(), ManifestError> {
    let versions = [("format", fields.format, FORMAT), ("protocol", fields.protocol.into(), VERSION.into())];
    if let Some((what, found, known)) = versions.into_iter().find(|(_, found, known)| found != known) {
        return Err(ManifestError::Version { what, found, known });
    }
    let Dataset { name, version, accepted, outcome, excluded, groups } = &fields.dataset;
    if let Some(groups) = groups {
        groups.check(&fields.schema)?;
    }
    let urls = fields.operators.iter().filter_map(|operator| operator.url.as_ref());
    let names = fields.operators.iter().map(|operator| &operator.name);
    for text in [name, version].into_iter().chain(accepted).chain(excluded).chain(names).chain(urls) {
        if text.is_empty() || text.len() > MAX_TEXT {
            return refuse(
                "a text of dataset or operators",
                format!("{:?}", shortened(text)),
                format!("must have 1 to {MAX_TEXT} bytes"),
            );
        }
    }
    if let Some(reason) = outcome.as_ref().and_then(LocalizedText::fault) {
        return refuse("dataset.outcome", "a text", reason);
    }
    if let Err(error) = fields.params().check() {
        return refuse(error.parameter, error.value, error.reason);
    }
    let levels: usize = fields.schema.max_levels().iter().map(|&max_level| max_level as usize + 1).sum();
    if levels > MAX_LEVELS {
        return refuse(
            "schema",
            format!("{levels} levels"),
            format!("all features together may have at most {MAX_LEVELS} levels"),
        );
    }
    if fields.record_length == 0 || fields.record_length > MAX_RECORD {
        return refuse("record_length", fields.record_length, format!("must be in 1..={MAX_RECORD}"));
    }
    if fields.signer.is_some() && fields.record_length <= SIGNATURE_LENGTH {
        return refuse(
            "record_length",
            fields.record_length,
            "leaves no room for the text of a record besides its signature",
        );
    }
    if fields.params.top_limit == 0 || fields.params.top_limit > MAX_TOP {
        return refuse("top_limit", fields.params.top_limit, format!("must be in 1..={MAX_TOP}"));
    }
    if !(1..=fields.rows).contains(&fields.params.floor) {
        return refuse("floor", fields.params.floor, format!("must be in 1..={}, the rows", fields.rows));
    }
    // Only a sealed search counts the matching rows before it answers.
    let other = fields.schemes.iter().find(|entry| !kind::find(&entry.name).is_some_and(Scheme::is_joint));
    if let Some(other) = other.filter(|_| fields.params.floor > 1) {
        return refuse("floor", fields.params.floor, format!("needs sealed as the only scheme, not {}", other.name));
    }
    let mut key_epochs = fields.key_epochs.clone();
    key_epochs.sort_unstable();
    key_epochs.dedup();
    if key_epochs.is_empty() || key_epochs.len() != fields.key_epochs.len() || key_epochs.len() > MAX_EPOCHS {
        return refuse(
            "key_epochs",
            format!("{} numbers", fields.key_epochs.len()),
            format!("must be 1 to {MAX_EPOCHS} different numbers"),
        );
    }
    let in_order = fields.operators.iter().zip(1..=u8::MAX).all(|(operator, index)| operator.index == index);
    if fields.operators.is_empty() || u8::try_from(fields.operators.len()).is_err() || !in_order {
        return refuse(
            "operators",
            fields.operators.len(),
            format!("must be 1 to {} operators, with the indices 1, 2, 3 … in order", u8::MAX),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
