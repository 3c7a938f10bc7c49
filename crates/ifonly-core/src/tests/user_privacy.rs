//! User privacy by enumeration on tiny fields, through the code that runs: whole searches against
//! servers in memory, over all random draws of the user. The view of one server (for T = 2: of any
//! two) has the same distribution for every secret query.
//!
//! There are two proofs. If the draws of all phases are few, all of them are enumerated together.
//! For every scheme, each draw is also enumerated with the other draws fixed: it changes one
//! element of the view, which takes every value equally often, and every element has its own draw.
//! So the view is uniform for every query. Commitments, share commitments and blindings are left
//! out: they are perfectly hiding (tests in `transcript.rs`), a parent is a hash of commitments,
//! and a ticket is computed from the parent. Shares to which phase 0 commits are drawn in phase 0
//! and seen in phase 1, so they are among the elements.

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
use crate::spir::RecordFetch;
use crate::transcript::{Message, MessageKind, SearchRef};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Servers whose database has one row of zeros, then rows of ones.
struct World {
    instance: Arc<SchemeInstance>,
    servers: Vec<MemoryServer>,
}

impl World {
    fn new(scheme: &'static Scheme, params: Params) -> Option<World> {
        let rows = (0..params.rows).map(|row| vec![u16::from(row > 0); params.features()]);
        let rows = Rows::new(&params.max_levels, rows.collect::<Vec<_>>()).unwrap();
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

    /// The elements or bytes of a message. A carried share must be one that the server has seen; it
    /// is left out.
    fn elements(&self, message: &Message, seen: &[u64]) -> Vec<u64> {
        let MessageKind::Phase(phase) = message.header.kind else {
            return message.payload.iter().map(|&byte| byte.into()).collect();
        };
        let lengths = self.instance.slot_lengths(phase.into());
        let share = self.instance.unpack_share(phase.into(), &message.payload).unwrap();
        let mut rest = share.iter().flatten().map(|element| element.value());
        let mut fresh = vec![];
        for (slot, &length) in lengths.iter().enumerate() {
            let elements: Vec<u64> = rest.by_ref().take(length).collect();
            let slots = self.instance.scheme().phases[usize::from(phase)].slots;
            if slots.get(slot).is_some_and(|slot| slot.carried) {
                assert!(seen.windows(length).any(|before| before == elements), "a carried share was not seen before");
            } else {
                fresh.extend(elements);
            }
        }
        fresh
    }
}

/// What the servers see of a search.
struct Views {
    /// Paths, lengths and headers, which must be the same in all searches.
    public: String,
    /// All elements of the phases, by server.
    phases: Vec<Vec<u64>>,
    /// The bytes of the record query, by server.
    records: Vec<Vec<u64>>,
}

/// Which part of a search is inspected. Record fetches are the same in all schemes with equally
/// many servers, and take time.
#[derive(Clone, Copy, PartialEq)]
enum Until {
    Phases,
    Record,
}

fn observe(world: &World, secret: &SecretQuery, until: Until, random: &mut impl RandomSource) -> Views {
    let none = vec![vec![]; world.servers.len()];
    let mut views = Views { public: String::new(), phases: none.clone(), records: none };
    let header_context = world.servers[0].header_context();
    let mut search = Search::new(world.instance.clone(), secret.clone(), header_context).unwrap();
    let phases = world.instance.phases();
    for step in 1.. {
        // Stops before the draws of the record query.
        if until == Until::Phases && step > phases {
            return views;
        }
        let Some(outgoing) = search.next(random) else { break };
        let answers = until == Until::Record || step < phases;
        let mut respond = |(server, bytes): (usize, &[u8])| {
            let mut message = Message::decode(bytes).unwrap();
            let elements = world.elements(&message, &views.phases[server]);
            match message.header.kind {
                MessageKind::Phase(_) => views.phases[server].extend(elements),
                MessageKind::Record => views.records[server].extend(elements),
            }
            message.header.parent = SearchRef::default();
            let route = outgoing.route;
            views.public += &format!("{server} {route:?} {} {:?}\n", bytes.len(), message.header);
            answers.then(|| world.servers[server].respond(bytes).unwrap())
        };
        let responses = outgoing.messages.iter().map(|bytes| bytes.as_slice()).enumerate().map(&mut respond).collect();
        search.receive(responses);
    }
    search.finish().unwrap();
    views
}

/// All queries: all x, all I, all weights that the scheme supports, and some tables.
fn all_queries(scheme: &Scheme, params: &Params) -> Vec<SecretQuery> {
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
    let mut queries = vec![];
    for x in digits(2) {
        for immutable in digits(if gated { 2 } else { 1 }) {
            for weights in digits(if weighted { 2 } else { 1 }) {
                let secret = SecretQuery::new(x.iter().map(|&level| level as u32).collect());
                let secret = secret.immutable(immutable.iter().map(|&bit| bit == 1).collect());
                queries.push(secret.weights(weights.iter().map(|weight| weight + 1).collect()));
            }
        }
    }
    if scheme.cost_model == CostModel::Table {
        queries.push(SecretQuery::new(vec![0; d]).cost_tables(vec![vec![2, 1]; d]));
    }
    if scheme.constraint == ConstraintKind::Table {
        queries.push(SecretQuery::new(vec![1; d]).gate_tables(vec![vec![true, true]; d]));
    }
    queries
}

fn tiny(d: usize, rows: usize, threshold: usize, verified: bool) -> Params {
    Params { weight_limit: 2, exponent: 4, cost_limit: 2, threshold, verified, ..Params::new(vec![1; d], rows) }
}

/// Only blindings are 32 bytes long.
const BLINDING: usize = 32;
/// The limit of byte draws. No field element has this limit, because it is not prime.
const BYTE: u64 = 256;

/// Enumerates all numbers; bytes are fixed.
struct EnumeratedNumbers<'a>(&'a mut ExhaustiveRandom, SeededRandom);

impl RandomSource for EnumeratedNumbers<'_> {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.1.fill(bytes);
    }
    fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }
}

/// Draws from a seed, of which some are set. The limit of each draw is recorded.
struct FixedDraws {
    draws: SeededRandom,
    blindings: SeededRandom,
    first: usize,
    set: Vec<u64>,
    limits: Vec<u64>,
}

impl FixedDraws {
    fn new(seed: u64, first: usize, set: Vec<u64>) -> FixedDraws {
        let [draws, blindings] = [seed, seed + 1000].map(SeededRandom::new);
        FixedDraws { draws, blindings, first, set, limits: vec![] }
    }
}

impl RandomSource for FixedDraws {
    fn fill(&mut self, bytes: &mut [u8]) {
        if bytes.len() == BLINDING {
            return self.blindings.fill(bytes);
        }
        bytes.iter_mut().for_each(|byte| *byte = self.below(BYTE) as u8);
    }
    fn below(&mut self, n: u64) -> u64 {
        let index = self.limits.len().checked_sub(self.first);
        self.limits.push(n);
        // Always drawn, so that all other draws stay the same.
        let drawn = self.draws.below(n);
        index.and_then(|index| self.set.get(index)).copied().unwrap_or(drawn)
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
fn the_view_of_one_server_has_the_same_distribution_for_every_query() {
    for_all_schemes(|scheme| {
        let world = World::new(scheme, tiny(1, 1, 1, false)).unwrap();
        let mut same = None;
        // All queries; only some for `two-phase+`, which needs 5^5 searches for each.
        let queries = if scheme.name == "two-phase+" { some_queries } else { all_queries };
        for secret in queries(scheme, world.instance.params()) {
            let mut counts: Vec<BTreeMap<Vec<u64>, u32>> = vec![BTreeMap::new(); world.servers.len()];
            let mut public = BTreeSet::new();
            let mut all = ExhaustiveRandom::default();
            while all.next_run() {
                let views =
                    observe(&world, &secret, Until::Phases, &mut EnumeratedNumbers(&mut all, SeededRandom::new(1)));
                public.insert(views.public);
                for (counts, view) in counts.iter_mut().zip(views.phases) {
                    *counts.entry(view).or_default() += 1;
                }
            }
            let seen = (counts, public);
            let same = same.get_or_insert_with(|| seen.clone());
            assert!(*same == seen, "{}: a server can distinguish two queries", scheme.name);
        }
    });
}

/// Whether every group of T servers sees uniform elements: each element has its own T draws and
/// takes every value equally often.
fn is_uniform(world: &World, secret: &SecretQuery, until: Until, together: &[Vec<usize>], seed: u64) -> bool {
    let mut fixed_draws = FixedDraws::new(seed, 0, vec![]);
    let base = observe(world, secret, until, &mut fixed_draws);
    let (limits, params) = (fixed_draws.limits, world.instance.params());
    let view = |views: &Views, server: usize| -> Vec<u64> {
        views.phases[server].iter().chain(&views.records[server]).copied().collect()
    };
    let phases = base.phases[0].len();
    // Bits of a record query that belong to rows.
    let length = world.servers[0].header_context().record_length;
    let is_binary = RecordFetch::new(params, world.servers.len(), length).is_binary();
    let used_bits = |index: usize| if is_binary { params.rows - 8 * (index - phases) } else { 8 };
    let mut covered: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); world.servers.len()];
    let mut index = 0;
    while let Some(&limit) = limits.get(index) {
        if params.verified && limit + 1 == world.instance.field().q() {
            index += 1; // r, which no server sees; other seeds use another r.
            continue;
        }
        let enumerated: Vec<Views> = values(limit, params.threshold)
            .into_iter()
            .map(|set| observe(world, secret, until, &mut FixedDraws::new(seed, index, set)))
            .collect();
        if enumerated.iter().any(|views| views.public != base.public) {
            return false;
        }
        let mut changed: Vec<Option<usize>> = vec![];
        for (server, covered) in covered.iter_mut().enumerate() {
            let before = view(&base, server);
            let indices: BTreeSet<usize> = enumerated
                .iter()
                .map(|views| view(views, server))
                .flat_map(|view| (0..view.len()).filter(|&i| view[i] != before[i]).collect::<Vec<_>>())
                .collect();
            // A draw changes one element, which no other draw changes.
            if indices.len() > 1 || indices.iter().any(|&index| !covered.insert(index)) {
                return false;
            }
            changed.push(indices.into_iter().next());
        }
        for group in together {
            let observed: Vec<(usize, usize)> = group.iter().filter_map(|&n| Some((n, changed[n]?))).collect();
            let mut counts: BTreeMap<Vec<u64>, u64> = BTreeMap::new();
            for views in &enumerated {
                let elements = observed.iter().map(|&(server, index)| view(views, server)[index]).collect();
                *counts.entry(elements).or_default() += 1;
            }
            let each = |&(_, index): &(usize, usize)| if limit == BYTE { 1 << used_bits(index).min(8) } else { limit };
            let possible = observed.iter().map(each).product::<u64>();
            let times = enumerated.len() as u64 / possible;
            if counts.len() as u64 != possible || counts.values().any(|&count| count != times) {
                return false;
            }
        }
        index += params.threshold;
    }
    (0..world.servers.len()).all(|server| covered[server].len() == view(&base, server).len())
}

/// The first, the middle and the last of all queries.
fn some_queries(scheme: &Scheme, params: &Params) -> Vec<SecretQuery> {
    let queries = all_queries(scheme, params);
    [0, queries.len() / 2, queries.len() - 1].into_iter().map(|index| queries[index].clone()).collect()
}

fn assert_uniform(scheme: &'static Scheme, params: Params, until: Until) {
    let Some(world) = World::new(scheme, params) else { return };
    for (seed, secret) in (1..).zip(some_queries(scheme, world.instance.params())) {
        assert!(is_uniform(&world, &secret, until, &world.groups(), seed), "{}", scheme.name);
    }
}

#[test]
fn every_element_that_servers_see_has_its_own_draws() {
    for_all_schemes(|scheme| assert_uniform(scheme, tiny(2, 3, 1, false), Until::Phases));
}

#[test]
fn any_two_servers_see_uniform_elements_if_the_threshold_is_two() {
    for_all_schemes(|scheme| assert_uniform(scheme, tiny(1, 2, 2, false), Until::Phases));
}

#[test]
fn verified_queries_are_as_private() {
    for_all_schemes(|scheme| assert_uniform(scheme, tiny(1, 2, 1, true), Until::Phases));
}

#[test]
fn record_queries_are_uniform_for_every_wanted_row() {
    // Three and four servers. T = 2 has 65,536 pairs of draws per byte; the tests in `spir.rs`
    // enumerate them.
    assert_uniform(scheme::named("single-phase").unwrap(), tiny(1, 2, 1, false), Until::Record);
    assert_uniform(scheme::named("two-phase-4").unwrap(), tiny(1, 2, 1, false), Until::Record);
    // The first two of three servers, because XOR shares are smaller.
    assert_uniform(scheme::named("single-phase").unwrap(), tiny(1, 9, 1, false), Until::Record);
    // Two servers and a query of several bytes of bits. Row 0 is 0 and all others are 1, so two
    // queries want different rows. A third query permits no level at all.
    let world = World::new(scheme::named("gated-tables").unwrap(), tiny(1, 27, 1, false)).unwrap();
    let fixed = |x| SecretQuery::new(vec![x]).immutable(vec![true]);
    for (seed, secret) in (1..).zip([fixed(0), fixed(1), SecretQuery::new(vec![0]).gate_tables(vec![vec![true, true]])])
    {
        assert!(is_uniform(&world, &secret, Until::Record, &world.groups(), seed));
    }
}

#[test]
fn the_proof_detects_too_little_noise() {
    // The noise for T = 1 does not hide the query from two servers together.
    let world = World::new(scheme::named("baseline").unwrap(), tiny(1, 2, 1, false)).unwrap();
    assert!(is_uniform(&world, &SecretQuery::new(vec![0]), Until::Record, &world.groups(), 1));
    assert!(!is_uniform(&world, &SecretQuery::new(vec![0]), Until::Phases, &[vec![0, 1]], 1));
}
