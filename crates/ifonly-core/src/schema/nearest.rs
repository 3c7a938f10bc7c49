//! The name that somebody may have meant: the one with the fewest edits, if that is few enough.

/// The name nearest to `given`, unless even that one is another word. Case does not matter.
pub fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Long texts are no misspelt names, and the distance takes quadratic time.
    const LONGEST: usize = 256;
    if given.len() > LONGEST {
        return None;
    }
    let given = given.to_lowercase();
    let permitted = (given.chars().count() / 3).max(1);
    let close = names.into_iter().filter(|name| name.len() <= LONGEST);
    let scored = close.map(|name| (edits(&given, &name.to_lowercase()), name));
    scored.filter(|(edits, _)| *edits <= permitted).min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

/// Insertions, deletions, substitutions and swaps of neighbours (optimal string alignment).
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = vec![];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let same = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + same);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_count_insertions_deletions_substitutions_and_swaps() {
        for (a, b, count) in [
            ("", "", 0),
            ("", "ab", 2),
            ("ab", "", 2),
            ("income", "incmoe", 1),
            ("kitten", "sitting", 3),
            ("a", "b", 1),
        ] {
            assert_eq!(edits(a, b), count, "{a} {b}");
        }
    }

    #[test]
    fn suggests_near_names_only() {
        let names = ["income", "age", "jail_days"];
        assert_eq!(nearest("Incom", names), Some("income"));
        assert_eq!(nearest("jaildays", names), Some("jail_days"));
        assert_eq!(nearest("debt", names), None);
        assert_eq!(nearest(&"a".repeat(1000), names), None);
    }
}
