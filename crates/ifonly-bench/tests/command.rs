//! The program `ifonly-bench` on small datasets.

use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ifonly-bench")).args(arguments).output().unwrap()
}

/// The standard output of a run that must succeed.
fn printed(arguments: &[&str]) -> String {
    let output = bench(arguments);
    assert!(output.status.success(), "{arguments:?}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const SMALL: [&str; 8] = ["--rows", "300", "--features", "3", "--max-level", "9", "--rounds", "1"];

#[test]
fn every_row_function_is_measured_and_decoded_correctly() {
    for function in ["baseline", "weighted", "table", "gated", "gated-table"] {
        let text = printed(&[&SMALL[..], &["--row-function", function]].concat());
        for part in ["read the rows", "whole answer, shuffled", "decode"] {
            assert!(text.contains(part), "{function}: {text}");
        }
    }
}

#[test]
fn searches_at_real_servers_give_the_results_of_brute_force() {
    // Two phases, a gate, and records in stripes: the program fails if a result is wrong.
    for (scheme, servers) in [("gated", 2), ("two-phase", 3)] {
        let http = format!("--http={scheme}");
        let text = printed(&[&SMALL[..], &["--json", &http]].concat());
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let search = &document["end_to_end"];
        assert_eq!((search["scheme"].as_str(), search["servers"].as_u64()), (Some(scheme), Some(servers)));
        let number = |value: &serde_json::Value| value.as_f64().unwrap();
        let sum: f64 = search["parts"].as_array().unwrap().iter().map(|part| number(&part["milliseconds"])).sum();
        assert!((number(&search["search_milliseconds"]) / sum - number(&search["ratio"])).abs() < 1e-6);
        let lines = document["lines"].as_array().unwrap();
        assert!(lines.iter().any(|line| line["part"] == "end to end over loopback HTTPS"));
    }
}

#[test]
fn sealed_searches_over_tls_give_the_results_of_brute_force() {
    for extra in [&["--randomness", "keys"][..], &["--round-trip", "2"]] {
        let text = printed(&[&SMALL[..], &["--json", "--http=sealed"], extra].concat());
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["rows"], 300);
        assert!(document["search_milliseconds"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn impossible_options_are_refused_with_the_exit_code_of_bad_input() {
    for (arguments, part) in [
        (&["--rows", "300", "--rounds", "1", "--http=nonesuch"][..], "unknown scheme"),
        (&["--rows", "0"], "at least 1"),
        (&["--rows", "300", "--bits", "2"], "too small"),
    ] {
        let output = bench(arguments);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{message}");
        assert!(message.contains(part), "{message}");
    }
}
