//! Sealed searches on loopback servers: results equal those of brute force, and the traffic reveals
//! nothing.

#[path = "support/questions.rs"]
mod questions;

use ifonly::{Client, Loopback, Pins, WishList};
use ifonly_algebra::random::SeededRandom;
use ifonly_client::RetryPolicy;
use ifonly_client::transport::http::{self, TlsTrust};
use questions::{COUNTS, Numbers, QueryCounts, Question, name};
use tokio::runtime::Runtime;

async fn connect(numbers: &Numbers) -> (Loopback, Client) {
    let servers = Loopback::start(&numbers.bundle(), None, vec![], &[]).await.unwrap();
    let trust = TlsTrust::system().unwrap();
    let transports = http::servers(servers.urls(), &trust, RetryPolicy::default()).unwrap();
    let client = Client::connect(transports, &Pins::default()).await.unwrap();
    (servers, client)
}

#[test]
fn results_equal_brute_force_with_ties_with_wishes_and_without_matching_rows() {
    let runtime = Runtime::new().unwrap();
    let mut random = SeededRandom::new(13);
    let mut counts = QueryCounts::default();
    // Few levels, so that ties are common; one column and several.
    for (number, count) in COUNTS.into_iter().enumerate() {
        let (columns, range) = [(1, 1), (2, 3), (3, 2), (2, 9), (11, 4)][number % 5];
        let numbers = Numbers::draw(columns, range, count, &mut random);
        let (_servers, client) = runtime.block_on(connect(&numbers));
        for _ in 0..8 {
            let question = numbers.question(&mut random);
            let answer = runtime.block_on(client.ask(&question.values(), &question.wishes)).unwrap();
            question.check(&answer, &format!("{columns} columns, {count} rows"));
            counts.add(&question);
        }
    }
    assert!(counts.no_match > 10 && counts.ties > 10 && counts.several > 50, "{counts:?}");
}

#[test]
fn traffic_depends_neither_on_the_query_nor_on_the_number_of_rows() {
    let runtime = Runtime::new().unwrap();
    let mut random = SeededRandom::new(14);
    let mut traffic = vec![];
    for count in [2, 1000] {
        let numbers = Numbers::draw(3, 9, count, &mut random);
        let (_servers, client) = runtime.block_on(connect(&numbers));
        let impossible = WishList { immutable: vec![name(0), name(1), name(2)], ..WishList::default() };
        for wishes in [WishList::default(), impossible] {
            for own in [vec![0, 0, 0], vec![9, 9, 9], numbers.rows[0].clone()] {
                let question = Question { own, wishes: wishes.clone(), costs: vec![] };
                traffic.push(runtime.block_on(client.ask(&question.values(), &wishes)).unwrap().traffic);
            }
        }
    }
    // Records are as long as the longest record of their bundle, and all values here have one
    // digit.
    assert!(traffic.iter().all(|bytes| *bytes == traffic[0]), "{traffic:?}");
    assert!(traffic[0].up + traffic[0].down < 40_000);
}
