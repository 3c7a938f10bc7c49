//! `ifonly leakage`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::bars::Bars;
use super::print;
use crate::LabError;
use crate::leakage::{
    FeatureCost, LeakageModel, LeakageScheme, Population, RowOrder, Sampling, SamplingRule, estimate, exact,
};

/// How much one search tells the user about the database.
#[derive(Debug, Clone, Args, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
#[command(after_help = "\
Examples:
  ifonly leakage --scheme gated --r 3 --d 3 --m 3 --immutable 1 --base 757
  ifonly leakage --scheme mask --dmin 2 --r 10 --d 6 --m 100 --samples 6400
  ifonly leakage --scheme diff --rows levels.csv --m 50 --samples 20000 --json

The rows are drawn without replacement from all points but x (or from --rows), x is uniform: the paper's model. The number of
servers and the threshold decide who may collude, not what the user decodes, so they change nothing here.")]
pub struct LeakageArgs {
    /// The scheme, e.g. baseline, diff, mask, single-phase, two-phase, gated
    #[arg(long, value_name = "NAME")]
    pub scheme: String,
    /// The highest level R: features are in 0..=R (with --rows: found in the file)
    #[arg(long, value_name = "R")]
    pub r: Option<u32>,
    /// The number of features (with --rows: found in the file)
    #[arg(long, value_name = "D")]
    pub d: Option<u32>,
    /// The number of rows M (with --rows: all rows of the file, unless given)
    #[arg(long, value_name = "M")]
    pub m: Option<u32>,
    /// Masks are uniform on 0..N (mask schemes)
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub dmin: u32,
    /// How many features are immutable; averaged over all sets of that size
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub immutable: u32,
    /// Let the constrained features move by up to N instead of not at all (schemes with ranges)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub within: u32,
    /// One weight per feature (schemes with weights)
    #[arg(long, value_name = "W,W,…", value_delimiter = ',')]
    pub weights: Vec<u32>,
    /// The even power of lp schemes
    #[arg(long, value_name = "P", conflicts_with = "metric")]
    pub p: Option<u32>,
    /// The cost of table schemes: absolute, squared or changes
    #[arg(long, value_name = "NAME")]
    pub metric: Option<String>,
    /// The servers permute the rows anew for every search
    #[arg(long)]
    pub shuffle: bool,
    /// Draw rows with replacement
    #[arg(long)]
    pub replace: bool,
    /// The threshold T; accepted for completeness, changes nothing
    #[arg(long, value_name = "T", default_value_t = 1)]
    pub threshold: u32,
    /// The base of `value`
    #[arg(long, value_name = "B", default_value_t = 2.0)]
    pub base: f64,
    /// Sample this many databases instead of computing exactly
    #[arg(long, value_name = "N")]
    pub samples: Option<u64>,
    /// With --samples: use at most this many queries
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub max_queries: u64,
    /// With --samples: the seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Draw rows from this CSV file of levels (a header, then one row of integers per line)
    #[arg(long, value_name = "FILE")]
    pub rows: Option<PathBuf>,
    /// Take queries from this CSV file of levels (default: the rows themselves)
    #[arg(long, value_name = "FILE", requires = "rows")]
    pub queries: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl Default for LeakageArgs {
    /// What the flags are where they are not given; a scheme is still to be named.
    fn default() -> LeakageArgs {
        LeakageArgs {
            scheme: String::new(),
            r: None,
            d: None,
            m: None,
            dmin: 1,
            immutable: 0,
            within: 0,
            weights: vec![],
            p: None,
            metric: None,
            shuffle: false,
            replace: false,
            threshold: 1,
            base: 2.0,
            samples: None,
            max_queries: 64,
            seed: 1,
            rows: None,
            queries: None,
            json: false,
        }
    }
}

/// Runs `ifonly leakage`.
pub fn leakage(args: &LeakageArgs) -> Result<(), LabError> {
    let rows = args.rows.as_deref().map(read_levels).transpose()?;
    let queries = args.queries.as_deref().map(read_levels).transpose()?;
    let population = match (&rows, &queries) {
        (Some(rows), queries) => Population::Rows { rows, queries: queries.as_ref().unwrap_or(rows) },
        (None, _) => Population::Grid,
    };
    print(&answer(args, population)?)
}

/// The answer for a population that the caller has at hand, such as a bundle's rows.
pub fn answer(args: &LeakageArgs, population: Population) -> Result<String, LabError> {
    if !(args.base.is_finite() && args.base > 1.0) {
        return Err(LabError::flag("--base", format!("{} is not above 1", args.base)));
    }
    if args.threshold == 0 {
        return Err(LabError::flag("--threshold", "at least 1"));
    }
    let setting = setting(args, population)?;
    let (bits, standard_error, method) = match args.samples {
        None => (exact(&setting, population)?, None, "exact"),
        Some(samples) => {
            let sampling = Sampling { samples, queries: args.max_queries, seed: args.seed };
            let found = estimate(&setting, population, sampling, &Bars::default())?;
            (found.bits, Some(found.standard_error), "monte-carlo")
        }
    };
    // A sum of rounded terms may come out as −0.0.
    let bits = if bits.abs() < 1e-12 { 0.0 } else { bits };
    let value = bits / args.base.log2();
    if args.json {
        let document = json!({
            "scheme": setting.scheme.name, "r": setting.r, "d": setting.d, "m": setting.m, "dmin": setting.d_min,
            "immutable": setting.immutable, "shuffle": args.shuffle, "replace": args.replace, "threshold": args.threshold,
            "method": method, "bits": bits, "value": value, "base": args.base, "standard_error": standard_error,
            "seed": args.samples.map(|_| args.seed),
        });
        return Ok(format!("{document}\n"));
    }
    let error = standard_error.map_or(String::new(), |error| format!(" ± {error:.6} (one standard error)"));
    let other = if args.base == 2.0 { String::new() } else { format!(", {value:.6} to the base {}", args.base) };
    Ok(format!("{bits:.6} bits{error}{other}\n"))
}

fn setting(args: &LeakageArgs, population: Population) -> Result<LeakageModel, LabError> {
    let (r, d, m) = match population {
        Population::Grid => (args.r, args.d, args.m),
        Population::Rows { rows, queries } => {
            let highest = rows.iter().chain(queries).flatten().copied().max().map(|highest| highest.max(1));
            let features = rows.first().map(|row| row.len() as u32);
            (args.r.or(highest), args.d.or(features), args.m.or(Some(rows.len() as u32)))
        }
    };
    let need = |flag, value: Option<u32>| value.ok_or_else(|| LabError::flag(flag, "missing; give it, or --rows FILE"));
    let metric = match (args.p, args.metric.as_deref()) {
        (Some(p), _) => Some(FeatureCost::Power(p)),
        (None, Some("absolute")) => Some(FeatureCost::Power(1)),
        (None, Some("squared")) => Some(FeatureCost::Power(2)),
        (None, Some("changes")) => Some(FeatureCost::Changes),
        (None, Some(other)) => {
            return Err(LabError::flag("--metric", format!("{other:?} is not absolute, squared or changes")));
        }
        (None, None) => None,
    };
    Ok(LeakageModel {
        d_min: args.dmin,
        immutable: args.immutable,
        within: args.within,
        weights: args.weights.clone(),
        metric,
        order: if args.shuffle { RowOrder::Shuffled } else { RowOrder::Fixed },
        drawing: if args.replace { SamplingRule::WithReplacement } else { SamplingRule::WithoutReplacement },
        ..LeakageModel::new(LeakageScheme::named(&args.scheme)?, need("--r", r)?, need("--d", d)?, need("--m", m)?)
    })
}

fn read_levels(path: &Path) -> Result<Vec<Vec<u32>>, LabError> {
    let wrong = |source| LabError::Csv { path: path.into(), source };
    let mut reader = csv::Reader::from_path(path).map_err(wrong)?;
    let header = reader.headers().map_err(wrong)?.clone();
    let mut rows = Vec::new();
    for (number, record) in reader.records().enumerate() {
        let record = record.map_err(wrong)?;
        let level = |(column, cell): (usize, &str)| {
            cell.trim().parse::<u32>().map_err(|_| LabError::Cell {
                file: path.into(),
                row: number + 1,
                column: header.get(column).unwrap_or_default().into(),
                reason: format!("{cell:?} is not a level (a non-negative integer)"),
            })
        };
        rows.push(record.iter().enumerate().map(level).collect::<Result<Vec<u32>, _>>()?);
    }
    Ok(rows)
}
