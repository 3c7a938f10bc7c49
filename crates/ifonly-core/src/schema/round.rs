//! Edges of round numbers, from the bounds of a column alone.
//!
//! A step is 1, 2 or 5 times a power of ten. Between `n·s` and `n·s'`, s and s' two steps in a row, edges are s apart: an
//! interval is never wider than 1/n of its numbers, and `n·s` is an edge of both steps. The longest step cuts the whole range
//! into half the budget; the shortest one, which serves on both sides of zero, takes what is left of it.

use super::decimal::Decimal;
use super::scale::{Form, Run, Scale};

/// A step: `[1, 2, 5][n mod 3] · 10^(n div 3)`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Step(i32);

impl Step {
    fn decimal(self) -> Decimal {
        Decimal::new([1, 2, 5][self.0.rem_euclid(3) as usize], self.0.div_euclid(3))
    }

    fn number(self) -> f64 {
        self.decimal().number()
    }

    /// The shortest step of which at most `most` fit into `width`.
    fn cutting(width: f64, most: u32) -> Step {
        // Beyond these limits there is no step; what uses one checks that edges grow.
        let least = (width / f64::from(most.max(1))).clamp(1e-300, 1e300);
        // One below the power of ten at hand, because logarithms round.
        let mut step = Step(3 * (least.log10().floor() as i32) - 1);
        while step.number() < least {
            step = Step(step.0 + 1);
        }
        step
    }
}

impl Scale {
    /// Round numbers as edges, shorter steps towards zero, at most `most` intervals.
    pub fn round(min: f64, max: f64, most: u32) -> Result<Scale, String> {
        check_bounds(min, max)?;
        let longest = Step::cutting(max - min, (most / 2).max(1));
        // Where the whole budget is small, coarser shares leave more of it for the decades towards zero.
        let share = if most >= 600 {
            50
        } else if most >= 200 {
            20
        } else {
            10
        };
        let mut best = stepped(min, max, longest, longest, share)?;
        // Five decades below the bounds there is nothing that people would tell apart.
        for shorter in 1..=15 {
            let Ok(finer) = stepped(min, max, Step(longest.0 - shorter), longest, share) else { break };
            if finer.range() >= most {
                break;
            }
            best = finer;
        }
        Ok(best)
    }

    /// Equal steps of a round number, at most `most` intervals.
    pub fn equal_steps(min: f64, max: f64, most: u32) -> Result<Scale, String> {
        check_bounds(min, max)?;
        // The first and the last edge are rounded outwards, which may take one interval more.
        let step = Step::cutting(max - min, most.saturating_sub(2).max(1));
        stepped(min, max, step, step, 1)
    }

    /// Round numbers whose steps are everywhere about the same share of the number: a logarithmic scale.
    pub fn logarithmic(min: f64, max: f64, most: u32) -> Result<Scale, String> {
        check_bounds(min, max)?;
        if min <= 0.0 {
            return Err(format!("a logarithmic scale needs bounds above 0, not {min} to {max}"));
        }
        [200, 100, 50, 20, 10, 5, 2]
            .into_iter()
            .filter_map(|share| {
                let (first, last) = (Step::cutting(min, share), Step::cutting(max, share));
                stepped(min, max, first, last, share).ok()
            })
            .find(|scale| scale.range() < most)
            .ok_or_else(|| format!("{most} levels are too few for a logarithmic scale from {min} to {max}"))
    }
}

fn check_bounds(min: f64, max: f64) -> Result<(), String> {
    match min.is_finite() && max.is_finite() && (max - min).is_finite() && min < max {
        true => Ok(()),
        false => Err(format!("the bounds {min} and {max} must be finite and in order")),
    }
}

/// Edges from `min` to `max`, both rounded outwards: `shortest` around zero, growing to `longest`, each from `share` times itself.
fn stepped(min: f64, max: f64, shortest: Step, longest: Step, share: u32) -> Result<Scale, String> {
    // The pieces of the line from left to right: each ends where the next begins.
    let mut pieces: Vec<(f64, f64, Step)> = vec![];
    let limit = |step: Step| f64::from(share) * step.number();
    for step in (shortest.0 + 1..=longest.0).rev().map(Step) {
        let outer = if step == longest { f64::NEG_INFINITY } else { -limit(Step(step.0 + 1)) };
        pieces.push((outer, -limit(step), step));
    }
    let inner = if shortest == longest { f64::INFINITY } else { limit(Step(shortest.0 + 1)) };
    pieces.push((-inner, inner, shortest));
    for step in (shortest.0 + 1..=longest.0).map(Step) {
        let outer = if step == longest { f64::INFINITY } else { limit(Step(step.0 + 1)) };
        pieces.push((limit(step), outer, step));
    }
    let mut from = None;
    let mut runs = vec![];
    for (low, high, step) in pieces {
        let (low, high) = (low.max(min), high.min(max));
        if low >= high {
            continue;
        }
        // In units of the step: edges of pieces are whole, bounds are rounded outwards.
        let number = step.number();
        let (first, last) = ((low / number + 1e-9).floor(), (high / number - 1e-9).ceil());
        if first.abs().max(last.abs()) > 9e15 {
            return Err(format!("numbers from {min} to {max} are too close to each other for round steps"));
        }
        let decimal = step.decimal();
        from.get_or_insert(Decimal::from_units(
            first as i128 * decimal.units(decimal.exponent()).unwrap_or(1),
            decimal.exponent(),
        ));
        runs.push(Run { step: decimal, count: (last - first) as u32 });
    }
    let from = from.flatten().ok_or_else(|| "its numbers have more than 18 digits".to_owned())?;
    Scale::new(Form::Edges { from, runs })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widest(scale: &Scale) -> f64 {
        (0..=scale.range()).filter_map(|level| scale.interval(level)).map(|i| i.high - i.low).fold(0.0, f64::max)
    }

    #[test]
    fn round_edges_hold_the_bounds_and_keep_to_the_budget() {
        for (min, max) in [
            (0.0, 250_000.0),
            (0.0, 99_999.0),
            (-3.7, 12.25),
            (1000.0, 1100.0),
            (0.98711, 1.03898),
            (-1e9, 1e9),
            (1e-6, 3e-6),
            (0.0, 760_507_625.0),
            (-250.5, -3.0),
            (1e12, 1e12 + 7.0),
        ] {
            for most in [10, 100, 256, 1000, 5000] {
                let scale = Scale::round(min, max, most).unwrap();
                let (low, high) = scale.bounds();
                assert!(low <= min && max <= high, "{min} {max} {most}: {low} {high}");
                assert!(scale.range() < most.max(13), "{min} {max} {most}: {} levels", scale.range() + 1);
                // No interval is wider than a few times the budget's equal share.
                assert!(widest(&scale) <= 5.5 * (max - min) / f64::from(most), "{min} {max} {most}");
            }
        }
    }

    #[test]
    fn small_numbers_of_a_skewed_column_are_told_apart() {
        let scale = Scale::round(0.0, 250_000.0, 1000).unwrap();
        for number in [30.0, 400.0, 5_000.0, 60_000.0, 200_000.0] {
            let interval = scale.interval(scale.level(number)).unwrap();
            assert!(interval.low <= number && number < interval.high);
            assert!(interval.high - interval.low <= (number / 20.0).max(5.0), "{number}: {interval:?}");
        }
        // The edges are numbers that people write.
        assert_eq!(
            scale.interval(scale.level(123_456.0)).unwrap(),
            super::super::scale::Interval { low: 123_000.0, high: 123_500.0 }
        );
    }

    #[test]
    fn equal_and_logarithmic_steps_are_had_by_name() {
        let equal = Scale::equal_steps(0.6, 65.8, 100).unwrap();
        assert!(equal.range() < 100 && widest(&equal) < 1.01, "{equal:?}");
        let log = Scale::logarithmic(0.001, 1000.0, 1000).unwrap();
        assert!(log.range() < 1000);
        for number in [0.002, 0.5, 7.0, 900.0] {
            let interval = log.interval(log.level(number)).unwrap();
            assert!((interval.high - interval.low) / number < 0.05, "{number}: {interval:?}");
        }
        assert!(Scale::logarithmic(0.0, 1.0, 1000).is_err());
        assert!(Scale::logarithmic(1e-300, 1e300, 100).is_err());
        assert!(Scale::round(1.0, 1.0, 100).is_err() && Scale::round(0.0, f64::NAN, 100).is_err());
        assert!(Scale::round(1e17, 1e17 + 64.0, 1000).is_err());
    }
}
