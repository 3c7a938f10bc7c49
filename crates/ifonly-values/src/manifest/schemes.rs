//! Which schemes a deployment can offer, each with its field and its points.

use crate::schema::Schema;
use ifonly_algebra::field::ModulusRule;
use ifonly_core::params::Params;
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::sealed::SealedScheme;
use ifonly_core::scheme::{self, Scheme, sealed};
use std::sync::Arc;

/// A scheme on offer.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchemeEntry {
    /// The scheme's name.
    pub name: String,
    /// The modulus: that of the field, or for a sealed search the power of two.
    pub q: u64,
    /// α of each server, in order; for a sealed search its number.
    pub alphas: Vec<i64>,
}

/// Every scheme that fits the schema, the number of servers and the largest field; verified, only
/// those that can be.
pub fn scheme_entries(schema: &Schema, params: &Params, servers: usize) -> Vec<SchemeEntry> {
    let fits = |scheme: &&'static Scheme| crate::manifest::needs_no_tables(scheme, schema).is_ok();
    let instances = scheme::ALL.iter().copied().filter(fits);
    // What fails here does not fit: too large a field, too many servers or not verifiable.
    // Parameters that make no sense leave nothing on offer, and the manifest names them.
    let instances =
        instances.filter_map(|scheme| SchemeInstance::new(scheme, params.clone(), ModulusRule::Deployment).ok());
    let scans = instances.filter(|instance| instance.servers() <= servers).map(|instance| SchemeEntry::of(&instance));
    let sealed = SealedScheme::new(params.clone()).ok().filter(|_| sealed::SERVERS <= servers);
    scans.chain(sealed.map(|sealed| SchemeEntry::for_sealed(&sealed))).collect()
}

impl SchemeEntry {
    /// The offer of a deployment.
    pub fn of(instance: &SchemeInstance) -> SchemeEntry {
        let field = instance.field();
        SchemeEntry {
            name: instance.scheme().name.into(),
            q: field.q(),
            alphas: instance.points().iter().map(|&point| field.signed(point)).collect(),
        }
    }

    /// The offer of a sealed search.
    pub fn for_sealed(sealed: &SealedScheme) -> SchemeEntry {
        let alphas = (1..=sealed::SERVERS as i64).collect();
        // At most 63 bits.
        SchemeEntry { name: sealed::SCHEME.name.into(), q: 1 << sealed.bits(), alphas }
    }
}

/// A scheme on offer, ready to use.
#[derive(Clone, Debug)]
pub enum OfferedScheme {
    /// Servers scan for the user, who decodes what all rows cost.
    Scans(Arc<SchemeInstance>),
    /// Three servers search among themselves.
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

    /// The servers that it asks.
    pub fn servers(&self) -> usize {
        match self {
            OfferedScheme::Scans(instance) => instance.servers(),
            OfferedScheme::Sealed(_) => sealed::SERVERS,
        }
    }

    /// The deployment, where servers scan for the user.
    pub fn scans(&self) -> Option<&Arc<SchemeInstance>> {
        match self {
            OfferedScheme::Scans(instance) => Some(instance),
            OfferedScheme::Sealed(_) => None,
        }
    }
}
