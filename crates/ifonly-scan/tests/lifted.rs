//! Every backend and thread count gives the lifted answer of the reference evaluator, bit for bit.

use ifonly_algebra::field::ModulusRule;
use ifonly_algebra::keys::{RootKey, TranscriptKeys};
use ifonly_algebra::lifted::{self, LiftedDraws, LiftedFormat, LiftedTables};
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_algebra::row_function::Rows;
use ifonly_algebra::shuffle;
use ifonly_scan::parts::{LocalPart, RowPart, RowParts};
use ifonly_scan::{Backend, LiftedQuery, RowStore, ScanError, Scanner};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A database, a query and the keys of its draws.
struct World {
    rows: Rows,
    store: RowStore,
    tables: LiftedTables,
    draws: LiftedDraws,
    keys: TranscriptKeys,
}

impl World {
    fn new(format: &LiftedFormat, max_levels: &[u32], count: usize, seed: u64) -> World {
        let mut random = SeededRandom::new(seed);
        let mut below = |n: u32| random.below(u64::from(n)) as u32;
        let rows: Vec<Vec<u16>> = (0..count)
            .map(|row| {
                // The largest levels and sums occur too.
                let level = |&max_level: &u32| if row % 7 == 0 { max_level } else { below(max_level + 1) };
                max_levels.iter().map(level).map(|level| level as u16).collect()
            })
            .collect();
        let lengths: Vec<usize> = max_levels.iter().map(|&max_level| max_level as usize + 1).collect();
        let entries = max_levels
            .iter()
            .flat_map(|&max_level| 0..=max_level)
            .zip(0u32..)
            .map(
                |(level, index)| {
                    if level % 5 == 0 { format.product() - 1 - index % 3 } else { below(format.product()) }
                },
            )
            .collect();
        let keys = RootKey::new(1, [3; 32]).transcript(&[seed as u8; 32]);
        World {
            store: RowStore::build(max_levels, &rows).unwrap(),
            rows: Rows::new(max_levels, &rows).unwrap(),
            tables: LiftedTables::from_entries(format, lengths, entries).unwrap(),
            draws: keys.lifted(format),
            keys,
        }
    }

    fn query(&self, shuffled: bool) -> LiftedQuery<'_> {
        LiftedQuery { tables: &self.tables, draws: &self.draws, order_keys: shuffled.then_some(&self.keys) }
    }

    fn expected(&self, shuffled: bool) -> Vec<u8> {
        let order = shuffled.then(|| shuffle::permutation(&self.keys, self.store.rows()));
        let words = lifted::answer(&self.tables, &self.rows, &self.draws, order.as_deref());
        words.into_iter().flat_map(u32::to_le_bytes).collect()
    }
}

fn answer(scanner: &Scanner, world: &World, shuffled: bool) -> Vec<u8> {
    let mut bytes = vec![];
    let mut sink = |part: &[u8]| {
        bytes.extend_from_slice(part);
        ControlFlow::Continue(())
    };
    scanner.answer_lifted(&world.store, &world.query(shuffled), &mut sink).unwrap();
    bytes
}

fn deployment(features: usize) -> LiftedFormat {
    LiftedFormat::for_database(features, 1 << 20, ModulusRule::Deployment).unwrap()
}

#[test]
fn every_backend_gives_the_words_of_the_definition() {
    let wide = |features: usize, max_level: u32| (deployment(features), vec![max_level; features]);
    let databases = [
        // Tables of 128, 256, 512 and 1024 bytes, of one entry, and too long for byte look-ups.
        (deployment(9), vec![1000, 3, 127, 128, 255, 0, 511, 1023, 1024]),
        (deployment(3), vec![40_000, 65_535, 1]),
        (deployment(7), vec![255, 1, 127, 128, 0, 9, 77]),
        (deployment(1), vec![1]),
        wide(30, 255),
        wide(60, 300),
        wide(126, 20),
        wide(250, 700),
        // Fewer bits for costs than fit into a word.
        (LiftedFormat::new(16_381, 13).unwrap(), vec![300, 7, 5]),
        (LiftedFormat::new(131_071, 61).unwrap(), vec![20; 60]),
        (LiftedFormat::new(131_071, 251).unwrap(), vec![20; 250]),
        (LiftedFormat::new(13, 11).unwrap(), vec![20; 10]),
        // Fields of the paper's rule: the definition computes all words.
        (LiftedFormat::new(5, 3).unwrap(), vec![3, 7]),
        (LiftedFormat::new(10_007, 13).unwrap(), vec![300, 7, 5]),
    ];
    for (seed, (format, max_levels)) in databases.iter().enumerate() {
        for count in [0, 1, 63, 64, 65, 1024, 1025, 3000] {
            let world = World::new(format, max_levels, count, seed as u64);
            for shuffled in [false, true] {
                let expected = world.expected(shuffled);
                for backend in Backend::available() {
                    let found = answer(&Scanner::new().with_backend(backend), &world, shuffled);
                    assert!(found == expected, "{backend}, database {seed}, {count} rows, shuffled: {shuffled}");
                }
            }
        }
    }
}

#[test]
fn shuffled_answers_do_not_depend_on_the_number_of_threads() {
    // Above 2^16 rows the permutation has buckets.
    let world = World::new(&deployment(3), &[1000, 9, 30], 70_000, 5);
    for shuffled in [false, true] {
        let expected = world.expected(shuffled);
        for threads in [1, 2, 3] {
            let scanner = Scanner::new().with_threads(threads).unwrap();
            assert!(answer(&scanner, &world, shuffled) == expected, "{threads} threads, shuffled: {shuffled}");
        }
    }
}

#[test]
fn parts_of_a_database_give_the_words_of_the_whole() {
    for (count, cuts) in [(3000, &[0, 100, 100, 2047, 3000][..]), (70_000, &[0, 65_000, 70_000])] {
        let world = World::new(&deployment(3), &[1000, 9, 30], count, 8);
        for threads in [1, 2] {
            let scanner = Scanner::new().with_threads(threads).unwrap();
            let part = |cut: &[usize]| -> Arc<dyn RowPart> {
                Arc::new(LocalPart::new(&scanner, Arc::new(world.store.cut(cut[0]..cut[1])), cut[0]))
            };
            let parts = RowParts::new(cuts.windows(2).map(part).collect()).unwrap();
            for shuffled in [false, true] {
                let mut bytes = vec![];
                let mut sink = |part: &[u8]| {
                    bytes.extend_from_slice(part);
                    ControlFlow::Continue(())
                };
                scanner.answer_lifted_parts(&parts, &world.query(shuffled), &mut sink).unwrap();
                assert!(bytes == world.expected(shuffled), "{count} rows, shuffled: {shuffled}");
                let stopped =
                    scanner.answer_lifted_parts(&parts, &world.query(shuffled), &mut |_| ControlFlow::Break(()));
                assert_eq!(stopped, Err(ScanError::Stopped));
            }
        }
    }
}

#[test]
fn a_sink_can_stop_an_answer() {
    let world = World::new(&deployment(3), &[1000, 9, 30], 70_000, 6);
    for (threads, shuffled) in [(1, false), (1, true), (2, false), (2, true)] {
        let scanner = Scanner::new().with_threads(threads).unwrap();
        let mut spans = 0;
        let mut sink = |_: &[u8]| {
            spans += 1;
            if spans == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let result = scanner.answer_lifted(&world.store, &world.query(shuffled), &mut sink);
        assert_eq!((result, spans), (Err(ScanError::Stopped), 2));
    }
}

#[test]
fn tables_that_do_not_match_the_rows_are_refused() {
    let world = World::new(&deployment(2), &[9, 3], 10, 7);
    let refused = |max_levels: &[u32]| {
        let store = RowStore::build(max_levels, [vec![0; max_levels.len()]]).unwrap();
        let result = Scanner::new().answer_lifted(&store, &world.query(false), &mut |_| ControlFlow::Continue(()));
        result.unwrap_err().to_string()
    };
    assert_eq!(refused(&[9, 4]), "the table of feature 1 has length 4 instead of 5");
    assert_eq!(refused(&[9]), "row function 0 has feature count 2, but the rows have feature count 1");
}
