//! Servers refuse messages that are not what they should be, and clients records that are not the
//! institution's and values that honest servers cannot give.

use crate::candidates::{CandidateFilter, ImpossibleValue};
use crate::error::SearchError;
use crate::field::ModulusRule;
use crate::interpolate::{DecodedWords, InterpolationPlan, InterpolationStream, Interpolator, MalformedAnswer};
use crate::keys::RootKey;
use crate::memory::MemoryServer;
use crate::params::Params;
use crate::random::SeededRandom;
use crate::row_function::Rows;
use crate::scheme::instance::SchemeInstance;
use crate::scheme::sealed::SealedScheme;
use crate::search::{HeaderContext, Search};
use crate::secret_query::SecretQuery;
use crate::server_protocol::{CheckedRequest, Refusal, ServerProtocol};
use crate::signature::{RecordVerifier, SignatureContext, SigningKey};
use crate::transcript::{Header, Message, MessageKind, SearchRef, messages};
use crate::{aont, scheme};
use std::sync::Arc;

const HEADER_CONTEXT: HeaderContext = HeaderContext { digest: [1; 32], epoch: 3, record_length: 20, signer: None };

/// No scheme beside the sealed one.
fn none() -> Vec<SchemeInstance> {
    vec![]
}

#[test]
fn a_sealed_message_must_be_whole_begin_a_search_and_be_meant_for_its_server() {
    let sealed = Arc::new(SealedScheme::new(Params { cost_limit: 100, ..Params::new(vec![3, 1, 2], 9) }).unwrap());
    let server = |index| {
        let keys = vec![RootKey::new(2, [8; 32]), RootKey::new(3, [9; 32])];
        ServerProtocol::new(index, HEADER_CONTEXT.digest, none(), keys, 20).with_sealed(Some(sealed.clone()))
    };
    let made = |change: &dyn Fn(&mut Header)| {
        let mut header = sealed.header(&HEADER_CONTEXT);
        change(&mut header);
        let payloads = vec![sealed.payload(2, &[5; 9]); header.responders.len()];
        messages(&header, payloads, &mut SeededRandom::new(23))
    };
    let refused = |index: u8, message: Message| match server(index).check(message) {
        Err(refusal) => refusal,
        Ok(_) => panic!("server {index} takes it"),
    };
    for (index, message) in (1..).zip(made(&|_| {})) {
        let protocol = server(index);
        assert!(protocol.sealed().is_some());
        assert_eq!(protocol.longest_message(), message.encode().len());
        let tau = message.tau();
        let Ok(CheckedRequest::Sealed(ask)) = protocol.check(message) else { panic!("server {index} refuses it") };
        assert_eq!((ask.top, &ask.share[..], ask.tau, ask.epoch), (2, &[5; 9][..], tau, 3));
        assert_eq!(ask.keys.check_value(), RootKey::new(3, [9; 32]).transcript(&tau).check_value());
    }
    let first = |change: &dyn Fn(&mut Header)| made(change).swap_remove(0);
    assert!(matches!(
        refused(1, first(&|header| header.stage = MessageKind::Phase(1))),
        Refusal::Phase { phase: 1, .. }
    ));
    assert!(matches!(refused(1, first(&|header| header.stage = MessageKind::Record)), Refusal::Parent));
    assert!(matches!(refused(1, first(&|header| header.responders = vec![1, 2])), Refusal::Responders { need: 3 }));
    let parent = SearchRef { tau: [1; 32], ..SearchRef::default() };
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
    let other = ServerProtocol::new(1, HEADER_CONTEXT.digest, none(), vec![RootKey::new(3, [9; 32])], 20);
    assert!(matches!(other.check(first(&|_| {})), Err(Refusal::Scheme(_))));
}

#[test]
fn responders_are_counted_up_from_one() {
    let sealed = SealedScheme::new(Params::new(vec![1], 2)).unwrap();
    let read = |responders: Vec<u8>| {
        let header = Header { responders, ..sealed.header(&HEADER_CONTEXT) };
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
    let subject = SignatureContext::new("loans", "1", "{}");
    let signer = RecordVerifier { key: key.public(), subject };
    let header_context = HeaderContext { signer: Some(signer), ..HEADER_CONTEXT };
    let signed = |by: &SigningKey| [b"text".to_vec(), by.sign(&subject, b"text").to_vec()].concat();
    let seal = |record: &[u8]| aont::encode(record, &[7; 16]);
    assert_eq!(header_context.open_record(&seal(&signed(&key))), Ok(b"text".to_vec()));
    assert_eq!(header_context.open_record(&seal(&signed(&SigningKey::new(&[6; 32])))), Err(SearchError::Forged));
    let mut other = signed(&key);
    other[0] ^= 1;
    assert_eq!(header_context.open_record(&seal(&other)), Err(SearchError::Forged));
    assert_eq!(header_context.open_record(&seal(b"too short to be signed")), Err(SearchError::NotARecord));
    for place in 0..seal(&signed(&key)).len() {
        let mut sealed = seal(&signed(&key));
        sealed[place] ^= 1;
        assert_eq!(header_context.open_record(&sealed), Err(SearchError::NotARecord), "byte {place}");
    }
    // Servers seal where the records will stand, to the same bytes.
    let (protocol, root) =
        (ServerProtocol::new(1, HEADER_CONTEXT.digest, none(), vec![], 20), RootKey::new(3, [9; 32]));
    let mut stored = [0; 4 + aont::OVERHEAD];
    protocol.encode_record_into(&root, 0, b"text", &mut stored);
    assert_eq!(protocol.encode_records(&root, [&b"text"[..]].into_iter()), [stored.to_vec()]);
    assert_eq!(HEADER_CONTEXT.open_record(&stored), Ok(b"text".to_vec()));
    // Where nobody signs, what is whole is the record.
    assert_eq!(HEADER_CONTEXT.open_record(&seal(b"text")), Ok(b"text".to_vec()));
}

#[test]
fn a_record_query_has_the_right_length_and_promises_nothing() {
    let params = Params { shuffle: true, ..Params::new(vec![9], 40) };
    let instance = SchemeInstance::new(scheme::named("gated").unwrap(), params, ModulusRule::Deployment).unwrap();
    let rows = Rows::new(&[9], (0..40).map(|row| [row % 10])).unwrap();
    let servers = [1, 2].map(|index| MemoryServer::new(index, &instance, &RootKey::new(3, [9; 32]), &rows));
    let random = &mut SeededRandom::new(25);
    let mut search = Search::new(instance, SecretQuery::new(vec![4]), servers[0].header_context()).unwrap();
    let sent = search.next(random).unwrap().messages;
    search.receive(sent.iter().zip(&servers).map(|(message, server)| server.respond(message).ok()).collect());
    let fetching = Message::decode(&search.next(random).unwrap().messages[0]).unwrap();
    assert!(servers[0].respond(&fetching.encode()).is_ok());
    // Whole messages, well committed to, of other lengths.
    for length in [0, 4, 6] {
        let payloads = vec![vec![0; length]; 2];
        let other = messages(&fetching.header, payloads, random).swap_remove(0);
        assert!(matches!(servers[0].respond(&other.encode()), Err(Refusal::Malformed(_))), "{length} bytes");
    }
    let mut promising = messages(&fetching.header, vec![vec![0; 5]; 2], random).swap_remove(0);
    promising.promises.push([0; 32]);
    assert_eq!(servers[0].respond(&promising.encode()), Err(Refusal::Promise));
}

#[test]
fn positions_of_a_shuffled_answer_are_not_those_of_the_rows() {
    let place = |shuffle: bool, session: u64| {
        let params = Params { shuffle, ..Params::new(vec![99], 100) };
        let instance = SchemeInstance::new(scheme::named("gated").unwrap(), params, ModulusRule::Deployment).unwrap();
        let rows = Rows::new(&[99], (0..100).map(|row| [row])).unwrap();
        let servers = [1, 2].map(|index| MemoryServer::new(index, &instance, &RootKey::new(3, [9; 32]), &rows));
        let search = Search::new(instance, SecretQuery::new(vec![42]), servers[0].header_context()).unwrap();
        let network = |server: usize, message: &[u8]| servers[server - 1].respond(message).ok();
        let outcome = search.run(&mut SeededRandom::new(session), network).unwrap();
        assert_eq!(crate::memory::levels(&outcome.found[0].record), [42]);
        outcome.found[0].position
    };
    assert_eq!(place(false, 1), Some(42));
    assert!((1..=3).any(|session| place(true, session) != Some(42)));
}

#[test]
fn values_that_honest_servers_cannot_give_are_named_by_their_place() {
    let read = |name: &str, phase, before: &[bool], values: &[u64]| {
        let params = Params::new(vec![3, 3], before.len());
        let instance = SchemeInstance::new(scheme::named(name).unwrap(), params, ModulusRule::Deployment).unwrap();
        let mut sieve = CandidateFilter::new(&instance, phase, before, 7, 1);
        sieve.take(DecodedWords::Wide(values));
        sieve.finish().1.map(|ImpossibleValue { position }| position)
    };
    // Costs are at most 2·3² = 18; rows that were not selected have the empty row's value, 7.
    for (values, fault) in [
        ([0, 7, 18, 7], None),
        ([19, 7, 18, 7], Some(0)),
        ([0, 6, 18, 7], Some(1)),
        ([0, 7, 19, 7], Some(2)),
        ([0, 7, 18, 8], Some(3)),
    ] {
        assert_eq!(read("two-phase", 1, &[true, false, true, false], &values), fault, "{values:?}");
    }
    // Beyond the rows that are read at a time.
    let mut many = vec![0; 3000];
    assert_eq!(read("baseline", 0, &[false; 3000], &many), None);
    many[2500] = 19;
    assert_eq!(read("baseline", 0, &[false; 3000], &many), Some(2500));
}

#[test]
fn the_largest_difference_that_a_field_holds_is_read_with_its_sign() {
    // One feature of two levels in the field of 3: differences are −1, 0 and 1.
    for (x, levels) in [(0, [1, 0]), (0, [0, 1]), (1, [1, 0]), (1, [0, 1])] {
        let instance =
            SchemeInstance::new(scheme::named("diff").unwrap(), Params::new(vec![1], 2), ModulusRule::Paper).unwrap();
        assert_eq!(instance.field().q(), 3);
        let rows = Rows::new(&[1], levels.map(|level| [level])).unwrap();
        let servers = [1, 2].map(|index| MemoryServer::new(index, &instance, &RootKey::new(3, [9; 32]), &rows));
        let search = Search::new(instance, SecretQuery::new(vec![x]), servers[0].header_context()).unwrap();
        let network = |server: usize, message: &[u8]| servers[server - 1].respond(message).ok();
        let outcome = search.run(&mut SeededRandom::new(26), network).unwrap();
        assert_eq!(crate::memory::levels(&outcome.found[0].record), [x as u16]);
    }
}

/// Gives wrong values, then sees that it cannot read.
struct Blind;

impl Interpolator for Blind {
    fn begin(&self, _: InterpolationPlan, _: usize) -> Box<dyn InterpolationStream> {
        Box::new(Blind)
    }
}

impl InterpolationStream for Blind {
    fn advance(&mut self, _: &[&[u8]], visit: &mut dyn FnMut(DecodedWords<'_>)) -> Result<(), MalformedAnswer> {
        visit(DecodedWords::Wide(&[0, 0]));
        Err(MalformedAnswer)
    }
}

#[test]
fn what_was_read_before_an_answer_proved_unreadable_is_forgotten() {
    let instance =
        SchemeInstance::new(scheme::named("gated").unwrap(), Params::new(vec![9], 10), ModulusRule::Deployment);
    let (instance, rows) = (instance.unwrap(), Rows::new(&[9], (0..10).map(|row| [row])).unwrap());
    let servers = [1, 2].map(|index| MemoryServer::new(index, &instance, &RootKey::new(3, [9; 32]), &rows));
    let search = Search::new(instance, SecretQuery::new(vec![7]), servers[0].header_context()).unwrap();
    let network = |server: usize, message: &[u8]| servers[server - 1].respond(message).ok();
    let outcome = search.interpolated_by(&Blind).run(&mut SeededRandom::new(27), network).unwrap();
    assert_eq!(crate::memory::levels(&outcome.found[0].record), [7]);
}
