//! Removes terminal control characters from text that other parties wrote: manifests, records and
//! error details of servers.

/// Whether a character can control a terminal or change how a line reads: C0 and C1 controls,
/// direction marks, line separators.
fn is_control(c: char) -> bool {
    let marks = ['\u{61c}', '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}', '\u{feff}'];
    c.is_control()
        || ('\u{202a}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c)
        || marks.contains(&c)
}

/// Replaces every control character except the line feed by U+FFFD.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if is_control(c) && c != '\n' { '\u{fffd}' } else { c }).collect()
}

/// A value as JSON. Control characters occur only in its strings; they are written as escapes, so
/// programs read the original text.
pub fn json(value: &impl serde::Serialize) -> Result<String, serde_json::Error> {
    let json = serde_json::to_string(value)?;
    Ok(json.chars().fold(String::with_capacity(json.len() + 1), |mut text, c| {
        if is_control(c) {
            text.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")))
        } else {
            text.push(c)
        }
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced_and_line_feeds_stay() {
        let nasty = "a\u{1b}[31mb\u{9b}2Jc\u{7}d\u{202e}e\u{2066}f\u{200f}g\u{2028}h\r\u{7f}\n\u{feff}ü→";
        let clean = plain(nasty);
        assert!(!clean.chars().any(|c| is_control(c) && c != '\n'), "{clean:?}");
        assert_eq!(clean.chars().count(), nasty.chars().count());
        assert!(clean.ends_with("ü→") && clean.contains('\n'));
        let json = json(&nasty).unwrap();
        assert!(!json.chars().any(is_control), "{json:?}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), nasty);
    }
}
