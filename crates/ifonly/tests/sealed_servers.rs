//! Sealed searches at real servers, with TLS between servers and to the client, compared with brute
//! force.

#[path = "support/questions.rs"]
mod questions;
mod support;

use ifonly::{Client, Loopback, LoopbackOptions, LoopbackTls, Pins};
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::{OsRandom, SeededRandom};
use ifonly_client::Transport;
use ifonly_client::transport::http::{HttpServer, TlsTrust};
use ifonly_server::LoadedBundle;
use ifonly_server::peers::RandomnessMode;
use questions::{COUNTS, Numbers, QueryCounts, Question, TOP, name};
use std::sync::Arc;
use support::{Place, PortReservation, Server, fine};
use tokio::runtime::Runtime;

/// Three servers over TLS on loopback, with the randomness mode of each server, and a client.
async fn serve(numbers: &Numbers, randomness: [RandomnessMode; 3]) -> (Loopback, Client) {
    let directory = tempfile::tempdir().unwrap();
    let tls = LoopbackTls::create(directory.path(), 3).unwrap();
    let trust = TlsTrust::pem(tls.certificates().as_bytes()).unwrap();
    let (key, bundle) = (RootKey::generate(0, &mut OsRandom::default()), numbers.bundle());
    let load = |index| LoadedBundle::new(&bundle, index, vec![key.clone()]).unwrap();
    let peers = tls.peers(randomness, Ok).await.unwrap();
    let options = LoopbackOptions { tls: Some(tls), peers, ..LoopbackOptions::default() };
    let servers = Loopback::serve((1..=3).map(load).collect(), options).await.unwrap();
    let transport = |url: &String| Arc::new(HttpServer::new(url, &trust).unwrap()) as Arc<dyn Transport>;
    let client = Client::connect(servers.urls().iter().map(transport).collect(), &Pins::default()).await.unwrap();
    (servers, client)
}

/// Runs four concurrent searches.
async fn ask_four(client: &Client, questions: [Question; 4], what: &str, counts: &mut QueryCounts) {
    let ask = async |question: &Question| client.ask(&question.values(), &question.wishes).await;
    let [first, second, third, fourth] = &questions;
    let (first, second, third, fourth) = tokio::join!(ask(first), ask(second), ask(third), ask(fourth));
    for (question, answer) in questions.iter().zip([first, second, third, fourth]) {
        question.check(&answer.unwrap_or_else(|error| panic!("{what}: {error}")), what);
        counts.add(question);
    }
}

#[test]
fn two_hundred_random_searches_over_tls_have_the_results_of_brute_force() {
    let mut random = SeededRandom::new(31);
    let mut counts = QueryCounts::default();
    for (number, count) in COUNTS.into_iter().enumerate() {
        // Few levels, so that ties are common.
        let (columns, range) = [(1, 2), (2, 3), (3, 2), (2, 9), (5, 4)][number % 5];
        let mode = [RandomnessMode::System, RandomnessMode::Keys][number % 2];
        let numbers = Numbers::draw(columns, range, count, &mut random);
        let what = format!("{columns} columns to {range}, {count} rows, randomness {mode}");
        let runtime = Runtime::new().unwrap();
        runtime.block_on(async {
            let (_servers, client) = serve(&numbers, [mode; 3]).await;
            for _ in 0..3 {
                let questions = std::array::from_fn(|_| numbers.question(&mut random));
                ask_four(&client, questions, &what, &mut counts).await;
            }
        });
        runtime.shutdown_background();
    }
    println!("{counts:?}");
    assert!(counts.queries >= 200 && counts.no_match > 10 && counts.ties > 10 && counts.several > 50, "{counts:?}");
}

#[test]
fn servers_with_different_randomness_modes_refuse_the_session() {
    let mut random = SeededRandom::new(32);
    let numbers = Numbers::draw(2, 3, 5, &mut random);
    let question = numbers.question(&mut random);
    let runtime = Runtime::new().unwrap();
    let error = runtime.block_on(async {
        let modes = [RandomnessMode::System, RandomnessMode::Keys, RandomnessMode::System];
        let (_servers, client) = serve(&numbers, modes).await;
        client.ask(&question.values(), &question.wishes).await.unwrap_err().to_string()
    });
    runtime.shutdown_background();
    assert!(error.contains("a different randomness for this session"), "{error}");
}

/// Builds a bundle of these numbers for three servers. Returns the trusted certificate.
fn built(place: &Place, numbers: &Numbers, extra: &[&str]) -> TlsTrust {
    let header: Vec<String> = (0..3).map(name).collect();
    let lines = numbers.rows.iter().map(|row| row.iter().map(i64::to_string).collect::<Vec<_>>().join(","));
    let text: String = [header.join(",")].into_iter().chain(lines).map(|line| line + "\n").collect();
    std::fs::write(place.path("numbers.csv"), text).unwrap();
    let (data, bundle) = (place.path("numbers.csv"), place.path("bundle"));
    let build = ["build", &data, "-o", &bundle, "--servers", "3", "--scheme", "sealed", "--scale", "exact"];
    let top = ["--top-limit", &TOP.to_string()];
    fine(&[&build[..], &top, extra].concat());
    TlsTrust::pem(&std::fs::read(place.path("cert.pem")).unwrap()).unwrap()
}

/// Integers from 0 to 9. Both ends occur, so that the build infers this range from the file.
fn digits(random: &mut SeededRandom) -> Numbers {
    let mut numbers = Numbers::draw(3, 9, 63, random);
    numbers.rows.extend([vec![0; 3], vec![9; 3]]);
    numbers
}

fn transport(server: &Server, trust: &TlsTrust) -> Arc<dyn Transport> {
    Arc::new(HttpServer::new(&server.url, trust).unwrap())
}

#[test]
fn three_processes_have_the_results_of_brute_force_in_both_randomness_modes() {
    let mut random = SeededRandom::new(33);
    let (numbers, place) = (digits(&mut random), Place::empty());
    let trust = built(&place, &numbers, &[]);
    let mut counts = QueryCounts::default();
    for extra in [&[][..], &["--randomness", "keys"]] {
        let reservations: [PortReservation; 3] = std::array::from_fn(|_| PortReservation::open());
        let servers: Vec<Server> = (1..=3).map(|index| place.peer_server_with(index, &reservations, extra)).collect();
        let transports = servers.iter().map(|server| transport(server, &trust)).collect();
        Runtime::new().unwrap().block_on(async {
            let client = Client::connect(transports, &Pins::default()).await.unwrap();
            for _ in 0..5 {
                let questions = std::array::from_fn(|_| numbers.question(&mut random));
                ask_four(&client, questions, &format!("processes {extra:?}"), &mut counts).await;
            }
        });
    }
    assert!(counts.queries == 40 && counts.several > 10, "{counts:?}");
}

#[test]
fn a_search_finds_no_row_if_fewer_rows_match_than_the_floor() {
    const FLOOR: usize = 6;
    let mut random = SeededRandom::new(35);
    let (numbers, place) = (digits(&mut random), Place::empty());
    let trust = built(&place, &numbers, &["--floor", &FLOOR.to_string()]);
    let described = fine(&["inspect", &place.path("bundle")]);
    assert!(described.contains("fewer than 6 rows that match finds no record"), "{described}");
    let reservations: [PortReservation; 3] = std::array::from_fn(|_| PortReservation::open());
    let servers: Vec<Server> = (1..=3).map(|index| place.peer_server(index, &reservations)).collect();
    let transports = servers.iter().map(|server| transport(server, &trust)).collect();
    let (mut below, mut reached) = (0, 0);
    Runtime::new().unwrap().block_on(async {
        let client = Client::connect(transports, &Pins::default()).await.unwrap();
        for _ in 0..30 {
            let mut question = numbers.question(&mut random);
            below += usize::from((1..FLOOR).contains(&question.costs.len()));
            reached += usize::from(question.costs.len() >= FLOOR);
            if question.costs.len() < FLOOR {
                question.costs.clear();
            }
            question.check(&client.ask(&question.values(), &question.wishes).await.unwrap(), "floor");
        }
    });
    assert!(below > 3 && reached > 3, "{below} searches below the floor, {reached} not");
    // Other schemes cannot keep a floor, and a floor above the number of rows hides every row.
    let (data, bundle) = (place.path("numbers.csv"), place.path("other"));
    for (extra, reason) in [
        (["--floor", "6", "--scheme", "gated-tables"], "needs sealed as the only scheme"),
        (["--floor", "66", "--scheme", "sealed"], "must be in 1..=65"),
    ] {
        let output = support::ifonly(&[&["build", &data, "-o", &bundle, "--servers", "3"][..], &extra].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(reason) && error.contains("--floor"), "{error}");
    }
}

#[test]
fn sealed_searches_work_at_every_frontend_and_after_the_death_of_one() {
    let mut random = SeededRandom::new(34);
    let (numbers, place) = (digits(&mut random), Place::empty());
    let trust = built(&place, &numbers, &[]);
    let mut counts = QueryCounts::default();
    // Servers 1 and 2 have two frontends each.
    let reservations: [[PortReservation; 3]; 2] =
        std::array::from_fn(|_| std::array::from_fn(|_| PortReservation::open()));
    let others = |server: usize| ["--next", &reservations[1][server % 3].address];
    let frontend = |server: usize, own: usize| {
        let known = std::array::from_fn(|index| reservations[if index + 1 == server { own } else { 0 }][index].clone());
        // Server 3 has one frontend.
        let others = others(server);
        place.peer_server_with(server, &known, if server == 2 { &[] } else { &others })
    };
    let third = frontend(3, 0);
    let [mut first, mut second] = [1, 2].map(|server| vec![frontend(server, 0), frontend(server, 1)]);
    let mut ask = |servers: [&Server; 3]| {
        let transports = servers.map(|server| transport(server, &trust)).into();
        Runtime::new().unwrap().block_on(async {
            let client = Client::connect(transports, &Pins::default()).await.unwrap();
            let questions = std::array::from_fn(|_| numbers.question(&mut random));
            ask_four(&client, questions, "frontends", &mut counts).await;
        });
    };
    for (one, two) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        ask([&first[one], &second[two], &third]);
    }
    // Dropping a server kills its process.
    drop((first.remove(0), second.remove(1)));
    ask([&first[0], &second[0], &third]);
}
