//! The row order of a shuffled answer: the same for all messages of a search and at all servers,
//! and different in every search.

use crate::field::{FieldElement, ModulusRule};
use crate::keys::RootKey;
use crate::params::Params;
use crate::random::SeededRandom;
use crate::scheme::instance::SchemeInstance;
use crate::search::HeaderContext;
use crate::server_protocol::{CheckedRequest, ServerProtocol};
use crate::share_commitment::ShareCommitments;
use crate::shuffle::permutation;
use crate::transcript::{Message, MessageKind, SearchRef, messages};
use crate::{scheme, wire};
use zeroize::Zeroizing;

const ROWS: usize = 50;
const HEADER_CONTEXT: HeaderContext = HeaderContext { digest: [5; 32], epoch: 3, record_length: 4, signer: None };

fn key() -> RootKey {
    RootKey::new(HEADER_CONTEXT.epoch, [9; 32])
}

fn instance(shuffle: bool) -> SchemeInstance {
    let params = Params { shuffle, ..Params::new(vec![9, 9], ROWS) };
    SchemeInstance::new(scheme::named("two-phase").unwrap(), params, ModulusRule::Deployment).unwrap()
}

/// The messages of a phase with payloads of zeros, which do not matter here.
fn phase(instance: &SchemeInstance, phase: u8, parent: SearchRef, seed: u64) -> Vec<Message> {
    let elements = instance.slot_lengths(phase.into()).iter().sum();
    let payload = wire::pack(instance.field(), &vec![FieldElement::ZERO; elements]);
    let header = HEADER_CONTEXT.header(instance, MessageKind::Phase(phase), 3, parent);
    messages(&header, vec![payload; 3], &mut SeededRandom::new(seed))
}

/// Both phases of a search, and its parent.
fn phases(instance: &SchemeInstance, seed: u64) -> (Vec<Message>, Vec<Message>, SearchRef) {
    let mut first = phase(instance, 0, SearchRef::default(), seed);
    let part = Zeroizing::new(wire::pack(instance.field(), &[FieldElement::ZERO; 2]));
    let share_commitments =
        ShareCommitments::make(&mut first, &[part.clone(), part.clone(), part], &mut SeededRandom::new(seed));
    let tau = first[0].tau();
    let parent = SearchRef { tau, ticket: key().ticket("two-phase", &tau) };
    let mut second = phase(instance, 1, parent, 10 + seed);
    share_commitments.open_in(&mut second);
    (first, second, parent)
}

fn record(instance: &SchemeInstance, parent: SearchRef, seed: u64) -> Vec<Message> {
    let header = HEADER_CONTEXT.header(instance, MessageKind::Record, 2, parent);
    messages(&header, vec![vec![0; ROWS.div_ceil(8)]; 2], &mut SeededRandom::new(seed))
}

/// The order in which each server lists the rows for its message.
fn orders(instance: &SchemeInstance, messages: &[Message]) -> Vec<Option<Vec<u32>>> {
    let order = |message: &Message| {
        let protocol = ServerProtocol::new(
            message.server,
            HEADER_CONTEXT.digest,
            vec![instance.clone()],
            vec![key()],
            HEADER_CONTEXT.record_length,
        );
        let order = match protocol.decode(&message.encode()).unwrap() {
            CheckedRequest::Answer(request) => request.order_keys,
            CheckedRequest::Record(request) => request.order_keys.clone(),
        };
        order.map(|keys| permutation(&keys, ROWS))
    };
    messages.iter().map(order).collect()
}

#[test]
fn a_search_has_one_order_and_every_search_has_another() {
    let instance = instance(true);
    let mut seen = vec![];
    for seed in 0..4 {
        let (first, second, parent) = phases(&instance, seed);
        let expected = vec![Some(permutation(&key().transcript(&parent.tau), ROWS)); 3];
        assert_eq!(orders(&instance, &first), expected);
        assert_eq!(orders(&instance, &second), expected);
        // Two of the three servers are asked for a record.
        assert_eq!(orders(&instance, &record(&instance, parent, 20 + seed)), expected[..2]);
        assert!(!seen.contains(&expected), "two searches have the same order");
        seen.push(expected);
    }
}

#[test]
fn without_shuffle_rows_are_in_stored_order() {
    let instance = instance(false);
    let (first, second, parent) = phases(&instance, 0);
    for messages in [first, second, record(&instance, parent, 0)] {
        assert!(orders(&instance, &messages).iter().all(Option::is_none));
    }
}
