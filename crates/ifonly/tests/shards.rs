//! One server on many machines: real shards and frontends answer with the same bytes as one
//! machine, and their errors name the cause.

mod support;

use ifonly::client::RetryPolicy;
use ifonly::client::transport::{ServerRequest, http};
use ifonly::{Bundle, Manifest};
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_core::search::Search;
use ifonly_core::secret_query::SecretQuery;
use std::io::{BufRead, Read, Write};
use std::path::Path;
use support::{COLUMNS, Place, PortReservation, Server, Truth, fine, ifonly};

/// Key and certificate flags of a shard; creates the shard certificate if it does not exist.
fn shard_flags(place: &Place) -> [String; 6] {
    let (cert, key) = (place.path("inside.pem"), place.path("inside.key"));
    if !Path::new(&cert).exists() {
        fine(&["keygen", "--shard-certificate", &cert]);
    }
    ["--key".into(), place.path("root.key"), "--cert".into(), cert, "--cert-key".into(), key]
}

fn shard(place: &Place, bundle: &str, rows: Option<&str>, key: &str) -> Server {
    shard_with(place, bundle, rows, key, &[])
}

fn shard_with(place: &Place, bundle: &str, rows: Option<&str>, key: &str, extra: &[&str]) -> Server {
    let mut flags = shard_flags(place);
    flags[1] = place.path(key);
    let bundle = place.path(bundle);
    let mut arguments = vec!["shard", &bundle, "--log", "error"];
    arguments.extend(flags.iter().map(String::as_str));
    arguments.extend(rows.iter().flat_map(|rows| ["--rows", rows]));
    arguments.extend(extra);
    Server::start(&arguments)
}

fn frontend_flags(place: &Place, bundle: &str, shards: &str) -> Vec<String> {
    let [_, key, _, cert, _, cert_key] = shard_flags(place);
    let flags = ["serve", &place.path(bundle), "--index", "1", "--key", &key, "--log", "error", "--shards", shards];
    let more = ["--shards-cert", &cert, "--shards-key", &cert_key];
    flags.iter().chain(&more).map(|flag| (*flag).to_owned()).collect()
}

fn frontend(place: &Place, bundle: &str, shards: &[Server], extra: &[&str]) -> Server {
    let addresses: Vec<&str> = shards.iter().map(Server::address).collect();
    let flags = frontend_flags(place, bundle, &addresses.join(","));
    Server::start(&flags.iter().map(String::as_str).chain(extra.iter().copied()).collect::<Vec<_>>())
}

/// Sends the messages of one search with each scheme to every server. All responses must be equal.
fn compare(place: &Place, urls: &[String], random: &mut SeededRandom) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let trust = http::TlsTrust::system().unwrap();
    // On a busy machine a frontend may not have found its shards yet.
    let retrying = RetryPolicy { attempts: 60, ..RetryPolicy::default() };
    let servers = http::servers(urls, &trust, retrying).unwrap();
    let manifest: Manifest = Bundle::manifest_of(place.path("bundle").as_ref()).unwrap();
    for instance in manifest.instances() {
        let ranges = manifest.schema().max_levels();
        let own = ranges.iter().map(|&range| random.below(u64::from(range) + 1) as u32).collect();
        let mut search = Search::new(instance.clone(), SecretQuery::new(own), manifest.header_context()).unwrap();
        let mut steps = 0;
        while let Some(step) = search.next(random) {
            let answers = servers.iter().map(|server| {
                let (message, mut answer) = (step.messages[0].to_vec().into(), vec![]);
                let call = ServerRequest { route: step.route, message, length: step.response_length, credential: None };
                let sent = server.send(call, &mut answer);
                runtime.block_on(sent).unwrap_or_else(|error| panic!("{}: {error}", server.name()));
                answer
            });
            let answers: Vec<Vec<u8>> = answers.collect();
            let name = instance.scheme().name;
            for (answer, url) in answers.iter().zip(urls) {
                assert!(*answer == answers[0], "{name}, step {steps}: {url} differs from {}", urls[0]);
            }
            // Later messages need the ticket.
            search.receive(vec![Some(answers[0].clone())]);
            steps += 1;
        }
        assert!(steps >= 2, "{}: the search includes the record fetch", instance.scheme().name);
    }
}

#[test]
fn any_number_of_shards_answers_with_the_bytes_of_one_machine_for_every_scheme() {
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
        // Parts of nearly equal length; then partitions within bytes and blocks of a whole bundle.
        for count in [1, 7] {
            let (bundle, parts) = (place.path("bundle"), format!("parts-{count}"));
            fine(&["split", &bundle, "--parts", &count.to_string(), "-o", &place.path(&parts)]);
            let part = |number: usize| shard(&place, &format!("{parts}/part-{number}"), None, "root.key");
            let these: Vec<Server> = (0..count).map(part).collect();
            servers.push(frontend(&place, &format!("{parts}/frontend"), &these, &[]));
            shards.extend(these);
        }
        for cuts in [vec![":77".to_owned(), "77:".into()], vec![":1".into(), "65:".into(), "1:65".into()]] {
            let these: Vec<Server> = cuts.iter().map(|rows| shard(&place, "bundle", Some(rows), "root.key")).collect();
            servers.push(frontend(&place, "bundle", &these, &[]));
            shards.extend(these);
        }
        assert!(rows > 100, "{rows}");
        let urls: Vec<String> = servers.iter().map(|server| server.url.clone()).collect();
        compare(&place, &urls, &mut random);
    }
}

#[test]
fn a_bucketed_shuffle_has_the_same_bytes_from_shards() {
    // More than 2^16 accepted rows.
    let place = Place::new(130_000, 3, &["--levels", "20"]);
    assert!(Bundle::manifest_of(place.path("bundle").as_ref()).unwrap().rows() > 1 << 16);
    let cuts = ["0:30001", "30001:"];
    let shards = cuts.map(|rows| shard(&place, "bundle", Some(rows), "root.key"));
    let servers = [place.server(1, &[]), frontend(&place, "bundle", &shards, &[])];
    let urls: Vec<String> = servers.iter().map(|server| server.url.clone()).collect();
    compare(&place, &urls, &mut SeededRandom::new(17));
    slow_readers_do_not_block_others(&place, &servers[0]);
}

/// Some clients start to read a response and stop, at a frontend and shards that compute one
/// response at a time. Other clients are answered meanwhile. In the end the slow clients get the
/// bytes of one machine.
fn slow_readers_do_not_block_others(place: &Place, whole: &Server) {
    let one = ["--max-concurrent", "1"];
    let shards = [":20000", "20000:"].map(|rows| shard_with(place, "bundle", Some(rows), "root.key", &one));
    let limits = place.path("limits.toml");
    let timeouts = ["stall", "answer", "queue"].map(|what| format!("{what}_seconds = 3600\n")).concat();
    std::fs::write(&limits, format!("[limits]\nbuffer_megabytes = 16\n{timeouts}")).unwrap();
    let frontend = frontend(place, "bundle", &shards, &["--config", &limits, one[0], one[1]]);
    let manifest = Bundle::manifest_of(place.path("bundle").as_ref()).unwrap();
    let own = vec![0; manifest.schema().max_levels().len()];
    let instance = manifest.instances().next().unwrap().clone();
    let mut search = Search::new(instance, SecretQuery::new(own), manifest.header_context()).unwrap();
    let step = search.next(&mut SeededRandom::new(18)).unwrap();
    // A frontend buffers 128 kB of a response.
    assert!(step.response_length > 200_000, "{}", step.response_length);
    let slow: Vec<Http2> = (0..3).map(|_| Http2::request(frontend.address(), &step.messages[0])).collect();
    let urls = [whole, &frontend].map(|server| server.url.clone());
    compare(place, &urls, &mut SeededRandom::new(19));
    let mut quick = Http2::request(whole.address(), &step.messages[0]);
    let expected = quick.read_to_end();
    assert!(expected.len() >= step.response_length);
    for mut slow in slow {
        assert!(slow.read_to_end() == expected, "a response that waited differs");
    }
}

/// A minimal HTTP/2 client whose flow-control window is 0 at first, so that it gets no response
/// body.
struct Http2(std::net::TcpStream);

impl Http2 {
    /// Sends a request and waits for the response headers.
    fn request(address: &str, message: &[u8]) -> Http2 {
        let mut stream = Http2(std::net::TcpStream::connect(address).unwrap());
        stream.0.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        // Sets the initial window of streams to 0.
        stream.frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]);
        // :method POST, :scheme http, :path and :authority as literals.
        stream.frame(1, 4, 1, &[&[0x83, 0x86, 0x04, 10][..], b"/v1/answer", &[0x01, 1], b"x"].concat());
        let mut pieces = message.chunks(1 << 14).peekable();
        while let Some(piece) = pieces.next() {
            stream.frame(0, pieces.peek().is_none().into(), 1, piece);
        }
        while stream.next_frame().0 != 1 {}
        stream
    }

    /// Opens the windows and reads the complete body.
    fn read_to_end(&mut self) -> Vec<u8> {
        for stream in [0, 1] {
            self.frame(8, 0, stream, &(1u32 << 30).to_be_bytes());
        }
        let mut body = vec![];
        loop {
            let (kind, flags, payload) = self.next_frame();
            if kind == 0 {
                body.extend(payload);
                if flags & 1 == 1 {
                    return body;
                }
            }
        }
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = (payload.len() as u32).to_be_bytes();
        let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        self.0.write_all(&[&head, payload].concat()).unwrap();
    }

    fn next_frame(&mut self) -> (u8, u8, Vec<u8>) {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).unwrap();
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        self.0.read_exact(&mut payload).unwrap();
        (head[3], head[4], payload)
    }
}

#[test]
fn servers_with_any_number_of_shards_run_sealed_searches() {
    let build = ["--servers", "3", "--scheme", "sealed", "--top-limit", "2", "--levels", "20", "--scale", "paper"];
    let place = Place::new(60, 5, &build);
    let summary =
        serde_json::from_str::<serde_json::Value>(&fine(&["inspect", &place.path("bundle"), "--json"])).unwrap();
    let truth = Truth::new(&summary["manifest"]);
    let accepted: Vec<&[String; 4]> = place.rows.iter().filter(|row| row.1).map(|row| &row.0).collect();
    let people: Vec<&[String; 4]> = place.rows.iter().filter(|row| !row.1).map(|row| &row.0).take(3).collect();
    assert!(accepted.len() > 20 && people.len() == 3);
    let mut expected: Vec<serde_json::Value> = vec![];
    // Number of shards of each server; 0 means one machine without shards, which comes first.
    for counts in [[0; 3], [1, 0, 0], [2, 0, 0], [3, 0, 0], [7, 0, 0], [2, 3, 1]] {
        let reservations: [PortReservation; 3] = std::array::from_fn(|_| PortReservation::open());
        let (servers, _shards): (Vec<Server>, Vec<Vec<Server>>) = (1..)
            .zip(counts)
            .map(|(index, count)| sealed_server(&place, index, count, accepted.len(), &reservations))
            .unzip();
        for (number, person) in people.iter().enumerate() {
            let found = ask_sealed(&place, person, &servers);
            assert_eq!(found["scheme"], "sealed");
            let Some(expected) = expected.get(number) else {
                // The first instance is compared with brute force.
                let is_record = |row: &&&[String; 4]| {
                    COLUMNS.iter().zip(row.iter()).all(|(name, value)| match &found["record"][*name] {
                        serde_json::Value::Number(number) => number.as_f64() == value.parse().ok(),
                        other => other == value.as_str(),
                    })
                };
                let row = accepted.iter().find(is_record).unwrap_or_else(|| panic!("{found} is not a row"));
                let (quantised, cost) = truth.table_cost(person, row);
                let cheaper = accepted.iter().any(|row| truth.table_cost(person, row).0 < quantised - 1e-6);
                assert!(!cheaper && (found["cost"].as_f64().unwrap() - cost).abs() < 1e-9, "{found}");
                expected.push(found);
                continue;
            };
            for what in ["cost", "record", "nearest"] {
                assert_eq!(found[what], expected[what], "{what} with {counts:?} shards");
            }
        }
    }
}

#[test]
fn groups_are_found_by_sealed_searches_with_and_without_shards() {
    let mut place = Place::empty();
    place.rows = support::table(300, 9);
    let schema = place.path("schema.toml");
    std::fs::write(&schema, "keep = ['housing']\n").unwrap();
    let deployment = ["--servers", "3", "--scheme", "sealed", "--top-limit", "2", "--levels", "20", "--scale", "paper"];
    let build = [&deployment[..], &["--group", "5", "--schema", &schema]].concat();
    place.build("bundle", &place.rows, &build);
    let shown = fine(&["inspect", &place.path("bundle")]);
    assert!(shown.contains("stands for at least 5 accepted people; nobody's own record"), "{shown}");
    let bundle = Bundle::open(place.path("bundle").as_ref()).unwrap();
    let record = |text: &[u8]| -> [String; 4] {
        let record = ifonly_values::record::Record::of(bundle.manifest(), text).unwrap();
        COLUMNS.map(|name| record.value(name).unwrap().to_owned())
    };
    let records: Vec<[String; 4]> = bundle.texts().map(record).collect();
    let truth = Truth::new(&serde_json::to_value(bundle.manifest()).unwrap());
    let people: Vec<&[String; 4]> = place.rows.iter().filter(|row| !row.1).map(|row| &row.0).take(2).collect();
    for counts in [[0; 3], [2, 0, 0]] {
        let reservations: [PortReservation; 3] = std::array::from_fn(|_| PortReservation::open());
        let (servers, _shards): (Vec<Server>, Vec<Vec<Server>>) = (1..)
            .zip(counts)
            .map(|(index, count)| sealed_server(&place, index, count, records.len(), &reservations))
            .unzip();
        for person in &people {
            let found = ask_sealed(&place, person, &servers);
            let costs: Vec<(f64, f64)> = records.iter().map(|row| truth.table_cost(person, row)).collect();
            let best = costs.iter().map(|cost| cost.0).fold(f64::INFINITY, f64::min);
            // The cost shown is that of the exact values; servers compare the quantised ones.
            let shown = found["cost"].as_f64().unwrap();
            let is_nearest = |cost: &(f64, f64)| (cost.1 - shown).abs() < 1e-9 && cost.0 < best + 1e-6;
            assert!(costs.iter().any(is_nearest), "{found}, but {best}");
            assert!(found["group"]["at_least"].as_u64() >= Some(5), "{found}");
            assert_eq!(found["notes"][0]["code"], "stands-for", "{found}");
        }
    }
}

/// Starts one of three servers with `count` shards, or without shards if `count` is 0. Waits until
/// it is ready.
fn sealed_server(
    place: &Place,
    index: usize,
    count: usize,
    rows: usize,
    reservations: &[PortReservation; 3],
) -> (Server, Vec<Server>) {
    if count == 0 {
        return (place.peer_server(index, reservations), vec![]);
    }
    let cut = |number: usize| rows * number / count;
    let shard = |number| shard(place, "bundle", Some(&format!("{}:{}", cut(number), cut(number + 1))), "root.key");
    let shards: Vec<Server> = (0..count).map(shard).collect();
    let addresses: Vec<&str> = shards.iter().map(Server::address).collect();
    let [_, _, _, cert, _, key] = shard_flags(place);
    let addresses = addresses.join(",");
    let flags = ["--shards", &addresses, "--shards-cert", &cert, "--shards-key", &key];
    let mut server = place.peer_server_with(index, reservations, &[&flags[..], &["--admin", "127.0.0.1:0"]].concat());
    let admin = admin_of(&mut server);
    until(|| support::get(&admin, "/readyz").contains(" 200 "));
    (server, shards)
}

fn ask_sealed(place: &Place, person: &[String; 4], servers: &[Server]) -> serde_json::Value {
    let (profile, ca) = (place.profile(person), place.path("cert.pem"));
    let mut arguments = vec!["ask", "--json", "--ca", &ca, "--profile", profile.to_str().unwrap()];
    // Every difference counts, as in the comparison with brute force.
    arguments.extend(["--scheme", "sealed", "--top", "2", "--tolerance", "*=0"]);
    servers.iter().for_each(|server| arguments.extend(["--server", &server.url]));
    serde_json::from_str(&fine(&arguments)).unwrap()
}

#[test]
fn wrong_and_missing_shards_are_named() {
    let place = Place::new(120, 7, &["--levels", "20"]);
    let rows = Bundle::manifest_of(place.path("bundle").as_ref()).unwrap().rows();
    place.build("other", &place.rows[10..], &["--levels", "20"]);
    fine(&["keygen", "-o", &place.path("other.key")]);
    let good = shard(&place, "bundle", Some(":40"), "root.key");
    let refused = |shards: &[&Server]| {
        let addresses: Vec<&str> = shards.iter().map(|shard| shard.address()).collect();
        let flags = frontend_flags(&place, "bundle", &addresses.join(","));
        let output = ifonly(&flags.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(4));
        String::from_utf8(output.stderr).unwrap()
    };
    let overlapping = shard(&place, "bundle", Some("39:"), "root.key");
    let text = refused(&[&good, &overlapping]);
    assert!(text.contains(good.address()) && text.contains(overlapping.address()) && text.contains("row 39"), "{text}");
    let foreign = shard(&place, "other", Some("40:"), "root.key");
    let text = refused(&[&good, &foreign]);
    assert!(text.contains(foreign.address()) && text.contains("another bundle"), "{text}");
    let stranger = shard(&place, "bundle", Some("40:"), "other.key");
    let text = refused(&[&good, &stranger]);
    assert!(text.contains(stranger.address()) && text.contains("another root key"), "{text}");

    // A server that accepts connections and sends nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let flags = frontend_flags(&place, "bundle", &format!("{},{address}", good.address()));
    let ready = readiness(&flags);
    assert!(ready.contains(" 503 ") && ready.contains(&address) && ready.contains("within 5 s"), "{ready}");

    // Shards may be missing at the start: the frontend waits and names the missing rows.
    let file = place.path("shards");
    std::fs::write(&file, format!("# one is missing\n{}\n", good.address())).unwrap();
    let mut flags = frontend_flags(&place, "bundle", "");
    let index = flags.iter().position(|flag| flag == "--shards").unwrap();
    (flags[index], flags[index + 1]) = ("--shards-file".into(), file.clone());
    flags.extend(["--admin".into(), "127.0.0.1:0".into()]);
    let mut server = Server::start(&flags.iter().map(String::as_str).collect::<Vec<_>>());
    let admin = admin_of(&mut server);
    let ready = || support::get(&admin, "/readyz");
    let missing = format!("no shard serves rows 40 to {rows}");
    assert!(ready().contains(" 503 ") && ready().contains(&missing), "{}", ready());
    let second = place.server(2, &[]);
    let profile = place.profile(&place.rows[0].0);
    let ask = || {
        let servers = ["--server", &server.url, "--server", &second.url];
        let output = ifonly(&[&["ask", "--profile", profile.to_str().unwrap()], &servers[..]].concat());
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, text) = ask();
    assert_eq!(code, 5, "too few servers answer: {text}");
    assert!(text.contains("503, shards-unavailable") && text.contains(&format!("rows 40 to {rows}")), "{text}");
    let late = shard(&place, "bundle", Some("40:"), "root.key");
    // Atomically, as a supervisor writes it.
    let announce = |addresses: &str| {
        std::fs::write(format!("{file}.new"), addresses).unwrap();
        std::fs::rename(format!("{file}.new"), &file).unwrap();
    };
    announce(&format!("{}\n{}\n", good.address(), late.address()));
    until(|| ready().contains(" 200 "));
    let (code, text) = ask();
    assert_eq!(code, 0, "{text}");
    // A shard exits, and another one starts at another address.
    drop(late);
    assert_ne!(ask().0, 0);
    until(|| ready().contains(" 503 "));
    let again = shard(&place, "bundle", Some("40:"), "root.key");
    announce(&format!("{}\n{}\n", again.address(), good.address()));
    until(|| ready().contains(" 200 "));
    let (code, text) = ask();
    assert_eq!(code, 0, "{text}");
}

/// The readiness of a frontend that is started with these flags.
fn readiness(flags: &[String]) -> String {
    let admin = ["--admin".to_owned(), "127.0.0.1:0".into()];
    let flags: Vec<&str> = flags.iter().chain(&admin).map(String::as_str).collect();
    let mut server = Server::start(&flags);
    support::get(&admin_of(&mut server), "/readyz")
}

/// The admin address, which a server prints on its next line.
fn admin_of(server: &mut Server) -> String {
    let mut line = String::new();
    server.lines.read_line(&mut line).unwrap();
    line.trim().strip_prefix("admin on http://").unwrap_or_else(|| panic!("{line:?}")).to_owned()
}

/// How long a test waits for a server. A loaded machine needs many seconds.
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(120);

/// Waits until a condition holds.
#[track_caller]
fn until(holds: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + DEADLINE;
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "this did not hold within {DEADLINE:?}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn a_shard_refuses_clients_without_its_certificate() {
    let place = Place::new(60, 9, &["--levels", "20"]);
    let shards = [shard(&place, "bundle", None, "root.key")];
    // Another certificate with the same name.
    let (cert, key) = (place.path("stranger.pem"), place.path("stranger.key"));
    fine(&["keygen", "--shard-certificate", &cert]);
    let flags = frontend_flags(&place, "bundle", shards[0].address());
    let mut flags = flags;
    let at = |flag: &str| flags.iter().position(|given| given == flag).unwrap() + 1;
    let (cert_at, key_at) = (at("--shards-cert"), at("--shards-key"));
    (flags[cert_at], flags[key_at]) = (cert, key);
    let ready = readiness(&flags);
    assert!(ready.contains(" 503 ") && ready.contains("certificate"), "{ready}");
    // Without a client certificate the TLS handshake fails.
    let output = std::process::Command::new("curl").args(["-sk", &format!("{}/shard", shards[0].url)]).output();
    assert!(output.is_err() || !output.unwrap().status.success());
}

#[test]
fn repeated_rejected_connections_do_not_fill_the_log_of_a_shard() {
    let place = Place::new(60, 9, &["--levels", "20"]);
    let (bundle, log) = (place.path("bundle"), place.path("log"));
    let flags = shard_flags(&place);
    let mut arguments = vec!["shard", &bundle, "--log", "warn"];
    arguments.extend(flags.iter().map(String::as_str));
    let shard = Server::start_logging(&arguments, std::fs::File::create(&log).unwrap().into());
    for _ in 0..50 {
        let mut stream = std::net::TcpStream::connect(shard.address()).unwrap();
        // The shard sends an alert and closes; the client may see a reset instead.
        let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\n").and_then(|()| stream.read_to_end(&mut vec![]));
    }
    let warnings =
        || std::fs::read_to_string(&log).unwrap().lines().filter(|line| line.contains("rejected a connection")).count();
    until(|| warnings() > 0);
    // At most one warning in ten seconds.
    assert!(warnings() < 20, "{}", warnings());
}

#[test]
fn a_stopped_shard_is_named_until_it_continues() {
    let place = Place::new(120, 13, &["--levels", "20"]);
    let rows = Bundle::manifest_of(place.path("bundle").as_ref()).unwrap().rows();
    let shards = [":40", "40:"].map(|rows| shard(&place, "bundle", Some(rows), "root.key"));
    let config = place.path("frontend.toml");
    std::fs::write(&config, "[shards]\nstall_seconds = 1\n").unwrap();
    let mut frontend = frontend(&place, "bundle", &shards, &["--config", &config, "--admin", "127.0.0.1:0"]);
    let admin = admin_of(&mut frontend);
    let ready = || support::get(&admin, "/readyz");
    until(|| ready().contains(" 200 "));
    let second = place.server(2, &[]);
    let profile = place.profile(&place.rows[0].0);
    let ask = || {
        let servers = ["--server", &frontend.url, "--server", &second.url];
        let output = ifonly(&[&["ask", "--profile", profile.to_str().unwrap()], &servers[..]].concat());
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, text) = ask();
    assert_eq!(code, 0, "{text}");
    shards[1].signal("-STOP");
    let text = problem(&place, frontend.address());
    assert!(text.contains(" 503 ") && text.contains("urn:ifonly:problem:shards-unavailable"), "{text}");
    // Clients learn which rows are missing; only operators learn the addresses of shards.
    assert!(text.contains(&format!("rows 40 to {rows}")) && !text.contains(shards[1].address()), "{text}");
    let (code, text) = ask();
    assert_eq!(code, 5, "too few servers answer: {text}");
    assert!(text.contains("503, shards-unavailable") && text.contains(&format!("rows 40 to {rows}")), "{text}");
    assert!(!text.contains(shards[1].address()), "{text}");
    let missing = format!("no shard serves rows 40 to {rows}");
    until(|| ready().contains(" 503 "));
    assert!(ready().contains(&missing) && ready().contains(shards[1].address()), "{}", ready());
    assert!(!ready().contains(shards[0].address()), "{}", ready());
    shards[1].signal("-CONT");
    until(|| ready().contains(" 200 "));
    let (code, text) = ask();
    assert_eq!(code, 0, "{text}");
}

/// The complete HTTP response to the first message of a search that the server cannot answer.
fn problem(place: &Place, address: &str) -> String {
    let manifest = Bundle::manifest_of(place.path("bundle").as_ref()).unwrap();
    let own = vec![0; manifest.schema().max_levels().len()];
    let instance = manifest.instances().next().unwrap().clone();
    let mut search = Search::new(instance, SecretQuery::new(own), manifest.header_context()).unwrap();
    let message = search.next(&mut SeededRandom::new(14)).unwrap().messages[0].to_vec();
    let head = format!(
        "POST /v1/answer HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        message.len()
    );
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    std::io::Write::write_all(&mut stream, &[head.as_bytes(), &message].concat()).unwrap();
    let mut response = vec![];
    std::io::Read::read_to_end(&mut stream, &mut response).unwrap();
    String::from_utf8_lossy(&response).into_owned()
}

#[test]
fn invalid_shard_addresses_are_named() {
    let place = Place::new(60, 11, &["--levels", "20"]);
    let shards = [":20", "20:"].map(|rows| shard(&place, "bundle", Some(rows), "root.key"));
    // In the configuration.
    for invalid in ["", "10.0.0.4", "http://10.0.0.4:7001"] {
        let flags = frontend_flags(&place, "bundle", invalid);
        let output = ifonly(&flags.iter().map(String::as_str).collect::<Vec<_>>());
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{text}");
        assert!(text.contains("shards.addresses") && text.contains(&format!("{invalid:?}")), "{text}");
    }
    // In a file, which may change. URLs that shards print are valid addresses.
    let (file, log) = (place.path("shards"), place.path("log"));
    let announce = |lines: &[&str]| {
        std::fs::write(format!("{file}.new"), lines.join("\n")).unwrap();
        std::fs::rename(format!("{file}.new"), &file).unwrap();
    };
    let mut flags = frontend_flags(&place, "bundle", "");
    let at = |flag: &str| flags.iter().position(|given| given == flag).unwrap();
    let (shards_at, log_at) = (at("--shards"), at("--log") + 1);
    (flags[shards_at], flags[shards_at + 1], flags[log_at]) = ("--shards-file".into(), file.clone(), "warn".into());
    flags.extend(["--admin".into(), "127.0.0.1:0".into()]);
    let stderr = std::fs::File::create(&log).unwrap();
    let mut frontend = Server::start_logging(&flags.iter().map(String::as_str).collect::<Vec<_>>(), stderr.into());
    let admin = admin_of(&mut frontend);
    let ready = || support::get(&admin, "/readyz");
    let logged = |what: &[&str]| {
        let text = std::fs::read_to_string(&log).unwrap();
        text.lines().filter(|line| what.iter().all(|what| line.contains(what))).count()
    };
    assert!(ready().contains(" 503 ") && ready().contains(&file), "{}", ready());
    announce(&["# no shard yet"]);
    until(|| ready().contains("lists no shard"));
    announce(&[&shards[0].url, "10.0.0.4"]);
    until(|| ready().contains("not a valid shard address: \"10.0.0.4\""));
    assert!(ready().contains(" 503 ") && ready().contains("no shard serves rows 20 to"), "{}", ready());
    assert!(logged(&["10.0.0.4"]) > 0);
    // An unreachable shard that is not needed is named in the log once.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    announce(&[&shards[0].url, &shards[1].url, &closed]);
    until(|| ready().contains(" 200 ") && logged(&["redundant shard is unreachable"]) == 1);
    announce(&[&shards[0].url, &shards[1].url, &closed, "10.0.0.4"]);
    until(|| logged(&["redundant shard is unreachable"]) == 2);
    assert_eq!(logged(&["redundant shard is unreachable", &closed]), 1);
    assert!(ready().contains(" 200 "), "{}", ready());
}
