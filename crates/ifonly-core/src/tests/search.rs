//! Whole searches in the wire format: messages, transcript, shuffle, records, and what each side
//! refuses.

use super::common::{TestCase, best, chance, for_all_schemes};
use crate::candidates::DecodedCost;
use crate::cost_check::confirm;
use crate::decode::DecodeError;
use crate::field::ModulusRule;
use crate::keys::RootKey;
use crate::memory::{MemoryServer, levels};
use crate::random::{RandomSource, SeededRandom};
use crate::row_function::{self, Rows, ScanJob};
use crate::scheme::instance::{CommunicationCost, SchemeInstance};
use crate::scheme::{self, Scheme};
use crate::search::{HeaderContext, Search, SearchError, SearchResult};
use crate::secret_query::SecretQuery;
use crate::server_protocol::{CheckedRequest, Refusal, ServerProtocol};
use crate::transcript::{Message, MessageKind};
use crate::wire::{self, WireError};
use std::sync::Arc;

/// N servers in memory.
struct World {
    instance: Arc<SchemeInstance>,
    servers: Vec<MemoryServer>,
    header_context: HeaderContext,
}

impl World {
    fn new(instance: SchemeInstance, rows: Rows, key: impl Fn(u8) -> RootKey) -> World {
        let server = |index: u8| MemoryServer::new(index, &instance, &key(index), &rows);
        let servers: Vec<MemoryServer> = (1..=instance.servers() as u8).map(server).collect();
        World { header_context: servers[0].header_context(), servers, instance: instance.into() }
    }

    fn respond(&self, server: usize, message: &[u8]) -> Result<Vec<u8>, Refusal> {
        self.servers[server - 1].respond(message)
    }

    fn search(&self, secret: SecretQuery, k: usize, random: &mut SeededRandom) -> Result<SearchResult, SearchError> {
        let search = Search::nearest(self.instance.clone(), secret, self.header_context, k).unwrap();
        search.run(random, |server, message| {
            assert!(message.len() <= self.servers[server - 1].longest_message());
            Some(self.respond(server, message).unwrap())
        })
    }
}

fn key(_: u8) -> RootKey {
    RootKey::new(1, [3; 32])
}

#[test]
fn every_scheme_finds_the_record_shuffled_or_not_with_one_or_several_wanted() {
    for_all_schemes(|scheme| {
        let mut random = SeededRandom::new(21);
        for number in 0..40 {
            let faults = [(1, 0, 0), (1, 1, 0), (2, 0, 0)][number % 3];
            let mut case = TestCase::random(scheme, faults, 8, 9, &mut random);
            case.params.shuffle = chance(&mut random, 60);
            let k = 1 + random.below(4) as usize;
            let world = World::new(case.instance(scheme, ModulusRule::Deployment), case.rows(), key);
            let result = world.search(case.secret(), k, &mut random).unwrap();
            let mut costs: Vec<i128> = case.brute_force(scheme).into_iter().flatten().collect();
            costs.sort_unstable();
            assert_eq!(result.matching_rows, Some(costs.len()), "{}", scheme.name);
            assert_eq!(result.found.len(), k.min(costs.len()), "{}", scheme.name);
            let mut positions: Vec<usize> = result.found.iter().filter_map(|found| found.position).collect();
            positions.sort_unstable();
            positions.dedup();
            assert_eq!(positions.len(), result.found.len(), "{}: a row was found twice", scheme.name);
            for (found, cost) in result.found.iter().zip(&costs) {
                let row = levels(&found.record);
                confirm(&world.instance, &case.secret(), found, &row).unwrap();
                let index = case.rows.iter().position(|other| *other == row).unwrap();
                assert_eq!(case.brute_force(scheme)[index], Some(*cost), "{}", scheme.name);
                if !case.params.shuffle {
                    assert_eq!(case.rows[found.position.unwrap()], row, "{}", scheme.name);
                }
            }
        }
    });
}

/// What servers see of a search, without payloads: recipients, lengths, and all header fields
/// except the parent.
fn traffic(
    world: &World,
    secret: SecretQuery,
    k: usize,
    random: &mut SeededRandom,
) -> Vec<(usize, usize, MessageKind, String)> {
    let mut seen = vec![];
    let search = Search::nearest(world.instance.clone(), secret, world.header_context, k).unwrap();
    let _ = search.run(random, |server, bytes| {
        let header = &Message::decode(bytes).unwrap().header;
        seen.push((server, bytes.len(), header.kind, format!("{} {:?}", header.scheme, header.responders)));
        Some(world.respond(server, bytes).unwrap())
    });
    seen
}

#[test]
fn traffic_has_the_same_form_for_every_query_and_result() {
    for_all_schemes(|scheme| {
        let mut random = SeededRandom::new(22);
        let first = TestCase::random(scheme, (1, 0, 0), 6, 8, &mut random);
        let world = World::new(first.instance(scheme, ModulusRule::Deployment), first.rows(), key);
        let expected = traffic(&world, first.secret(), 2, &mut random);
        let d = first.max_levels.len();
        let gated = scheme.constraint != scheme::ConstraintKind::None;
        for _ in 0..20 {
            let x: Vec<u32> = first.max_levels.iter().map(|&range| random.below(u64::from(range) + 1) as u32).collect();
            let fixed = (0..d).map(|_| gated && chance(&mut random, 60)).collect();
            let secret = SecretQuery::new(x).immutable(fixed);
            assert_eq!(traffic(&world, secret, 2, &mut random), expected, "{}", scheme.name);
        }
    });
}

#[test]
fn a_failed_phase_does_not_change_the_traffic() {
    let scheme = scheme::named("two-phase").unwrap();
    let mut random = SeededRandom::new(23);
    let case = TestCase::random(scheme, (1, 0, 0), 6, 8, &mut random);
    let world = World::new(case.instance(scheme, ModulusRule::Deployment), case.rows(), key);
    let expected = traffic(&world, case.secret(), 1, &mut random);
    let mut seen = vec![];
    let search = Search::new(world.instance.clone(), case.secret(), world.header_context).unwrap();
    let result = search.run(&mut random, |server, bytes| {
        let header = &Message::decode(bytes).unwrap().header;
        seen.push((server, bytes.len(), header.kind, format!("{} {:?}", header.scheme, header.responders)));
        // Server 2 sends malformed bytes, server 3 is silent.
        (server != 3).then(|| if server == 2 { vec![0xff; 40] } else { world.respond(server, bytes).unwrap() })
    });
    assert!(result.is_err());
    assert_eq!(seen, expected);
}

fn small_world(scheme: &'static Scheme, key: impl Fn(u8) -> RootKey) -> World {
    let rows = Rows::new(&[9, 9], [[1, 2], [8, 8], [4, 0]]).unwrap();
    let params = crate::params::Params::new(vec![9, 9], 3);
    World::new(SchemeInstance::new(scheme, params, ModulusRule::Deployment).unwrap(), rows, key)
}

#[test]
fn servers_with_different_keys_are_noticed() {
    let world = small_world(scheme::named("gated").unwrap(), |server| RootKey::new(1, [server; 32]));
    // Server 2 refuses later messages, because the ticket is that of server 1. The search continues
    // nevertheless.
    let search = Search::new(world.instance.clone(), SecretQuery::new(vec![3, 3]), world.header_context).unwrap();
    let mut sent = 0;
    let error = search.run(&mut SeededRandom::new(24), |server, message| {
        sent += 1;
        world.respond(server, message).ok()
    });
    assert_eq!((error.unwrap_err(), sent), (SearchError::KeyCheck { first: 1, second: 2 }, 4));
}

#[test]
fn silent_servers_are_named() {
    let world = small_world(scheme::named("baseline").unwrap(), key);
    let search = Search::new(world.instance.clone(), SecretQuery::new(vec![3, 3]), world.header_context).unwrap();
    let error = search
        .run(&mut SeededRandom::new(25), |server, bytes| (server == 2).then(|| world.respond(server, bytes).unwrap()))
        .unwrap_err();
    assert_eq!(error, SearchError::Decode(DecodeError::TooFewAnswers { have: 1, need: 2, silent: vec![1] }));
}

#[test]
fn a_retry_gets_the_same_bytes_and_another_query_gets_other_pads() {
    let world = small_world(scheme::named("baseline").unwrap(), key);
    let mut random = SeededRandom::new(26);
    let mut first_message = || {
        let mut search =
            Search::new(world.instance.clone(), SecretQuery::new(vec![3, 3]), world.header_context).unwrap();
        search.next(&mut random).unwrap().messages.remove(0)
    };
    let (first, second) = (first_message(), first_message());
    assert_eq!(world.respond(1, &first), world.respond(1, &first));
    let checks = [first, second].map(|message| world.respond(1, &message).unwrap()[..16].to_vec());
    assert_ne!(checks[0], checks[1]);
}

#[test]
fn servers_refuse_what_they_do_not_serve() {
    let world = small_world(scheme::named("two-phase").unwrap(), key);
    let mut random = SeededRandom::new(27);
    let mut search = Search::new(world.instance.clone(), SecretQuery::new(vec![3, 3]), world.header_context).unwrap();
    let message = Message::decode(&search.next(&mut random).unwrap().messages[0]).unwrap();
    let refusal = |change: &dyn Fn(&mut Message)| {
        let mut message = message.clone();
        change(&mut message);
        world.respond(1, &message.encode()).unwrap_err()
    };
    assert_eq!(refusal(&|m| m.header.digest[0] ^= 1), Refusal::Manifest);
    assert_eq!(refusal(&|m| m.header.scheme = "baseline".into()), Refusal::Scheme("baseline".into()));
    assert_eq!(refusal(&|m| m.header.kind = MessageKind::Phase(2)), Refusal::Phase { scheme: "two-phase", phase: 2 });
    assert_eq!(refusal(&|m| m.header.epoch = 9), Refusal::Epoch(9));
    assert_eq!(refusal(&|m| m.server = 2), Refusal::Server { meant: 2, here: 1 });
    assert_eq!(refusal(&|m| m.header.parent.tau[0] = 1), Refusal::Parent);
    assert_eq!(refusal(&|m| m.header.parent.ticket[0] = 1), Refusal::Parent);
    assert_eq!(refusal(&|m| m.share_commitments.clear()), Refusal::ShareCommitment);
    assert_eq!(refusal(&|m| m.header.responders = vec![1, 2, 4]), Refusal::Responders { need: 3 });
    assert_eq!(refusal(&|m| m.blinding[0] ^= 1), Refusal::Commitment);
    assert_eq!(refusal(&|m| m.commitments[0][0] ^= 1), Refusal::Commitment);
    assert!(matches!(refusal(&|m| m.payload.push(0)), Refusal::Malformed(WireError::Length { .. })));
    assert!(matches!(refusal(&|m| m.payload.fill(0xff)), Refusal::Malformed(WireError::NotReduced { index: 0 })));
}

#[test]
fn malformed_bytes_panic_neither_server_nor_client() {
    let mut random = SeededRandom::new(28);
    let world = small_world(scheme::named("gated-tables").unwrap(), key);
    for run in 0..3_000 {
        let mut search =
            Search::new(world.instance.clone(), SecretQuery::new(vec![3, 3]), world.header_context).unwrap();
        let mut bytes = search.next(&mut random).unwrap().messages[0].to_vec();
        for _ in 0..1 + random.below(4) {
            match random.below(3) {
                0 => bytes.truncate(random.below(bytes.len() as u64 + 1) as usize),
                1 => bytes.extend([random.below(256) as u8; 3]),
                _ if !bytes.is_empty() => {
                    let index = random.below(bytes.len() as u64) as usize;
                    bytes[index] = random.below(256) as u8;
                }
                _ => {}
            }
        }
        let _ = world.respond(1, &bytes);
        if run % 10 == 0 {
            let search =
                Search::new(world.instance.clone(), SecretQuery::new(vec![3, 3]), world.header_context).unwrap();
            let lengths = [0, 1, 15, 16, 17, 40].map(|n| n + random.below(3) as usize);
            let mut draws = SeededRandom::new(run);
            let _ = search.run(&mut random, |server, _| {
                let mut response = vec![0; lengths[server % lengths.len()]];
                draws.fill(&mut response);
                Some(response)
            });
        }
    }
}

#[test]
fn secrets_do_not_print() {
    let world = small_world(scheme::named("gated").unwrap(), key);
    let secret = SecretQuery::new(vec![7, 7]).immutable(vec![true, false]);
    let mut random = SeededRandom::new(29);
    let mut search = Search::new(world.instance.clone(), secret.clone(), world.header_context).unwrap();
    let protocol = ServerProtocol::new(1, world.header_context.digest, vec![world.instance.clone()], vec![key(1)], 4);
    let mut seen = vec![];
    while let Some(outgoing) = search.next(&mut random) {
        let messages = outgoing.messages.iter().map(|bytes| Message::decode(bytes).unwrap());
        let request = protocol.decode(&outgoing.messages[0]).unwrap();
        seen.push(format!("{outgoing:?} {:?} {request:?} {search:?}", messages.collect::<Vec<_>>()));
        let responses = (1..).zip(&outgoing.messages).map(|(server, message)| world.respond(server, message).ok());
        search.receive(responses.collect());
        seen.push(format!("{search:?}"));
    }
    let shown =
        format!("{secret:?} {seen:?} {:?} {:?} {:?}", key(1), key(1).transcript(&[0; 32]), search.finish().unwrap(),);
    for word in ["[7", "true", "payload", "blinding", "FieldElement(1", "x:", "theta", "wanted", "Exactly", "record: ["]
    {
        assert!(!shown.contains(word), "{word} in {shown}");
    }
}

#[test]
fn a_servers_response_holds_every_pad() {
    // T = 2, so κ ≥ 2. The response is the answer of the definition with all pads of the
    // transcript's streams.
    for_all_schemes(|scheme| {
        let mut random = SeededRandom::new(31);
        let case = TestCase::random(scheme, (2, 0, 0), 6, 8, &mut random);
        let world = World::new(case.instance(scheme, ModulusRule::Deployment), case.rows(), key);
        let instance = &world.instance;
        let protocol =
            ServerProtocol::new(2, world.header_context.digest, vec![instance.clone()], vec![key(2)], 2 * case.x.len());
        let mut search = Search::new(instance.clone(), case.secret(), world.header_context).unwrap();
        let message = Message::decode(&search.next(&mut random).unwrap().messages[1]).unwrap();
        let CheckedRequest::Answer(request) = protocol.decode(&message.encode()).unwrap() else {
            panic!("not a request for a phase")
        };
        let (field, kappa) = (instance.field(), instance.kappa(0));
        let keys = key(2).transcript(&message.tau()).rows(
            field,
            request.program.outputs.len(),
            kappa,
            instance.params().d_min,
        );
        let alpha = instance.points()[1];
        let job = ScanJob { field, alpha, kappa, program: &request.program };
        let elements = row_function::answer(&job, &case.rows(), &keys, None);
        let response = world.respond(2, &message.encode()).unwrap();
        assert_eq!(response[32..], wire::pack(field, &elements), "{}", scheme.name);
        assert_eq!(response[..16], key(2).transcript(&message.tau()).check_value(), "{}", scheme.name);
        assert_eq!(response[16..32], key(2).ticket(scheme.name, &message.tau()), "{}", scheme.name);
        search.receive(vec![None, Some(response)]);
        // The same for the record: without its pads the response is the plain inner product.
        let fetch = std::iter::from_fn(|| search.next(&mut random)).last().unwrap();
        let fetch = Message::decode(&fetch.messages[1]).unwrap();
        let CheckedRequest::Record(request) = protocol.decode(&fetch.encode()).unwrap() else {
            panic!("not a request for a record")
        };
        let records: Vec<Vec<u8>> =
            case.rows.iter().map(|row| row.iter().flat_map(|level| level.to_le_bytes()).collect()).collect();
        let encoded = protocol.encode_records(&key(2), records.iter().map(Vec::as_slice));
        let mut product = request.fetch.inner_product(&request.payload, |position| &encoded[position]);
        let padded = world.respond(2, &fetch.encode()).unwrap()[16..].to_vec();
        assert_ne!(padded, product, "{}", scheme.name);
        request.fetch.pad(1, &key(2).transcript(&fetch.tau()), &mut product);
        assert_eq!(padded, product, "{}", scheme.name);
    });
}

#[test]
fn whole_searches_tolerate_silence_malformed_answers_and_lies() {
    for_all_schemes(|scheme| {
        let mut random = SeededRandom::new(32);
        for number in 0..24 {
            let faults = [(1, 1, 0), (1, 0, 1), (2, 1, 1)][number % 3];
            let (_, silent, lying) = faults;
            let case = TestCase::random(scheme, faults, 100, 9, &mut random);
            let world = World::new(case.instance(scheme, ModulusRule::Deployment), case.rows(), key);
            // Servers that every phase queries, so that they misbehave in all phases.
            let first = 1 + random.below(2) as usize;
            let silent_servers = first..first + silent;
            let lying_servers = silent_servers.end..silent_servers.end + lying;
            let kind = random.below(5);
            let mut noise = SeededRandom::new(number as u64);
            let search = Search::new(world.instance.clone(), case.secret(), world.header_context).unwrap();
            let result = search.run(&mut random, |server, message| {
                let mut response = world.respond(server, message).unwrap();
                if silent_servers.contains(&server) {
                    return None;
                }
                if lying_servers.contains(&server) {
                    let message_kind = Message::decode(message).unwrap().header.kind;
                    match kind {
                        0 => response.truncate(response.len() - 1),
                        1 => response[0] ^= 1,
                        2 => response.push(0),
                        // A wrong ticket in phase 0, another lie elsewhere.
                        3 => response[16] ^= 1,
                        _ => {
                            // Zeros are valid but wrong field elements; a record may be any bytes.
                            let body = &mut response[message_kind.lead()..];
                            if message_kind == MessageKind::Record { noise.fill(body) } else { body.fill(0) }
                        }
                    }
                }
                Some(response)
            });
            let result = result.unwrap_or_else(|error| panic!("{} {faults:?} kind {kind}: {error}", scheme.name));
            let costs = case.brute_force(scheme);
            let best = best(&costs).map(|(_, cost)| cost);
            let found = result.found.first().map(|found| {
                let row = levels(&found.record);
                costs[case.rows.iter().position(|other| *other == row).unwrap()].unwrap()
            });
            assert_eq!(found, best, "{} {faults:?} kind {kind}", scheme.name);
            assert!(
                result.lying_servers.iter().all(|server| lying_servers.contains(server)),
                "{} {:?}",
                scheme.name,
                result.lying_servers
            );
        }
    });
}

#[test]
fn described_bytes_are_those_on_the_wire() {
    for_all_schemes(|scheme| {
        let mut random = SeededRandom::new(33);
        let case = TestCase::random(scheme, (1, 0, 0), 30, 9, &mut random);
        let world = World::new(case.instance(scheme, ModulusRule::Deployment), case.rows(), key);
        let (mut up, mut down) = (0, 0);
        let search = Search::new(world.instance.clone(), case.secret(), world.header_context).unwrap();
        search
            .run(&mut random, |server, bytes| {
                let message = Message::decode(bytes).unwrap();
                let response = world.respond(server, bytes).unwrap();
                if message.header.kind != MessageKind::Record {
                    up += message.payload.len() as u128;
                    down += (response.len() - message.header.kind.lead()) as u128;
                }
                Some(response)
            })
            .unwrap();
        assert_eq!(world.instance.bytes(), CommunicationCost { up, down }, "{}", scheme.name);
    });
}

#[test]
fn gated_and_two_phase_agree_on_the_index() {
    let mut random = SeededRandom::new(30);
    for (gated, two_phase) in [("gated", "two-phase"), ("gated+", "two-phase+"), ("gated-tables", "two-phase+")] {
        let (gated, two_phase) = (scheme::named(gated).unwrap(), scheme::named(two_phase).unwrap());
        for _ in 0..300 {
            let case = TestCase::random(two_phase, (1, 0, 0), 6, 12, &mut random);
            let results = [gated, two_phase].map(|scheme| {
                let world = World::new(case.instance(scheme, ModulusRule::Deployment), case.rows(), key);
                let result = world.search(case.secret(), 1, &mut random).unwrap();
                result.found.first().map(|found| (found.position, found.cost, found.record.clone()))
            });
            assert_eq!(results[0], results[1]);
            let expected =
                best(&case.brute_force(two_phase)).map(|(row, cost)| (Some(row), DecodedCost::Exactly(cost as u64)));
            assert_eq!(results[0].as_ref().map(|found| (found.0, found.1)), expected);
        }
    }
}
