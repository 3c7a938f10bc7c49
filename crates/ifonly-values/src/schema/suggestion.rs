//! Suggestions for misspelt names: the name with the fewest edits, if these are few.

/// The name most similar to `given`, or `None` if no name is similar. Case does not matter.
pub fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Long texts are not misspelt names, and computing the distance takes quadratic time.
    const LONGEST: usize = 256;
    if given.len() > LONGEST {
        return None;
    }
    let given = given.to_lowercase();
    let max_edits = (given.chars().count() / 3).max(1);
    let candidates = names.into_iter().filter(|name| name.len() <= LONGEST);
    let scored = candidates.map(|name| (strsim::osa_distance(&given, &name.to_lowercase()), name));
    scored.filter(|(edits, _)| *edits <= max_edits).min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_similar_names_are_suggested() {
        let names = ["income", "age", "jail_days"];
        assert_eq!(nearest("Incom", names), Some("income"));
        assert_eq!(nearest("icnome", names), Some("income"));
        assert_eq!(nearest("jaildays", names), Some("jail_days"));
        assert_eq!(nearest("debt", names), None);
        assert_eq!(nearest(&"a".repeat(1000), names), None);
    }
}
