//! One phase on the user's side, at the level of symbols: share, cancel, decode, verify.
//!
//! Whoever made the shares can compute the part of each answer that has neither y nor a server's secret in it: the known
//! part of the program that server n runs. It is subtracted from server n's answers, at all degrees at once; what is left
//! has degree κ. After interpolation the known part at 0, the program of the secrets themselves, is added back.

use crate::decode::{DecodeError, coefficient_weights, select_consistent};
use crate::scheme::instance::SchemeInstance;
use crate::field::FieldElement;
use crate::interpolate::InterpolationPlan;
use crate::random::RandomSource;
use crate::scheme::PhaseSecrets;
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
    pub liars: Vec<usize>,
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
        deployment: &SchemeInstance,
        phase: usize,
        secret: &SecretQuery,
        theta: &[bool],
        before: Option<&PhaseState>,
        random: &mut (impl RandomSource + ?Sized),
    ) -> PhaseState {
        let r = deployment.params().verified.then(|| deployment.field().sample_nonzero(random));
        let opening = deployment.open(phase, secret, theta, r);
        let promised = before.map_or(&[][..], |round| round.promised.as_slice());
        let shares = deployment.share(phase, &opening.vectors, promised, random);
        let promised = match (phase, deployment.share_commitments()) {
            // Without Θ, which is not known yet and in no promised slot.
            (0, 1..) => deployment.committed_shares(&deployment.open(1, secret, &[], None).vectors, &shares, random),
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
        deployment: &SchemeInstance,
        mut answers: Vec<Option<Vec<FieldElement>>>,
        random: &mut dyn RandomSource,
    ) -> Result<PhaseValues, PhaseError> {
        let field = deployment.field();
        let outputs = deployment.outputs(self.phase);
        for (answer, share) in answers.iter_mut().zip(&self.shares) {
            let Some(answer) = answer else { continue };
            let need = deployment.answer_length(self.phase);
            if answer.len() != need {
                return Err(PhaseError::Length { have: answer.len(), need });
            }
            let known = self.known(deployment, share);
            for row in answer.chunks_exact_mut(outputs) {
                row.iter_mut().zip(&known).for_each(|(symbol, &known)| *symbol = field.sub(*symbol, known));
            }
        }
        let points = &deployment.points()[..deployment.responders(self.phase)];
        let (kappa, lying) = (deployment.kappa(self.phase), deployment.params().lying);
        let agreed = select_consistent(field, points, kappa, lying, &answers, random)?;
        let mut values = agreed.coefficient(field, 0);
        if let Some(r) = self.r {
            values = self.verified(deployment, values, r)?;
        }
        let empty_row = self.empty_row(deployment);
        for row in values.chunks_exact_mut(empty_row.len()) {
            row.iter_mut().zip(&empty_row).for_each(|(value, &known)| *value = field.add(*value, known));
        }
        Ok(PhaseValues { values, empty_row, liars: agreed.liars })
    }

    /// How the answers of `spoke` (counted from 0) become values, and the values of a row that no share selects, if that is
    /// all there is to do: no answer to spare that others could be checked by, and no second, scaled answer.
    pub(crate) fn interpolation(
        &self,
        deployment: &SchemeInstance,
        spoke: &[usize],
    ) -> Option<(InterpolationPlan, Vec<FieldElement>)> {
        if self.r.is_some() || spoke.len() != deployment.kappa(self.phase) + 1 {
            return None;
        }
        let field = deployment.field();
        let points: Option<Vec<FieldElement>> =
            spoke.iter().map(|&server| deployment.points().get(server).copied()).collect();
        let weights = coefficient_weights(field, &points?, 0);
        let empty_row = self.empty_row(deployment);
        let mut constants = empty_row.clone();
        for (&server, &weight) in spoke.iter().zip(&weights) {
            let known = self.known(deployment, self.shares.get(server)?);
            for (constant, known) in constants.iter_mut().zip(known) {
                *constant = field.sub(*constant, field.mul(weight, known));
            }
        }
        Some((InterpolationPlan { field: field.clone(), weights, constants }, empty_row))
    }

    /// The part without y of what a server with these shares answers for a row.
    fn known(&self, deployment: &SchemeInstance, share: &SlotVectors) -> Vec<FieldElement> {
        let program = deployment.program(self.phase, share);
        (0..deployment.outputs(self.phase)).map(|output| program.known_part(output)).collect()
    }

    /// What is added back at 0, which is the value of a row that no share selects.
    fn empty_row(&self, deployment: &SchemeInstance) -> Vec<FieldElement> {
        // The program of the secrets themselves holds them all.
        let program = Zeroizing::new(deployment.program(self.phase, &self.opening.vectors));
        let plain = deployment.outputs(self.phase) / if self.r.is_some() { 2 } else { 1 };
        let mut empty_row: Vec<FieldElement> = (0..plain).map(|output| program.known_part(output)).collect();
        // The offset belongs to the cost, which is the last output.
        if let Some(last) = empty_row.last_mut() {
            *last = deployment.field().add(*last, self.opening.offset);
        }
        empty_row
    }

    /// The first half of each row, if the second is r times it everywhere.
    fn verified(
        &self,
        deployment: &SchemeInstance,
        values: Vec<FieldElement>,
        r: FieldElement,
    ) -> Result<Vec<FieldElement>, PhaseError> {
        let outputs = deployment.outputs(self.phase);
        let mut first = Vec::with_capacity(values.len() / 2);
        let mut failed = None;
        for (position, row) in values.chunks_exact(outputs).enumerate() {
            let (plain, scaled) = row.split_at(outputs / 2);
            let honest = plain.iter().zip(scaled).all(|(&plain, &scaled)| deployment.field().mul(r, plain) == scaled);
            if !honest && failed.is_none() {
                failed = Some(position);
            }
            first.extend_from_slice(plain);
        }
        failed.map_or(Ok(first), |position| Err(PhaseError::Unverified { position }))
    }
}
