//! Edges of round numbers, from the bounds of a column alone.
//!
//! A step is a round number: 1, 2 or 5 times a power of ten, or, where there are many levels, also
//! 1.5, 3, 4, 6 or 8 times one. Between `n·s` and `n·s'`, s and s' two steps in a row, edges are s
//! apart: an interval is never wider than 1/n of its numbers, and `n·s'` is an edge of both steps.
//! Most of the budget cuts the whole range into equal steps, which is what costs need; the rest
//! goes into ever shorter ones towards zero, so that wishes tell small numbers apart.

use crate::schema::decimal::Decimal;
use crate::schema::scale::{EdgeRun, Scale, ScaleLayout};

/// Which steps there are, and of which share of a number they are at most.
#[derive(Clone, Copy)]
struct Ladder {
    /// In tenths.
    mantissas: &'static [i64],
    /// n; times a step it is a whole number of the step before.
    share: u32,
}

const FINE: Ladder = Ladder { mantissas: &[10, 15, 20, 30, 40, 50, 60, 80], share: 60 };

const fn coarse(share: u32) -> Ladder {
    Ladder { mantissas: &[10, 20, 50], share }
}

/// A step, by its place on the ladder.
type Step = i32;

impl Ladder {
    fn decimal(&self, step: Step) -> Decimal {
        let count = self.mantissas.len() as i32;
        Decimal::new(self.mantissas[step.rem_euclid(count) as usize], step.div_euclid(count) - 1)
    }

    fn number(&self, step: Step) -> f64 {
        self.decimal(step).number()
    }

    /// From where on a step is used.
    fn limit(&self, step: Step) -> f64 {
        f64::from(self.share) * self.number(step)
    }

    /// The shortest step of which at most `most` fit into `width`.
    fn cutting(&self, width: f64, most: u32) -> Step {
        // Beyond these limits there is no step; what uses one checks that edges grow.
        let least = (width / f64::from(most.max(1))).clamp(1e-300, 1e300);
        // One below the power of ten at hand, because logarithms round.
        let mut step = self.mantissas.len() as i32 * (least.log10().floor() as i32) - 1;
        while self.number(step) < least {
            step += 1;
        }
        step
    }
}

impl Scale {
    /// Round numbers as edges, shorter steps towards zero, at most `most` intervals.
    pub fn round(min: f64, max: f64, most: u32) -> Result<Scale, String> {
        check_bounds(min, max)?;
        // Where the whole budget is small, coarser shares leave more of it for the decades towards
        // zero.
        let ladder = match most {
            600.. => FINE,
            200.. => coarse(20),
            _ => coarse(10),
        };
        let longest = ladder.cutting(max - min, (most * 7 / 10).max(1));
        let mut best = stepped(min, max, longest, longest, ladder)?;
        // Five decades below the bounds there is nothing that people would tell apart.
        for shorter in 1..=5 * ladder.mantissas.len() as i32 {
            let Ok(finer) = stepped(min, max, longest - shorter, longest, ladder) else { break };
            if finer.max_level() >= most {
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
        let step = FINE.cutting(max - min, most.saturating_sub(2).max(1));
        stepped(min, max, step, step, FINE)
    }

    /// Round numbers whose steps are everywhere about the same share of the number: a logarithmic
    /// scale.
    pub fn logarithmic(min: f64, max: f64, most: u32) -> Result<Scale, String> {
        check_bounds(min, max)?;
        if min <= 0.0 {
            return Err(format!("a logarithmic scale needs bounds above 0, not {min} to {max}"));
        }
        [200, 100, 50, 20, 10]
            .into_iter()
            .filter_map(|share| {
                let ladder = coarse(share);
                let (first, last) = (ladder.cutting(min, share), ladder.cutting(max, share));
                stepped(min, max, first, last, ladder).ok()
            })
            .find(|scale| scale.max_level() < most)
            .ok_or_else(|| format!("{most} levels are too few for a logarithmic scale from {min} to {max}"))
    }
}

fn check_bounds(min: f64, max: f64) -> Result<(), String> {
    match min.is_finite() && max.is_finite() && (max - min).is_finite() && min < max {
        true => Ok(()),
        false => Err(format!("the bounds {min} and {max} must be finite and in order")),
    }
}

/// Edges from `min` to `max`, both rounded outwards: `shortest` around zero, growing to `longest`.
fn stepped(min: f64, max: f64, shortest: Step, longest: Step, ladder: Ladder) -> Result<Scale, String> {
    // The pieces of the line from left to right: each ends where the next begins.
    let outer = |step: Step| if step == longest { f64::INFINITY } else { ladder.limit(step + 1) };
    let mut pieces: Vec<(f64, f64, Step)> = vec![];
    for step in (shortest + 1..=longest).rev() {
        pieces.push((-outer(step), -ladder.limit(step), step));
    }
    pieces.push((-outer(shortest), outer(shortest), shortest));
    for step in shortest + 1..=longest {
        pieces.push((ladder.limit(step), outer(step), step));
    }
    let mut from = None;
    let mut runs = vec![];
    for (low, high, step) in pieces {
        let (low, high) = (low.max(min), high.min(max));
        if low >= high {
            continue;
        }
        // In units of the step: edges of pieces are whole, bounds are rounded outwards.
        let number = ladder.number(step);
        let (first, last) = ((low / number + 1e-9).floor(), (high / number - 1e-9).ceil());
        if first.abs().max(last.abs()) > 9e15 {
            return Err(format!("numbers from {min} to {max} are too close to each other for round steps"));
        }
        let decimal = ladder.decimal(step);
        from.get_or_insert(Decimal::from_units(
            first as i128 * decimal.units(decimal.exponent()).unwrap_or(1),
            decimal.exponent(),
        ));
        runs.push(EdgeRun { step: decimal, count: (last - first) as u32 });
    }
    let from = from.flatten().ok_or_else(|| "its numbers have more than 18 digits".to_owned())?;
    Scale::new(ScaleLayout::Edges { from, runs })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widest(scale: &Scale) -> f64 {
        (0..=scale.max_level()).filter_map(|level| scale.interval(level)).map(|i| i.high - i.low).fold(0.0, f64::max)
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
                assert!(scale.max_level() < most.max(13), "{min} {max} {most}: {} levels", scale.max_level() + 1);
                // No interval is wider than a few times the budget's equal share.
                let share = if most >= 600 { 2.2 } else { 4.0 };
                assert!(widest(&scale) <= share * (max - min) / f64::from(most), "{min} {max} {most}");
            }
        }
    }

    #[test]
    fn small_numbers_of_a_skewed_column_are_told_apart() {
        let scale = Scale::round(0.0, 250_000.0, 1000).unwrap();
        for number in [30.0, 400.0, 5_000.0, 60_000.0, 200_000.0] {
            let interval = scale.interval(scale.level(number)).unwrap();
            assert!(interval.low <= number && number < interval.high);
            assert!(interval.high - interval.low <= (number / 20.0).max(20.0), "{number}: {interval:?}");
        }
        // The edges are numbers that people write.
        let interval = scale.interval(scale.level(123_456.0)).unwrap();
        assert_eq!((interval.low, interval.high), (123_200.0, 123_600.0));
    }

    #[test]
    fn equal_and_logarithmic_steps_are_had_by_name() {
        let equal = Scale::equal_steps(0.6, 65.8, 100).unwrap();
        assert!(equal.max_level() < 100 && widest(&equal) < 1.01, "{equal:?}");
        let log = Scale::logarithmic(0.001, 1000.0, 1000).unwrap();
        assert!(log.max_level() < 1000);
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
