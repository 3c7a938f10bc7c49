//! What a deployment fixes once for everybody: the shape of the database, thresholds and limits.
//!
//! All of it is public and stands in the manifest. Nothing here may be chosen per query: F, L or L1 chosen by the user
//! would tell the servers |I| and max w.

/// The public parameters of a deployment.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// R_k: feature k holds the levels `0..=R_k`.
    pub ranges: Vec<u32>,
    /// M, the number of accepted samples.
    pub rows: usize,
    /// T: any T servers together learn nothing.
    pub threshold: usize,
    /// S: so many servers may stay silent.
    pub silent: usize,
    /// B: so many servers may lie and are corrected.
    pub lying: usize,
    /// L1: weights are in `1..=L1`.
    pub weight_limit: u64,
    /// F: at most so many features are immutable (Single-Phase only).
    pub immutable_limit: usize,
    /// d_min: masks are uniform on `0..d_min` (Mask only).
    pub mask: u64,
    /// p of the ℓ_p norm, even (ℓ_p only).
    pub exponent: u32,
    /// The largest entry of a cost table (table costs only).
    pub cost_limit: u64,
    /// Rows are listed in a fresh secret order for every search.
    pub shuffle: bool,
    /// Every query vector is shared twice, so that a lie shows.
    pub verified: bool,
}

/// Which parameter cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("{parameter} = {value} {reason}")]
pub struct ParamsError {
    /// The parameter's name in the manifest.
    pub parameter: &'static str,
    /// Its value.
    pub value: u128,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl Params {
    /// More levels than this do not fit into a row store.
    pub const MAX_RANGE: u32 = 65_535;
    /// Databases end here.
    pub const MAX_ROWS: usize = u32::MAX as usize;
    /// Features end here.
    pub const MAX_FEATURES: usize = 4096;
    /// Thresholds end here, so that server counts stay in a byte.
    pub const MAX_THRESHOLD: usize = 16;

    /// The plain deployment: T = 1, S = B = 0, no weights, any feature may be immutable, masks of one value.
    pub fn new(ranges: Vec<u32>, rows: usize) -> Params {
        let widest = u64::from(ranges.iter().copied().max().unwrap_or(0));
        Params {
            immutable_limit: ranges.len(),
            ranges,
            rows,
            threshold: 1,
            silent: 0,
            lying: 0,
            weight_limit: 1,
            mask: 1,
            exponent: 2,
            cost_limit: widest * widest,
            shuffle: false,
            verified: false,
        }
    }

    /// d, the number of features.
    pub fn features(&self) -> usize {
        self.ranges.len()
    }

    /// Σ(R_k + 1), the number of table entries.
    pub fn levels(&self) -> usize {
        self.ranges.iter().map(|&range| range as usize + 1).sum()
    }

    /// Δ = Σ R_k², the largest squared distance.
    pub fn delta(&self) -> u128 {
        self.power_bound(2)
    }

    /// Σ R_k^p; saturates, and no field holds a saturated bound.
    pub fn power_bound(&self, p: u32) -> u128 {
        self.ranges.iter().fold(0u128, |sum, &range| sum.saturating_add(u128::from(range).saturating_pow(p)))
    }

    /// L1·Δ.
    pub fn weighted_delta(&self) -> u128 {
        u128::from(self.weight_limit).saturating_mul(self.delta())
    }

    /// The largest sum of cost tables.
    pub fn table_bound(&self) -> u128 {
        u128::from(self.cost_limit).saturating_mul(self.features() as u128)
    }

    /// Single-Phase's bound `F(L−1)R² + most` with `L = most + 1`, `most` the largest cost of the mutable features.
    /// With ranges of their own, the F widest features count.
    pub fn scaled_bound(&self, most: u128) -> u128 {
        let mut squares: Vec<u128> = self.ranges.iter().map(|&range| u128::from(range).pow(2)).collect();
        squares.sort_unstable_by(|a, b| b.cmp(a));
        let widest: u128 = squares.iter().take(self.immutable_limit).sum();
        most.saturating_mul(widest).saturating_add(most)
    }

    /// Whether the numbers make sense by themselves.
    pub fn check(&self) -> Result<(), ParamsError> {
        let refuse = |parameter, value: u128, reason| Err(ParamsError { parameter, value, reason });
        if self.ranges.is_empty() || self.ranges.len() > Self::MAX_FEATURES {
            return refuse("features", self.ranges.len() as u128, "must be in 1..=4096");
        }
        if let Some(&range) = self.ranges.iter().find(|&&range| range == 0 || range > Self::MAX_RANGE) {
            return refuse("ranges", range.into(), "must be in 1..=65535");
        }
        if self.rows == 0 || self.rows > Self::MAX_ROWS {
            return refuse("rows", self.rows as u128, "must be in 1..2^32");
        }
        if self.threshold == 0 || self.threshold > Self::MAX_THRESHOLD {
            return refuse("threshold", self.threshold as u128, "must be in 1..=16");
        }
        if self.silent > Self::MAX_THRESHOLD || self.lying > Self::MAX_THRESHOLD {
            return refuse("silent or lying", self.silent.max(self.lying) as u128, "must be at most 16");
        }
        if self.weight_limit == 0 {
            return refuse("weight_limit", 0, "must be at least 1");
        }
        if self.immutable_limit > self.ranges.len() {
            return refuse("immutable_limit", self.immutable_limit as u128, "exceeds the number of features");
        }
        if self.mask == 0 {
            return refuse("mask", 0, "must be at least 1 (1 masks nothing)");
        }
        if self.exponent < 2 || self.exponent % 2 == 1 || self.exponent > 16 {
            return refuse("exponent", self.exponent.into(), "must be even and in 2..=16");
        }
        if self.cost_limit == 0 {
            return refuse("cost_limit", 0, "must be at least 1");
        }
        Ok(())
    }
}
