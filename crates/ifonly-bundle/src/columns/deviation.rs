//! The deviation of each ordered feature: a public statistic by which the metric `mad` scales
//! costs.
//!
//! The deviation is the median absolute deviation, median(|v − median(v)|). It is 0 if more than
//! half of the rows have the median itself. Costs are divided by the deviation, so in this case the
//! mean absolute deviation is used instead.

use crate::error::BuildError;
use ifonly_values::schema::{Deviation, DeviationKind, Schema};

/// The schema with the deviation of each ordered feature. `histograms` has, per feature, the number
/// of rows with each level.
pub(crate) fn with_deviations(schema: Schema, histograms: &[Vec<u64>]) -> Result<Schema, BuildError> {
    let mut features = schema.features().to_vec();
    for (feature, histogram) in features.iter_mut().zip(histograms) {
        if !feature.is_categorical() {
            let values = (0..).zip(histogram).filter(|(_, count)| **count > 0);
            feature.deviation = deviation(values.map(|(level, &count)| (feature.middle(level), count)).collect());
        }
    }
    Ok(Schema::new(features)?)
}

fn deviation(values: Vec<(f64, u64)>) -> Option<Deviation> {
    let middle = median(values.clone())?;
    let distances: Vec<(f64, u64)> = values.iter().map(|(value, count)| ((value - middle).abs(), *count)).collect();
    let total: u64 = distances.iter().map(|(_, count)| count).sum();
    let mean = distances.iter().map(|(distance, count)| distance * *count as f64).sum::<f64>() / total as f64;
    let median = Deviation { value: median(distances)?, of: DeviationKind::Median };
    let mean = Deviation { value: mean, of: DeviationKind::Mean };
    [median, mean].into_iter().find(|deviation| deviation.value > 0.0)
}

/// The median of values with counts; the mean of the two middle values if their number is even.
pub(crate) fn median(mut values: Vec<(f64, u64)>) -> Option<f64> {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: u64 = values.iter().map(|(_, count)| count).sum();
    let at = |rank: u64| {
        let mut cumulative = 0;
        values.iter().find_map(|(value, count)| {
            cumulative += count;
            (cumulative > rank).then_some(*value)
        })
    };
    Some((at(total.checked_sub(1)? / 2)? + at(total / 2)?) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_the_median_absolute_deviation_or_the_mean_if_that_is_zero() {
        let median = |value| Some(Deviation { value, of: DeviationKind::Median });
        // 0, 0, 1, 4: median 0.5, distances 0.5, 0.5, 0.5, 3.5.
        assert_eq!(deviation(vec![(0.0, 2), (1.0, 1), (4.0, 1)]), median(0.5));
        // 1, 2, 6: median 2, distances 1, 0, 4.
        assert_eq!(deviation(vec![(1.0, 1), (2.0, 1), (6.0, 1)]), median(1.0));
        // Three quarters are 5.
        assert_eq!(deviation(vec![(5.0, 3), (9.0, 1)]), Some(Deviation { value: 1.0, of: DeviationKind::Mean }));
        assert_eq!((deviation(vec![(7.0, 9)]), deviation(vec![])), (None, None));
    }
}
