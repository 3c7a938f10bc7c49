//! Detection of ordered words: common scales (low, medium, high) and intervals ("25 - 45", "Greater
//! than 45").

/// Common scales, each in ascending order.
const SCALES: [&[&str]; 9] = [
    &["none", "very low", "low", "medium low", "medium", "moderate", "medium high", "high", "very high", "extreme"],
    &["tiny", "xs", "s", "small", "m", "mid", "l", "large", "xl", "xxl", "huge"],
    &["very poor", "poor", "fair", "average", "good", "very good", "excellent", "outstanding"],
    &["never", "rarely", "seldom", "sometimes", "often", "usually", "always"],
    &["strongly disagree", "disagree", "neutral", "agree", "strongly agree"],
    &["very unsatisfied", "unsatisfied", "neutral", "satisfied", "very satisfied"],
    &["beginner", "intermediate", "advanced", "expert"],
    &["little", "moderate", "rich", "quite rich"],
    &[
        "preschool",
        "primary",
        "primary school",
        "secondary",
        "secondary school",
        "high school",
        "some college",
        "associate",
        "associates",
        "bachelor",
        "bachelors",
        "master",
        "masters",
        "doctorate",
        "phd",
    ],
];

/// The words in ascending order; `None` if no order is known.
pub(crate) fn ranks(words: &[String]) -> Option<Vec<String>> {
    by_scale(words).or_else(|| by_interval(words))
}

fn by_scale(words: &[String]) -> Option<Vec<String>> {
    let plain = |word: &String| word.to_lowercase().replace(['-', '_'], " ");
    SCALES.iter().find_map(|scale| {
        let rank = |word: &String| scale.iter().position(|step| *step == plain(word));
        let mut ranked = words.iter().map(|word| Some((rank(word)?, word))).collect::<Option<Vec<_>>>()?;
        ranked.sort();
        // "Low" and "low" are the same step, so they have no order.
        let distinct = ranked.windows(2).all(|pair| pair[0].0 < pair[1].0);
        distinct.then(|| ranked.into_iter().map(|(_, word)| word.clone()).collect())
    })
}

fn by_interval(words: &[String]) -> Option<Vec<String>> {
    let mut ranked = words.iter().map(|word| Some((interval(word)?, word))).collect::<Option<Vec<_>>>()?;
    ranked.sort_by(|((a, b), _), ((c, d), _)| a.total_cmp(c).then(b.total_cmp(d)));
    // An interval may begin where the previous one ends, but intervals must not overlap.
    let disjoint = ranked.windows(2).all(|pair| pair[0].0.1 <= pair[1].0.0 && pair[0].0 != pair[1].0);
    disjoint.then(|| ranked.into_iter().map(|(_, word)| word.clone()).collect())
}

/// Lower and upper end of an interval that is written as text.
fn interval(word: &str) -> Option<(f64, f64)> {
    let word = word.to_lowercase().replace(['–', '—'], "-");
    let word = word.trim();
    let number =
        |text: &str| text.trim().replace(['$', '€', '£', ' '], "").parse().ok().filter(|n: &f64| n.is_finite());
    for start in ["<=", "<", "less than", "under", "below", "up to", "at most"] {
        if let Some(end) = word.strip_prefix(start) {
            return Some((f64::NEG_INFINITY, number(end)?));
        }
    }
    for start in [">=", ">", "greater than", "more than", "over", "above", "at least"] {
        if let Some(begin) = word.strip_prefix(start) {
            return Some((number(begin)?, f64::INFINITY));
        }
    }
    for end in ["+", "and over", "and above", "and more", "and older", "or more", "or older", "or above"] {
        if let Some(begin) = word.strip_suffix(end) {
            return Some((number(begin)?, f64::INFINITY));
        }
    }
    for between in [" to ", "..", "-"] {
        // Not at the first character, which may be the sign of a negative number.
        let halves = word.char_indices().skip(1).find_map(|(at, _)| {
            let (begin, rest) = word.split_at(at);
            Some((number(begin)?, number(rest.strip_prefix(between)?)?))
        });
        if let Some((begin, end)) = halves.filter(|(begin, end)| begin < end) {
            return Some((begin, end));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(words: &[&str]) -> Option<Vec<String>> {
        ranks(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn scales_and_intervals_are_sorted() {
        for ordered in [
            vec!["low", "medium", "high"],
            vec!["Poor", "Good", "Excellent"],
            vec!["very-low", "low", "very_high"],
            vec!["Less than 25", "25 - 45", "Greater than 45"],
            vec!["<18", "18-30", "31-64", "65+"],
            vec!["-5 to 0", "0 to 5", "5 to 20"],
            vec!["under 100", "100 to 1000", "over 1000"],
            vec!["High-School", "Bachelors", "Masters", "Doctorate"],
        ] {
            let mut shuffled = ordered.clone();
            shuffled.sort_unstable();
            assert_eq!(order(&shuffled).unwrap(), ordered);
        }
    }

    #[test]
    fn other_words_have_no_order() {
        for words in [
            vec!["red", "green", "blue"],
            vec!["low", "medium", "other"],
            vec!["Low", "low", "high"],
            vec!["18-30", "25-40", "40+"],
            vec!["555-1234", "555-9999", "x"],
            vec!["<18", "<18 ", "20+"],
        ] {
            assert_eq!(order(&words), None, "{words:?}");
        }
    }
}
