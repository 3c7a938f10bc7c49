//! A user's whole search: every phase, then the record, whatever turns up.
//!
//! What servers see must not depend on what the user learns. So a phase that fails, an empty Θ, or fewer qualifying rows
//! than wanted never stop the search: the remaining phases and fetches run with dummies of the same shape, and the fault
//! is reported at the end, locally.

use crate::candidates::{Candidates, Implausible, Price, Sieve};
use crate::decode::DecodeError;
use crate::deployment::Deployment;
use crate::field::Symbol;
use crate::interpolate::Interpolate;
use crate::package;
use crate::random::Random;
use crate::round::{Round, RoundError};
use crate::secret::{Secret, SecretError};
use crate::share::Vectors;
use crate::spir::Fetch;
use crate::transcript::{Header, Message, RECORD_PHASE, Tau, messages};
use crate::wire;
use zeroize::{Zeroize, Zeroizing};

/// Whom the user asks: what goes into every header beside the scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Audience {
    /// The manifest's digest.
    pub digest: [u8; 32],
    /// The current key epoch.
    pub epoch: u32,
    /// Bytes of a record.
    pub record_length: usize,
}

impl Audience {
    /// The header of a phase that asks the first `responders` servers.
    pub fn header(&self, deployment: &Deployment, phase: u8, responders: usize, parent: Tau) -> Header {
        Header {
            scheme: deployment.scheme().name.into(),
            phase,
            epoch: self.epoch,
            digest: self.digest,
            responders: (1..=responders as u8).collect(),
            parent,
        }
    }
}

/// What went wrong during a search, and whose fault it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Silence or lies beyond what the deployment bears.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An answer that is not what the scheme says.
    #[error(transparent)]
    Round(RoundError),
    /// A value that honest servers cannot give.
    #[error(transparent)]
    Implausible(#[from] Implausible),
    /// Servers with different root keys, versions or parameters.
    #[error(
        "servers {first} and {second} disagree about keys or parameters; their operators must compare key epochs and bundles"
    )]
    KeyCheck {
        /// Counted from 1.
        first: usize,
        /// Counted from 1.
        second: usize,
    },
    /// Not enough answers, because some were no answers.
    #[error("the responses of servers {servers:?} are malformed, and too few others answered")]
    Malformed {
        /// Counted from 1.
        servers: Vec<usize>,
    },
    /// The fetched bytes are no record.
    #[error("the fetched bytes are not a record: a server lied or holds another database")]
    NotARecord,
    /// The record does not have the cost that was decoded for it.
    #[error(
        "the fetched record does not have the cost that was decoded for it: a server lied or holds another database"
    )]
    WrongRecord,
}

impl From<RoundError> for Fault {
    fn from(error: RoundError) -> Fault {
        match error {
            RoundError::Decode(error) => Fault::Decode(error),
            other => Fault::Round(other),
        }
    }
}

/// One of the nearest rows.
#[derive(Clone, PartialEq, Eq)]
pub struct Found {
    /// Its position in the answer, which is its stored row only without shuffle.
    pub position: usize,
    /// What the scheme says about its cost.
    pub price: Price,
    /// Its record.
    pub record: Vec<u8>,
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Found(..)")
    }
}

/// The end of a search.
#[derive(Debug)]
pub struct Outcome {
    /// Nearest first; empty when no row qualifies.
    pub found: Vec<Found>,
    /// How many rows qualify.
    pub qualifying: usize,
    /// Who lied, answered rubbish or under another key, and was left out; counted from 1.
    pub liars: Vec<usize>,
}

/// A search in progress.
pub struct Search<'a> {
    deployment: &'a Deployment,
    audience: Audience,
    secret: Secret,
    rounds: Vec<Round>,
    theta: Vec<bool>,
    first_tau: Tau,
    candidates: Candidates,
    wanted: Vec<Option<(usize, Price)>>,
    found: Vec<Found>,
    liars: Vec<usize>,
    malformed: Vec<usize>,
    fault: Option<Fault>,
    interpolate: Option<&'a dyn Interpolate>,
}

// Θ, θ* and costs are as secret as x.
impl std::fmt::Debug for Search<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Search({}, round {}, ..)", self.deployment.scheme().name, self.rounds.len())
    }
}

impl Drop for Search<'_> {
    fn drop(&mut self) {
        self.theta.zeroize();
        self.wanted.iter_mut().for_each(|wanted| *wanted = None);
    }
}

impl<'a> Search<'a> {
    /// Starts a search for the nearest row. Nothing is sent if the scheme cannot carry the secret.
    pub fn new(deployment: &'a Deployment, secret: Secret, audience: Audience) -> Result<Search<'a>, SecretError> {
        Search::nearest(deployment, secret, audience, 1)
    }

    /// Starts a search for the `k` nearest rows; k is public and decides how many records are fetched.
    pub fn nearest(
        deployment: &'a Deployment,
        secret: Secret,
        audience: Audience,
        k: usize,
    ) -> Result<Search<'a>, SecretError> {
        secret.check(deployment.scheme(), deployment.params())?;
        Ok(Search {
            theta: vec![false; deployment.params().rows],
            deployment,
            audience,
            secret,
            rounds: vec![],
            first_tau: Tau::default(),
            candidates: Candidates::default(),
            wanted: vec![None; k.max(1)],
            found: vec![],
            liars: vec![],
            malformed: vec![],
            fault: None,
            interpolate: None,
        })
    }

    /// The same search, with somebody who decodes faster where there is nothing to correct.
    pub fn interpolated_by(mut self, interpolate: &'a dyn Interpolate) -> Search<'a> {
        self.interpolate = Some(interpolate);
        self
    }

    /// Runs everything with `send`, which takes a server (counted from 1) and its message and gives its response, or
    /// `None` if there is none.
    pub fn run(
        mut self,
        random: &mut impl Random,
        mut send: impl FnMut(usize, &[u8]) -> Option<Vec<u8>>,
    ) -> Result<Outcome, Fault> {
        let mut all = |messages: Vec<Message>| -> Vec<Option<Vec<u8>>> {
            messages.iter().map(|message| send(message.server.into(), &Zeroizing::new(message.encode()))).collect()
        };
        for _ in 0..self.deployment.phases() {
            let responses = all(self.ask(random));
            self.hear(responses, random);
        }
        for number in 0..self.wanted.len() {
            let responses = all(self.fetch(number, random));
            self.take(number, responses, random);
        }
        self.finish()
    }

    /// The messages of the next phase, one per responder.
    pub fn ask(&mut self, random: &mut impl Random) -> Vec<Message> {
        let phase = self.rounds.len();
        let round = Round::new(self.deployment, phase, &self.secret, &self.theta, self.rounds.last(), random);
        let field = self.deployment.field();
        let payload = |share: &Vectors| {
            let symbols: Zeroizing<Vec<Symbol>> = Zeroizing::new(share.iter().flatten().copied().collect());
            wire::pack(field, symbols.iter())
        };
        let payloads = round.shares().iter().map(payload).collect();
        let messages = messages(&self.header(phase as u8, self.deployment.responders(phase)), payloads, random);
        if phase == 0 {
            self.first_tau = messages[0].tau();
        }
        self.rounds.push(round);
        messages
    }

    /// Takes the responses to [`Search::ask`], in its order.
    ///
    /// # Panics
    /// Before the first [`Search::ask`].
    pub fn hear(&mut self, responses: Responses, random: &mut impl Random) {
        match self.read(responses, random) {
            Ok(mut candidates) => {
                self.theta.zeroize();
                self.theta = candidates.take_theta();
                self.candidates = candidates;
            }
            Err(fault) => {
                self.fault.get_or_insert(fault);
                self.theta.zeroize();
                self.theta = vec![false; self.deployment.params().rows];
                self.candidates = Candidates::default();
            }
        }
        if self.rounds.len() == self.deployment.phases() {
            let nearest = self.candidates.nearest(self.wanted.len());
            self.wanted.iter_mut().zip(nearest).for_each(|(wanted, near)| *wanted = Some(near));
        }
    }

    fn read(&mut self, responses: Responses, random: &mut impl Random) -> Result<Candidates, Fault> {
        let phase = self.rounds.len() - 1;
        let bodies = self.bodies(&responses)?;
        if let Some(candidates) = self.interpolated(phase, &bodies) {
            return Ok(candidates?);
        }
        let (field, count) = (self.deployment.field(), self.deployment.answer_length(phase));
        let answers = self.parse(&bodies, |body| wire::unpack(field, body, count).ok());
        let values = self.rounds[phase].decode(self.deployment, answers, random);
        let values = values.map_err(|error| self.blame(error.into()))?;
        self.liars.extend(&values.liars);
        Ok(Candidates::read(self.deployment, phase, &values, &self.theta, self.wanted.len())?)
    }

    /// The common case, decoded as the answers lie there. `None` where it does not apply or an answer cannot be read; then the
    /// slower way names whose fault it is.
    fn interpolated(&self, phase: usize, bodies: &[Option<&[u8]>]) -> Option<Result<Candidates, Implausible>> {
        let interpolate = self.interpolate?;
        let (field, count) = (self.deployment.field(), self.deployment.answer_length(phase));
        let spoke: Vec<usize> = (0..bodies.len()).filter(|&server| bodies[server].is_some()).collect();
        let (interpolation, empty_row) = self.rounds[phase].interpolation(self.deployment, &spoke)?;
        let answers: Vec<&[u8]> = bodies.iter().copied().flatten().collect();
        if !answers.iter().all(|answer| wire::has_packed_shape(field, answer, count)) {
            return None;
        }
        let empty = empty_row.first().map_or(0, |symbol| symbol.value());
        let mut sieve = Sieve::new(self.deployment, phase, &self.theta, empty, self.wanted.len());
        let rows = count / interpolation.constants.len();
        interpolate.interpolate(&interpolation, rows, &answers, &mut |words| sieve.take(words)).ok()?;
        Some(sieve.finish())
    }

    /// The messages that fetch the record of nearest row `number`, or a dummy that looks the same.
    pub fn fetch(&mut self, number: usize, random: &mut impl Random) -> Vec<Message> {
        let position = self.wanted[number].map(|(position, _)| position);
        let payloads = self.sizes().queries(position, random);
        messages(&self.header(RECORD_PHASE, self.deployment.servers()), payloads, random)
    }

    /// Takes the responses to [`Search::fetch`].
    pub fn take(&mut self, number: usize, responses: Responses, random: &mut impl Random) {
        // Nothing was wanted, so nothing can be learnt from the bytes.
        let Some((position, price)) = self.wanted[number] else { return };
        match self.open(responses, random) {
            Ok(record) => self.found.push(Found { position, price, record }),
            Err(fault) => {
                self.fault.get_or_insert(fault);
            }
        }
    }

    fn open(&mut self, responses: Responses, random: &mut impl Random) -> Result<Vec<u8>, Fault> {
        let bodies = self.bodies(&responses)?;
        let need = self.sizes().stripe_length();
        let answers = self.parse(&bodies, |body| (body.len() == need).then(|| body.to_vec()));
        let decoded = self.sizes().decode(&answers, random);
        let (sealed, liars) = decoded.map_err(|error| self.blame(error.into()))?;
        self.liars.extend(liars);
        package::open(&sealed).ok_or(Fault::NotARecord)
    }

    /// The end: what was found, or the first fault.
    pub fn finish(mut self) -> Result<Outcome, Fault> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let mut liars = std::mem::take(&mut self.liars);
        liars.sort_unstable();
        liars.dedup();
        Ok(Outcome { found: std::mem::take(&mut self.found), qualifying: self.candidates.count(), liars })
    }

    /// A response that does not parse is worth as much as silence and is borne like it, but its server is remembered.
    fn parse<T>(&mut self, bodies: &[Option<&[u8]>], parse: impl Fn(&[u8]) -> Option<T>) -> Vec<Option<T>> {
        let parsed: Vec<Option<T>> = bodies.iter().map(|body| parse((*body)?)).collect();
        self.malformed = (1..)
            .zip(bodies.iter().zip(&parsed))
            .filter(|(_, (body, parsed))| body.is_some() && parsed.is_none())
            .map(|(server, _)| server)
            .collect();
        self.liars.extend(&self.malformed);
        parsed
    }

    /// Names malformed answers where they are the reason that too few are left.
    fn blame(&self, fault: Fault) -> Fault {
        match fault {
            Fault::Decode(DecodeError::TooFewAnswers { .. }) if !self.malformed.is_empty() => {
                Fault::Malformed { servers: self.malformed.clone() }
            }
            other => other,
        }
    }

    fn bodies<'r>(&mut self, responses: &'r Responses) -> Result<Bodies<'r>, Fault> {
        let params = self.deployment.params();
        let (bodies, odd) = split_checks(responses, params.silent + params.lying)?;
        self.liars.extend(odd);
        Ok(bodies)
    }

    fn sizes(&self) -> Fetch {
        Fetch::new(self.deployment.params(), self.deployment.servers(), self.audience.record_length)
    }

    fn header(&self, phase: u8, responders: usize) -> Header {
        self.audience.header(self.deployment, phase, responders, self.first_tau)
    }
}

/// Compares a found record, as levels, with the cost that was decoded for it.
pub fn confirm(deployment: &Deployment, secret: &Secret, found: &Found, levels: &[u16]) -> Result<(), Fault> {
    let params = deployment.params();
    let fits = levels.len() == params.features()
        && levels.iter().zip(&params.ranges).all(|(&level, &range)| u32::from(level) <= range);
    let cost = if fits { secret.plain_cost(deployment.scheme(), params, levels) } else { None };
    let agrees = match (found.price, cost) {
        (_, None) => false,
        (Price::Exactly(price), Some(cost)) => price == cost,
        (Price::AtMost(price), Some(cost)) => cost <= price && price - cost < params.mask,
        (Price::Unknown, Some(_)) => true,
    };
    if agrees { Ok(()) } else { Err(Fault::WrongRecord) }
}

/// One entry per responder, in order; `None` for silence.
type Responses = Vec<Option<Vec<u8>>>;
/// What follows the key-check values.
type Bodies<'r> = Vec<Option<&'r [u8]>>;

/// Splits the key-check values off. Servers that disagree with the largest group are named and left out, as long as the
/// deployment bears so many silent and lying servers; otherwise nobody can say who is right.
fn split_checks(responses: &Responses, borne: usize) -> Result<(Bodies<'_>, Vec<usize>), Fault> {
    let mut parts: Vec<Option<(&[u8; 16], &[u8])>> =
        responses.iter().map(|response| response.as_ref()?.split_first_chunk()).collect();
    let checks: Vec<(usize, [u8; 16])> =
        parts.iter().enumerate().filter_map(|(place, part)| Some((place, *part.as_ref()?.0))).collect();
    let agreeing = |check: &[u8; 16]| checks.iter().filter(|(_, other)| other == check).count();
    let Some(&(first, reference)) = checks.iter().max_by_key(|(place, check)| (agreeing(check), usize::MAX - place))
    else {
        return Ok((vec![None; parts.len()], vec![]));
    };
    let odd: Vec<usize> = checks.iter().filter(|(_, check)| *check != reference).map(|(place, _)| *place).collect();
    if let Some(&second) = odd.first().filter(|_| odd.len() > borne || odd.len() >= agreeing(&reference)) {
        return Err(Fault::KeyCheck { first: first + 1, second: second + 1 });
    }
    odd.iter().for_each(|&place| parts[place] = None);
    let bodies = parts.into_iter().map(|part| part.map(|(_, body)| body)).collect();
    Ok((bodies, odd.into_iter().map(|place| place + 1).collect()))
}
