//! Sealed searches at real servers: TLS between everybody, random questions, the answers of brute
//! force.

#[path = "support/questions.rs"]
mod questions;
mod support;

use ifonly::{Client, Pins};
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::{OsRandom, SeededRandom};
use ifonly_client::Transport;
use ifonly_client::transport::http::{HttpServer, TlsTrust};
use ifonly_server::LoadedBundle;
use ifonly_server::auth::tokens::Tokens;
use ifonly_server::config::Limits;
use ifonly_server::http::routes::AppState;
use ifonly_server::peers::{NextServer, PeerLimits, PeerListener, PeersConfig, PreviousServer, RandomnessMode};
use ifonly_server::tls::server;
use questions::{COUNTS, Numbers, Question, Seen, name};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use support::{Place, PortReservation, Server, fine};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// Certificates of three servers.
struct Certificates {
    folder: tempfile::TempDir,
    trusted: String,
}

impl Certificates {
    fn make() -> Certificates {
        let mut made = Certificates { folder: tempfile::tempdir().unwrap(), trusted: String::new() };
        for server in 1..=3 {
            let signed = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
            std::fs::write(made.file(server, "pem"), signed.cert.pem()).unwrap();
            std::fs::write(made.file(server, "key"), signed.signing_key.serialize_pem()).unwrap();
            made.trusted += &signed.cert.pem();
        }
        made
    }

    fn file(&self, server: usize, what: &str) -> PathBuf {
        self.folder.path().join(format!("{server}.{what}"))
    }

    /// Starts three servers of these numbers, whose random bits come from where `sources` says, and
    /// gives the ways to them.
    async fn serve(&self, numbers: &Numbers, sources: [RandomnessMode; 3]) -> Vec<Arc<dyn Transport>> {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut listeners = vec![];
        for _ in 0..3 {
            listeners.push(TcpListener::bind(local).await.unwrap());
        }
        let addresses: Vec<SocketAddr> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
        let (key, bundle) = (RootKey::generate(0, &mut OsRandom::default()), numbers.bundle());
        let trust = TlsTrust::pem(self.trusted.as_bytes()).unwrap();
        let mut ways: Vec<Arc<dyn Transport>> = vec![];
        for ((server, listener), randomness) in (1..).zip(listeners).zip(sources) {
            let (next, previous) = (server % 3 + 1, (server + 1) % 3 + 1);
            let config = PeersConfig {
                listen: local,
                next: NextServer {
                    addresses: vec![addresses[next - 1].to_string()],
                    certificate: self.file(next, "pem"),
                },
                previous: PreviousServer { certificate: self.file(previous, "pem") },
                randomness,
                limits: PeerLimits::default(),
            };
            let (certificate, private) = (self.file(server, "pem"), self.file(server, "key"));
            let peer_listener = PeerListener::on(listener, &config, server as u8, &certificate, &private).unwrap();
            let loaded = LoadedBundle::new(&bundle, server as u8, vec![key.clone()]).unwrap();
            // Everybody here has one address.
            let limits = Limits { address_percent: 100, ..Limits::default() };
            let app = AppState::new(loaded, Tokens::new(vec![], None).unwrap(), limits, vec![]);
            let app = app.with_peers(Some(Arc::new(peer_listener.run())));
            let tls = server::server(&certificate, &private).unwrap();
            let bound = ifonly_server::Server::bind(app, local, None, Some(tls)).await.unwrap();
            let url = format!("https://{}", bound.address());
            ways.push(Arc::new(HttpServer::new(&url, &trust, None).unwrap()));
            tokio::spawn(bound.run(std::future::pending()));
        }
        ways
    }
}

/// Asks four at once, so that sessions meet each other.
async fn ask_four(client: &Client, questions: [Question; 4], what: &str, seen: &mut Seen) {
    let ask = async |question: &Question| client.ask(&question.values(), &question.wishes).await;
    let [first, second, third, fourth] = &questions;
    let (first, second, third, fourth) = tokio::join!(ask(first), ask(second), ask(third), ask(fourth));
    for (question, answer) in questions.iter().zip([first, second, third, fourth]) {
        question.check(&answer.unwrap_or_else(|error| panic!("{what}: {error}")), what);
        seen.count(question);
    }
}

#[test]
fn two_hundred_random_questions_over_tls_have_the_answers_of_brute_force() {
    let certificates = Certificates::make();
    let mut random = SeededRandom::new(31);
    let mut seen = Seen::default();
    for (place, count) in COUNTS.into_iter().enumerate() {
        // Few levels, so that ties are common.
        let (columns, range) = [(1, 2), (2, 3), (3, 2), (2, 9), (5, 4)][place % 5];
        let source = [RandomnessMode::System, RandomnessMode::Keys][place % 2];
        let numbers = Numbers::draw(columns, range, count, &mut random);
        let what = format!("{columns} columns to {range}, {count} rows, random bits: {source}");
        // Its servers end with it.
        let runtime = Runtime::new().unwrap();
        runtime.block_on(async {
            let ways = certificates.serve(&numbers, [source; 3]).await;
            let client = Client::connect(ways, &Pins::default()).await.unwrap();
            for _ in 0..3 {
                let questions = std::array::from_fn(|_| numbers.question(&mut random));
                ask_four(&client, questions, &what, &mut seen).await;
            }
        });
        runtime.shutdown_background();
    }
    println!("{seen:?}");
    assert!(seen.asked >= 200 && seen.nobody > 10 && seen.ties > 10 && seen.several > 50, "{seen:?}");
}

#[test]
fn servers_that_disagree_on_where_random_bits_come_from_say_so() {
    let certificates = Certificates::make();
    let mut random = SeededRandom::new(32);
    let numbers = Numbers::draw(2, 3, 5, &mut random);
    let question = numbers.question(&mut random);
    let runtime = Runtime::new().unwrap();
    let said = runtime.block_on(async {
        let ways =
            certificates.serve(&numbers, [RandomnessMode::System, RandomnessMode::Keys, RandomnessMode::System]).await;
        let client = Client::connect(ways, &Pins::default()).await.unwrap();
        client.ask(&question.values(), &question.wishes).await.unwrap_err().to_string()
    });
    runtime.shutdown_background();
    assert!(said.contains("has another randomness for this session"), "{said}");
}

/// A bundle of these numbers for three servers, and whom to trust.
fn built(place: &Place, numbers: &Numbers) -> TlsTrust {
    let header: Vec<String> = (0..3).map(name).collect();
    let lines = numbers.rows.iter().map(|row| row.iter().map(i64::to_string).collect::<Vec<_>>().join(","));
    let text: String = [header.join(",")].into_iter().chain(lines).map(|line| line + "\n").collect();
    std::fs::write(place.path("numbers.csv"), text).unwrap();
    let (data, bundle) = (place.path("numbers.csv"), place.path("bundle"));
    fine(&["build", &data, "-o", &bundle, "--servers", "3", "--scheme", "sealed", "--scale", "exact"]);
    TlsTrust::pem(&std::fs::read(place.path("cert.pem")).unwrap()).unwrap()
}

/// Numbers from 0 to 9, both of which occur: whoever reads the file sees from where to where they
/// go.
fn digits(random: &mut SeededRandom) -> Numbers {
    let mut numbers = Numbers::draw(3, 9, 63, random);
    numbers.rows.extend([vec![0; 3], vec![9; 3]]);
    numbers
}

fn way(server: &Server, trust: &TlsTrust) -> Arc<dyn Transport> {
    Arc::new(HttpServer::new(&server.url, trust, None).unwrap())
}

#[test]
fn three_processes_give_the_answers_of_brute_force_with_and_without_keys() {
    let mut random = SeededRandom::new(33);
    let (numbers, place) = (digits(&mut random), Place::empty());
    let trust = built(&place, &numbers);
    let mut seen = Seen::default();
    for extra in [&[][..], &["--randomness", "keys"]] {
        let reservations: [PortReservation; 3] = std::array::from_fn(|_| PortReservation::open());
        let servers: Vec<Server> = (1..=3).map(|index| place.peer_server_with(index, &reservations, extra)).collect();
        let ways = servers.iter().map(|server| way(server, &trust)).collect();
        Runtime::new().unwrap().block_on(async {
            let client = Client::connect(ways, &Pins::default()).await.unwrap();
            for _ in 0..5 {
                let questions = std::array::from_fn(|_| numbers.question(&mut random));
                ask_four(&client, questions, &format!("processes {extra:?}"), &mut seen).await;
            }
        });
    }
    assert!(seen.asked == 40 && seen.several > 10, "{seen:?}");
}

#[test]
fn a_server_of_several_fronts_answers_whichever_is_asked_also_when_one_has_died() {
    let mut random = SeededRandom::new(34);
    let (numbers, place) = (digits(&mut random), Place::empty());
    let trust = built(&place, &numbers);
    let mut seen = Seen::default();
    // Servers 1 and 2 are two processes each.
    let reservations: [[PortReservation; 3]; 2] =
        std::array::from_fn(|_| std::array::from_fn(|_| PortReservation::open()));
    let others = |server: usize| ["--next", &reservations[1][server % 3].address];
    let frontend = |server: usize, own: usize| {
        let known = std::array::from_fn(|place| reservations[if place + 1 == server { own } else { 0 }][place].clone());
        // Server 3 is one process.
        let others = others(server);
        place.peer_server_with(server, &known, if server == 2 { &[] } else { &others })
    };
    let third = frontend(3, 0);
    let [mut first, mut second] = [1, 2].map(|server| vec![frontend(server, 0), frontend(server, 1)]);
    let mut ask = |servers: [&Server; 3]| {
        let ways = servers.map(|server| way(server, &trust)).into();
        Runtime::new().unwrap().block_on(async {
            let client = Client::connect(ways, &Pins::default()).await.unwrap();
            let questions = std::array::from_fn(|_| numbers.question(&mut random));
            ask_four(&client, questions, "fronts", &mut seen).await;
        });
    };
    for (one, two) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        ask([&first[one], &second[two], &third]);
    }
    // Dropped, its process is killed.
    drop((first.remove(0), second.remove(1)));
    ask([&first[0], &second[0], &third]);
}
