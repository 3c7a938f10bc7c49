//! Servers refuse sealed messages that are not what they should be, and clients records that are not the institution's.

use crate::deployment::Deployment;
use crate::fault::Fault;
use crate::keys::RootKey;
use crate::package;
use crate::params::Params;
use crate::random::SeededRandom;
use crate::replica::{Refusal, Replica, Request};
use crate::sealed::Sealed;
use crate::search::Audience;
use crate::signature::{Signer, SigningKey, Subject};
use crate::transcript::{Header, Message, Parent, Stage, messages};
use std::sync::Arc;

const AUDIENCE: Audience = Audience { digest: [1; 32], epoch: 3, record_length: 20, signer: None };

/// No scheme beside the sealed one.
fn none() -> Vec<Deployment> {
    vec![]
}

#[test]
fn a_sealed_message_must_be_whole_begin_a_search_and_be_meant_for_its_server() {
    let sealed = Arc::new(Sealed::new(Params { cost_limit: 100, ..Params::new(vec![3, 1, 2], 9) }).unwrap());
    let server = |index| {
        let keys = vec![RootKey::new(2, [8; 32]), RootKey::new(3, [9; 32])];
        Replica::new(index, AUDIENCE.digest, none(), keys, 20).with_sealed(Some(sealed.clone()))
    };
    let made = |change: &dyn Fn(&mut Header)| {
        let mut header = sealed.header(&AUDIENCE);
        change(&mut header);
        let payloads = vec![sealed.payload(2, &[5; 9]); header.responders.len()];
        messages(&header, payloads, &mut SeededRandom::new(23))
    };
    let refused = |index: u8, message: Message| match server(index).check(message) {
        Err(refusal) => refusal,
        Ok(_) => panic!("server {index} takes it"),
    };
    for (index, message) in (1..).zip(made(&|_| {})) {
        let replica = server(index);
        assert!(replica.sealed().is_some());
        assert_eq!(replica.longest_message(), message.encode().len());
        let tau = message.tau();
        let Ok(Request::Sealed(ask)) = replica.check(message) else { panic!("server {index} refuses it") };
        assert_eq!((ask.top, &ask.share[..], ask.tau, ask.epoch), (2, &[5; 9][..], tau, 3));
        assert_eq!(ask.keys.check_value(), RootKey::new(3, [9; 32]).transcript(&tau).check_value());
    }
    let first = |change: &dyn Fn(&mut Header)| made(change).swap_remove(0);
    assert!(matches!(refused(1, first(&|header| header.stage = Stage::Phase(1))), Refusal::Phase { phase: 1, .. }));
    assert!(matches!(refused(1, first(&|header| header.stage = Stage::Record)), Refusal::Parent));
    assert!(matches!(refused(1, first(&|header| header.responders = vec![1, 2])), Refusal::Responders { need: 3 }));
    let parent = Parent { tau: [1; 32], ..Parent::default() };
    assert!(matches!(refused(1, first(&|header| header.parent = parent)), Refusal::Parent));
    assert!(matches!(refused(1, first(&|header| header.epoch = 4)), Refusal::Epoch(4)));
    // For somebody else, or to somebody who is none of the three.
    assert!(matches!(refused(2, first(&|_| {})), Refusal::Server { meant: 1, here: 2 }));
    let mut fourth = first(&|_| {});
    fourth.server = 4;
    assert!(matches!(refused(4, fourth), Refusal::Server { meant: 4, here: 4 }));
    let mut promising = first(&|_| {});
    promising.promises.push([0; 32]);
    assert!(matches!(refused(1, promising), Refusal::Parent));
    let mut bent = first(&|_| {});
    bent.payload[1] ^= 1;
    assert!(matches!(refused(1, bent), Refusal::Commitment));
    let mut short = first(&|_| {});
    short.payload.pop();
    assert!(matches!(refused(1, short), Refusal::Malformed(_)));
    // Other schemes are not meant.
    let other = Replica::new(1, AUDIENCE.digest, none(), vec![RootKey::new(3, [9; 32])], 20);
    assert!(matches!(other.check(first(&|_| {})), Err(Refusal::Scheme(_))));
}

#[test]
fn responders_are_counted_up_from_one() {
    let sealed = Sealed::new(Params::new(vec![1], 2)).unwrap();
    let read = |responders: Vec<u8>| {
        let header = Header { responders, ..sealed.header(&AUDIENCE) };
        let payloads = vec![vec![]; header.responders.len()];
        let sent = messages(&header, payloads, &mut SeededRandom::new(24));
        sent.first().is_some_and(|message| Message::decode(&message.encode()).is_ok())
    };
    for (responders, taken) in [
        (vec![1], true),
        (vec![1, 2, 3], true),
        (vec![2, 5], true),
        (vec![0], false),
        (vec![0, 1], false),
        (vec![1, 1], false),
        (vec![1, 3, 2], false),
    ] {
        assert_eq!(read(responders.clone()), taken, "{responders:?}");
    }
}

#[test]
fn a_record_is_opened_only_if_it_is_whole_and_the_institutions() {
    let key = SigningKey::new(&[5; 32]);
    let subject = Subject::new("loans", "1", "{}");
    let signer = Signer { key: key.public(), subject };
    let audience = Audience { signer: Some(signer), ..AUDIENCE };
    let signed = |by: &SigningKey| [b"text".to_vec(), by.sign(&subject, b"text").to_vec()].concat();
    let seal = |record: &[u8]| package::seal(record, &[7; 16]);
    assert_eq!(audience.open_record(&seal(&signed(&key))), Ok(b"text".to_vec()));
    assert_eq!(audience.open_record(&seal(&signed(&SigningKey::new(&[6; 32])))), Err(Fault::Forged));
    let mut other = signed(&key);
    other[0] ^= 1;
    assert_eq!(audience.open_record(&seal(&other)), Err(Fault::Forged));
    assert_eq!(audience.open_record(&seal(b"too short to be signed")), Err(Fault::NotARecord));
    for place in 0..seal(&signed(&key)).len() {
        let mut sealed = seal(&signed(&key));
        sealed[place] ^= 1;
        assert_eq!(audience.open_record(&sealed), Err(Fault::NotARecord), "byte {place}");
    }
    // Where nobody signs, what is whole is the record.
    assert_eq!(AUDIENCE.open_record(&seal(b"text")), Ok(b"text".to_vec()));
}
