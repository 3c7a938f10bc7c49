//! Comparisons of the exact leakage of schemes, for several numbers of levels, features and rows.

use ifonly_lab::leakage::{
    Decoded, FeatureCost, LeakageModel, LeakageScheme, Population, RowOrder, SamplingRule, exact,
};

const SIZES: [(u32, u32, u32); 5] = [(3, 3, 3), (4, 2, 5), (2, 4, 4), (6, 2, 3), (1, 6, 5)];

fn bits(model: &LeakageModel) -> f64 {
    exact(model, Population::Grid).unwrap()
}

fn model(name: &str, (r, d, m): (u32, u32, u32)) -> LeakageModel {
    LeakageModel::new(LeakageScheme::named(name).unwrap(), r, d, m)
}

#[test]
fn gated_leaks_exactly_as_much_as_two_phase_for_every_immutable_set() {
    for size in SIZES {
        for drawing in [SamplingRule::WithoutReplacement, SamplingRule::WithReplacement] {
            for order in [RowOrder::Fixed, RowOrder::Shuffled] {
                for immutable in 0..=size.1 {
                    let of = |name| bits(&LeakageModel { immutable, order, drawing, ..model(name, size) });
                    assert_eq!(of("gated"), of("two-phase"));
                    assert_eq!(of("gated-ranges"), of("two-phase-4"));
                    assert!(of("gated") <= of("single-phase") + 1e-12);
                }
            }
        }
    }
}

#[test]
fn with_all_features_immutable_gated_leaks_nothing_but_single_phase_does() {
    for size in SIZES {
        let of = |name| bits(&LeakageModel { immutable: size.1, ..model(name, size) });
        assert!(of("gated").abs() < 1e-12);
        assert!(of("single-phase") > 1.0);
    }
}

#[test]
fn a_shuffle_never_increases_leakage() {
    for size in [(3, 3, 3), (2, 2, 4), (6, 2, 3)] {
        for scheme in LeakageScheme::all() {
            let d_min = if scheme.decoded == Decoded::Masked { 2 } else { 1 };
            let immutable = u32::from(scheme.has_constraints());
            for drawing in [SamplingRule::WithoutReplacement, SamplingRule::WithReplacement] {
                let fixed = LeakageModel { d_min, immutable, drawing, ..model(scheme.name, size) };
                let shuffled = LeakageModel { order: RowOrder::Shuffled, ..fixed.clone() };
                assert!(bits(&shuffled) <= bits(&fixed) + 1e-12, "{} {size:?}", scheme.name);
                assert!(bits(&shuffled) >= -1e-12, "{} {size:?}", scheme.name);
            }
        }
    }
}

#[test]
fn difference_and_mask_leak_no_more_than_baseline_and_wider_masks_less() {
    for size in SIZES {
        let baseline = bits(&model("baseline", size));
        assert!(bits(&model("diff", size)) <= baseline + 1e-12);
        let mut last = baseline;
        for d_min in 2..=4 {
            let mask = bits(&LeakageModel { d_min, ..model("mask", size) });
            assert!(mask < last + 1e-12);
            last = mask;
        }
    }
}

#[test]
fn linearised_schemes_with_equal_weights_leak_as_much_as_the_originals() {
    let size = (3, 3, 3);
    for (left, right) in
        [("baseline", "linear-baseline+"), ("diff", "linear-diff+"), ("single-phase", "linear-single-phase+")]
    {
        let equal = LeakageModel { weights: vec![2; 3], ..model(right, size) };
        assert!((bits(&model(left, size)) - bits(&equal)).abs() < 1e-12);
    }
}

#[test]
fn distinct_weights_leak_more_and_counting_changes_leaks_less() {
    let size = (3, 3, 3);
    let baseline = bits(&model("baseline", size));
    assert!(bits(&LeakageModel { weights: vec![1, 10, 100], ..model("baseline+", size) }) > baseline);
    assert!(bits(&LeakageModel { metric: Some(FeatureCost::Changes), ..model("table", size) }) < baseline);
}
