//! Text output of `ask` and `demo`: the table of changes, costs, counts and byte sizes.

pub(crate) use crate::cli::exit::out;
use ifonly::cli::sanitize::plain;
use ifonly_client::{Change, Explanation};
use ifonly_values::schema::Value;

/// The table "feature | yours | theirs | cost" with one line per change. The mark "same
/// level" means that the search does not distinguish the two values.
pub(crate) fn changes(changes: &[Change]) -> String {
    let mut lines = vec![["feature", "yours", "theirs", "cost"].map(str::to_owned)];
    for change in changes {
        let theirs = shown(&change.theirs);
        let theirs = if change.within_tolerance {
            format!("{theirs} (counts as unchanged)")
        } else if change.same_level {
            format!("{theirs} (same level)")
        } else {
            theirs
        };
        let cost = change.contribution.map(rounded).unwrap_or_default();
        lines.push([clean(&change.feature), clean(&shown(&change.yours)), clean(&theirs), cost]);
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2), width(3)];
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

/// The text of a value; a missing value has none.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.is_empty() { "(missing)".into() } else { text }
}

/// The line with the total cost, and what a cost of 1 means.
pub(crate) fn cost(explanation: &Explanation) -> String {
    let changed = explanation.changed.map(|changes| format!(", {} changed", count(changes, "feature")));
    let changed = changed.unwrap_or_default();
    let measure = if explanation.changes.iter().any(|change| change.contribution.is_some()) {
        " (1 is the whole value range of one feature at weight 1)"
    } else {
        ""
    };
    format!("  cost {}{changed}{measure}", rounded(explanation.cost))
}

/// A number with three significant digits and without trailing zeros.
pub(crate) fn rounded(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return number.to_string();
    }
    let digits = (2 - number.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{number:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Text of another party as one line.
pub(crate) fn clean(text: &str) -> String {
    plain(text).replace('\n', "\u{fffd}")
}

/// A number with a noun that agrees with it: "1 row", "2 rows".
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// A number with commas between thousands: 12,345,678.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes in B, kB or MB.
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
    use ifonly_values::schema::Value;

    #[test]
    fn the_table_has_only_changes_and_aligned_columns() {
        let change = |feature: &str, yours: &str, theirs: f64, same_level| Change {
            feature: feature.into(),
            yours: yours.into(),
            theirs: Value::Number(theirs),
            same_level,
            within_tolerance: false,
            contribution: (!same_level).then_some(0.0123456),
        };
        let table = changes(&[change("income", "30500", 41_000.0, false), change("age\u{1b}", "31", 31.5, true)]);
        let expected = "  feature | yours | theirs | cost\n  --------+-------+-------------------+-------\n  income  | 30500 | 41000 | 0.0123\n  age\u{fffd}    | 31    | 31.5 (same level) |\n";
        assert_eq!(table.replace(' ', ""), expected.replace(' ', ""));
        assert!(table.lines().all(|line| line.chars().position(|c| c == '|' || c == '+') == Some(10)), "{table}");
    }

    #[test]
    fn costs_have_three_digits() {
        assert_eq!([0.0, 0.012345, 1.0, 12.345, 98765.4].map(rounded), ["0", "0.0123", "1", "12.3", "98765"]);
    }

    #[test]
    fn numbers_are_grouped_and_nouns_agree_with_them() {
        assert_eq!([0, 999, 1000, 1234567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1, 1000].map(|number| count(number, "row")), ["0 rows", "1 row", "1,000 rows"]);
        assert_eq!([999, 1500, 2_345_678].map(bytes), ["999 B", "1.5 kB", "2.3 MB"]);
    }
}
