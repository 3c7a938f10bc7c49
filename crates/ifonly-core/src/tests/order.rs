//! The order of a shuffled answer: one for all messages of a search, another for every search, the same at all servers.

use crate::scheme::instance::SchemeInstance;
use crate::field::FieldElement;
use crate::field::ModulusRule;
use crate::keys::RootKey;
use crate::shuffle::permutation;
use crate::params::Params;
use crate::share_commitment::ShareCommitments;
use crate::random::SeededRandom;
use crate::server_protocol::{CheckedRequest, ServerProtocol};
use crate::scheme;
use crate::search::HeaderContext;
use crate::transcript::{Message, MessageKind, SearchRef, messages};
use crate::wire;
use zeroize::Zeroizing;

const ROWS: usize = 50;
const AUDIENCE: HeaderContext = HeaderContext { digest: [5; 32], epoch: 3, record_length: 4, signer: None };

fn key() -> RootKey {
    RootKey::new(AUDIENCE.epoch, [9; 32])
}

fn deployment(shuffle: bool) -> SchemeInstance {
    let params = Params { shuffle, ..Params::new(vec![9, 9], ROWS) };
    SchemeInstance::new(scheme::named("two-phase").unwrap(), params, ModulusRule::Deployment).unwrap()
}

/// The messages of a phase whose payload is all zeros; what is asked does not matter here.
fn phase(deployment: &SchemeInstance, phase: u8, parent: SearchRef, seed: u64) -> Vec<Message> {
    let symbols = deployment.slot_lengths(phase.into()).iter().sum();
    let payload = wire::pack(deployment.field(), &vec![FieldElement::ZERO; symbols]);
    let header = AUDIENCE.header(deployment, MessageKind::Phase(phase), 3, parent);
    messages(&header, vec![payload; 3], &mut SeededRandom::new(seed))
}

/// Both phases of a search, and its parent.
fn phases(deployment: &SchemeInstance, seed: u64) -> (Vec<Message>, Vec<Message>, SearchRef) {
    let mut first = phase(deployment, 0, SearchRef::default(), seed);
    let part = Zeroizing::new(wire::pack(deployment.field(), &[FieldElement::ZERO; 2]));
    let promises =
        ShareCommitments::make(&mut first, &[part.clone(), part.clone(), part], &mut SeededRandom::new(seed));
    let tau = first[0].tau();
    let parent = SearchRef { tau, ticket: key().ticket("two-phase", &tau) };
    let mut second = phase(deployment, 1, parent, 10 + seed);
    promises.open_in(&mut second);
    (first, second, parent)
}

fn record(deployment: &SchemeInstance, parent: SearchRef, seed: u64) -> Vec<Message> {
    let header = AUDIENCE.header(deployment, MessageKind::Record, 3, parent);
    messages(&header, vec![vec![0; 2 * ROWS]; 3], &mut SeededRandom::new(seed))
}

/// The order in which each server lists the rows for its message.
fn orders(deployment: &SchemeInstance, messages: &[Message]) -> Vec<Option<Vec<u32>>> {
    let order = |message: &Message| {
        let replica = ServerProtocol::new(
            message.server,
            AUDIENCE.digest,
            vec![deployment.clone()],
            vec![key()],
            AUDIENCE.record_length,
        );
        let order = match replica.open(&message.encode()).unwrap() {
            CheckedRequest::Answer(ask) => ask.order_keys,
            CheckedRequest::Record(ask) => ask.order_keys.clone(),
            CheckedRequest::Sealed(_) => unreachable!("no such scheme is among these"),
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
