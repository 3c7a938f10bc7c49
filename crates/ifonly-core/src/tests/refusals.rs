//! Refusals: servers refuse invalid messages; clients refuse unsigned records and impossible
//! values.

use crate::candidates::CandidateFilter;
use crate::error::RecordRefusal;
use crate::field::ModulusRule;
use crate::interpolate::{DecodedWords, InterpolationPlan, InterpolationStream, Interpolator, MalformedAnswer};
use crate::keys::RootKey;
use crate::memory::MemoryServer;
use crate::params::Params;
use crate::phase::ReferenceValues;
use crate::random::SeededRandom;
use crate::row_function::Rows;
use crate::scheme::instance::SchemeInstance;
use crate::scheme::sealed::SealedScheme;
use crate::search::{HeaderContext, Search};
use crate::secret_query::SecretQuery;
use crate::server_protocol::{Refusal, ServerProtocol};
use crate::signature::{BundleId, RecordVerifier, SignatureContext, SigningKey};
use crate::transcript::{Header, Message, MessageKind, SearchRef, messages};
use crate::{aont, scheme};
use std::sync::Arc;

const HEADER_CONTEXT: HeaderContext = HeaderContext { digest: [1; 32], epoch: 3, record_length: 20, signer: None };

/// No scheme except `sealed`.
fn no_schemes() -> Vec<SchemeInstance> {
    vec![]
}

#[test]
fn a_sealed_message_must_be_complete_start_a_search_and_name_its_server() {
    let sealed = Arc::new(SealedScheme::new(Params { cost_limit: 100, ..Params::new(vec![3, 1, 2], 9) }).unwrap());
    let server = |index| {
        let keys = vec![RootKey::new(2, [8; 32]), RootKey::new(3, [9; 32])];
        ServerProtocol::new(index, HEADER_CONTEXT.digest, no_schemes(), keys, 20).with_sealed(Some(sealed.clone()))
    };
    let send = |change: &dyn Fn(&mut Header)| {
        let mut header = sealed.header(&HEADER_CONTEXT);
        change(&mut header);
        let payloads = vec![sealed.payload(2, &[5; 9]); header.responders.len()];
        messages(&header, payloads, &mut SeededRandom::new(23))
    };
    let refused = |index: u8, message: Message| server(index).check_sealed(&message).unwrap_err();
    for (index, message) in (1..).zip(send(&|_| {})) {
        let protocol = server(index);
        assert!(protocol.sealed().is_some());
        assert_eq!(protocol.longest_message(), message.encode().len());
        let tau = message.tau();
        let request = protocol.check_sealed(&message).unwrap();
        assert_eq!((request.top, &request.share[..], request.tau, request.epoch), (2, &[5; 9][..], tau, 3));
        assert_eq!(request.keys.check_value(), RootKey::new(3, [9; 32]).transcript(&tau).check_value());
    }
    let first = |change: &dyn Fn(&mut Header)| send(change).swap_remove(0);
    assert!(matches!(
        refused(1, first(&|header| header.kind = MessageKind::Phase(1))),
        Refusal::Phase { phase: 1, .. }
    ));
    assert!(matches!(refused(1, first(&|header| header.kind = MessageKind::Record)), Refusal::Parent));
    assert!(matches!(refused(1, first(&|header| header.responders = vec![1, 2])), Refusal::Responders { need: 3 }));
    let parent = SearchRef { tau: [1; 32], ..SearchRef::default() };
    assert!(matches!(refused(1, first(&|header| header.parent = parent)), Refusal::Parent));
    assert!(matches!(refused(1, first(&|header| header.epoch = 4)), Refusal::Epoch(4)));
    // A message for another server, and a server that is not one of the three.
    assert!(matches!(refused(2, first(&|_| {})), Refusal::Server { meant: 1, here: 2 }));
    let mut fourth = first(&|_| {});
    fourth.server = 4;
    assert!(matches!(refused(4, fourth), Refusal::Server { meant: 4, here: 4 }));
    let mut committing = first(&|_| {});
    committing.share_commitments.push([0; 32]);
    assert!(matches!(refused(1, committing), Refusal::Parent));
    let mut altered = first(&|_| {});
    altered.payload[1] ^= 1;
    assert!(matches!(refused(1, altered), Refusal::Commitment));
    let mut short = first(&|_| {});
    short.payload.pop();
    assert!(matches!(refused(1, short), Refusal::Malformed(_)));
    // A server without the scheme `sealed`.
    let other = ServerProtocol::new(1, HEADER_CONTEXT.digest, no_schemes(), vec![RootKey::new(3, [9; 32])], 20);
    assert!(matches!(other.check(first(&|_| {})), Err(Refusal::Scheme(_))));
}

#[test]
fn responders_are_positive_and_strictly_increasing() {
    let sealed = SealedScheme::new(Params::new(vec![1], 2)).unwrap();
    let read = |responders: Vec<u8>| {
        let header = Header { responders, ..sealed.header(&HEADER_CONTEXT) };
        let payloads = vec![vec![]; header.responders.len()];
        let sent = messages(&header, payloads, &mut SeededRandom::new(24));
        sent.first().is_some_and(|message| Message::decode(&message.encode()).is_ok())
    };
    for (responders, accepted) in [
        (vec![1], true),
        (vec![1, 2, 3], true),
        (vec![2, 5], true),
        (vec![0], false),
        (vec![0, 1], false),
        (vec![1, 1], false),
        (vec![1, 3, 2], false),
    ] {
        assert_eq!(read(responders.clone()), accepted, "{responders:?}");
    }
}

#[test]
fn a_record_is_accepted_only_if_it_is_complete_and_signed_by_the_institution() {
    let key = SigningKey::new(&[5; 32]);
    let subject = SignatureContext::new("loans", "1", BundleId([1; 16]), "{}");
    let signer = RecordVerifier { key: key.public(), subject };
    let header_context = HeaderContext { signer: Some(signer), ..HEADER_CONTEXT };
    let signed = |by: &SigningKey| [b"text".to_vec(), by.sign(&subject, b"text").to_vec()].concat();
    let encode = |record: &[u8]| aont::encode(record, &[7; 16]);
    assert_eq!(header_context.open_record(&encode(&signed(&key))), Ok(b"text".to_vec()));
    assert_eq!(header_context.open_record(&encode(&signed(&SigningKey::new(&[6; 32])))), Err(RecordRefusal::Forged));
    let mut other = signed(&key);
    other[0] ^= 1;
    assert_eq!(header_context.open_record(&encode(&other)), Err(RecordRefusal::Forged));
    assert_eq!(header_context.open_record(&encode(b"too short to be signed")), Err(RecordRefusal::NotARecord));
    for index in 0..encode(&signed(&key)).len() {
        let mut encoded = encode(&signed(&key));
        encoded[index] ^= 1;
        assert_eq!(header_context.open_record(&encoded), Err(RecordRefusal::NotARecord), "byte {index}");
    }
    // Both ways to encode records give the same bytes.
    let (protocol, root) =
        (ServerProtocol::new(1, HEADER_CONTEXT.digest, no_schemes(), vec![], 20), RootKey::new(3, [9; 32]));
    let mut stored = [0; 4 + aont::OVERHEAD];
    protocol.encode_record_into(&root, 0, b"text", &mut stored);
    assert_eq!(protocol.encode_records(&root, [&b"text"[..]].into_iter()), [stored.to_vec()]);
    assert_eq!(HEADER_CONTEXT.open_record(&stored), Ok(b"text".to_vec()));
    // Without a signing key, every complete record is accepted.
    assert_eq!(HEADER_CONTEXT.open_record(&encode(b"text")), Ok(b"text".to_vec()));
}

#[test]
fn a_record_query_has_the_right_length_and_no_share_commitments() {
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
    // Valid messages with correct commitments, but of other lengths.
    for length in [0, 4, 6] {
        let payloads = vec![vec![0; length]; 2];
        let other = messages(&fetching.header, payloads, random).swap_remove(0);
        assert!(matches!(servers[0].respond(&other.encode()), Err(Refusal::Malformed(_))), "{length} bytes");
    }
    let mut committing = messages(&fetching.header, vec![vec![0; 5]; 2], random).swap_remove(0);
    committing.share_commitments.push([0; 32]);
    assert_eq!(servers[0].respond(&committing.encode()), Err(Refusal::ShareCommitment));
}

#[test]
fn positions_of_a_shuffled_answer_are_not_those_of_the_rows() {
    let position = |shuffle: bool, seed: u64| {
        let params = Params { shuffle, ..Params::new(vec![99], 100) };
        let instance = SchemeInstance::new(scheme::named("gated").unwrap(), params, ModulusRule::Deployment).unwrap();
        let rows = Rows::new(&[99], (0..100).map(|row| [row])).unwrap();
        let servers = [1, 2].map(|index| MemoryServer::new(index, &instance, &RootKey::new(3, [9; 32]), &rows));
        let search = Search::new(instance, SecretQuery::new(vec![42]), servers[0].header_context()).unwrap();
        let network = |server: usize, message: &[u8]| servers[server - 1].respond(message).ok();
        let result = search.run(&mut SeededRandom::new(seed), network).unwrap();
        assert_eq!(crate::memory::levels(&result.found[0].record), [42]);
        result.found[0].position
    };
    assert_eq!(position(false, 1), Some(42));
    assert!((1..=3).any(|seed| position(true, seed) != Some(42)));
}

#[test]
fn rows_with_impossible_values_do_not_match() {
    let read = |name: &str, phase, theta: &[bool], values: &[u64]| {
        let params = Params::new(vec![3, 3], theta.len());
        let instance = SchemeInstance::new(scheme::named(name).unwrap(), params, ModulusRule::Deployment).unwrap();
        let reference = ReferenceValues { empty: 7, most: 0 };
        let mut filter = CandidateFilter::new(&instance, phase, theta, reference, values.len());
        filter.take(DecodedWords::Wide(values));
        let candidates = filter.finish();
        let rows: Vec<usize> = candidates.nearest(values.len()).into_iter().map(|(position, _)| position).collect();
        assert_eq!(candidates.count(), rows.len());
        (rows, candidates.has_impossible())
    };
    // Costs are at most 2·3² = 18. Rows that were not selected have the value of the empty row, 7.
    for (values, rows, has_impossible) in [
        ([0, 7, 18, 7], vec![0, 2], false),
        ([19, 7, 18, 7], vec![2], true),
        ([0, 6, 18, 7], vec![0, 2], true),
        ([0, 7, 19, 7], vec![0], true),
        ([0, 7, 18, 8], vec![0, 2], true),
    ] {
        let expected = (rows, has_impossible);
        assert_eq!(read("two-phase", 1, &[true, false, true, false], &values), expected, "{values:?}");
    }
    // More rows than one block.
    let mut many = vec![0; 3000];
    assert!(!read("baseline", 0, &[false; 3000], &many).1);
    many[2500] = 19;
    let (rows, has_impossible) = read("baseline", 0, &[false; 3000], &many);
    assert!(has_impossible && rows.len() == 2999 && !rows.contains(&2500));
}

#[test]
fn the_largest_difference_in_a_field_is_decoded_with_its_sign() {
    // One feature with two levels, q = 3: differences are −1, 0 and 1.
    for (x, levels) in [(0, [1, 0]), (0, [0, 1]), (1, [1, 0]), (1, [0, 1])] {
        let instance =
            SchemeInstance::new(scheme::named("diff").unwrap(), Params::new(vec![1], 2), ModulusRule::Paper).unwrap();
        assert_eq!(instance.field().q(), 3);
        let rows = Rows::new(&[1], levels.map(|level| [level])).unwrap();
        let servers = [1, 2].map(|index| MemoryServer::new(index, &instance, &RootKey::new(3, [9; 32]), &rows));
        let search = Search::new(instance, SecretQuery::new(vec![x]), servers[0].header_context()).unwrap();
        let network = |server: usize, message: &[u8]| servers[server - 1].respond(message).ok();
        let result = search.run(&mut SeededRandom::new(26), network).unwrap();
        assert_eq!(crate::memory::levels(&result.found[0].record), [x as u16]);
    }
}

/// Returns wrong values, then reports a malformed answer.
struct FailingInterpolator;

impl Interpolator for FailingInterpolator {
    fn begin(&self, _: InterpolationPlan, _: usize) -> Box<dyn InterpolationStream> {
        Box::new(FailingInterpolator)
    }
}

impl InterpolationStream for FailingInterpolator {
    fn advance(&mut self, _: &[&[u8]], visit: &mut dyn FnMut(DecodedWords<'_>)) -> Result<(), MalformedAnswer> {
        visit(DecodedWords::Wide(&[0, 0]));
        Err(MalformedAnswer)
    }
}

#[test]
fn values_read_before_an_answer_proves_malformed_are_discarded() {
    let instance =
        SchemeInstance::new(scheme::named("gated").unwrap(), Params::new(vec![9], 10), ModulusRule::Deployment);
    let (instance, rows) = (instance.unwrap(), Rows::new(&[9], (0..10).map(|row| [row])).unwrap());
    let servers = [1, 2].map(|index| MemoryServer::new(index, &instance, &RootKey::new(3, [9; 32]), &rows));
    let search = Search::new(instance, SecretQuery::new(vec![7]), servers[0].header_context()).unwrap();
    let network = |server: usize, message: &[u8]| servers[server - 1].respond(message).ok();
    let result = search.interpolated_by(&FailingInterpolator).run(&mut SeededRandom::new(27), network).unwrap();
    assert_eq!(crate::memory::levels(&result.found[0].record), [7]);
}
