//! A complete search as a state machine: every phase, then the record fetches, whatever the servers
//! answer.
//!
//! ```text
//! while let Some(StepMessages { route, messages, response_length }) = search.next(&mut random) {
//!     search.receive(/* the responses of the servers */);
//! }
//! let result = search.finish()?;
//! ```
//!
//! What servers see must not depend on what the user learns. So a failed phase, an empty Θ or too
//! few matching rows do not stop the search. The remaining phases and fetches run with dummy
//! queries of the same form, and the error is reported locally at the end.
//!
//! The search does not wait, read a clock or start a thread. No order of calls panics: a response
//! that is missing before the next step counts as silence, unrequested data is ignored, and an
//! unfinished search has no result.

use crate::candidates::{CandidateFilter, Candidates, DecodedCost};
use crate::decode::DecodeError;
pub use crate::error::{RecordRefusal, SearchError};
use crate::http_api::Route;
use crate::interpolate::Interpolator;
use crate::phase::PhaseState;
use crate::random::{OsRandom, RandomSource};
use crate::responses::{ResponseBodies, StepResponses, StreamingDecoder};
use crate::scheme::instance::SchemeInstance;
use crate::secret_query::{SecretQuery, SecretQueryError};
use crate::share::SlotVectors;
use crate::share_commitment::ShareCommitments;
use crate::signature::RecordVerifier;
use crate::spir::RecordFetch;
use crate::transcript::{Header, Message, MessageKind, SearchRef, messages};
use crate::{aont, wire};
use ifonly_algebra::wipe::wipe;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The part of every header that does not depend on the scheme, and how to check records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderContext {
    /// The manifest's digest.
    pub digest: [u8; 32],
    /// The current key epoch.
    pub epoch: u32,
    /// Bytes of a record with its signature.
    pub record_length: usize,
    /// The key that must have signed records; `None` if records are unsigned.
    pub signer: Option<RecordVerifier>,
}

impl HeaderContext {
    /// Decodes an encoded record and checks its signature. The steps are the same whether the
    /// checks succeed or not.
    pub fn open_record(&self, encoded: &[u8]) -> Result<Vec<u8>, RecordRefusal> {
        let (record, complete) = aont::decode_unchecked(encoded).ok_or(RecordRefusal::NotARecord)?;
        let (record, signed) = match &self.signer {
            Some(signer) => signer.split(record).ok_or(RecordRefusal::NotARecord)?,
            None => (record, true),
        };
        match (complete, signed) {
            (true, true) => Ok(record),
            (true, false) => Err(RecordRefusal::Forged),
            (false, _) => Err(RecordRefusal::NotARecord),
        }
    }

    /// The header of messages to the first `responders` servers.
    pub fn header(&self, instance: &SchemeInstance, kind: MessageKind, responders: usize, parent: SearchRef) -> Header {
        Header {
            scheme: instance.scheme().name.into(),
            kind,
            epoch: self.epoch,
            digest: self.digest,
            responders: (1..=responders as u8).collect(),
            parent,
        }
    }
}

/// One of the nearest rows.
#[derive(Clone, PartialEq, Eq)]
pub struct NearestRow {
    /// Its position in the answer, which equals its stored row only without shuffle; `None` if the
    /// scheme does not reveal it.
    pub position: Option<usize>,
    /// Its decoded cost.
    pub cost: DecodedCost,
    /// Its record.
    pub record: Vec<u8>,
}

impl std::fmt::Debug for NearestRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NearestRow(..)")
    }
}

/// What a record fetch returned.
struct FetchedRecord {
    record: Result<Vec<u8>, RecordRefusal>,
    /// Whether all bytes are zero, as honest servers answer a dummy query.
    is_zero: bool,
}

/// The result of a search.
#[derive(Debug)]
pub struct SearchResult {
    /// The nearest rows, nearest first; empty if no row matches.
    pub found: Vec<NearestRow>,
    /// The number of matching rows; `None` if the scheme does not reveal it.
    pub matching_rows: Option<usize>,
    /// Servers that were excluded because of a wrong or malformed answer or another key, counted
    /// from 1.
    pub lying_servers: Vec<usize>,
    /// Whether the servers sent what honest servers could not have sent: values of rows, which were
    /// left out, or a record. A server lied, and another row may be nearer.
    pub is_doubtful: bool,
}

/// A search of any [kind](crate::scheme::kind) in progress.
pub trait SearchSteps: Send {
    /// The messages of the next step; `None` after the last one.
    fn next(&mut self, random: &mut OsRandom) -> Option<StepMessages>;

    /// Takes the next bytes of the response of server `server`, counted from 1.
    fn receive_part(&mut self, server: usize, bytes: &[u8]);

    /// Discards the bytes received from a server in this step.
    fn forget(&mut self, server: usize);

    /// The result, or the reason why there is none.
    fn finish(self: Box<Self>) -> Result<SearchResult, SearchError>;
}

impl SearchSteps for Search {
    fn next(&mut self, random: &mut OsRandom) -> Option<StepMessages> {
        self.next(random)
    }

    fn receive_part(&mut self, server: usize, bytes: &[u8]) {
        self.receive_part(server, bytes);
    }

    fn forget(&mut self, server: usize) {
        self.forget(server);
    }

    fn finish(self: Box<Self>) -> Result<SearchResult, SearchError> {
        (*self).finish()
    }
}

/// The messages of one step.
pub struct StepMessages {
    /// The path of the request.
    pub route: Route,
    /// One message per server, in order: the first is for server 1. Together they determine the
    /// secret, so they are wiped on drop.
    pub messages: Vec<Zeroizing<Vec<u8>>>,
    /// Bytes of every response, including the lead.
    pub response_length: usize,
}

impl std::fmt::Debug for StepMessages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StepMessages({:?} to {} servers, ..)", self.route, self.messages.len())
    }
}

/// A search in progress.
pub struct Search {
    instance: Arc<SchemeInstance>,
    header_context: HeaderContext,
    secret: SecretQuery,
    /// Number of started steps: all phases, then one fetch per wanted record.
    started_steps: usize,
    /// The current step, until its responses are read.
    current: Option<(Step, StepResponses)>,
    phase_states: Vec<PhaseState>,
    theta: Vec<bool>,
    parent: SearchRef,
    share_commitments: Option<ShareCommitments>,
    candidates: Candidates,
    wanted: Vec<Option<(usize, DecodedCost)>>,
    found: Vec<NearestRow>,
    lying_servers: Vec<usize>,
    is_doubtful: bool,
    malformed: Vec<usize>,
    error: Option<SearchError>,
    interpolator: Option<&'static dyn Interpolator>,
    work: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Phase(usize),
    /// The rank of the record, from 0.
    Record(usize),
}

impl Step {
    fn kind(self) -> MessageKind {
        match self {
            Step::Phase(phase) => MessageKind::Phase(phase as u8),
            Step::Record(_) => MessageKind::Record,
        }
    }
}

// Θ, the wanted rows and costs are as secret as x, so they are not printed.
impl std::fmt::Debug for Search {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Search({}, step {}, ..)", self.instance.scheme().name, self.started_steps)
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        wipe(&mut self.theta);
        self.wanted.iter_mut().for_each(|wanted| *wanted = None);
    }
}

impl Search {
    /// Starts a search for the nearest row. It is an error if the scheme does not support the
    /// query.
    pub fn new(
        instance: impl Into<Arc<SchemeInstance>>,
        secret: SecretQuery,
        header_context: HeaderContext,
    ) -> Result<Search, SecretQueryError> {
        Search::nearest(instance, secret, header_context, 1)
    }

    /// Starts a search for the `k` nearest rows. k is public: it is the number of fetched records.
    pub fn nearest(
        instance: impl Into<Arc<SchemeInstance>>,
        secret: SecretQuery,
        header_context: HeaderContext,
        k: usize,
    ) -> Result<Search, SecretQueryError> {
        let instance = instance.into();
        secret.check(instance.scheme(), instance.params())?;
        Ok(Search {
            theta: vec![false; instance.params().rows],
            instance,
            header_context,
            secret,
            started_steps: 0,
            current: None,
            phase_states: vec![],
            parent: SearchRef::default(),
            share_commitments: None,
            candidates: Candidates::default(),
            wanted: vec![None; k.max(1)],
            found: vec![],
            lying_servers: vec![],
            is_doubtful: false,
            malformed: vec![],
            error: None,
            interpolator: None,
            work: 0,
        })
    }

    /// Uses a faster interpolator where nothing has to be corrected.
    pub fn interpolated_by(mut self, interpolator: &'static dyn Interpolator) -> Search {
        self.interpolator = Some(interpolator);
        self
    }

    /// Runs the complete search. `send` gets a server index (from 1) and a message, and returns the
    /// response or `None`.
    pub fn run(
        mut self,
        random: &mut impl RandomSource,
        mut send: impl FnMut(usize, &[u8]) -> Option<Vec<u8>>,
    ) -> Result<SearchResult, SearchError> {
        while let Some(StepMessages { messages, .. }) = self.next(random) {
            let responses = (1..).zip(&messages).map(|(server, message)| send(server, message)).collect();
            self.receive(responses);
        }
        self.finish()
    }

    /// Reads the responses to the previous step and returns the messages of the next one; `None`
    /// after the last step. Every search takes all steps.
    pub fn next(&mut self, random: &mut impl RandomSource) -> Option<StepMessages> {
        if let Some((step, responses)) = self.current.take() {
            self.read(step, responses, random);
        }
        let phases = self.instance.phases();
        let (step, outgoing) = match self.started_steps.checked_sub(phases) {
            None => (Step::Phase(self.started_steps), self.phase_messages(self.started_steps, random)),
            Some(number) if number < self.wanted.len() => (Step::Record(number), self.record_messages(number, random)),
            Some(_) => return None,
        };
        let (decoder, lead) = (self.decoder(step), step.kind().lead());
        self.current =
            Some((step, StepResponses::new(outgoing.messages.len(), outgoing.response_length, lead, decoder)));
        self.started_steps += 1;
        Some(outgoing)
    }

    /// Takes complete responses, one entry per message in order; `None` is silence.
    pub fn receive(&mut self, responses: Vec<Option<Vec<u8>>>) {
        let Some((_, received)) = &mut self.current else { return };
        for (server, response) in (1..).zip(responses) {
            if let Some(response) = response {
                received.complete(server, response);
            }
        }
        received.advance();
    }

    /// Takes the next bytes of the response of a server (counted from 1) and decodes what is
    /// complete.
    pub fn receive_part(&mut self, server: usize, bytes: &[u8]) {
        let Some((_, responses)) = &mut self.current else { return };
        responses.part(server, bytes);
        responses.advance();
    }

    /// Discards the bytes of a server in this step, because they were damaged or incomplete. The
    /// response may be received again from its beginning; otherwise it counts as silence.
    pub fn forget(&mut self, server: usize) {
        let decoder = self.current.as_ref().and_then(|(step, _)| self.decoder(*step));
        if let Some((_, responses)) = &mut self.current {
            responses.forget(server, decoder);
        }
    }

    /// Work done so far: values read and compared, and bytes of records decoded. It depends only on
    /// public sizes and on which servers answered, never on decoded values. `tests/work.rs` checks
    /// this for many queries, results and lies.
    pub fn work(&self) -> u64 {
        self.work
    }

    /// The result, or the first error. It is available after [`Search::next`] has returned `None`.
    pub fn finish(mut self) -> Result<SearchResult, SearchError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if self.current.is_some() || self.started_steps < self.instance.phases() + self.wanted.len() {
            return Err(SearchError::Unfinished);
        }
        let mut lying_servers = std::mem::take(&mut self.lying_servers);
        lying_servers.sort_unstable();
        lying_servers.dedup();
        Ok(SearchResult {
            found: std::mem::take(&mut self.found),
            matching_rows: Some(self.candidates.count()),
            lying_servers,
            is_doubtful: self.is_doubtful,
        })
    }

    fn phase_messages(&mut self, phase: usize, random: &mut impl RandomSource) -> StepMessages {
        let instance = &self.instance;
        let state = PhaseState::new(instance, phase, &self.secret, &self.theta, self.phase_states.last(), random);
        let field = instance.field();
        let payloads = state.shares().iter().map(|share| std::mem::take(&mut *instance.pack_share(phase, share)));
        let payloads = payloads.collect();
        let kind = MessageKind::Phase(phase as u8);
        let header = self.header(kind, instance.responders(phase));
        let mut sent = messages(&header, payloads, random);
        if phase == 0 {
            let packed = |part: &SlotVectors| Zeroizing::new(wire::pack(field, part.iter().flatten()));
            let parts: Vec<_> = state.committed().iter().map(packed).collect();
            self.share_commitments = (!parts.is_empty()).then(|| ShareCommitments::make(&mut sent, &parts, random));
            self.parent.tau = sent.first().expect("every phase has responders").tau();
        } else if let Some(share_commitments) = &self.share_commitments {
            share_commitments.open_in(&mut sent);
        }
        self.phase_states.push(state);
        self.step_messages(kind, &sent)
    }

    /// The messages that fetch the record of rank `number`, or a dummy query of the same form.
    fn record_messages(&mut self, number: usize, random: &mut impl RandomSource) -> StepMessages {
        let position = self.wanted[number].map(|(position, _)| position);
        let sizes = self.sizes();
        let payloads = sizes.queries(position, random);
        let sent = messages(&self.header(MessageKind::Record, sizes.responders()), payloads, random);
        self.step_messages(MessageKind::Record, &sent)
    }

    fn read(&mut self, step: Step, responses: StepResponses, random: &mut impl RandomSource) {
        match step {
            Step::Phase(phase) => self.read_phase(phase, responses, random),
            Step::Record(number) => self.read_record(number, &responses, random),
        }
    }

    fn read_phase(&mut self, phase: usize, responses: StepResponses, random: &mut impl RandomSource) {
        if phase == 0 {
            // This also happens if decoding fails, so that later messages depend only on what the
            // servers sent.
            self.parent.ticket = responses.ticket().unwrap_or_default();
        }
        let candidates = self.candidates_of(phase, responses, random);
        wipe(&mut self.theta);
        self.theta.clear();
        match candidates {
            Ok(mut candidates) => {
                self.work += candidates.work();
                self.is_doubtful |= candidates.has_impossible();
                self.theta = candidates.take_theta();
                self.candidates = candidates;
            }
            Err(error) => {
                self.error.get_or_insert(error);
                self.theta = vec![false; self.instance.params().rows];
                self.candidates = Candidates::default();
            }
        }
        if phase + 1 == self.instance.phases() {
            let nearest = self.candidates.nearest(self.wanted.len());
            self.wanted.iter_mut().zip(nearest).for_each(|(wanted, near)| *wanted = Some(near));
        }
    }

    fn candidates_of(
        &mut self,
        phase: usize,
        mut responses: StepResponses,
        random: &mut impl RandomSource,
    ) -> Result<Candidates, SearchError> {
        let instance = self.instance.clone();
        let decoder = responses.take_decoder();
        let bodies = self.bodies(&responses)?;
        if let Some(candidates) = self.decode_interpolated(phase, decoder, &bodies) {
            return Ok(candidates);
        }
        let answers = self.parse(&bodies, |body| instance.unpack_answer(phase, body).ok());
        let values = self.phase_states[phase].decode(&instance, answers, random);
        let values = values.map_err(|error| self.blame(error.into()))?;
        self.lying_servers.extend(&values.lying_servers);
        let mut filter = CandidateFilter::new(&instance, phase, &self.theta, values.reference(), self.wanted.len());
        filter.take_values(&values);
        Ok(filter.finish())
    }

    /// Decodes the common case without copying the answers. `None` if it does not apply or an
    /// answer is malformed; the general case then finds the server at fault.
    fn decode_interpolated(
        &self,
        phase: usize,
        decoder: Option<StreamingDecoder>,
        bodies: &ResponseBodies<'_>,
    ) -> Option<Candidates> {
        let answered: Vec<usize> = (0..bodies.len()).filter(|&server| bodies[server].is_some()).collect();
        let answers: Vec<&[u8]> = bodies.iter().copied().flatten().collect();
        if !answers.iter().all(|answer| self.instance.has_answer_shape(phase, answer)) {
            return None;
        }
        // A streaming decoder uses the answers of all responders, so it is valid only if all
        // answered.
        let decoder = if answered.len() == bodies.len() { decoder } else { None };
        let mut decoder = decoder.or_else(|| self.streaming_decoder(phase, &answered))?;
        decoder.advance(&answers);
        decoder.finish()
    }

    /// The streaming decoder of a step. It exists only if every answer is needed, because spare
    /// answers allow correction.
    fn decoder(&self, step: Step) -> Option<StreamingDecoder> {
        match step {
            Step::Phase(phase) => {
                self.streaming_decoder(phase, &(0..self.instance.responders(phase)).collect::<Vec<_>>())
            }
            Step::Record(_) => None,
        }
    }

    fn streaming_decoder(&self, phase: usize, servers: &[usize]) -> Option<StreamingDecoder> {
        if self.instance.lifted().is_some() {
            let plan = self.phase_states.get(phase)?.lifted_plan(&self.instance, self.wanted.len())?;
            let decoder = self.interpolator?.begin_lifted(&plan).filter(|_| servers.len() == 2)?;
            return Some(StreamingDecoder::lifted(decoder));
        }
        let (interpolation, reference) = self.phase_states.get(phase)?.interpolation(&self.instance, servers)?;
        let rows = self.instance.answer_length(phase) / interpolation.constants.len();
        let filter = CandidateFilter::new(&self.instance, phase, &self.theta, reference, self.wanted.len());
        Some(StreamingDecoder::new(self.interpolator?.begin(interpolation, rows), filter))
    }

    fn read_record(&mut self, number: usize, responses: &StepResponses, random: &mut impl RandomSource) {
        match (self.decode_record(responses, random), self.wanted[number]) {
            (Ok(FetchedRecord { record: Ok(record), .. }), Some((position, cost))) => {
                self.found.push(NearestRow { position: Some(position), cost, record });
            }
            (Ok(_), Some(_)) => self.is_doubtful = true,
            // A fault has the same outcome for a dummy query: it must not tell whether a row
            // matches.
            (Ok(fetched), None) => self.is_doubtful |= !fetched.is_zero,
            (Err(error), _) => {
                self.error.get_or_insert(error);
            }
        }
    }

    fn decode_record(
        &mut self,
        responses: &StepResponses,
        random: &mut impl RandomSource,
    ) -> Result<FetchedRecord, SearchError> {
        let bodies = self.bodies(responses)?;
        let need = self.sizes().stripe_length();
        let answers = self.parse(&bodies, |body| (body.len() == need).then(|| body.to_vec()));
        let decoded = self.sizes().decode(&answers, random);
        let (encoded, lying_servers) = decoded.map_err(|error| self.blame(error.into()))?;
        self.lying_servers.extend(lying_servers);
        self.work += encoded.len() as u64;
        let is_zero = encoded.iter().fold(0, |all, byte| all | byte) == 0;
        Ok(FetchedRecord { record: self.header_context.open_record(&encoded), is_zero })
    }

    /// Parses all answers. A malformed answer counts as missing, and its server as lying.
    fn parse<T>(&mut self, bodies: &ResponseBodies<'_>, parse: impl Fn(&[u8]) -> Option<T>) -> Vec<Option<T>> {
        let parsed: Vec<Option<T>> = bodies.iter().map(|body| parse((*body)?)).collect();
        self.malformed = (1..)
            .zip(bodies.iter().zip(&parsed))
            .filter(|(_, (body, parsed))| body.is_some() && parsed.is_none())
            .map(|(server, _)| server)
            .collect();
        self.lying_servers.extend(&self.malformed);
        parsed
    }

    /// Names the malformed answers if they are the reason that too few remain.
    fn blame(&self, error: SearchError) -> SearchError {
        match error {
            SearchError::Decode(DecodeError::TooFewAnswers { .. }) if !self.malformed.is_empty() => {
                SearchError::Malformed { servers: self.malformed.clone() }
            }
            other => other,
        }
    }

    fn bodies<'r>(&mut self, responses: &'r StepResponses) -> Result<ResponseBodies<'r>, SearchError> {
        let params = self.instance.params();
        let (bodies, outvoted) = responses.bodies(params.silent + params.lying)?;
        self.lying_servers.extend(outvoted);
        Ok(bodies)
    }

    fn sizes(&self) -> RecordFetch {
        self.instance.record_fetch(self.header_context.record_length)
    }

    fn header(&self, kind: MessageKind, responders: usize) -> Header {
        self.header_context.header(&self.instance, kind, responders, self.parent)
    }

    fn step_messages(&self, kind: MessageKind, messages: &[Message]) -> StepMessages {
        let messages = messages.iter().map(|message| Zeroizing::new(message.encode())).collect();
        let response_length = self.instance.response_length(kind, self.header_context.record_length);
        StepMessages { route: kind.route(), messages, response_length }
    }
}
