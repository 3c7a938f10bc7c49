//! Scales whose edges are round numbers. The edges depend only on the bounds of a column.
//!
//! A step is a round number: 1, 2 or 5 times a power of ten. If there are many levels, 1.5, 3, 4, 6
//! and 8 times a power of ten are steps too. Between `n·s` and `n·s'`, where s' is the step after
//! s, the distance of edges is s. So an interval is never wider than 1/n of its numbers, and `n·s'`
//! is an edge of both steps.
//!
//! About 70% of the levels divide the whole range into equal steps, which gives accurate costs. The
//! other levels are ever shorter steps towards zero, so that wishes can distinguish small numbers.

use crate::schema::decimal::Decimal;
use crate::schema::scale::{EdgeRun, Scale, ScaleError, ScaleLayout};

/// The permitted steps, and the largest step in relation to a number.
#[derive(Clone, Copy)]
struct Ladder {
    /// The mantissas of the steps, in tenths.
    mantissas: &'static [i64],
    /// n: a step is at most 1/n of the number. n times a step is a multiple of the previous step.
    share: u32,
}

const FINE: Ladder = Ladder { mantissas: &[10, 15, 20, 30, 40, 50, 60, 80], share: 60 };

const fn coarse(share: u32) -> Ladder {
    Ladder { mantissas: &[10, 20, 50], share }
}

/// The index of a step in a ladder; it may be negative.
type Step = i32;

impl Ladder {
    fn decimal(&self, step: Step) -> Decimal {
        let count = self.mantissas.len() as i32;
        Decimal::new(self.mantissas[step.rem_euclid(count) as usize], step.div_euclid(count) - 1)
    }

    fn number(&self, step: Step) -> f64 {
        self.decimal(step).number()
    }

    /// The smallest number for which a step is used.
    fn limit(&self, step: Step) -> f64 {
        f64::from(self.share) * self.number(step)
    }

    /// The shortest step of which at most `most` fit into `width`.
    fn dividing(&self, width: f64, most: u32) -> Step {
        // Steps outside these limits do not exist. `Scale::new` checks that the edges increase.
        let least = (width / f64::from(most.max(1))).clamp(1e-300, 1e300);
        // Start one step below the power of ten, because logarithms are rounded.
        let mut step = self.mantissas.len() as i32 * (least.log10().floor() as i32) - 1;
        while self.number(step) < least {
            step += 1;
        }
        step
    }
}

impl Scale {
    /// A scale with round edges, shorter steps towards zero and at most `most` intervals.
    pub fn round(min: f64, max: f64, most: u32) -> Result<Scale, ScaleError> {
        check_bounds(min, max)?;
        // With few intervals, coarser steps leave more of them for small numbers.
        let ladder = match most {
            600.. => FINE,
            200.. => coarse(20),
            _ => coarse(10),
        };
        let longest = ladder.dividing(max - min, (most * 7 / 10).max(1));
        let mut best = stepped(min, max, longest, longest, ladder)?;
        // Users do not distinguish numbers that are five decades below the bounds.
        for shorter in 1..=5 * ladder.mantissas.len() as i32 {
            let Ok(finer) = stepped(min, max, longest - shorter, longest, ladder) else { break };
            if finer.max_level() >= most {
                break;
            }
            best = finer;
        }
        Ok(best)
    }

    /// A scale with equal round steps and at most `most` intervals.
    pub fn equal_steps(min: f64, max: f64, most: u32) -> Result<Scale, ScaleError> {
        check_bounds(min, max)?;
        // The first and the last edge are rounded outwards, which may add an interval at each end.
        let step = FINE.dividing(max - min, most.saturating_sub(2).max(1));
        stepped(min, max, step, step, FINE)
    }

    /// A logarithmic scale: round edges whose steps are about proportional to the number.
    pub fn logarithmic(min: f64, max: f64, most: u32) -> Result<Scale, ScaleError> {
        check_bounds(min, max)?;
        if min <= 0.0 {
            return Err(ScaleError::NotPositive { min, max });
        }
        [200, 100, 50, 20, 10]
            .into_iter()
            .filter_map(|share| {
                let ladder = coarse(share);
                let (first, last) = (ladder.dividing(min, share), ladder.dividing(max, share));
                stepped(min, max, first, last, ladder).ok()
            })
            .find(|scale| scale.max_level() < most)
            .ok_or(ScaleError::TooFewLevels { min, max, most })
    }
}

fn check_bounds(min: f64, max: f64) -> Result<(), ScaleError> {
    if min.is_finite() && max.is_finite() && (max - min).is_finite() && min < max {
        Ok(())
    } else {
        Err(ScaleError::Bounds { min, max })
    }
}

/// A scale with edges from `min` to `max`, both rounded outwards. The steps are `shortest` around
/// zero and increase to `longest`.
fn stepped(min: f64, max: f64, shortest: Step, longest: Step, ladder: Ladder) -> Result<Scale, ScaleError> {
    // The pieces of the number line in ascending order: each ends where the next one begins.
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
        // In units of the step: the edges of pieces are integers, and bounds are rounded outwards.
        let number = ladder.number(step);
        let (first, last) = ((low / number + 1e-9).floor(), (high / number - 1e-9).ceil());
        if first.abs().max(last.abs()) > 9e15 {
            return Err(ScaleError::TooClose { min, max });
        }
        let decimal = ladder.decimal(step);
        from.get_or_insert(Decimal::from_units(
            first as i128 * decimal.units(decimal.exponent()).unwrap_or(1),
            decimal.exponent(),
        ));
        runs.push(EdgeRun { step: decimal, count: (last - first) as u32 });
    }
    let from = from.flatten().ok_or(ScaleError::TooManyDigits)?;
    Scale::new(ScaleLayout::Edges { from, runs })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widest_interval(scale: &Scale) -> f64 {
        (0..=scale.max_level()).filter_map(|level| scale.interval(level)).map(|i| i.high - i.low).fold(0.0, f64::max)
    }

    #[test]
    fn round_edges_include_the_bounds_and_keep_the_maximum() {
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
                // No interval is wider than a few times the width of equal steps.
                let share = if most >= 600 { 2.2 } else { 4.0 };
                assert!(widest_interval(&scale) <= share * (max - min) / f64::from(most), "{min} {max} {most}");
            }
        }
    }

    #[test]
    fn small_numbers_of_a_skewed_column_are_distinguished() {
        let scale = Scale::round(0.0, 250_000.0, 1000).unwrap();
        for number in [30.0, 400.0, 5_000.0, 60_000.0, 200_000.0] {
            let interval = scale.interval(scale.level(number)).unwrap();
            assert!(interval.low <= number && number < interval.high);
            assert!(interval.high - interval.low <= (number / 20.0).max(20.0), "{number}: {interval:?}");
        }
        // The edges are round numbers.
        let interval = scale.interval(scale.level(123_456.0)).unwrap();
        assert_eq!((interval.low, interval.high), (123_200.0, 123_600.0));
    }

    #[test]
    fn equal_and_logarithmic_steps_keep_their_limits() {
        let equal = Scale::equal_steps(0.6, 65.8, 100).unwrap();
        assert!(equal.max_level() < 100 && widest_interval(&equal) < 1.01, "{equal:?}");
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
