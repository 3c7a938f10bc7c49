//! From decoded values to the nearest rows.

use crate::deployment::Deployment;
use crate::field::Symbol;
use crate::round::Values;
use crate::scheme::Reading;
use zeroize::Zeroize;

/// The rows that may be chosen, by position, each with a rank; smaller is nearer.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Candidates {
    ranks: Vec<Option<i64>>,
    kind: Kind,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Exact,
    Negated,
    Masked,
    Relative,
}

impl Drop for Candidates {
    fn drop(&mut self) {
        self.ranks.zeroize();
    }
}

impl std::fmt::Debug for Candidates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Candidates(..)")
    }
}

/// What a scheme says about the cost of the row it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Price {
    /// This.
    Exactly(u64),
    /// At most this, and at least this less d_min − 1.
    AtMost(u64),
    /// Only its place among the others.
    Unknown,
}

/// A decoded value that no honest servers could have led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("position {position} decodes to an impossible value: a server lied or holds another database")]
pub struct Implausible {
    /// Counted from 0.
    pub position: usize,
}

impl Candidates {
    /// Reads the values of a phase. `theta` is what the phase before found, if there was one.
    pub fn read(
        deployment: &Deployment,
        phase: usize,
        decoded: &Values,
        theta: &[bool],
    ) -> Result<Candidates, Implausible> {
        let (scheme, params, field) = (deployment.scheme(), deployment.params(), deployment.field());
        let values = decoded.values.as_slice();
        let bound = (scheme.bound)(params);
        let within = |position: usize, value: Symbol, most: u128| {
            if u128::from(value.value()) > most { Err(Implausible { position }) } else { Ok(value.value() as i64) }
        };
        let each = |read: &dyn Fn(usize, Symbol) -> Result<Option<i64>, Implausible>| {
            values.iter().enumerate().map(|(position, &value)| read(position, value)).collect::<Result<Vec<_>, _>>()
        };
        let (ranks, kind) = match scheme.phases[phase].reading {
            Reading::Cost => (each(&|i, v| within(i, v, bound).map(Some))?, Kind::Exact),
            Reading::Gain => (each(&|i, v| within(i, v, bound).map(|gain| Some(-gain)))?, Kind::Negated),
            Reading::Masked => (each(&|i, v| within(i, v, bound).map(Some))?, Kind::Masked),
            Reading::Zeros => (each(&|_, v| Ok(v.is_zero().then_some(0)))?, Kind::Relative),
            Reading::Selected => {
                let select = |i: usize, v: Symbol| match theta[i] {
                    true => within(i, v, bound).map(Some),
                    false if v == decoded.empty_row[0] => Ok(None),
                    false => Err(Implausible { position: i }),
                };
                (each(&select)?, Kind::Exact)
            }
            Reading::Scaled(most) => {
                let most = most(params);
                let open = |i: usize, v: Symbol| {
                    within(i, v, bound).map(|value| (u128::from(v.value()) <= most).then_some(value))
                };
                (each(&open)?, Kind::Exact)
            }
            Reading::Gated => {
                let pair = |(position, pair): (usize, &[Symbol])| match pair[0].is_zero() {
                    true => within(position, pair[1], bound).map(Some),
                    false => Ok(None),
                };
                (values.chunks_exact(2).enumerate().map(pair).collect::<Result<Vec<_>, _>>()?, Kind::Exact)
            }
            Reading::Difference => {
                // d_{i+1} = d_i − (d_i − d_{i+1}), relative to row 0. Honest ranks spread over at most half the bound.
                let mut ranks = vec![Some(0)];
                let (mut rank, mut lowest, mut highest) = (0i64, 0i64, 0i64);
                for (position, &value) in values.iter().enumerate() {
                    rank = rank.saturating_sub(field.signed(value));
                    (lowest, highest) = (lowest.min(rank), highest.max(rank));
                    if u128::from(highest.abs_diff(lowest)) > bound / 2 {
                        return Err(Implausible { position });
                    }
                    ranks.push(Some(rank));
                }
                (ranks, Kind::Relative)
            }
        };
        Ok(Candidates { ranks, kind })
    }

    /// Which positions qualify.
    pub fn theta(&self) -> Vec<bool> {
        self.ranks.iter().map(Option::is_some).collect()
    }

    /// How many positions qualify.
    pub fn count(&self) -> usize {
        self.ranks.iter().flatten().count()
    }

    /// The k nearest, nearest first; ties go to the lower position.
    pub fn nearest(&self, k: usize) -> Vec<(usize, Price)> {
        let mut order: Vec<(i64, usize)> =
            self.ranks.iter().enumerate().filter_map(|(position, rank)| Some(((*rank)?, position))).collect();
        let k = k.min(order.len());
        if k > 0 && k < order.len() {
            order.select_nth_unstable(k - 1);
        }
        order.truncate(k);
        order.sort_unstable();
        order.into_iter().map(|(rank, position)| (position, self.price(rank))).collect()
    }

    fn price(&self, rank: i64) -> Price {
        match self.kind {
            Kind::Exact => Price::Exactly(rank.unsigned_abs()),
            Kind::Negated => Price::Exactly((-rank).unsigned_abs()),
            Kind::Masked => Price::AtMost(rank.unsigned_abs()),
            Kind::Relative => Price::Unknown,
        }
    }
}
