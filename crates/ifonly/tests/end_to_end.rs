//! End-to-end tests of the program: real processes, real TLS and injected faults, from a CSV file
//! to an answer. The expected answers come from brute force over the CSV file.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use support::{COLUMNS, Harm, Place, PortReservation, Seeded, Server, Truth, fine, get, harmful, ifonly, table};

/// Schemes with cost tables: their costs are in values, not in levels.
const TABLES: [&str; 4] = ["table", "gated-costs", "gated-tables", "sealed"];
const GATED: [&str; 7] = ["gated", "gated+", "gated-ranges", "gated-ranges+", "gated-costs", "gated-tables", "sealed"];

#[test]
fn every_scheme_over_tls_finds_what_brute_force_over_the_csv_finds() {
    let mut build = vec!["--servers", "4", "--levels", "20", "--scale", "paper"];
    build.extend(ifonly_core::scheme::ALL.iter().flat_map(|scheme| ["--scheme", scheme.name]));
    build.extend(["--default-scheme", "gated-tables"]);
    let place = Place::new(120, 1, &build);
    let summary: serde_json::Value =
        serde_json::from_str(&fine(&["inspect", &place.path("bundle"), "--json"])).unwrap();
    let manifest = &summary["manifest"];
    let truth = Truth::new(manifest);
    let reservations = std::array::from_fn(|_| PortReservation::open());
    let mut servers: Vec<Server> = (1..=3).map(|index| place.peer_server(index, &reservations)).collect();
    servers.push(place.tls_server(4));
    assert!(servers.iter().all(|server| server.url.starts_with("https://127.0.0.1:")));
    let accepted: Vec<[String; 4]> = place.rows.iter().filter(|row| row.1).map(|row| row.0.clone()).collect();
    let rejected: Vec<[String; 4]> = place.rows.iter().filter(|row| !row.1).map(|row| row.0.clone()).collect();
    let names: Vec<&str> =
        manifest["schemes"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert!(names.len() >= 26, "{names:?}");
    let mut random = Seeded(2);
    for scheme in names {
        let gated = GATED.contains(&scheme) || scheme.contains("phase");
        for fixed in [None, Some(3), Some(0)].into_iter().take(if gated { 3 } else { 1 }) {
            let person = &rejected[random.below(rejected.len() as u64) as usize];
            let profile = place.profile(person);
            let ca = place.path("cert.pem");
            // Every difference counts, as in the comparison below.
            let mut arguments =
                vec!["ask", "--json", "--tolerance", "*=0", "--ca", &ca, "--scheme", scheme, "--profile"];
            arguments.push(profile.to_str().unwrap());
            // Any order works, because servers send their index.
            servers.iter().rev().for_each(|server| arguments.extend(["--server", &server.url]));
            if let Some(fixed) = fixed {
                arguments.extend(["--immutable", COLUMNS[fixed]]);
            }
            let output = ifonly(&arguments);
            let document: serde_json::Value = serde_json::from_slice(&output.stdout)
                .unwrap_or_else(|_| panic!("{scheme}: {}", String::from_utf8_lossy(&output.stderr)));
            let x = truth.levels(person);
            let matching_rows: Vec<&[String; 4]> =
                accepted.iter().filter(|row| fixed.is_none_or(|fixed| truth.levels(row)[fixed] == x[fixed])).collect();
            let costs = matching_rows.iter().map(|row| truth.cost(scheme, &x, &truth.levels(row)));
            let best = if scheme == "dot" { costs.max() } else { costs.min() };
            let in_values = TABLES.contains(&scheme);
            if !in_values {
                assert_eq!(document["cost"].as_f64(), best.map(|best| best as f64), "{scheme} {fixed:?} {document}");
            }
            assert_eq!(document["found"].as_bool(), Some(best.is_some()), "{scheme} {document}");
            assert_eq!(output.status.code(), Some(if best.is_some() { 0 } else { 3 }));
            // The sealed search does not reveal how many rows match.
            let revealed = (scheme != "sealed").then_some(matching_rows.len() as u64);
            assert_eq!(document["matching_rows"].as_u64(), revealed, "{scheme} {document}");
            // The traffic equals what `inspect` shows and does not depend on the profile.
            let entry = summary["schemes"].as_array().unwrap().iter().find(|entry| entry["name"] == scheme).unwrap();
            for name in ["servers", "bytes_up", "bytes_down"] {
                assert_eq!(document[name], entry[name], "{scheme} {name}");
            }
            let Some(best) = best else { continue };
            // The record is one of the nearest rows, value for value.
            let same = |row: &&&[String; 4]| {
                COLUMNS.iter().zip(row.iter()).all(|(name, value)| match &document["record"][*name] {
                    serde_json::Value::Number(number) => number.as_f64() == value.parse().ok(),
                    other => other == value.as_str(),
                })
            };
            let row = matching_rows
                .iter()
                .find(same)
                .unwrap_or_else(|| panic!("{scheme}: {document} is not a row of the CSV file"));
            if in_values {
                let (quantised, cost) = truth.table_cost(person, row);
                let cheaper = matching_rows.iter().any(|row| truth.table_cost(person, row).0 < quantised - 1e-6);
                assert!(!cheaper && (document["cost"].as_f64().unwrap() - cost).abs() < 1e-9, "{scheme} {document}");
            } else {
                assert_eq!(truth.cost(scheme, &x, &truth.levels(row)), best, "{scheme}");
            }
            let changed: Vec<&str> = COLUMNS
                .iter()
                .zip(row.iter().zip(person))
                .filter(|(_, (a, b))| a != b)
                .map(|(name, _)| *name)
                .collect();
            let mut listed: Vec<&str> = document["changes"]
                .as_array()
                .unwrap()
                .iter()
                .map(|change| change["feature"].as_str().unwrap())
                .collect();
            // Changes are sorted by cost if costs are in values.
            listed.sort_by_key(|name| COLUMNS.iter().position(|column| column == name));
            assert_eq!(listed, changed, "{scheme}");
        }
    }
}

#[test]
fn a_sealed_search_names_an_unreachable_server_and_succeeds_after_its_return() {
    let place = Place::new(60, 5, &["--servers", "3", "--scheme", "sealed", "--levels", "20"]);
    let reservations: [PortReservation; 3] = std::array::from_fn(|_| PortReservation::open());
    let mut servers: Vec<Server> = (1..=3).map(|index| place.peer_server(index, &reservations)).collect();
    let ca = place.path("cert.pem");
    let search = |servers: &[Server]| {
        let urls: Vec<&str> = servers.iter().map(|server| server.url.as_str()).collect();
        ask(&place, &urls, &["--ca", &ca, "--timeout", "60"])
    };
    let (code, first, said) = search(&servers);
    assert_eq!(
        (code, &first["scheme"], &first["matching_rows"]),
        (0, &"sealed".into(), &serde_json::Value::Null),
        "{said}"
    );
    // Clients can reach server 2, but server 1 cannot.
    reservations[1].forward_to("127.0.0.1:1");
    servers[1] = place.peer_server(2, &reservations);
    reservations[1].forward_to("127.0.0.1:1");
    servers[0] = place.peer_server(1, &reservations);
    let (code, _, said) = search(&servers);
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("server 2 cannot be reached"), "{said}");
    // Server 2 is reachable again.
    servers[1] = place.peer_server(2, &reservations);
    let (code, again, said) = search(&servers);
    assert_eq!((code, &again["record"]), (0, &first["record"]), "{said}");
    // The process of server 2 has ended.
    servers.remove(1);
    let (code, _, said) = search(&servers);
    assert_eq!(code, 5, "{said}");
}

/// Searches with the profile of one fixed applicant. Returns the exit code, the JSON output and the
/// text on standard error.
fn ask(place: &Place, urls: &[&str], extra: &[&str]) -> (i32, serde_json::Value, String) {
    let person = place.rows.iter().find(|row| !row.1).unwrap();
    let profile = place.profile(&person.0);
    let mut arguments = vec!["ask", "--json", "--profile", profile.to_str().unwrap()];
    urls.iter().for_each(|url| arguments.extend(["--server", url]));
    arguments.extend(extra);
    let output = ifonly(&arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap_or_default(), said)
}

#[test]
fn faults_are_reported_and_never_become_a_result() {
    let place = Place::new(80, 3, &["--levels", "20"]);
    let (first, second) = (place.server(1, &[]), place.server(2, &[]));
    let (code, right, said) = ask(&place, &[&first.url, &second.url], &[]);
    assert_eq!(code, 0, "{said}");
    // The connection is cut, changes a byte or stalls, at many positions of headers and bodies.
    for at in [0, 20, 150, 260, 300, 420, 600] {
        for harm in [Harm::Cut(at), Harm::Flip(at), Harm::Stall(at)] {
            let url = harmful(second.address(), harm);
            let (code, document, said) = ask(&place, &[&first.url, &url], &["--timeout", "2"]);
            match code {
                // The client does not read the changed header, or the fault is beyond the response.
                0 => {
                    assert_eq!((&document["cost"], &document["record"]), (&right["cost"], &right["record"]), "{harm:?}")
                }
                5 | 6 => assert_eq!(document["error"]["exit_code"], code, "{harm:?} {said}"),
                _ => panic!("{harm:?}: {code} {said}"),
            }
            if matches!(harm, Harm::Cut(at) | Harm::Stall(at) if at < 200) {
                assert_eq!(code, 5, "{harm:?}: {said}");
            }
        }
    }
    // A server with another root key.
    fine(&["keygen", "-o", &place.path("other.key")]);
    let foreign = place.server_with_key("other.key", 2, &[]);
    let (code, _, said) = ask(&place, &[&first.url, &foreign.url], &[]);
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("different root keys"), "{said}");
    // A server with another version of the bundle.
    place.build("other", &table(81, 3), &["--levels", "20"]);
    let other = Server::start(&[
        "serve",
        &place.path("other"),
        "--index",
        "2",
        "--key",
        &place.path("root.key"),
        "--log",
        "warn",
    ]);
    let (code, _, said) = ask(&place, &[&first.url, &other.url], &[]);
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("different manifests"), "{said}");
    // The same server twice, and a server that has stopped.
    let (code, _, said) = ask(&place, &[&first.url, &first.url], &[]);
    assert_eq!(code, 6, "{said}");
    let gone = second.url.clone();
    drop(second);
    let (code, _, said) = ask(&place, &[&first.url, &gone], &[]);
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("there is no connection to server 2"), "{said}");
}

#[test]
fn a_silent_server_is_tolerated_if_the_bundle_allows_it() {
    let place = Place::new(60, 4, &["--levels", "20", "--servers", "3", "--silent", "1"]);
    let servers: Vec<Server> = (1..=3).map(|index| place.server(index, &[])).collect();
    let (code, right, said) = ask(&place, &[&servers[0].url, &servers[1].url, &servers[2].url], &[]);
    assert_eq!(code, 0, "{said}");
    let stalled = harmful(servers[1].address(), Harm::Cut(150));
    let (code, document, said) = ask(&place, &[&servers[0].url, &stalled, &servers[2].url], &[]);
    assert_eq!((code, &document["cost"]), (0, &right["cost"]), "{said}");
    assert!(!document["server_failures"].as_array().unwrap().is_empty());
    let (code, document, said) = ask(&place, &[&servers[0].url, &servers[2].url], &[]);
    assert_eq!((code, &document["cost"]), (0, &right["cost"]), "{said}");
    let (code, _, said) = ask(&place, &[&servers[0].url], &[]);
    assert_eq!(code, 5, "{said}");
}

#[test]
fn a_server_reloads_on_sighup_and_stops_on_sigterm() {
    let place = Place::new(60, 5, &["--levels", "20"]);
    let servers: Vec<Server> = (1..=2).map(|index| place.server(index, &["--admin", "127.0.0.1:0"])).collect();
    let mut servers: Vec<(Server, String)> = servers
        .into_iter()
        .map(|mut server| {
            let mut line = String::new();
            server.lines.read_line(&mut line).unwrap();
            let admin = line.trim().strip_prefix("admin on http://").unwrap().to_owned();
            (server, admin)
        })
        .collect();
    let urls = |servers: &[(Server, String)]| servers.iter().map(|(server, _)| server.url.clone()).collect::<Vec<_>>();
    let all = urls(&servers);
    let ask_all = || ask(&place, &[&all[0], &all[1]], &[]);
    assert_eq!(ask_all().1["matching_rows"], place.rows.iter().filter(|row| row.1).count());
    let more = table(90, 6);
    place.build("bundle", &more, &["--levels", "20", "--replace", "--data-version", "2"]);
    for (server, admin) in &servers {
        server.signal("-HUP");
        // The metric increases when the reload is complete.
        while !get(admin, "/metrics").contains("ifonly_reloads_total 1") {}
        assert!(get(admin, "/readyz").contains("200 OK"));
    }
    let (code, document, said) = ask_all();
    assert_eq!(code, 0, "{said}");
    assert_eq!(document["dataset"]["version"], "2");
    assert_eq!(document["matching_rows"], more.iter().filter(|row| row.1).count());
    // After a failed reload the server still serves the previous bundle.
    std::fs::write(std::path::Path::new(&place.path("bundle")).join("manifest.json"), "{}").unwrap();
    servers[0].0.signal("-HUP");
    while !get(&servers[0].1, "/metrics").contains("ifonly_reload_failures_total 1") {}
    assert_eq!(ask_all().1["dataset"]["version"], "2");
    for (server, _) in &mut servers {
        server.signal("-TERM");
        assert!(server.process.wait().unwrap().success());
    }
}

/// Creates a named pipe instead of the key file. A server that opens it blocks until the test opens
/// the other end, so the test can act while the server is loading.
fn pipe(path: &str) {
    assert!(Command::new("mkfifo").args(["-m", "600", path]).status().unwrap().success());
}

#[test]
fn a_server_or_shard_that_is_stopped_while_loading_exits_at_once_with_code_0() {
    let place = Place::new(60, 5, &["--levels", "20"]);
    let (bundle, key) = (place.path("bundle"), place.path("pipe"));
    let (cert, cert_key) = (place.path("inside.pem"), place.path("inside.key"));
    fine(&["keygen", "--shard-certificate", &cert]);
    pipe(&key);
    let shard = ["shard", &bundle, "--listen", "127.0.0.1:0", "--cert", &cert, "--cert-key", &cert_key, "--key", &key];
    for arguments in [&["serve", &bundle, "--index", "1", "--key", &key][..], &shard] {
        let mut process =
            Command::new(env!("CARGO_BIN_EXE_ifonly")).args(arguments).stderr(Stdio::null()).spawn().unwrap();
        let reading = std::fs::File::options().write(true).open(&key).unwrap();
        assert!(Command::new("kill").args(["-TERM", &process.id().to_string()]).status().unwrap().success());
        // The default action of the signal would end the process without a code; for the first
        // process of a container it would do nothing.
        assert_eq!(process.wait().unwrap().code(), Some(0), "{}", arguments[0]);
        drop(reading);
    }
}

#[test]
fn a_sighup_during_loading_causes_a_reload_afterwards() {
    let place = Place::new(60, 5, &["--levels", "20"]);
    let (bundle, key) = (place.path("bundle"), place.path("pipe"));
    pipe(&key);
    let text = std::fs::read(place.path("root.key")).unwrap();
    let mut process = Command::new(env!("CARGO_BIN_EXE_ifonly"))
        .args(["serve", &bundle, "--index", "1", "--key", &key, "--admin", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut reading = std::fs::File::options().write(true).open(&key).unwrap();
    assert!(Command::new("kill").args(["-HUP", &process.id().to_string()]).status().unwrap().success());
    reading.write_all(&text).unwrap();
    drop(reading);
    let admin = BufReader::new(process.stdout.take().unwrap()).lines().nth(1).unwrap().unwrap();
    // The reload reads the key again.
    std::fs::write(&key, &text).unwrap();
    while !get(admin.strip_prefix("admin on http://").unwrap(), "/metrics").contains("ifonly_reloads_total 1") {}
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn tokens_wishes_and_profiles_work_from_the_command_line() {
    let place =
        Place::new(60, 7, &["--levels", "20", "--scheme", "gated-tables", "--scheme", "baseline", "--scheme", "gated"]);
    let printed = fine(&["keygen", "--token", "me", "--searches", "12"]);
    let token = printed.lines().next().unwrap().rsplit(' ').next().unwrap().to_owned();
    let config = format!("ledger = \"ledger\"\n{printed}");
    std::fs::write(place.path("server.toml"), config).unwrap();
    let config = place.path("server.toml");
    let servers = [place.server(1, &["--config", &config]), place.server(2, &[])];
    let urls = [servers[0].url.as_str(), servers[1].url.as_str()];
    let (code, _, said) = ask(&place, &urls, &[]);
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("unauthorized"), "{said}");
    let with = |extra: &[&str]| ask(&place, &urls, &[&["--token", &token], extra].concat());
    for (extra, code, words) in [
        (&["--immutable", "agee"][..], 4, "did you mean \"age\"?"),
        (&["--weight", "income=0"], 4, "weight 0"),
        (&["--weight", "income=2", "--cost", "income=up:3,down:1"], 4, "set the same cost"),
        (&["--range", "debt=NA:50000"], 4, "is not a number"),
        (&["--range", "income=9:1"], 4, "no level lies wholly within"),
        (&["--range", "income=1:9"], 4, "no level lies wholly within"),
        (&["--only-up", "housing"], 4, "no order"),
        // The bundle does not offer the cheapest scheme that supports these wishes.
        (&["--scheme", "baseline", "--immutable", "age", "--weight", "income=2"], 4, "such as gated-tables"),
        (&["--scheme", "gatd"], 4, "did you mean"),
        (&["--set", "incom=1"], 4, "did you mean \"income\"?"),
        (&["--metric", "l3"], 4, "one of l2"),
        (&["--top", "0"], 4, "between 1 and"),
        (&["--top", "1000000"], 4, "between 1 and"),
    ] {
        let (found, document, said) = with(extra);
        assert_eq!(found, code, "{extra:?}: {said}");
        assert!(said.contains(words), "{extra:?}: {said}");
        assert_eq!(document["error"]["exit_code"], code, "{extra:?}");
    }
    // The client noticed nine of these errors after it had connected, and ran a dummy search for
    // each, which the budget counts. Three searches are left: one with a result, one without a
    // matching row, and a third. The fourth exceeds the budget.
    let (code, document, said) =
        with(&["--only-up", "income", "--range", "debt=0:", "--weight", "age=3", "--metric", "l1", "--top", "2"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(document["nearest"].as_array().unwrap().len(), 2);
    let (code, document, _) = with(&["--immutable", "age,income,debt,housing"]);
    assert_eq!((code, &document["found"], &document["cost"]), (3, &false.into(), &serde_json::Value::Null));
    assert_eq!(with(&[]).0, 0);
    let (code, _, said) = with(&[]);
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("budget-exhausted"), "{said}");
    // Values are missing and there is no terminal for a prompt.
    std::fs::write(place.path("incomplete.toml"), "age = 40\nincome = 30000\n").unwrap();
    let output = ifonly(&["ask", "--server", urls[1], "--profile", &place.path("incomplete.toml")]);
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no value for debt, housing"));
}

#[test]
fn the_demo_prints_changes_and_what_a_server_saw() {
    let text = fine(&["demo", "--rows", "500", "--seed", "3"]);
    for part in ["feature", "yours", "theirs", "What server 1 saw", "Traffic of all servers"] {
        assert!(text.contains(part), "{text}");
    }
    let document: serde_json::Value =
        serde_json::from_str(&fine(&["demo", "--rows", "300", "--scheme", "two-phase+", "--json"])).unwrap();
    assert_eq!((document["found"].as_bool(), document["servers"].as_u64()), (Some(true), Some(4)));
}

#[test]
fn the_demo_shows_what_each_scheme_is_for() {
    let demo = |scheme: &str| fine(&["demo", "--rows", "300", "--seed", "3", "--scheme", scheme]);
    let nearest = "You search for the nearest accepted application";
    let fixed = "Your age must not change";
    let weights = "You weight changes of income by 4 and of late_payments by 9";
    let masks = "The servers add to each distance a mask from 0 to 9 (d_min = 10).";
    for (scheme, present) in [
        ("baseline", [true, false, false, false]),
        ("mask", [true, false, false, true]),
        ("baseline+", [true, false, true, false]),
        ("mask+", [true, false, true, true]),
        ("two-phase", [true, true, false, false]),
        ("single-phase", [true, true, false, false]),
        ("linear-single-phase+", [true, true, true, false]),
        ("dot", [false, false, false, false]),
    ] {
        let text = demo(scheme);
        assert_eq!([nearest, fixed, weights, masks].map(|part| text.contains(part)), present, "{scheme}: {text}");
    }
    assert!(demo("mask").contains("the smallest without masks"));
    let text = demo("dot");
    assert!(text.contains("The accepted application with the largest inner product differs"), "{text}");
    assert!(!text.contains("nearest") && text.contains("inner product "), "{text}");
    let income = text.lines().find(|line| line.trim_start().starts_with("income")).expect("a changed income");
    let theirs: u64 = income.split('|').nth(2).unwrap().trim().parse().unwrap();
    assert!(theirs <= 120_000, "{income}");
}

#[test]
fn leakage_is_computed_for_the_rows_of_a_bundle() {
    let place = Place::new(40, 9, &["--levels", "20"]);
    let bundle = place.path("bundle");
    let bits = |scheme: &str| {
        let text =
            fine(&["leakage", "--scheme", scheme, "--bundle", &bundle, "--m", "3", "--immutable", "1", "--json"]);
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["bits"].as_f64().unwrap()
    };
    // Rows outside the gate reveal nothing, so a gated scheme reveals less than a scheme with both
    // partial distances of every row.
    assert!(0.0 < bits("gated") && bits("gated") < bits("single-phase"));
    assert_eq!(bits("gated"), bits("two-phase"));
    let output = ifonly(&["leakage", "--scheme", "gated", "--bundle", "nowhere", "--m", "3"]);
    assert_eq!(output.status.code(), Some(4));
}

#[test]
fn the_radix_attack_recovers_all_rows_of_a_bundle() {
    let place = Place::new(40, 9, &["--levels", "20", "--scheme", "gated-tables", "--cost-limit", "400"]);
    let bundle = place.path("bundle");
    let document: serde_json::Value =
        serde_json::from_str(&fine(&["attack", "radix", "--bundle", &bundle, "--json"])).unwrap();
    let rows = document["items"][0]["rows"].as_array().unwrap();
    let cells: Vec<&str> = rows[0].as_array().unwrap().iter().map(|cell| cell.as_str().unwrap()).collect();
    assert_eq!((rows.len(), cells[0], cells.last()), (1, "gated-tables", Some(&"all")));
    let output = ifonly(&["attack", "linking", "--bundle", &bundle]);
    assert_eq!(output.status.code(), Some(4));
}

#[test]
fn plain_http_to_other_machines_and_key_files_readable_by_others_are_refused() {
    let place = Place::new(40, 8, &["--levels", "20"]);
    let (bundle, key) = (place.path("bundle"), place.path("root.key"));
    let output = ifonly(&["serve", &bundle, "--index", "1", "--key", &key, "--listen", "0.0.0.0:0"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("plain HTTP"));
    let output = ifonly(&["serve", &bundle, "--index", "9", "--key", &key]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("valid indices: 1 to 2"));
    std::process::Command::new("chmod").args(["644", &key]).status().unwrap();
    let output = ifonly(&["serve", &bundle, "--index", "1", "--key", &key]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("chmod 600"));
    let output = ifonly(&["ask", "--server", "http://example.org", "--profile", "x.json"]);
    assert_eq!(output.status.code(), Some(4));
}
