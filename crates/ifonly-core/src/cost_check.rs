//! The cost of a found record, recomputed from its levels and compared with the decoded cost.

use crate::candidates::DecodedCost;
use crate::params::Params;
use crate::scheme::Scheme;
use crate::scheme::instance::SchemeInstance;
use crate::search::{NearestRow, RecordRefusal};
use crate::secret_query::SecretQuery;

/// The cost of the found record with these levels, if it equals the decoded cost.
pub fn confirm(
    instance: &SchemeInstance,
    secret: &SecretQuery,
    found: &NearestRow,
    levels: &[u16],
) -> Result<u64, RecordRefusal> {
    confirm_under(instance.scheme(), instance.params(), secret, found, levels)
}

/// Like [`confirm`], for any scheme and parameters.
pub fn confirm_under(
    scheme: &Scheme,
    params: &Params,
    secret: &SecretQuery,
    found: &NearestRow,
    levels: &[u16],
) -> Result<u64, RecordRefusal> {
    match check_cost(scheme, params, secret, found, levels) {
        CostCheck::Equal(cost) => Ok(cost),
        CostCheck::Differs(_) | CostCheck::NoMatch => Err(RecordRefusal::WrongCost),
    }
}

/// The cost of a found record, recomputed from its levels and compared with the decoded cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostCheck {
    /// The record has this cost, and the decoded cost agrees.
    Equal(u64),
    /// The record matches the query and has this cost, but another cost was decoded.
    Differs(u64),
    /// The record does not match the query, or the levels are not those of a row.
    NoMatch,
}

/// Recomputes the cost of a found record and compares it with the decoded cost.
pub fn check_cost(
    scheme: &Scheme,
    params: &Params,
    secret: &SecretQuery,
    found: &NearestRow,
    levels: &[u16],
) -> CostCheck {
    let fits = levels.len() == params.features()
        && levels.iter().zip(&params.max_levels).all(|(&level, &range)| u32::from(level) <= range);
    let cost = if fits { secret.plain_cost(scheme, params, levels) } else { None };
    let Some(cost) = cost else { return CostCheck::NoMatch };
    let agrees = match found.cost {
        DecodedCost::Exactly(decoded) => decoded == cost,
        DecodedCost::AtMost(decoded) => cost <= decoded && decoded - cost < params.d_min,
        DecodedCost::Unknown => true,
    };
    if agrees { CostCheck::Equal(cost) } else { CostCheck::Differs(cost) }
}
