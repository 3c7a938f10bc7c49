//! Every backend, thread count and span length gives the answer of the reference evaluator, bit for
//! bit.

use ifonly_algebra::field::{Field, FieldElement, ModulusRule};
use ifonly_algebra::keys::{KeyedRowRandomness, RootKey, TranscriptKeys};
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_algebra::row_function::{OutputExpr, RowFunction, RowFunctionKind, RowProgram, Rows, ScanJob};
use ifonly_algebra::{row_function, shuffle, wire};
use ifonly_scan::{Backend, RowStore, ScanError, ScanQuery, Scanner};
use std::ops::ControlFlow;

struct World {
    random: SeededRandom,
    keys: TranscriptKeys,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = SeededRandom::new(seed);
        let mut tau = [0; 32];
        random.fill(&mut tau);
        World { random, keys: RootKey::new(1, [3; 32]).transcript(&tau) }
    }

    fn rows(&mut self, max_levels: &[u32], count: usize) -> (Rows, RowStore) {
        let rows: Vec<Vec<u16>> = (0..count)
            .map(|_| {
                let edge = self.random.below(4);
                let mut level = |&max_level: &u32| match edge {
                    0 => max_level as u16, // the largest possible sums
                    _ => self.random.below(u64::from(max_level) + 1) as u16,
                };
                max_levels.iter().map(&mut level).collect()
            })
            .collect();
        (Rows::new(max_levels, &rows).unwrap(), RowStore::build(max_levels, &rows).unwrap())
    }

    fn elements(&mut self, field: &Field, count: usize) -> Vec<FieldElement> {
        // Sometimes a vector of the values with the largest digits and sums.
        match self.random.below(4) {
            0 => vec![field.element(field.q() / 2).unwrap(); count],
            1 => vec![field.element((field.q() / 2 + 1) % field.q()).unwrap(); count],
            _ => (0..count).map(|_| field.sample(&mut self.random)).collect(),
        }
    }

    /// An evaluation point that deployments use, or any other.
    fn alpha(&mut self, field: &Field) -> FieldElement {
        match self.random.below(4) {
            0 => FieldElement::ONE,
            1 => field.neg(FieldElement::ONE),
            2 if field.q() > 2 => field.reduce_signed(-2),
            _ => field.reduce(1 + self.random.below(field.q() - 1)),
        }
    }

    fn function(&mut self, field: &Field, max_levels: &[u32], shape: usize) -> RowFunction {
        let d = max_levels.len();
        let constant = field.sample(&mut self.random);
        let kind = match shape {
            0 => RowFunctionKind::Linear { norm: FieldElement::ZERO, slope: self.elements(field, d) },
            1 => RowFunctionKind::Linear { norm: FieldElement::ONE, slope: self.elements(field, d) },
            2 => RowFunctionKind::Linear { norm: field.sample(&mut self.random), slope: self.elements(field, d) },
            3 => RowFunctionKind::Polynomial(vec![self.elements(field, d), self.elements(field, d)]),
            4 => RowFunctionKind::Table(
                max_levels.iter().map(|&max_level| self.elements(field, max_level as usize + 1)).collect(),
            ),
            5 => RowFunctionKind::Polynomial(vec![self.elements(field, d); 3]),
            6 => RowFunctionKind::Polynomial(vec![self.elements(field, d)]),
            _ => RowFunctionKind::Polynomial(vec![]),
        };
        RowFunction { kind, constant }
    }
}

/// The answer of the definition as a packed stream.
fn expected(job: &ScanJob<'_>, rows: &Rows, keys: &KeyedRowRandomness, order: Option<&[u32]>) -> Vec<u8> {
    wire::pack(job.field, &row_function::answer(job, rows, keys, order))
}

/// The answer of a scanner to a query.
fn answer(scanner: &Scanner, store: &RowStore, query: &ScanQuery<'_>) -> Result<Vec<u8>, ScanError> {
    let mut bytes = vec![];
    let mut sink = |span: &[u8]| {
        bytes.extend_from_slice(span);
        ControlFlow::Continue(())
    };
    scanner.answer_query(store, query, &mut sink)?;
    Ok(bytes)
}

fn scanners() -> Vec<(String, Scanner)> {
    let mut scanners = vec![];
    for backend in Backend::available() {
        for (threads, span) in [(1, 1 << 14), (1, 64), (2, 512), (3, 704)] {
            let scanner = Scanner::new().with_backend(backend).with_span_rows(span);
            scanners
                .push((format!("{backend}, {threads} threads, {span} rows"), scanner.with_threads(threads).unwrap()));
        }
    }
    scanners
}

fn check(
    what: &str,
    job: &ScanJob<'_>,
    rows: &Rows,
    store: &RowStore,
    keys: &KeyedRowRandomness,
    scanners: &[(String, Scanner)],
) {
    let expected = expected(job, rows, keys, None);
    for (name, scanner) in scanners {
        let answer = scanner.answer_to_vec(store, job, keys).unwrap();
        assert!(answer == expected, "{what}: {name} differs from the definition");
    }
}

fn field_of(bits: u32, rule: ModulusRule) -> Field {
    Field::above((1 << (bits - 1)) + 1, rule).unwrap()
}

#[test]
fn every_row_function_kind_field_size_and_level_width_equals_the_definition() {
    // Covers every backend and every number of threads.
    let scanners: Vec<_> = scanners().into_iter().step_by(3).collect();
    let mut world = World::new(1);
    for bits in [2, 3, 5, 9, 15, 16, 17, 21, 24, 30, 31, 32, 33, 40, 47, 48, 49, 61, 62] {
        let field = field_of(bits, ModulusRule::Deployment);
        for (max_levels, count) in [
            (vec![255; 32], 700),
            (vec![100; 11], 130),
            (vec![1, 3, 255, 7, 0], 65),
            (vec![1000; 32], 200),
            (vec![32767, 1, 65535], 130),
            (vec![32767; 5], 64),
            (vec![255; 300], 70),
        ] {
            let (rows, store) = world.rows(&max_levels, count);
            for shape in 0..8 {
                let program = RowProgram::new([world.function(&field, &max_levels, shape)], [OutputExpr::Plain(0)]);
                let alpha = world.alpha(&field);
                let kappa = world.random.below(3) as usize;
                let keys = world.keys.rows(&field, 1, kappa, 1);
                let job = ScanJob { field: &field, alpha, kappa, program: &program };
                let what = format!(
                    "{bits} bits, {} features up to {}, shape {shape}, κ={kappa}",
                    max_levels.len(),
                    max_levels[0]
                );
                check(&what, &job, &rows, &store, &keys, &scanners);
            }
        }
    }
}

/// Checks a row function over rows that include the largest levels, with `kappa` pads.
fn check_largest(
    what: &str,
    field: &Field,
    max_levels: &[u32],
    function: RowFunction,
    kappa: usize,
    scanners: &[(String, Scanner)],
) {
    let mut world = World::new(15);
    let (rows, store) = world.rows(max_levels, 70);
    let program = RowProgram::new([function], [OutputExpr::Plain(0)]);
    let keys = world.keys.rows(field, 1, kappa, 1);
    let job = ScanJob { field, alpha: FieldElement::ONE, kappa, program: &program };
    check(what, &job, &rows, &store, &keys, scanners);
}

#[test]
fn the_largest_sums_do_not_overflow() {
    let scanners: Vec<_> = scanners().into_iter().step_by(4).collect();
    let linear = |norm: FieldElement, slope: FieldElement, count: usize| {
        let kind = RowFunctionKind::Linear { norm, slope: vec![slope; count] };
        RowFunction { kind, constant: FieldElement::ZERO }
    };
    // Pads whose sum exceeds 32 bits.
    for bits in [28, 29, 30, 31] {
        let field = field_of(bits, ModulusRule::Deployment);
        let function = linear(FieldElement::ONE, field.reduce(field.q() / 2), 4);
        check_largest(&format!("{bits} bits, 9 pads"), &field, &[255; 4], function, 9, &scanners);
    }
    // The same with features whose sum is nearly as large.
    let field = field_of(29, ModulusRule::Deployment);
    let function = linear(FieldElement::ZERO, field.reduce(32_500), 240);
    check_largest("240 features, 3 pads", &field, &[255; 240], function, 3, &scanners);
    // Levels that exceed signed 16-bit numbers, and levels that do not but have large squares.
    for (max_level, bits) in
        [32_766, 32_768, 65_535, 16_000].into_iter().flat_map(|max_level| [(max_level, 21), (max_level, 61)])
    {
        let field = field_of(bits, ModulusRule::Deployment);
        for norm in [FieldElement::ZERO, FieldElement::ONE] {
            let function = linear(norm, field.reduce(field.q() / 2), 3);
            check_largest(
                &format!("{bits} bits, levels up to {max_level}"),
                &field,
                &[max_level; 3],
                function,
                1,
                &scanners,
            );
        }
    }
    // A sum of exactly 2^31.
    let field = field_of(22, ModulusRule::Deployment);
    let function = linear(FieldElement::ZERO, field.reduce(1 << 14), 8);
    check_largest("exactly 2^31", &field, &[1 << 14; 8], function, 0, &scanners);
    // Second digits that are slightly too large for sums of 16 bits.
    for q in [2_088_971, 2_219_527, 2_350_081, 2_480_663, 2_611_207, 2_741_773, 2_872_327, 3_002_891] {
        let field = Field::new(q).unwrap();
        let function = linear(FieldElement::ONE, field.reduce(field.q() / 2), 16);
        check_largest(&format!("q = {}", field.q()), &field, &[255; 16], function, 1, &scanners);
    }
    // A quotient by q with more bits than the estimate supports. The lower digits are zero, so the
    // sums alone would fit one chunk.
    let field = Field::new(16_777_213).unwrap();
    let function = linear(FieldElement::ZERO, field.reduce(65_280 * 128), 60_000);
    check_largest("60000 features", &field, &[255; 60_000], function, 1, &scanners);
}

fn all_outputs(world: &mut World, field: &Field) -> Vec<Vec<OutputExpr>> {
    let (unit, constant) = (field.sample(&mut world.random), field.sample(&mut world.random));
    vec![
        vec![OutputExpr::Plain(0)],
        vec![OutputExpr::Masked { function: 0, unit }],
        vec![OutputExpr::Difference(0)],
        vec![OutputExpr::Blinded(0), OutputExpr::Hidden { cost: 1, gate: 0 }],
        vec![OutputExpr::Hidden { cost: 1, gate: 0 }],
        vec![OutputExpr::Selected { square: 0, linear: 1, constant }],
        vec![OutputExpr::Plain(1), OutputExpr::Plain(0), OutputExpr::Plain(1), OutputExpr::Difference(1)],
        vec![
            OutputExpr::Masked { function: 1, unit },
            OutputExpr::Blinded(1),
            OutputExpr::Selected { square: 1, linear: 0, constant },
        ],
    ]
}

#[test]
fn every_output_in_stored_and_shuffled_order_equals_the_definition() {
    let scanners = scanners();
    let mut world = World::new(2);
    for (bits, rule) in [
        (1, ModulusRule::Deployment), // q = 2 is even, so Montgomery products do not exist
        (7, ModulusRule::Paper),
        (21, ModulusRule::Deployment),
        (22, ModulusRule::Paper), // nearly half of all words are drawn again
        (31, ModulusRule::Deployment),
        (32, ModulusRule::Deployment),
        (34, ModulusRule::Paper),
        (61, ModulusRule::Deployment),
    ] {
        let field = if bits == 1 { Field::new(2).unwrap() } else { field_of(bits, rule) };
        for (max_levels, count) in [(vec![255; 9], 1500), (vec![300, 2, 1000], 129), (vec![9; 4], 1), (vec![9; 4], 0)] {
            let (rows, store) = world.rows(&max_levels, count);
            let order = shuffle::permutation(&world.keys, count);
            for outputs in all_outputs(&mut world, &field) {
                let shape = world.random.below(5) as usize;
                let functions =
                    [world.function(&field, &max_levels, shape), world.function(&field, &max_levels, (shape + 2) % 5)];
                let mut program = RowProgram::new(functions, outputs.clone());
                if outputs.iter().any(|output| matches!(output, OutputExpr::Selected { .. })) {
                    program.row_shares = (0..count).map(|_| field.sample(&mut world.random)).collect();
                }
                let kappa = world.random.below(4) as usize;
                let d_min = [1, 2, 37, field.q()][world.random.below(4) as usize].min(field.q());
                let keys = world.keys.rows(&field, outputs.len(), kappa, d_min);
                let alpha = world.alpha(&field);
                let job = ScanJob { field: &field, alpha, kappa, program: &program };
                let what = format!("{bits} bits, {count} rows, {outputs:?}");
                check(&what, &job, &rows, &store, &keys, &scanners);
                // Every shuffled answer of a scheme has one row function, or pairs.
                let used = outputs.iter().flat_map(|output| match *output {
                    OutputExpr::Plain(f) | OutputExpr::Difference(f) | OutputExpr::Blinded(f) => vec![f],
                    OutputExpr::Masked { function, .. } => vec![function],
                    OutputExpr::Hidden { .. } | OutputExpr::Selected { .. } => vec![0, 1],
                });
                assert!(used.max() <= Some(1));
                let query = ScanQuery::new(&job, &keys).shuffled_by(Some(&world.keys));
                let shuffled = expected(&job, &rows, &keys, Some(&order));
                for (name, scanner) in &scanners {
                    assert!(answer(scanner, &store, &query).unwrap() == shuffled, "{what}, shuffled: {name}");
                }
            }
        }
    }
}

#[test]
fn a_bucket_shuffle_equals_the_order_of_the_definition() {
    // Above 2^16 rows the order uses buckets, here in three chunks.
    let mut world = World::new(5);
    let max_levels = [255; 3];
    let (rows, store) = world.rows(&max_levels, 200_001);
    let order = shuffle::permutation(&world.keys, 200_001);
    for bits in [21, 61] {
        let field = field_of(bits, ModulusRule::Deployment);
        let functions = [world.function(&field, &max_levels, 3), world.function(&field, &max_levels, 4)];
        for outputs in [
            vec![OutputExpr::Plain(0)],
            vec![OutputExpr::Blinded(0), OutputExpr::Hidden { cost: 1, gate: 0 }],
            vec![OutputExpr::Difference(1)],
        ] {
            let program = RowProgram::new(functions.clone(), outputs);
            let keys = world.keys.rows(&field, program.outputs.len(), 1, 1);
            let job = ScanJob { field: &field, alpha: FieldElement::ONE, kappa: 1, program: &program };
            let query = ScanQuery::new(&job, &keys).shuffled_by(Some(&world.keys));
            let expected = expected(&job, &rows, &keys, Some(&order));
            for (name, scanner) in scanners() {
                assert!(answer(&scanner, &store, &query).unwrap() == expected, "{bits} bits: {name}");
            }
        }
    }
}

#[test]
fn jobs_that_do_not_match_the_rows_are_rejected_and_sinks_can_stop() {
    let mut world = World::new(4);
    let field = field_of(21, ModulusRule::Deployment);
    let (_, store) = world.rows(&[255; 4], 5000);
    let scanner = Scanner::new().with_span_rows(64);
    let keys = world.keys.rows(&field, 1, 1, 1);
    let run = |program: &RowProgram, keys: &KeyedRowRandomness| {
        let job = ScanJob { field: &field, alpha: FieldElement::ONE, kappa: 1, program };
        scanner.answer_to_vec(&store, &job, keys).map(|answer| answer.len())
    };
    let good = RowProgram::new([world.function(&field, &[255; 4], 1)], [OutputExpr::Plain(0)]);
    let narrow = RowProgram::new([world.function(&field, &[255; 3], 1)], [OutputExpr::Plain(0)]);
    let mut selected = good.clone();
    selected.outputs = vec![OutputExpr::Selected { square: 0, linear: 0, constant: FieldElement::ONE }];
    assert_eq!(run(&good, &keys), Ok(5000 * 21 / 8));
    assert_eq!(run(&narrow, &keys), Err(ScanError::Features { function: 0, have: 3, need: 4 }));
    assert_eq!(run(&selected, &keys), Err(ScanError::RowShares { have: 0, need: 5000 }));
    assert_eq!(run(&good, &world.keys.rows(&field, 1, 2, 1)), Err(ScanError::Keys));
    assert_eq!(run(&good, &world.keys.rows(&field, 2, 1, 1)), Err(ScanError::Keys));
    let missing = RowProgram::new([world.function(&field, &[255; 4], 1)], [OutputExpr::Plain(1)]);
    assert!(matches!(run(&missing, &keys), Err(ScanError::NoRowFunction(_))));
    // Three values per row: an answer in stored order only.
    let three = [0, 1, 4].map(|shape| world.function(&field, &[255; 4], shape));
    let three = RowProgram::new(three, [0, 1, 2].map(OutputExpr::Plain));
    let keys_of_three = world.keys.rows(&field, 3, 1, 1);
    let job = ScanJob { field: &field, alpha: FieldElement::ONE, kappa: 1, program: &three };
    let query = ScanQuery::new(&job, &keys_of_three);
    assert!(answer(&scanner, &store, &query).is_ok());
    assert_eq!(answer(&scanner, &store, &query.shuffled_by(Some(&world.keys))), Err(ScanError::RowWidth(3)));

    let job = ScanJob { field: &field, alpha: FieldElement::ONE, kappa: 1, program: &good };
    let mut calls = 0;
    let stopped = scanner.answer(&store, &job, &keys, &mut |_| {
        calls += 1;
        if calls == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((stopped, calls), (Err(ScanError::Stopped), 3));
}

#[test]
fn sums_of_table_entries_may_fill_or_exceed_a_word() {
    let mut world = World::new(12);
    let max_levels = vec![3; 31];
    // 32·q is just below 2^32, or 31·q is; and every entry is as large as possible.
    for (q, fit) in [(134_217_689, 32), (134_217_757, 31)] {
        let field = Field::new(q).unwrap();
        assert!(fit * q < 1 << 32 && (fit + 1) * q > 1 << 32);
        let (rows, store) = world.rows(&max_levels, 200);
        let largest = field.neg(FieldElement::ONE);
        let function = || RowFunction { kind: RowFunctionKind::Table(vec![vec![largest; 4]; 31]), constant: largest };
        let outputs = [OutputExpr::Plain(0), OutputExpr::Blinded(1), OutputExpr::Difference(0)];
        let program = RowProgram::new([function(), function()], outputs);
        let keys = world.keys.rows(&field, 3, 1, 1);
        let job = ScanJob { field: &field, alpha: FieldElement::ONE, kappa: 1, program: &program };
        let order = shuffle::permutation(&world.keys, 200);
        for (order_keys, order) in [(None, None), (Some(&world.keys), Some(&order[..]))] {
            let query = ScanQuery::new(&job, &keys).shuffled_by(order_keys);
            let expected = expected(&job, &rows, &keys, order);
            for backend in Backend::available() {
                let scanner = Scanner::new().with_backend(backend);
                let shuffled = order.is_some();
                assert_eq!(answer(&scanner, &store, &query), Ok(expected.clone()), "{backend}, shuffled {shuffled}");
            }
        }
    }
}

#[test]
fn tables_of_two_row_functions_equal_the_definition_for_two_byte_levels_and_the_smallest_field() {
    let scanners: Vec<_> = scanners().into_iter().step_by(4).collect();
    let mut world = World::new(16);
    // Enough rows that tables are used.
    for max_levels in [vec![300, 700, 2, 400], vec![9, 255, 3]] {
        let (rows, store) = world.rows(&max_levels, 900);
        for field in
            [Field::new(2).unwrap(), field_of(21, ModulusRule::Deployment), field_of(61, ModulusRule::Deployment)]
        {
            let functions = [world.function(&field, &max_levels, 4), world.function(&field, &max_levels, 4)];
            let program = RowProgram::new(functions, [OutputExpr::Blinded(0), OutputExpr::Hidden { cost: 1, gate: 0 }]);
            let keys = world.keys.rows(&field, 2, 1, 1);
            let job = ScanJob { field: &field, alpha: FieldElement::ONE, kappa: 1, program: &program };
            let what = format!("q = {}, levels up to {}", field.q(), max_levels[1]);
            check(&what, &job, &rows, &store, &keys, &scanners);
        }
    }
}
