//! `ifonly ask` against real servers: the worked example of docs/asking.md, templates of profiles,
//! input formats, and output to closed or full files.

mod support;

use serde_json::Value;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use support::{Server, fine, ifonly};

const PEOPLE: &str =
    "age,income,housing,approved\n30,24000,rent,yes\n45,31000,own,yes\n28,52000,own,yes\n27,21000,rent,no\n";

struct Lender {
    folder: tempfile::TempDir,
    servers: [Server; 2],
}

impl Lender {
    fn new() -> Lender {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (data, bundle, key) = (path("people.csv"), path("people.bundle"), path("root.key"));
        std::fs::write(&data, PEOPLE).unwrap();
        fine(&["build", &data, "-o", &bundle, "--target", "approved", "--accept", "yes"]);
        fine(&["keygen", "-o", &key]);
        let server = |index| {
            Server::start(&[
                "serve",
                &bundle,
                "--index",
                index,
                "--key",
                &key,
                "--log",
                "warn",
                "--listen",
                "127.0.0.1:0",
            ])
        };
        Lender { servers: [server("1"), server("2")], folder }
    }

    fn urls(&self) -> [&str; 2] {
        [&self.servers[0].url, &self.servers[1].url]
    }

    fn ask(&self, profile: &str, wishes: &[&str]) -> (i32, Value) {
        let file = self.folder.path().join("me.toml");
        std::fs::write(&file, profile).unwrap();
        let [first, second] = self.urls();
        let mut arguments = vec!["ask", "--server", first, "--server", second, "--json", "--profile"];
        arguments.push(file.to_str().unwrap());
        arguments.extend(wishes);
        let output = ifonly(&arguments);
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code().unwrap(), serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }
}

/// Runs a command with this text on standard input.
fn piped(arguments: &[&str], input: &[u8]) -> Output {
    let mut process = Command::new(env!("CARGO_BIN_EXE_ifonly"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(input).unwrap();
    drop(stdin);
    process.wait_with_output().unwrap()
}

const ME: &str = "age = 27\nincome = 21000\nhousing = \"rent\"\n";

#[test]
fn the_worked_example_of_the_documentation_has_the_documented_answers() {
    let lender = Lender::new();
    let cost = |document: &Value| (document["cost"].as_f64().unwrap() * 1e4).round() / 1e4;
    let (code, nearest) = lender.ask(ME, &[]);
    assert_eq!((code, cost(&nearest)), (0, 0.0371));
    assert_eq!((&nearest["record"]["age"], &nearest["record"]["income"]), (&30.into(), &24_000.into()));
    let features: Vec<&str> =
        nearest["changes"].as_array().unwrap().iter().map(|change| change["feature"].as_str().unwrap()).collect();
    assert_eq!(features, ["age", "income"], "the most expensive change is first");
    let (code, no_match) = lender.ask(ME, &["--immutable", "age"]);
    assert_eq!(
        (code, &no_match["found"], &no_match["wishes"][0]["message"]),
        (3, &false.into(), &serde_json::json!("age stays as it is"))
    );
    let (_, owner) = lender.ask(ME, &["--permit", "housing=own"]);
    assert_eq!((cost(&owner), &owner["record"]["income"]), (2.0031, &52_000.into()));
    // A cost table makes a change of housing free; a weight makes a higher age expensive.
    let table = lender.folder.path().join("costs.toml");
    std::fs::write(&table, "[housing]\nown = 0.0\nrent = 0.0\n").unwrap();
    let wishes = ["--cost-table", table.to_str().unwrap(), "--cost", "age=up:1000,down:1", "--cost", "income=l1"];
    let (code, cheap) = lender.ask(ME, &wishes);
    assert_eq!((code, &cheap["record"]["age"]), (0, &28.into()), "{cheap}");
    let (code, refused) = lender.ask(ME, &["--weight", "age=0"]);
    assert_eq!(code, 4);
    assert!(refused["error"]["message"].as_str().unwrap().contains("0.01 to 1,000"), "{refused}");
}

#[test]
fn the_template_and_the_manifest_show_what_a_profile_needs() {
    let lender = Lender::new();
    let [first, second] = lender.urls();
    let template = fine(&["profile", first, second]);
    assert!(
        template.contains("# a number from 21000 to 52000") && template.contains("# one of own, rent"),
        "{template}"
    );
    let filled = template.replace("\"age\" = \"\"", "\"age\" = 27").replace("\"income\" = \"\"", "\"income\" = 21000");
    let (code, _) = lender.ask(&filled.replace("\"housing\" = \"\"", "\"housing\" = \"rent\""), &[]);
    assert_eq!(code, 0);
    let (code, missing) = lender.ask(&template, &[]);
    assert_eq!(code, 4);
    assert!(missing["error"]["message"].as_str().unwrap().contains("age, income, housing"), "{missing}");
    let summary: Value = serde_json::from_str(&fine(&["inspect", first, second, "--json"])).unwrap();
    assert_eq!(summary["manifest"]["rows"], 3);
    assert!(fine(&["inspect", first, second]).lines().all(|line| line.chars().count() <= 200));
}

#[test]
fn tables_and_profiles_can_be_compressed_and_come_from_standard_input() {
    let lender = Lender::new();
    let path = |name: &str| lender.folder.path().join(name).to_str().unwrap().to_owned();
    let compressed = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let manifest = |bundle: &str| std::fs::read_to_string(format!("{bundle}/manifest.json")).unwrap();
    for (name, input) in [("plain", PEOPLE.as_bytes().to_vec()), ("compressed", compressed(PEOPLE))] {
        let bundle = path(name);
        // Both bundles use the key and id of the first; by default each would create its own.
        let key = path("people.bundle.signing.key");
        let first: Value = serde_json::from_str(&manifest(&path("people.bundle"))).unwrap();
        let id = first["bundle_id"].as_str().unwrap().to_owned();
        let flags = ["build", "-", "-o", &bundle, "--name", "people", "--target", "approved", "--accept", "yes"];
        let output = piped(&[&flags[..], &["--signing-key", &key, "--bundle-id", &id]].concat(), &input);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(manifest(&bundle), manifest(&path("people.bundle")));
    }
    let cut = &compressed(PEOPLE)[..40];
    let output = piped(&["build", "-", "-o", &path("cut")], cut);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(
        said.contains("standard input: cannot be unpacked as gzip") && !std::fs::exists(path("cut")).unwrap(),
        "{said}"
    );

    let [first, second] = lender.urls();
    let table = "housing|income|age\nown|1|1\nrent|21000|27\n";
    std::fs::write(path("us.csv.gz"), compressed(table)).unwrap();
    let us = path("us.csv.gz");
    for (profile, row, input) in [
        ("-", "1", ME.as_bytes()),
        ("-", "1", br#"{"age": 27, "income": 21000, "housing": "rent"}"#),
        ("-", "2", table.as_bytes()),
        ("-", "2", &compressed(table)),
        (us.as_str(), "2", b""),
    ] {
        let flags = ["ask", "--server", first, "--server", second, "--json", "--profile", profile, "--row", row];
        let output = piped(&flags, input);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        assert_eq!(answer["record"]["income"], 24_000, "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn completions_and_manual_pages_are_written_and_a_closed_pipe_is_not_an_error() {
    assert!(fine(&["completions", "bash"]).contains("max-changes"));
    let folder = tempfile::tempdir().unwrap();
    fine(&["man", folder.path().to_str().unwrap()]);
    assert!(folder.path().join("ifonly-ask.1").exists());
    let mut process = Command::new(env!("CARGO_BIN_EXE_ifonly"))
        .args(["completions", "zsh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(process.stdout.take());
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(ifonly(&["ask", "--server", "http://127.0.0.1:1", "--row", "0"]).status.code(), Some(2));
    // Commands that print line by line report a full disk too.
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let key = folder.path().join("root.key");
    let mut keygen = Command::new(env!("CARGO_BIN_EXE_ifonly"));
    let output = keygen.args(["keygen", "-o"]).arg(&key).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write to standard output"));
}
