//! How much the attacks recover, and which defences stop them.

use ifonly_algebra::field::FieldElement;
use ifonly_lab::attack::{
    EngineOracle, ModelOracle, UniformDatabase, collecting, linking, partials, radix, replay, stopping, trilateration,
};
use ifonly_lab::leakage::{Decoded, LeakageScheme, RowOrder};

fn database() -> UniformDatabase {
    UniformDatabase::uniform(100, 11, 500, 1)
}

#[test]
fn six_searches_with_baseline_or_diff_recover_the_whole_database() {
    let database = database();
    for decoded in [Decoded::Values, Decoded::Differences] {
        let mut oracle = ModelOracle::new(&database, decoded, 1, RowOrder::Fixed, 1);
        let fractions = trilateration::distances(&database, decoded, &mut oracle).unwrap();
        assert_eq!(fractions.len(), 6);
        assert_eq!(fractions[5].rows, 1.0);
        assert!(fractions[4].rows < 0.01);
    }
}

#[test]
fn four_searches_with_single_phase_recover_all_rows_and_seven_if_shuffled() {
    let database = database();
    let mut oracle = ModelOracle::new(&database, Decoded::Partials, 1, RowOrder::Fixed, 1);
    let fractions = partials::attack(&database, RowOrder::Fixed, &mut oracle).unwrap();
    assert_eq!((fractions.len(), fractions[3].rows), (4, 1.0));
    let mut oracle = ModelOracle::new(&database, Decoded::Partials, 1, RowOrder::Shuffled, 1);
    let fractions = partials::attack(&database, RowOrder::Shuffled, &mut oracle).unwrap();
    assert_eq!(fractions.len(), 7);
    assert!(fractions[6].rows > 0.9, "{:?}", fractions[6]);
}

#[test]
fn wider_masks_require_more_searches() {
    let database = database();
    let after = |d_min, rounds| {
        let mut oracle = ModelOracle::new(&database, Decoded::Masked, d_min, RowOrder::Fixed, 1);
        *trilateration::masked(&database, rounds, &mut oracle).unwrap().last().unwrap()
    };
    assert_eq!(after(2, 1).rows, 1.0);
    assert_eq!(after(100, 1).rows, 1.0);
    let (once, often) = (after(400, 1).rows, after(400, 24).rows);
    assert!(once < 0.1 && often > 0.9, "{once} {often}");
}

#[test]
fn trilateration_fails_on_shuffled_rows() {
    let database = database();
    let mut oracle = ModelOracle::new(&database, Decoded::Values, 1, RowOrder::Shuffled, 1);
    let fractions = trilateration::distances(&database, Decoded::Values, &mut oracle).unwrap();
    assert!(fractions.iter().all(|fraction| fraction.rows == 0.0));
}

#[test]
fn linking_recovers_shuffled_rows_and_larger_databases_take_more_searches() {
    let attack = |m, families| {
        let database = UniformDatabase::uniform(100, 11, m, 1);
        let mut oracle = ModelOracle::new(&database, Decoded::Values, 1, RowOrder::Shuffled, 1);
        linking::attack(&database, 1, families, &mut oracle).unwrap().rows
    };
    assert_eq!(linking::searches_used(11, 1), 12);
    assert!(attack(20, 1) > 0.95);
    assert!(attack(2000, 1) < 0.2);
    assert!(attack(500, 3) > 0.95);
}

#[test]
fn stopping_early_reveals_the_bits_of_the_errata() {
    let leaked = stopping::leaked_bits(3, 3, 3, 1).unwrap();
    assert!((leaked.no_second_phase - 0.551183).abs() < 1e-6, "{leaked:?}");
    assert!((leaked.no_record - 0.967444).abs() < 1e-6, "{leaked:?}");
    assert!(leaked.both >= leaked.no_record && leaked.both <= leaked.no_record + leaked.no_second_phase);
    for immutable in [0, 3] {
        assert_eq!(stopping::leaked_bits(3, 3, 3, immutable).unwrap().both, 0.0);
    }
}

#[test]
fn a_cheating_client_recovers_shuffled_rows_faster_in_larger_fields() {
    let target = radix::Target::uniform(100, 11, 200, 1);
    assert!(target.params.shuffle);
    let after = |name: &str| {
        let scheme = ifonly_core::scheme::named(name).unwrap();
        let (bits, fractions) = radix::attack(&target, scheme, 1).unwrap().unwrap();
        assert_eq!(fractions.last().unwrap().rows, 1.0, "{name}: {fractions:?}");
        (bits, fractions.len())
    };
    for (name, bits, searches) in [
        ("baseline", 17, 8),
        ("diff", 18, 7),
        ("two-phase-4", 17, 8),
        ("dot", 17, 7),
        ("gated", 17, 8),
        ("gated-tables", 21, 6),
        ("single-phase+", 35, 4),
        ("linear-lp", 31, 4),
        ("linear-single-phase+", 35, 3),
    ] {
        let (field, used) = after(name);
        assert!(field == bits && used <= searches, "{name}: {used} searches at {field} bits");
    }
    let published = ifonly_core::scheme::named("lp").unwrap();
    assert!(radix::attack(&target, published, 1).unwrap().is_none());
}

#[test]
fn n_sealed_searches_give_any_client_at_most_n_records() {
    let after = |client| collecting::attack(20, 5, 60, 60, client, 1, &ifonly_lab::progress::NoProgress).unwrap();
    let (honest, cheating) = (after(collecting::AttackClient::Honest), after(collecting::AttackClient::Cheating));
    for after in [&honest, &cheating] {
        assert!((1..).zip(after).all(|(searches, &rows)| rows <= searches), "{after:?}");
    }
    // The cheating client gets more rows than the honest one, and no more than the bound.
    assert!(cheating[59] > honest[59] && cheating[29] >= 25, "{honest:?} {cheating:?}");
}

#[test]
fn masks_slow_down_a_cheating_client() {
    let searches = |name: &str, mask| {
        let mut target = radix::Target::uniform(20, 5, 50, 1);
        target.params.d_min = mask;
        let (_, fractions) = radix::attack(&target, ifonly_core::scheme::named(name).unwrap(), 1).unwrap().unwrap();
        fractions.iter().position(|fraction| fraction.rows > 0.95).map(|index| index + 1)
    };
    for name in ["mask", "linear-mask+"] {
        let (plain, masked) = (searches(name, 1).unwrap(), searches(name, 10).unwrap_or(usize::MAX));
        assert!(plain < masked, "{name}: {plain} {masked}");
    }
}

#[test]
fn trilateration_has_the_same_result_with_the_real_protocol() {
    let database = UniformDatabase::uniform(100, 11, 500, 2);
    for (name, decoded) in [("baseline", Decoded::Values), ("diff", Decoded::Differences)] {
        let mut oracle =
            EngineOracle::new(&database, LeakageScheme::named(name).unwrap(), 1, RowOrder::Fixed, 3).unwrap();
        let fractions = trilateration::distances(&database, decoded, &mut oracle).unwrap();
        assert_eq!((fractions.len(), fractions[5].rows), (6, 1.0), "{name}");
        let mut oracle =
            EngineOracle::new(&database, LeakageScheme::named(name).unwrap(), 1, RowOrder::Shuffled, 3).unwrap();
        let fractions = trilateration::distances(&database, decoded, &mut oracle).unwrap();
        assert!(fractions[5].rows < 0.01, "{name}: {:?}", fractions[5]);
    }
    let mut oracle =
        EngineOracle::new(&database, LeakageScheme::named("single-phase").unwrap(), 1, RowOrder::Fixed, 3).unwrap();
    let fractions = partials::attack(&database, RowOrder::Fixed, &mut oracle).unwrap();
    assert_eq!((fractions.len(), fractions[3].rows), (4, 1.0));
    let mut oracle =
        EngineOracle::new(&database, LeakageScheme::named("mask").unwrap(), 10, RowOrder::Fixed, 3).unwrap();
    let fractions = trilateration::masked(&database, 1, &mut oracle).unwrap();
    assert_eq!((fractions.len(), fractions[11].rows), (12, 1.0));
}

#[test]
fn six_replays_recover_all_rows_with_fixed_pads_and_none_with_bound_pads() {
    let database = database();
    let engine = replay::engine(&database, 1).unwrap();
    let mut unbound = replay::Unbound::new(&engine, &database, 1).unwrap();
    let fractions = replay::attack(&database, &engine, &mut unbound).unwrap();
    assert_eq!((fractions.len() - 1, fractions[6].rows), (6, 1.0));
    let mut bound = replay::Bound::new(&engine, 1);
    let fractions = replay::attack(&database, &engine, &mut bound).unwrap();
    assert!(fractions.iter().all(|fraction| fraction.rows == 0.0 && fraction.values < 0.03), "{fractions:?}");
    assert!(bound.refuses_other_payload(&[FieldElement::ZERO; 11], &[FieldElement::ONE; 11]));
    assert!(!bound.refuses_other_payload(&[FieldElement::ONE; 11], &[FieldElement::ONE; 11]));
}
