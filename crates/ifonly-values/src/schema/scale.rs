//! Scales: how numbers become levels. Every level is an interval of numbers with public, exact
//! ends.
//!
//! | layout | level k contains |
//! |---|---|
//! | grid | the value `from + k·step` |
//! | listed | the k-th listed value |
//! | edges | numbers from edge k up to, but not including, edge k + 1; the last level includes its upper edge; if 0 is an edge, it has its own level |
//! | uniform | the levels of the paper: numbers v with `round((v − min)/(max − min)·R)` = k, or with the floor instead |
//!
//! A number between two values of a grid or a list gets the level of the nearer value, or of the
//! upper value if it is exactly in the middle. Numbers beyond the bounds get the first or the last
//! level. If rows of the database are beyond the bounds (`open`), the intervals of these two levels
//! are unbounded.
//!
//! 0 has its own level if it is an edge, because it has a special meaning in many columns: no gain,
//! no debt, no children.
//!
//! Round edges depend only on the bounds, never on the distribution of the values (see
//! `round_edges.rs`). They become shorter towards zero, so that the values of a skewed column do
//! not all get the same level.

use super::decimal::Decimal;
use ifonly_core::params::Params;
use std::sync::Arc;

/// A checked scale.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Unchecked", into = "Unchecked")]
pub struct Scale {
    layout: ScaleLayout,
    open: bool,
    /// The values of a grid or a list, or the edges; empty for uniform levels.
    numbers: Arc<[f64]>,
    /// An index into `numbers`. It divides their range into as many equal parts as there are
    /// numbers, and contains for each part how many numbers are before it.
    before: Arc<[u32]>,
}

#[derive(Clone, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    layout: ScaleLayout,
    #[serde(default)]
    open_ended: bool,
}

/// The layout of a scale.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ScaleLayout {
    /// Equally distant values.
    Grid {
        /// The value of level 0.
        from: Decimal,
        /// The distance between two values.
        step: Decimal,
        /// R, the largest level.
        levels: u32,
    },
    /// Listed values.
    Listed {
        /// The values in ascending order, one level each.
        values: Vec<Decimal>,
    },
    /// Intervals between edges.
    Edges {
        /// The lowest edge.
        from: Decimal,
        /// The other edges.
        runs: Vec<EdgeRun>,
    },
    /// The levels of the paper.
    Uniform {
        /// The value of level 0.
        min: f64,
        /// The value of level R.
        max: f64,
        /// R, the largest level.
        levels: u32,
        /// The level of a number between two levels.
        quantiser: Quantiser,
    },
}

/// `count` further edges, each `step` above the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeRun {
    /// The distance between edges.
    pub step: Decimal,
    /// The number of edges.
    pub count: u32,
}

/// The level of a number between two uniform levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantiser {
    /// The nearest level; the upper one for ties.
    #[default]
    Round,
    /// The lower level.
    Floor,
}

/// The interval of a level: all its numbers are in `low..=high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower bound of the numbers.
    pub low: f64,
    /// Upper bound of the numbers.
    pub high: f64,
}

impl Interval {
    /// Whether the level contains only one number.
    pub(crate) fn is_point(&self) -> bool {
        self.low == self.high
    }
}

impl PartialEq for Scale {
    fn eq(&self, other: &Scale) -> bool {
        (&self.layout, self.open) == (&other.layout, other.open)
    }
}

/// Why a scale is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScaleError {
    /// The values or edges are not in order.
    #[error("the values or edges must be finite and strictly increasing")]
    NotIncreasing,
    /// The bounds are not in order.
    #[error("min = {min} and max = {max} must be finite and in order")]
    Bounds {
        /// The lower bound.
        min: f64,
        /// The upper bound.
        max: f64,
    },
    /// The scale has no level, or more than a row can store.
    #[error("the largest level is {0}, but must be 1 to {most}", most = Params::MAX_RANGE)]
    MaxLevel(u32),
    /// The layout lists too many levels.
    #[error("{0} levels are too many; the maximum is {most}", most = Params::MAX_RANGE)]
    TooManyLevels(u64),
    /// A number is too long.
    #[error("a value or an edge has more than 18 digits")]
    TooManyDigits,
    /// A logarithmic scale that includes zero.
    #[error("a logarithmic scale needs bounds greater than 0, but they are {min} and {max}")]
    NotPositive {
        /// The lower bound.
        min: f64,
        /// The upper bound.
        max: f64,
    },
    /// A logarithmic scale with too few levels.
    #[error("a logarithmic scale from {min} to {max} needs more than {most} levels")]
    TooFewLevels {
        /// The lower bound.
        min: f64,
        /// The upper bound.
        max: f64,
        /// The largest number of levels.
        most: u32,
    },
    /// The bounds differ too little for their size.
    #[error("the numbers from {min} to {max} are too close together for round steps")]
    TooClose {
        /// The lower bound.
        min: f64,
        /// The upper bound.
        max: f64,
    },
}

impl Scale {
    /// Checks a layout. The error says why it is refused.
    pub fn new(layout: ScaleLayout) -> Result<Scale, ScaleError> {
        let numbers = numbers(&layout)?;
        if !numbers.windows(2).all(|pair| pair[0] < pair[1]) || numbers.iter().any(|number| !number.is_finite()) {
            return Err(ScaleError::NotIncreasing);
        }
        if let ScaleLayout::Uniform { min, max, .. } = layout
            && !(min.is_finite() && max.is_finite() && (max - min).is_finite() && min < max)
        {
            return Err(ScaleError::Bounds { min, max });
        }
        let mut before = vec![0; numbers.len() + 1];
        numbers.iter().for_each(|&number| before[part(&numbers, number) + 1] += 1);
        (1..before.len()).for_each(|index| before[index] += before[index - 1]);
        let scale = Scale { layout, open: false, numbers: numbers.into(), before: before.into() };
        match scale.max_level() {
            max_level if (1..=Params::MAX_RANGE).contains(&max_level) => Ok(scale),
            max_level => Err(ScaleError::MaxLevel(max_level)),
        }
    }

    /// Sets whether rows of the database are beyond the bounds.
    pub fn open(self, open: bool) -> Scale {
        Scale { open, ..self }
    }

    /// The uniform levels of the paper.
    pub fn levels(min: f64, max: f64, levels: u32, quantiser: Quantiser) -> Result<Scale, ScaleError> {
        Scale::new(ScaleLayout::Uniform { min, max, levels, quantiser })
    }

    /// One level for every integer in `from..=to`.
    pub fn whole_numbers(from: i64, to: i64) -> Result<Scale, ScaleError> {
        let levels = to.checked_sub(from).and_then(|levels| u32::try_from(levels).ok()).unwrap_or(0);
        Scale::new(ScaleLayout::Grid { from: Decimal::new(from, 0), step: Decimal::new(1, 0), levels })
    }

    /// The name of the layout in reports.
    pub fn name(&self) -> &'static str {
        match &self.layout {
            ScaleLayout::Grid { .. } | ScaleLayout::Listed { .. } => "every value",
            ScaleLayout::Edges { runs, .. } if runs.len() == 1 => "equal steps",
            ScaleLayout::Edges { .. } => "round steps",
            ScaleLayout::Uniform { .. } => "uniform levels",
        }
    }

    /// R, the largest level.
    pub fn max_level(&self) -> u32 {
        match &self.layout {
            ScaleLayout::Grid { levels, .. } | ScaleLayout::Uniform { levels, .. } => *levels,
            // There is one edge more than intervals.
            ScaleLayout::Edges { .. } => (self.numbers.len() as u32).saturating_sub(2),
            ScaleLayout::Listed { .. } => (self.numbers.len() as u32).saturating_sub(1),
        }
    }

    /// The lowest and the highest number.
    pub fn bounds(&self) -> (f64, f64) {
        match (&self.layout, &*self.numbers) {
            (ScaleLayout::Uniform { min, max, .. }, _) => (*min, *max),
            (_, [first, .., last]) => (*first, *last),
            // Not reached: a checked scale has at least two numbers.
            _ => (0.0, 0.0),
        }
    }

    /// Whether every level is a single value.
    pub fn is_exact(&self) -> bool {
        matches!(self.layout, ScaleLayout::Grid { .. } | ScaleLayout::Listed { .. })
    }

    /// The level of a number.
    pub(crate) fn level(&self, number: f64) -> u32 {
        match &self.layout {
            ScaleLayout::Uniform { min, max, levels, quantiser } => {
                // The cast from f64 saturates. NaN cannot occur, because the numbers are finite and
                // min < max.
                let exact = (number - min) / (max - min) * f64::from(*levels);
                let step = match quantiser {
                    Quantiser::Round => exact.round(),
                    Quantiser::Floor => exact.floor(),
                };
                (step as u32).min(*levels)
            }
            ScaleLayout::Edges { .. } => {
                let above = self.count(number, |edge| edge <= number);
                (above.saturating_sub(1) as u32).min(self.max_level())
            }
            ScaleLayout::Grid { .. } | ScaleLayout::Listed { .. } => {
                let above = self.count(number, |value| value < number);
                let below = above.saturating_sub(1);
                let nearer = match (self.numbers.get(below), self.numbers.get(above)) {
                    (Some(low), Some(high)) if number - low < high - number => below,
                    (_, Some(_)) => above,
                    _ => below,
                };
                nearer as u32
            }
        }
    }

    /// Number of entries of `numbers` that are before `number`. All entries of earlier parts are,
    /// and none of later parts, so only one part is searched. It usually has one entry. Builds call
    /// this for every cell.
    fn count(&self, number: f64, is_before: impl Fn(f64) -> bool) -> usize {
        let part = part(&self.numbers, number);
        let (from, to) = (self.before[part] as usize, self.before[part + 1] as usize);
        from + self.numbers[from..to].partition_point(|&other| is_before(other))
    }

    /// The interval of a level; `None` above the max level.
    pub fn interval(&self, level: u32) -> Option<Interval> {
        let max_level = self.max_level();
        if level > max_level {
            return None;
        }
        let index = level as usize;
        let (mut low, mut high) = match &self.layout {
            ScaleLayout::Grid { .. } | ScaleLayout::Listed { .. } => (self.numbers[index], self.numbers[index]),
            ScaleLayout::Edges { .. } if self.numbers[index + 1] == AFTER_ZERO => (0.0, 0.0),
            ScaleLayout::Edges { .. } => (self.numbers[index], self.numbers[index + 1]),
            ScaleLayout::Uniform { min, max, levels, quantiser } => {
                let (down, up) = match quantiser {
                    Quantiser::Round => (0.5, 0.5),
                    Quantiser::Floor => (0.0, 1.0),
                };
                // The formula of the level is subject to rounding; the slack covers its error.
                let slack = 1e-13 * (max - min);
                let at = |steps: f64| min + steps / f64::from(*levels) * (max - min);
                let (low, high) = (at(f64::from(level) - down) - slack, at(f64::from(level) + up) + slack);
                (low.max(*min), high.min(*max))
            }
        };
        if self.open {
            low = if level == 0 { f64::NEG_INFINITY } else { low };
            high = if level == max_level { f64::INFINITY } else { high };
        }
        Some(Interval { low, high })
    }

    /// The number that a level counts as: its value, or the middle of its interval.
    pub(crate) fn middle(&self, level: u32) -> f64 {
        match &self.layout {
            ScaleLayout::Uniform { min, max, levels, .. } => min + f64::from(level) / f64::from(*levels) * (max - min),
            ScaleLayout::Edges { .. } => {
                let index = level.min(self.max_level()) as usize;
                self.numbers[index] / 2.0 + self.numbers[index + 1] / 2.0
            }
            _ => self.numbers[level.min(self.max_level()) as usize],
        }
    }
}

/// The index of the part that contains `number`, if the range of `numbers` is divided into
/// `numbers.len()` equal parts. The result is monotonic in `number`: the difference, the product
/// with a positive factor and the saturating cast are monotonic.
fn part(numbers: &[f64], number: f64) -> usize {
    let [first, .., last] = numbers else { return 0 };
    (((number - first) * (numbers.len() as f64 / (last - first))) as usize).min(numbers.len() - 1)
}

/// The smallest number above 0.
const AFTER_ZERO: f64 = f64::from_bits(1);

fn numbers(layout: &ScaleLayout) -> Result<Vec<f64>, ScaleError> {
    let too_long = || ScaleError::TooManyDigits;
    let limit = u64::from(Params::MAX_RANGE);
    let check = |count: u64| match count {
        count if count <= limit => Ok(()),
        count => Err(ScaleError::TooManyLevels(count)),
    };
    match layout {
        ScaleLayout::Uniform { .. } => Ok(vec![]),
        ScaleLayout::Listed { values } => {
            check(values.len() as u64)?;
            Ok(values.iter().map(|value| value.number()).collect())
        }
        ScaleLayout::Grid { from, step, levels } => {
            check((*levels).into())?;
            let mut values = vec![from.number()];
            extend(&mut values, *from, EdgeRun { step: *step, count: *levels }).ok_or_else(too_long)?;
            Ok(values)
        }
        ScaleLayout::Edges { from, runs } => {
            check(runs.iter().map(|run| u64::from(run.count)).sum())?;
            let (mut edges, mut last) = (vec![from.number()], *from);
            for run in runs {
                last = extend(&mut edges, last, *run).ok_or_else(too_long)?;
            }
            // No double is between 0 and AFTER_ZERO, so this interval contains 0 only.
            if let Some(zero) = edges[..edges.len() - 1].iter().position(|&edge| edge == 0.0) {
                edges.insert(zero + 1, AFTER_ZERO);
            }
            Ok(edges)
        }
    }
}

/// Appends the numbers of a run that follows `last`. Returns the last number of the run.
fn extend(numbers: &mut Vec<f64>, mut last: Decimal, EdgeRun { step, count }: EdgeRun) -> Option<Decimal> {
    let exponent = last.exponent().min(step.exponent());
    let (mut units, step) = (last.units(exponent)?, step.units(exponent)?);
    for _ in 0..count {
        units = units.checked_add(step)?;
        last = Decimal::from_units(units, exponent)?;
        numbers.push(last.number());
    }
    Some(last)
}

impl TryFrom<Unchecked> for Scale {
    type Error = ScaleError;

    fn try_from(unchecked: Unchecked) -> Result<Scale, ScaleError> {
        Ok(Scale::new(unchecked.layout)?.open(unchecked.open_ended))
    }
}

impl From<Scale> for Unchecked {
    fn from(scale: Scale) -> Unchecked {
        Unchecked { layout: scale.layout, open_ended: scale.open }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    fn grid(from: &str, step: &str, levels: u32) -> Scale {
        Scale::new(ScaleLayout::Grid { from: decimal(from), step: decimal(step), levels }).unwrap()
    }

    #[test]
    fn a_grid_has_one_level_per_value_and_rounds_other_numbers() {
        let scale = grid("0.1", "0.1", 9);
        for level in 0..=9 {
            let value: f64 = format!("0.{}", level + 1).parse().unwrap_or(1.0);
            let value = if level == 9 { 1.0 } else { value };
            assert_eq!(scale.level(value), level);
            assert_eq!(scale.interval(level), Some(Interval { low: value, high: value }));
        }
        assert_eq!((scale.level(0.34), scale.level(0.36), scale.level(-5.0), scale.level(7.0)), (2, 3, 0, 9));
        assert_eq!((scale.interval(10), scale.bounds(), scale.max_level()), (None, (0.1, 1.0), 9));
    }

    #[test]
    fn each_listed_value_has_its_own_level() {
        let values = ["-1", "9.5", "9.53333333333333", "100"].map(decimal).to_vec();
        let scale = Scale::new(ScaleLayout::Listed { values }).unwrap();
        for (number, level) in [(-7.0, 0), (-1.0, 0), (4.24, 0), (4.25, 1), (9.53333333333333, 2), (99.0, 3)] {
            assert_eq!(scale.level(number), level, "{number}");
        }
        assert_eq!((scale.middle(3), scale.max_level()), (100.0, 3));
    }

    #[test]
    fn a_level_contains_the_numbers_from_its_edge_up_to_the_next() {
        let runs = vec![EdgeRun { step: decimal("0.5"), count: 2 }, EdgeRun { step: decimal("10"), count: 3 }];
        let scale = Scale::new(ScaleLayout::Edges { from: decimal("-1"), runs }).unwrap();
        // Zero has its own level.
        assert_eq!((scale.max_level(), scale.bounds()), (5, (-1.0, 30.0)));
        for (number, level) in
            [(-9.0, 0), (-1.0, 0), (-0.5, 1), (0.0, 2), (1e-300, 3), (9.99, 3), (10.0, 4), (30.0, 5), (99.0, 5)]
        {
            assert_eq!(scale.level(number), level, "{number}");
        }
        assert_eq!(scale.interval(2), Some(Interval { low: 0.0, high: 0.0 }));
        assert!(scale.interval(3).is_some_and(|interval| interval.low > 0.0 && interval.high == 10.0));
        assert_eq!((scale.middle(2), scale.middle(3)), (0.0, 5.0));
        let open = scale.open(true);
        assert_eq!(open.interval(0), Some(Interval { low: f64::NEG_INFINITY, high: -0.5 }));
        assert_eq!(open.interval(5), Some(Interval { low: 20.0, high: f64::INFINITY }));
    }

    #[test]
    fn searching_one_part_equals_searching_all_numbers() {
        let extremes = ["-1e300", "-5", "0", "0.1", "1e300"].map(|text| Decimal::of(text.parse().unwrap()).unwrap());
        for scale in [
            Scale::round(0.0, 123_456.0, 1000).unwrap(),
            Scale::round(-17.5, 4e9, 300).unwrap(),
            Scale::logarithmic(0.001, 1e7, 500).unwrap(),
            grid("-3", "0.1", 900),
            Scale::new(ScaleLayout::Listed { values: extremes.to_vec() }).unwrap(),
        ] {
            let numbers = scale.numbers.iter().flat_map(|n| [n.next_down(), *n, n.next_up(), n * 1.01, n + 0.3]);
            for number in numbers.chain([0.0, -1e308, 1e308, f64::MIN_POSITIVE]) {
                let below = scale.numbers.partition_point(|&other| other < number);
                let at_most = scale.numbers.partition_point(|&other| other <= number);
                assert_eq!(scale.count(number, |other| other < number), below, "{number}");
                assert_eq!(scale.count(number, |other| other <= number), at_most, "{number}");
            }
        }
    }

    #[test]
    fn numbers_are_inside_the_intervals_of_their_uniform_levels() {
        for quantiser in [Quantiser::Round, Quantiser::Floor] {
            let scale = Scale::levels(-1.3, 2.9, 37, quantiser).unwrap();
            for step in 0..=10_000 {
                let number = (-1.3 + f64::from(step) * 4.2 / 10_000.0).min(2.9);
                let Interval { low, high } = scale.interval(scale.level(number)).unwrap();
                assert!(low <= number && number <= high, "{number}");
            }
        }
    }

    #[test]
    fn invalid_scales_are_refused_and_valid_ones_round_trip_through_json() {
        let refused = |layout: ScaleLayout| Scale::new(layout).unwrap_err();
        refused(ScaleLayout::Grid { from: decimal("0"), step: decimal("0"), levels: 3 });
        refused(ScaleLayout::Grid { from: decimal("0"), step: decimal("-1"), levels: 3 });
        refused(ScaleLayout::Grid { from: decimal("0"), step: decimal("1"), levels: 0 });
        refused(ScaleLayout::Grid { from: decimal("0"), step: decimal("1"), levels: u32::MAX });
        refused(ScaleLayout::Listed { values: vec![decimal("1")] });
        refused(ScaleLayout::Listed { values: vec![decimal("1"), decimal("1")] });
        refused(ScaleLayout::Edges { from: decimal("0"), runs: vec![] });
        refused(ScaleLayout::Edges {
            from: decimal("0"),
            runs: vec![EdgeRun { step: decimal("1"), count: u32::MAX }; 9],
        });
        // Edges so close together that they are the same double.
        refused(ScaleLayout::Grid { from: Decimal::new(1, 17), step: decimal("1"), levels: 3 });
        for (min, max) in [(1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY), (-1e308, 1e308)] {
            assert!(Scale::levels(min, max, 5, Quantiser::Round).is_err());
        }
        let scale = grid("18", "0.5", 80).open(true);
        let json = serde_json::to_string(&scale).unwrap();
        assert_eq!(json, r#"{"layout":{"type":"grid","from":"18","step":"0.5","levels":80},"open_ended":true}"#);
        assert_eq!(serde_json::from_str::<Scale>(&json).unwrap(), scale);
        assert!(serde_json::from_str::<Scale>(&json.replace("0.5", "0.50")).is_err());
        assert!(serde_json::from_str::<Scale>(&json.replace("80", "0")).is_err());
    }
}
