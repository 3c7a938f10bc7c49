//! Tables and numbers for people.

use ifonly_client::Change;

/// "feature | yours | theirs", only the changes. Differences within one level, which cost nothing, are marked.
pub(crate) fn changes(changes: &[Change]) -> String {
    let mut lines = vec![["feature".to_owned(), "yours".to_owned(), "theirs".to_owned()]];
    for change in changes {
        let theirs =
            if change.same_level { format!("{} (same level)", change.theirs) } else { change.theirs.to_string() };
        lines.push([clean(&change.feature), clean(&change.yours.to_string()), clean(&theirs)]);
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let mut table = String::new();
    for (number, line) in lines.iter().enumerate() {
        let cells = line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect::<Vec<_>>();
        table.push_str(format!("  {}", cells.join(" | ")).trim_end());
        table.push('\n');
        if number == 0 {
            table.push_str(&format!("  {}\n", widths.map(|width| "-".repeat(width)).join("-+-")));
        }
    }
    table
}

/// Texts from outside must not steer a terminal.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// 12,345,678.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in a unit that people read.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ifonly_core::schema::Value;

    #[test]
    fn the_table_has_only_changes_and_aligned_columns() {
        let change = |feature: &str, yours: &str, theirs: f64, same_level| Change {
            feature: feature.into(),
            yours: yours.into(),
            theirs: Value::Number(theirs),
            same_level,
        };
        let table = changes(&[change("income", "30500", 41_000.0, false), change("age\u{1b}", "31", 31.5, true)]);
        let expected = "  feature | yours | theirs\n  --------+-------+------------------\n  income  | 30500 | 41000\n  age\u{fffd}    | 31    | 31.5 (same level)\n";
        assert_eq!(table.replace(' ', ""), expected.replace(' ', ""));
        assert!(table.lines().all(|line| line.chars().position(|c| c == '|' || c == '+') == Some(10)), "{table}");
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1000, 1234567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([999, 1500, 2_345_678].map(bytes), ["999 B", "1.5 kB", "2.3 MB"]);
    }
}
