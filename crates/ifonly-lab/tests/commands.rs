//! The commands as a user runs them: their output and their errors.

use std::path::PathBuf;
use std::process::{Command, Output};

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ifonly-lab")).args(arguments).env_remove("IFONLY_DATA").output().unwrap()
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The path of a folder for one test. The folder does not exist yet.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

#[test]
fn leakage_prints_bits_and_the_value_in_a_base() {
    let found = json(&lab(&words("leakage --scheme gated --r 3 --d 3 --m 3 --immutable 1 --base 757 --json")));
    assert!((found["value"].as_f64().unwrap() - 0.453612).abs() < 1e-6);
    assert!((found["bits"].as_f64().unwrap() - 4.338417).abs() < 1e-6);
    let plain = lab(&words("leakage --scheme mask --r 4 --d 2 --m 5 --d-min 2"));
    let text = String::from_utf8(plain.stdout).unwrap();
    assert!(text.starts_with("14.153051 bits\nwith the record: 1"), "{text}");
    assert!(text.contains("maximal leakage"), "{text}");
    let shuffled = json(&lab(&words("leakage --scheme baseline --r 4 --d 2 --m 5 --shuffle --json")));
    assert!(shuffled["bits"].as_f64().unwrap() < 16.304035);
}

#[test]
fn the_threshold_does_not_change_the_leakage() {
    let bits = |t: &str| {
        json(&lab(&["leakage", "--scheme", "diff", "--r", "3", "--d", "3", "--m", "3", "--json", "--threshold", t]))["bits"].clone()
    };
    assert_eq!(bits("1"), bits("3"));
}

#[test]
fn sampling_prints_its_standard_error_and_is_repeatable() {
    let run = || json(&lab(&words("leakage --scheme diff --r 6 --d 4 --m 20 --samples 4000 --seed 7 --json")));
    let (first, second) = (run(), run());
    assert_eq!(first, second);
    assert!(first["standard_error"].as_f64().unwrap() > 0.0);
}

#[test]
fn rows_are_read_from_a_file_and_errors_name_row_and_column() {
    let folder = folder("rows");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("levels.csv");
    let name = path.to_str().unwrap();
    std::fs::write(&path, "a,b\n0,1\n2,3\n1,1\n0,3\n").unwrap();
    let found = json(&lab(&["leakage", "--scheme", "baseline", "--rows", name, "--m", "2", "--json"]));
    assert_eq!((found["r"].as_u64(), found["d"].as_u64()), (Some(3), Some(2)));
    std::fs::write(&path, "a,b\n0,1\n2,x\n").unwrap();
    let output = lab(&["leakage", "--scheme", "baseline", "--rows", name]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("row 2, column b"), "{text}");
}

#[test]
fn invalid_arguments_are_refused_with_the_name_of_the_parameter() {
    for (arguments, message) in [
        ("leakage --scheme none --r 1 --d 1 --m 1", "scheme: unknown scheme"),
        ("leakage --scheme mask --r 4 --d 2 --m 5 --d-min 0", "d_min: 0"),
        ("leakage --scheme baseline --r 4 --d 2 --m 50", "m: 50 distinct rows cannot be drawn from a population of 24"),
        ("leakage --scheme diff --r 100 --d 11 --m 500", "set the number of samples"),
        ("leakage --scheme baseline --r 4 --d 2 --m 5 --base 1", "base: 1"),
        ("leakage --scheme baseline --d 2 --m 5", "r: missing"),
        ("leakage --scheme lp --r 4 --d 2 --m 5 --p 3", "p: 3 is not a positive even number"),
        ("attack nothing", "attack: unknown attack"),
        ("reproduce nothing", "exhibit: unknown exhibit"),
        ("reproduce -o x --data /nowhere", "data: /nowhere is not a folder"),
    ] {
        let output = lab(&words(arguments));
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments}: {text}");
        assert!(text.starts_with("error: ") && text.contains(message), "{arguments}: {text}");
    }
}

#[test]
fn an_attack_prints_its_table_and_writes_a_report() {
    let folder = folder("attack");
    let output = lab(&["attack", "replay", "-o", folder.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("100.0%") && text.contains("refused"), "{text}");
    for file in ["attack.md", "attack.json", "replay.svg"] {
        assert!(folder.join(file).is_file(), "{file}");
    }
}

#[test]
fn a_report_without_data_files_names_them_and_has_all_other_items() {
    let folder = folder("reproduce");
    let output = lab(&["reproduce", "-o", folder.to_str().unwrap(), "--quick"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = std::fs::read_to_string(folder.join("reproduce.md")).unwrap();
    for text in ["wine-white.csv", "compas.csv", "SHA-256", "UCI", "ProPublica", "0.453612", "16.304035", "9d+9M"] {
        assert!(page.contains(text), "{text} is missing");
    }
    let html = std::fs::read_to_string(folder.join("reproduce.html")).unwrap();
    assert!(html.contains("<svg") && html.contains("confirmed") && !html.contains("NOT CONFIRMED"));
    assert!(!html.contains("src=") && !html.contains("href="), "the report must be one file");
    assert!(html.contains("growth of computing"));
    for figure in ["system-pcr", "system-i-pcr", "synthetic", "immutables", "costs"] {
        for kind in ["svg", "png"] {
            assert!(folder.join(format!("{figure}.{kind}")).is_file(), "{figure}.{kind}");
        }
    }
}

#[test]
fn help_shows_an_example_of_each_command() {
    for command in ["leakage", "reproduce", "attack"] {
        let text = String::from_utf8(lab(&[command, "--help"]).stdout).unwrap();
        assert!(text.contains(&format!("ifonly {command} ")), "{text}");
    }
}
