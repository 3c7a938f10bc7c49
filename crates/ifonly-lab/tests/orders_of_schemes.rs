//! Which scheme leaks less than which: exact computations over many small worlds.

use ifonly_lab::leakage::{
    Decoded, FeatureCost, LeakageModel, LeakageScheme, Population, RowOrder, SamplingRule, exact,
};

const WORLDS: [(u32, u32, u32); 5] = [(3, 3, 3), (4, 2, 5), (2, 4, 4), (6, 2, 3), (1, 6, 5)];

fn bits(setting: &LeakageModel) -> f64 {
    exact(setting, Population::Grid).unwrap()
}

fn setting(name: &str, (r, d, m): (u32, u32, u32)) -> LeakageModel {
    LeakageModel::new(LeakageScheme::named(name).unwrap(), r, d, m)
}

#[test]
fn gated_leaks_exactly_what_two_phase_leaks_for_every_immutable_set() {
    for world in WORLDS {
        for drawing in [SamplingRule::WithoutReplacement, SamplingRule::WithReplacement] {
            for order in [RowOrder::Fixed, RowOrder::Shuffled] {
                for immutable in 0..=world.1 {
                    let of = |name| bits(&LeakageModel { immutable, order, drawing, ..setting(name, world) });
                    assert_eq!(of("gated"), of("two-phase"));
                    assert_eq!(of("gated-ranges"), of("two-phase-4"));
                    assert!(of("gated") <= of("single-phase") + 1e-12);
                }
            }
        }
    }
}

#[test]
fn with_everything_immutable_a_gate_leaks_nothing_and_single_phase_does() {
    for world in WORLDS {
        let of = |name| bits(&LeakageModel { immutable: world.1, ..setting(name, world) });
        assert!(of("gated").abs() < 1e-12);
        assert!(of("single-phase") > 1.0);
    }
}

#[test]
fn a_shuffle_never_leaks_more() {
    for world in [(3, 3, 3), (2, 2, 4), (6, 2, 3)] {
        for scheme in LeakageScheme::all() {
            let d_min = if scheme.decoded == Decoded::Masked { 2 } else { 1 };
            let immutable = u32::from(scheme.has_constraints());
            for drawing in [SamplingRule::WithoutReplacement, SamplingRule::WithReplacement] {
                let fixed = LeakageModel { d_min, immutable, drawing, ..setting(scheme.name, world) };
                let shuffled = LeakageModel { order: RowOrder::Shuffled, ..fixed.clone() };
                assert!(bits(&shuffled) <= bits(&fixed) + 1e-12, "{} {world:?}", scheme.name);
                assert!(bits(&shuffled) >= -1e-12, "{} {world:?}", scheme.name);
            }
        }
    }
}

#[test]
fn difference_and_mask_leak_no_more_than_baseline_and_wider_masks_less() {
    for world in WORLDS {
        let baseline = bits(&setting("baseline", world));
        assert!(bits(&setting("diff", world)) <= baseline + 1e-12);
        let mut last = baseline;
        for d_min in 2..=4 {
            let mask = bits(&LeakageModel { d_min, ..setting("mask", world) });
            assert!(mask < last + 1e-12);
            last = mask;
        }
    }
}

#[test]
fn linearised_schemes_and_equal_weights_change_nothing() {
    let world = (3, 3, 3);
    for (left, right) in
        [("baseline", "linear-baseline+"), ("diff", "linear-diff+"), ("single-phase", "linear-single-phase+")]
    {
        let equal = LeakageModel { weights: vec![2; 3], ..setting(right, world) };
        assert!((bits(&setting(left, world)) - bits(&equal)).abs() < 1e-12);
    }
}

#[test]
fn weights_that_tell_features_apart_leak_more_and_a_count_of_changes_less() {
    let world = (3, 3, 3);
    let baseline = bits(&setting("baseline", world));
    assert!(bits(&LeakageModel { weights: vec![1, 10, 100], ..setting("baseline+", world) }) > baseline);
    assert!(bits(&LeakageModel { metric: Some(FeatureCost::Changes), ..setting("table", world) }) < baseline);
}
