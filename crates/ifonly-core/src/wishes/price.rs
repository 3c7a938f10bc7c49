//! How one feature's change is priced and which of its levels are permitted.
//!
//! A one-hot column changes in two features at once, the category that goes and the one that comes. Squared distances charge
//! both, as quadratic schemes must; every other price, and the number of changes, counts the one that goes.

use super::{Wish, WishError};
use crate::schema::Feature;
use zeroize::DefaultIsZeroes;

/// How the change of a feature from one level to another is priced, before its weight. Categorical features are compared by
/// equality: a mismatch counts as a change across the whole feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pricing {
    /// The squared number of levels.
    #[default]
    L2,
    /// The number of levels.
    L1,
    /// The number of levels in hundredths of the feature's median absolute deviation; 100 for a categorical mismatch.
    Mad,
    /// 1 for any change: the sum is the number of changed features.
    Count,
    /// Nothing up to this many levels, the full range beyond.
    Step(u32),
}

impl DefaultIsZeroes for Pricing {}

impl Pricing {
    fn of(self, feature: &Feature, gap: u32) -> Result<u64, WishError> {
        if gap == 0 {
            return Ok(0);
        }
        let gap = if feature.is_categorical() { feature.full_range() } else { gap };
        Ok(match self {
            Pricing::L2 => u64::from(gap).pow(2),
            Pricing::L1 => u64::from(gap),
            Pricing::Mad if feature.is_categorical() => 100,
            Pricing::Mad => {
                let mad = feature.mad.filter(|mad| *mad > 0.0);
                let mad = mad.ok_or_else(|| WishError::NoMad { feature: feature.name.clone() })?;
                // A cast from f64 saturates; the table's limit is checked afterwards.
                (100.0 * f64::from(gap) / mad).round() as u64
            }
            Pricing::Count => 1,
            Pricing::Step(free) => {
                if gap > free {
                    feature.full_range().into()
                } else {
                    0
                }
            }
        })
    }
}

/// Whether a change shows in another feature of the same one-hot column: in the category that the person has.
pub(super) fn counted_elsewhere(feature: &Feature, own: u32) -> bool {
    feature.one_hot.is_some() && own == 0
}

impl Wish {
    pub(super) fn check(&self, feature: &Feature, limit: u64) -> Result<(), WishError> {
        match [self.weight_up, self.weight_down].into_iter().find(|weight| !(1..=limit).contains(weight)) {
            Some(weight) => Err(WishError::Weight { feature: feature.name.clone(), weight, limit }),
            None => Ok(()),
        }
    }

    /// Keeps only the levels that are permitted here too.
    pub(super) fn permit(&mut self, levels: &[bool]) {
        let before = self.permitted.get_or_insert_with(|| vec![true; levels.len()]);
        before.iter_mut().zip(levels).for_each(|(before, &now)| *before &= now);
    }

    pub(super) fn permits(&self, own: u32, level: u32) -> bool {
        let listed = self.permitted.as_ref().is_none_or(|levels| levels.get(level as usize) == Some(&true));
        listed
            && (!self.immutable || level == own)
            && (!self.only_up || level >= own)
            && (!self.only_down || level <= own)
    }

    pub(super) fn cost(&self, feature: &Feature, own: u32, level: u32) -> Result<u64, WishError> {
        if self.pricing != Pricing::L2 && counted_elsewhere(feature, own) {
            return Ok(0);
        }
        let weight = if level >= own { self.weight_up } else { self.weight_down };
        Ok(weight.saturating_mul(self.pricing.of(feature, own.abs_diff(level))?))
    }
}
