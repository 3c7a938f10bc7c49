//! The exact numbers of docs/leakage.md are those that the commands beside them print.

use std::process::Command;

#[test]
fn every_exact_number_on_the_leakage_page_is_printed_by_its_command() {
    let page = include_str!("../../../docs/leakage.md");
    let mut checked = 0;
    for line in page.lines().filter(|line| line.contains("`ifonly leakage ") && !line.contains("--samples")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [_, command, bits] = cells.as_slice() else { continue };
        let arguments = command.trim_matches('`').split_whitespace().skip(1);
        let output = Command::new(env!("CARGO_BIN_EXE_ifonly-lab")).args(arguments).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        // A cell has the leakage, and the leakage with the record if it is of interest.
        let found: Vec<&str> = printed.lines().map(|line| line.trim_start_matches("with the record: ")).collect();
        for (number, expected) in bits.split(", ").enumerate() {
            let expected = expected.trim_end_matches(" with the record");
            assert_eq!(found[number], format!("{expected} bits"), "{command}");
        }
        checked += 1;
    }
    assert!(checked >= 12, "docs/leakage.md has only {checked} exact numbers");
}
