//! Clients that continue searches they have not started, servers that issue wrong tickets, and how
//! much one search can reveal.

use crate::field::{Field, FieldElement, ModulusRule};
use crate::keys::RootKey;
use crate::params::Params;
use crate::random::{RandomSource, SeededRandom};
use crate::row_function::Rows;
use crate::scheme::instance::SchemeInstance;
use crate::search::{HeaderContext, Search};
use crate::secret_query::SecretQuery;
use crate::server_protocol::{Refusal, ServerProtocol};
use crate::share_commitment::ShareCommitments;
use crate::transcript::{Message, MessageKind, SearchRef, messages};
use crate::{scheme, wire};
use std::collections::BTreeSet;
use zeroize::Zeroizing;

const LEVELS: u32 = 9;

/// Servers that offer several schemes over the same shuffled rows, under two key epochs.
struct World {
    instances: Vec<SchemeInstance>,
    protocols: Vec<ServerProtocol>,
    rows: Rows,
    encoded: Vec<Vec<u8>>,
    header_context: HeaderContext,
}

impl World {
    fn new(schemes: &[&str], features: usize, rows: usize, lying: usize) -> World {
        let mut random = SeededRandom::new(50);
        let levels: Vec<Vec<u16>> =
            (0..rows).map(|_| (0..features).map(|_| random.below(u64::from(LEVELS) + 1) as u16).collect()).collect();
        let max_levels = vec![LEVELS; features];
        let params = Params { lying, shuffle: true, weight_limit: 3, ..Params::new(max_levels.clone(), rows) };
        let instance = |name: &&str| {
            SchemeInstance::new(scheme::named(name).unwrap(), params.clone(), ModulusRule::Deployment).unwrap()
        };
        let instances: Vec<SchemeInstance> = schemes.iter().map(instance).collect();
        let keys = [1, 2].map(|epoch| RootKey::new(epoch, [epoch as u8; 32]));
        let header_context = HeaderContext { digest: [6; 32], epoch: 1, record_length: 2, signer: None };
        let servers = instances.iter().map(SchemeInstance::servers).max().unwrap() as u8;
        let protocols: Vec<ServerProtocol> = (1..=servers)
            .map(|n| {
                ServerProtocol::new(
                    n,
                    header_context.digest,
                    instances.clone(),
                    keys.to_vec(),
                    header_context.record_length,
                )
            })
            .collect();
        let records = vec![vec![7; header_context.record_length]; rows];
        let encoded = protocols[0].encode_records(&keys[0], records.iter().map(Vec::as_slice));
        World { protocols, rows: Rows::new(&max_levels, levels).unwrap(), encoded, header_context, instances }
    }

    fn respond(&self, message: &Message) -> Result<Vec<u8>, Refusal> {
        let server = usize::from(message.server) - 1;
        self.protocols[server].respond(&message.encode(), &self.rows, &self.encoded)
    }

    /// Starts a search with the given scheme. Returns its reference and the messages of the next
    /// step.
    fn start(&self, scheme: usize, seed: u64) -> (SearchRef, Vec<Message>) {
        let mut random = SeededRandom::new(seed);
        let secret = SecretQuery::new(vec![1; self.rows.iter().next().unwrap().len()]);
        let mut search = Search::new(self.instances[scheme].clone(), secret, self.header_context).unwrap();
        let first = decoded(&search.next(&mut random).unwrap().messages);
        search.receive(first.iter().map(|message| self.respond(message).ok()).collect());
        let next = decoded(&search.next(&mut random).unwrap().messages);
        (next[0].header.parent, next)
    }
}

fn decoded(messages: &[Zeroizing<Vec<u8>>]) -> Vec<Message> {
    messages.iter().map(|bytes| Message::decode(bytes).unwrap()).collect()
}

/// The same query with another header and matching commitments.
fn again(message: &Message, change: impl Fn(&mut Message)) -> Message {
    let mut changed = message.clone();
    change(&mut changed);
    let payloads = vec![changed.payload.clone(); changed.header.responders.len()];
    let sent = messages(&changed.header, payloads, &mut SeededRandom::new(60));
    let mut sent = sent[usize::from(message.server) - 1].clone();
    (sent.share_commitments, sent.share_opening) = (changed.share_commitments.clone(), changed.share_opening.clone());
    sent
}

#[test]
fn a_parent_cannot_be_made_up_nor_taken_from_another_search() {
    let world = World::new(&["two-phase", "gated", "gated-tables"], 2, 5, 0);
    for scheme in 0..3 {
        let (parent, next) = world.start(scheme, 51);
        let next = &next[0];
        assert!(world.respond(&again(next, |_| ())).is_ok(), "the server refuses an honest client");
        let (elsewhere, _) = world.start((scheme + 1) % 3, 52);
        let (later, _) = world.start(scheme, 53);
        let refusal = |change: &dyn Fn(&mut Message)| world.respond(&again(next, change)).unwrap_err();
        // Invented: any τ with any ticket, a valid τ without its ticket or with that of another
        // search.
        assert_eq!(refusal(&|m| m.header.parent.tau = [9; 32]), Refusal::Ticket);
        assert_eq!(refusal(&|m| m.header.parent = SearchRef { tau: [9; 32], ticket: [9; 16] }), Refusal::Ticket);
        assert_eq!(refusal(&|m| m.header.parent.ticket = [0; 16]), Refusal::Ticket);
        assert_eq!(refusal(&|m| m.header.parent.ticket = later.ticket), Refusal::Ticket);
        for byte in 0..16 {
            assert_eq!(refusal(&|m| m.header.parent.ticket[byte] ^= 0x80), Refusal::Ticket);
        }
        // Taken from a search with another scheme or another key epoch.
        assert_eq!(refusal(&|m| m.header.parent = elsewhere), Refusal::Ticket);
        assert_eq!(refusal(&|m| m.header.epoch = 2), Refusal::Ticket);
        assert_eq!(refusal(&|m| m.header.parent = SearchRef::default()), Refusal::Parent);
        assert_ne!(parent, later);
    }
}

#[test]
fn a_record_fetch_needs_the_ticket_too() {
    let world = World::new(&["two-phase", "gated"], 2, 5, 0);
    let (_, fetch) = world.start(1, 51);
    assert_eq!(fetch[0].header.kind, MessageKind::Record);
    let (elsewhere, _) = world.start(0, 52);
    let refusal = world.respond(&again(&fetch[0], |m| m.header.parent = elsewhere));
    assert_eq!(refusal, Err(Refusal::Ticket));
}

#[test]
fn phase_1_uses_the_x_that_phase_0_committed_to() {
    for name in ["two-phase", "two-phase-4", "two-phase+"] {
        let world = World::new(&[name], 2, 5, 0);
        let (field, phase) = (world.instances[0].field(), &world.instances[0].scheme().phases[1]);
        let (_, next) = world.start(0, 51);
        let (_, other) = world.start(0, 52);
        let next = &next[1];
        let lengths = world.instances[0].slot_lengths(1);
        let with_changed_element = |index: usize| {
            again(next, |message| {
                let mut elements = wire::unpack(field, &message.payload, lengths.iter().sum()).unwrap();
                elements[index] = field.add(elements[index], FieldElement::ONE);
                message.payload = wire::pack(field, &elements);
            })
        };
        let mut start = 0;
        for (slot, length) in phase.slots.iter().zip(&lengths) {
            for index in start..start + length {
                let answered = world.respond(&with_changed_element(index));
                if slot.committed {
                    assert_eq!(answered, Err(Refusal::ShareCommitment), "{name}: changed {}", slot.name)
                } else {
                    assert!(answered.is_ok(), "{name}: {} may be chosen in phase 1", slot.name)
                }
            }
            start += length;
        }
        let refusal = |change: &dyn Fn(&mut Message)| world.respond(&again(next, change)).unwrap_err();
        assert_eq!(refusal(&|m| m.share_opening = None), Refusal::ShareCommitment);
        assert_eq!(refusal(&|m| m.share_commitments.clear()), Refusal::ShareCommitment);
        assert_eq!(refusal(&|m| m.share_commitments[1] = other[1].share_commitments[1]), Refusal::ShareCommitment);
        assert_eq!(refusal(&|m| m.share_commitments.swap(0, 1)), Refusal::ShareCommitment);
        assert_eq!(
            refusal(&|m| m.share_opening.as_mut().unwrap().first_commitments[0][0] ^= 1),
            Refusal::ShareCommitment
        );
        assert_eq!(refusal(&|m| m.share_opening.as_mut().unwrap().blinding[0] ^= 1), Refusal::ShareCommitment);
        // All share commitments of another search, with their openings and shares.
        let foreign = |m: &mut Message| {
            (m.share_commitments, m.share_opening) =
                (other[1].share_commitments.clone(), other[1].share_opening.clone());
            m.payload = other[1].payload.clone();
        };
        assert_eq!(refusal(&foreign), Refusal::ShareCommitment);
    }
}

/// What servers see of a search except random values: all header fields that do not depend on a
/// ticket.
fn public_form(messages: &[Message]) -> String {
    let public = |message: &Message| {
        let mut header = message.header.clone();
        header.parent = SearchRef::default();
        format!("{} {header:?} {}\n", message.server, message.encode().len())
    };
    messages.iter().map(public).collect()
}

#[test]
fn one_wrong_ticket_stops_no_search_that_tolerates_a_lie_and_all_servers_get_the_same_ticket() {
    for name in ["two-phase", "gated"] {
        let world = World::new(&[name], 2, 5, 1);
        let mut forms = BTreeSet::new();
        let servers = world.instances[0].responders(0);
        for lying in 0..=servers {
            let mut random = SeededRandom::new(54);
            let mut search =
                Search::new(world.instances[0].clone(), SecretQuery::new(vec![1, 1]), world.header_context).unwrap();
            let (mut seen, mut parents) = (String::new(), vec![]);
            while let Some(outgoing) = search.next(&mut random) {
                let sent = decoded(&outgoing.messages);
                seen += &public_form(&sent);
                if sent[0].header.kind != MessageKind::Phase(0) {
                    parents.extend(sent.iter().map(|message| message.header.parent));
                }
                let respond = |message: &Message| {
                    let mut response = world.respond(message).unwrap();
                    if usize::from(message.server) == lying && message.header.kind == MessageKind::Phase(0) {
                        response[16..32].fill(0xaa);
                    }
                    Some(response)
                };
                search.receive(sent.iter().map(respond).collect());
            }
            let result = search.finish().unwrap();
            assert_eq!(result.lying_servers, if lying > 0 { vec![lying] } else { vec![] });
            assert!(parents.windows(2).all(|pair| pair[0] == pair[1]));
            forms.insert(seen);
        }
        assert_eq!(forms.len(), 1, "{name}: the messages depend on which server lies");
    }
}

#[test]
fn without_any_ticket_a_search_goes_on_and_looks_the_same() {
    let world = World::new(&["two-phase"], 2, 5, 0);
    let run = |answered: &dyn Fn(&Message) -> bool| {
        let mut random = SeededRandom::new(55);
        let mut search =
            Search::new(world.instances[0].clone(), SecretQuery::new(vec![1, 1]), world.header_context).unwrap();
        let mut seen = String::new();
        while let Some(outgoing) = search.next(&mut random) {
            let sent = decoded(&outgoing.messages);
            seen += &public_form(&sent);
            search.receive(sent.iter().map(|m| if answered(m) { world.respond(m).ok() } else { None }).collect());
        }
        (seen, search.finish().is_ok())
    };
    let (complete, found) = run(&|_| true);
    assert!(found);
    // No server answers phase 0, or only server 3 answers.
    assert_eq!(run(&|message| message.header.kind != MessageKind::Phase(0)), (complete.clone(), false));
    assert_eq!(run(&|message| message.server == 3), (complete, false));
}

/// The rank of some vectors over F_q.
fn rank(field: &Field, mut vectors: Vec<Vec<FieldElement>>) -> usize {
    let mut rank = 0;
    for column in 0..vectors[0].len() {
        let Some(pivot) = (rank..vectors.len()).find(|&row| !vectors[row][column].is_zero()) else { continue };
        vectors.swap(rank, pivot);
        let inverse = field.inverse(vectors[rank][column]).unwrap();
        let pivot = vectors[rank].clone();
        for vector in &mut vectors[rank + 1..] {
            let factor = field.mul(vector[column], inverse);
            vector.iter_mut().zip(&pivot).for_each(|(a, &b)| *a = field.sub(*a, field.mul(factor, b)));
        }
        rank += 1;
    }
    rank
}

/// Repeats phase 1 of one search until nothing new is learnt, with committed vectors that are not a
/// valid sharing and another h2 each time. Returns the number of independent values per row.
fn numbers_from_one_parent(name: &str) -> usize {
    let (features, rows) = (6, 30);
    let world = World::new(&[name], features, rows, 0);
    let instance = &world.instances[0];
    let field = instance.field();
    let mut random = SeededRandom::new(56);
    let mut uniform = |count: usize| (0..count).map(|_| field.sample(&mut random)).collect::<Vec<FieldElement>>();
    let responders = instance.responders(1);
    let committed: Vec<Vec<FieldElement>> =
        (0..responders).map(|_| uniform(instance.slot_lengths(1).iter().sum::<usize>() - rows)).collect();
    let parts: Vec<_> = committed.iter().map(|part| Zeroizing::new(wire::pack(field, part))).collect();
    let mut blindings = SeededRandom::new(57);
    let header =
        world.header_context.header(instance, MessageKind::Phase(0), instance.responders(0), SearchRef::default());
    let zeros = wire::pack(field, &vec![FieldElement::ZERO; instance.slot_lengths(0).iter().sum()]);
    let mut first = messages(&header, vec![zeros; instance.responders(0)], &mut blindings);
    let share_commitments = ShareCommitments::make(&mut first, &parts, &mut blindings);
    let ticket = world.respond(&first[0]).unwrap()[16..32].try_into().unwrap();
    let header = world.header_context.header(
        instance,
        MessageKind::Phase(1),
        responders,
        SearchRef { tau: first[0].tau(), ticket },
    );
    let learnt = |_| {
        let payloads = committed.iter().map(|committed| {
            // One s for all rows, but a different s for every server and repetition. The committed
            // part follows h2.
            let s = uniform(1)[0];
            wire::pack(field, vec![s; rows].iter().chain(committed))
        });
        let mut sent = messages(&header, payloads.collect(), &mut blindings);
        share_commitments.open_in(&mut sent);
        // Only the combination in which all pads cancel carries information.
        let points = &instance.points()[..responders];
        let mut sum = vec![FieldElement::ZERO; rows];
        for (message, &point) in sent.iter().zip(points) {
            let others = points.iter().filter(|&&other| other != point);
            let weight = others.fold(FieldElement::ONE, |weight, &other| {
                let gap = field.inverse(field.sub(other, point)).unwrap();
                field.mul(weight, field.mul(other, gap))
            });
            let answer = wire::unpack(field, &world.respond(message).unwrap()[16..], rows).unwrap();
            sum.iter_mut().zip(answer).for_each(|(sum, element)| *sum = field.add(*sum, field.mul(weight, element)));
        }
        // Differences cancel the part that the client knows, which is the same for all rows.
        sum.windows(2).map(|pair| field.sub(pair[0], pair[1])).collect::<Vec<FieldElement>>()
    };
    rank(field, (0..2 * features + 2).map(learnt).collect())
}

#[test]
fn one_parent_gives_a_few_numbers_of_a_row_however_often_it_is_used() {
    // Without share commitments, x could differ each time, and the rank would be that of all rows:
    // Σy² and 6 features, or 12 squares and features. docs/leakage.md has these numbers.
    assert_eq!(numbers_from_one_parent("two-phase"), 4);
    assert_eq!(numbers_from_one_parent("two-phase-4"), 4);
    assert_eq!(numbers_from_one_parent("two-phase+"), 8);
}
