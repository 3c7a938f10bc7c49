//! Sampled leakage agrees with the exact leakage within its standard error, and is repeatable.

use ifonly_lab::leakage::{LeakageModel, LeakageScheme, Population, RowOrder, Sampling, SamplingRule, estimate, exact};
use ifonly_lab::progress::NoProgress;
use ifonly_lab::random::Stream;

const SAMPLING: Sampling = Sampling { samples: 40_000, queries: 200, seed: 1 };

#[test]
fn estimates_lie_within_four_standard_errors_of_the_exact_value() {
    for (name, d_min) in [("baseline", 1), ("diff", 1), ("mask", 2), ("mask", 3)] {
        for order in [RowOrder::Fixed, RowOrder::Shuffled] {
            for drawing in [SamplingRule::WithoutReplacement, SamplingRule::WithReplacement] {
                let scheme = LeakageScheme::named(name).unwrap();
                let model = LeakageModel { d_min, order, drawing, ..LeakageModel::new(scheme, 3, 2, 4) };
                let truth = exact(&model, Population::Grid).unwrap();
                let found = estimate(&model, Population::Grid, SAMPLING, &NoProgress).unwrap();
                let allowed = 4.0 * found.standard_error + 1e-9;
                assert!(
                    (found.bits - truth).abs() < allowed,
                    "{name} {d_min} {order:?} {drawing:?}: {truth}, {found:?}"
                );
            }
        }
    }
}

#[test]
fn estimates_for_given_rows_are_unbiased_and_use_all_queries() {
    let mut stream = Stream::new(3, 0);
    let mut list =
        |n: usize| -> Vec<Vec<u32>> { (0..n).map(|_| (0..4).map(|_| stream.below(5) as u32).collect()).collect() };
    let (rows, queries) = (list(30), list(10));
    let population = Population::Rows { rows: &rows, queries: &queries };
    for (name, d_min, order) in
        [("diff", 1, RowOrder::Fixed), ("mask", 2, RowOrder::Fixed), ("mask", 2, RowOrder::Shuffled)]
    {
        let model = LeakageModel { d_min, order, ..LeakageModel::new(LeakageScheme::named(name).unwrap(), 4, 4, 3) };
        let truth = exact(&model, population).unwrap();
        let found = estimate(&model, population, SAMPLING, &NoProgress).unwrap();
        assert_eq!(found.queries, 10);
        assert!((found.bits - truth).abs() < 4.0 * found.standard_error + 1e-9, "{name}: {truth}, {found:?}");
    }
}

#[test]
fn the_control_variate_is_used_and_a_seed_determines_the_estimate() {
    let mut stream = Stream::new(9, 0);
    let mut list =
        |n: usize| -> Vec<Vec<u32>> { (0..n).map(|_| (0..6).map(|_| stream.below(9) as u32).collect()).collect() };
    let (rows, queries) = (list(100), list(4));
    let population = Population::Rows { rows: &rows, queries: &queries };
    let model = LeakageModel { d_min: 2, ..LeakageModel::new(LeakageScheme::named("mask").unwrap(), 8, 6, 5) };
    let first = estimate(&model, population, SAMPLING, &NoProgress).unwrap();
    let again = estimate(&model, population, SAMPLING, &NoProgress).unwrap();
    assert_eq!(first.bits.to_bits(), again.bits.to_bits());
    assert!(first.beta > 0.1, "the control variate is not used: {first:?}");
    let other = estimate(&model, population, Sampling { seed: 2, ..SAMPLING }, &NoProgress).unwrap();
    assert_ne!(first.bits, other.bits);
    assert!((first.bits - other.bits).abs() < 5.0 * (first.standard_error + other.standard_error));
}
