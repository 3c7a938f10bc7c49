//! The corrected values of the leakage tables of the paper: exact leakage to six decimals, in the
//! model of the paper.

use ifonly_lab::leakage::{LeakageModel, LeakageScheme, Population, RowOrder, SamplingRule, exact, with_record};

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

#[test]
fn sealed_leaks_least_if_the_record_counts_for_every_scheme() {
    let model = |name: &str, (r, d, m): (u32, u32, u32), immutable, order| LeakageModel {
        immutable,
        order,
        ..LeakageModel::new(LeakageScheme::named(name).unwrap(), r, d, m)
    };
    let with = |model: LeakageModel| with_record(&model, Population::Grid).unwrap().bits;
    for (m, expected) in [(100, 15.542211), (200, 14.550382)] {
        assert_six_decimals(with(model("sealed", (10, 6, m), 0, RowOrder::Fixed)), expected, "sealed");
    }
    let shuffled = model("gated", (3, 3, 3), 2, RowOrder::Shuffled);
    assert_six_decimals(exact(&shuffled, Population::Grid).unwrap(), 0.781867, "gated, shuffled");
    assert_six_decimals(with(model("sealed", (3, 3, 3), 2, RowOrder::Fixed)), 0.798796, "sealed");
    for (size, immutable) in [((3, 3, 3), 2), ((10, 6, 100), 2), ((10, 6, 100), 0), ((2, 3, 5), 1)] {
        let gated = with(model("gated", size, immutable, RowOrder::Shuffled));
        let sealed = with(model("sealed", size, immutable, RowOrder::Fixed));
        println!("{size:?}, {immutable} immutable: gated {gated:.6}, sealed {sealed:.6}");
        assert!(gated > sealed, "{size:?}, {immutable} immutable: gated {gated}, sealed {sealed}");
    }
}

#[test]
fn leakage_is_finite_and_at_most_the_size_of_the_database() {
    for name in ["sealed", "gated", "baseline"] {
        for (r, d) in [(1, 3), (3, 3), (10, 4)] {
            for m in [1, 5, 70, 100, 200, 1000] {
                for drawing in [SamplingRule::WithReplacement, SamplingRule::WithoutReplacement] {
                    let scheme = LeakageScheme::named(name).unwrap();
                    let model = LeakageModel { drawing, ..LeakageModel::new(scheme, r, d, m) };
                    let Ok(bits) = exact(&model, Population::Grid) else { continue };
                    let record = with_record(&model, Population::Grid).unwrap().bits;
                    let most = f64::from(d * m) * f64::from(r + 1).log2();
                    let case = format!("{name}, R={r}, d={d}, M={m}, {drawing:?}: {bits} and {record} of {most}");
                    assert!(bits.is_finite() && bits > -1e-9 && record.is_finite(), "{case}");
                    assert!(record >= bits - 1e-9 && record <= most + 1e-6, "{case}");
                }
            }
        }
    }
}
