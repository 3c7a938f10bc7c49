//! A row store returns its rows, also from its serialised form, and rejects every invalid input.

use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_algebra::row_function::RowsError;
use ifonly_scan::FileBytes;
use ifonly_scan::row_store::{LevelBytes, RowStore, RowWriter, StoreError};
use std::fs::File;

fn sample(max_levels: &[u32], count: usize) -> Vec<Vec<u16>> {
    let mut random = SeededRandom::new(count as u64);
    let mut row = || max_levels.iter().map(|&range| random.below(u64::from(range) + 1) as u16).collect();
    (0..count).map(|_| row()).collect()
}

fn serialised(store: &RowStore) -> Vec<u8> {
    let mut bytes = vec![];
    store.write_to(&mut bytes).unwrap();
    bytes
}

/// A file to which the rows were written one by one.
fn written(max_levels: &[u32], rows: &[Vec<u16>]) -> (tempfile::TempDir, File) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows");
    let mut writer = RowWriter::new(File::create(&path).unwrap(), max_levels, rows.len()).unwrap();
    rows.iter().for_each(|row| writer.push(row).unwrap());
    writer.finish().unwrap();
    (dir, File::open(&path).unwrap())
}

#[test]
fn rows_survive_building_writing_and_mapping() {
    for (max_levels, level_bytes) in [
        (vec![255, 1, 0, 17, 255], LevelBytes::One),
        (vec![9; 32], LevelBytes::One),
        (vec![256, 1, 65535], LevelBytes::Two),
    ] {
        for count in [0, 1, 63, 64, 65, 1000] {
            let rows = sample(&max_levels, count);
            // Without a size hint the builder has to grow.
            let built = RowStore::build(&max_levels, rows.iter().filter(|_| true)).unwrap();
            let bytes = serialised(&built);
            let opened = RowStore::from_bytes(bytes.clone()).unwrap();
            assert_eq!(serialised(&opened), bytes);
            assert_eq!(RowStore::serialised_length(&max_levels, count), Some(bytes.len()));
            let (_dir, file) = written(&max_levels, &rows);
            let mapped = RowStore::from_bytes(FileBytes::open(&file, bytes.len()).unwrap()).unwrap();
            assert_eq!(serialised(&mapped), bytes);
            assert!(mapped.levels().eq(rows.iter().cloned()));
            for store in [built, opened, mapped] {
                assert_eq!((store.rows(), store.features()), (count, max_levels.len()));
                assert_eq!((store.max_levels(), store.level_bytes()), (&max_levels[..], level_bytes));
                let mut levels = vec![];
                for (i, row) in rows.iter().enumerate() {
                    store.read_row(i, &mut levels);
                    assert_eq!(&levels, row);
                }
            }
        }
    }
}

#[test]
fn the_error_names_the_row_and_feature_that_are_wrong() {
    let refused = |max_levels: &[u32], rows: &[Vec<u16>]| RowStore::build(max_levels, rows).unwrap_err().to_string();
    assert_eq!(refused(&[2, 2], &[vec![1, 2], vec![3, 0]]), "row 1, feature 0: level 3 is above the max level 2");
    assert_eq!(refused(&[2], &[vec![1, 2]]), "row 0: the number of features is 2 instead of 1");
    assert_eq!(refused(&[], &[]), "the number of features is 0, but must be from 1 to 65536");
    assert_eq!(refused(&[65536], &[]), "feature 0 has max level 65536, but the largest is 65535");
}

#[test]
fn a_writer_accepts_the_announced_number_of_valid_rows() {
    let mut writer = RowWriter::new(vec![], &[2, 2], 3).unwrap();
    writer.push(&[0, 1]).unwrap();
    assert_eq!(writer.push(&[0, 3]).unwrap_err().to_string(), "row 1, feature 1: level 3 is above the max level 2");
    writer.push(&[2, 2]).unwrap();
    assert!(matches!(writer.finish(), Err(StoreError::Count { have: 2, need: 3 })));
    // Space for the header and half a block.
    let mut room = [0; 64 + 128];
    let mut writer = RowWriter::new(&mut room[..], &[2, 2], 3).unwrap();
    (0..3).for_each(|_| writer.push(&[1, 1]).unwrap());
    assert!(matches!(writer.finish(), Err(StoreError::Io(_))));
}

#[test]
fn truncated_bytes_and_changed_headers_are_detected() {
    let max_levels = [200, 3, 255, 7, 100];
    let rows = sample(&max_levels, 70);
    let bytes = serialised(&RowStore::build(&max_levels, &rows).unwrap());
    for length in 0..bytes.len() {
        assert!(RowStore::from_bytes(bytes[..length].to_vec()).is_err(), "cut at {length}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(matches!(RowStore::from_bytes(longer), Err(StoreError::Length { .. })));
    // A changed bit of the header is rejected, or makes a valid header for the same bytes.
    let mut accepted = 0;
    for bit in 0..64 * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        if let Ok(store) = RowStore::from_bytes(changed.clone()) {
            accepted += 1;
            assert_eq!(serialised(&store), changed, "bit {bit}");
            let mut levels = vec![];
            for row in 0..store.rows() {
                store.read_row(row, &mut levels);
                assert!(levels.iter().zip(store.max_levels()).all(|(&level, &range)| u32::from(level) <= range));
            }
        }
    }
    assert!(accepted < 40, "{accepted} changed headers passed");
}

#[test]
fn levels_above_the_max_level_and_nonzero_padding_are_rejected() {
    let max_levels = [200, 3, 255, 7, 100];
    let bytes = serialised(&RowStore::build(&max_levels, sample(&max_levels, 70)).unwrap());
    let header = bytes.len() - 2 * 2 * 64 * 4;
    let with = |at: usize, value: u8| {
        let mut changed = bytes.clone();
        changed[header + at] = value;
        RowStore::from_bytes(changed)
    };
    let level = with(4 * 5 + 1, 4).unwrap_err();
    assert!(
        matches!(level, StoreError::Row(RowsError::Level { row: 5, feature: 1, level: 4, max_level: 3 })),
        "{level}"
    );
    // Byte 1 of the second group is padding; so is row 6 of the second block.
    assert!(matches!(with(256 + 1, 1), Err(StoreError::Padding)));
    assert!(matches!(with(512 + 4 * 6, 1), Err(StoreError::Padding)));
    assert!(with(4 * 5 + 1, 3).is_ok());
}

#[test]
fn every_level_is_checked_against_the_max_level_of_its_feature() {
    for (max_levels, count) in [(vec![200, 3, 254, 7, 100], 1), (vec![300, 3, 1000, 65534, 7], 2)] {
        let bytes = serialised(&RowStore::build(&max_levels, sample(&max_levels, 200)).unwrap());
        let (per_group, blocks) = (4 / count, 200usize.div_ceil(64));
        let block = max_levels.len().div_ceil(per_group) * 64 * 4;
        let header = bytes.len() - blocks * block;
        for row in [0, 1, 63, 64, 127, 190, 199] {
            for (k, &range) in max_levels.iter().enumerate() {
                let at = header + row / 64 * block + (k / per_group * 64 + row % 64) * 4 + k % per_group * count;
                let mut changed = bytes.clone();
                changed[at..at + count].copy_from_slice(&(range + 1).to_le_bytes()[..count]);
                let refused = RowStore::from_bytes(changed).unwrap_err().to_string();
                assert_eq!(
                    refused,
                    format!("row {row}, feature {k}: level {} is above the max level {range}", range + 1)
                );
            }
        }
    }
}

#[test]
fn a_cut_has_exactly_its_rows() {
    for max_levels in [vec![255, 1, 0, 17, 255], vec![256, 1, 65535]] {
        let rows = sample(&max_levels, 300);
        let store = RowStore::build(&max_levels, &rows).unwrap();
        for cut in [0..300, 0..0, 63..65, 100..299] {
            let expected = serialised(&RowStore::build(&max_levels, &rows[cut.clone()]).unwrap());
            assert_eq!(serialised(&store.cut(cut.clone())), expected, "{cut:?}");
        }
    }
}

#[test]
fn sizes_are_accepted_up_to_their_limits() {
    let max_levels = vec![1; 1 << 16];
    let widest = serialised(&RowStore::build(&max_levels, [[1u16; 1 << 16]]).unwrap());
    assert_eq!(RowStore::from_bytes(widest).unwrap().features(), 1 << 16);
    assert_eq!(RowStore::serialised_length(&vec![1; (1 << 16) + 1], 0), None);
    assert!(RowStore::serialised_length(&[1], u32::MAX as usize).is_some());
    assert_eq!(RowStore::serialised_length(&[1], 1 << 32), None);
    // A header that is too short for its max levels, in a file of the expected length.
    let mut short = serialised(&RowStore::build(&[1; 8], [[0u16; 8]; 0]).unwrap());
    assert_eq!(short.len(), 64);
    short[24..28].copy_from_slice(&10u32.to_le_bytes());
    assert!(matches!(RowStore::from_bytes(short), Err(StoreError::Truncated)));
}
