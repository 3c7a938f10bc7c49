//! From a CSV to an explanation, with real processes, real TLS and real faults.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use support::{COLUMNS, Harm, Place, PortReservation, Seeded, Server, Truth, fine, get, harmful, ifonly, table};

/// Schemes whose costs are in values.
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
        manifest["schemes"].as_array().unwrap().iter().map(|offer| offer["name"].as_str().unwrap()).collect();
    assert!(names.len() >= 26, "{names:?}");
    let mut random = Seeded(2);
    for scheme in names {
        let gated = GATED.contains(&scheme) || scheme.contains("phase");
        for fixed in [None, Some(3), Some(0)].into_iter().take(if gated { 3 } else { 1 }) {
            let person = &rejected[random.below(rejected.len() as u64) as usize];
            let profile = place.profile(person);
            let ca = place.path("cert.pem");
            let mut arguments = vec!["ask", "--json", "--ca", &ca, "--scheme", scheme, "--profile"];
            arguments.push(profile.to_str().unwrap());
            // Any order will do: servers say who they are.
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
            let told = (scheme != "sealed").then_some(matching_rows.len() as u64);
            assert_eq!(document["qualifying"].as_u64(), told, "{scheme} {document}");
            // The traffic is what `inspect` promises, whoever asks.
            let promised = summary["schemes"].as_array().unwrap().iter().find(|offer| offer["name"] == scheme).unwrap();
            for name in ["servers", "bytes_up", "bytes_down"] {
                assert_eq!(document[name], promised[name], "{scheme} {name}");
            }
            let Some(best) = best else { continue };
            // The record is one of the nearest rows, value for value.
            let same = |row: &&&[String; 4]| {
                COLUMNS.iter().zip(row.iter()).all(|(name, value)| match &document["record"][*name] {
                    serde_json::Value::Number(number) => number.as_f64() == value.parse().ok(),
                    other => other == value.as_str(),
                })
            };
            let row = matching_rows.iter().find(same).unwrap_or_else(|| panic!("{scheme}: {document} is no row"));
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
            // The dearest stand first where costs are in values.
            listed.sort_by_key(|name| COLUMNS.iter().position(|column| column == name));
            assert_eq!(listed, changed, "{scheme}");
        }
    }
}

#[test]
fn a_sealed_search_names_who_is_away_and_works_again_when_they_are_back() {
    let place = Place::new(60, 5, &["--servers", "3", "--scheme", "sealed", "--levels", "20"]);
    let reservations: [PortReservation; 3] = std::array::from_fn(|_| PortReservation::open());
    let mut servers: Vec<Server> = (1..=3).map(|index| place.peer_server(index, &reservations)).collect();
    let ca = place.path("cert.pem");
    let asked = |servers: &[Server]| {
        let urls: Vec<&str> = servers.iter().map(|server| server.url.as_str()).collect();
        ask(&place, &urls, &["--ca", &ca, "--timeout", "60"])
    };
    let (code, first, said) = asked(&servers);
    assert_eq!(
        (code, &first["scheme"], &first["qualifying"]),
        (0, &"sealed".into(), &serde_json::Value::Null),
        "{said}"
    );
    // Server 2 is reached by people but not by server 1 any more.
    reservations[1].leads_to("127.0.0.1:1");
    servers[1] = place.peer_server(2, &reservations);
    reservations[1].leads_to("127.0.0.1:1");
    servers[0] = place.peer_server(1, &reservations);
    let (code, _, said) = asked(&servers);
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("server 2 cannot be reached"), "{said}");
    // It comes back.
    servers[1] = place.peer_server(2, &reservations);
    let (code, again, said) = asked(&servers);
    assert_eq!((code, &again["record"]), (0, &first["record"]), "{said}");
    // Gone altogether.
    servers.remove(1);
    let (code, _, said) = asked(&servers);
    assert_eq!(code, 5, "{said}");
}

/// Asks two servers as one fixed person; gives the exit code, the JSON and what was said.
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
fn faults_are_named_and_never_become_an_explanation() {
    let place = Place::new(80, 3, &["--levels", "20"]);
    let (first, second) = (place.server(1, &[]), place.server(2, &[]));
    let (code, right, said) = ask(&place, &[&first.url, &second.url], &[]);
    assert_eq!(code, 0, "{said}");
    // On the way: cut off, changed, or stalled, at many places of headers and bodies.
    for at in [0, 20, 150, 260, 300, 420, 600] {
        for harm in [Harm::Cut(at), Harm::Flip(at), Harm::Stall(at)] {
            let url = harmful(second.address(), harm);
            let (code, document, said) = ask(&place, &[&first.url, &url], &["--timeout", "2"]);
            match code {
                // A changed header that nobody reads, or harm beyond the end of the answer.
                0 => {
                    assert_eq!((&document["cost"], &document["record"]), (&right["cost"], &right["record"]), "{harm:?}")
                }
                5 | 6 => assert_eq!(document["error"]["code"], code, "{harm:?} {said}"),
                _ => panic!("{harm:?}: {code} {said}"),
            }
            if matches!(harm, Harm::Cut(at) | Harm::Stall(at) if at < 200) {
                assert_eq!(code, 5, "{harm:?}: {said}");
            }
        }
    }
    // Another root key.
    fine(&["keygen", "-o", &place.path("other.key")]);
    let bundle = place.path("bundle");
    let foreign =
        Server::start(&["serve", &bundle, "--index", "2", "--key", &place.path("other.key"), "--log", "warn"]);
    let (code, _, said) = ask(&place, &[&first.url, &foreign.url], &[]);
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("disagree about keys"), "{said}");
    // Another version of the bundle.
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
    // The same server twice, and one that is gone.
    let (code, _, said) = ask(&place, &[&first.url, &first.url], &[]);
    assert_eq!(code, 6, "{said}");
    let gone = second.url.clone();
    drop(second);
    let (code, _, said) = ask(&place, &[&first.url, &gone], &[]);
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("missing: 2"), "{said}");
}

#[test]
fn a_silent_server_is_borne_where_the_bundle_says_so() {
    let place = Place::new(60, 4, &["--levels", "20", "--servers", "3", "--silent", "1"]);
    let servers: Vec<Server> = (1..=3).map(|index| place.server(index, &[])).collect();
    let (code, right, said) = ask(&place, &[&servers[0].url, &servers[1].url, &servers[2].url], &[]);
    assert_eq!(code, 0, "{said}");
    let stalled = harmful(servers[1].address(), Harm::Cut(150));
    let (code, document, said) = ask(&place, &[&servers[0].url, &stalled, &servers[2].url], &[]);
    assert_eq!((code, &document["cost"]), (0, &right["cost"]), "{said}");
    assert!(!document["troubles"].as_array().unwrap().is_empty());
    let (code, document, said) = ask(&place, &[&servers[0].url, &servers[2].url], &[]);
    assert_eq!((code, &document["cost"]), (0, &right["cost"]), "{said}");
    let (code, _, said) = ask(&place, &[&servers[0].url], &[]);
    assert_eq!(code, 5, "{said}");
}

#[test]
fn a_server_reloads_on_hangup_and_finishes_on_termination() {
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
    assert_eq!(ask_all().1["qualifying"], place.rows.iter().filter(|row| row.1).count());
    let more = table(90, 6);
    place.build("bundle", &more, &["--levels", "20", "--replace", "--data-version", "2"]);
    for (server, admin) in &servers {
        server.signal("-HUP");
        // The server says when it is done.
        while !get(admin, "/metrics").contains("ifonly_reloads_total 1") {}
        assert!(get(admin, "/readyz").contains("200 OK"));
    }
    let (code, document, said) = ask_all();
    assert_eq!(code, 0, "{said}");
    assert_eq!(document["dataset"]["version"], "2");
    assert_eq!(document["qualifying"], more.iter().filter(|row| row.1).count());
    // A bundle that cannot be read changes nothing.
    std::fs::write(std::path::Path::new(&place.path("bundle")).join("manifest.json"), "{}").unwrap();
    servers[0].0.signal("-HUP");
    while !get(&servers[0].1, "/metrics").contains("ifonly_reload_failures_total 1") {}
    assert_eq!(ask_all().1["dataset"]["version"], "2");
    for (server, _) in &mut servers {
        server.signal("-TERM");
        assert!(server.process.wait().unwrap().success());
    }
}

/// A pipe instead of the key: whoever opens it waits for the test, which knows then that a server
/// is reading.
fn pipe(path: &str) {
    assert!(Command::new("mkfifo").args(["-m", "600", path]).status().unwrap().success());
}

#[test]
fn what_is_stopped_while_it_reads_ends_well_and_at_once() {
    let place = Place::new(60, 5, &["--levels", "20"]);
    let (bundle, key) = (place.path("bundle"), place.path("pipe"));
    let (cert, cert_key) = (place.path("inside.pem"), place.path("inside.key"));
    fine(&["keygen", "--certificate", &cert]);
    pipe(&key);
    let shard = ["shard", &bundle, "--listen", "127.0.0.1:0", "--cert", &cert, "--cert-key", &cert_key, "--key", &key];
    for arguments in [&["serve", &bundle, "--index", "1", "--key", &key][..], &shard] {
        let mut process =
            Command::new(env!("CARGO_BIN_EXE_ifonly")).args(arguments).stderr(Stdio::null()).spawn().unwrap();
        let reading = std::fs::File::options().write(true).open(&key).unwrap();
        assert!(Command::new("kill").args(["-TERM", &process.id().to_string()]).status().unwrap().success());
        // The signal's default would be an end without a code, and none at all for the first
        // process of a container.
        assert_eq!(process.wait().unwrap().code(), Some(0), "{}", arguments[0]);
        drop(reading);
    }
}

#[test]
fn a_hangup_while_a_server_reads_is_a_reload_afterwards() {
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
    // It reads the key again.
    std::fs::write(&key, &text).unwrap();
    while !get(admin.strip_prefix("admin on http://").unwrap(), "/metrics").contains("ifonly_reloads_total 1") {}
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn tokens_wishes_and_profiles_work_from_the_command_line() {
    let place =
        Place::new(60, 7, &["--levels", "20", "--scheme", "gated-tables", "--scheme", "baseline", "--scheme", "gated"]);
    let printed = fine(&["keygen", "--token", "me", "--sessions", "11"]);
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
        (&["--range", "income=9:1"], 4, "no level lies wholly within"),
        (&["--range", "income=1:9"], 4, "no level lies wholly within"),
        (&["--only-up", "housing"], 4, "no order"),
        // The leanest scheme that could carry these is not on offer here.
        (&["--scheme", "baseline", "--immutable", "age", "--weight", "income=2"], 4, "; gated-tables can"),
        (&["--scheme", "gatd"], 4, "did you mean"),
        (&["--set", "incom=1"], 4, "did you mean \"income\"?"),
        (&["--metric", "l3"], 4, "one of l2"),
        (&["--top", "0"], 4, "between 1 and"),
        (&["--top", "1000000"], 4, "between 1 and"),
    ] {
        let (found, document, said) = with(extra);
        assert_eq!(found, code, "{extra:?}: {said}");
        assert!(said.contains(words), "{extra:?}: {said}");
        assert_eq!(document["error"]["code"], code, "{extra:?}");
    }
    // Eight mistakes were noticed after the servers had been met, and looked to them like any other
    // search. Three sessions are left: found, nothing qualifies, and a third; the fourth finds the
    // budget spent.
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
    // A profile with a hole, where nobody can be asked.
    std::fs::write(place.path("hole.toml"), "age = 40\nincome = 30000\n").unwrap();
    let output = ifonly(&["ask", "--server", urls[1], "--profile", &place.path("hole.toml")]);
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no value for debt, housing"));
}

#[test]
fn the_demonstration_explains_and_shows_what_a_server_saw() {
    let text = fine(&["demo", "--rows", "500", "--seed", "3"]);
    for part in ["feature", "yours", "theirs", "What server 1 saw", "Bytes up"] {
        assert!(text.contains(part), "{text}");
    }
    let document: serde_json::Value =
        serde_json::from_str(&fine(&["demo", "--rows", "300", "--scheme", "two-phase+", "--json"])).unwrap();
    assert_eq!((document["found"].as_bool(), document["servers"].as_u64()), (Some(true), Some(4)));
}

#[test]
fn the_bench_asks_real_servers_and_compares_with_brute_force() {
    // Two phases, a gate, and records in stripes: whatever is wrong there ends the command with an
    // error.
    for (scheme, servers) in [("gated", 2), ("two-phase", 3)] {
        let http = format!("--http={scheme}");
        let arguments = ["bench", "--json", "--rows", "300", "--features", "3", "--range", "9", "--rounds", "1", &http];
        let document: serde_json::Value = serde_json::from_str(&fine(&arguments)).unwrap();
        let search = &document["end_to_end"];
        assert_eq!((search["scheme"].as_str(), search["servers"].as_u64()), (Some(scheme), Some(servers)));
        let number = |value: &serde_json::Value| value.as_f64().unwrap();
        let sum: f64 = search["parts"].as_array().unwrap().iter().map(|part| number(&part["milliseconds"])).sum();
        assert!((number(&search["search_milliseconds"]) / sum - number(&search["ratio"])).abs() < 1e-6);
        let lines = document["lines"].as_array().unwrap();
        assert!(lines.iter().any(|line| line["part"] == "end to end over loopback HTTPS"));
    }
    let output = ifonly(&["bench", "--rows", "300", "--rounds", "1", "--http=nonesuch"]);
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn leakage_is_computed_over_a_bundles_own_rows() {
    let place = Place::new(40, 9, &["--levels", "20"]);
    let bundle = place.path("bundle");
    let bits = |scheme: &str| {
        let text =
            fine(&["leakage", "--scheme", scheme, "--bundle", &bundle, "--m", "3", "--immutable", "1", "--json"]);
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["bits"].as_f64().unwrap()
    };
    // Rows outside the gate reveal nothing, so a gate reveals less than both partial distances of
    // every row.
    assert!(0.0 < bits("gated") && bits("gated") < bits("single-phase"));
    assert_eq!(bits("gated"), bits("two-phase"));
    let output = ifonly(&["leakage", "--scheme", "gated", "--bundle", "nowhere", "--m", "3"]);
    assert_eq!(output.status.code(), Some(4));
}

#[test]
fn a_bundle_can_be_attacked_before_somebody_else_does() {
    let place = Place::new(40, 9, &["--levels", "20", "--scheme", "gated-tables", "--cost-limit", "400"]);
    let bundle = place.path("bundle");
    let document: serde_json::Value =
        serde_json::from_str(&fine(&["attack", "radix", "--bundle", &bundle, "--json"])).unwrap();
    let rows = document["exhibits"][0]["rows"].as_array().unwrap();
    let cells: Vec<&str> = rows[0].as_array().unwrap().iter().map(|cell| cell.as_str().unwrap()).collect();
    assert_eq!((rows.len(), cells[0], cells.last()), (1, "gated-tables", Some(&"all")));
    let output = ifonly(&["attack", "linking", "--bundle", &bundle]);
    assert_eq!(output.status.code(), Some(4));
}

#[test]
fn plain_http_to_others_and_readable_keys_are_refused() {
    let place = Place::new(40, 8, &["--levels", "20"]);
    let (bundle, key) = (place.path("bundle"), place.path("root.key"));
    let output = ifonly(&["serve", &bundle, "--index", "1", "--key", &key, "--listen", "0.0.0.0:0"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("plain HTTP"));
    let output = ifonly(&["serve", &bundle, "--index", "9", "--key", &key]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("servers count from 1 to 2"));
    std::process::Command::new("chmod").args(["644", &key]).status().unwrap();
    let output = ifonly(&["serve", &bundle, "--index", "1", "--key", &key]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("chmod 600"));
    let output = ifonly(&["ask", "--server", "http://example.org", "--profile", "x.json"]);
    assert_eq!(output.status.code(), Some(4));
}
