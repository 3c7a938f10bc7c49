//! How numbers become levels: every level is an interval of numbers with public, exact ends.
//!
//! | form | level k holds |
//! |---|---|
//! | grid | the value `from + k·step` |
//! | listed | the k-th of the listed values |
//! | edges | numbers from edge k up to, but without, edge k + 1; the last level with its end; an edge 0 is a level of its own |
//! | levels | the paper's: `round((v − min)/(max − min)·R)`, or the floor of it |
//!
//! A number between the values of a grid or a list has the level of the nearer one, the upper one
//! in the middle. Numbers beyond the ends have the first or last level; where rows of the database
//! do (`open`), these two levels have no end. Nothing is special in many columns: no gain, no debt,
//! no child. So 0, where it is an edge, is a level by itself.
//!
//! Round edges follow from the bounds alone, never from how values are spread between them: equal
//! steps of a round number (1, 2 or 5 times a power of ten) over the whole range, and towards zero
//! ever shorter ones, always about the same share of the value, so that a skewed column does not
//! fall into one level.

use super::decimal::Decimal;
use ifonly_core::params::Params;
use std::sync::Arc;

/// A checked scale.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Unchecked", into = "Unchecked")]
pub struct Scale {
    layout: ScaleLayout,
    open: bool,
    /// The values of a grid or a list, or the edges; none for the paper's levels.
    numbers: Arc<[f64]>,
    /// Where among them to look: as many equal parts of the range as there are numbers, and for
    /// each how many lie before it.
    before: Arc<[u32]>,
}

#[derive(Clone, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    layout: ScaleLayout,
    #[serde(default)]
    open_ended: bool,
}

/// What a scale is made of.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ScaleLayout {
    /// Equally distant values.
    Grid {
        /// The value of level 0.
        from: Decimal,
        /// The distance of two values.
        step: Decimal,
        /// R.
        levels: u32,
    },
    /// These values, from the lowest up.
    Listed {
        /// One level each.
        values: Vec<Decimal>,
    },
    /// Intervals.
    Edges {
        /// The lowest edge.
        from: Decimal,
        /// Where the other edges are.
        runs: Vec<EdgeRun>,
    },
    /// The paper's levels.
    Uniform {
        /// Level 0.
        min: f64,
        /// Level R.
        max: f64,
        /// R.
        levels: u32,
        /// What happens between two levels.
        quantiser: Quantiser,
    },
}

/// So many further edges, each a step from the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeRun {
    /// The distance.
    pub step: Decimal,
    /// How many.
    pub count: u32,
}

/// What happens to numbers between two of the paper's levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantiser {
    /// The nearest level, ties up.
    #[default]
    Round,
    /// The level below.
    Floor,
}

/// The numbers that a level holds: all of them lie in `low..=high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// No number of the level is below.
    pub low: f64,
    /// No number of the level is above.
    pub high: f64,
}

impl Interval {
    /// Whether it holds one number only.
    pub(crate) fn is_point(&self) -> bool {
        self.low == self.high
    }
}

impl PartialEq for Scale {
    fn eq(&self, other: &Scale) -> bool {
        (&self.layout, self.open) == (&other.layout, other.open)
    }
}

impl Scale {
    /// A scale of this form, or what is wrong with it.
    pub fn new(layout: ScaleLayout) -> Result<Scale, String> {
        let numbers = numbers(&layout)?;
        if !numbers.windows(2).all(|pair| pair[0] < pair[1]) || numbers.iter().any(|number| !number.is_finite()) {
            return Err("its values or edges must be finite and grow".into());
        }
        if let ScaleLayout::Uniform { min, max, .. } = layout
            && !(min.is_finite() && max.is_finite() && (max - min).is_finite() && min < max)
        {
            return Err(format!("min = {min} and max = {max} must be finite and in order"));
        }
        let mut before = vec![0; numbers.len() + 1];
        numbers.iter().for_each(|&number| before[part(&numbers, number) + 1] += 1);
        (1..before.len()).for_each(|place| before[place] += before[place - 1]);
        let scale = Scale { layout, open: false, numbers: numbers.into(), before: before.into() };
        match scale.max_level() {
            range if (1..=Params::MAX_RANGE).contains(&range) => Ok(scale),
            range => Err(format!("{range} levels; there must be 1 to {}", Params::MAX_RANGE)),
        }
    }

    /// The same scale where rows of the database lie beyond its ends.
    pub fn open(self, open: bool) -> Scale {
        Scale { open, ..self }
    }

    /// The paper's levels.
    pub fn levels(min: f64, max: f64, levels: u32, quantiser: Quantiser) -> Result<Scale, String> {
        Scale::new(ScaleLayout::Uniform { min, max, levels, quantiser })
    }

    /// Every whole number from one to another.
    pub fn whole_numbers(from: i64, to: i64) -> Result<Scale, String> {
        let levels = to.checked_sub(from).and_then(|levels| u32::try_from(levels).ok()).unwrap_or(0);
        Scale::new(ScaleLayout::Grid { from: Decimal::new(from, 0), step: Decimal::new(1, 0), levels })
    }

    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        match &self.layout {
            ScaleLayout::Grid { .. } | ScaleLayout::Listed { .. } => "every value",
            ScaleLayout::Edges { runs, .. } if runs.len() == 1 => "equal steps",
            ScaleLayout::Edges { .. } => "round steps",
            ScaleLayout::Uniform { .. } => "paper's levels",
        }
    }

    /// R, the largest level.
    pub fn max_level(&self) -> u32 {
        match &self.layout {
            ScaleLayout::Grid { levels, .. } | ScaleLayout::Uniform { levels, .. } => *levels,
            // Edges are one more than intervals.
            ScaleLayout::Edges { .. } => (self.numbers.len() as u32).saturating_sub(2),
            ScaleLayout::Listed { .. } => (self.numbers.len() as u32).saturating_sub(1),
        }
    }

    /// The lowest and the highest number.
    pub fn bounds(&self) -> (f64, f64) {
        match (&self.layout, &*self.numbers) {
            (ScaleLayout::Uniform { min, max, .. }, _) => (*min, *max),
            (_, [first, .., last]) => (*first, *last),
            // A checked scale has two numbers at least.
            _ => (0.0, 0.0),
        }
    }

    /// Whether every level is one value.
    pub fn is_exact(&self) -> bool {
        matches!(self.layout, ScaleLayout::Grid { .. } | ScaleLayout::Listed { .. })
    }

    /// The level of a number.
    pub(crate) fn level(&self, number: f64) -> u32 {
        match &self.layout {
            ScaleLayout::Uniform { min, max, levels, quantiser } => {
                // A cast from f64 saturates, and NaN cannot come from finite numbers with min <
                // max.
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

    /// How many numbers lie before this one. Those of earlier parts do, those of later parts do
    /// not, so that one part is searched, which mostly has one number: builds ask this of every
    /// cell.
    fn count(&self, number: f64, is_before: impl Fn(f64) -> bool) -> usize {
        let part = part(&self.numbers, number);
        let (from, to) = (self.before[part] as usize, self.before[part + 1] as usize);
        from + self.numbers[from..to].partition_point(|&other| is_before(other))
    }

    /// The numbers of a level; `None` for levels above the range.
    pub fn interval(&self, level: u32) -> Option<Interval> {
        let range = self.max_level();
        if level > range {
            return None;
        }
        let place = level as usize;
        let (mut low, mut high) = match &self.layout {
            ScaleLayout::Grid { .. } | ScaleLayout::Listed { .. } => (self.numbers[place], self.numbers[place]),
            ScaleLayout::Edges { .. } if self.numbers[place + 1] == AFTER_ZERO => (0.0, 0.0),
            ScaleLayout::Edges { .. } => (self.numbers[place], self.numbers[place + 1]),
            ScaleLayout::Uniform { min, max, levels, quantiser } => {
                let (down, up) = match quantiser {
                    Quantiser::Round => (0.5, 0.5),
                    Quantiser::Floor => (0.0, 1.0),
                };
                // The formula of the level rounds; what it may take in by that counts as inside.
                let slack = 1e-13 * (max - min);
                let at = |steps: f64| min + steps / f64::from(*levels) * (max - min);
                let (low, high) = (at(f64::from(level) - down) - slack, at(f64::from(level) + up) + slack);
                (low.max(*min), high.min(*max))
            }
        };
        if self.open {
            low = if level == 0 { f64::NEG_INFINITY } else { low };
            high = if level == range { f64::INFINITY } else { high };
        }
        Some(Interval { low, high })
    }

    /// What a level counts as: its value, or the middle of its interval.
    pub(crate) fn middle(&self, level: u32) -> f64 {
        match &self.layout {
            ScaleLayout::Uniform { min, max, levels, .. } => min + f64::from(level) / f64::from(*levels) * (max - min),
            ScaleLayout::Edges { .. } => {
                let place = level.min(self.max_level()) as usize;
                self.numbers[place] / 2.0 + self.numbers[place + 1] / 2.0
            }
            _ => self.numbers[level.min(self.max_level()) as usize],
        }
    }
}

/// In which of as many equal parts of their range as there are numbers this one lies. Never falls
/// where the number grows: a difference, a product with something positive and a cast that
/// saturates are all like that.
fn part(numbers: &[f64], number: f64) -> usize {
    let [first, .., last] = numbers else { return 0 };
    (((number - first) * (numbers.len() as f64 / (last - first))) as usize).min(numbers.len() - 1)
}

/// The smallest number above 0.
const AFTER_ZERO: f64 = f64::from_bits(1);

fn numbers(layout: &ScaleLayout) -> Result<Vec<f64>, String> {
    let too_long = || "its numbers have more than 18 digits".to_owned();
    let limit = u64::from(Params::MAX_RANGE);
    let check = |count: u64| match count {
        count if count <= limit => Ok(()),
        count => Err(format!("{count} levels; there must be 1 to {limit}")),
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
            // Between 0 and the number after it there is none, so that this interval holds 0 alone.
            if let Some(zero) = edges[..edges.len() - 1].iter().position(|&edge| edge == 0.0) {
                edges.insert(zero + 1, AFTER_ZERO);
            }
            Ok(edges)
        }
    }
}

/// Appends the numbers of a run that starts behind `last`, and says where it ends.
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
    type Error = String;

    fn try_from(unchecked: Unchecked) -> Result<Scale, String> {
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
    fn a_grid_has_a_level_for_every_value_and_rounds_what_lies_between() {
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
    fn listed_values_are_their_own_levels() {
        let values = ["-1", "9.5", "9.53333333333333", "100"].map(decimal).to_vec();
        let scale = Scale::new(ScaleLayout::Listed { values }).unwrap();
        for (number, level) in [(-7.0, 0), (-1.0, 0), (4.24, 0), (4.25, 1), (9.53333333333333, 2), (99.0, 3)] {
            assert_eq!(scale.level(number), level, "{number}");
        }
        assert_eq!((scale.middle(3), scale.max_level()), (100.0, 3));
    }

    #[test]
    fn edges_hold_everything_from_one_up_to_the_next() {
        let runs = vec![EdgeRun { step: decimal("0.5"), count: 2 }, EdgeRun { step: decimal("10"), count: 3 }];
        let scale = Scale::new(ScaleLayout::Edges { from: decimal("-1"), runs }).unwrap();
        // Zero is a level by itself.
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
    fn numbers_are_found_in_their_part_as_in_all_of_them() {
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
    fn the_papers_levels_lie_inside_their_intervals() {
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
    fn scales_that_make_no_sense_are_refused_and_the_rest_come_back_from_json() {
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
        // Edges so near to each other that doubles cannot tell them apart.
        refused(ScaleLayout::Grid { from: Decimal::new(1, 17), step: decimal("1"), levels: 3 });
        for (min, max) in [(1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY), (-1e308, 1e308)] {
            assert!(Scale::levels(min, max, 5, Quantiser::Round).is_err());
        }
        let scale = grid("18", "0.5", 80).open(true);
        let json = serde_json::to_string(&scale).unwrap();
        assert_eq!(json, r#"{"form":{"type":"grid","from":"18","step":"0.5","levels":80},"open":true}"#);
        assert_eq!(serde_json::from_str::<Scale>(&json).unwrap(), scale);
        assert!(serde_json::from_str::<Scale>(&json.replace("0.5", "0.50")).is_err());
        assert!(serde_json::from_str::<Scale>(&json.replace("80", "0")).is_err());
    }
}
