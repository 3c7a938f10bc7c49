//! One phase on the user's side, at the level of symbols: share, cancel, decode, verify.
//!
//! Whoever made the shares can compute the part of each answer that has neither y nor a server's
//! secret in it: the known part of the program that server n runs. It is subtracted from server n's
//! answers, at all degrees at once; what is left has degree κ. After interpolation the known part
//! at 0, the program of the secrets themselves, is added back.

use crate::decode::{DecodeError, coefficient_weights, select_consistent};
use crate::field::FieldElement;
use crate::interpolate::InterpolationPlan;
use crate::random::RandomSource;
use crate::scheme::PhaseSecrets;
use crate::scheme::instance::SchemeInstance;
use crate::secret_query::SecretQuery;
use crate::share::SlotVectors;
use zeroize::{Zeroize, Zeroizing};

/// What the user keeps of one phase.
#[derive(Debug)]
pub struct PhaseState {
    phase: usize,
    opening: PhaseSecrets,
    shares: Vec<SlotVectors>,
    promised: Vec<SlotVectors>,
    r: Option<FieldElement>,
}

impl Drop for PhaseState {
    fn drop(&mut self) {
        self.opening.offset.zeroize();
        self.r.zeroize();
    }
}

/// The decoded values of a phase. Wiped on drop.
#[derive(Debug)]
pub struct PhaseValues {
    /// Row by row, the scheme's outputs (without the verification's).
    pub values: Vec<FieldElement>,
    /// The values of a row that no share selects.
    pub empty_row: Vec<FieldElement>,
    /// Who lied and was left out, counted from 1.
    pub lying_servers: Vec<usize>,
}

impl Drop for PhaseValues {
    fn drop(&mut self) {
        self.values.zeroize();
        self.empty_row.zeroize();
    }
}

/// Why a phase gave no values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PhaseError {
    /// The answers do not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An answer has the wrong number of symbols for the scheme.
    #[error("the answers have {have} symbols instead of {need}")]
    Length {
        /// Symbols that came.
        have: usize,
        /// Symbols expected.
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
    /// Shares the secrets of a phase. `theta` is what the phase before found, `before` that phase.
    pub fn new(
        instance: &SchemeInstance,
        phase: usize,
        secret: &SecretQuery,
        theta: &[bool],
        before: Option<&PhaseState>,
        random: &mut (impl RandomSource + ?Sized),
    ) -> PhaseState {
        let r = instance.params().verified.then(|| instance.field().sample_nonzero(random));
        let opening = instance.open(phase, secret, theta, r);
        let promised = before.map_or(&[][..], |round| round.promised.as_slice());
        let shares = instance.share(phase, &opening.vectors, promised, random);
        let promised = match (phase, instance.share_commitments()) {
            // Without Θ, which is not known yet and in no promised slot.
            (0, 1..) => instance.committed_shares(&instance.open(1, secret, &[], None).vectors, &shares, random),
            _ => vec![],
        };
        PhaseState { phase, opening, shares, promised, r }
    }

    /// The shares, one entry per responder.
    pub fn shares(&self) -> &[SlotVectors] {
        &self.shares
    }

    /// What the first phase promises to show to each server of the second.
    pub fn committed(&self) -> &[SlotVectors] {
        &self.promised
    }

    /// The values behind the answers of the responders (`None` for a silent one).
    pub fn decode(
        &self,
        instance: &SchemeInstance,
        mut answers: Vec<Option<Vec<FieldElement>>>,
        random: &mut dyn RandomSource,
    ) -> Result<PhaseValues, PhaseError> {
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
        Ok(PhaseValues { values, empty_row, lying_servers: agreed.lying_servers })
    }

    /// How the answers of `spoke` (counted from 0) become values, and the values of a row that no
    /// share selects, if that is all there is to do: no answer to spare that others could be
    /// checked by, and no second, scaled answer.
    pub(crate) fn interpolation(
        &self,
        instance: &SchemeInstance,
        spoke: &[usize],
    ) -> Option<(InterpolationPlan, Vec<FieldElement>)> {
        if self.r.is_some() || spoke.len() != instance.kappa(self.phase) + 1 {
            return None;
        }
        let field = instance.field();
        let points: Option<Vec<FieldElement>> =
            spoke.iter().map(|&server| instance.points().get(server).copied()).collect();
        let weights = coefficient_weights(field, &points?, 0);
        let empty_row = self.empty_row(instance);
        let mut constants = empty_row.clone();
        for (&server, &weight) in spoke.iter().zip(&weights) {
            let known = self.known(instance, self.shares.get(server)?);
            for (constant, known) in constants.iter_mut().zip(known) {
                *constant = field.sub(*constant, field.mul(weight, known));
            }
        }
        Some((InterpolationPlan { field: field.clone(), weights, constants }, empty_row))
    }

    /// The part without y of what a server with these shares answers for a row.
    fn known(&self, instance: &SchemeInstance, share: &SlotVectors) -> Vec<FieldElement> {
        let program = instance.program(self.phase, share);
        (0..instance.outputs(self.phase)).map(|output| program.known_part(output)).collect()
    }

    /// What is added back at 0, which is the value of a row that no share selects.
    fn empty_row(&self, instance: &SchemeInstance) -> Vec<FieldElement> {
        // The program of the secrets themselves holds them all.
        let program = Zeroizing::new(instance.program(self.phase, &self.opening.vectors));
        let plain = instance.outputs(self.phase) / if self.r.is_some() { 2 } else { 1 };
        let mut empty_row: Vec<FieldElement> = (0..plain).map(|output| program.known_part(output)).collect();
        // The offset belongs to the cost, which is the last output.
        if let Some(last) = empty_row.last_mut() {
            *last = instance.field().add(*last, self.opening.offset);
        }
        empty_row
    }

    /// The first half of each row, if the second is r times it everywhere.
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
