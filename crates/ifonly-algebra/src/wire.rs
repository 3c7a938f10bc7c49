//! Message encoding: bit-packed field elements and a strict reader.
//!
//! Packed field elements are a little-endian bit stream with ⌈log2 q⌉ bits per element. Zero bits
//! fill the last byte. Unpacking refuses wrong lengths, elements that are not reduced and padding
//! that is not zero. It checks lengths before it allocates.

use crate::field::{Field, FieldElement};

/// Why bytes could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The data is too short or too long.
    #[error("{what}: wrong length in bytes: {have} instead of {need}")]
    Length {
        /// The part of the message.
        what: &'static str,
        /// Number of bytes received.
        have: usize,
        /// Number of bytes expected.
        need: usize,
    },
    /// A field element is not reduced.
    #[error("field element {index} is not below q")]
    NotReduced {
        /// Index of the field element, counted from 0.
        index: usize,
    },
    /// The bits after the last field element are not zero.
    #[error("the padding after the last field element is not zero")]
    Padding,
    /// The protocol version is not supported.
    #[error("protocol version {have} is not supported")]
    Version {
        /// The version received.
        have: u8,
    },
    /// A field of the message has a value that is not permitted.
    #[error("{what}: the value is not permitted")]
    Value {
        /// The field of the message.
        what: &'static str,
    },
}

/// Bytes of `count` packed field elements.
pub fn packed_length(field: &Field, count: usize) -> usize {
    numbers_length(field.bits(), count)
}

/// Bytes of `count` packed numbers of `bits` bits. On overflow `usize::MAX`, which no slice has.
pub fn numbers_length(bits: u32, count: usize) -> usize {
    // Eight numbers take `bits` bytes. The rest is computed separately, so that the computation
    // overflows only if the length does.
    let (eights, rest, bits) = (count / 8, count % 8, bits as usize);
    eights.saturating_mul(bits).saturating_add((rest * bits).div_ceil(8))
}

/// Whether these bytes have the length and the zero padding of `count` packed field elements. Does
/// not check that the elements are reduced.
pub fn has_packed_shape(field: &Field, bytes: &[u8], count: usize) -> bool {
    let spare = count.wrapping_mul(field.bits() as usize) % 8;
    let padded = spare == 0 || bytes.last().is_some_and(|last| last >> spare == 0);
    packed_length(field, count) == bytes.len() && padded
}

/// Packs field elements.
pub fn pack<'a>(field: &Field, elements: impl IntoIterator<Item = &'a FieldElement>) -> Vec<u8> {
    pack_numbers(field.bits(), elements.into_iter().map(|element| element.value()))
}

/// Packs numbers of `bits` bits; `bits` is at most 63.
pub fn pack_numbers(bits: u32, numbers: impl Iterator<Item = u64>) -> Vec<u8> {
    // The capacity is exact for slices. Growing would leave copies of shares in freed memory.
    let mut bytes = Vec::with_capacity(numbers_length(bits, numbers.size_hint().0));
    // At most 7 pending bits and 63 new ones fit into 128.
    let (mut pending, mut pending_bits) = (0u128, 0);
    for number in numbers {
        pending |= u128::from(number) << pending_bits;
        pending_bits += bits;
        while pending_bits >= 8 {
            bytes.push(pending as u8);
            pending >>= 8;
            pending_bits -= 8;
        }
    }
    if pending_bits > 0 {
        bytes.push(pending as u8);
    }
    bytes
}

/// Unpacks exactly `count` field elements. The length of `bytes` must be exact.
pub fn unpack(field: &Field, bytes: &[u8], count: usize) -> Result<Vec<FieldElement>, WireError> {
    let element = |(index, number)| field.element(number).ok_or(WireError::NotReduced { index });
    read_numbers(field.bits(), bytes, count, element)
}

/// Unpacks exactly `count` numbers of `bits` bits, at most 63. The length of `bytes` must be exact.
pub fn unpack_numbers(bits: u32, bytes: &[u8], count: usize) -> Result<Vec<u64>, WireError> {
    read_numbers(bits, bytes, count, |(_, number)| Ok(number))
}

fn read_numbers<T>(
    bits: u32,
    bytes: &[u8],
    count: usize,
    read: impl Fn((usize, u64)) -> Result<T, WireError>,
) -> Result<Vec<T>, WireError> {
    let need = numbers_length(bits, count);
    if bytes.len() != need {
        return Err(WireError::Length { what: "packed field elements", have: bytes.len(), need });
    }
    let mask = (1u128 << bits) - 1;
    let mut numbers = Vec::with_capacity(count);
    let (mut pending, mut pending_bits) = (0u128, 0);
    let mut bytes = bytes.iter();
    for index in 0..count {
        while pending_bits < bits {
            let byte = bytes.next().ok_or(WireError::Value { what: "packed field elements" })?;
            pending |= u128::from(*byte) << pending_bits;
            pending_bits += 8;
        }
        numbers.push(read((index, (pending & mask) as u64))?);
        pending >>= bits;
        pending_bits -= bits;
    }
    if pending != 0 { Err(WireError::Padding) } else { Ok(numbers) }
}

/// Reads the fields of a message in sequence.
#[derive(Debug)]
pub struct WireReader<'a> {
    rest: &'a [u8],
}

impl<'a> WireReader<'a> {
    /// A reader of these bytes.
    pub fn new(bytes: &'a [u8]) -> WireReader<'a> {
        WireReader { rest: bytes }
    }

    /// The next `count` bytes.
    pub fn bytes(&mut self, what: &'static str, count: usize) -> Result<&'a [u8], WireError> {
        let (part, rest) =
            self.rest.split_at_checked(count).ok_or(WireError::Length { what, have: self.rest.len(), need: count })?;
        self.rest = rest;
        Ok(part)
    }

    /// The next bytes as an array.
    pub fn array<const SIZE: usize>(&mut self, what: &'static str) -> Result<[u8; SIZE], WireError> {
        let mut array = [0; SIZE];
        array.copy_from_slice(self.bytes(what, SIZE)?);
        Ok(array)
    }

    /// The next byte.
    pub fn byte(&mut self, what: &'static str) -> Result<u8, WireError> {
        Ok(self.array::<1>(what)?[0])
    }

    /// The next field with a length byte: the byte, then that many bytes.
    pub fn short(&mut self, what: &'static str) -> Result<&'a [u8], WireError> {
        let length = self.byte(what)?;
        self.bytes(what, length.into())
    }

    /// All remaining bytes.
    pub fn rest(self) -> &'a [u8] {
        self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;

    #[test]
    fn packing_round_trips_and_has_the_minimal_length() {
        let mut random = SeededRandom::new(6);
        for q in [2, 3, 5, 127, 257, 65_537, 4_294_967_291, (1 << 61) - 1, 4_611_686_018_427_387_847] {
            let field = Field::new(q).unwrap();
            for count in [0, 1, 2, 7, 8, 9, 100] {
                let elements: Vec<FieldElement> = (0..count).map(|_| field.sample(&mut random)).collect();
                let bytes = pack(&field, &elements);
                assert_eq!(bytes.len(), (count * field.bits() as usize).div_ceil(8));
                assert_eq!(unpack(&field, &bytes, count), Ok(elements));
            }
        }
    }

    #[test]
    fn unpacking_refuses_everything_but_the_canonical_encoding() {
        let field = Field::new(5).unwrap();
        assert_eq!(
            unpack(&field, &[0, 0], 2),
            Err(WireError::Length { what: "packed field elements", have: 2, need: 1 })
        );
        assert_eq!(unpack(&field, &[], 1), Err(WireError::Length { what: "packed field elements", have: 0, need: 1 }));
        assert_eq!(unpack(&field, &[0b101_000], 2), Err(WireError::NotReduced { index: 1 }));
        assert_eq!(unpack(&field, &[0b01_001_000], 2), Err(WireError::Padding));
        assert!(matches!(unpack(&field, &[], usize::MAX), Err(WireError::Length { .. })));
        // The length in bytes overflows.
        let wide = Field::new(65_537).unwrap();
        assert!(matches!(unpack(&wide, &[], usize::MAX), Err(WireError::Length { need: usize::MAX, .. })));
        assert!(matches!(unpack(&wide, &[], usize::MAX / 64), Err(WireError::Length { .. })));
    }

    #[test]
    fn packed_shape_means_exact_length_and_zero_padding() {
        for q in [5, 127, 257, (1 << 61) - 1] {
            let field = Field::new(q).unwrap();
            for count in 0..10 {
                let (bytes, used) = (pack(&field, &vec![FieldElement::ONE; count]), count * field.bits() as usize);
                for length in 0..bytes.len() + 2 {
                    let mut other = bytes.clone();
                    other.resize(length, 0);
                    assert_eq!(
                        has_packed_shape(&field, &other, count),
                        length == bytes.len(),
                        "{q}, {count}, {length}"
                    );
                }
                for bit in used..8 * bytes.len() {
                    let mut other = bytes.clone();
                    other[bit / 8] |= 1 << (bit % 8);
                    assert!(!has_packed_shape(&field, &other, count), "{q}, {count}, bit {bit}");
                }
            }
        }
    }

    #[test]
    fn the_reader_refuses_to_read_past_the_end() {
        let mut reader = WireReader::new(&[2, 9, 8, 7]);
        assert_eq!(reader.short("name").unwrap(), [9, 8]);
        let missing = WireError::Length { what: "four bytes", have: 1, need: 4 };
        assert_eq!(reader.array::<4>("four bytes"), Err(missing));
        assert_eq!(reader.rest(), [7]);
    }
}
