//! Bytes on the wire: bit-packed symbols and a strict reader.
//!
//! Symbols are a plain little-endian bit stream, ⌈log2 q⌉ bits each, the last byte filled up with
//! zeros. Reading refuses trailing bytes, symbols that are not reduced and padding that is not
//! zero, and checks lengths before it allocates.

use crate::field::{Field, FieldElement};

/// Why bytes are not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The message ends early or goes on after its end.
    #[error("{what}: {have} bytes instead of {need}")]
    Length {
        /// Which part.
        what: &'static str,
        /// Bytes there are.
        have: usize,
        /// Bytes there should be.
        need: usize,
    },
    /// A symbol is q or more.
    #[error("symbol {place} is not below q")]
    NotReduced {
        /// Counted from 0.
        place: usize,
    },
    /// The bits after the last symbol are not zero.
    #[error("the padding after the last symbol is not zero")]
    Padding,
    /// Another version of the protocol.
    #[error("version {have} of the protocol is not spoken here")]
    Version {
        /// As received.
        have: u8,
    },
    /// A field of the message has an impossible value.
    #[error("{what} has an impossible value")]
    Value {
        /// Which field.
        what: &'static str,
    },
}

/// Bytes of `count` packed symbols; `None` if that number does not fit.
pub fn packed_length(field: &Field, count: usize) -> Option<usize> {
    numbers_length(field.bits(), count)
}

/// Bytes of `count` packed numbers of so many bits; `None` if that number does not fit.
pub fn numbers_length(bits: u32, count: usize) -> Option<usize> {
    // Eight numbers take `bits` bytes; apart from the rest, so that nothing overflows before the
    // length itself would.
    let (eights, rest, bits) = (count / 8, count % 8, bits as usize);
    eights.checked_mul(bits)?.checked_add((rest * bits).div_ceil(8))
}

/// Whether `count` symbols may be packed in these bytes: their number is right and the padding is
/// zero.
pub fn has_packed_shape(field: &Field, bytes: &[u8], count: usize) -> bool {
    let spare = count.wrapping_mul(field.bits() as usize) % 8;
    let padded = spare == 0 || bytes.last().is_some_and(|last| last >> spare == 0);
    packed_length(field, count) == Some(bytes.len()) && padded
}

/// The packed symbols.
pub fn pack<'a>(field: &Field, elements: impl IntoIterator<Item = &'a FieldElement>) -> Vec<u8> {
    pack_numbers(field.bits(), elements.into_iter().map(|element| element.value()))
}

/// Numbers of so many bits, at most 63, packed.
pub fn pack_numbers(bits: u32, numbers: impl Iterator<Item = u64>) -> Vec<u8> {
    // Exact for slices, so that no copy of a share is left behind by growing.
    let mut bytes = Vec::with_capacity(numbers_length(bits, numbers.size_hint().0).unwrap_or(0));
    // 63 bits and at most 7 left over fit into 128.
    let (mut pending, mut held) = (0u128, 0);
    for number in numbers {
        pending |= u128::from(number) << held;
        held += bits;
        while held >= 8 {
            bytes.push(pending as u8);
            pending >>= 8;
            held -= 8;
        }
    }
    if held > 0 {
        bytes.push(pending as u8);
    }
    bytes
}

/// Exactly `count` symbols from exactly as many bytes as they need.
pub fn unpack(field: &Field, bytes: &[u8], count: usize) -> Result<Vec<FieldElement>, WireError> {
    let element = |(place, number)| field.element(number).ok_or(WireError::NotReduced { place });
    read_numbers(field.bits(), bytes, count, element)
}

/// Exactly `count` numbers of so many bits, at most 63, from exactly as many bytes as they need.
pub fn unpack_numbers(bits: u32, bytes: &[u8], count: usize) -> Result<Vec<u64>, WireError> {
    read_numbers(bits, bytes, count, |(_, number)| Ok(number))
}

fn read_numbers<T>(
    bits: u32,
    bytes: &[u8],
    count: usize,
    read: impl Fn((usize, u64)) -> Result<T, WireError>,
) -> Result<Vec<T>, WireError> {
    let need = numbers_length(bits, count).ok_or(WireError::Value { what: "the number of symbols" })?;
    if bytes.len() != need {
        return Err(WireError::Length { what: "packed symbols", have: bytes.len(), need });
    }
    let mask = (1u128 << bits) - 1;
    let mut numbers = Vec::with_capacity(count);
    let (mut pending, mut held) = (0u128, 0);
    let mut bytes = bytes.iter();
    for place in 0..count {
        while held < bits {
            let byte = bytes.next().ok_or(WireError::Value { what: "packed symbols" })?;
            pending |= u128::from(*byte) << held;
            held += 8;
        }
        numbers.push(read((place, (pending & mask) as u64))?);
        pending >>= bits;
        held -= bits;
    }
    if pending != 0 { Err(WireError::Padding) } else { Ok(numbers) }
}

/// Reads a message from front to back.
#[derive(Debug)]
pub struct WireReader<'a> {
    rest: &'a [u8],
}

impl<'a> WireReader<'a> {
    /// Over these bytes.
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

    /// A length byte and as many bytes.
    pub fn short(&mut self, what: &'static str) -> Result<&'a [u8], WireError> {
        let length = self.byte(what)?;
        self.bytes(what, length.into())
    }

    /// Everything that is left.
    pub fn rest(self) -> &'a [u8] {
        self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;

    #[test]
    fn packing_round_trips_and_is_as_short_as_it_can_be() {
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
    fn unpacking_refuses_everything_but_the_packed_form() {
        let field = Field::new(5).unwrap();
        assert_eq!(unpack(&field, &[0, 0], 2), Err(WireError::Length { what: "packed symbols", have: 2, need: 1 }));
        assert_eq!(unpack(&field, &[], 1), Err(WireError::Length { what: "packed symbols", have: 0, need: 1 }));
        assert_eq!(unpack(&field, &[0b101_000], 2), Err(WireError::NotReduced { place: 1 }));
        assert_eq!(unpack(&field, &[0b01_001_000], 2), Err(WireError::Padding));
        assert!(matches!(unpack(&field, &[], usize::MAX), Err(WireError::Length { .. })));
        // More bytes than can be counted.
        let wide = Field::new(65_537).unwrap();
        assert_eq!(unpack(&wide, &[], usize::MAX), Err(WireError::Value { what: "the number of symbols" }));
        assert!(matches!(unpack(&wide, &[], usize::MAX / 64), Err(WireError::Length { .. })));
    }

    #[test]
    fn the_shape_of_packed_symbols_is_their_number_of_bytes_and_their_zero_padding() {
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
    fn the_reader_stops_at_the_end() {
        let mut reader = WireReader::new(&[2, 9, 8, 7]);
        assert_eq!(reader.short("name").unwrap(), [9, 8]);
        let missing = WireError::Length { what: "four bytes", have: 1, need: 4 };
        assert_eq!(reader.array::<4>("four bytes"), Err(missing));
        assert_eq!(reader.rest(), [7]);
    }
}
