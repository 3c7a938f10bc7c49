//! Clients that go on with searches they have not begun, servers that give wrong tickets, and what
//! one search can be made to tell.

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
    sealed: Vec<Vec<u8>>,
    header_context: HeaderContext,
}

impl World {
    fn new(schemes: &[&str], features: usize, rows: usize, lying: usize) -> World {
        let mut random = SeededRandom::new(50);
        let levels: Vec<Vec<u16>> =
            (0..rows).map(|_| (0..features).map(|_| random.below(u64::from(LEVELS) + 1) as u16).collect()).collect();
        let ranges = vec![LEVELS; features];
        let params = Params { lying, shuffle: true, weight_limit: 3, ..Params::new(ranges.clone(), rows) };
        let deploy = |name: &&str| {
            SchemeInstance::new(scheme::named(name).unwrap(), params.clone(), ModulusRule::Deployment).unwrap()
        };
        let instances: Vec<SchemeInstance> = schemes.iter().map(deploy).collect();
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
        let sealed = protocols[0].encode_records(&keys[0], records.iter().map(Vec::as_slice));
        World { protocols, rows: Rows::new(&ranges, levels).unwrap(), sealed, header_context, instances }
    }

    fn respond(&self, message: &Message) -> Result<Vec<u8>, Refusal> {
        let server = usize::from(message.server) - 1;
        self.protocols[server].respond(&message.encode(), &self.rows, &self.sealed)
    }

    /// Begins a search with the given scheme; gives its parent and the messages that come next.
    fn begun(&self, scheme: usize, seed: u64) -> (SearchRef, Vec<Message>) {
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

/// The same query under another header, with commitments that fit it.
fn again(message: &Message, change: impl Fn(&mut Message)) -> Message {
    let mut changed = message.clone();
    change(&mut changed);
    let payloads = vec![changed.payload.clone(); changed.header.responders.len()];
    let sent = messages(&changed.header, payloads, &mut SeededRandom::new(60));
    let mut sent = sent[usize::from(message.server) - 1].clone();
    (sent.promises, sent.kept) = (changed.promises.clone(), changed.kept.clone());
    sent
}

#[test]
fn a_parent_cannot_be_made_up_nor_taken_from_another_search() {
    let world = World::new(&["two-phase", "gated", "gated-tables"], 2, 5, 0);
    for scheme in 0..3 {
        let (parent, next) = world.begun(scheme, 51);
        let next = &next[0];
        assert!(world.respond(&again(next, |_| ())).is_ok(), "an honest client is answered");
        let (elsewhere, _) = world.begun((scheme + 1) % 3, 52);
        let (later, _) = world.begun(scheme, 53);
        let refusal = |change: &dyn Fn(&mut Message)| world.respond(&again(next, change)).unwrap_err();
        // Made up: any τ with any ticket, a true τ without its ticket, or with one of another
        // search.
        assert_eq!(refusal(&|m| m.header.parent.tau = [9; 32]), Refusal::Ticket);
        assert_eq!(refusal(&|m| m.header.parent = SearchRef { tau: [9; 32], ticket: [9; 16] }), Refusal::Ticket);
        assert_eq!(refusal(&|m| m.header.parent.ticket = [0; 16]), Refusal::Ticket);
        assert_eq!(refusal(&|m| m.header.parent.ticket = later.ticket), Refusal::Ticket);
        for byte in 0..16 {
            assert_eq!(refusal(&|m| m.header.parent.ticket[byte] ^= 0x80), Refusal::Ticket);
        }
        // Taken from another scheme's search, or from one under another key epoch.
        assert_eq!(refusal(&|m| m.header.parent = elsewhere), Refusal::Ticket);
        assert_eq!(refusal(&|m| m.header.epoch = 2), Refusal::Ticket);
        assert_eq!(refusal(&|m| m.header.parent = SearchRef::default()), Refusal::Parent);
        assert_ne!(parent, later);
    }
}

#[test]
fn a_record_fetch_needs_the_ticket_too() {
    let world = World::new(&["two-phase", "gated"], 2, 5, 0);
    let (_, fetch) = world.begun(1, 51);
    assert_eq!(fetch[0].header.stage, MessageKind::Record);
    let (elsewhere, _) = world.begun(0, 52);
    let refusal = world.respond(&again(&fetch[0], |m| m.header.parent = elsewhere));
    assert_eq!(refusal, Err(Refusal::Ticket));
}

#[test]
fn the_second_phase_uses_the_x_that_the_first_promised() {
    for name in ["two-phase", "two-phase-4", "two-phase+"] {
        let world = World::new(&[name], 2, 5, 0);
        let (field, phase) = (world.instances[0].field(), &world.instances[0].scheme().phases[1]);
        let (_, next) = world.begun(0, 51);
        let (_, other) = world.begun(0, 52);
        let next = &next[1];
        let lengths = world.instances[0].slot_lengths(1);
        let with_symbol = |place: usize| {
            again(next, |message| {
                let mut elements = wire::unpack(field, &message.payload, lengths.iter().sum()).unwrap();
                elements[place] = field.add(elements[place], FieldElement::ONE);
                message.payload = wire::pack(field, &elements);
            })
        };
        let mut place = 0;
        for (slot, length) in phase.slots.iter().zip(&lengths) {
            for place in place..place + length {
                let answered = world.respond(&with_symbol(place));
                match slot.promised {
                    true => assert_eq!(answered, Err(Refusal::Promise), "{name}: another {}", slot.name),
                    false => assert!(answered.is_ok(), "{name}: {} is for the second phase to choose", slot.name),
                }
            }
            place += length;
        }
        let refusal = |change: &dyn Fn(&mut Message)| world.respond(&again(next, change)).unwrap_err();
        assert_eq!(refusal(&|m| m.kept = None), Refusal::Promise);
        assert_eq!(refusal(&|m| m.promises.clear()), Refusal::Promise);
        assert_eq!(refusal(&|m| m.promises[1] = other[1].promises[1]), Refusal::Promise);
        assert_eq!(refusal(&|m| m.promises.swap(0, 1)), Refusal::Promise);
        assert_eq!(refusal(&|m| m.kept.as_mut().unwrap().first[0][0] ^= 1), Refusal::Promise);
        assert_eq!(refusal(&|m| m.kept.as_mut().unwrap().blinding[0] ^= 1), Refusal::Promise);
        // A whole other search's promises, with their openings and x.
        let foreign = |m: &mut Message| {
            (m.promises, m.kept, m.payload) =
                (other[1].promises.clone(), other[1].kept.clone(), other[1].payload.clone());
        };
        assert_eq!(refusal(&foreign), Refusal::Promise);
    }
}

/// What the servers of a search see of it, but for draws: everything in the headers that a ticket
/// does not decide.
fn shape(messages: &[Message]) -> String {
    let public = |message: &Message| {
        let mut header = message.header.clone();
        header.parent = SearchRef::default();
        format!("{} {header:?} {}\n", message.server, message.encode().len())
    };
    messages.iter().map(public).collect()
}

#[test]
fn one_wrong_ticket_stops_no_search_that_bears_a_lie_and_all_servers_are_shown_the_same() {
    for name in ["two-phase", "gated"] {
        let world = World::new(&[name], 2, 5, 1);
        let mut shapes = BTreeSet::new();
        let servers = world.instances[0].responders(0);
        for liar in 0..=servers {
            let mut random = SeededRandom::new(54);
            let mut search =
                Search::new(world.instances[0].clone(), SecretQuery::new(vec![1, 1]), world.header_context).unwrap();
            let (mut seen, mut parents) = (String::new(), vec![]);
            while let Some(outgoing) = search.next(&mut random) {
                let sent = decoded(&outgoing.messages);
                seen += &shape(&sent);
                if sent[0].header.stage != MessageKind::Phase(0) {
                    parents.extend(sent.iter().map(|message| message.header.parent));
                }
                let respond = |message: &Message| {
                    let mut response = world.respond(message).unwrap();
                    if usize::from(message.server) == liar && message.header.stage == MessageKind::Phase(0) {
                        response[16..32].fill(0xaa);
                    }
                    Some(response)
                };
                search.receive(sent.iter().map(respond).collect());
            }
            let outcome = search.finish().unwrap();
            assert_eq!(outcome.lying_servers, if liar > 0 { vec![liar] } else { vec![] });
            assert!(parents.windows(2).all(|pair| pair[0] == pair[1]));
            shapes.insert(seen);
        }
        assert_eq!(shapes.len(), 1, "{name}: the search looks the same whoever lies");
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
            seen += &shape(&sent);
            search.receive(sent.iter().map(|m| if answered(m) { world.respond(m).ok() } else { None }).collect());
        }
        (seen, search.finish().is_ok())
    };
    let (whole, found) = run(&|_| true);
    assert!(found);
    // Nobody gives one, or two servers give different ones.
    assert_eq!(run(&|message| message.header.stage != MessageKind::Phase(0)), (whole.clone(), false));
    assert_eq!(run(&|message| message.server == 3), (whole, false));
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

/// Repeats the second phase under one parent as often as that can tell anything, with promises that
/// are no sharing of anything and another h2 each time. Gives how many independent numbers per row
/// come out.
fn numbers_from_one_parent(name: &str) -> usize {
    let (features, rows) = (6, 30);
    let world = World::new(&[name], features, rows, 0);
    let instance = &world.instances[0];
    let field = instance.field();
    let mut random = SeededRandom::new(56);
    let mut uniform = |count: usize| (0..count).map(|_| field.sample(&mut random)).collect::<Vec<FieldElement>>();
    let responders = instance.responders(1);
    let promised: Vec<Vec<FieldElement>> =
        (0..responders).map(|_| uniform(instance.slot_lengths(1).iter().sum::<usize>() - rows)).collect();
    let parts: Vec<_> = promised.iter().map(|part| Zeroizing::new(wire::pack(field, part))).collect();
    let mut blindings = SeededRandom::new(57);
    let header =
        world.header_context.header(instance, MessageKind::Phase(0), instance.responders(0), SearchRef::default());
    let zeros = wire::pack(field, &vec![FieldElement::ZERO; instance.slot_lengths(0).iter().sum()]);
    let mut first = messages(&header, vec![zeros; instance.responders(0)], &mut blindings);
    let promises = ShareCommitments::make(&mut first, &parts, &mut blindings);
    let ticket = world.respond(&first[0]).unwrap()[16..32].try_into().unwrap();
    let header = world.header_context.header(
        instance,
        MessageKind::Phase(1),
        responders,
        SearchRef { tau: first[0].tau(), ticket },
    );
    let learnt = |_| {
        let payloads = promised.iter().map(|promised| {
            // One s for all rows, another at every server and in every repetition; the promised
            // part stands after h2.
            let s = uniform(1)[0];
            wire::pack(field, vec![s; rows].iter().chain(promised))
        });
        let mut sent = messages(&header, payloads.collect(), &mut blindings);
        promises.open_in(&mut sent);
        // The combination in which all pads cancel is all that is left of the answers.
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
        // Without what the client knows, which is the same for all rows.
        sum.windows(2).map(|pair| field.sub(pair[0], pair[1])).collect::<Vec<FieldElement>>()
    };
    rank(field, (0..2 * features + 2).map(learnt).collect())
}

#[test]
fn one_parent_gives_a_few_numbers_of_a_row_however_often_it_is_used() {
    // Without promises x could be another one each time, and the rank would be that of all rows:
    // Σy² and 6 features, or 12 squares and features. docs/leakage.md has these numbers.
    assert_eq!(numbers_from_one_parent("two-phase"), 4);
    assert_eq!(numbers_from_one_parent("two-phase-4"), 4);
    assert_eq!(numbers_from_one_parent("two-phase+"), 8);
}
