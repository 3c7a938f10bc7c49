//! User privacy by enumeration on tiny fields, through the code that runs: whole searches against
//! servers in memory, with all of the user's random draws played. What one server (for T = 2: any
//! two) receives has the same distribution for every secret.
//!
//! Two proofs. Where the draws of all phases are few, all of them are played together. Everywhere,
//! each draw is played with the others held: it moves one symbol of the view, to every value
//! equally often, and every symbol has such a draw of its own; so the view is uniform, whoever
//! asks. Commitments, promises and blindings are left out: they hide perfectly (transcript's own
//! tests), a parent is a hash of commitments, and a ticket is made from the parent. What is
//! promised in the first phase is drawn there and seen in the second, so it is among the symbols.

use super::common::for_all_schemes;
use crate::field::ModulusRule;
use crate::keys::RootKey;
use crate::memory::MemoryServer;
use crate::params::Params;
use crate::random::{ExhaustiveRandom, RandomSource, SeededRandom};
use crate::row_function::Rows;
use crate::scheme::instance::SchemeInstance;
use crate::scheme::{self, ConstraintKind, CostModel, Scheme};
use crate::search::Search;
use crate::secret_query::SecretQuery;
use crate::transcript::{Message, MessageKind, SearchRef};
use crate::wire;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Some servers whose database holds a row of zeros, then rows of ones.
struct World {
    instance: Arc<SchemeInstance>,
    servers: Vec<MemoryServer>,
}

impl World {
    fn new(scheme: &'static Scheme, params: Params) -> Option<World> {
        let rows = (0..params.rows).map(|row| vec![u16::from(row > 0); params.features()]);
        let rows = Rows::new(&params.ranges, rows.collect::<Vec<_>>()).unwrap();
        let instance = SchemeInstance::new(scheme, params, ModulusRule::Paper).ok()?;
        let key = RootKey::new(0, [1; 32]);
        let servers = (1..=instance.servers() as u8).map(|n| MemoryServer::new(n, &instance, &key, &rows));
        Some(World { servers: servers.collect(), instance: Arc::new(instance) })
    }

    /// All groups of T servers.
    fn groups(&self) -> Vec<Vec<usize>> {
        let servers = self.instance.servers();
        match self.instance.params().threshold {
            1 => (0..servers).map(|n| vec![n]).collect(),
            _ => (0..servers).flat_map(|n| (0..n).map(move |m| vec![m, n])).collect(),
        }
    }

    /// The symbols or bytes in a message. A carried share must be one that the server has seen, and
    /// is left out.
    fn elements(&self, message: &Message, seen: &[u64]) -> Vec<u64> {
        let MessageKind::Phase(phase) = message.header.stage else {
            return message.payload.iter().map(|&byte| byte.into()).collect();
        };
        let lengths = self.instance.slot_lengths(phase.into());
        let payload = wire::unpack(self.instance.field(), &message.payload, lengths.iter().sum()).unwrap();
        let mut rest = payload.iter().map(|element| element.value());
        let mut fresh = vec![];
        for (slot, &length) in lengths.iter().enumerate() {
            let elements: Vec<u64> = rest.by_ref().take(length).collect();
            let slots = self.instance.scheme().phases[usize::from(phase)].slots;
            if slots.get(slot).is_some_and(|slot| slot.carried) {
                assert!(seen.windows(length).any(|before| before == elements), "a carried share is a new one");
            } else {
                fresh.extend(elements);
            }
        }
        fresh
    }
}

/// What the servers see of a search.
struct Views {
    /// Routes, lengths and headers, which must be the same in all searches.
    public: String,
    /// By server, all symbols of its phases.
    phases: Vec<Vec<u64>>,
    /// By server, the bytes of its record query.
    records: Vec<Vec<u64>>,
}

/// How much of a search is looked at. Records are fetched alike in all schemes with as many
/// servers, and cost time.
#[derive(Clone, Copy, PartialEq)]
enum Until {
    Phases,
    Record,
}

fn watch(world: &World, secret: &SecretQuery, until: Until, random: &mut impl RandomSource) -> Views {
    let none = vec![vec![]; world.servers.len()];
    let mut views = Views { public: String::new(), phases: none.clone(), records: none };
    let header_context = world.servers[0].header_context();
    let mut search = Search::new(world.instance.clone(), secret.clone(), header_context).unwrap();
    let phases = world.instance.phases();
    for step in 1.. {
        // Before the record's draws are made.
        if until == Until::Phases && step > phases {
            return views;
        }
        let Some(outgoing) = search.next(random) else { break };
        let heard = until == Until::Record || step < phases;
        let mut respond = |(server, bytes): (usize, &[u8])| {
            let mut message = Message::decode(bytes).unwrap();
            let elements = world.elements(&message, &views.phases[server]);
            match message.header.stage {
                MessageKind::Phase(_) => views.phases[server].extend(elements),
                MessageKind::Record => views.records[server].extend(elements),
            }
            message.header.parent = SearchRef::default();
            let route = outgoing.route;
            views.public += &format!("{server} {route:?} {} {:?}\n", bytes.len(), message.header);
            heard.then(|| world.servers[server].respond(bytes).unwrap())
        };
        let responses = outgoing.messages.iter().map(|bytes| bytes.as_slice()).enumerate().map(&mut respond).collect();
        search.receive(responses);
    }
    search.finish().unwrap();
    views
}

/// Everybody who could ask: all x, all I, all weights that the scheme carries, and some tables.
fn everybody(scheme: &Scheme, params: &Params) -> Vec<SecretQuery> {
    let d = params.features();
    let digits = |base: u64| -> Vec<Vec<u64>> {
        let (mut all, mut found) = (ExhaustiveRandom::default(), vec![]);
        while all.next_run() {
            found.push((0..d).map(|_| all.below(base)).collect());
        }
        found
    };
    let gated = scheme.constraint != ConstraintKind::None;
    let weighted = matches!(scheme.cost_model, CostModel::Weighted | CostModel::Table);
    let mut people = vec![];
    for x in digits(2) {
        for immutable in digits(if gated { 2 } else { 1 }) {
            for weights in digits(if weighted { 2 } else { 1 }) {
                let secret = SecretQuery::new(x.iter().map(|&level| level as u32).collect());
                let secret = secret.immutable(immutable.iter().map(|&bit| bit == 1).collect());
                people.push(secret.weights(weights.iter().map(|weight| weight + 1).collect()));
            }
        }
    }
    if scheme.cost_model == CostModel::Table {
        people.push(SecretQuery::new(vec![0; d]).cost_tables(vec![vec![2, 1]; d]));
    }
    if scheme.constraint == ConstraintKind::Table {
        people.push(SecretQuery::new(vec![1; d]).gate_tables(vec![vec![true, true]; d]));
    }
    people
}

fn tiny(d: usize, rows: usize, threshold: usize, verified: bool) -> Params {
    Params { weight_limit: 2, exponent: 4, cost_limit: 2, threshold, verified, ..Params::new(vec![1; d], rows) }
}

/// Blindings are 32 bytes long and nothing else is.
const BLINDING: usize = 32;
/// No symbol is drawn below this, since it is no prime.
const BYTE: u64 = 256;

/// All numbers are played, bytes stay the same.
struct AllNumbers<'a>(&'a mut ExhaustiveRandom, SeededRandom);

impl RandomSource for AllNumbers<'_> {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.1.fill(bytes);
    }
    fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }
}

/// Seeded draws, of which some are set; remembers the limit of each.
struct Held {
    draws: SeededRandom,
    blindings: SeededRandom,
    first: usize,
    set: Vec<u64>,
    limits: Vec<u64>,
}

impl Held {
    fn new(seed: u64, first: usize, set: Vec<u64>) -> Held {
        let [draws, blindings] = [seed, seed + 1000].map(SeededRandom::new);
        Held { draws, blindings, first, set, limits: vec![] }
    }
}

impl RandomSource for Held {
    fn fill(&mut self, bytes: &mut [u8]) {
        if bytes.len() == BLINDING {
            return self.blindings.fill(bytes);
        }
        bytes.iter_mut().for_each(|byte| *byte = self.below(BYTE) as u8);
    }
    fn below(&mut self, n: u64) -> u64 {
        let place = self.limits.len().checked_sub(self.first);
        self.limits.push(n);
        // Drawn in any case, so that all others stay as they are.
        let drawn = self.draws.below(n);
        place.and_then(|place| self.set.get(place)).copied().unwrap_or(drawn)
    }
}

/// Every value of `count` draws below `limit`.
fn values(limit: u64, count: usize) -> Vec<Vec<u64>> {
    let (mut all, mut found) = (ExhaustiveRandom::default(), vec![]);
    while all.next_run() {
        found.push((0..count).map(|_| all.below(limit)).collect());
    }
    found
}

#[test]
fn one_server_sees_the_same_in_all_phases_together_whoever_asks() {
    for_all_schemes(|scheme| {
        let world = World::new(scheme, tiny(1, 1, 1, false)).unwrap();
        let mut same = None;
        // Everybody, but some where both phases draw much: 5^5 searches for each.
        let people = if scheme.name == "two-phase+" { some } else { everybody };
        for secret in people(scheme, world.instance.params()) {
            let mut counts: Vec<BTreeMap<Vec<u64>, u32>> = vec![BTreeMap::new(); world.servers.len()];
            let mut public = BTreeSet::new();
            let mut all = ExhaustiveRandom::default();
            while all.next_run() {
                let views = watch(&world, &secret, Until::Phases, &mut AllNumbers(&mut all, SeededRandom::new(1)));
                public.insert(views.public);
                for (counts, view) in counts.iter_mut().zip(views.phases) {
                    *counts.entry(view).or_default() += 1;
                }
            }
            let seen = (counts, public);
            let same = same.get_or_insert_with(|| seen.clone());
            assert!(*same == seen, "{}: a server can tell two people apart", scheme.name);
        }
    });
}

/// Whether every group of T servers sees uniform symbols: each has T draws of its own and takes
/// every value equally often.
fn is_uniform(world: &World, secret: &SecretQuery, until: Until, together: &[Vec<usize>], seed: u64) -> bool {
    let mut held = Held::new(seed, 0, vec![]);
    let base = watch(world, secret, until, &mut held);
    let (limits, params) = (held.limits, world.instance.params());
    let view = |views: &Views, server: usize| -> Vec<u64> {
        views.phases[server].iter().chain(&views.records[server]).copied().collect()
    };
    let phases = base.phases[0].len();
    // A query of bits ends with the rows.
    let ends = |place: usize| if world.servers.len() == 2 { params.rows - 8 * (place - phases) } else { 8 };
    let mut moved: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); world.servers.len()];
    let mut place = 0;
    while let Some(&limit) = limits.get(place) {
        if params.verified && limit + 1 == world.instance.field().q() {
            place += 1; // r, which is no server's symbol; other seeds play other ones
            continue;
        }
        let played: Vec<Views> = values(limit, params.threshold)
            .into_iter()
            .map(|set| watch(world, secret, until, &mut Held::new(seed, place, set)))
            .collect();
        if played.iter().any(|views| views.public != base.public) {
            return false;
        }
        let mut moves: Vec<Option<usize>> = vec![];
        for (server, moved) in moved.iter_mut().enumerate() {
            let before = view(&base, server);
            let places: BTreeSet<usize> = played
                .iter()
                .map(|views| view(views, server))
                .flat_map(|view| (0..view.len()).filter(|&i| view[i] != before[i]).collect::<Vec<_>>())
                .collect();
            // One symbol, which no other draw moves.
            if places.len() > 1 || places.iter().any(|&place| !moved.insert(place)) {
                return false;
            }
            moves.push(places.into_iter().next());
        }
        for group in together {
            let asked: Vec<(usize, usize)> = group.iter().filter_map(|&n| Some((n, moves[n]?))).collect();
            let mut counts: BTreeMap<Vec<u64>, u64> = BTreeMap::new();
            for views in &played {
                let elements = asked.iter().map(|&(server, place)| view(views, server)[place]).collect();
                *counts.entry(elements).or_default() += 1;
            }
            let each = |&(_, place): &(usize, usize)| if limit == BYTE { 1 << ends(place).min(8) } else { limit };
            let possible = asked.iter().map(each).product::<u64>();
            let times = played.len() as u64 / possible;
            if counts.len() as u64 != possible || counts.values().any(|&count| count != times) {
                return false;
            }
        }
        place += params.threshold;
    }
    (0..world.servers.len()).all(|server| moved[server].len() == view(&base, server).len())
}

/// The first, the middle and the last of everybody.
fn some(scheme: &Scheme, params: &Params) -> Vec<SecretQuery> {
    let people = everybody(scheme, params);
    [0, people.len() / 2, people.len() - 1].into_iter().map(|place| people[place].clone()).collect()
}

fn assert_uniform(scheme: &'static Scheme, params: Params, until: Until) {
    let Some(world) = World::new(scheme, params) else { return };
    for (seed, secret) in (1..).zip(some(scheme, world.instance.params())) {
        assert!(is_uniform(&world, &secret, until, &world.groups(), seed), "{}", scheme.name);
    }
}

#[test]
fn every_symbol_that_servers_see_has_draws_of_its_own() {
    for_all_schemes(|scheme| assert_uniform(scheme, tiny(2, 3, 1, false), Until::Phases));
}

#[test]
fn any_two_servers_together_see_uniform_symbols_where_the_threshold_is_two() {
    for_all_schemes(|scheme| assert_uniform(scheme, tiny(1, 2, 2, false), Until::Phases));
}

#[test]
fn verified_queries_are_as_private() {
    for_all_schemes(|scheme| assert_uniform(scheme, tiny(1, 2, 1, true), Until::Phases));
}

#[test]
fn record_queries_are_uniform_whatever_is_wanted() {
    // Three and four servers; T = 2 has 65,536 pairs of draws per byte, which spir's own tests
    // play.
    assert_uniform(scheme::named("single-phase").unwrap(), tiny(1, 2, 1, false), Until::Record);
    assert_uniform(scheme::named("two-phase-4").unwrap(), tiny(1, 2, 1, false), Until::Record);
    // Two servers, bits over several bytes. Row 0 holds 0 and all others 1, so that two people want
    // different rows; a third one permits no level at all.
    let world = World::new(scheme::named("gated-tables").unwrap(), tiny(1, 27, 1, false)).unwrap();
    let fixed = |x| SecretQuery::new(vec![x]).immutable(vec![true]);
    for (seed, secret) in (1..).zip([fixed(0), fixed(1), SecretQuery::new(vec![0]).gate_tables(vec![vec![true, true]])])
    {
        assert!(is_uniform(&world, &secret, Until::Record, &world.groups(), seed));
    }
}

#[test]
fn the_proof_notices_noise_that_is_too_little() {
    // T = 1 noise against two servers together.
    let world = World::new(scheme::named("baseline").unwrap(), tiny(1, 2, 1, false)).unwrap();
    assert!(is_uniform(&world, &SecretQuery::new(vec![0]), Until::Record, &world.groups(), 1));
    assert!(!is_uniform(&world, &SecretQuery::new(vec![0]), Until::Phases, &[vec![0, 1]], 1));
}
