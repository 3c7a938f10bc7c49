//! For the fuzz target `shards`: the messages between a frontend and a shard.

use super::service::ShardIdentity;
use super::wire;
use ifonly_algebra::field::{Field, FieldElement};
use ifonly_algebra::row_function::{RowFunction, RowFunctionKind};
use ifonly_algebra::shuffle::BucketIndices;
use ifonly_scan::parts::{RowFunctions, Selection};

/// Decodes the bytes as every kind of message. A request that is accepted has one encoding.
pub fn decode(bytes: &[u8], max_levels: &[u32]) {
    if let Some((functions, bucket_indices)) = wire::read_values(bytes, max_levels) {
        assert_eq!(wire::values(&functions, bucket_indices.as_ref()).as_slice(), bytes);
    }
    if let Some(entries) = wire::read_sums(bytes, max_levels) {
        assert_eq!(wire::sums(&[&entries]).as_slice(), bytes);
    }
    if let Some((epoch, selection)) = wire::read_records(bytes) {
        assert_eq!(wire::records(epoch, &selection).as_slice(), bytes);
    }
    let _ = serde_json::from_slice::<ShardIdentity>(bytes);
}

/// Valid requests for rows with these maximum levels.
pub fn requests(max_levels: &[u32]) -> Vec<Vec<u8>> {
    let field = Field::new(65_521).expect("the number is prime");
    let elements = |count: usize| vec![FieldElement::ONE; count];
    let tables: Vec<Vec<u64>> = max_levels.iter().map(|&max_level| vec![1; max_level as usize + 1]).collect();
    let kinds = [
        RowFunctionKind::Linear { norm: FieldElement::ONE, slope: elements(max_levels.len()) },
        RowFunctionKind::Polynomial(vec![elements(max_levels.len()); 2]),
        RowFunctionKind::Table(tables.iter().map(|table| elements(table.len())).collect()),
    ];
    let functions = kinds.map(|kind| RowFunction { kind, constant: FieldElement::ONE }).to_vec();
    let functions = RowFunctions::new(&field, functions);
    let tables: Vec<&[u64]> = tables.iter().map(Vec::as_slice).collect();
    [
        wire::values(&functions, None),
        wire::values(&functions, Some(&BucketIndices::from_key([5; 16]))),
        wire::sums(&tables),
        wire::records(7, &Selection::Subset(&[9, 8])),
        wire::records(7, &Selection::Factors { stripes: 2, factors: &[1, 2, 3, 4] }),
    ]
    .map(|request| request.to_vec())
    .into()
}
