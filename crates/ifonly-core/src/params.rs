//! Public parameters of a deployment: size of the database, thresholds and limits.
//!
//! All parameters are in the manifest and hold for every query. A client must not choose F, L or L1
//! per query: servers see the field, and it would reveal |I| and max w.

/// Defines three views of one list of parameters: [`Params`] for the protocol, with the numbers of
/// levels and rows; [`ManifestParams`] as in the manifest; [`ParamOptions`] with every parameter
/// optional, for a build and its command line. Each entry has a default and its flag. The protocol
/// does not need the entries of `service`. The manifest omits an entry of `from_one` if it is 1.
macro_rules! parameters {
    (
        engine { $($(#[doc = $doc:literal])+ $name:ident: $type:ty = $default:expr, flag($($flag:tt)+);)+ }
        service { $($(#[doc = $sdoc:literal])+ $sname:ident: $stype:ty = $sdefault:expr, flag($($sflag:tt)+);)+ }
        from_one { $($(#[doc = $odoc:literal])+ $oname:ident, flag($($oflag:tt)+);)+ }
    ) => {
        /// The public parameters of a deployment.
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Params {
            /// R_k: feature k holds the levels `0..=R_k`.
            pub max_levels: Vec<u32>,
            /// M, the number of accepted samples.
            pub rows: usize,
            $($(#[doc = $doc])+ pub $name: $type,)+
        }

        /// The limits and parameters of a deployment, in the manifest's order.
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub struct ManifestParams {
            $($(#[doc = $doc])+ pub $name: $type,)+
            $($(#[doc = $sdoc])+ pub $sname: $stype,)+
            $(
                $(#[doc = $odoc])+
                #[serde(default = "one", skip_serializing_if = "is_one")]
                pub $oname: usize,
            )+
        }

        /// Requested parameters; those that are `None` keep their defaults.
        #[derive(Clone, Debug, Default, serde::Deserialize)]
        #[serde(default)]
        #[cfg_attr(feature = "clap", derive(clap::Args))]
        pub struct ParamOptions {
            $($(#[doc = $doc])+ #[cfg_attr(feature = "clap", arg(long, $($flag)+))] pub $name: Option<$type>,)+
            $($(#[doc = $sdoc])+ #[cfg_attr(feature = "clap", arg(long, $($sflag)+))] pub $sname: Option<$stype>,)+
            $($(#[doc = $odoc])+ #[cfg_attr(feature = "clap", arg(long, $($oflag)+))] pub $oname: Option<usize>,)+
        }

        impl Default for ManifestParams {
            fn default() -> ManifestParams {
                ManifestParams { $($name: $default,)+ $($sname: $sdefault,)+ $($oname: 1,)+ }
            }
        }

        impl ParamOptions {
            /// Overwrites the parameters that are set here.
            pub fn apply(&self, params: &mut ManifestParams) {
                $(if let Some(value) = self.$name { params.$name = value; })+
                $(if let Some(value) = self.$sname { params.$sname = value; })+
                $(if let Some(value) = self.$oname { params.$oname = value; })+
            }
        }

        impl Params {
            /// The parameters of a manifest, for rows with these highest levels.
            pub fn from_manifest(params: &ManifestParams, max_levels: Vec<u32>, rows: usize) -> Params {
                Params { max_levels, rows, $($name: params.$name,)+ }
            }
        }
    };
}

parameters! {
    engine {
        /// T: number of servers that may collude and learn nothing; default 1.
        threshold: usize = 1, flag(value_name = "T");
        /// S: number of unresponsive servers tolerated; default 0.
        silent: usize = 0, flag(value_name = "S");
        /// B: number of lying servers corrected; default 0.
        lying: usize = 0, flag(value_name = "B");
        /// List the rows in a fresh secret order in every search.
        shuffle: bool = true, flag(
            long = "no-shuffle", num_args = 0, default_missing_value = "false",
            help = "List the rows in stored order; a user can then link distances of several searches"
        );
        /// Duplicate each query so that the client detects a lying server.
        verified: bool = false, flag(num_args = 0, default_missing_value = "true");
        /// L1, the largest weight; default 10.
        weight_limit: u64 = 10, flag(value_name = "L1");
        /// F, the largest number of immutable features (single-phase schemes only); all by default.
        immutable_limit: usize = 0, flag(value_name = "F");
        /// d_min of the mask schemes: masks are uniform on `0..d_min`; default 1.
        d_min: u64 = 1, flag(value_name = "D_MIN");
        /// p of the ℓ_p schemes; even; default 4.
        exponent: u32 = 4, flag(value_name = "P");
        /// The largest entry of a cost table; by default, what weights and counted changes need.
        cost_limit: u64 = 1, flag(value_name = "COST");
    }
    service {
        /// The largest number of records that one search may fetch; default 10, in
        /// sealed bundles 1.
        top_limit: usize = 10, flag(value_name = "K");
    }
    from_one {
        /// If fewer rows match a sealed search, it finds no row; default 1.
        floor, flag(value_name = "M");
    }
}

fn one() -> usize {
    1
}

/// Whether the manifest omits the number.
fn is_one(number: &usize) -> bool {
    *number == 1
}

/// An invalid parameter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("{parameter} = {value} {reason}")]
pub struct ParamsError {
    /// The parameter's name in the manifest.
    pub parameter: &'static str,
    /// Its value.
    pub value: u128,
    /// What is wrong with it.
    pub reason: Box<str>,
}

impl Params {
    /// The largest R_k; row stores use 16-bit levels.
    pub const MAX_RANGE: u32 = 65_535;
    /// The largest number of rows.
    pub const MAX_ROWS: usize = u32::MAX as usize;
    /// The largest number of features.
    pub const MAX_FEATURES: usize = 4096;
    /// The largest T, S and B; with it, server indices fit into a byte.
    pub(crate) const MAX_THRESHOLD: usize = 16;
    /// The largest exponent.
    const MAX_EXPONENT: u32 = 16;

    /// Parameters of a plain deployment: T = 1, S = B = 0, no shuffle, no weights, any feature may
    /// be immutable, masks are 0.
    pub fn new(max_levels: Vec<u32>, rows: usize) -> Params {
        let widest = u64::from(max_levels.iter().copied().max().unwrap_or(0));
        let params = ManifestParams {
            immutable_limit: max_levels.len(),
            weight_limit: 1,
            exponent: 2,
            cost_limit: widest * widest,
            shuffle: false,
            ..ManifestParams::default()
        };
        Params::from_manifest(&params, max_levels, rows)
    }

    /// d, the number of features.
    pub(crate) fn features(&self) -> usize {
        self.max_levels.len()
    }

    /// Σ(R_k + 1), the number of table entries.
    pub(crate) fn levels(&self) -> usize {
        self.max_levels.iter().map(|&range| range as usize + 1).sum()
    }

    /// Δ = Σ R_k², the largest squared distance.
    pub(crate) fn delta(&self) -> u128 {
        self.power_bound(2)
    }

    /// Σ R_k^p. The sum saturates; no field holds a saturated bound.
    pub(crate) fn power_bound(&self, p: u32) -> u128 {
        self.max_levels.iter().fold(0u128, |sum, &range| sum.saturating_add(u128::from(range).saturating_pow(p)))
    }

    /// L1·Δ.
    pub(crate) fn weighted_delta(&self) -> u128 {
        u128::from(self.weight_limit).saturating_mul(self.delta())
    }

    /// The largest sum of cost tables.
    pub(crate) fn table_bound(&self) -> u128 {
        u128::from(self.cost_limit).saturating_mul(self.features() as u128)
    }

    /// The largest value of the single-phase schemes, with weights up to `weight_limit`. A set I
    /// with Σ_{k∈I} R_k² = s has L = weight_limit·(Δ − s) + 1 and the largest value
    /// (s + 1)·L − 1. This is the maximum over all |I| ≤ F. It counts every s between the
    /// smallest and the largest sum of |I| squares; with equal R_k there is only one.
    pub(crate) fn scaled_bound(&self, weight_limit: u64) -> u128 {
        let mut squares: Vec<u128> = self.max_levels.iter().map(|&range| u128::from(range).pow(2)).collect();
        squares.sort_unstable();
        let delta = self.delta();
        let value = |f: usize| {
            let smallest = squares[..f].iter().sum();
            let largest = squares[squares.len() - f..].iter().sum();
            // The value grows up to s = ⌊Δ/2⌋ and then falls, for every weight limit.
            let s = (delta / 2).clamp(smallest, largest);
            let scale = (delta - s).saturating_mul(weight_limit.into()).saturating_add(1);
            (s + 1).saturating_mul(scale) - 1
        };
        (0..=self.immutable_limit.min(squares.len())).map(value).max().unwrap_or(0)
    }

    /// Checks every parameter against its limits.
    pub fn check(&self) -> Result<(), ParamsError> {
        let refuse =
            |parameter, value: u128, reason: &str| Err(ParamsError { parameter, value, reason: reason.into() });
        let up_to = |most| format!("must be in 1..={most}");
        if self.max_levels.is_empty() || self.max_levels.len() > Self::MAX_FEATURES {
            return refuse("features", self.max_levels.len() as u128, &up_to(Self::MAX_FEATURES));
        }
        if let Some(&range) = self.max_levels.iter().find(|&&range| range == 0 || range > Self::MAX_RANGE) {
            return refuse("max_levels", range.into(), &up_to(Self::MAX_RANGE as usize));
        }
        if self.rows == 0 || self.rows > Self::MAX_ROWS {
            return refuse("rows", self.rows as u128, &up_to(Self::MAX_ROWS));
        }
        if self.threshold == 0 || self.threshold > Self::MAX_THRESHOLD {
            return refuse("threshold", self.threshold as u128, &up_to(Self::MAX_THRESHOLD));
        }
        if self.silent > Self::MAX_THRESHOLD || self.lying > Self::MAX_THRESHOLD {
            return refuse(
                "silent or lying",
                self.silent.max(self.lying) as u128,
                &format!("must be at most {}", Self::MAX_THRESHOLD),
            );
        }
        if self.weight_limit == 0 {
            return refuse("weight_limit", 0, "must be at least 1");
        }
        if self.immutable_limit > self.max_levels.len() {
            return refuse("immutable_limit", self.immutable_limit as u128, "must be at most the number of features");
        }
        if self.d_min == 0 {
            return refuse("d_min", 0, "must be at least 1 (with 1 every mask is 0)");
        }
        if self.exponent < 2 || self.exponent % 2 == 1 || self.exponent > Self::MAX_EXPONENT {
            return refuse(
                "exponent",
                self.exponent.into(),
                &format!("must be even and in 2..={}", Self::MAX_EXPONENT),
            );
        }
        if self.cost_limit == 0 {
            return refuse("cost_limit", 0, "must be at least 1");
        }
        Ok(())
    }
}
