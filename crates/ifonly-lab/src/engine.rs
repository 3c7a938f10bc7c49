//! The real protocol in one process: N servers in memory, a client, and the number of bytes between
//! them.
//!
//! Nothing is simplified. The client shares, commits to and packs its queries. Each server checks
//! them, derives its pads from the transcript, and answers. The client decodes. Only the randomness
//! is seeded, so that experiments can be repeated.

use std::time::Duration;

use cpu_time::ThreadTime;

use ifonly_algebra::decode::select_consistent;
use ifonly_algebra::field::{FieldElement, ModulusRule};
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::SeededRandom;
use ifonly_algebra::row_function::Rows;
use ifonly_algebra::share::SlotVectors;
use ifonly_algebra::wire;
use ifonly_core::aont;
use ifonly_core::candidates::Candidates;
use ifonly_core::http_api::{CHECK_LENGTH, Route};
use ifonly_core::memory::MemoryServer;
use ifonly_core::params::Params;
use ifonly_core::phase::PhaseState;
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::{DecodeRule, Scheme};
use ifonly_core::search::{HeaderContext, Search, SearchResult, StepMessages};
use ifonly_core::secret_query::SecretQuery;
use ifonly_core::share_commitment::ShareCommitments;
use ifonly_core::transcript::{Header, Message, MessageKind, SearchRef, messages};

use crate::LabError;
use crate::attack::AttackSearch;

/// All servers of one scheme.
#[derive(Debug)]
pub struct Engine {
    instance: SchemeInstance,
    servers: Vec<MemoryServer>,
    header_context: HeaderContext,
}

/// Bytes of one search, over all servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// All phases, from the client to the servers.
    pub search_up: usize,
    /// All phases, from the servers to the client.
    pub search_down: usize,
    /// The record fetch, from the client to the servers.
    pub record_up: usize,
    /// The record fetch, from the servers to the client.
    pub record_down: usize,
}

/// CPU times of one search, which runs in one thread.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ComputingTimes {
    /// The user: sharing and decoding.
    pub(crate) user: Duration,
    /// All servers, in the phases.
    pub(crate) servers: Duration,
}

impl Engine {
    /// Servers for a scheme and rows. The record of a row is its levels, as [`record_of`] encodes
    /// them.
    pub fn new(scheme: &'static Scheme, params: Params, rows: &[Vec<u16>], seed: u64) -> Result<Engine, LabError> {
        let fault = |reason: String| LabError::Protocol { scheme: scheme.name.into(), reason };
        let rows = Rows::new(&params.max_levels, rows).map_err(|error| fault(error.to_string()))?;
        let instance =
            SchemeInstance::new(scheme, params, ModulusRule::Deployment).map_err(|error| fault(error.to_string()))?;
        // Published results depend on this digest: masks and row orders are derived from it.
        let digest = *blake3::hash(b"the lab's engine needs no manifest").as_bytes();
        let key = RootKey::generate(1, &mut SeededRandom::new(seed));
        let servers: Vec<MemoryServer> = (1..=instance.servers() as u8)
            .map(|index| MemoryServer::with_digest(index, &instance, &key, &rows, digest))
            .collect();
        let header_context =
            servers.first().map(MemoryServer::header_context).ok_or_else(|| fault("there are no servers".into()))?;
        Ok(Engine { instance, servers, header_context })
    }

    /// The scheme instance.
    pub fn instance(&self) -> &SchemeInstance {
        &self.instance
    }

    /// The response of a server, counted from 1, to a message.
    pub(crate) fn respond(&self, server: usize, message: &[u8]) -> Result<Vec<u8>, LabError> {
        let found = self.servers.get(server - 1).ok_or_else(|| self.fault(format!("there is no server {server}")))?;
        found.respond(message).map_err(|refusal| self.fault(refusal.to_string()))
    }

    /// A whole search: all phases and the record fetch.
    pub fn search(&self, secret: SecretQuery, random: &mut SeededRandom) -> Result<(SearchResult, Traffic), LabError> {
        self.timed_search(secret, random).map(|(result, traffic, _)| (result, traffic))
    }

    /// A whole search, with the computing time of its phases.
    pub(crate) fn timed_search(
        &self,
        secret: SecretQuery,
        random: &mut SeededRandom,
    ) -> Result<(SearchResult, Traffic, ComputingTimes), LabError> {
        let (mut traffic, mut times) = (Traffic::default(), ComputingTimes::default());
        let search = Search::new(self.instance.clone(), secret, self.header_context);
        let mut search = search.map_err(|error| self.fault(error.to_string()))?;
        loop {
            // Decodes the answers of the step before.
            let started = ThreadTime::now();
            let Some(StepMessages { route, messages, .. }) = search.next(random) else { break };
            let phases = if route == Route::Answer { 1 } else { 0 };
            times.user += started.elapsed();
            let started = ThreadTime::now();
            let (up, down) = match route {
                Route::Answer => (&mut traffic.search_up, &mut traffic.search_down),
                Route::Record => (&mut traffic.record_up, &mut traffic.record_down),
            };
            let responses: Vec<Option<Vec<u8>>> =
                (1..).zip(&messages).map(|(server, message)| self.respond(server, message).ok()).collect();
            times.servers += started.elapsed() * phases;
            *up += messages.iter().map(|message| message.len()).sum::<usize>();
            *down += responses.iter().flatten().map(Vec::len).sum::<usize>();
            search.receive(responses);
        }
        let outcome = search.finish().map_err(|fault| self.fault(fault.to_string()))?;
        Ok((outcome, traffic, times))
    }

    /// A search of a one-phase scheme that returns every decoded value. An unmodified client has
    /// these values in memory.
    pub fn attack_search(&self, secret: &SecretQuery, random: &mut SeededRandom) -> Result<AttackSearch, LabError> {
        let (instance, field) = (&self.instance, self.instance.field());
        let phase = PhaseState::new(instance, 0, secret, &[], None, random);
        let payloads = phase.shares().iter().map(|share| instance.pack_share(0, share).to_vec()).collect();
        let queries = messages(
            &self.header(MessageKind::Phase(0), instance.responders(0), SearchRef::default()),
            payloads,
            random,
        );
        let (parent, answers) = self.send(&queries)?;
        let elements: Vec<Option<Vec<FieldElement>>> =
            answers.iter().map(|body| instance.unpack_answer(0, body).ok()).collect();
        let decoded = phase.decode(instance, elements, random).map_err(|error| self.fault(error.to_string()))?;
        let candidates = Candidates::read(instance, 0, &decoded, &[], 1);
        let position = candidates.nearest(1).first().map(|&(position, _)| position);
        let record = self.record(position, parent, random)?;
        let difference = matches!(instance.scheme().phases[0].decode_rule, DecodeRule::Difference);
        let value = |&element: &FieldElement| if difference { field.signed(element) } else { element.value() as i64 };
        Ok(AttackSearch { values: decoded.values.iter().map(value).collect(), position: position.unwrap_or(0), record })
    }

    /// The search of a cheating client that shares vectors of its own choice in every phase.
    /// Returns the last output of every position, without the parts that the client knows, and the
    /// record at the first position.
    pub(crate) fn cheat(
        &self,
        vectors: impl Fn(usize) -> Vec<Vec<FieldElement>>,
        random: &mut SeededRandom,
    ) -> Result<(Vec<FieldElement>, Vec<u32>), LabError> {
        let (instance, field) = (&self.instance, self.instance.field());
        let (mut parent, mut values) = (SearchRef::default(), Vec::new());
        let (mut committed, mut commitments) = (Vec::new(), None);
        for (phase, number) in (0..instance.phases()).zip(0..) {
            let shares = instance.share(phase, &SlotVectors::new(vectors(phase)), &committed, random);
            let payloads = shares.iter().map(|share| instance.pack_share(phase, share).to_vec()).collect();
            let responders = instance.responders(phase);
            let mut queries = messages(&self.header(MessageKind::Phase(number), responders, parent), payloads, random);
            if let Some(commitments) = &commitments {
                ShareCommitments::open_in(commitments, &mut queries);
            } else if instance.share_commitments() > 0 {
                committed = instance.committed_shares(&SlotVectors::new(vectors(1)), &shares, random);
                let parts: Vec<Vec<u8>> =
                    committed.iter().map(|part| wire::pack(field, part.iter().flatten())).collect();
                commitments = Some(ShareCommitments::make(&mut queries, &parts, random));
            }
            let (search, bodies) = self.send(&queries)?;
            if phase == 0 {
                parent = search;
            }
            let outputs = instance.outputs(phase);
            // A verified answer has a second copy of every output, which this client ignores.
            let last = outputs / if instance.params().verified { 2 } else { 1 } - 1;
            let mut answers: Vec<Option<Vec<FieldElement>>> = Vec::new();
            for (body, share) in bodies.iter().zip(&shares) {
                let elements = instance.unpack_answer(phase, body).map_err(|error| self.fault(error.to_string()))?;
                let known = instance.program(phase, share).known_part(last);
                answers.push(Some(elements.chunks_exact(outputs).map(|row| field.sub(row[last], known)).collect()));
            }
            if instance.lifted().is_some() {
                // Server 2 answers the negative of its share: half of the difference is the value.
                let half = field.inverse(field.reduce(2)).unwrap_or_default();
                let [Some(first), Some(second)] = &answers[..] else {
                    return Err(self.fault("a server is silent".into()));
                };
                values = first.iter().zip(second).map(|(&a, &b)| field.mul(field.sub(a, b), half)).collect();
                continue;
            }
            let points = &instance.points()[..responders];
            let agreed = select_consistent(field, points, instance.kappa(phase), 0, &answers, random);
            values = agreed.map_err(|error| self.fault(error.to_string()))?.coefficient(field, 0);
        }
        Ok((values, self.record(Some(0), parent, random)?))
    }

    /// Fetches the record at a position in the row order of a search, and returns its levels.
    /// Without a position, it sends a dummy query and returns no levels.
    fn record(
        &self,
        position: Option<usize>,
        parent: SearchRef,
        random: &mut SeededRandom,
    ) -> Result<Vec<u32>, LabError> {
        let instance = &self.instance;
        let fetch = instance.record_fetch(self.header_context.record_length);
        let header = self.header(MessageKind::Record, fetch.responders(), parent);
        let queries = messages(&header, fetch.queries(position, random), random);
        let bodies: Vec<Option<Vec<u8>>> = self.send(&queries)?.1.into_iter().map(Some).collect();
        let (encoded, _) = fetch.decode(&bodies, random).map_err(|error| self.fault(error.to_string()))?;
        let record = position.and_then(|_| aont::decode(&encoded)).unwrap_or_default();
        Ok(record.chunks_exact(2).map(|pair| u32::from(u16::from_le_bytes([pair[0], pair[1]]))).collect())
    }

    /// The header of a message to these servers.
    pub(crate) fn header(&self, kind: MessageKind, responders: usize, parent: SearchRef) -> Header {
        self.header_context.header(&self.instance, kind, responders, parent)
    }

    /// Sends queries. Returns the reference that later messages of the search need, and the
    /// answers.
    fn send(&self, queries: &[Message]) -> Result<(SearchRef, Vec<Vec<u8>>), LabError> {
        let (mut parent, mut answers) = (SearchRef::default(), vec![]);
        for message in queries {
            let response = self.respond(message.server.into(), &message.encode())?;
            let (lead, answer) = response.split_at(message.header.kind.lead().min(response.len()));
            if let Some(Ok(ticket)) = lead.get(CHECK_LENGTH..).map(TryInto::try_into) {
                parent = SearchRef { tau: message.tau(), ticket };
            }
            answers.push(answer.to_vec());
        }
        Ok((parent, answers))
    }

    pub(crate) fn fault(&self, reason: String) -> LabError {
        LabError::Protocol { scheme: self.instance.scheme().name.into(), reason }
    }
}

/// A row as a record: two little-endian bytes per level.
pub fn record_of(row: &[u16]) -> Vec<u8> {
    row.iter().flat_map(|level| level.to_le_bytes()).collect()
}
