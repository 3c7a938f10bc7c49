//! Random rows, a query with the chosen row function as N servers receive it, and the nearest row.
//!
//! Every row function here is linear in its shares: server n holds `coefficient + α_n·Z` with
//! uniform Z. The field elements that the kernels see are therefore uniform, as in a real search.
//! Interpolation of the answers at 0 gives the value for the secret coefficients.

use super::{BenchClock, BenchOptions, BenchRowFunction};
use crate::BenchError;
use ifonly_algebra::field::{Field, FieldElement, ModulusRule};
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_algebra::row_function::{OutputExpr, RowFunction, RowFunctionKind, RowProgram};
use ifonly_scan::RowStore;
use ifonly_scan::decode::InterpolationPlan;

/// Weights of the weighted and gated row functions are 1..=MAX_WEIGHT.
const MAX_WEIGHT: u64 = 7;

pub(super) struct Setup {
    pub(super) field: Field,
    pub(super) store: RowStore,
    /// Seconds to build the store from rows, and to open its serialised bytes with all checks.
    pub(super) once: [f64; 2],
    /// The rows again, one after another, for the plain row loop.
    pub(super) rows: Vec<u16>,
    secret: RowProgram,
    alphas: Vec<FieldElement>,
    /// What the client adds to each decoded output, such as `‖x‖²`.
    constants: Vec<FieldElement>,
    pub(super) kappa: usize,
}

impl Setup {
    pub(super) fn new(options: &BenchOptions) -> Result<Setup, BenchError> {
        let mut random = SeededRandom::new(options.seed);
        let (d, max_level) = (options.features, options.max_level);
        let rows = random_levels(&mut random, options.rows * d, max_level);
        let mut built = None;
        let build =
            BenchClock::Thread.time(&mut || built = Some(RowStore::build(&vec![max_level; d], rows.chunks_exact(d))));
        let store = built.ok_or_else(|| BenchError::machine("no store was built"))?.map_err(BenchError::machine)?;
        let mut bytes = Vec::with_capacity(store.data().len() + 4096);
        store.write_to(&mut bytes).map_err(BenchError::machine)?;
        let mut opened = Ok(());
        let open = BenchClock::Thread.time(&mut || opened = RowStore::from_bytes(std::mem::take(&mut bytes)).map(drop));
        opened.map_err(BenchError::machine)?;
        let profile = random_levels(&mut random, d, max_level);
        let field = field_of(options)?;
        let (secret, constants) = secret_program(options.row_function, &field, &profile, max_level, &mut random);
        let alphas = alphas(&field, options.servers);
        let once = [build.as_secs_f64(), open.as_secs_f64()];
        Ok(Setup { field, store, once, rows, secret, alphas, constants, kappa: options.servers - 1 })
    }

    pub(super) fn alpha(&self, server: usize) -> FieldElement {
        self.alphas[server]
    }

    /// Field elements per row.
    pub(super) fn outputs(&self) -> usize {
        self.secret.outputs.len()
    }

    /// The row program of every server: secret coefficients plus α·Z.
    pub(super) fn programs(&self) -> Vec<RowProgram> {
        let mask = |alpha: FieldElement, random: &mut SeededRandom, s: &FieldElement| {
            self.field.mul_add(alpha, self.field.sample(random), *s)
        };
        self.alphas
            .iter()
            .map(|&alpha| {
                // Every server gets the same seed, so that Z is the same.
                let mut random = SeededRandom::new(77);
                let mut program = self.secret.clone();
                for function in &mut program.functions {
                    match &mut function.kind {
                        RowFunctionKind::Linear { slope, .. } => {
                            slope.iter_mut().for_each(|s| *s = mask(alpha, &mut random, s))
                        }
                        RowFunctionKind::Polynomial(vectors) | RowFunctionKind::Table(vectors) => {
                            vectors.iter_mut().flatten().for_each(|s| *s = mask(alpha, &mut random, s));
                        }
                    }
                    function.constant = mask(alpha, &mut random, &function.constant);
                }
                program
            })
            .collect()
    }

    /// The Lagrange weights at 0.
    pub(super) fn interpolation(&self) -> InterpolationPlan {
        let field = &self.field;
        let weights = self.alphas.iter().map(|&alpha| {
            let others = self.alphas.iter().filter(|&&other| other != alpha);
            others.fold(FieldElement::ONE, |weight, &other| {
                let inverse = field.inverse(field.sub(other, alpha)).expect("evaluation points differ");
                field.mul(weight, field.mul(other, inverse))
            })
        });
        InterpolationPlan { field: field.clone(), weights: weights.collect(), constants: self.constants.clone() }
    }

    /// The value and the first position of the nearest row, by the plain evaluator; `None` if no
    /// row passes the gate.
    pub(super) fn nearest(&self) -> Option<(u64, usize)> {
        let field = &self.field;
        let d = self.store.features();
        let cost = self.secret.functions.len() - 1;
        let constant = self.constants.last().copied().unwrap_or_default();
        let rows = self.rows.chunks_exact(d).enumerate();
        let matching = rows.filter(|(_, row)| cost == 0 || self.secret.functions[0].evaluate(field, row).is_zero());
        matching
            .map(|(i, row)| (field.add(self.secret.functions[cost].evaluate(field, row), constant).value(), i))
            .min()
    }
}

/// Random levels, uniform up to a rounding of 2^-16.
pub(super) fn random_levels(random: &mut SeededRandom, count: usize, max_level: u32) -> Vec<u16> {
    let mut bytes = vec![0; count * 2];
    random.fill(&mut bytes);
    let level = |b: &[u8; 2]| ((u32::from(u16::from_le_bytes(*b)) * (max_level + 1)) >> 16) as u16;
    bytes.as_chunks::<2>().0.iter().map(level).collect()
}

/// Evaluation points ±1, ±2, …: decoding is cheapest with the points ±1.
fn alphas(field: &Field, servers: usize) -> Vec<FieldElement> {
    (0..servers as i64).map(|n| field.reduce_signed(if n % 2 == 0 { 1 + n / 2 } else { -1 - n / 2 })).collect()
}

fn field_of(options: &BenchOptions) -> Result<Field, BenchError> {
    let delta = u128::from(options.max_level).pow(2) * options.features as u128;
    let bound = match options.row_function {
        BenchRowFunction::Baseline => delta,
        BenchRowFunction::Weighted | BenchRowFunction::Gated => delta * u128::from(MAX_WEIGHT),
        BenchRowFunction::Table | BenchRowFunction::GatedTable | BenchRowFunction::Lifted => {
            u128::from(options.max_level) * options.features as u128 * u128::from(MAX_WEIGHT)
        }
    };
    let bound = match options.bits {
        Some(bits) if 1 << bits <= bound => {
            let reason = format!("a field of {bits} bits is too small: values of this row function go up to {bound}");
            return Err(BenchError::input(reason));
        }
        Some(bits) => (1 << (bits - 1)) + 1,
        None => bound,
    };
    Field::above(bound, ModulusRule::Deployment).map_err(BenchError::input)
}

/// The row program of the secret profile, and what the client adds to each decoded output.
fn secret_program(
    function: BenchRowFunction,
    field: &Field,
    profile: &[u16],
    max_level: u32,
    random: &mut SeededRandom,
) -> (RowProgram, Vec<FieldElement>) {
    let level = |y: u16| field.reduce(u64::from(y));
    let weights: Vec<FieldElement> = profile.iter().map(|_| field.reduce(1 + random.below(MAX_WEIGHT))).collect();
    let minus_two = field.reduce_signed(-2);
    let squares = || {
        let cross = |(&x, &w): (&u16, &FieldElement)| field.mul(minus_two, field.mul(w, level(x)));
        RowFunction {
            kind: RowFunctionKind::Polynomial(vec![profile.iter().zip(&weights).map(cross).collect(), weights.clone()]),
            constant: FieldElement::ZERO,
        }
    };
    let weighted_norm = profile
        .iter()
        .zip(&weights)
        .fold(FieldElement::ZERO, |sum, (&x, &w)| field.mul_add(w, field.mul(level(x), level(x)), sum));
    let tables = |entry: &dyn Fn(usize, u16) -> FieldElement| RowFunction {
        kind: RowFunctionKind::Table(
            (0..profile.len()).map(|k| (0..=max_level as u16).map(|y| entry(k, y)).collect()).collect(),
        ),
        constant: FieldElement::ZERO,
    };
    let absolute = |k: usize, y: u16| field.mul(weights[k], field.reduce(u64::from(y.abs_diff(profile[k]))));
    // The gate allows the first feature to change by a sixteenth of the max level.
    let violates = |k: usize, y: u16| k == 0 && u32::from(y.abs_diff(profile[0])) > max_level / 16;
    let gate_table = tables(&|k, y| if violates(k, y) { FieldElement::ONE } else { FieldElement::ZERO });
    let gated = vec![OutputExpr::Blinded(0), OutputExpr::Hidden { cost: 1, gate: 0 }];
    match function {
        BenchRowFunction::Baseline => {
            let slope = profile.iter().map(|&x| field.mul(minus_two, level(x))).collect();
            let norm = profile.iter().fold(FieldElement::ZERO, |sum, &x| field.mul_add(level(x), level(x), sum));
            let function = RowFunction {
                kind: RowFunctionKind::Linear { norm: FieldElement::ONE, slope },
                constant: FieldElement::ZERO,
            };
            (RowProgram::new([function], [OutputExpr::Plain(0)]), vec![norm])
        }
        BenchRowFunction::Weighted => (RowProgram::new([squares()], [OutputExpr::Plain(0)]), vec![weighted_norm]),
        BenchRowFunction::Table => {
            (RowProgram::new([tables(&absolute)], [OutputExpr::Plain(0)]), vec![FieldElement::ZERO])
        }
        BenchRowFunction::Gated => {
            // The gate as a quadratic function: feature 0 must not change, (y − x)² = 0.
            let mut linear = vec![FieldElement::ZERO; profile.len()];
            let mut square = linear.clone();
            linear[0] = field.mul(minus_two, level(profile[0]));
            square[0] = FieldElement::ONE;
            let constant = field.mul(level(profile[0]), level(profile[0]));
            let gate = RowFunction { kind: RowFunctionKind::Polynomial(vec![linear, square]), constant };
            (RowProgram::new([gate, squares()], gated), vec![FieldElement::ZERO, weighted_norm])
        }
        BenchRowFunction::GatedTable | BenchRowFunction::Lifted => {
            (RowProgram::new([gate_table, tables(&absolute)], gated), vec![FieldElement::ZERO, FieldElement::ZERO])
        }
    }
}
