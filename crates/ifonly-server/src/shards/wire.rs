//! What a front says to a shard: forms to evaluate, tables to sum, records to add up. Lengths
//! follow from what both know (the ranges of the features, the rows of the part), so a request has
//! none of its own and must be exactly as long as it should be.
//!
//! ```text
//! values   q (8)  0, or 1 and the key of the digits (1 + 16)  number of forms (1)  each: constant (8) shape (1) coefficients (8 each)
//! sums     all tables' entries (8 each)
//! records  key epoch (4)  stripes (4), 0 for a subset  bits or factors of the part's rows
//! ```
//! Numbers are little-endian. Shapes: 0 linear (norm, then a slope per feature), 1 polynomial (a
//! byte with the degree first, then by degree and feature), 2 table (every entry of every feature).

use ifonly_algebra::field::{Field, FieldElement};
use ifonly_algebra::row_function::{RowFunction, RowFunctionKind};
use ifonly_algebra::shuffle::BucketIndices;
use ifonly_scan::parts::{RowFunctions, Selection};
use zeroize::Zeroizing;

/// More forms than any program has.
const MOST_FORMS: u8 = 32;
/// More stripes than records have: at most one for every server, and those are the elements of
/// GF(2^8) other than zero.
const MOST_STRIPES: usize = 255;
/// A higher degree than any scheme's.
const MOST_DEGREE: u8 = 64;

/// Shares on their way: wiped when they have been sent.
pub(crate) type ZeroizedBytes = Zeroizing<Vec<u8>>;

/// Forms, and for a shuffled answer the digits of its order.
pub(crate) fn values(functions: &RowFunctions, digits: Option<&BucketIndices>) -> ZeroizedBytes {
    let mut bytes = Zeroizing::new(Vec::with_capacity(
        32 + functions.row_functions().iter().map(|function| 9 + 8 * size(function)).sum::<usize>(),
    ));
    bytes.extend(functions.field().q().to_le_bytes());
    match digits {
        None => bytes.push(0),
        Some(digits) => {
            bytes.push(1);
            bytes.extend(digits.key());
        }
    }
    // A program has a few forms.
    bytes.push(functions.row_functions().len() as u8);
    let push = |bytes: &mut ZeroizedBytes, elements: &mut dyn Iterator<Item = &FieldElement>| {
        elements.for_each(|element| bytes.extend(element.value().to_le_bytes()));
    };
    for function in functions.row_functions() {
        push(&mut bytes, &mut std::iter::once(&function.constant));
        match &function.shape {
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

fn size(function: &RowFunction) -> usize {
    match &function.shape {
        RowFunctionKind::Linear { slope, .. } => 1 + slope.len(),
        RowFunctionKind::Polynomial(vectors) | RowFunctionKind::Table(vectors) => {
            1 + vectors.iter().map(Vec::len).sum::<usize>()
        }
    }
}

/// The most bytes of such a request for rows of these ranges.
pub(crate) fn longest_values(ranges: &[u32]) -> usize {
    let entries: usize = ranges.iter().map(|&range| range as usize + 1).sum();
    let function = 16 + 8 * entries.max((1 + usize::from(MOST_DEGREE)) * ranges.len());
    32 + usize::from(MOST_FORMS) * function
}

/// What [`values`] wrote, for rows of these ranges; `None` if it is anything else.
pub(crate) fn read_values(bytes: &[u8], ranges: &[u32]) -> Option<(RowFunctions, Option<BucketIndices>)> {
    let mut reader = RequestReader(bytes);
    let field = Field::new(reader.number()?).ok()?;
    let digits = match reader.byte()? {
        0 => None,
        1 => Some(BucketIndices::from_key(*reader.take(16)?.first_chunk()?)),
        _ => return None,
    };
    let count = reader.byte().filter(|count| (1..=MOST_FORMS).contains(count))?;
    let features = ranges.len();
    let mut functions = vec![];
    for _ in 0..count {
        let constant = reader.element(&field)?;
        let shape = match reader.byte()? {
            0 => RowFunctionKind::Linear { norm: reader.element(&field)?, slope: reader.elements(&field, features)? },
            1 => {
                let degree = reader.byte().filter(|degree| (1..=MOST_DEGREE).contains(degree))?;
                RowFunctionKind::Polynomial(
                    (0..degree).map(|_| reader.elements(&field, features)).collect::<Option<_>>()?,
                )
            }
            2 => RowFunctionKind::Table(
                ranges.iter().map(|&range| reader.elements(&field, range as usize + 1)).collect::<Option<_>>()?,
            ),
            _ => return None,
        };
        functions.push(RowFunction { shape, constant });
    }
    reader.0.is_empty().then(|| (RowFunctions::new(&field, functions), digits))
}

/// Tables to sum.
pub(crate) fn sums(tables: &[&[u64]]) -> ZeroizedBytes {
    Zeroizing::new(tables.iter().flat_map(|table| *table).flat_map(|entry| entry.to_le_bytes()).collect())
}

/// What [`sums`] wrote, all tables one after another.
pub(crate) fn read_sums(bytes: &[u8], ranges: &[u32]) -> Option<Zeroizing<Vec<u64>>> {
    let entries: usize = ranges.iter().map(|&range| range as usize + 1).sum();
    let (words, rest) = bytes.as_chunks::<8>();
    (words.len() == entries && rest.is_empty())
        .then(|| Zeroizing::new(words.iter().map(|word| u64::from_le_bytes(*word)).collect()))
}

/// Records to add up.
pub(crate) fn records(epoch: u32, selection: &Selection<'_>) -> ZeroizedBytes {
    let (stripes, bytes) = match *selection {
        Selection::Subset(bits) => (0, bits),
        Selection::Factors { stripes, factors } => (stripes, factors),
    };
    Zeroizing::new([&epoch.to_le_bytes()[..], &(stripes as u32).to_le_bytes(), bytes].concat())
}

/// What [`records`] wrote; whether the selection is one of the part's rows is for the records to
/// say.
pub(crate) fn read_records(bytes: &[u8]) -> Option<(u32, Selection<'_>)> {
    let mut reader = RequestReader(bytes);
    let mut word = || Some(u32::from_le_bytes(*reader.take(4)?.first_chunk()?));
    let (epoch, stripes) = (word()?, word()? as usize);
    let selection = match stripes {
        0 => Selection::Subset(reader.0),
        1..=MOST_STRIPES => Selection::Factors { stripes, factors: reader.0 },
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

    fn element(&mut self, field: &Field) -> Option<FieldElement> {
        field.element(self.number()?)
    }

    /// The length is compared before anything is allocated.
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
    fn forms_come_back_and_nothing_else_is_taken_for_them() {
        let mut random = SeededRandom::new(4);
        let field = Field::new(65_521).unwrap();
        let ranges = [3, 0, 9];
        let mut elements = |count: usize| (0..count).map(|_| field.sample(&mut random)).collect::<Vec<_>>();
        let shapes = [
            RowFunctionKind::Linear { norm: FieldElement::ONE, slope: elements(3) },
            RowFunctionKind::Polynomial(vec![elements(3), elements(3)]),
            RowFunctionKind::Table(vec![elements(4), elements(1), elements(10)]),
        ];
        let functions: Vec<RowFunction> =
            shapes.map(|shape| RowFunction { shape, constant: field.reduce(77) }).to_vec();
        let digits = BucketIndices::from_key([5; 16]);
        for digits in [None, Some(&digits)] {
            let bytes = values(&RowFunctions::new(&field, functions.clone()), digits);
            assert!(bytes.len() <= longest_values(&ranges));
            let (back, found) = read_values(&bytes, &ranges).unwrap();
            assert_eq!((back.row_functions(), back.field()), (&functions[..], &field));
            assert_eq!(found.as_ref().map(BucketIndices::key), digits.map(BucketIndices::key));
            // Cut, longer, or for rows of other ranges.
            assert!((0..bytes.len()).all(|length| read_values(&bytes[..length], &ranges).is_none()));
            assert!(read_values(&[&bytes[..], &[0]].concat(), &ranges).is_none());
            assert!(read_values(&bytes, &[3, 0, 8]).is_none() && read_values(&bytes, &[3, 0]).is_none());
            // A symbol that is not below q, a field that is none.
            let mut wrong = bytes.to_vec();
            wrong[0] = 0;
            assert!(read_values(&wrong, &ranges).is_none());
            let last = bytes.len() - 8;
            assert!(read_values(&[&bytes[..last], &[255; 8]].concat(), &ranges).is_none());
        }
        let mut rubbish = vec![0; 200];
        for _ in 0..2000 {
            random.fill(&mut rubbish);
            rubbish[..8].copy_from_slice(&65_521u64.to_le_bytes());
            assert!(read_values(&rubbish, &ranges).is_none());
        }
    }

    #[test]
    fn tables_and_selections_come_back() {
        let tables: [&[u64]; 2] = [&[1, 2], &[u64::MAX]];
        assert_eq!(read_sums(&sums(&tables), &[1, 0]).unwrap().as_slice(), [1, 2, u64::MAX]);
        assert!(read_sums(&sums(&tables), &[1, 1]).is_none() && read_sums(&[0; 9], &[0]).is_none());
        let subset = records(7, &Selection::Subset(&[9, 8]));
        assert!(matches!(read_records(&subset), Some((7, Selection::Subset([9, 8])))));
        let factors = records(7, &Selection::Factors { stripes: 2, factors: &[1, 2, 3, 4] });
        assert!(matches!(read_records(&factors), Some((7, Selection::Factors { stripes: 2, factors: [1, 2, 3, 4] }))));
        assert!(read_records(&[0; 7]).is_none());
        // Stripes as no front cuts them would only take memory.
        let cut_into = |stripes| records(7, &Selection::Factors { stripes, factors: &[1; 512] });
        assert!(read_records(&cut_into(255)).is_some() && read_records(&cut_into(256)).is_none());
        assert!(read_records(&cut_into(u32::MAX as usize)).is_none());
    }
}
