//! `ifonly leakage`: the leakage of one search, exact or sampled.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::bars::Bars;
use super::print;
use crate::LabError;
use crate::leakage::{
    FeatureCost, LeakageModel, LeakageScheme, Population, RowOrder, Sampling, SamplingRule, estimate, exact, maximal,
    with_record,
};

/// Compute how many bits one search reveals about the rows, exactly or by sampling.
#[derive(Debug, Clone, Args, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
#[command(after_help = "\
Examples:
  ifonly leakage --scheme gated --r 3 --d 3 --m 3 --immutable 1 --base 757
  ifonly leakage --scheme mask --d-min 2 --r 10 --d 6 --m 100 --samples 6400
  ifonly leakage --scheme diff --rows levels.csv --m 50 --samples 20000 --json

Model of the paper: the profile x is uniform; the rows are drawn without replacement from all points
except x, or from --rows. The number of servers and the threshold do not matter, because the user
decodes the same values.

The first number excludes the record that the search returns, the second includes it. Maximal leakage
holds for every prior, and the values of several searches add up: use it for budgets.")]
pub struct LeakageArgs {
    /// Scheme, such as baseline, diff, mask, single-phase, two-phase or gated
    #[arg(long, value_name = "NAME")]
    pub scheme: String,
    /// Largest level R; levels are 0 to R (default with --rows: the largest level in the file)
    #[arg(long, value_name = "R")]
    pub r: Option<u32>,
    /// Number of features (default with --rows: the columns of the file)
    #[arg(long, value_name = "D")]
    pub d: Option<u32>,
    /// Number of rows M (default with --rows: all rows of the file)
    #[arg(long, value_name = "M")]
    pub m: Option<u32>,
    /// Masks are uniform on 0 to N-1 (mask schemes)
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub d_min: u32,
    /// Number of immutable features; the result is the mean over all sets of that size
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub immutable: u32,
    /// Largest permitted change of the --immutable features (schemes with ranges)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub within: u32,
    /// Weights, one per feature (schemes with weights)
    #[arg(long, value_name = "W,W,…", value_delimiter = ',')]
    pub weights: Vec<u32>,
    /// Exponent of lp schemes, an even number
    #[arg(long, value_name = "P", conflicts_with = "metric")]
    pub p: Option<u32>,
    /// Cost of table schemes: absolute, squared or changes
    #[arg(long, value_name = "NAME")]
    pub metric: Option<String>,
    /// Shuffle the rows for every search
    #[arg(long)]
    pub shuffle: bool,
    /// Draw the rows with replacement
    #[arg(long)]
    pub replace: bool,
    /// Threshold T; it does not change the result
    #[arg(long, value_name = "T", default_value_t = 1)]
    pub threshold: u32,
    /// Base of the logarithm of `value`
    #[arg(long, value_name = "B", default_value_t = 2.0)]
    pub base: f64,
    /// Number of databases to sample; without it, the result is exact
    #[arg(long, value_name = "N")]
    pub samples: Option<u64>,
    /// Largest number of queries used with --samples
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub max_queries: u64,
    /// Seed of --samples
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// CSV file from which the rows are drawn: a header, then one row of levels (integers) per line
    #[arg(long, value_name = "FILE")]
    pub rows: Option<PathBuf>,
    /// CSV file with the levels of the queries (default: the file of --rows)
    #[arg(long, value_name = "FILE", requires = "rows")]
    pub queries: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl Default for LeakageArgs {
    /// The default of every argument. The scheme has no default; it is empty here.
    fn default() -> LeakageArgs {
        LeakageArgs {
            scheme: String::new(),
            r: None,
            d: None,
            m: None,
            d_min: 1,
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
    print(&leakage_of(args, population)?)
}

/// The output for a given population, such as the rows of a bundle.
pub fn leakage_of(args: &LeakageArgs, population: Population) -> Result<String, LabError> {
    if !(args.base.is_finite() && args.base > 1.0) {
        return Err(LabError::parameter("base", format!("{} is not greater than 1", args.base)));
    }
    if args.threshold == 0 {
        return Err(LabError::parameter("threshold", "0 is not valid; use at least 1"));
    }
    let model = model(args, population)?;
    let (bits, standard_error, method) = match args.samples {
        None => (exact(&model, population)?, None, "exact"),
        Some(samples) => {
            let sampling = Sampling { samples, queries: args.max_queries, seed: args.seed };
            let found = estimate(&model, population, sampling, &Bars::default())?;
            (found.bits, Some(found.standard_error), "monte-carlo")
        }
    };
    // Rounding can make a sum of 0 slightly negative.
    let bits = if bits.abs() < 1e-12 { 0.0 } else { bits };
    let value = bits / args.base.log2();
    // Both have no result where the computation would take too long.
    let record = with_record(&model, population).ok();
    let maximal = maximal(&model, population).ok();
    if args.json {
        let document = json!({
            "scheme": model.scheme.name, "r": model.r, "d": model.d, "m": model.m, "d_min": model.d_min,
            "immutable": model.immutable, "shuffle": args.shuffle, "replace": args.replace, "threshold": args.threshold,
            "method": method, "bits": bits, "value": value, "base": args.base, "standard_error": standard_error,
            "seed": args.samples.map(|_| args.seed),
            "bits_with_record": record.map(|record| record.bits),
            "bits_with_record_is_bound": record.map(|record| record.is_bound),
            "maximal_bits": maximal.map(|maximal| maximal.bits),
            "maximal_bits_with_record": maximal.map(|maximal| maximal.with_record),
            "maximal_is_bound": maximal.map(|maximal| maximal.is_bound),
        });
        return Ok(format!("{document}\n"));
    }
    let error = standard_error.map_or(String::new(), |error| format!(" ± {error:.6} (one standard error)"));
    let in_base = if args.base == 2.0 { String::new() } else { format!(", {value:.6} in base {}", args.base) };
    let most = |is_bound: bool| if is_bound { "at most " } else { "" };
    let record = match record {
        Some(record) => format!("{}{:.6} bits", most(record.is_bound), record.bits),
        None => "not computed: it would take too long".into(),
    };
    let maximal = match maximal {
        Some(found) => {
            let most = most(found.is_bound);
            format!("{most}{:.2} bits, with the record {most}{:.2} bits", found.bits, found.with_record)
        }
        None => "not computed: it would take too long".into(),
    };
    Ok(format!(
        "{bits:.6} bits{error}{in_base}\nwith the record: {record}\nmaximal leakage (any prior, adds over searches): \
         {maximal}\n"
    ))
}

fn model(args: &LeakageArgs, population: Population) -> Result<LeakageModel, LabError> {
    let (r, d, m) = match population {
        Population::Grid => (args.r, args.d, args.m),
        Population::Rows { rows, queries } => {
            let highest = rows.iter().chain(queries).flatten().copied().max().map(|highest| highest.max(1));
            let features = rows.first().map(|row| row.len() as u32);
            (args.r.or(highest), args.d.or(features), args.m.or(Some(rows.len() as u32)))
        }
    };
    let require = |parameter, value: Option<u32>| {
        value.ok_or_else(|| LabError::parameter(parameter, "missing; set it, or provide rows"))
    };
    let metric = match (args.p, args.metric.as_deref()) {
        (Some(p), _) => Some(FeatureCost::Power(p)),
        (None, Some("absolute")) => Some(FeatureCost::Power(1)),
        (None, Some("squared")) => Some(FeatureCost::Power(2)),
        (None, Some("changes")) => Some(FeatureCost::Changes),
        (None, Some(other)) => {
            return Err(LabError::parameter(
                "metric",
                format!("unknown metric {other:?}; use absolute, squared or changes"),
            ));
        }
        (None, None) => None,
    };
    Ok(LeakageModel {
        d_min: args.d_min,
        immutable: args.immutable,
        within: args.within,
        weights: args.weights.clone(),
        metric,
        order: if args.shuffle { RowOrder::Shuffled } else { RowOrder::Fixed },
        drawing: if args.replace { SamplingRule::WithReplacement } else { SamplingRule::WithoutReplacement },
        ..LeakageModel::new(LeakageScheme::named(&args.scheme)?, require("r", r)?, require("d", d)?, require("m", m)?)
    })
}

fn read_levels(path: &Path) -> Result<Vec<Vec<u32>>, LabError> {
    let csv_error = |source| LabError::Csv { path: path.into(), source };
    let mut reader = csv::Reader::from_path(path).map_err(csv_error)?;
    let header = reader.headers().map_err(csv_error)?.clone();
    let mut rows = Vec::new();
    for (number, record) in reader.records().enumerate() {
        let record = record.map_err(csv_error)?;
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
