//! A map with text keys and about one cache miss per lookup. A build looks up every cell of a
//! table.
//!
//! Texts of up to 15 bytes, which are nearly all values, are stored as 128-bit integers in the map
//! itself, where they are hashed and compared at once. Longer texts are strings. Resistance to
//! hash-flooding attacks is not needed: the table comes from the institution that builds the
//! bundle.

use std::collections::HashMap;

/// A map from texts to values.
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

    /// All entries, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (String, &T)> {
        let long = self.long.iter().map(|(text, value)| (text.clone(), value));
        self.short.iter().map(|(short, value)| (unpacked(*short), value)).chain(long)
    }
}

/// A text of up to 15 bytes as an integer; the highest byte has its length. `None` for longer
/// texts.
fn packed(text: &str) -> Option<u128> {
    let mut bytes = [0; 16];
    bytes[..15].get_mut(..text.len())?.copy_from_slice(text.as_bytes());
    bytes[15] = text.len() as u8;
    Some(u128::from_le_bytes(bytes))
}

fn unpacked(short: u128) -> String {
    let bytes = short.to_le_bytes();
    // Never lossy: the bytes come from a text.
    String::from_utf8_lossy(&bytes[..usize::from(bytes[15]).min(15)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_all_lengths_are_found_and_listed() {
        let texts =
            ["", "\0", "a", "a\0", "fifteen letters", "sixteen letters.", "ünïcödé", "a much longer text than that"];
        let mut map = TextMap::default();
        for (index, text) in texts.iter().enumerate() {
            assert!(map.get(text).is_none());
            map.insert(text, index);
        }
        assert_eq!(map.len(), texts.len());
        for (index, text) in texts.iter().enumerate() {
            assert_eq!(map.get(text), Some(&index));
            assert_eq!(map.get_mut(text), Some(&mut index.clone()));
        }
        let mut back: Vec<String> = map.iter().map(|(text, _)| text).collect();
        let mut sorted = texts.map(str::to_owned).to_vec();
        back.sort();
        sorted.sort();
        assert_eq!(back, sorted);
    }
}
