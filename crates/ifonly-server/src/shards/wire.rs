//! Requests of a frontend to a shard: row functions to evaluate, lifted words to compute, tables to
//! sum, records to add.
//!
//! Lengths follow from the maximum levels of the features and the rows of the part, which both
//! sides know. So a request has no length fields, except for the number of row functions, and must
//! have exactly the expected length.
//!
//! ```text
//! values   q (8)
//!          0 (1), or 1 (1) and the key of the bucket indices (16)
//!          number of row functions (1)
//!          for each: constant (8), kind (1), coefficients (8 each)
//! words    q (8), p (8), key of the draws (16)
//!          0 (1), or 1 (1) and the key of the bucket indices (16)
//!          joined entries of all tables (4 each)
//! sums     entries of all tables (8 each)
//! records  key epoch (4), stripes (4; 0 for a subset), bits or factors of the rows of the part
//! ```
//! Numbers are little-endian; lengths in bytes are in parentheses. Kinds: 0 is linear (norm, then a
//! slope per feature), 1 is polynomial (degree (1), then coefficients by degree and feature), 2 is
//! table (every entry of every feature).

use ifonly_algebra::field::{Field, FieldElement};
use ifonly_algebra::lifted::{LiftedDraws, LiftedFormat, LiftedTables};
use ifonly_algebra::row_function::{RowFunction, RowFunctionKind};
use ifonly_algebra::shuffle::BucketIndices;
use ifonly_scan::parts::{RowFunctions, Selection};
use zeroize::Zeroizing;

/// Maximum number of row functions; no row program has more.
const MAX_ROW_FUNCTIONS: u8 = 32;
/// Maximum number of stripes of a record: one per server, and there are at most as many servers as
/// non-zero elements of GF(2^8).
const MAX_STRIPES: usize = 255;
/// Maximum degree of a polynomial row function; no scheme has a higher one.
const MAX_DEGREE: u8 = 64;

/// An encoded request. It contains secret shares, so it is zeroized after sending.
pub(crate) type ZeroizedBytes = Zeroizing<Vec<u8>>;

/// Encodes row functions and, for a shuffled answer, the bucket indices of its row order.
pub(crate) fn values(functions: &RowFunctions, bucket_indices: Option<&BucketIndices>) -> ZeroizedBytes {
    let mut bytes = Zeroizing::new(Vec::with_capacity(
        32 + functions.row_functions().iter().map(|function| 9 + 8 * size(function)).sum::<usize>(),
    ));
    bytes.extend(functions.field().q().to_le_bytes());
    push_buckets(&mut bytes, bucket_indices);
    // No truncation: a row program has at most `MAX_ROW_FUNCTIONS` functions.
    bytes.push(functions.row_functions().len() as u8);
    let push = |bytes: &mut ZeroizedBytes, elements: &mut dyn Iterator<Item = &FieldElement>| {
        elements.for_each(|element| bytes.extend(element.value().to_le_bytes()));
    };
    for function in functions.row_functions() {
        push(&mut bytes, &mut std::iter::once(&function.constant));
        match &function.kind {
            RowFunctionKind::Linear { norm, slope } => {
                bytes.push(0);
                push(&mut bytes, &mut std::iter::once(norm).chain(slope));
            }
            RowFunctionKind::Polynomial(coefficients) => {
                bytes.extend([1, coefficients.len() as u8]);
                push(&mut bytes, &mut coefficients.iter().flatten());
            }
            RowFunctionKind::Table(tables) => {
                bytes.push(2);
                push(&mut bytes, &mut tables.iter().flatten());
            }
        }
    }
    bytes
}

fn push_buckets(bytes: &mut ZeroizedBytes, bucket_indices: Option<&BucketIndices>) {
    match bucket_indices {
        None => bytes.push(0),
        Some(bucket_indices) => {
            bytes.push(1);
            bytes.extend(bucket_indices.key());
        }
    }
}

/// Encodes tables and draws of a lifted gate and, for a shuffled answer, the bucket indices.
pub(crate) fn words(
    tables: &LiftedTables,
    draws: &LiftedDraws,
    bucket_indices: Option<&BucketIndices>,
) -> ZeroizedBytes {
    let format = tables.format();
    let mut bytes = Zeroizing::new(Vec::with_capacity(64 + 4 * tables.entries().len()));
    bytes.extend(format.cost_field().q().to_le_bytes());
    bytes.extend(format.gate_field().q().to_le_bytes());
    bytes.extend(draws.key());
    push_buckets(&mut bytes, bucket_indices);
    bytes.extend(tables.entries().iter().flat_map(|entry| entry.to_le_bytes()));
    bytes
}

/// The content of a `words` request.
pub(crate) type LiftedRequest = (LiftedTables, LiftedDraws, Option<BucketIndices>);

/// Decodes the output of [`words`] for rows with these maximum levels; `None` if it is malformed.
pub(crate) fn read_words(bytes: &[u8], max_levels: &[u32]) -> Option<LiftedRequest> {
    let mut reader = RequestReader(bytes);
    let format = LiftedFormat::new(reader.number()?, reader.number()?).ok()?;
    let draws = LiftedDraws::from_key(format.clone(), *reader.take(16)?.first_chunk()?);
    let bucket_indices = reader.buckets()?;
    let lengths: Vec<usize> = max_levels.iter().map(|&most| most as usize + 1).collect();
    let entries = reader.take(4 * lengths.iter().sum::<usize>())?;
    let entries = entries.as_chunks().0.iter().map(|entry| u32::from_le_bytes(*entry)).collect();
    let tables = LiftedTables::from_entries(&format, lengths, entries)?;
    reader.0.is_empty().then_some((tables, draws, bucket_indices))
}

fn size(function: &RowFunction) -> usize {
    match &function.kind {
        RowFunctionKind::Linear { slope, .. } => 1 + slope.len(),
        RowFunctionKind::Polynomial(vectors) | RowFunctionKind::Table(vectors) => {
            1 + vectors.iter().map(Vec::len).sum::<usize>()
        }
    }
}

/// Maximum length of a `values` request for rows with these maximum levels.
pub(crate) fn longest_values(max_levels: &[u32]) -> usize {
    let entries: usize = max_levels.iter().map(|&max_level| max_level as usize + 1).sum();
    let function = 16 + 8 * entries.max((1 + usize::from(MAX_DEGREE)) * max_levels.len());
    32 + usize::from(MAX_ROW_FUNCTIONS) * function
}

/// Decodes the output of [`values`] for rows with these maximum levels; `None` if it is malformed.
pub(crate) fn read_values(bytes: &[u8], max_levels: &[u32]) -> Option<(RowFunctions, Option<BucketIndices>)> {
    let mut reader = RequestReader(bytes);
    let field = Field::new(reader.number()?).ok()?;
    let bucket_indices = reader.buckets()?;
    let count = reader.byte().filter(|count| (1..=MAX_ROW_FUNCTIONS).contains(count))?;
    let features = max_levels.len();
    let mut functions = vec![];
    for _ in 0..count {
        let constant = reader.element(&field)?;
        let kind = match reader.byte()? {
            0 => RowFunctionKind::Linear { norm: reader.element(&field)?, slope: reader.elements(&field, features)? },
            1 => {
                let degree = reader.byte().filter(|degree| (1..=MAX_DEGREE).contains(degree))?;
                RowFunctionKind::Polynomial(
                    (0..degree).map(|_| reader.elements(&field, features)).collect::<Option<_>>()?,
                )
            }
            2 => RowFunctionKind::Table(
                max_levels
                    .iter()
                    .map(|&max_level| reader.elements(&field, max_level as usize + 1))
                    .collect::<Option<_>>()?,
            ),
            _ => return None,
        };
        functions.push(RowFunction { kind, constant });
    }
    reader.0.is_empty().then(|| (RowFunctions::new(&field, functions), bucket_indices))
}

/// Encodes tables to sum.
pub(crate) fn sums(tables: &[&[u64]]) -> ZeroizedBytes {
    Zeroizing::new(tables.iter().flat_map(|table| *table).flat_map(|entry| entry.to_le_bytes()).collect())
}

/// Decodes the output of [`sums`]: the entries of all tables.
pub(crate) fn read_sums(bytes: &[u8], max_levels: &[u32]) -> Option<Zeroizing<Vec<u64>>> {
    let entries: usize = max_levels.iter().map(|&max_level| max_level as usize + 1).sum();
    let (words, rest) = bytes.as_chunks::<8>();
    (words.len() == entries && rest.is_empty())
        .then(|| Zeroizing::new(words.iter().map(|word| u64::from_le_bytes(*word)).collect()))
}

/// Encodes a selection of records.
pub(crate) fn records(epoch: u32, selection: &Selection<'_>) -> ZeroizedBytes {
    let (stripes, bytes) = match *selection {
        Selection::Subset(bits) => (0, bits),
        Selection::Factors { stripes, factors } => (stripes, factors),
    };
    Zeroizing::new([&epoch.to_le_bytes()[..], &(stripes as u32).to_le_bytes(), bytes].concat())
}

/// Decodes the output of [`records`]. Does not check the length of the selection;
/// [`ifonly_scan::parts::RecordPart::sum`] does.
pub(crate) fn read_records(bytes: &[u8]) -> Option<(u32, Selection<'_>)> {
    let mut reader = RequestReader(bytes);
    let mut word = || Some(u32::from_le_bytes(*reader.take(4)?.first_chunk()?));
    let (epoch, stripes) = (word()?, word()? as usize);
    let selection = match stripes {
        0 => Selection::Subset(reader.0),
        1..=MAX_STRIPES => Selection::Factors { stripes, factors: reader.0 },
        _ => return None,
    };
    Some((epoch, selection))
}

struct RequestReader<'a>(&'a [u8]);

impl<'a> RequestReader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(length)?;
        self.0 = tail;
        Some(head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(*self.take(8)?.first_chunk()?))
    }

    /// The key of the bucket indices, if there is one.
    fn buckets(&mut self) -> Option<Option<BucketIndices>> {
        Some(match self.byte()? {
            0 => None,
            1 => Some(BucketIndices::from_key(*self.take(16)?.first_chunk()?)),
            _ => return None,
        })
    }

    fn element(&mut self, field: &Field) -> Option<FieldElement> {
        field.element(self.number()?)
    }

    /// Checks the length before it allocates memory.
    fn elements(&mut self, field: &Field, count: usize) -> Option<Vec<FieldElement>> {
        let bytes = self.take(count.checked_mul(8)?)?;
        bytes.as_chunks::<8>().0.iter().map(|word| field.element(u64::from_le_bytes(*word))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ifonly_algebra::random::{RandomSource, SeededRandom};

    #[test]
    fn row_functions_round_trip_and_malformed_requests_are_refused() {
        let mut random = SeededRandom::new(4);
        let field = Field::new(65_521).unwrap();
        let max_levels = [3, 0, 9];
        let mut elements = |count: usize| (0..count).map(|_| field.sample(&mut random)).collect::<Vec<_>>();
        let kinds = [
            RowFunctionKind::Linear { norm: FieldElement::ONE, slope: elements(3) },
            RowFunctionKind::Polynomial(vec![elements(3), elements(3)]),
            RowFunctionKind::Table(vec![elements(4), elements(1), elements(10)]),
        ];
        let functions: Vec<RowFunction> = kinds.map(|kind| RowFunction { kind, constant: field.reduce(77) }).to_vec();
        let bucket_indices = BucketIndices::from_key([5; 16]);
        for bucket_indices in [None, Some(&bucket_indices)] {
            let bytes = values(&RowFunctions::new(&field, functions.clone()), bucket_indices);
            assert!(bytes.len() <= longest_values(&max_levels));
            let (back, found) = read_values(&bytes, &max_levels).unwrap();
            assert_eq!((back.row_functions(), back.field()), (&functions[..], &field));
            assert_eq!(found.as_ref().map(BucketIndices::key), bucket_indices.map(BucketIndices::key));
            // Truncated, too long, or for other maximum levels.
            assert!((0..bytes.len()).all(|length| read_values(&bytes[..length], &max_levels).is_none()));
            assert!(read_values(&[&bytes[..], &[0]].concat(), &max_levels).is_none());
            assert!(read_values(&bytes, &[3, 0, 8]).is_none() && read_values(&bytes, &[3, 0]).is_none());
            // An invalid field, and a field element that is not below q.
            let mut wrong = bytes.to_vec();
            wrong[0] = 0;
            assert!(read_values(&wrong, &max_levels).is_none());
            let last = bytes.len() - 8;
            assert!(read_values(&[&bytes[..last], &[255; 8]].concat(), &max_levels).is_none());
        }
        let mut noise = vec![0; 200];
        for _ in 0..2000 {
            random.fill(&mut noise);
            noise[..8].copy_from_slice(&65_521u64.to_le_bytes());
            assert!(read_values(&noise, &max_levels).is_none());
        }
    }

    #[test]
    fn lifted_tables_round_trip_and_malformed_requests_are_refused() {
        let format = LiftedFormat::new(10_007, 13).unwrap();
        let max_levels = [3, 0, 9];
        let entries: Vec<u32> = (0..15).map(|entry| format.product() - 1 - entry).collect();
        let tables = LiftedTables::from_entries(&format, vec![4, 1, 10], entries).unwrap();
        let draws = LiftedDraws::from_key(format, [9; 16]);
        let bucket_indices = BucketIndices::from_key([5; 16]);
        for bucket_indices in [None, Some(&bucket_indices)] {
            let bytes = words(&tables, &draws, bucket_indices);
            assert!(bytes.len() <= longest_values(&max_levels));
            let (back, keys, found) = read_words(&bytes, &max_levels).unwrap();
            assert!(back == tables && keys.key() == draws.key() && keys.format() == draws.format());
            assert_eq!(found.as_ref().map(BucketIndices::key), bucket_indices.map(BucketIndices::key));
            assert!((0..bytes.len()).all(|length| read_words(&bytes[..length], &max_levels).is_none()));
            assert!(read_words(&[&bytes[..], &[0]].concat(), &max_levels).is_none());
            assert!(read_words(&bytes, &[3, 0, 8]).is_none());
            // An invalid modulus, and an entry that is not below q·p.
            let mut wrong = bytes.to_vec();
            wrong[8] = 4;
            assert!(read_words(&wrong, &max_levels).is_none());
            let last = bytes.len() - 4;
            assert!(read_words(&[&bytes[..last], &[255; 4]].concat(), &max_levels).is_none());
        }
    }

    #[test]
    fn tables_and_selections_round_trip() {
        let tables: [&[u64]; 2] = [&[1, 2], &[u64::MAX]];
        assert_eq!(read_sums(&sums(&tables), &[1, 0]).unwrap().as_slice(), [1, 2, u64::MAX]);
        assert!(read_sums(&sums(&tables), &[1, 1]).is_none() && read_sums(&[0; 9], &[0]).is_none());
        let subset = records(7, &Selection::Subset(&[9, 8]));
        assert!(matches!(read_records(&subset), Some((7, Selection::Subset([9, 8])))));
        let factors = records(7, &Selection::Factors { stripes: 2, factors: &[1, 2, 3, 4] });
        assert!(matches!(read_records(&factors), Some((7, Selection::Factors { stripes: 2, factors: [1, 2, 3, 4] }))));
        assert!(read_records(&[0; 7]).is_none());
        // More stripes than any frontend requests would only use memory.
        let with_stripes = |stripes| records(7, &Selection::Factors { stripes, factors: &[1; 512] });
        assert!(read_records(&with_stripes(255)).is_some() && read_records(&with_stripes(256)).is_none());
        assert!(read_records(&with_stripes(u32::MAX as usize)).is_none());
    }
}
