//! Terminal control characters in text of other parties never reach the terminal: names of columns
//! and operators, categories, records, and error details of servers.

mod support;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Output;
use support::{Server, fine, ifonly};

/// A colour (ESC), clear screen (one-byte CSI), a bell, right-to-left text, a line separator.
const CONTROLS: [&str; 5] = ["\u{1b}[31m", "\u{9b}2J", "\u{7}", "\u{202e}", "\u{2028}"];

fn assert_harmless(what: &[&str], output: &Output) {
    for bytes in [&output.stdout, &output.stderr] {
        let text = String::from_utf8(bytes.clone()).unwrap();
        let is_control = |c: char| {
            c.is_control() && c != '\n'
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
        };
        assert!(!text.contains(is_control), "{what:?}: {text:?}");
    }
}

/// Runs a command, checks that its output has no control characters, and returns the output.
fn output_of(arguments: &[&str]) -> String {
    let output = ifonly(arguments);
    assert_harmless(arguments, &output);
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// A server that refuses every request with this error detail.
fn refusing(detail: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let body = serde_json::json!({ "type": "urn:ifonly:problem:malformed", "detail": detail }).to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4096]);
            let head =
                format!("HTTP/1.1 400 Bad Request\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    url
}

#[test]
fn control_characters_of_other_parties_never_reach_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (data, bundle, key) = (path("people.csv"), path("people.bundle"), path("root.key"));
    let column = |name: &str| name.replace('_', &CONTROLS.concat());
    let (job, baker, pilot) = (column("j_ob"), column("ba_ker"), column("pi_lot"));
    let header = format!("age,\"{job}\",approved");
    let rows = format!("30,\"{baker}\",yes\n45,\"{pilot}\",yes\n28,\"{pilot}\",yes\n27,\"{baker}\",no\n");
    std::fs::write(&data, format!("{header}\n{rows}")).unwrap();
    let (name, operator) = (column("lo_ans"), column("Ev_il"));
    let build = |extra: &[&str]| {
        let mut arguments = vec!["build", &data, "-o", &bundle, "--target", "approved", "--accept", "yes"];
        arguments.extend(["--replace", "--name", &name, "--operator", &operator, "--operator", "Other"]);
        arguments.extend(extra);
        output_of(&arguments)
    };
    assert!(build(&[]).contains("wrote"));
    let document: serde_json::Value = serde_json::from_str(&build(&["--json"])).unwrap();
    assert_eq!(document["manifest"]["dataset"]["name"], name, "JSON keeps the original text");
    assert!(output_of(&["inspect", &bundle]).contains("Ev\u{fffd}"));
    let document: serde_json::Value = serde_json::from_str(&output_of(&["inspect", &bundle, "--json"])).unwrap();
    assert_eq!(document["manifest"]["operators"][0]["name"], operator);
    fine(&["keygen", "-o", &key]);
    let serve = |index| {
        let listen = ["--listen", "127.0.0.1:0", "--log", "warn"];
        Server::start(&[&["serve", &bundle, "--index", index, "--key", &key][..], &listen].concat())
    };
    let servers = [serve("1"), serve("2")];
    let urls = [servers[0].url.as_str(), servers[1].url.as_str()];
    output_of(&["profile", urls[0], urls[1]]);
    let me = path("me.json");
    let ask = |profile: serde_json::Value, extra: &[&str]| {
        std::fs::write(&me, profile.to_string()).unwrap();
        let mut arguments = vec!["ask", "--server", urls[0], "--server", urls[1], "--profile", &me];
        arguments.extend(extra);
        output_of(&arguments)
    };
    let profile = |word: &str| serde_json::json!({ "age": 27, (job.as_str()): word });
    assert!(ask(profile(&baker), &["--immutable", "age"]).contains("No row in"));
    let found = ask(profile(&baker), &["--json", "--range", "age=40:50"]);
    let document: serde_json::Value = serde_json::from_str(found.lines().next().unwrap()).unwrap();
    assert_eq!(document["record"][&job], pilot);
    // Errors quote columns and categories of the manifest and values of the profile.
    assert!(ask(profile("smith"), &[]).contains("smith"));
    assert!(ask(serde_json::json!({ "age": 27 }), &[]).contains("j\u{fffd}"));
    ask(profile(&baker), &["--operators", "Unknown,Other"]);
    ask(profile(&baker), &["--json", "--operators", "Unknown,Other"]);
    let refused = output_of(&["inspect", &refusing(&column("no_thing"))]);
    assert!(refused.contains("refused the request (HTTP 400") && refused.contains("thing"), "{refused}");
}
