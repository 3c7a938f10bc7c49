//! How far each ordered feature typically lies from its median, a public statistic that costs may
//! be scaled by.
//!
//! The median absolute deviation; where more than half of the rows have the median itself, that is
//! 0 and nothing can be divided by it, so the mean absolute deviation stands for it.

use crate::error::BuildError;
use ifonly_values::schema::{Deviation, DeviationKind, Schema};

/// The schema with each ordered feature's deviation, from how many rows have each level.
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

/// The middle of counted values; between two middles, their mean.
pub(crate) fn median(mut values: Vec<(f64, u64)>) -> Option<f64> {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: u64 = values.iter().map(|(_, count)| count).sum();
    let at = |rank: u64| {
        let mut seen = 0;
        values.iter().find_map(|(value, count)| {
            seen += count;
            (seen > rank).then_some(*value)
        })
    };
    Some((at(total.checked_sub(1)? / 2)? + at(total / 2)?) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_medians_of_distances_to_the_median_or_else_means() {
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
