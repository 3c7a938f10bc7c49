//! Which schemes a deployment can offer, each with its field and its points.

use crate::schema::Schema;
use ifonly_algebra::field::FieldRule;
use ifonly_core::deployment::Deployment;
use ifonly_core::params::Params;
use ifonly_core::scheme::{self, Scheme};
use ifonly_core::sealed::{self, Sealed};
use std::sync::Arc;

/// A scheme on offer.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// The scheme's name.
    pub name: String,
    /// The modulus: that of the field, or for a sealed search the power of two.
    pub q: u64,
    /// α of each server, in order; for a sealed search its number.
    pub alphas: Vec<i64>,
}

/// Every scheme that fits the schema, the number of servers and the largest field; verified, only those that can be.
pub fn offers(schema: &Schema, params: &Params, servers: usize) -> Vec<Offer> {
    let fits = |scheme: &&'static Scheme| super::needs_no_tables(scheme, schema).is_ok();
    let deployments = scheme::ALL.iter().copied().filter(fits);
    // What fails here does not fit: too large a field, too many servers or not verifiable. Parameters that make no sense
    // leave nothing on offer, and the manifest names them.
    let deployments =
        deployments.filter_map(|scheme| Deployment::new(scheme, params.clone(), FieldRule::Deployment).ok());
    let scans =
        deployments.filter(|deployment| deployment.servers() <= servers).map(|deployment| Offer::of(&deployment));
    let sealed = Sealed::new(params.clone()).ok().filter(|_| sealed::SERVERS <= servers);
    scans.chain(sealed.map(|sealed| Offer::of_sealed(&sealed))).collect()
}

impl Offer {
    /// The offer of a deployment.
    pub fn of(deployment: &Deployment) -> Offer {
        let field = deployment.field();
        Offer {
            name: deployment.scheme().name.into(),
            q: field.q(),
            alphas: deployment.points().iter().map(|&point| field.signed(point)).collect(),
        }
    }

    /// The offer of a sealed search.
    pub fn of_sealed(sealed: &Sealed) -> Offer {
        let alphas = (1..=sealed::SERVERS as i64).collect();
        // At most 63 bits.
        Offer { name: sealed::SCHEME.name.into(), q: 1 << sealed.bits(), alphas }
    }
}

/// A scheme on offer, ready to use.
#[derive(Clone, Debug)]
pub enum Offered {
    /// Servers scan for the user, who decodes what all rows cost.
    Scans(Arc<Deployment>),
    /// Three servers search among themselves.
    Sealed(Arc<Sealed>),
}

impl Offered {
    /// The scheme.
    pub fn scheme(&self) -> &'static Scheme {
        match self {
            Offered::Scans(deployment) => deployment.scheme(),
            Offered::Sealed(_) => sealed::SCHEME,
        }
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        match self {
            Offered::Scans(deployment) => deployment.params(),
            Offered::Sealed(sealed) => sealed.params(),
        }
    }

    /// The servers that it asks.
    pub fn servers(&self) -> usize {
        match self {
            Offered::Scans(deployment) => deployment.servers(),
            Offered::Sealed(_) => sealed::SERVERS,
        }
    }

    /// The deployment, where servers scan for the user.
    pub fn scans(&self) -> Option<&Arc<Deployment>> {
        match self {
            Offered::Scans(deployment) => Some(deployment),
            Offered::Sealed(_) => None,
        }
    }
}
