//! The real protocol in one process: N replicas, a client, and every byte between them counted.
//!
//! Nothing is simplified: queries are shared, committed to and packed; each replica checks them,
//! derives its pads from the transcript and answers; the client decodes. Only the randomness is
//! seeded, so that experiments repeat.

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
use ifonly_core::params::Params;
use ifonly_core::phase::PhaseState;
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::{DecodeRule, Scheme};
use ifonly_core::search::{HeaderContext, Search, SearchResult, StepMessages};
use ifonly_core::secret_query::SecretQuery;
use ifonly_core::server_protocol::ServerProtocol;
use ifonly_core::share_commitment::ShareCommitments;
use ifonly_core::transcript::{Header, Message, MessageKind, SearchRef, messages};

use crate::LabError;
use crate::attack::AttackSearch;

/// A deployment with its servers.
#[derive(Debug)]
pub struct Engine {
    instance: SchemeInstance,
    rows: Rows,
    sealed: Vec<Vec<u8>>,
    protocols: Vec<ServerProtocol>,
    header_context: HeaderContext,
}

/// Bytes of one query, over all servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The search, from the user.
    pub search_up: usize,
    /// The search, to the user.
    pub search_down: usize,
    /// The record fetch, from the user.
    pub record_up: usize,
    /// The record fetch, to the user.
    pub record_down: usize,
}

impl Engine {
    /// Servers for a scheme, rows and records (all of one length).
    pub fn new(
        scheme: &'static Scheme,
        params: Params,
        rows: &[Vec<u16>],
        records: &[Vec<u8>],
        seed: u64,
    ) -> Result<Engine, LabError> {
        let fault = |reason: String| LabError::Protocol { scheme: scheme.name.into(), reason };
        let rows = Rows::new(&params.ranges, rows).map_err(|error| fault(error.to_string()))?;
        let instance =
            SchemeInstance::new(scheme, params, ModulusRule::Deployment).map_err(|error| fault(error.to_string()))?;
        let digest = *blake3::hash(b"the lab's engine needs no manifest").as_bytes();
        let key = RootKey::generate(1, &mut SeededRandom::new(seed));
        let record_length = records.first().map_or(0, Vec::len);
        let protocol =
            |index| ServerProtocol::new(index, digest, vec![instance.clone()], vec![key.clone()], record_length);
        let protocols: Vec<ServerProtocol> = (1..=instance.servers() as u8).map(protocol).collect();
        let sealed = match protocols.first() {
            Some(protocol) => protocol.encode_records(&key, records.iter().map(Vec::as_slice)),
            None => Vec::new(),
        };
        Ok(Engine {
            instance,
            rows,
            sealed,
            protocols,
            header_context: HeaderContext { digest, epoch: 1, record_length, signer: None },
        })
    }

    /// The scheme under its parameters.
    pub fn instance(&self) -> &SchemeInstance {
        &self.instance
    }

    /// Server 1, to be attacked.
    pub(crate) fn respond(&self, server: usize, bytes: &[u8]) -> Result<Vec<u8>, LabError> {
        let protocol =
            self.protocols.get(server - 1).ok_or_else(|| self.fault(format!("there is no server {server}")))?;
        protocol.respond(bytes, &self.rows, &self.sealed).map_err(|refusal| self.fault(refusal.to_string()))
    }

    /// A whole search: all phases and the record.
    pub fn search(&self, secret: SecretQuery, random: &mut SeededRandom) -> Result<(SearchResult, Traffic), LabError> {
        let mut traffic = Traffic::default();
        let search = Search::new(self.instance.clone(), secret, self.header_context);
        let mut search = search.map_err(|error| self.fault(error.to_string()))?;
        while let Some(StepMessages { route, messages, .. }) = search.next(random) {
            let (up, down) = match route {
                Route::Answer => (&mut traffic.search_up, &mut traffic.search_down),
                Route::Record => (&mut traffic.record_up, &mut traffic.record_down),
            };
            let responses: Vec<Option<Vec<u8>>> =
                (1..).zip(&messages).map(|(server, message)| self.respond(server, message).ok()).collect();
            *up += messages.iter().map(|message| message.len()).sum::<usize>();
            *down += responses.iter().flatten().map(Vec::len).sum::<usize>();
            search.receive(responses);
        }
        let outcome = search.finish().map_err(|fault| self.fault(fault.to_string()))?;
        Ok((outcome, traffic))
    }

    /// A search of a one-phase scheme that keeps every decoded value: what an honest client holds
    /// in memory.
    pub fn session(&self, secret: &SecretQuery, random: &mut SeededRandom) -> Result<AttackSearch, LabError> {
        let (instance, field) = (&self.instance, self.instance.field());
        let round = PhaseState::new(instance, 0, secret, &[], None, random);
        let payloads = round.shares().iter().map(|share| wire::pack(field, share.iter().flatten())).collect();
        let queries = messages(
            &self.header(MessageKind::Phase(0), instance.responders(0), SearchRef::default()),
            payloads,
            random,
        );
        let (parent, answers) = self.ask(&queries)?;
        let elements: Vec<Option<Vec<FieldElement>>> =
            answers.iter().map(|body| wire::unpack(field, body, instance.answer_length(0)).ok()).collect();
        let decoded = round.decode(instance, elements, random).map_err(|error| self.fault(error.to_string()))?;
        let candidates =
            Candidates::read(instance, 0, &decoded, &[], 1).map_err(|error| self.fault(error.to_string()))?;
        let place = candidates.nearest(1).first().map(|&(place, _)| place);
        let record = self.record(place, parent, random)?;
        let difference = matches!(instance.scheme().phases[0].decode_rule, DecodeRule::Difference);
        let value = |&element: &FieldElement| if difference { field.signed(element) } else { element.value() as i64 };
        Ok(AttackSearch { values: decoded.values.iter().map(value).collect(), place: place.unwrap_or(0), record })
    }

    /// What a client decodes that shares vectors of its own for every phase: the last output of
    /// every position, without the parts that it knows, and the record at the first position.
    pub(crate) fn cheat(
        &self,
        vectors: impl Fn(usize) -> Vec<Vec<FieldElement>>,
        random: &mut SeededRandom,
    ) -> Result<(Vec<FieldElement>, Vec<u32>), LabError> {
        let (instance, field) = (&self.instance, self.instance.field());
        let (mut parent, mut promised, mut promises, mut values) = (SearchRef::default(), Vec::new(), None, Vec::new());
        for (phase, number) in (0..instance.phases()).zip(0..) {
            let shares = instance.share(phase, &SlotVectors::new(vectors(phase)), &promised, random);
            let payloads = shares.iter().map(|share| wire::pack(field, share.iter().flatten())).collect();
            let responders = instance.responders(phase);
            let mut queries = messages(&self.header(MessageKind::Phase(number), responders, parent), payloads, random);
            if let Some(promises) = &promises {
                ShareCommitments::open_in(promises, &mut queries);
            } else if instance.share_commitments() > 0 {
                promised = instance.committed_shares(&SlotVectors::new(vectors(1)), &shares, random);
                let parts: Vec<Vec<u8>> =
                    promised.iter().map(|part| wire::pack(field, part.iter().flatten())).collect();
                promises = Some(ShareCommitments::make(&mut queries, &parts, random));
            }
            let (search, bodies) = self.ask(&queries)?;
            if phase == 0 {
                parent = search;
            }
            let outputs = instance.outputs(phase);
            // A verified answer is followed by its double, which this client has no use for.
            let last = outputs / if instance.params().verified { 2 } else { 1 } - 1;
            let mut answers = Vec::new();
            for (body, share) in bodies.iter().zip(&shares) {
                let elements = wire::unpack(field, body, instance.answer_length(phase))
                    .map_err(|error| self.fault(error.to_string()))?;
                let known = instance.program(phase, share).known_part(last);
                answers.push(Some(elements.chunks_exact(outputs).map(|row| field.sub(row[last], known)).collect()));
            }
            let points = &instance.points()[..responders];
            let agreed = select_consistent(field, points, instance.kappa(phase), 0, &answers, random);
            values = agreed.map_err(|error| self.fault(error.to_string()))?.coefficient(field, 0);
        }
        Ok((values, self.record(Some(0), parent, random)?))
    }

    /// The levels of the record at a place in the order of a search; none without a place.
    fn record(&self, place: Option<usize>, parent: SearchRef, random: &mut SeededRandom) -> Result<Vec<u32>, LabError> {
        let instance = &self.instance;
        let fetch = self.protocols[0].fetch(instance);
        let header = self.header(MessageKind::Record, instance.servers(), parent);
        let queries = messages(&header, fetch.queries(place, random), random);
        let bodies: Vec<Option<Vec<u8>>> = self.ask(&queries)?.1.into_iter().map(Some).collect();
        let (sealed, _) = fetch.decode(&bodies, random).map_err(|error| self.fault(error.to_string()))?;
        let record = place.and_then(|_| aont::decode(&sealed)).unwrap_or_default();
        Ok(record.chunks_exact(2).map(|pair| u32::from(u16::from_le_bytes([pair[0], pair[1]]))).collect())
    }

    /// The header of a message under this deployment.
    pub(crate) fn header(&self, stage: MessageKind, responders: usize, parent: SearchRef) -> Header {
        self.header_context.header(&self.instance, stage, responders, parent)
    }

    /// What later messages of a search show that begins with these queries, and the answers.
    fn ask(&self, queries: &[Message]) -> Result<(SearchRef, Vec<Vec<u8>>), LabError> {
        let (mut parent, mut answers) = (SearchRef::default(), vec![]);
        for message in queries {
            let response = self.respond(message.server.into(), &message.encode())?;
            let (lead, answer) = response.split_at(message.header.stage.lead().min(response.len()));
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

/// A row as the lab's records store it: two bytes a level.
pub fn record_of(row: &[u16]) -> Vec<u8> {
    row.iter().flat_map(|level| level.to_le_bytes()).collect()
}
