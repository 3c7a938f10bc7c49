//! Texts from outside on their way to people and programs: a manifest, a record or a server may
//! hold characters that steer a terminal.

/// Whether a character can steer a terminal or make a line read as another: controls of both
/// blocks, direction marks, separators of lines.
fn steers(c: char) -> bool {
    let marks = ['\u{61c}', '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}', '\u{feff}'];
    c.is_control()
        || ('\u{202a}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c)
        || marks.contains(&c)
}

/// The same text without anything that steers a terminal; lines stay lines.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if steers(c) && c != '\n' { '\u{fffd}' } else { c }).collect()
}

/// A value as JSON. Characters that steer a terminal can only be in its strings, where they are
/// written as escapes, so that nothing is lost to programs.
pub fn json(value: &impl serde::Serialize) -> Result<String, serde_json::Error> {
    let json = serde_json::to_string(value)?;
    Ok(json.chars().fold(String::with_capacity(json.len() + 1), |mut text, c| {
        match steers(c) {
            true => text.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}"))),
            false => text.push(c),
        }
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_is_left_in_a_text_and_lines_stay() {
        let nasty = "a\u{1b}[31mb\u{9b}2Jc\u{7}d\u{202e}e\u{2066}f\u{200f}g\u{2028}h\r\u{7f}\n\u{feff}ü→";
        let clean = plain(nasty);
        assert!(!clean.chars().any(|c| steers(c) && c != '\n'), "{clean:?}");
        assert_eq!(clean.chars().count(), nasty.chars().count());
        assert!(clean.ends_with("ü→") && clean.contains('\n'));
        let json = json(&nasty).unwrap();
        assert!(!json.chars().any(steers), "{json:?}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), nasty);
    }
}
