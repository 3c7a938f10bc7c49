//! The order of a shuffled answer: one for all messages of a search, another for every search, the same at all servers.

use crate::deployment::Deployment;
use crate::field::FieldRule;
use crate::field::Symbol;
use crate::keys::RootKey;
use crate::order::permutation;
use crate::params::Params;
use crate::promise::Promises;
use crate::random::SeededRandom;
use crate::replica::{Replica, Request};
use crate::scheme;
use crate::search::Audience;
use crate::transcript::{Message, Parent, Stage, messages};
use crate::wire;
use zeroize::Zeroizing;

const ROWS: usize = 50;
const AUDIENCE: Audience = Audience { digest: [5; 32], epoch: 3, record_length: 4, signer: None };

fn key() -> RootKey {
    RootKey::new(AUDIENCE.epoch, [9; 32])
}

fn deployment(shuffle: bool) -> Deployment {
    let params = Params { shuffle, ..Params::new(vec![9, 9], ROWS) };
    Deployment::new(scheme::named("two-phase").unwrap(), params, FieldRule::Deployment).unwrap()
}

/// The messages of a phase whose payload is all zeros; what is asked does not matter here.
fn phase(deployment: &Deployment, phase: u8, parent: Parent, seed: u64) -> Vec<Message> {
    let symbols = deployment.slot_lengths(phase.into()).iter().sum();
    let payload = wire::pack(deployment.field(), &vec![Symbol::ZERO; symbols]);
    let header = AUDIENCE.header(deployment, Stage::Phase(phase), 3, parent);
    messages(&header, vec![payload; 3], &mut SeededRandom::new(seed))
}

/// Both phases of a search, and its parent.
fn phases(deployment: &Deployment, seed: u64) -> (Vec<Message>, Vec<Message>, Parent) {
    let mut first = phase(deployment, 0, Parent::default(), seed);
    let part = Zeroizing::new(wire::pack(deployment.field(), &[Symbol::ZERO; 2]));
    let promises = Promises::make(&mut first, &[part.clone(), part.clone(), part], &mut SeededRandom::new(seed));
    let tau = first[0].tau();
    let parent = Parent { tau, ticket: key().ticket("two-phase", &tau) };
    let mut second = phase(deployment, 1, parent, 10 + seed);
    promises.keep(&mut second);
    (first, second, parent)
}

fn record(deployment: &Deployment, parent: Parent, seed: u64) -> Vec<Message> {
    let header = AUDIENCE.header(deployment, Stage::Record, 3, parent);
    messages(&header, vec![vec![0; 2 * ROWS]; 3], &mut SeededRandom::new(seed))
}

/// The order in which each server lists the rows for its message.
fn orders(deployment: &Deployment, messages: &[Message]) -> Vec<Option<Vec<u32>>> {
    let order = |message: &Message| {
        let replica = Replica::new(
            message.server,
            AUDIENCE.digest,
            vec![deployment.clone()],
            vec![key()],
            AUDIENCE.record_length,
        );
        let order = match replica.open(&message.encode()).unwrap() {
            Request::Answer(ask) => ask.order_keys,
            Request::Record(ask) => ask.order_keys.clone(),
            Request::Sealed(_) => unreachable!("no such scheme is among these"),
        };
        order.map(|keys| permutation(&keys, ROWS))
    };
    messages.iter().map(order).collect()
}

#[test]
fn a_search_has_one_order_and_every_search_has_another() {
    let deployment = deployment(true);
    let mut seen = vec![];
    for seed in 0..4 {
        let (first, second, parent) = phases(&deployment, seed);
        let expected = vec![Some(permutation(&key().transcript(&parent.tau), ROWS)); 3];
        assert_eq!(orders(&deployment, &first), expected);
        assert_eq!(orders(&deployment, &second), expected);
        assert_eq!(orders(&deployment, &record(&deployment, parent, 20 + seed)), expected);
        assert!(!seen.contains(&expected), "two searches have one order");
        seen.push(expected);
    }
}

#[test]
fn without_shuffle_rows_stand_as_stored() {
    let deployment = deployment(false);
    let (first, second, parent) = phases(&deployment, 0);
    for messages in [first, second, record(&deployment, parent, 0)] {
        assert_eq!(orders(&deployment, &messages), [None, None, None]);
    }
}
