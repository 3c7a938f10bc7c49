//! The paper's worked example, and its errata as computations (docs/paper.md).

use super::common::{answer, play};
use crate::d_min::MaskEffects;
use crate::field::{Field, FieldElement, ModulusRule};
use crate::keys::RootKey;
use crate::params::Params;
use crate::phase::PhaseState;
use crate::random::{RandomSource, SeededRandom};
use crate::row_function::{RowRandomness, Rows};
use crate::scheme;
use crate::scheme::instance::{SchemeInstance, SchemeInstanceError};
use crate::secret_query::SecretQuery;

fn distance(x: &[i64], y: &[i64]) -> i64 {
    x.iter().zip(y).map(|(x, y)| (x - y).pow(2)).sum()
}

#[test]
fn the_worked_example_of_masking() {
    // R = 20, d = 2: the smallest prime above 800 is 809. The distances are 365 and 325, so masks
    // are in 0..=39.
    let rows = Rows::new(&[20, 20], [[20, 0], [0, 20]]).unwrap();
    let rejected = vec![vec![1, 2], vec![2, 1]];
    assert_eq!(distance(&[1, 2], &[20, 0]), 365);
    assert_eq!(distance(&[1, 2], &[0, 20]), 325);
    let levels = [vec![20, 0], vec![0, 20]];
    assert_eq!(MaskEffects::new(&levels, &rejected, 40).d_min, Some(40));
    let plain =
        SchemeInstance::new(scheme::named("baseline").unwrap(), Params::new(vec![20, 20], 2), ModulusRule::Paper);
    assert_eq!(plain.unwrap().field().q(), 809);
    let params = Params { d_min: 40, ..Params::new(vec![20, 20], 2) };
    let instance = SchemeInstance::new(scheme::named("mask").unwrap(), params, ModulusRule::Paper).unwrap();
    let mut random = SeededRandom::new(14);
    for (x, nearest) in [(vec![1, 2], 1), (vec![2, 1], 0)] {
        for _ in 0..200 {
            let (candidates, _) = play(&instance, &SecretQuery::new(x.clone()), &rows, &mut random, |_, _| {}).unwrap();
            assert_eq!(candidates.nearest(1)[0].0, nearest);
        }
    }
}

#[test]
fn lemma_2_weights_do_shrink_gaps() {
    let weighted = |y: [u64; 2], w: [u64; 2]| w[0] * y[0] * y[0] + w[1] * y[1] * y[1];
    assert_eq!(weighted([3, 0], [1, 1]).abs_diff(weighted([0, 2], [1, 1])), 5);
    assert_eq!(weighted([3, 0], [1, 2]).abs_diff(weighted([0, 2], [1, 2])), 1);
    assert_eq!(weighted([3, 0], [4, 9]).abs_diff(weighted([0, 2], [4, 9])), 0);
    // d_min is 5 for equal weights. With w = (1, 2), 6 of the 25 pairs of masks choose the wrong
    // row.
    let pairs = (0..5).flat_map(|a| (0..5).map(move |b| (a, b)));
    assert_eq!(pairs.filter(|(a, b)| 9 + a < 8 + b).count(), 6);
}

#[test]
fn a_masked_distance_wraps_at_the_papers_field_size() {
    // q = 809 holds Δ = 800, but not 800 + 39.
    let params = Params { d_min: 40, ..Params::new(vec![20, 20], 1) };
    let mask = scheme::named("mask").unwrap();
    let refused = SchemeInstance::with_field(mask, params.clone(), 809, &[1, -1]).unwrap_err();
    assert_eq!(refused, SchemeInstanceError::FieldTooSmall { q: 809, bound: 839, scheme: "mask" });
    assert_eq!((800 + 39) % 809, 30);
    assert_eq!(SchemeInstance::new(mask, params, ModulusRule::Paper).unwrap().field().q(), 853);
}

#[test]
fn the_transform_by_ten_does_not_preserve_order() {
    let nearest = |x: i64, ys: [i64; 2]| if (x - ys[0]).abs() <= (x - ys[1]).abs() { 0 } else { 1 };
    assert_eq!(nearest(10, [10, 1]), 0);
    assert_eq!(nearest(10, [100, 10]), 1);
    // The field of the paper is also too small for the levels 0..=200.
    let baseline = scheme::named("baseline").unwrap();
    let refused = SchemeInstance::with_field(baseline, Params::new(vec![200, 200], 1), 40_009, &[1, -1]).unwrap_err();
    assert_eq!(refused, SchemeInstanceError::FieldTooSmall { q: 40_009, bound: 80_000, scheme: "baseline" });
}

#[test]
fn alpha_zero_is_refused_because_it_reveals_the_secret() {
    let baseline = scheme::named("baseline").unwrap();
    assert!(SchemeInstance::with_field(baseline, Params::new(vec![20], 1), 809, &[0, 1]).is_err());
}

/// The answers for one row in the paper's own phase 0 for four servers, `ρ‖Q1∘y − Q1∘Q2‖²`, of
/// which the user cancels α⁴‖Z1∘Z2‖².
#[test]
fn the_remarks_first_phase_loses_theta() {
    let field = Field::new(809).unwrap();
    let points = crate::share::EvaluationPoints::usual(&field, 4).unwrap();
    let mut random = SeededRandom::new(15);
    let runs = 2_000;
    let mut wrong = 0;
    for _ in 0..runs {
        // One feature, which is immutable or not; y equals x or not.
        let (h, x, y) = (random.below(2), random.below(10), random.below(10));
        let [z1, z2] = [field.sample(&mut random), field.sample(&mut random)];
        let rho = field.sample_nonzero(&mut random);
        let answers: Vec<Option<Vec<FieldElement>>> = points
            .as_slice()
            .iter()
            .map(|&alpha| {
                let q1 = field.mul_add(alpha, z1, field.reduce(h));
                let q2 = field.mul_add(alpha, z2, field.reduce(x));
                let gap = field.sub(field.mul(q1, field.reduce(y)), field.mul(q1, q2));
                let product = field.mul(z1, z2);
                let cancelled = field.mul(field.pow(alpha, 4), field.mul(product, product));
                Some(vec![field.sub(field.mul(rho, field.mul(gap, gap)), cancelled)])
            })
            .collect();
        let agreed = crate::decode::select_consistent(&field, points.as_slice(), 3, 0, &answers, &mut random).unwrap();
        let zero = agreed.coefficient(&field, 0)[0].is_zero();
        wrong += usize::from(zero != (h == 0 || x == y));
    }
    // If the row belongs to Θ (55% here), the rest of the α⁴ term hides the zero.
    assert!(wrong * 2 > runs, "{wrong} of {runs}");
}

#[test]
fn the_tables_first_phase_with_four_servers_finds_theta() {
    let four = scheme::named("two-phase-4").unwrap();
    let params = Params::new(vec![9], 10);
    let rows = Rows::new(&[9], (0..10).map(|y| [y])).unwrap();
    let instance = SchemeInstance::new(four, params, ModulusRule::Paper).unwrap();
    let mut random = SeededRandom::new(16);
    for x in 0..10 {
        for fixed in [false, true] {
            let secret = SecretQuery::new(vec![x]).immutable(vec![fixed]);
            let (candidates, _) = play(&instance, &secret, &rows, &mut random, |_, _| {}).unwrap();
            assert_eq!(candidates.count(), if fixed { 1 } else { 10 });
        }
    }
}

#[test]
fn rows_outside_theta_may_decode_to_less_than_the_nearest() {
    // ‖x‖² = 1 is below the distance 25 of the only matching row. The minimum is over Θ only.
    let two_phase = scheme::named("two-phase").unwrap();
    let rows = Rows::new(&[9, 9], [[0, 0], [1, 5]]).unwrap();
    let instance = SchemeInstance::new(two_phase, Params::new(vec![9, 9], 2), ModulusRule::Paper).unwrap();
    let secret = SecretQuery::new(vec![1, 0]).immutable(vec![true, false]);
    let (candidates, _) = play(&instance, &secret, &rows, &mut SeededRandom::new(17), |_, _| {}).unwrap();
    let (position, cost) = candidates.nearest(1)[0];
    assert_eq!((position, cost), (1, crate::candidates::DecodedCost::Exactly(25)));
}

#[test]
fn one_pad_for_all_rows_leaks_differences_of_rows() {
    // If two rows have the same Z', the difference of the answers of one server is (y_1 − y_2)
    // times a value that the user knows.
    struct OnePad(FieldElement);
    impl RowRandomness for OnePad {
        fn pad(&self, _: usize, _: usize, _: usize) -> FieldElement {
            self.0
        }
        fn rho(&self, _: usize) -> FieldElement {
            FieldElement::ONE
        }
        fn sigma(&self, _: usize) -> FieldElement {
            FieldElement::ZERO
        }
        fn mu(&self, _: usize) -> FieldElement {
            FieldElement::ZERO
        }
    }
    let dot = scheme::named("dot").unwrap();
    let instance = SchemeInstance::new(dot, Params::new(vec![9], 2), ModulusRule::Paper).unwrap();
    let rows = Rows::new(&[9], [[7], [3]]).unwrap();
    let mut random = SeededRandom::new(18);
    let field = instance.field();
    for _ in 0..50 {
        let state = PhaseState::new(&instance, 0, &SecretQuery::new(vec![0]), &[], None, &mut random);
        let share = state.shares()[0].slot(0)[0];
        let answers = answer(&instance, 0, 0, &state, &rows, &OnePad(field.sample(&mut random)));
        let leaked = field.sub(answers[0], answers[1]);
        assert_eq!(leaked, field.mul(share, field.reduce(4)), "y_1 − y_2 = 4, although x = 0");
    }
}

#[test]
fn single_phase_gives_both_partial_distances() {
    let single = scheme::named("single-phase").unwrap();
    let params = Params::new(vec![9, 9], 1);
    let scale = 9 * 9 + 1;
    let instance = SchemeInstance::new(single, params, ModulusRule::Paper).unwrap();
    let mut random = SeededRandom::new(19);
    for y in [[2u16, 7], [9, 0], [4, 4]] {
        let rows = Rows::new(&[9, 9], [y]).unwrap();
        let secret = SecretQuery::new(vec![4, 4]).immutable(vec![true, false]);
        let state = PhaseState::new(&instance, 0, &secret, &[false], None, &mut random);
        let keys = RootKey::new(0, [1; 32]).transcript(&[0; 32]).rows(instance.field(), 1, 2, 1);
        let answers = (0..3).map(|server| Some(answer(&instance, 0, server, &state, &rows, &keys))).collect();
        let value = state.decode(&instance, answers, &mut random).unwrap().values[0].value();
        let gap = |level: u16| u64::from(level.abs_diff(4)).pow(2);
        assert_eq!((value / scale, value % scale), (gap(y[0]), gap(y[1])));
    }
}

#[test]
fn algorithm_1_returns_the_last_of_tied_rows_and_ours_the_first() {
    let diff = scheme::named("diff").unwrap();
    let rows = Rows::new(&[9], [[5], [1], [3], [1]]).unwrap();
    let instance = SchemeInstance::new(diff, Params::new(vec![9], 4), ModulusRule::Paper).unwrap();
    let (candidates, _) =
        play(&instance, &SecretQuery::new(vec![2]), &rows, &mut SeededRandom::new(20), |_, _| {}).unwrap();
    assert_eq!(candidates.nearest(1)[0].0, 1);
    // The paper's loop takes the next row whenever the running difference is not negative.
    let distances = [9i64, 1, 1, 1];
    let theirs = (1..4).fold(0, |best, i| if distances[best] - distances[i] >= 0 { i } else { best });
    assert_eq!(theirs, 3);
}

#[test]
fn the_appendix_has_the_sign_and_the_cancelled_term_of_lp_wrong() {
    // Two features, p = 4: Σ_k (g_k − α·z_k)^4 with g = y − x, as a polynomial in α.
    let (gaps, z) = ([3i64, -2], [5i64, 7]);
    let term = |l: u32, sign: i64| -> i64 {
        let binomial = [1, 4, 6, 4, 1][l as usize];
        gaps.iter().zip(z).map(|(g, z)| sign * binomial * g.pow(4 - l) * z.pow(l)).sum()
    };
    let value = |alpha: i64, printed: bool| -> i64 {
        let sign = |l: u32| if printed && (1..4).contains(&l) { (-1i64).pow(l - 1) } else { (-1i64).pow(l) };
        (0..=4).map(|l| term(l, sign(l)) * alpha.pow(l)).sum()
    };
    let truth = |alpha: i64| -> i64 { gaps.iter().zip(z).map(|(g, z)| (g - alpha * z).pow(4)).sum() };
    for alpha in [1, -1, 2, -2] {
        assert_eq!(value(alpha, false), truth(alpha));
        assert_ne!(value(alpha, true), truth(alpha));
    }
    // The user cancels one number, the sum over the features.
    assert_eq!(term(4, 1), 5i64.pow(4) + 7i64.pow(4));
}

#[test]
fn the_printed_weight_term_of_diff_pcr_plus_has_the_wrong_sign() {
    // The coefficient c1 of α in Σ (w + αb)(y − x − αa)² minus the same for the next row. The α³
    // terms cancel, so c1 = (D(1) − D(−1))/2.
    let (x, w, a, b) = ([4i64, 1], [2i64, 3], [5i64, 7], [6i64, 11]);
    let (y, next) = ([9i64, 0], [3i64, 8]);
    let sum = |f: &dyn Fn(usize) -> i64| (0..2).map(f).sum::<i64>();
    let answer = |row: [i64; 2], alpha: i64| sum(&|k| (w[k] + alpha * b[k]) * (row[k] - x[k] - alpha * a[k]).pow(2));
    let difference = |alpha| answer(y, alpha) - answer(next, alpha);
    let squares = sum(&|k| b[k] * ((y[k] - x[k]).pow(2) - (next[k] - x[k]).pow(2)));
    let weights = 2 * sum(&|k| a[k] * (y[k] - next[k]) * w[k]);
    let coefficient = (difference(1) - difference(-1)) / 2;
    assert_eq!(coefficient, squares - weights);
    assert_ne!(coefficient, squares + weights);
}

#[test]
fn the_printed_parenthesis_of_two_phase_plus_is_not_the_weighted_distance() {
    // The paper prints (s − x)ᵀ(s − x∘w) instead of ((s − x)∘w): 2·(3 − 2) instead of 2·2².
    let (s, x, w) = (3i64, 1, 2);
    assert_eq!(((s - x) * (s - x * w), w * (s - x).pow(2)), (2, 8));
    let plus = scheme::named("two-phase+").unwrap();
    let params = Params { weight_limit: 2, ..Params::new(vec![9], 1) };
    let instance = SchemeInstance::new(plus, params, ModulusRule::Paper).unwrap();
    let rows = Rows::new(&[9], [[3]]).unwrap();
    let secret = SecretQuery::new(vec![1]).weights(vec![2]);
    let (candidates, _) = play(&instance, &secret, &rows, &mut SeededRandom::new(21), |_, _| {}).unwrap();
    assert_eq!(candidates.nearest(1)[0].1, crate::candidates::DecodedCost::Exactly(8));
}

#[test]
fn limits_chosen_per_query_reveal_how_many_features_are_immutable() {
    // Servers see the field. If F were |I| instead of the manifest's limit, each |I| up to d/2
    // would have its own field. The same holds for max w and L1.
    let q = |name: &str, immutable_limit, weight_limit| {
        let params = Params { immutable_limit, weight_limit, ..Params::new(vec![20; 6], 5) };
        SchemeInstance::new(scheme::named(name).unwrap(), params, ModulusRule::Paper).unwrap().field().q()
    };
    let immutable: Vec<u64> = (0..=3).map(|immutable| q("single-phase", immutable, 1)).collect();
    let weighted: Vec<u64> = (1..=10).map(|most| q("baseline+", 3, most)).collect();
    for fields in [immutable, weighted] {
        assert!(fields.windows(2).all(|pair| pair[0] < pair[1]), "{fields:?}");
    }
}

#[test]
fn masks_drawn_by_each_server_for_itself_do_not_cancel() {
    // The distance is 100, the points are 1 and −1, the pad is 7. The value at 0 is half the sum of
    // the answers, and half of an odd sum of masks is not a mask.
    let field = Field::new(809).unwrap();
    let half = field.inverse(field.reduce(2)).unwrap();
    let decoded = |first: u64, second: u64| {
        let (one, other) = (field.reduce(100 + first + 7), field.reduce_signed(100 + second as i64 - 7));
        field.mul(field.add(one, other), half).value()
    };
    assert_eq!(decoded(3, 3), 103);
    let all = || (0..40).flat_map(|first| (0..40).map(move |second| (first, second)));
    let wrong = all().filter(|&(first, second)| !(100..140).contains(&decoded(first, second))).count();
    assert_eq!(wrong, 800, "every odd sum of masks decodes to a wrong value");
}

#[test]
fn answers_without_queries_tell_less_so_the_printed_leakage_identity_is_false() {
    // One row with one feature y in 0..=2, x = 0, q = 5. All draws of Z and Z' are enumerated.
    let bits = |pairs: &[(u64, Vec<u64>)]| {
        let entropy = |keys: Vec<String>| {
            let mut counts = std::collections::BTreeMap::new();
            keys.into_iter().for_each(|key| *counts.entry(key).or_insert(0.0) += 1.0);
            let total = pairs.len() as f64;
            counts.values().map(|count: &f64| count / total * (total / count).log2()).sum::<f64>()
        };
        let rows = entropy(pairs.iter().map(|(y, _)| format!("{y}")).collect());
        let seen = entropy(pairs.iter().map(|(_, seen)| format!("{seen:?}")).collect());
        rows + seen - entropy(pairs.iter().map(|pair| format!("{pair:?}")).collect())
    };
    let draws = || (0..3u64).flat_map(|y| (0..5u64).flat_map(move |z| (0..5u64).map(move |pad| (y, z, pad))));
    let answers = |y: u64, z: u64, pad: u64| vec![((y + 5 - z).pow(2) + pad) % 5, ((y + z).pow(2) + 5 - pad) % 5];
    let answers_alone: Vec<_> = draws().map(|(y, z, pad)| (y, answers(y, z, pad))).collect();
    // Queries are independent of the rows, so the information given the queries equals the
    // information of answers and queries together.
    let with_queries: Vec<_> =
        draws().map(|(y, z, pad)| (y, [answers(y, z, pad), vec![z, (5 - z) % 5]].concat())).collect();
    let decoded: Vec<_> = draws().map(|(y, _, _)| (y, vec![y * y])).collect();
    assert!((bits(&with_queries) - bits(&decoded)).abs() < 1e-9);
    assert!(bits(&answers_alone) < bits(&decoded) - 0.1, "{} {}", bits(&answers_alone), bits(&decoded));
}
