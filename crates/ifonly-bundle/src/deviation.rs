//! The median absolute deviation of each ordered feature, a public statistic that costs may be scaled by.

use crate::error::BuildError;
use ifonly_core::schema::Schema;

/// The schema with each ordered feature's median absolute deviation, from how many rows have each level.
pub(crate) fn with_deviations(schema: Schema, histograms: &[Vec<u64>]) -> Result<Schema, BuildError> {
    let mut features = schema.features().to_vec();
    for (feature, histogram) in features.iter_mut().zip(histograms) {
        if !feature.is_categorical() {
            feature.mad = median_absolute_deviation(histogram);
        }
    }
    Ok(Schema::new(features)?)
}

fn median_absolute_deviation(histogram: &[u64]) -> Option<f64> {
    let values = || histogram.iter().enumerate().filter(|(_, count)| **count > 0);
    let middle = median(values().map(|(level, &count)| (level as f64, count)).collect())?;
    median(values().map(|(level, &count)| ((level as f64 - middle).abs(), count)).collect())
}

/// The middle of counted values; between two middles, their mean.
fn median(mut values: Vec<(f64, u64)>) -> Option<f64> {
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
    fn deviations_are_medians_of_distances_to_the_median() {
        // Levels 0, 0, 1, 4: median 0.5, distances 0.5, 0.5, 0.5, 3.5.
        assert_eq!(median_absolute_deviation(&[2, 1, 0, 0, 1]), Some(0.5));
        // Levels 1, 2, 6: median 2, distances 1, 0, 4.
        assert_eq!(median_absolute_deviation(&[0, 1, 1, 0, 0, 0, 1]), Some(1.0));
        assert_eq!(median_absolute_deviation(&[0, 9]), Some(0.0));
        assert_eq!(median_absolute_deviation(&[0, 0]), None);
    }
}
