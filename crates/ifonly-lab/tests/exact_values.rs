//! The corrected values of the leakage tables of the paper: exact leakage to six decimals, in the
//! model of the paper.

use ifonly_lab::leakage::{LeakageModel, LeakageScheme, Population, exact};

fn bits(name: &str, (r, d, m): (u32, u32, u32), change: impl Fn(LeakageModel) -> LeakageModel) -> f64 {
    let model = change(LeakageModel::new(LeakageScheme::named(name).unwrap(), r, d, m));
    exact(&model, Population::Grid).unwrap()
}

fn assert_six_decimals(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() < 0.5e-6 + 1e-12, "{what}: {found:.7} instead of {expected}");
}

#[test]
fn synthetic_leakage_in_bits() {
    for (size, baseline, diff, mask_2, mask_3) in
        [((4, 2, 5), 16.304035, 16.186122, 14.153051, 12.908683), ((3, 3, 3), 10.933811, 8.994713, 8.712918, 7.434316)]
    {
        assert_six_decimals(bits("baseline", size, |s| s), baseline, "baseline");
        assert_six_decimals(bits("diff", size, |s| s), diff, "diff");
        for (d_min, expected) in [(1, baseline), (2, mask_2), (3, mask_3)] {
            let found = bits("mask", size, |s| LeakageModel { d_min, ..s });
            assert_six_decimals(found, expected, "mask");
        }
    }
}

#[test]
fn leakage_with_immutable_features_in_base_757() {
    let single_phase = [1.143208, 1.449215, 1.449215, 1.143208];
    let two_phase = [1.143208, 0.453612, 0.105061, 0.0];
    for (name, values) in [
        ("single-phase", single_phase),
        ("linear-single-phase", single_phase),
        ("two-phase", two_phase),
        ("two-phase-4", two_phase),
        ("gated", two_phase),
    ] {
        for (immutable, expected) in values.into_iter().enumerate() {
            let found = bits(name, (3, 3, 3), |s| LeakageModel { immutable: immutable as u32, ..s }) / 757f64.log2();
            assert_six_decimals(found, expected, name);
        }
    }
}
