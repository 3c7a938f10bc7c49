//! The schemes that a deployment can offer, each with its modulus and its evaluation points.

use crate::schema::Schema;
use ifonly_algebra::field::ModulusRule;
use ifonly_core::params::Params;
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::sealed::SealedScheme;
use ifonly_core::scheme::{self, Scheme, sealed};
use std::sync::Arc;

/// An offered scheme, as listed in the manifest.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchemeEntry {
    /// The scheme's name.
    pub name: String,
    /// The modulus of the field; for a sealed search the power of two that sums are reduced by.
    pub q: u64,
    /// The evaluation point of each server, in order; for a sealed search its index.
    pub alphas: Vec<i64>,
}

/// Entries of all schemes that are possible with this schema, these parameters and this number of
/// servers. With `verified`, only schemes that can be verified are possible.
pub fn scheme_entries(schema: &Schema, params: &Params, servers: usize) -> Vec<SchemeEntry> {
    let supports_labels = |scheme: &&'static Scheme| crate::manifest::check_supports_labels(scheme, schema).is_ok();
    let schemes = scheme::ALL.iter().copied().filter(supports_labels);
    // An error means that the scheme is not possible: its field would be too large, it needs too
    // many servers or it cannot be verified. With invalid parameters no scheme is possible;
    // `Manifest::new` names the parameter.
    let instances =
        schemes.filter_map(|scheme| SchemeInstance::new(scheme, params.clone(), ModulusRule::Deployment).ok());
    let entries = instances.filter(|instance| instance.servers() <= servers).map(|instance| SchemeEntry::of(&instance));
    let sealed = SealedScheme::new(params.clone()).ok().filter(|_| sealed::SERVERS <= servers);
    entries.chain(sealed.map(|sealed| SchemeEntry::for_sealed(&sealed))).collect()
}

impl SchemeEntry {
    /// The entry of a scheme instance.
    pub fn of(instance: &SchemeInstance) -> SchemeEntry {
        let field = instance.field();
        SchemeEntry {
            name: instance.scheme().name.into(),
            q: field.q(),
            alphas: instance.points().iter().map(|&point| field.signed(point)).collect(),
        }
    }

    /// The entry of a sealed search.
    pub fn for_sealed(sealed: &SealedScheme) -> SchemeEntry {
        let alphas = (1..=sealed::SERVERS as i64).collect();
        // The shift cannot overflow: a sealed search has at most 63 bits.
        SchemeEntry { name: sealed::SCHEME.name.into(), q: 1 << sealed.bits(), alphas }
    }
}

/// An offered scheme, ready to use.
#[derive(Clone, Debug)]
pub enum OfferedScheme {
    /// Servers scan all rows, and the client decodes their costs.
    Scans(Arc<SchemeInstance>),
    /// A sealed search: three servers find the nearest row together.
    Sealed(Arc<SealedScheme>),
}

impl OfferedScheme {
    /// The scheme.
    pub fn scheme(&self) -> &'static Scheme {
        match self {
            OfferedScheme::Scans(instance) => instance.scheme(),
            OfferedScheme::Sealed(_) => sealed::SCHEME,
        }
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        match self {
            OfferedScheme::Scans(instance) => instance.params(),
            OfferedScheme::Sealed(sealed) => sealed.params(),
        }
    }

    /// Number of servers that the scheme uses.
    pub fn servers(&self) -> usize {
        match self {
            OfferedScheme::Scans(instance) => instance.servers(),
            OfferedScheme::Sealed(_) => sealed::SERVERS,
        }
    }

    /// The scheme instance, unless this is a sealed search.
    pub fn scans(&self) -> Option<&Arc<SchemeInstance>> {
        match self {
            OfferedScheme::Scans(instance) => Some(instance),
            OfferedScheme::Sealed(_) => None,
        }
    }
}
