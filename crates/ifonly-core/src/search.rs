//! A user's whole search as one machine: every phase, then the records, whatever turns up.
//!
//! ```text
//! while let Some(Outgoing { route, messages, response_length }) = search.next(&mut random) {
//!     search.receive(/* what the servers answered to the messages */);
//! }
//! let outcome = search.finish()?;
//! ```
//!
//! What servers see must not depend on what the user learns. So a phase that fails, an empty Θ, or
//! fewer qualifying rows than wanted never stop the search: the remaining phases and fetches run
//! with dummies of the same shape, and the fault is reported at the end, locally.
//!
//! Nothing here waits, reads a clock or starts a thread, and no order of calls panics: what was not
//! received before the next step is silence, what nobody asked for is ignored, and a search that
//! was not led to its end has no outcome.

use crate::candidates::{CandidateFilter, Candidates, DecodedCost, ImpossibleValue};
use crate::decode::DecodeError;
pub use crate::error::SearchError;
use crate::field::FieldElement;
use crate::http_api::Route;
use crate::interpolate::Interpolator;
use crate::params::Params;
use crate::phase::PhaseState;
use crate::random::RandomSource;
use crate::responses::{ResponseBodies, StepResponses, StreamingDecoder};
use crate::scheme::Scheme;
use crate::scheme::instance::SchemeInstance;
use crate::secret_query::{SecretQuery, SecretQueryError};
use crate::share::SlotVectors;
use crate::share_commitment::ShareCommitments;
use crate::signature::RecordVerifier;
use crate::spir::RecordFetch;
use crate::transcript::{Header, Message, MessageKind, SearchRef, messages};
use crate::{aont, wire};
use std::sync::Arc;
use zeroize::{Zeroize, Zeroizing};

/// Whom the user asks: what goes into every header beside the scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderContext {
    /// The manifest's digest.
    pub digest: [u8; 32],
    /// The current key epoch.
    pub epoch: u32,
    /// Bytes of a record, its signature included.
    pub record_length: usize,
    /// Who must have signed it; `None` where nobody signs.
    pub signer: Option<RecordVerifier>,
}

impl HeaderContext {
    /// The record in a sealed one, if it is whole and the institution's; by the same steps whether
    /// it is or not.
    pub fn open_record(&self, sealed: &[u8]) -> Result<Vec<u8>, SearchError> {
        let (record, whole) = aont::unmask(sealed).ok_or(SearchError::NotARecord)?;
        let (record, signed) = match &self.signer {
            Some(signer) => signer.open(record).ok_or(SearchError::NotARecord)?,
            None => (record, true),
        };
        match (whole, signed) {
            (true, true) => Ok(record),
            (true, false) => Err(SearchError::Forged),
            (false, _) => Err(SearchError::NotARecord),
        }
    }

    /// The header of a stage that asks the first `responders` servers.
    pub fn header(
        &self,
        instance: &SchemeInstance,
        stage: MessageKind,
        responders: usize,
        parent: SearchRef,
    ) -> Header {
        Header {
            scheme: instance.scheme().name.into(),
            stage,
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
    /// Its position in the answer, which is its stored row only without shuffle; `None` where the
    /// scheme does not tell.
    pub position: Option<usize>,
    /// What the scheme says about its cost.
    pub price: DecodedCost,
    /// Its record.
    pub record: Vec<u8>,
}

impl std::fmt::Debug for NearestRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Found(..)")
    }
}

/// The end of a search.
#[derive(Debug)]
pub struct SearchResult {
    /// Nearest first; empty when no row qualifies.
    pub found: Vec<NearestRow>,
    /// How many rows qualify; `None` where the scheme does not tell.
    pub matching_rows: Option<usize>,
    /// Who lied, answered rubbish or under another key, and was left out; counted from 1.
    pub lying_servers: Vec<usize>,
}

/// What goes to the servers in one step.
pub struct StepMessages {
    /// Where.
    pub route: Route,
    /// One for each of the first servers, in their order: the first is for server 1. Together they
    /// hold the secret, so they are wiped on drop.
    pub messages: Vec<Zeroizing<Vec<u8>>>,
    /// Bytes of every response, the key-check value included.
    pub response_length: usize,
}

impl std::fmt::Debug for StepMessages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Outgoing({:?} to {} servers, ..)", self.route, self.messages.len())
    }
}

/// A search in progress.
pub struct Search {
    instance: Arc<SchemeInstance>,
    header_context: HeaderContext,
    secret: SecretQuery,
    /// Steps begun: all phases, then as many records as are wanted.
    begun: usize,
    /// The last of them, until its responses are read.
    open: Option<(Step, StepResponses)>,
    rounds: Vec<PhaseState>,
    theta: Vec<bool>,
    parent: SearchRef,
    promises: Option<ShareCommitments>,
    candidates: Candidates,
    wanted: Vec<Option<(usize, DecodedCost)>>,
    found: Vec<NearestRow>,
    lying_servers: Vec<usize>,
    malformed: Vec<usize>,
    fault: Option<SearchError>,
    interpolate: Option<&'static dyn Interpolator>,
    work: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Phase(usize),
    /// The place among the nearest.
    Record(usize),
}

impl Step {
    fn stage(self) -> MessageKind {
        match self {
            Step::Phase(phase) => MessageKind::Phase(phase as u8),
            Step::Record(_) => MessageKind::Record,
        }
    }
}

// Θ, θ* and costs are as secret as x.
impl std::fmt::Debug for Search {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Search({}, step {}, ..)", self.instance.scheme().name, self.begun)
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        self.theta.zeroize();
        self.wanted.iter_mut().for_each(|wanted| *wanted = None);
    }
}

impl Search {
    /// Starts a search for the nearest row. Nothing is sent if the scheme cannot carry the secret.
    pub fn new(
        instance: impl Into<Arc<SchemeInstance>>,
        secret: SecretQuery,
        header_context: HeaderContext,
    ) -> Result<Search, SecretQueryError> {
        Search::nearest(instance, secret, header_context, 1)
    }

    /// Starts a search for the `k` nearest rows; k is public and decides how many records are
    /// fetched.
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
            begun: 0,
            open: None,
            rounds: vec![],
            parent: SearchRef::default(),
            promises: None,
            candidates: Candidates::default(),
            wanted: vec![None; k.max(1)],
            found: vec![],
            lying_servers: vec![],
            malformed: vec![],
            fault: None,
            interpolate: None,
            work: 0,
        })
    }

    /// The same search, with somebody who decodes faster where there is nothing to correct.
    pub fn interpolated_by(mut self, interpolate: &'static dyn Interpolator) -> Search {
        self.interpolate = Some(interpolate);
        self
    }

    /// The whole search with `send`, which takes a server (counted from 1) and its message and
    /// gives its response, or `None` if there is none.
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

    /// Reads the responses to the step before and gives the next step's messages; `None` when all
    /// steps are done. Every step is taken in every search.
    pub fn next(&mut self, random: &mut impl RandomSource) -> Option<StepMessages> {
        if let Some((step, reception)) = self.open.take() {
            self.read(step, reception, random);
        }
        let phases = self.instance.phases();
        let (step, outgoing) = match self.begun.checked_sub(phases) {
            None => (Step::Phase(self.begun), self.ask(self.begun, random)),
            Some(number) if number < self.wanted.len() => (Step::Record(number), self.fetch(number, random)),
            Some(_) => return None,
        };
        let (live, lead) = (self.live(step), step.stage().lead());
        self.open = Some((step, StepResponses::new(outgoing.messages.len(), outgoing.response_length, lead, live)));
        self.begun += 1;
        Some(outgoing)
    }

    /// Takes whole responses, one entry per message and in their order; `None` is silence.
    pub fn receive(&mut self, responses: Vec<Option<Vec<u8>>>) {
        let Some((_, reception)) = &mut self.open else { return };
        for (server, response) in (1..).zip(responses) {
            if let Some(response) = response {
                reception.whole(server, response);
            }
        }
        reception.advance();
    }

    /// Takes the next bytes of a server's response, counted from 1, and decodes what is complete by
    /// now.
    pub fn receive_part(&mut self, server: usize, bytes: &[u8]) {
        let Some((_, reception)) = &mut self.open else { return };
        reception.part(server, bytes);
        reception.advance();
    }

    /// Takes back what came from a server in this step, because it was damaged or broke off. It may
    /// be received again, from its beginning; otherwise it counts as silence.
    pub fn forget(&mut self, server: usize) {
        let live = self.open.as_ref().and_then(|(step, _)| self.live(*step));
        if let Some((_, reception)) = &mut self.open {
            reception.forget(server, live);
        }
    }

    /// Values read and compared, and bytes of records opened, until now. Public sizes decide it,
    /// and whose answers came: never what they decode to. A test holds that against people, lies
    /// and results of every kind.
    pub fn work(&self) -> u64 {
        self.work
    }

    /// The end: what was found, or the first fault. It comes after [`Search::next`] has given
    /// `None`.
    pub fn finish(mut self) -> Result<SearchResult, SearchError> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        if self.open.is_some() || self.begun < self.instance.phases() + self.wanted.len() {
            return Err(SearchError::Unfinished);
        }
        let mut lying_servers = std::mem::take(&mut self.lying_servers);
        lying_servers.sort_unstable();
        lying_servers.dedup();
        Ok(SearchResult {
            found: std::mem::take(&mut self.found),
            matching_rows: Some(self.candidates.count()),
            lying_servers,
        })
    }

    /// The messages of a phase.
    fn ask(&mut self, phase: usize, random: &mut impl RandomSource) -> StepMessages {
        let instance = &self.instance;
        let round = PhaseState::new(instance, phase, &self.secret, &self.theta, self.rounds.last(), random);
        let field = instance.field();
        let packed = |share: &SlotVectors| {
            let elements: Zeroizing<Vec<FieldElement>> = Zeroizing::new(share.iter().flatten().copied().collect());
            wire::pack(field, elements.iter())
        };
        let payloads = round.shares().iter().map(packed).collect();
        let stage = MessageKind::Phase(phase as u8);
        // Parameters were checked, so the length fits; a length of 0 would merely be refused.
        let response_length =
            wire::packed_length(field, instance.answer_length(phase)).map_or(0, |bytes| stage.lead() + bytes);
        let header = self.header(stage, instance.responders(phase));
        let mut sent = messages(&header, payloads, random);
        if phase == 0 {
            let parts: Vec<_> = round.committed().iter().map(|part| Zeroizing::new(packed(part))).collect();
            self.promises = (!parts.is_empty()).then(|| ShareCommitments::make(&mut sent, &parts, random));
            self.parent.tau = sent.first().map(Message::tau).unwrap_or_default();
        } else if let Some(promises) = &self.promises {
            promises.open_in(&mut sent);
        }
        self.rounds.push(round);
        outgoing(Route::Answer, &sent, response_length)
    }

    /// The messages that fetch the record of nearest row `number`, or a dummy that looks the same.
    fn fetch(&mut self, number: usize, random: &mut impl RandomSource) -> StepMessages {
        let position = self.wanted[number].map(|(position, _)| position);
        let sizes = self.sizes();
        let payloads = sizes.queries(position, random);
        let sent = messages(&self.header(MessageKind::Record, self.instance.servers()), payloads, random);
        outgoing(Route::Record, &sent, MessageKind::Record.lead() + sizes.stripe_length())
    }

    fn read(&mut self, step: Step, reception: StepResponses, random: &mut impl RandomSource) {
        match step {
            Step::Phase(phase) => self.read_phase(phase, reception, random),
            Step::Record(number) => self.read_record(number, &reception, random),
        }
    }

    fn read_phase(&mut self, phase: usize, reception: StepResponses, random: &mut impl RandomSource) {
        if phase == 0 {
            // Whatever the answers are worth: what the rest of the search shows follows from what
            // servers said alone.
            self.parent.ticket = reception.ticket().unwrap_or_default();
        }
        let candidates = self.candidates_of(phase, reception, random);
        self.theta.zeroize();
        match candidates {
            Ok((mut candidates, implausible)) => {
                self.work += candidates.work();
                if let Some(implausible) = implausible {
                    self.fault.get_or_insert(implausible.into());
                }
                self.theta = candidates.take_theta();
                self.candidates = candidates;
            }
            Err(fault) => {
                self.fault.get_or_insert(fault);
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
        mut reception: StepResponses,
        random: &mut impl RandomSource,
    ) -> Result<(Candidates, Option<ImpossibleValue>), SearchError> {
        let instance = self.instance.clone();
        let live = reception.take_live();
        let bodies = self.bodies(&reception)?;
        if let Some(candidates) = self.interpolated(phase, live, &bodies) {
            return Ok(candidates);
        }
        let (field, count) = (instance.field(), instance.answer_length(phase));
        let answers = self.parse(&bodies, |body| wire::unpack(field, body, count).ok());
        let values = self.rounds[phase].decode(&instance, answers, random);
        let values = values.map_err(|error| self.blame(error.into()))?;
        self.lying_servers.extend(&values.lying_servers);
        let empty = values.empty_row.first().map_or(0, |element| element.value());
        let mut sieve = CandidateFilter::new(&instance, phase, &self.theta, empty, self.wanted.len());
        sieve.take_values(&values);
        Ok(sieve.finish())
    }

    /// The common case, decoded as the answers lie there. `None` where it does not apply or an
    /// answer cannot be read; then the slower way names whose fault it is.
    fn interpolated(
        &self,
        phase: usize,
        live: Option<StreamingDecoder>,
        bodies: &ResponseBodies<'_>,
    ) -> Option<(Candidates, Option<ImpossibleValue>)> {
        let spoke: Vec<usize> = (0..bodies.len()).filter(|&server| bodies[server].is_some()).collect();
        let answers: Vec<&[u8]> = bodies.iter().copied().flatten().collect();
        let (field, count) = (self.instance.field(), self.instance.answer_length(phase));
        if !answers.iter().all(|answer| wire::has_packed_shape(field, answer, count)) {
            return None;
        }
        // What is decoded as it arrives is everybody's answer; whom to interpolate is known earlier
        // only where all are needed.
        let live = if spoke.len() == bodies.len() { live } else { None };
        let mut live = live.or_else(|| self.begin(phase, &spoke))?;
        live.advance(&answers);
        live.finish()
    }

    /// What decodes a step while its answers arrive: where every answer is needed, so that none is
    /// there to check it by.
    fn live(&self, step: Step) -> Option<StreamingDecoder> {
        match step {
            Step::Phase(phase) => self.begin(phase, &(0..self.instance.responders(phase)).collect::<Vec<_>>()),
            Step::Record(_) => None,
        }
    }

    fn begin(&self, phase: usize, spoke: &[usize]) -> Option<StreamingDecoder> {
        let (interpolation, empty_row) = self.rounds.get(phase)?.interpolation(&self.instance, spoke)?;
        let empty = empty_row.first().map_or(0, |element| element.value());
        let rows = self.instance.answer_length(phase) / interpolation.constants.len();
        let sieve = CandidateFilter::new(&self.instance, phase, &self.theta, empty, self.wanted.len());
        Some(StreamingDecoder::new(self.interpolate?.begin(interpolation, rows), sieve))
    }

    fn read_record(&mut self, number: usize, reception: &StepResponses, random: &mut impl RandomSource) {
        let opened = self.opened(reception, random);
        // Nothing was wanted, so nothing can be learnt from the bytes; but reading them took as
        // long as ever.
        let Some((position, price)) = self.wanted[number] else { return };
        match opened {
            Ok(record) => self.found.push(NearestRow { position: Some(position), price, record }),
            Err(fault) => {
                self.fault.get_or_insert(fault);
            }
        }
    }

    fn opened(&mut self, reception: &StepResponses, random: &mut impl RandomSource) -> Result<Vec<u8>, SearchError> {
        let bodies = self.bodies(reception)?;
        let need = self.sizes().stripe_length();
        let answers = self.parse(&bodies, |body| (body.len() == need).then(|| body.to_vec()));
        let decoded = self.sizes().decode(&answers, random);
        let (sealed, lying_servers) = decoded.map_err(|error| self.blame(error.into()))?;
        self.lying_servers.extend(lying_servers);
        self.work += sealed.len() as u64;
        self.header_context.open_record(&sealed)
    }

    /// A response that does not parse is worth as much as silence and is borne like it, but its
    /// server is remembered.
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

    /// Names malformed answers where they are the reason that too few are left.
    fn blame(&self, fault: SearchError) -> SearchError {
        match fault {
            SearchError::Decode(DecodeError::TooFewAnswers { .. }) if !self.malformed.is_empty() => {
                SearchError::Malformed { servers: self.malformed.clone() }
            }
            other => other,
        }
    }

    fn bodies<'r>(&mut self, reception: &'r StepResponses) -> Result<ResponseBodies<'r>, SearchError> {
        let params = self.instance.params();
        let (bodies, odd) = reception.bodies(params.silent + params.lying)?;
        self.lying_servers.extend(odd);
        Ok(bodies)
    }

    fn sizes(&self) -> RecordFetch {
        RecordFetch::new(self.instance.params(), self.instance.servers(), self.header_context.record_length)
    }

    fn header(&self, stage: MessageKind, responders: usize) -> Header {
        self.header_context.header(&self.instance, stage, responders, self.parent)
    }
}

fn outgoing(route: Route, messages: &[Message], response_length: usize) -> StepMessages {
    let messages = messages.iter().map(|message| Zeroizing::new(message.encode())).collect();
    StepMessages { route, messages, response_length }
}

/// The cost of a found record, as levels, if it is the one that was decoded for it.
pub fn confirm(
    instance: &SchemeInstance,
    secret: &SecretQuery,
    found: &NearestRow,
    levels: &[u16],
) -> Result<u64, SearchError> {
    confirm_under(instance.scheme(), instance.params(), secret, found, levels)
}

/// The same for any scheme under its parameters.
pub fn confirm_under(
    scheme: &Scheme,
    params: &Params,
    secret: &SecretQuery,
    found: &NearestRow,
    levels: &[u16],
) -> Result<u64, SearchError> {
    let fits = levels.len() == params.features()
        && levels.iter().zip(&params.ranges).all(|(&level, &range)| u32::from(level) <= range);
    let cost = if fits { secret.plain_cost(scheme, params, levels) } else { None };
    let agrees = |cost: &u64| match found.price {
        DecodedCost::Exactly(price) => price == *cost,
        DecodedCost::AtMost(price) => *cost <= price && price - cost < params.d_min,
        DecodedCost::Unknown => true,
    };
    cost.filter(agrees).ok_or(SearchError::WrongRecord)
}
