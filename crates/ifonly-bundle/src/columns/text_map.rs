//! A map from texts that costs about one cache miss per look-up: a build looks up every cell of a
//! table.
//!
//! Texts of up to 15 bytes, nearly all values, are numbers of 128 bits, which are hashed and
//! compared at once and lie in the map itself; longer ones are strings. The author of a table is
//! the institution that serves it, so nobody floods the map but themselves.

use std::collections::HashMap;

/// Values by text.
#[derive(Clone)]
pub(crate) struct TextMap<T> {
    short: HashMap<u128, T, ahash::RandomState>,
    long: HashMap<String, T, ahash::RandomState>,
}

impl<T> Default for TextMap<T> {
    fn default() -> TextMap<T> {
        TextMap { short: HashMap::default(), long: HashMap::default() }
    }
}

impl<T> TextMap<T> {
    pub(crate) fn len(&self) -> usize {
        self.short.len() + self.long.len()
    }

    pub(crate) fn get(&self, text: &str) -> Option<&T> {
        match packed(text) {
            Some(short) => self.short.get(&short),
            None => self.long.get(text),
        }
    }

    pub(crate) fn get_mut(&mut self, text: &str) -> Option<&mut T> {
        match packed(text) {
            Some(short) => self.short.get_mut(&short),
            None => self.long.get_mut(text),
        }
    }

    pub(crate) fn insert(&mut self, text: &str, value: T) {
        match packed(text) {
            Some(short) => self.short.insert(short, value),
            None => self.long.insert(text.to_owned(), value),
        };
    }

    /// All of them, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (String, &T)> {
        let long = self.long.iter().map(|(text, value)| (text.clone(), value));
        self.short.iter().map(|(short, value)| (unpacked(*short), value)).chain(long)
    }
}

/// The bytes of a short text, and in the highest byte their number.
fn packed(text: &str) -> Option<u128> {
    let mut bytes = [0; 16];
    bytes[..15].get_mut(..text.len())?.copy_from_slice(text.as_bytes());
    bytes[15] = text.len() as u8;
    Some(u128::from_le_bytes(bytes))
}

fn unpacked(short: u128) -> String {
    let bytes = short.to_le_bytes();
    // They come from a text.
    String::from_utf8_lossy(&bytes[..usize::from(bytes[15]).min(15)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_all_lengths_are_found_and_come_back() {
        let texts =
            ["", "\0", "a", "a\0", "fifteen letters", "sixteen letters.", "ünïcödé", "a much longer text than that"];
        let mut map = TextMap::default();
        for (place, text) in texts.iter().enumerate() {
            assert!(map.get(text).is_none());
            map.insert(text, place);
        }
        assert_eq!(map.len(), texts.len());
        for (place, text) in texts.iter().enumerate() {
            assert_eq!(map.get(text), Some(&place));
            assert_eq!(map.get_mut(text), Some(&mut place.clone()));
        }
        let mut back: Vec<String> = map.iter().map(|(text, _)| text).collect();
        let mut sorted = texts.map(str::to_owned).to_vec();
        back.sort();
        sorted.sort();
        assert_eq!(back, sorted);
    }
}
