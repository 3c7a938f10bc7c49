//! Sealed searches: the same answers as brute force, and traffic that says nothing.

#[path = "support/questions.rs"]
mod questions;

use ifonly::{Client, InProcess, Pins, WishList};
use ifonly_algebra::random::SeededRandom;
use questions::{COUNTS, Numbers, Question, Seen, name};

fn connect(numbers: &Numbers) -> Client {
    block_on(Client::connect(InProcess::servers(&numbers.bundle()).unwrap(), &Pins::default())).unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[test]
fn answers_equal_brute_force_with_ties_wishes_and_nobody_at_all() {
    let mut random = SeededRandom::new(13);
    let mut seen = Seen::default();
    // Few levels so that ties are common, one column and several.
    for (place, count) in COUNTS.into_iter().enumerate() {
        let (columns, range) = [(1, 1), (2, 3), (3, 2), (2, 9), (11, 4)][place % 5];
        let numbers = Numbers::draw(columns, range, count, &mut random);
        let client = connect(&numbers);
        for _ in 0..8 {
            let question = numbers.question(&mut random);
            let answer = block_on(client.ask(&question.values(), &question.wishes)).unwrap();
            question.check(&answer, &format!("{columns} columns, {count} rows"));
            seen.count(&question);
        }
    }
    assert!(seen.nobody > 10 && seen.ties > 10 && seen.several > 50, "{seen:?}");
}

#[test]
fn traffic_is_the_same_whoever_asks_and_however_many_rows_there_are() {
    let mut random = SeededRandom::new(14);
    let mut seen = vec![];
    for count in [2, 1000] {
        let numbers = Numbers::draw(3, 9, count, &mut random);
        let client = connect(&numbers);
        let impossible = WishList { immutable: vec![name(0), name(1), name(2)], ..WishList::default() };
        for wishes in [WishList::default(), impossible] {
            for own in [vec![0, 0, 0], vec![9, 9, 9], numbers.rows[0].clone()] {
                let question = Question { own, wishes: wishes.clone(), costs: vec![] };
                seen.push(block_on(client.ask(&question.values(), &wishes)).unwrap().traffic);
            }
        }
    }
    // Records are as long as the longest of their bundle, and these have one digit everywhere.
    assert!(seen.iter().all(|traffic| *traffic == seen[0]), "{seen:?}");
    assert!(seen[0].up + seen[0].down < 40_000);
}
