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
    let scored = close.map(|name| (strsim::osa_distance(&given, &name.to_lowercase()), name));
    scored.filter(|(edits, _)| *edits <= permitted).min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_near_names_only() {
        let names = ["income", "age", "jail_days"];
        assert_eq!(nearest("Incom", names), Some("income"));
        assert_eq!(nearest("icnome", names), Some("income"));
        assert_eq!(nearest("jaildays", names), Some("jail_days"));
        assert_eq!(nearest("debt", names), None);
        assert_eq!(nearest(&"a".repeat(1000), names), None);
    }
}
