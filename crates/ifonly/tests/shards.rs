//! One server on many machines: real shards and fronts give the bits of one machine, and say what is wrong where something is.

mod support;

use ifonly::client::transport::Call;
use ifonly::client::{Policy, http};
use ifonly::{Bundle, Manifest};
use ifonly_algebra::random::{Random, SeededRandom};
use ifonly_core::search::Search;
use ifonly_core::secret::Secret;
use std::io::BufRead;
use std::path::Path;
use support::{Door, Place, Server, fine, ifonly};

/// The flags of whoever is inside.
fn inside(place: &Place) -> [String; 6] {
    let (cert, key) = (place.path("inside.pem"), place.path("inside.key"));
    if !Path::new(&cert).exists() {
        fine(&["keygen", "--certificate", &cert]);
    }
    ["--key".into(), place.path("root.key"), "--cert".into(), cert, "--cert-key".into(), key]
}

fn shard(place: &Place, bundle: &str, rows: Option<&str>, key: &str) -> Server {
    let mut flags = inside(place);
    flags[1] = place.path(key);
    let bundle = place.path(bundle);
    let mut arguments = vec!["shard", &bundle, "--log", "error"];
    arguments.extend(flags.iter().map(String::as_str));
    arguments.extend(rows.iter().flat_map(|rows| ["--rows", rows]));
    Server::start(&arguments)
}

fn front_flags(place: &Place, bundle: &str, shards: &str) -> Vec<String> {
    let [_, key, _, cert, _, cert_key] = inside(place);
    let flags = ["serve", &place.path(bundle), "--index", "1", "--key", &key, "--log", "error", "--shards", shards];
    let more = ["--shards-cert", &cert, "--shards-key", &cert_key];
    flags.iter().chain(&more).map(|flag| (*flag).to_owned()).collect()
}

fn front(place: &Place, bundle: &str, shards: &[Server], extra: &[&str]) -> Server {
    let addresses: Vec<&str> = shards.iter().map(Server::address).collect();
    let flags = front_flags(place, bundle, &addresses.join(","));
    Server::start(&flags.iter().map(String::as_str).chain(extra.iter().copied()).collect::<Vec<_>>())
}

/// What every server answers to the messages of one search with each scheme, which must be the same.
fn compare(place: &Place, urls: &[String], random: &mut SeededRandom) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let trust = http::Trust::system().unwrap();
    // A front on a busy machine may still be looking for its shards.
    let patient = Policy { attempts: 60, ..Policy::default() };
    let servers = http::servers(urls, &trust, None, patient).unwrap();
    let manifest: Manifest = Bundle::manifest_of(place.path("bundle").as_ref()).unwrap();
    for deployment in manifest.deployments() {
        let ranges = manifest.schema().ranges();
        let own = ranges.iter().map(|&range| random.below(u64::from(range) + 1) as u32).collect();
        let mut search = Search::new(deployment.clone(), Secret::new(own), manifest.audience()).unwrap();
        let mut steps = 0;
        while let Some(outgoing) = search.next(random) {
            let answers = servers.iter().map(|server| {
                let (message, mut answer) = (outgoing.messages[0].to_vec().into(), vec![]);
                let call = Call { route: outgoing.route, message, length: outgoing.response_length };
                let sent = server.send(call, &mut answer);
                runtime.block_on(sent).unwrap_or_else(|error| panic!("{}: {error}", server.name()));
                answer
            });
            let answers: Vec<Vec<u8>> = answers.collect();
            let name = deployment.scheme().name;
            for (answer, url) in answers.iter().zip(urls) {
                assert!(*answer == answers[0], "{name}, step {steps}: {url} differs from {}", urls[0]);
            }
            // Later messages need the ticket.
            search.receive(vec![Some(answers[0].clone())]);
            steps += 1;
        }
        assert!(steps >= 2, "{}: the record was fetched too", deployment.scheme().name);
    }
}

#[test]
fn any_number_of_shards_answers_with_the_bits_of_one_machine_for_every_scheme() {
    let mut random = SeededRandom::new(16);
    for order in [None, Some("--no-shuffle")] {
        let mut build = vec!["--servers", "4", "--levels", "20", "--scale", "paper"];
        build.extend(ifonly_core::scheme::ALL.iter().flat_map(|scheme| ["--scheme", scheme.name]));
        build.extend(["--default-scheme", "gated-tables"]);
        build.extend(order);
        let place = Place::new(300, 1, &build);
        let rows = Bundle::manifest_of(place.path("bundle").as_ref()).unwrap().rows();
        let mut servers = vec![place.server(1, &[])];
        let mut shards = vec![];
        // Parts of nearly equal length, and cuts inside bytes and blocks of a whole bundle.
        for count in [1, 7] {
            let (bundle, parts) = (place.path("bundle"), format!("parts-{count}"));
            fine(&["split", &bundle, "--parts", &count.to_string(), "-o", &place.path(&parts)]);
            let part = |number: usize| shard(&place, &format!("{parts}/part-{number}"), None, "root.key");
            let these: Vec<Server> = (0..count).map(part).collect();
            servers.push(front(&place, &format!("{parts}/front"), &these, &[]));
            shards.extend(these);
        }
        for cuts in [vec![":77".to_owned(), "77:".into()], vec![":1".into(), "65:".into(), "1:65".into()]] {
            let these: Vec<Server> = cuts.iter().map(|rows| shard(&place, "bundle", Some(rows), "root.key")).collect();
            servers.push(front(&place, "bundle", &these, &[]));
            shards.extend(these);
        }
        assert!(rows > 100, "{rows}");
        let urls: Vec<String> = servers.iter().map(|server| server.url.clone()).collect();
        compare(&place, &urls, &mut random);
    }
}

#[test]
fn an_order_through_buckets_has_the_same_bits_from_shards() {
    // More than 2^16 accepted rows.
    let place = Place::new(130_000, 3, &["--levels", "20"]);
    assert!(Bundle::manifest_of(place.path("bundle").as_ref()).unwrap().rows() > 1 << 16);
    let cuts = ["0:30001", "30001:"];
    let shards = cuts.map(|rows| shard(&place, "bundle", Some(rows), "root.key"));
    let servers = [place.server(1, &[]), front(&place, "bundle", &shards, &[])];
    let urls: Vec<String> = servers.iter().map(|server| server.url.clone()).collect();
    compare(&place, &urls, &mut SeededRandom::new(17));
}

#[test]
fn a_server_of_shards_takes_part_in_sealed_searches() {
    let place = Place::new(120, 5, &["--servers", "3", "--levels", "20"]);
    let shards = [":40", "40:"].map(|rows| shard(&place, "bundle", Some(rows), "root.key"));
    let doors: [Door; 3] = std::array::from_fn(|_| Door::open());
    let (cert, key) = (place.path("cert.pem"), place.path("cert.key"));
    let own = ["--listen", "127.0.0.1:0", "--cert", &cert, "--cert-key", &key];
    let peers = ["--peers-listen", "127.0.0.1:0", "--next", &doors[1].address];
    let known = ["--next-cert", &cert, "--previous-cert", &cert];
    let mut first = front(&place, "bundle", &shards, &[&own[..], &peers, &known].concat());
    let mut line = String::new();
    first.lines.read_line(&mut line).unwrap();
    doors[0].leads_to(line.trim().strip_prefix("peers on ").unwrap());
    let others = [2, 3].map(|index| place.peer_server(index, &doors));
    let whole: [Door; 3] = std::array::from_fn(|_| Door::open());
    let whole: Vec<Server> = (1..=3).map(|index| place.peer_server(index, &whole)).collect();
    for (person, _) in place.rows.iter().filter(|row| !row.1).take(5) {
        let profile = place.profile(person);
        let ask = |urls: [&str; 3]| -> serde_json::Value {
            let mut arguments = vec!["ask", "--json", "--ca", &cert, "--profile", profile.to_str().unwrap()];
            arguments.extend(["--scheme", "sealed", "--top", "2"]);
            urls.iter().for_each(|url| arguments.extend(["--server", url]));
            serde_json::from_str(&fine(&arguments)).unwrap()
        };
        let found = ask([&first.url, &others[0].url, &others[1].url]);
        let right = ask([&whole[0].url, &whole[1].url, &whole[2].url]);
        assert_eq!((&found["cost"], &found["record"]), (&right["cost"], &right["record"]));
        assert_eq!(found["scheme"], "sealed");
    }
}

#[test]
fn shards_that_do_not_make_the_database_are_named() {
    let place = Place::new(120, 7, &["--levels", "20"]);
    let rows = Bundle::manifest_of(place.path("bundle").as_ref()).unwrap().rows();
    place.build("other", &place.rows[10..], &["--levels", "20"]);
    fine(&["keygen", "-o", &place.path("other.key")]);
    let good = shard(&place, "bundle", Some(":40"), "root.key");
    let refused = |shards: &[&Server]| {
        let addresses: Vec<&str> = shards.iter().map(|shard| shard.address()).collect();
        let flags = front_flags(&place, "bundle", &addresses.join(","));
        let output = ifonly(&flags.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(4));
        String::from_utf8(output.stderr).unwrap()
    };
    let overlapping = shard(&place, "bundle", Some("39:"), "root.key");
    let said = refused(&[&good, &overlapping]);
    assert!(said.contains(good.address()) && said.contains(overlapping.address()) && said.contains("row 39"), "{said}");
    let foreign = shard(&place, "other", Some("40:"), "root.key");
    let said = refused(&[&good, &foreign]);
    assert!(said.contains(foreign.address()) && said.contains("another bundle"), "{said}");
    let stranger = shard(&place, "bundle", Some("40:"), "other.key");
    let said = refused(&[&good, &stranger]);
    assert!(said.contains(stranger.address()) && said.contains("another root key"), "{said}");

    // Somebody who takes connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let flags = front_flags(&place, "bundle", &format!("{},{address}", good.address()));
    let ready = said_by(&flags);
    assert!(ready.contains(" 503 ") && ready.contains(&address) && ready.contains("within 5 s"), "{ready}");

    // What is missing may come: the front waits for it, and says for what.
    let file = place.path("shards");
    std::fs::write(&file, format!("# one is missing\n{}\n", good.address())).unwrap();
    let mut flags = front_flags(&place, "bundle", "");
    let place_of = flags.iter().position(|flag| flag == "--shards").unwrap();
    (flags[place_of], flags[place_of + 1]) = ("--shards-file".into(), file.clone());
    flags.extend(["--admin".into(), "127.0.0.1:0".into()]);
    let mut server = Server::start(&flags.iter().map(String::as_str).collect::<Vec<_>>());
    let mut line = String::new();
    server.lines.read_line(&mut line).unwrap();
    let admin = line.trim().strip_prefix("admin on http://").unwrap().to_owned();
    let ready = || support::get(&admin, "/readyz");
    let missing = format!("no shard has rows 40 to {rows}");
    assert!(ready().contains(" 503 ") && ready().contains(&missing), "{}", ready());
    let second = place.server(2, &[]);
    let profile = place.profile(&place.rows[0].0);
    let ask = || {
        let servers = ["--server", &server.url, "--server", &second.url];
        let output = ifonly(&[&["ask", "--profile", profile.to_str().unwrap()], &servers[..]].concat());
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(ask().0, 5, "too few servers can answer");
    let late = shard(&place, "bundle", Some("40:"), "root.key");
    // As a supervisor writes it: whole or not at all.
    let announce = |addresses: &str| {
        std::fs::write(format!("{file}.new"), addresses).unwrap();
        std::fs::rename(format!("{file}.new"), &file).unwrap();
    };
    announce(&format!("{}\n{}\n", good.address(), late.address()));
    until(|| ready().contains(" 200 "));
    let (code, said) = ask();
    assert_eq!(code, 0, "{said}");
    // A shard dies, and another one takes its place elsewhere.
    drop(late);
    assert_ne!(ask().0, 0);
    until(|| ready().contains(" 503 "));
    let again = shard(&place, "bundle", Some("40:"), "root.key");
    announce(&format!("{}\n{}\n", again.address(), good.address()));
    until(|| ready().contains(" 200 "));
    let (code, said) = ask();
    assert_eq!(code, 0, "{said}");
}

/// What a front says about its readiness.
fn said_by(flags: &[String]) -> String {
    let admin = ["--admin".to_owned(), "127.0.0.1:0".into()];
    let flags: Vec<&str> = flags.iter().chain(&admin).map(String::as_str).collect();
    let mut server = Server::start(&flags);
    let mut line = String::new();
    server.lines.read_line(&mut line).unwrap();
    support::get(line.trim().strip_prefix("admin on http://").unwrap(), "/readyz")
}

/// Waits for something that happens by itself; the test's own time limit is whoever runs it.
fn until(holds: impl Fn() -> bool) {
    while !holds() {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn nobody_without_the_certificate_talks_to_a_shard() {
    let place = Place::new(60, 9, &["--levels", "20"]);
    let shards = [shard(&place, "bundle", None, "root.key")];
    // Another certificate for the same name.
    let (cert, key) = (place.path("stranger.pem"), place.path("stranger.key"));
    fine(&["keygen", "--certificate", &cert]);
    let flags = front_flags(&place, "bundle", shards[0].address());
    let mut flags = flags;
    let at = |flag: &str| flags.iter().position(|given| given == flag).unwrap() + 1;
    let (cert_at, key_at) = (at("--shards-cert"), at("--shards-key"));
    (flags[cert_at], flags[key_at]) = (cert, key);
    let ready = said_by(&flags);
    assert!(ready.contains(" 503 ") && ready.contains("certificate"), "{ready}");
    // Without any certificate there is not even a handshake.
    let output = std::process::Command::new("curl").args(["-sk", &format!("{}/shard", shards[0].url)]).output();
    assert!(output.is_err() || !output.unwrap().status.success());
}
