//! A scheme under given parameters: from the two follow field, servers, sizes and costs.

use crate::field::{Field, FieldElement, FieldError, ModulusRule};
use crate::params::{Params, ParamsError};
use crate::random::RandomSource;
use crate::row_function::RowProgram;
use crate::scheme::{DecodeRule, Phase, PhaseContext, PhaseSecrets, Scheme, Slot};
use crate::secret_query::SecretQuery;
use crate::share::{EvaluationPoints, EvaluationPointsError, SlotVectors, share};
use crate::spir::RecordFetch;
use crate::transcript::{Message, MessageKind};

/// A scheme with its parameters, field and evaluation points, all checked.
#[derive(Clone, Debug)]
pub struct SchemeInstance {
    scheme: &'static Scheme,
    params: Params,
    field: Field,
    points: EvaluationPoints,
}

/// Servers are numbered from 1 in a byte.
pub(crate) const MAX_SERVERS: usize = u8::MAX as usize;

/// Why a deployment cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemeInstanceError {
    /// A parameter makes no sense.
    #[error(transparent)]
    Params(#[from] ParamsError),
    /// No field for the bound, or q is no field.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The points do not serve.
    #[error(transparent)]
    Points(#[from] EvaluationPointsError),
    /// q would let values wrap.
    #[error("q = {q} must exceed {bound}, the largest value of scheme {scheme}")]
    FieldTooSmall {
        /// The field.
        q: u64,
        /// What it must exceed.
        bound: u128,
        /// The scheme.
        scheme: &'static str,
    },
    /// More or fewer points than servers.
    #[error("scheme {scheme} needs {need} servers, but {have} points were given")]
    Servers {
        /// The scheme.
        scheme: &'static str,
        /// N.
        need: usize,
        /// Points given.
        have: usize,
    },
    /// Servers are numbered in a byte.
    #[error("scheme {scheme} would need {servers} servers under these parameters; {MAX_SERVERS} is the most")]
    TooManyServers {
        /// The scheme.
        scheme: &'static str,
        /// N.
        servers: usize,
    },
    /// A verified mask can be taken off.
    #[error(
        "scheme {scheme} cannot be verified: whoever shares r = 0 gets the second answers without their masks; offer it unverified"
    )]
    MaskNotVerifiable {
        /// The scheme.
        scheme: &'static str,
    },
    /// More than one server together, silence or lies are beyond it.
    #[error(
        "scheme {scheme} stands for T = 1, S = 0, B = 0 and answers that are not verified; leave it out or change these"
    )]
    OnlyPlain {
        /// The scheme.
        scheme: &'static str,
    },
    /// Values that do not fit into a word.
    #[error("scheme {scheme} would need values of {bits} bits, and {most} are the most; lower --cost-limit")]
    TooManyBits {
        /// The scheme.
        scheme: &'static str,
        /// Bits of a value.
        bits: u32,
        /// The most.
        most: u32,
    },
    /// Verified answers need linearity.
    #[error(
        "scheme {scheme} is not linear in the shares, so its answers cannot be verified; use a linear or gated one"
    )]
    NotVerifiable {
        /// The scheme.
        scheme: &'static str,
    },
}

/// Symbols of F_q, or bytes, over all servers and phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommunicationCost {
    /// From the user.
    pub up: u128,
    /// To the user.
    pub down: u128,
}

impl CommunicationCost {
    /// Both directions.
    pub fn total(self) -> u128 {
        self.up + self.down
    }
}

impl SchemeInstance {
    /// With the field that `rule` gives and the usual points.
    pub fn new(
        scheme: &'static Scheme,
        params: Params,
        rule: ModulusRule,
    ) -> Result<SchemeInstance, SchemeInstanceError> {
        params.check()?;
        let servers = servers(scheme, &params);
        // The field must also have a non-zero point for every server.
        let field = Field::above((scheme.bound)(&params).max(servers as u128), rule)?;
        let points = EvaluationPoints::usual(&field, servers)?;
        SchemeInstance::checked(scheme, params, field, points)
    }

    /// With the q and the points of a manifest.
    pub fn with_field(
        scheme: &'static Scheme,
        params: Params,
        q: u64,
        alphas: &[i64],
    ) -> Result<SchemeInstance, SchemeInstanceError> {
        params.check()?;
        let field = Field::new(q)?;
        let points = EvaluationPoints::new(&field, alphas)?;
        let bound = (scheme.bound)(&params);
        if u128::from(q) <= bound {
            return Err(SchemeInstanceError::FieldTooSmall { q, bound, scheme: scheme.name });
        }
        SchemeInstance::checked(scheme, params, field, points)
    }

    fn checked(
        scheme: &'static Scheme,
        params: Params,
        field: Field,
        points: EvaluationPoints,
    ) -> Result<SchemeInstance, SchemeInstanceError> {
        let need = servers(scheme, &params);
        if need > MAX_SERVERS {
            return Err(SchemeInstanceError::TooManyServers { scheme: scheme.name, servers: need });
        }
        if points.as_slice().len() != need {
            return Err(SchemeInstanceError::Servers { scheme: scheme.name, need, have: points.as_slice().len() });
        }
        if params.verified && scheme.phases.iter().any(|phase| matches!(phase.decode_rule, DecodeRule::Masked)) {
            return Err(SchemeInstanceError::MaskNotVerifiable { scheme: scheme.name });
        }
        if params.verified && scheme.phases.iter().any(|phase| (phase.degree)(&params) != 1) {
            return Err(SchemeInstanceError::NotVerifiable { scheme: scheme.name });
        }
        Ok(SchemeInstance { scheme, params, field, points })
    }

    /// The scheme.
    pub fn scheme(&self) -> &'static Scheme {
        self.scheme
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// F_q.
    pub fn field(&self) -> &Field {
        &self.field
    }

    /// The point of each server.
    pub fn points(&self) -> &[FieldElement] {
        self.points.as_slice()
    }

    /// The number of rounds before the record is fetched.
    pub fn phases(&self) -> usize {
        self.scheme.phases.len()
    }

    fn phase(&self, phase: usize) -> &'static Phase {
        &self.scheme.phases[phase]
    }

    /// What user and servers both know.
    pub(crate) fn setting(&self) -> PhaseContext<'_> {
        PhaseContext { field: &self.field, params: &self.params }
    }

    /// κ = degree·T: pads per output, and one less than the servers that decoding needs.
    pub fn kappa(&self, phase: usize) -> usize {
        kappa(self.phase(phase), &self.params)
    }

    /// The servers that a phase asks: the first `κ + 1 + S + 2B`.
    pub fn responders(&self, phase: usize) -> usize {
        responders(self.phase(phase), &self.params)
    }

    /// N, the servers that any phase asks.
    pub fn servers(&self) -> usize {
        self.points.as_slice().len()
    }

    /// The length of each vector that a server receives; verified queries hold everything twice,
    /// then r.
    pub fn slot_lengths(&self, phase: usize) -> Vec<usize> {
        let mut lengths: Vec<usize> =
            self.phase(phase).slots.iter().map(|slot| slot.length.elements(&self.params)).collect();
        if self.params.verified {
            lengths.extend(lengths.clone());
            lengths.push(1);
        }
        lengths
    }

    /// Symbols per answered row.
    pub fn outputs(&self, phase: usize) -> usize {
        self.phase(phase).decode_rule.outputs() * if self.params.verified { 2 } else { 1 }
    }

    /// The most symbols of every row that a client gets per search if it breaks the protocol: with
    /// κ pads an output tells N − κ symbols to whoever asks every server something else, and ρ
    /// takes one of a gated row's.
    pub fn cheated_elements(&self) -> usize {
        let phase = |phase: usize| match self.phase(phase).decode_rule {
            // Whether it is zero, and nothing else.
            DecodeRule::Zeros => 0,
            DecodeRule::Gated => self.outputs(phase) * (self.responders(phase) - self.kappa(phase)) - 1,
            _ => self.outputs(phase) * (self.responders(phase) - self.kappa(phase)),
        };
        (0..self.phases()).map(phase).sum()
    }

    /// Symbols in one server's answer.
    pub fn answer_length(&self, phase: usize) -> usize {
        let rows = match self.phase(phase).decode_rule {
            crate::scheme::DecodeRule::Difference => self.params.rows - 1,
            _ => self.params.rows,
        };
        rows * self.outputs(phase)
    }

    /// The symbols of all phases and servers, without the record. Carried shares count where they
    /// were first sent.
    pub fn cost(&self) -> CommunicationCost {
        let verified = if self.params.verified { 2 } else { 1 };
        (0..self.phases()).fold(CommunicationCost::default(), |cost, phase| {
            let fresh = |slot: &&Slot| !slot.carried;
            let slots = self.phase(phase).slots.iter().filter(fresh);
            let elements: usize = slots.map(|slot| slot.length.elements(&self.params)).sum();
            let servers = self.responders(phase) as u128;
            CommunicationCost {
                up: cost.up + servers * (elements * verified + (verified - 1)) as u128,
                down: cost.down + servers * self.answer_length(phase) as u128,
            }
        })
    }

    /// Bytes of all packed payloads and answers on the wire, without headers, key-check values and
    /// the record. Servers keep no state, so carried shares are sent again and count here.
    pub(crate) fn bytes(&self) -> CommunicationCost {
        (0..self.phases()).fold(CommunicationCost::default(), |cost, phase| {
            let servers = self.responders(phase) as u128;
            let bytes = |elements: usize| (elements as u128 * u128::from(self.field.bits())).div_ceil(8) * servers;
            CommunicationCost {
                up: cost.up + bytes(self.slot_lengths(phase).iter().sum()),
                down: cost.down + bytes(self.answer_length(phase)),
            }
        })
    }

    /// Bytes of all messages and responses of a search with `top` records, without HTTP and TLS.
    pub fn traffic(&self, top: usize, record_length: usize) -> CommunicationCost {
        let fetch = RecordFetch::new(&self.params, self.servers(), record_length);
        let framed = |stage: MessageKind| (Message::overhead(self, stage) as u128, stage.lead() as u128);
        let mut cost = self.bytes();
        for phase in 0..self.phases() {
            let (servers, (up, down)) = (self.responders(phase) as u128, framed(MessageKind::Phase(phase as u8)));
            (cost.up, cost.down) = (cost.up + servers * up, cost.down + servers * down);
        }
        let (records, (up, down)) = ((top * self.servers()) as u128, framed(MessageKind::Record));
        cost.up += records * (up + fetch.query_length() as u128);
        cost.down += records * (down + fetch.stripe_length() as u128);
        cost
    }

    /// Commitments of the first phase to what the second will use, one for each server of the
    /// second; no scheme has a third.
    pub fn share_commitments(&self) -> usize {
        let second = self.scheme.phases.get(1).filter(|phase| phase.slots.iter().any(|slot| slot.promised));
        second.map_or(0, |phase| responders(phase, &self.params))
    }

    /// What the first phase, whose shares are `first`, promises about the second, whose vectors are
    /// `second`: the shares of its promised slots, one entry per server of the second.
    pub fn committed_shares(
        &self,
        second: &SlotVectors,
        first: &[SlotVectors],
        random: &mut (impl RandomSource + ?Sized),
    ) -> Vec<SlotVectors> {
        let points = &self.points.as_slice()[..self.share_commitments()];
        let mut shares: Vec<SlotVectors> = points.iter().map(|_| SlotVectors::new([])).collect();
        let slots = self.phase(1).slots.iter().zip(second.iter()).filter(|(slot, _)| slot.promised);
        for (slot, vector) in slots {
            let earlier = self.phase(0).slots.iter().position(|other| slot.carried && other.name == slot.name);
            let parts = match earlier {
                Some(place) => first.iter().map(|first| first.slot(place).to_vec()).collect(),
                None => share(&self.field, points, self.params.threshold, vector, random),
            };
            shares.iter_mut().zip(parts).for_each(|(share, part)| share.push(part));
        }
        shares
    }

    /// The slots of a share of the second phase that were promised.
    pub(crate) fn promised<'v>(&self, vectors: &'v SlotVectors) -> impl Iterator<Item = &'v [FieldElement]> {
        let slots = self.scheme.phases.get(1).map_or(&[][..], |phase| phase.slots);
        slots.iter().zip(vectors.iter()).filter(|(slot, _)| slot.promised).map(|(_, vector)| vector)
    }

    /// What the user shares in a phase; in a verified one everything again times r, then r itself.
    pub fn open(&self, phase: usize, secret: &SecretQuery, theta: &[bool], r: Option<FieldElement>) -> PhaseSecrets {
        let mut opening = (self.phase(phase).secrets)(secret, &self.setting(), theta);
        if let Some(r) = r {
            let scale = |vector: &[FieldElement]| vector.iter().map(|&s| self.field.mul(r, s)).collect::<Vec<_>>();
            let scaled: Vec<Vec<FieldElement>> = opening.vectors.iter().map(scale).collect();
            for vector in scaled {
                opening.vectors.push(vector);
            }
            opening.vectors.push(vec![r]);
        }
        opening
    }

    /// The shares of a phase's vectors, one entry per responder; those that the first phase
    /// promised are as promised.
    pub fn share(
        &self,
        phase: usize,
        vectors: &SlotVectors,
        promised: &[SlotVectors],
        random: &mut (impl RandomSource + ?Sized),
    ) -> Vec<SlotVectors> {
        let points = &self.points.as_slice()[..self.responders(phase)];
        let mut shares: Vec<SlotVectors> = points.iter().map(|_| SlotVectors::new([])).collect();
        let mut kept = 0;
        for (number, vector) in vectors.iter().enumerate() {
            let slot = self.phase(phase).slots.get(number);
            let parts = if slot.is_some_and(|slot| slot.promised) {
                kept += 1;
                promised.iter().map(|promised| promised.slot(kept - 1).to_vec()).collect()
            } else {
                share(&self.field, points, self.params.threshold, vector, random)
            };
            shares.iter_mut().zip(parts).for_each(|(share, part)| share.push(part));
        }
        shares
    }

    /// What a server with these shares computes.
    pub fn program(&self, phase: usize, vectors: &SlotVectors) -> RowProgram {
        let program = self.phase(phase).program;
        if !self.params.verified {
            return program(&self.setting(), vectors, FieldElement::ONE);
        }
        let half = vectors.iter().len() / 2;
        let part =
            |from: usize| SlotVectors::new((from..from + half).map(|s| vectors.slot(s).to_vec()).collect::<Vec<_>>());
        let r = vectors.slot(2 * half)[0];
        program(&self.setting(), &part(0), FieldElement::ONE).followed_by(program(&self.setting(), &part(half), r))
    }
}

fn kappa(phase: &Phase, params: &Params) -> usize {
    (phase.degree)(params) * params.threshold
}

fn responders(phase: &Phase, params: &Params) -> usize {
    kappa(phase, params) + 1 + params.silent + 2 * params.lying
}

fn servers(scheme: &Scheme, params: &Params) -> usize {
    scheme.phases.iter().map(|phase| responders(phase, params)).max().unwrap_or(0)
}
