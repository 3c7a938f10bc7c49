//! An answer computed from parts has the bits of the answer from one store, for every division of
//! the rows.

use ifonly_algebra::field::{Field, FieldElement};
use ifonly_algebra::keys::{RootKey, TranscriptKeys};
use ifonly_algebra::lifted::{LiftedDraws, LiftedTables};
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_algebra::row_function::{OutputExpr, RowFunction, RowFunctionKind, RowProgram, ScanJob};
use ifonly_algebra::shuffle;
use ifonly_scan::parts::{LocalPart, PartError, RowFunctions, RowPart, RowParts, ValueStream};
use ifonly_scan::{Backend, RowStore, ScanError, ScanQuery, Scanner};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// One and two words per value.
const FIELDS: [u64; 4] = [262_139, (1 << 31) - 1, (1 << 40) - 87, (1 << 61) - 1];

struct World {
    random: SeededRandom,
    keys: TranscriptKeys,
    max_levels: Vec<u32>,
    rows: Vec<Vec<u16>>,
}

impl World {
    fn new(seed: u64, max_levels: &[u32], count: usize) -> World {
        let mut random = SeededRandom::new(seed);
        let mut row = || max_levels.iter().map(|&max_level| random.below(u64::from(max_level) + 1) as u16).collect();
        let rows = (0..count).map(|_| row()).collect();
        World {
            random,
            keys: RootKey::new(1, [3; 32]).transcript(&[seed as u8; 32]),
            max_levels: max_levels.to_vec(),
            rows,
        }
    }

    fn store(&self, rows: Range<usize>) -> Arc<RowStore> {
        Arc::new(RowStore::build(&self.max_levels, &self.rows[rows]).unwrap())
    }

    /// Parts of nearly equal length; the boundaries are inside blocks.
    fn parts(&self, scanner: &Scanner, count: usize) -> RowParts {
        let cut = |part: usize| self.rows.len() * part / count;
        let part = |part: usize| -> Arc<dyn RowPart> {
            Arc::new(LocalPart::new(scanner, self.store(cut(part)..cut(part + 1)), cut(part)))
        };
        RowParts::new((0..count).map(part).collect()).unwrap()
    }

    fn elements(&mut self, field: &Field, count: usize) -> Vec<FieldElement> {
        (0..count).map(|_| field.sample(&mut self.random)).collect()
    }

    fn function(&mut self, field: &Field, shape: usize) -> RowFunction {
        let (d, max_levels) = (self.max_levels.len(), self.max_levels.clone());
        let constant = field.sample(&mut self.random);
        let kind = match shape {
            0 => RowFunctionKind::Linear { norm: FieldElement::ZERO, slope: self.elements(field, d) },
            1 => RowFunctionKind::Linear { norm: FieldElement::ONE, slope: self.elements(field, d) },
            2 => RowFunctionKind::Polynomial(vec![self.elements(field, d), self.elements(field, d)]),
            3 => RowFunctionKind::Polynomial(vec![self.elements(field, d); 3]),
            _ => RowFunctionKind::Table(
                max_levels.iter().map(|&max_level| self.elements(field, max_level as usize + 1)).collect(),
            ),
        };
        RowFunction { kind, constant }
    }

    /// Every kind of output, from one, two and three row functions.
    fn programs(&mut self, field: &Field) -> Vec<RowProgram> {
        let shapes = [[0, 1, 4], [4, 2, 4], [3, 4, 1]];
        let mut programs = vec![];
        for shapes in shapes {
            let mut functions =
                |count: usize| shapes[..count].iter().map(|&s| self.function(field, s)).collect::<Vec<_>>();
            let unit = field.reduce(5);
            programs.push(RowProgram::new(functions(1), [OutputExpr::Plain(0)]));
            programs.push(RowProgram::new(functions(1), [OutputExpr::Masked { function: 0, unit }]));
            programs.push(RowProgram::new(functions(2), [OutputExpr::Difference(0), OutputExpr::Blinded(1)]));
            programs.push(RowProgram::new(functions(2), [OutputExpr::Hidden { cost: 0, gate: 1 }]));
            programs
                .push(RowProgram::new(functions(3), [OutputExpr::Plain(2), OutputExpr::Hidden { cost: 0, gate: 1 }]));
            let mut selected = RowProgram::new(
                functions(2),
                [OutputExpr::Selected { square: 0, linear: 1, constant: FieldElement::ONE }],
            );
            selected.row_shares = self.elements(field, self.rows.len());
            programs.push(selected);
        }
        programs
    }
}

fn bytes(scanner: &Scanner, rows: &RowParts, query: &ScanQuery<'_>) -> Vec<u8> {
    let mut bytes = vec![];
    let result = scanner.answer_parts(rows, query, &mut |span| {
        bytes.extend_from_slice(span);
        ControlFlow::Continue(())
    });
    assert_eq!(result, Ok(()));
    bytes
}

#[test]
fn every_division_gives_the_answer_of_one_store() {
    // Levels of one byte and of two bytes.
    for (seed, max_levels) in [(1, [20, 255, 9, 100, 3]), (2, [20, 700, 9, 100, 3])] {
        let mut world = World::new(seed, &max_levels, 450);
        let scanners = [Scanner::new().with_span_rows(64), Scanner::new().with_threads(3).unwrap().with_span_rows(128)];
        let whole = RowParts::from(world.store(0..450));
        for q in FIELDS {
            let field = Field::new(q).unwrap();
            for (number, program) in world.programs(&field).iter().enumerate() {
                let keys = world.keys.rows(&field, program.outputs.len(), 2, 3);
                let job = ScanJob { field: &field, alpha: field.reduce(7), kappa: 2, program };
                let mut queries = vec![ScanQuery::new(&job, &keys)];
                // The bucket shuffle has no code for three values per row.
                if program.functions.len() < 3 {
                    queries.push(ScanQuery::new(&job, &keys).shuffled_by(Some(&world.keys)));
                }
                for (kind, query) in queries.iter().enumerate() {
                    let right = bytes(&scanners[0], &whole, query);
                    for parts in [1, 2, 3, 7] {
                        for scanner in &scanners {
                            let parts = world.parts(scanner, parts);
                            let what = format!("q = {q}, program {number}, query {kind}, {parts:?}, {scanner:?}");
                            assert!(bytes(scanner, &parts, query) == right, "{what}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_bucket_shuffle_does_not_depend_on_the_parts() {
    let mut world = World::new(5, &[50, 7, 200], 70_001);
    let scanner = Scanner::new().with_threads(2).unwrap();
    let whole = RowParts::from(world.store(0..70_001));
    for q in FIELDS {
        let field = Field::new(q).unwrap();
        let mut programs = world.programs(&field)[..4].to_vec();
        // Two pairs, as in verified answers.
        let four: Vec<RowFunction> = [0, 4, 3, 1].iter().map(|&shape| world.function(&field, shape)).collect();
        programs.push(RowProgram::new(four, [0, 2].map(|cost| OutputExpr::Hidden { cost, gate: cost + 1 })));
        for program in &programs {
            let keys = world.keys.rows(&field, program.outputs.len(), 1, 1);
            let job = ScanJob { field: &field, alpha: FieldElement::ONE, kappa: 1, program };
            let query = ScanQuery::new(&job, &keys).shuffled_by(Some(&world.keys));
            let parts = world.parts(&scanner, 3);
            let answer = bytes(&scanner, &whole, &query);
            assert!(bytes(&scanner, &parts, &query) == answer, "q = {q}");
        }
    }
}

#[test]
fn values_of_a_part_equal_the_row_functions_for_any_read_lengths() {
    let mut world = World::new(7, &[20, 255, 9], 300);
    let scanner = Scanner::new().with_threads(2).unwrap().with_span_rows(64);
    // Backends differ in how they look up tables.
    for (backend, q) in Backend::available().into_iter().flat_map(|backend| FIELDS.map(|q| (backend, q))) {
        let part = LocalPart::new(&scanner.clone().with_backend(backend), world.store(0..300), 50);
        let field = Field::new(q).unwrap();
        let list: Vec<RowFunction> = [0, 4, 3, 4].iter().map(|&shape| world.function(&field, shape)).collect();
        let functions = RowFunctions::new(&field, list.clone());
        for pieces in [vec![300], vec![1, 62, 2, 64, 0, 100, 71], vec![150; 2]] {
            let mut values = part.evaluate(&functions, None).unwrap();
            let mut bytes = vec![];
            for rows in pieces {
                let mut piece = vec![0; rows * functions.bytes_per_row()];
                values.read(&mut piece).unwrap();
                bytes.extend(piece);
            }
            let mut bytes = bytes.chunks_exact(field.bits().div_ceil(8) as usize);
            for (row, levels) in world.rows.iter().enumerate() {
                for function in &list {
                    let value = bytes.next().unwrap().iter().rev().fold(0, |v, &byte| v << 8 | u64::from(byte));
                    assert_eq!(value, function.evaluate(&field, levels).value(), "{backend}, q = {q}, row {row}");
                }
            }
            let beyond = values.read(&mut vec![0; functions.bytes_per_row()]);
            assert_eq!(beyond, Err(PartError::OutOfRange { wanted: 350..351, held: 50..350 }));
        }
    }
}

#[test]
fn values_by_bucket_are_in_stored_order_within_each_bucket() {
    let mut world = World::new(8, &[20, 255, 9], 70_000);
    let scanner = Scanner::new().with_threads(2).unwrap();
    let keys = world.keys.clone();
    let shuffle = shuffle::Shuffle::new(&keys, 70_000);
    let buckets = shuffle::BucketIndices::from_key(*shuffle.bucket_indices().unwrap().key());
    for (q, rows) in [(FIELDS[0], 0..70_000), (FIELDS[2], 1..65_000), (FIELDS[3], 30_001..60_007)] {
        let field = Field::new(q).unwrap();
        let functions = RowFunctions::new(&field, [world.function(&field, 4), world.function(&field, 1)]);
        let part = LocalPart::new(&scanner, world.store(rows.clone()), rows.start);
        let read = |buckets, piece: usize| {
            let mut all = vec![0; rows.len() * functions.bytes_per_row()];
            let mut values = part.evaluate(&functions, buckets).unwrap();
            all.chunks_mut(piece * functions.bytes_per_row()).for_each(|piece| values.read(piece).unwrap());
            assert!(buckets.is_none() || values.read(&mut [0; 4]) == Err(PartError::TooFew));
            all
        };
        // Row widths that the bucket shuffle does not support are rejected.
        let three = RowFunctions::new(&field, [0, 1, 4].map(|shape| world.function(&field, shape)));
        assert!(part.evaluate(&three, Some(&buckets)).is_err() && part.evaluate(&three, None).is_ok());
        let stored = read(None, 1000);
        let mut scatter = shuffle.scatter(rows.clone());
        let mut positions = vec![0; rows.len()];
        scatter.positions(&mut positions);
        let by_bucket = read(Some(&buckets), 1111);
        for (row, &position) in positions.iter().enumerate() {
            let bytes = functions.bytes_per_row();
            assert_eq!(stored[row * bytes..][..bytes], by_bucket[position as usize * bytes..][..bytes], "row {row}");
        }
    }
}

#[test]
fn table_sums_of_parts_equal_those_of_one_store() {
    let world = World::new(3, &[20, 255, 9], 300);
    let tables: Vec<Vec<u64>> = [21, 256, 10].iter().map(|&n| (0..n).map(|v| u64::MAX / (v + 3)).collect()).collect();
    let tables: Vec<&[u64]> = tables.iter().map(Vec::as_slice).collect();
    let sum =
        |row: &Vec<u16>| row.iter().zip(&tables).fold(0u64, |s, (&y, table)| s.wrapping_add(table[usize::from(y)]));
    let sums: Vec<u64> = world.rows.iter().map(sum).collect();
    let (whole, parts) = (RowParts::from(world.store(0..300)), world.parts(&Scanner::new(), 7));
    assert_eq!((whole.table_sums(&tables), parts.table_sums(&tables)), (Ok(sums.clone()), Ok(sums)));
    assert_eq!((whole.rows(), parts.rows()), (300, 300));
    assert_eq!((whole.single_store().map(|store| store.rows()), parts.single_store().is_none()), (Some(300), true));
}

#[test]
fn a_part_rejects_row_functions_for_other_rows() {
    let mut world = World::new(11, &[20, 255], 5);
    let part = LocalPart::new(&Scanner::new(), world.store(0..5), 0);
    let field = Field::new(FIELDS[0]).unwrap();
    let fitting = world.function(&field, 1);
    world.max_levels.push(7);
    let functions = RowFunctions::new(&field, [fitting, world.function(&field, 1)]);
    assert!(matches!(part.evaluate(&functions, None), Err(PartError::Unavailable { .. })));
}

/// Remote rows, whose values arrive over a network, or fail to.
struct Remote {
    rows: Range<usize>,
    max_levels: Vec<u32>,
    response: Result<u8, String>,
}

impl RowPart for Remote {
    fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    fn max_levels(&self) -> &[u32] {
        &self.max_levels
    }

    fn evaluate<'a>(
        &'a self,
        _: &'a RowFunctions,
        _: Option<&shuffle::BucketIndices>,
    ) -> Result<Box<dyn ValueStream + 'a>, PartError> {
        Ok(Box::new(self))
    }

    fn lifted_words<'a>(
        &'a self,
        _: &'a LiftedTables,
        _: &'a LiftedDraws,
        _: Option<&shuffle::BucketIndices>,
    ) -> Result<Box<dyn ValueStream + 'a>, PartError> {
        Ok(Box::new(self))
    }

    fn table_sums(&self, _: &[&[u64]], _: &mut [u64]) -> Result<(), PartError> {
        Err(PartError::TooFew)
    }
}

impl ValueStream for &Remote {
    fn read(&mut self, out: &mut [u8]) -> Result<(), PartError> {
        let rows = self.rows.clone();
        let byte = self.response.clone().map_err(|reason| PartError::Unavailable { rows, reason })?;
        out.fill(byte);
        Ok(())
    }
}

#[test]
fn a_part_that_fails_or_delivers_numbers_above_q_ends_the_answer_with_an_error_that_names_its_rows() {
    let mut world = World::new(9, &[5, 5], 200);
    let scanner = Scanner::new().with_span_rows(64);
    for q in [FIELDS[0], FIELDS[2]] {
        let field = Field::new(q).unwrap();
        let program = RowProgram::new([world.function(&field, 1)], [OutputExpr::Plain(0)]);
        let keys = world.keys.rows(&field, 1, 1, 1);
        let job = ScanJob { field: &field, alpha: FieldElement::ONE, kappa: 1, program: &program };
        let run = |response: Result<u8, String>, shuffled: bool| {
            let remote = Remote { rows: 100..200, max_levels: world.max_levels.clone(), response };
            let parts: Vec<Arc<dyn RowPart>> =
                vec![Arc::new(LocalPart::new(&scanner, world.store(0..100), 0)), Arc::new(remote)];
            let query = ScanQuery::new(&job, &keys).shuffled_by(shuffled.then_some(&world.keys));
            scanner.answer_parts(&RowParts::new(parts).unwrap(), &query, &mut |_| ControlFlow::Continue(()))
        };
        for shuffled in [false, true] {
            assert_eq!(run(Ok(1), shuffled), Ok(()));
            assert_eq!(run(Ok(u8::MAX), shuffled), Err(ScanError::Part(PartError::NotReduced(100..200))));
            let error = run(Err("the shard is down".into()), shuffled).unwrap_err().to_string();
            assert!(error.ends_with("are not available: the shard is down"), "{error}");
        }
    }
}

#[test]
fn parts_that_are_not_a_database_are_rejected() {
    let part = |rows: Range<usize>, max_levels: &[u32]| -> Arc<dyn RowPart> {
        Arc::new(Remote { rows, max_levels: max_levels.to_vec(), response: Ok(0) })
    };
    let refused = |parts| RowParts::new(parts).unwrap_err();
    assert_eq!(refused(vec![]), PartError::NoParts);
    assert_eq!(refused(vec![part(1..5, &[3])]), PartError::Gap { have: 1, need: 0 });
    assert_eq!(refused(vec![part(0..5, &[3]), part(4..9, &[3])]), PartError::Gap { have: 4, need: 5 });
    assert_eq!(refused(vec![part(0..5, &[3]), part(5..9, &[4])]), PartError::Mismatch(5));
    assert!(matches!(refused(vec![part(0..5, &[1 << 20])]), PartError::MaxLevels(_)));
}
