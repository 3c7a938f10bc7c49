//! A scheme with parameters, field and evaluation points. Scheme and parameters determine the
//! number of servers, all sizes and the communication cost.

use crate::field::{Field, FieldElement, FieldError, ModulusRule};
use crate::lifted::{LiftedError, LiftedFormat, LiftedSide, LiftedTables};
use crate::params::{Params, ParamsError};
use crate::random::RandomSource;
use crate::row_function::RowProgram;
use crate::scheme::{DecodeRule, Phase, PhaseContext, PhaseSecrets, Scheme, Slot};
use crate::secret_query::SecretQuery;
use crate::share::{EvaluationPoints, EvaluationPointsError, SlotVectors, share};
use zeroize::Zeroizing;

/// A scheme with its parameters, field and evaluation points, all checked.
#[derive(Clone, Debug)]
pub struct SchemeInstance {
    scheme: &'static Scheme,
    params: Params,
    field: Field,
    points: EvaluationPoints,
    /// The gate field and its points, if the gate is lifted.
    lifted: Option<(LiftedFormat, EvaluationPoints)>,
}

/// Server indices count from 1 and fit into a byte.
pub(crate) const MAX_SERVERS: usize = u8::MAX as usize;

/// Why a scheme cannot be used with these parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemeInstanceError {
    /// A parameter is invalid.
    #[error(transparent)]
    Params(#[from] ParamsError),
    /// No field is large enough for the bound, or q is invalid.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The evaluation points are invalid.
    #[error(transparent)]
    Points(#[from] EvaluationPointsError),
    /// q is too small, so values could wrap around.
    #[error("q = {q} must exceed {bound}, the largest value of scheme {scheme}")]
    FieldTooSmall {
        /// The modulus.
        q: u64,
        /// The largest value, which q must exceed.
        bound: u128,
        /// The scheme.
        scheme: &'static str,
    },
    /// The number of points is not the number of servers.
    #[error("scheme {scheme} needs {need} servers, but there are {have} evaluation points")]
    Servers {
        /// The scheme.
        scheme: &'static str,
        /// N.
        need: usize,
        /// Number of points.
        have: usize,
    },
    /// More servers than indices that fit into a byte.
    #[error("scheme {scheme} needs {servers} servers with these parameters; the maximum is {MAX_SERVERS}")]
    TooManyServers {
        /// The scheme.
        scheme: &'static str,
        /// N.
        servers: usize,
    },
    /// Verification would let a client remove the masks.
    #[error(
        "scheme {scheme} cannot be verified: a client that shares r = 0 would remove the masks; offer it without verification"
    )]
    MaskNotVerifiable {
        /// The scheme.
        scheme: &'static str,
    },
    /// The scheme supports no larger threshold, no silent or lying servers and no verification.
    #[error(
        "scheme {scheme} requires T = 1, S = 0, B = 0 and unverified answers; omit the scheme or change these parameters"
    )]
    OnlyPlain {
        /// The scheme.
        scheme: &'static str,
    },
    /// The moduli of a lifted gate do not fit together.
    #[error(transparent)]
    Lifted(#[from] LiftedError),
    /// The scheme, its parameters or the points do not allow a lifted gate.
    #[error(
        "scheme {scheme} can have the gate modulus p = {p} only if it counts violations, has fewer than p features, \
         T = 1, S = B = 0, unverified answers and the evaluation points 1 and -1; omit p"
    )]
    NotLifted {
        /// The scheme.
        scheme: &'static str,
        /// The modulus of the gate.
        p: u64,
    },
    /// Values do not fit into a machine word.
    #[error("scheme {scheme} needs values of {bits} bits; the maximum is {most}; lower the cost limit")]
    TooManyBits {
        /// The scheme.
        scheme: &'static str,
        /// Bits of a value.
        bits: u32,
        /// The largest number of bits.
        most: u32,
    },
    /// Messages or answers do not fit into the memory of this machine.
    #[error("scheme {scheme} with row count {rows} needs messages or answers that this machine cannot address")]
    TooLarge {
        /// The scheme.
        scheme: &'static str,
        /// M.
        rows: usize,
    },
    /// Verification needs answers that are linear in the shares.
    #[error(
        "scheme {scheme} is not linear in the shares, so its answers cannot be verified; use a linear or gated scheme"
    )]
    NotVerifiable {
        /// The scheme.
        scheme: &'static str,
    },
}

/// Field elements or bytes, summed over all servers and phases.
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
    /// An instance with the field that `rule` selects and the usual points.
    pub fn new(
        scheme: &'static Scheme,
        params: Params,
        rule: ModulusRule,
    ) -> Result<SchemeInstance, SchemeInstanceError> {
        params.check()?;
        let servers = servers(scheme, &params);
        // The field must also have a non-zero point for every server.
        let bound = (scheme.bound)(&params).max(servers as u128);
        if may_lift(scheme, &params)
            && let Some(format) = LiftedFormat::for_database(params.features(), bound, rule)
        {
            let (q, p) = (format.cost_field().clone(), format.gate_field().q());
            let points = EvaluationPoints::usual(&q, servers)?;
            return SchemeInstance::checked(scheme, params, q, points)?.lifted_by(p);
        }
        let field = Field::above(bound, rule)?;
        let points = EvaluationPoints::usual(&field, servers)?;
        SchemeInstance::checked(scheme, params, field, points)
    }

    /// The same instance with a lifted gate: violations are shared in F_p.
    pub fn lifted_by(mut self, p: u64) -> Result<SchemeInstance, SchemeInstanceError> {
        let format = LiftedFormat::new(self.field.q(), p)?;
        let usual = EvaluationPoints::usual(&self.field, 2).is_ok_and(|usual| usual == self.points);
        if !may_lift(self.scheme, &self.params) || self.params.features() as u64 >= p || !usual {
            return Err(SchemeInstanceError::NotLifted { scheme: self.scheme.name, p });
        }
        let points = EvaluationPoints::usual(format.gate_field(), 2)?;
        self.lifted = Some((format, points));
        Ok(self)
    }

    /// The same instance for another number of rows.
    pub fn with_rows(&self, rows: usize) -> SchemeInstance {
        SchemeInstance { params: Params { rows, ..self.params.clone() }, ..self.clone() }
    }

    /// An instance with the modulus and the points of a manifest.
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
        let instance = SchemeInstance { scheme, params, field, points, lifted: None };
        if !instance.fits_memory() {
            return Err(SchemeInstanceError::TooLarge { scheme: scheme.name, rows: instance.params.rows });
        }
        Ok(instance)
    }

    /// The scheme.
    pub fn scheme(&self) -> &'static Scheme {
        self.scheme
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// F_q, the field of costs and, unless the gate is lifted, of everything else.
    pub fn field(&self) -> &Field {
        &self.field
    }

    /// The format of the answers, if the gate is lifted.
    pub fn lifted(&self) -> Option<&LiftedFormat> {
        self.lifted.as_ref().map(|(format, _)| format)
    }

    /// The point of each server.
    pub fn points(&self) -> &[FieldElement] {
        self.points.as_slice()
    }

    /// The number of phases before the record fetch.
    pub fn phases(&self) -> usize {
        self.scheme.phases.len()
    }

    fn phase(&self, phase: usize) -> &'static Phase {
        &self.scheme.phases[phase]
    }

    /// Public context of a phase, known to user and servers.
    pub(crate) fn context(&self) -> PhaseContext<'_> {
        PhaseContext { field: &self.field, params: &self.params }
    }

    /// κ = degree·T: the number of pads per output, and one less than the number of answers that
    /// decoding needs.
    pub fn kappa(&self, phase: usize) -> usize {
        kappa(self.phase(phase), &self.params)
    }

    /// The number of servers that a phase queries: the first `κ + 1 + S + 2B`.
    pub fn responders(&self, phase: usize) -> usize {
        responders(self.phase(phase), &self.params)
    }

    /// N, the number of servers that the phases query.
    pub fn servers(&self) -> usize {
        self.points.as_slice().len()
    }

    /// The length of each vector that a server receives. A verified query has all vectors twice,
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

    /// Field elements per answered row.
    pub fn outputs(&self, phase: usize) -> usize {
        self.phase(phase).decode_rule.outputs() * if self.params.verified { 2 } else { 1 }
    }

    /// The largest number of field elements per row that a client learns in one search if it breaks
    /// the protocol. With κ pads per output, a client that sends unrelated queries to all servers
    /// learns N − κ elements per output. In gated schemes ρ hides one of them. A lifted gate
    /// reveals one of q + 1 outcomes.
    pub fn cheated_elements(&self) -> usize {
        let phase = |phase: usize| match self.phase(phase).decode_rule {
            // The client learns only whether the value is zero.
            DecodeRule::Zeros => 0,
            DecodeRule::Gated => self.outputs(phase) * (self.responders(phase) - self.kappa(phase)) - 1,
            _ => self.outputs(phase) * (self.responders(phase) - self.kappa(phase)),
        };
        (0..self.phases()).map(phase).sum()
    }

    /// Field elements in the answer of one server.
    pub fn answer_length(&self, phase: usize) -> usize {
        let rows = match self.phase(phase).decode_rule {
            DecodeRule::Difference => self.params.rows - 1,
            _ => self.params.rows,
        };
        rows * self.outputs(phase)
    }

    /// Field elements of all phases and servers, without the record. Carried shares count only in
    /// the phase that sends them first.
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

    /// The number of share commitments in phase 0: one for each server of phase 1. No scheme has a
    /// third phase.
    pub fn share_commitments(&self) -> usize {
        let second = self.scheme.phases.get(1).filter(|phase| phase.slots.iter().any(|slot| slot.committed));
        second.map_or(0, |phase| responders(phase, &self.params))
    }

    /// The shares of phase 1 to which phase 0 commits, one entry per server of phase 1. `second`
    /// are the vectors of phase 1, `first` the shares of phase 0.
    pub fn committed_shares(
        &self,
        second: &SlotVectors,
        first: &[SlotVectors],
        random: &mut (impl RandomSource + ?Sized),
    ) -> Vec<SlotVectors> {
        let points = &self.points.as_slice()[..self.share_commitments()];
        let mut shares: Vec<SlotVectors> = points.iter().map(|_| SlotVectors::new([])).collect();
        let slots = self.phase(1).slots.iter().zip(second.iter()).filter(|(slot, _)| slot.committed);
        for (slot, vector) in slots {
            let earlier = self.phase(0).slots.iter().position(|other| slot.carried && other.name == slot.name);
            let parts = match earlier {
                Some(slot) => first.iter().map(|first| first.slot(slot).to_vec()).collect(),
                None => share(&self.field, points, self.params.threshold, vector, random),
            };
            shares.iter_mut().zip(parts).for_each(|(share, part)| share.push(part));
        }
        shares
    }

    /// The slots of a phase 1 share to which phase 0 commits.
    pub(crate) fn committed_slots<'v>(&self, vectors: &'v SlotVectors) -> impl Iterator<Item = &'v [FieldElement]> {
        let slots = self.scheme.phases.get(1).map_or(&[][..], |phase| phase.slots);
        slots.iter().zip(vectors.iter()).filter(|(slot, _)| slot.committed).map(|(_, vector)| vector)
    }

    /// The vectors that the user shares in a phase. In a verified query they follow again
    /// multiplied by r, then r itself.
    pub fn phase_secrets(
        &self,
        phase: usize,
        secret: &SecretQuery,
        theta: &[bool],
        r: Option<FieldElement>,
    ) -> PhaseSecrets {
        let mut secrets = (self.phase(phase).secrets)(secret, &self.context(), theta);
        if let Some(r) = r {
            let scale = |vector: &[FieldElement]| vector.iter().map(|&s| self.field.mul(r, s)).collect::<Vec<_>>();
            let scaled: Vec<Vec<FieldElement>> = secrets.vectors.iter().map(scale).collect();
            for vector in scaled {
                secrets.vectors.push(vector);
            }
            secrets.vectors.push(vec![r]);
        }
        secrets
    }

    /// The shares of the vectors of a phase, one entry per responder. `committed` are the shares to
    /// which phase 0 committed.
    pub fn share(
        &self,
        phase: usize,
        vectors: &SlotVectors,
        committed: &[SlotVectors],
        random: &mut (impl RandomSource + ?Sized),
    ) -> Vec<SlotVectors> {
        let points = &self.points.as_slice()[..self.responders(phase)];
        let mut shares: Vec<SlotVectors> = points.iter().map(|_| SlotVectors::new([])).collect();
        let mut used = 0;
        for (number, vector) in vectors.iter().enumerate() {
            let slot = self.phase(phase).slots.get(number);
            let parts = if slot.is_some_and(|slot| slot.committed) {
                used += 1;
                committed.iter().map(|committed| committed.slot(used - 1).to_vec()).collect()
            } else {
                match self.lifted.as_ref().filter(|_| slot.is_some_and(|slot| slot.is_gate)) {
                    Some((format, points)) => share(format.gate_field(), points.as_slice(), 1, vector, random),
                    None => share(&self.field, points, self.params.threshold, vector, random),
                }
            };
            shares.iter_mut().zip(parts).for_each(|(share, part)| share.push(part));
        }
        shares
    }

    /// The tables that server `side` adds up, if the gate is lifted. `program` has its row
    /// functions: cost, then gate.
    pub fn lifted_tables(&self, program: &RowProgram, side: LiftedSide) -> Option<LiftedTables> {
        let (format, functions) = (self.lifted()?, &program.functions);
        let max_levels = &self.params.max_levels;
        let values = |field, function: usize| Zeroizing::new(functions[function].level_values(field, max_levels));
        let (cost, gate) = (values(format.cost_field(), 0), values(format.gate_field(), 1));
        let lengths = max_levels.iter().map(|&most| most as usize + 1).collect();
        Some(LiftedTables::new(format, side, lengths, &cost, &gate))
    }

    /// The row program of a server with these shares.
    pub fn program(&self, phase: usize, vectors: &SlotVectors) -> RowProgram {
        let program = self.phase(phase).program;
        if !self.params.verified {
            return program(&self.context(), vectors, FieldElement::ONE);
        }
        let half = vectors.iter().len() / 2;
        let part =
            |from: usize| SlotVectors::new((from..from + half).map(|s| vectors.slot(s).to_vec()).collect::<Vec<_>>());
        let r = vectors.slot(2 * half)[0];
        program(&self.context(), &part(0), FieldElement::ONE).followed_by(program(&self.context(), &part(half), r))
    }
}

/// Whether the gate is lifted if its fields fit into a word.
fn may_lift(scheme: &Scheme, params: &Params) -> bool {
    let plain = params.threshold == 1 && params.silent == 0 && params.lying == 0 && !params.verified;
    plain && scheme.counts_violations()
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
