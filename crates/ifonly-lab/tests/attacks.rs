//! What the attacks reach, and what stops them.

use ifonly_algebra::field::FieldElement;
use ifonly_lab::attack::{
    EngineOracle, ModelOracle, UniformDatabase, collecting, linking, partials, radix, replay, stopping, trilateration,
};
use ifonly_lab::leakage::{Decoded, LeakageScheme, RowOrder};

fn world() -> UniformDatabase {
    UniformDatabase::uniform(100, 11, 500, 1)
}

#[test]
fn six_sessions_of_baseline_or_diff_give_the_whole_database() {
    let world = world();
    for decoded in [Decoded::Values, Decoded::Differences] {
        let mut sessions = ModelOracle::new(&world, decoded, 1, RowOrder::Fixed, 1);
        let shares = trilateration::distances(&world, decoded, &mut sessions).unwrap();
        assert_eq!(shares.len(), 6);
        assert_eq!(shares[5].rows, 1.0);
        assert!(shares[4].rows < 0.01);
    }
}

#[test]
fn four_sessions_of_single_phase_do_and_a_shuffle_only_doubles_them() {
    let world = world();
    let mut sessions = ModelOracle::new(&world, Decoded::Partials, 1, RowOrder::Fixed, 1);
    let shares = partials::run_sessions(&world, RowOrder::Fixed, &mut sessions).unwrap();
    assert_eq!((shares.len(), shares[3].rows), (4, 1.0));
    let mut sessions = ModelOracle::new(&world, Decoded::Partials, 1, RowOrder::Shuffled, 1);
    let shares = partials::run_sessions(&world, RowOrder::Shuffled, &mut sessions).unwrap();
    assert_eq!(shares.len(), 7);
    assert!(shares[6].rows > 0.9, "{:?}", shares[6]);
}

#[test]
fn masks_cost_the_attacker_sessions_and_wide_ones_more() {
    let world = world();
    let after = |d_min, rounds| {
        let mut sessions = ModelOracle::new(&world, Decoded::Masked, d_min, RowOrder::Fixed, 1);
        *trilateration::masked(&world, rounds, &mut sessions).unwrap().last().unwrap()
    };
    assert_eq!(after(2, 1).rows, 1.0);
    assert_eq!(after(100, 1).rows, 1.0);
    let (once, often) = (after(400, 1).rows, after(400, 24).rows);
    assert!(once < 0.1 && often > 0.9, "{once} {often}");
}

#[test]
fn trilateration_fails_on_shuffled_rows() {
    let world = world();
    let mut sessions = ModelOracle::new(&world, Decoded::Values, 1, RowOrder::Shuffled, 1);
    let shares = trilateration::distances(&world, Decoded::Values, &mut sessions).unwrap();
    assert!(shares.iter().all(|share| share.rows == 0.0));
}

#[test]
fn linking_undoes_the_shuffle_of_a_small_database_and_more_sessions_of_a_larger_one() {
    let attack = |m, families| {
        let world = UniformDatabase::uniform(100, 11, m, 1);
        let mut sessions = ModelOracle::new(&world, Decoded::Values, 1, RowOrder::Shuffled, 1);
        linking::attack(&world, 1, families, &mut sessions).unwrap().rows
    };
    assert_eq!(linking::sessions_used(11, 1), 12);
    assert!(attack(20, 1) > 0.95);
    assert!(attack(2000, 1) < 0.2);
    assert!(attack(500, 3) > 0.95);
}

#[test]
fn stopping_early_tells_what_the_errata_say() {
    let told = stopping::leaked_bits(3, 3, 3, 1).unwrap();
    // The errata cut 0.967 to two digits.
    assert!((told.no_second_phase - 0.551183).abs() < 1e-6, "{told:?}");
    assert!((told.no_record - 0.967444).abs() < 1e-6, "{told:?}");
    assert!(told.both >= told.no_record && told.both <= told.no_record + told.no_second_phase);
    for immutable in [0, 3] {
        assert_eq!(stopping::leaked_bits(3, 3, 3, immutable).unwrap().both, 0.0);
    }
}

#[test]
fn a_cheating_client_reads_shuffled_rows_and_larger_fields_serve_it() {
    let target = radix::Target::uniform(100, 11, 200, 1);
    assert!(target.params.shuffle);
    let after = |name: &str| {
        let scheme = ifonly_core::scheme::named(name).unwrap();
        let (bits, shares) = radix::attack(&target, scheme, 1).unwrap().unwrap();
        assert_eq!(shares.last().unwrap().rows, 1.0, "{name}: {shares:?}");
        (bits, shares.len())
    };
    for (name, bits, searches) in [
        ("baseline", 17, 8),
        ("diff", 18, 7),
        ("two-phase-4", 17, 8),
        ("dot", 17, 7),
        ("gated", 17, 8),
        ("gated-tables", 21, 5),
        ("single-phase+", 37, 4),
        ("linear-lp", 31, 4),
        ("linear-single-phase+", 37, 3),
    ] {
        let (field, used) = after(name);
        assert!(field == bits && used <= searches, "{name}: {used} searches at {field} bits");
    }
    let published = ifonly_core::scheme::named("lp").unwrap();
    assert!(radix::attack(&target, published, 1).unwrap().is_none());
}

#[test]
fn a_sealed_search_gives_one_record_to_honest_and_cheating_clients() {
    let after = |client| collecting::attack(20, 5, 60, 60, client, 1, &ifonly_lab::progress::NoProgress).unwrap();
    let (honest, cheating) = (after(collecting::AttackClient::Honest), after(collecting::AttackClient::Cheating));
    for after in [&honest, &cheating] {
        assert!((1..).zip(after).all(|(searches, &rows)| rows <= searches), "{after:?}");
    }
    // The cheat is one: it has more of the database, and no more than the bound.
    assert!(cheating[59] > honest[59] && cheating[29] >= 25, "{honest:?} {cheating:?}");
}

#[test]
fn masks_slow_a_cheating_client_down() {
    let searches = |name: &str, mask| {
        let mut target = radix::Target::uniform(20, 5, 50, 1);
        target.params.d_min = mask;
        let (_, shares) = radix::attack(&target, ifonly_core::scheme::named(name).unwrap(), 1).unwrap().unwrap();
        shares.iter().position(|share| share.rows > 0.95).map(|place| place + 1)
    };
    for name in ["mask", "linear-mask+"] {
        let (plain, masked) = (searches(name, 1).unwrap(), searches(name, 10).unwrap_or(usize::MAX));
        assert!(plain < masked, "{name}: {plain} {masked}");
    }
}

#[test]
fn the_real_protocol_gives_trilateration_what_the_model_gives() {
    let world = UniformDatabase::uniform(100, 11, 500, 2);
    for (name, decoded) in [("baseline", Decoded::Values), ("diff", Decoded::Differences)] {
        let mut sessions =
            EngineOracle::new(&world, LeakageScheme::named(name).unwrap(), 1, RowOrder::Fixed, 3).unwrap();
        let shares = trilateration::distances(&world, decoded, &mut sessions).unwrap();
        assert_eq!((shares.len(), shares[5].rows), (6, 1.0), "{name}");
        let mut sessions =
            EngineOracle::new(&world, LeakageScheme::named(name).unwrap(), 1, RowOrder::Shuffled, 3).unwrap();
        let shares = trilateration::distances(&world, decoded, &mut sessions).unwrap();
        assert!(shares[5].rows < 0.01, "{name}: {:?}", shares[5]);
    }
    let mut sessions =
        EngineOracle::new(&world, LeakageScheme::named("single-phase").unwrap(), 1, RowOrder::Fixed, 3).unwrap();
    let shares = partials::run_sessions(&world, RowOrder::Fixed, &mut sessions).unwrap();
    assert_eq!((shares.len(), shares[3].rows), (4, 1.0));
    let mut sessions =
        EngineOracle::new(&world, LeakageScheme::named("mask").unwrap(), 10, RowOrder::Fixed, 3).unwrap();
    let shares = trilateration::masked(&world, 1, &mut sessions).unwrap();
    assert_eq!((shares.len(), shares[11].rows), (12, 1.0));
}

#[test]
fn six_replays_empty_a_server_without_binding_and_none_of_ours() {
    let world = world();
    let engine = replay::engine(&world, 1).unwrap();
    let mut unbound = replay::Unbound::new(&engine, &world, 1).unwrap();
    let shares = replay::attack(&world, &engine, &mut unbound).unwrap();
    assert_eq!((shares.len() - 1, shares[6].rows), (6, 1.0));
    let mut bound = replay::Bound::new(&engine, 1);
    let shares = replay::attack(&world, &engine, &mut bound).unwrap();
    assert!(shares.iter().all(|share| share.rows == 0.0 && share.values < 0.03), "{shares:?}");
    assert!(bound.refuses_other_payload(&[FieldElement::ZERO; 11], &[FieldElement::ONE; 11]));
    assert!(!bound.refuses_other_payload(&[FieldElement::ONE; 11], &[FieldElement::ONE; 11]));
}
