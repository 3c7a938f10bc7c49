//! The schemes that a deployment can offer, each with its modulus and its evaluation points.

use crate::schema::Schema;
use ifonly_algebra::field::ModulusRule;
use ifonly_core::params::Params;
use ifonly_core::scheme::Scheme;
use ifonly_core::scheme::instance::{SchemeInstance, SchemeInstanceError};
use ifonly_core::scheme::kind::{self, SearchKind};
use ifonly_core::scheme::sealed::SealedScheme;
use std::sync::Arc;

/// An offered scheme, as listed in the manifest.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchemeEntry {
    /// The scheme's name.
    pub name: String,
    /// The modulus of the field; for a sealed search the power of two that sums are reduced by.
    pub q: u64,
    /// The modulus of the gate, if it is lifted: violations are shared modulo p, costs modulo q.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<u64>,
    /// The evaluation point of each server, in order; for a sealed search its index.
    pub alphas: Vec<i64>,
}

/// Entries of all schemes that are possible with this schema, these parameters and this number of
/// servers. With `verified`, only schemes that can be verified are possible.
pub fn scheme_entries(schema: &Schema, params: &Params, servers: usize) -> Vec<SchemeEntry> {
    let supports_labels = |scheme: &&'static Scheme| crate::manifest::check_supports_labels(scheme, schema).is_ok();
    // An error means that the scheme is not possible: its field would be too large, it needs too
    // many servers or it cannot be verified. With invalid parameters no scheme is possible;
    // `Manifest::new` names the parameter.
    let usual = |scheme| OfferedScheme::usual(scheme, params.clone()).ok();
    let possible = kind::every().filter(supports_labels).filter_map(usual);
    possible.filter(|offered| offered.servers() <= servers).map(|offered| SchemeEntry::of(&*offered)).collect()
}

impl SchemeEntry {
    /// The entry of a scheme of any kind.
    pub fn of(kind: &dyn SearchKind) -> SchemeEntry {
        let (q, p) = (kind.modulus(), kind.gate_modulus());
        SchemeEntry { name: kind.scheme().name.into(), q, p, alphas: kind.points() }
    }
}

/// An offered scheme, ready to use. What does not depend on its kind is in [`SearchKind`].
#[derive(Clone, Debug)]
pub enum OfferedScheme {
    /// Servers scan all rows, and the client decodes their costs.
    Scans(Arc<SchemeInstance>),
    /// A sealed search: three servers find the nearest row together.
    Sealed(Arc<SealedScheme>),
}

impl std::ops::Deref for OfferedScheme {
    type Target = dyn SearchKind;

    fn deref(&self) -> &(dyn SearchKind + 'static) {
        match self {
            OfferedScheme::Scans(instance) => &**instance,
            OfferedScheme::Sealed(sealed) => &**sealed,
        }
    }
}

impl OfferedScheme {
    /// A scheme with the usual modulus and points for these parameters.
    pub fn usual(scheme: &'static Scheme, params: Params) -> Result<OfferedScheme, SchemeInstanceError> {
        Ok(if scheme.is_joint() {
            OfferedScheme::Sealed(SealedScheme::new(params)?.into())
        } else {
            OfferedScheme::Scans(SchemeInstance::new(scheme, params, ModulusRule::Deployment)?.into())
        })
    }

    /// The scheme instance, unless this is a sealed search.
    pub fn scans(&self) -> Option<&Arc<SchemeInstance>> {
        match self {
            OfferedScheme::Scans(instance) => Some(instance),
            OfferedScheme::Sealed(_) => None,
        }
    }

    /// The sealed search, if this is one.
    pub fn sealed(&self) -> Option<&Arc<SealedScheme>> {
        match self {
            OfferedScheme::Scans(_) => None,
            OfferedScheme::Sealed(sealed) => Some(sealed),
        }
    }
}
