//! One phase on the user's side, in field elements: share, cancel, decode, verify.
//!
//! The client knows the shares, so it can compute the *known part* of each answer: the part of the
//! program of server n that contains neither y nor a secret of the servers. The client subtracts it
//! from the answers of server n, and the rest has degree κ. After interpolation the client adds the
//! known part at 0, which is the program of the secrets themselves.

use crate::decode::{DecodeError, coefficient_weights, select_consistent};
use crate::field::FieldElement;
use crate::interpolate::InterpolationPlan;
use crate::lifted::{LiftedPlan, decode_elements};
use crate::random::RandomSource;
use crate::scheme::PhaseSecrets;
use crate::scheme::instance::SchemeInstance;
use crate::secret_query::SecretQuery;
use crate::share::SlotVectors;
use zeroize::{Zeroize, Zeroizing};

/// State of the client for one phase.
#[derive(Debug)]
pub struct PhaseState {
    phase: usize,
    secrets: PhaseSecrets,
    shares: Vec<SlotVectors>,
    committed: Vec<SlotVectors>,
    r: Option<FieldElement>,
}

impl Drop for PhaseState {
    fn drop(&mut self) {
        self.secrets.offset.zeroize();
        self.secrets.most.zeroize();
        self.r.zeroize();
    }
}

/// The decoded values of a phase. Wiped on drop.
#[derive(Debug)]
pub struct PhaseValues {
    /// The outputs of the scheme, row by row, without the second half of a verified answer.
    pub values: Vec<FieldElement>,
    /// The values of a row that no share selects.
    pub empty_row: Vec<FieldElement>,
    /// The largest value of a matching row, with [`DecodeRule::Scaled`](crate::scheme::DecodeRule).
    pub most: u64,
    /// Lying servers that were excluded, counted from 1.
    pub lying_servers: Vec<usize>,
}

impl Drop for PhaseValues {
    fn drop(&mut self) {
        self.values.zeroize();
        self.empty_row.zeroize();
        self.most.zeroize();
    }
}

impl PhaseValues {
    /// The values with which every row is compared.
    pub(crate) fn reference(&self) -> ReferenceValues {
        ReferenceValues::new(&self.empty_row, self.most)
    }
}

/// The values of the user with which every decoded value is compared.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReferenceValues {
    /// The value of a row that no share selects.
    pub(crate) empty: u64,
    /// The largest value of a matching row, with [`DecodeRule::Scaled`](crate::scheme::DecodeRule).
    pub(crate) most: u64,
}

impl ReferenceValues {
    fn new(empty_row: &[FieldElement], most: u64) -> ReferenceValues {
        ReferenceValues { empty: empty_row.first().map_or(0, |element| element.value()), most }
    }
}

/// Why a phase could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PhaseError {
    /// The answers do not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An answer has the wrong number of field elements.
    #[error("an answer has {have} field elements instead of {need}")]
    Length {
        /// Elements received.
        have: usize,
        /// Elements expected.
        need: usize,
    },
    /// The second, scaled answer is not r times the first.
    #[error("a server lied: position {position} fails verification")]
    Unverified {
        /// Counted from 0.
        position: usize,
    },
}

impl PhaseState {
    /// Shares the secrets of a phase. `theta` are the rows that the phase before selected; `before`
    /// is the state of that phase.
    pub fn new(
        instance: &SchemeInstance,
        phase: usize,
        secret: &SecretQuery,
        theta: &[bool],
        before: Option<&PhaseState>,
        random: &mut (impl RandomSource + ?Sized),
    ) -> PhaseState {
        let r = instance.params().verified.then(|| instance.field().sample_nonzero(random));
        let secrets = instance.phase_secrets(phase, secret, theta, r);
        let committed = before.map_or(&[][..], |before| before.committed.as_slice());
        let shares = instance.share(phase, &secrets.vectors, committed, random);
        let committed = match (phase, instance.share_commitments()) {
            // Θ is not known yet; no committed slot depends on it.
            (0, 1..) => {
                instance.committed_shares(&instance.phase_secrets(1, secret, &[], None).vectors, &shares, random)
            }
            _ => vec![],
        };
        PhaseState { phase, secrets, shares, committed, r }
    }

    /// The shares, one entry per responder.
    pub fn shares(&self) -> &[SlotVectors] {
        &self.shares
    }

    /// The shares of phase 1 to which phase 0 commits, one entry per server of phase 1.
    pub fn committed(&self) -> &[SlotVectors] {
        &self.committed
    }

    /// Decodes the answers of the responders (`None` if an answer is missing).
    pub fn decode(
        &self,
        instance: &SchemeInstance,
        mut answers: Vec<Option<Vec<FieldElement>>>,
        random: &mut dyn RandomSource,
    ) -> Result<PhaseValues, PhaseError> {
        if instance.lifted().is_some() {
            return self.decode_lifted(instance, &answers);
        }
        let field = instance.field();
        let outputs = instance.outputs(self.phase);
        for (answer, share) in answers.iter_mut().zip(&self.shares) {
            let Some(answer) = answer else { continue };
            let need = instance.answer_length(self.phase);
            if answer.len() != need {
                return Err(PhaseError::Length { have: answer.len(), need });
            }
            let known = self.known(instance, share);
            for row in answer.chunks_exact_mut(outputs) {
                row.iter_mut().zip(&known).for_each(|(element, &known)| *element = field.sub(*element, known));
            }
        }
        let points = &instance.points()[..instance.responders(self.phase)];
        let (kappa, lying) = (instance.kappa(self.phase), instance.params().lying);
        let agreed = select_consistent(field, points, kappa, lying, &answers, random)?;
        let mut values = agreed.coefficient(field, 0);
        if let Some(r) = self.r {
            values = self.verified(instance, values, r)?;
        }
        let empty_row = self.empty_row(instance);
        for row in values.chunks_exact_mut(empty_row.len()) {
            row.iter_mut().zip(&empty_row).for_each(|(value, &known)| *value = field.add(*value, known));
        }
        Ok(PhaseValues { values, empty_row, most: self.secrets.most, lying_servers: agreed.lying_servers })
    }

    /// Decodes the answers of both servers to a lifted gate.
    fn decode_lifted(
        &self,
        instance: &SchemeInstance,
        answers: &[Option<Vec<FieldElement>>],
    ) -> Result<PhaseValues, PhaseError> {
        let empty_row = self.empty_row(instance);
        let silent: Vec<usize> = (1..).zip(answers).filter(|(_, answer)| answer.is_none()).map(|(n, _)| n).collect();
        let present: Vec<&Vec<FieldElement>> = answers.iter().flatten().collect();
        let (Some(format), &[first, second]) = (instance.lifted(), present.as_slice()) else {
            return Err(DecodeError::TooFewAnswers { have: present.len(), need: 2, silent }.into());
        };
        let need = instance.answer_length(self.phase);
        if let Some(answer) = present.iter().find(|answer| answer.len() != need) {
            return Err(PhaseError::Length { have: answer.len(), need });
        }
        let mut values = Vec::with_capacity(need);
        for (first, second) in first.as_chunks().0.iter().zip(second.as_chunks().0) {
            let value = decode_elements(format, *first, *second);
            values.extend([value.gate, format.cost_field().add(value.cost, empty_row[1])]);
        }
        Ok(PhaseValues { values, empty_row, most: self.secrets.most, lying_servers: vec![] })
    }

    /// How to decode the answers of both servers, if the gate is lifted.
    pub(crate) fn lifted_plan(&self, instance: &SchemeInstance, top: usize) -> Option<LiftedPlan> {
        let offset = self.empty_row(instance).pop()?;
        let bound = u64::try_from((instance.scheme().bound)(instance.params())).unwrap_or(u64::MAX);
        Some(LiftedPlan { format: instance.lifted()?.clone(), offset, bound, rows: instance.params().rows, top })
    }

    /// The interpolation plan for the answers of `servers` (counted from 0), and the values with
    /// which every row is compared. The result is `None` if there is more to do: spare answers that
    /// allow correction, or verification.
    pub(crate) fn interpolation(
        &self,
        instance: &SchemeInstance,
        servers: &[usize],
    ) -> Option<(InterpolationPlan, ReferenceValues)> {
        if instance.lifted().is_some() || self.r.is_some() || servers.len() != instance.kappa(self.phase) + 1 {
            return None;
        }
        let field = instance.field();
        let points: Option<Vec<FieldElement>> =
            servers.iter().map(|&server| instance.points().get(server).copied()).collect();
        let weights = coefficient_weights(field, &points?, 0);
        let empty_row = self.empty_row(instance);
        let mut constants = empty_row.clone();
        for (&server, &weight) in servers.iter().zip(&weights) {
            let known = self.known(instance, self.shares.get(server)?);
            for (constant, known) in constants.iter_mut().zip(known) {
                *constant = field.sub(*constant, field.mul(weight, known));
            }
        }
        let reference = ReferenceValues::new(&empty_row, self.secrets.most);
        Some((InterpolationPlan { field: field.clone(), weights, constants }, reference))
    }

    /// The known part of the outputs of a server with these shares.
    fn known(&self, instance: &SchemeInstance, share: &SlotVectors) -> Vec<FieldElement> {
        let program = instance.program(self.phase, share);
        (0..instance.outputs(self.phase)).map(|output| program.known_part(output)).collect()
    }

    /// The known part at 0, which is the value of a row that no share selects.
    fn empty_row(&self, instance: &SchemeInstance) -> Vec<FieldElement> {
        // The program contains all secrets.
        let program = Zeroizing::new(instance.program(self.phase, &self.secrets.vectors));
        let plain = instance.outputs(self.phase) / if self.r.is_some() { 2 } else { 1 };
        let mut empty_row: Vec<FieldElement> = (0..plain).map(|output| program.known_part(output)).collect();
        // The offset belongs to the cost, which is the last output.
        if let Some(last) = empty_row.last_mut() {
            *last = instance.field().add(*last, self.secrets.offset);
        }
        empty_row
    }

    /// The first half of each row, if the second half is r times the first in all rows.
    fn verified(
        &self,
        instance: &SchemeInstance,
        values: Vec<FieldElement>,
        r: FieldElement,
    ) -> Result<Vec<FieldElement>, PhaseError> {
        let outputs = instance.outputs(self.phase);
        let mut first = Vec::with_capacity(values.len() / 2);
        let mut failed = None;
        for (position, row) in values.chunks_exact(outputs).enumerate() {
            let (plain, scaled) = row.split_at(outputs / 2);
            let honest = plain.iter().zip(scaled).all(|(&plain, &scaled)| instance.field().mul(r, plain) == scaled);
            if !honest && failed.is_none() {
                failed = Some(position);
            }
            first.extend_from_slice(plain);
        }
        failed.map_or(Ok(first), |position| Err(PhaseError::Unverified { position }))
    }
}
