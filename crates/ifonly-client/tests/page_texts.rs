//! Every message of a search has a text in every language of the page, and the text uses only
//! arguments that the message has.

use ifonly_client::{TransportError, message_codes};
use ifonly_core::http_api::ProblemType;
use std::collections::BTreeMap;
use std::path::Path;

/// The entries of a block such as `messages: {` by key, each as one text.
fn entries(file: &str, block: &str) -> BTreeMap<String, String> {
    let start = file.lines().position(|line| line.trim() == block).unwrap_or_else(|| panic!("no {block}"));
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = file.lines().skip(start).collect();
    let mut entries: BTreeMap<String, String> = BTreeMap::new();
    let mut last = String::new();
    for line in lines[1..].iter().take_while(|line| indent(line) > indent(lines[0])) {
        match line.trim().split_once(':') {
            Some((key, text)) if indent(line) == indent(lines[0]) + 2 => {
                last = key.trim_matches('"').into();
                entries.insert(last.clone(), text.into());
            }
            _ => entries.entry(last.clone()).or_default().push_str(line),
        }
    }
    entries
}

/// The arguments that a text uses: the words after `a.`.
fn used(text: &str) -> impl Iterator<Item = &str> {
    let is_argument = |&(at, _): &(usize, &str)| !text[..at].ends_with(char::is_alphanumeric);
    text.match_indices("a.").filter(is_argument).map(|(at, _)| {
        let rest = &text[at + 2..];
        &rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())]
    })
}

#[test]
fn every_code_has_a_text_in_every_language() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/page/src/texts");
    let (mut languages, mut arguments_used) = (0, 0);
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let messages = entries(&text, "messages: {");
        for (code, arguments) in message_codes() {
            let text = messages.get(code).unwrap_or_else(|| panic!("{}: no text for {code}", path.display()));
            for name in used(text) {
                assert!(arguments.contains(&name), "{}: {code} has no argument {name}", path.display());
                arguments_used += 1;
            }
        }
        let servers = entries(&text, "server: {");
        for code in ProblemType::ALL.iter().map(|problem| problem.name()).chain(TransportError::CODES) {
            assert!(servers.contains_key(code), "{}: no text for a server with {code}", path.display());
        }
        languages += 1;
    }
    assert!(languages >= 2 && arguments_used > 20);
}

#[test]
fn codes_are_unique() {
    let mut codes: Vec<&str> = message_codes().into_iter().map(|(code, _)| code).collect();
    codes.sort_unstable();
    let all = codes.len();
    codes.dedup();
    assert_eq!(codes.len(), all);
}

/// A lying server learns from a second search, so no text asks for one at once, neither in a
/// message nor if no row matches. "In a minute" is for servers that could not answer at all,
/// whatever the query was.
#[test]
fn no_text_asks_to_search_again_at_once() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/page/src/texts");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let all = ["messages: {", "server: {", "none: {"].map(|block| entries(&text, block)).into_iter().flatten();
        for (code, text) in all {
            let lower = text.to_lowercase();
            let asks = ["again", "retry", "noch einmal", "erneut"].iter().any(|word| lower.contains(word));
            assert!(!asks || lower.contains("minute"), "{}: {code}: {text}", path.display());
        }
    }
}
