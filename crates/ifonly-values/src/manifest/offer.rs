//! Which schemes a deployment can offer, each with its field and its points.

use crate::schema::Schema;
use ifonly_core::deployment::Deployment;
use ifonly_core::field::FieldRule;
use ifonly_core::params::Params;
use ifonly_core::scheme;

/// A scheme on offer.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// The scheme's name.
    pub name: String,
    /// The field.
    pub q: u64,
    /// α of each server, in order.
    pub alphas: Vec<i64>,
}

/// Every scheme that fits the schema, the number of servers and the largest field; verified, only those that can be.
pub fn offers(schema: &Schema, params: &Params, servers: usize) -> Vec<Offer> {
    let fits = |scheme: &&'static scheme::Scheme| super::needs_no_tables(scheme, schema).is_ok();
    let deployments = scheme::ALL.iter().copied().filter(fits);
    // What fails here does not fit: too large a field, too many servers or not verifiable. Parameters that make no sense
    // leave nothing on offer, and the manifest names them.
    let deployments =
        deployments.filter_map(|scheme| Deployment::new(scheme, params.clone(), FieldRule::Deployment).ok());
    deployments.filter(|deployment| deployment.servers() <= servers).map(|deployment| Offer::of(&deployment)).collect()
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
}
