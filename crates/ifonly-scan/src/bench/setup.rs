//! What is measured: random rows, a query of the chosen form as N servers see it, and the true
//! nearest row to check by.
//!
//! Every form here is linear in its shares: server n holds `coefficient + α_n·Z` with Z uniform, so
//! the numbers that the kernels see are as large as they ever are. Interpolating the answers at 0
//! gives the value for the secret coefficients.

use super::{BenchClock, BenchOptions, BenchRowFunction};
use crate::decode::InterpolationPlan;
use crate::row_store::RowStore;
use ifonly_algebra::field::{Field, FieldElement, ModulusRule};
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_algebra::row_function::{OutputExpr, RowFunction, RowFunctionKind, RowProgram};

/// Weights of the weighted and gated forms lie in 1..=LARGEST_WEIGHT.
const LARGEST_WEIGHT: u64 = 7;

pub(super) struct Setup {
    pub(super) field: Field,
    pub(super) store: RowStore,
    /// Seconds to build the store from rows, and to open its serialised bytes with all checks.
    pub(super) once: [f64; 2],
    /// The rows again, one after another, as a plain program would keep them.
    pub(super) rows: Vec<u16>,
    secret: RowProgram,
    alphas: Vec<FieldElement>,
    /// The secret coefficients' constant, added after decoding: `‖x‖²` and the like.
    constants: Vec<FieldElement>,
    pub(super) kappa: usize,
}

impl Setup {
    pub(super) fn new(options: &BenchOptions) -> Result<Setup, String> {
        let mut random = SeededRandom::new(options.seed);
        let (d, range) = (options.features, options.range);
        let rows = random_levels(&mut random, options.rows * d, range);
        let mut built = None;
        let build =
            BenchClock::Thread.time(&mut || built = Some(RowStore::build(&vec![range; d], rows.chunks_exact(d))));
        let store = built.ok_or("nothing was built")?.map_err(|error| error.to_string())?;
        let mut bytes = Vec::with_capacity(store.data().len() + 4096);
        store.write_to(&mut bytes).map_err(|error| error.to_string())?;
        let mut opened = Ok(());
        let open = BenchClock::Thread.time(&mut || opened = RowStore::from_bytes(std::mem::take(&mut bytes)).map(drop));
        opened.map_err(|error| error.to_string())?;
        let profile = random_levels(&mut random, d, range);
        let field = field_of(options)?;
        let (secret, constants) = secret_program(options.function, &field, &profile, range, &mut random);
        let alphas = alphas(&field, options.servers);
        let once = [build.as_secs_f64(), open.as_secs_f64()];
        Ok(Setup { field, store, once, rows, secret, alphas, constants, kappa: options.servers - 1 })
    }

    pub(super) fn alpha(&self, server: usize) -> FieldElement {
        self.alphas[server]
    }

    /// Symbols per row.
    pub(super) fn outputs(&self) -> usize {
        self.secret.outputs.len()
    }

    /// The program of every server: secret coefficients plus α·Z.
    pub(super) fn programs(&self) -> Vec<RowProgram> {
        let mask = |alpha: FieldElement, random: &mut SeededRandom, s: &FieldElement| {
            self.field.mul_add(alpha, self.field.sample(random), *s)
        };
        self.alphas
            .iter()
            .map(|&alpha| {
                // The same seed for each server, so that Z is the same.
                let mut random = SeededRandom::new(77);
                let mut program = self.secret.clone();
                for function in &mut program.functions {
                    match &mut function.shape {
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

    /// Lagrange's weights at 0.
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

    /// The nearest row by the plain evaluator: its value and its first position; `None` if no row
    /// passes the gate.
    pub(super) fn nearest(&self) -> Option<(u64, usize)> {
        let field = &self.field;
        let d = self.store.features();
        let cost_form = self.secret.functions.len() - 1;
        let constant = self.constants.last().copied().unwrap_or_default();
        let rows = self.rows.chunks_exact(d).enumerate();
        let open = rows.filter(|(_, row)| cost_form == 0 || self.secret.functions[0].evaluate(field, row).is_zero());
        open.map(|(i, row)| (field.add(self.secret.functions[cost_form].evaluate(field, row), constant).value(), i))
            .min()
    }
}

/// Uniform levels up to a rounding of 2^-16, quickly.
pub(super) fn random_levels(random: &mut SeededRandom, count: usize, range: u32) -> Vec<u16> {
    let mut bytes = vec![0; count * 2];
    random.fill(&mut bytes);
    let level = |b: &[u8; 2]| ((u32::from(u16::from_le_bytes(*b)) * (range + 1)) >> 16) as u16;
    bytes.as_chunks::<2>().0.iter().map(level).collect()
}

/// ±1 first: the points that make decoding cheapest.
fn alphas(field: &Field, servers: usize) -> Vec<FieldElement> {
    (0..servers as i64).map(|n| field.reduce_signed(if n % 2 == 0 { 1 + n / 2 } else { -1 - n / 2 })).collect()
}

fn field_of(options: &BenchOptions) -> Result<Field, String> {
    let delta = u128::from(options.range).pow(2) * options.features as u128;
    let bound = match options.function {
        BenchRowFunction::Baseline => delta,
        BenchRowFunction::Weighted | BenchRowFunction::Gated => delta * u128::from(LARGEST_WEIGHT),
        BenchRowFunction::Table | BenchRowFunction::GatedTable => {
            u128::from(options.range) * options.features as u128 * u128::from(LARGEST_WEIGHT)
        }
    };
    let bound = match options.bits {
        Some(bits) if 1 << bits <= bound => {
            return Err(format!("{bits} bits do not hold the bound {bound} of this form"));
        }
        Some(bits) => (1 << (bits - 1)) + 1,
        None => bound,
    };
    Field::above(bound, ModulusRule::Deployment).map_err(|error| error.to_string())
}

/// The forms for the secret profile, and what is added after decoding.
fn secret_program(
    function: BenchRowFunction,
    field: &Field,
    profile: &[u16],
    range: u32,
    random: &mut SeededRandom,
) -> (RowProgram, Vec<FieldElement>) {
    let level = |y: u16| field.reduce(u64::from(y));
    let weights: Vec<FieldElement> = profile.iter().map(|_| field.reduce(1 + random.below(LARGEST_WEIGHT))).collect();
    let minus_two = field.reduce_signed(-2);
    let squares = || {
        let cross = |(&x, &w): (&u16, &FieldElement)| field.mul(minus_two, field.mul(w, level(x)));
        RowFunction {
            shape: RowFunctionKind::Polynomial(vec![
                profile.iter().zip(&weights).map(cross).collect(),
                weights.clone(),
            ]),
            constant: FieldElement::ZERO,
        }
    };
    let weighted_norm = profile
        .iter()
        .zip(&weights)
        .fold(FieldElement::ZERO, |sum, (&x, &w)| field.mul_add(w, field.mul(level(x), level(x)), sum));
    let tables = |entry: &dyn Fn(usize, u16) -> FieldElement| RowFunction {
        shape: RowFunctionKind::Table(
            (0..profile.len()).map(|k| (0..=range as u16).map(|y| entry(k, y)).collect()).collect(),
        ),
        constant: FieldElement::ZERO,
    };
    let absolute = |k: usize, y: u16| field.mul(weights[k], field.reduce(u64::from(y.abs_diff(profile[k]))));
    // The gate asks that the first feature stays within a sixteenth of its range.
    let violates = |k: usize, y: u16| k == 0 && u32::from(y.abs_diff(profile[0])) > range / 16;
    let gate_table = tables(&|k, y| if violates(k, y) { FieldElement::ONE } else { FieldElement::ZERO });
    let gated = vec![OutputExpr::Blinded(0), OutputExpr::Hidden { cost: 1, gate: 0 }];
    match function {
        BenchRowFunction::Baseline => {
            let slope = profile.iter().map(|&x| field.mul(minus_two, level(x))).collect();
            let norm = profile.iter().fold(FieldElement::ZERO, |sum, &x| field.mul_add(level(x), level(x), sum));
            let function = RowFunction {
                shape: RowFunctionKind::Linear { norm: FieldElement::ONE, slope },
                constant: FieldElement::ZERO,
            };
            (RowProgram::new([function], [OutputExpr::Plain(0)]), vec![norm])
        }
        BenchRowFunction::Weighted => (RowProgram::new([squares()], [OutputExpr::Plain(0)]), vec![weighted_norm]),
        BenchRowFunction::Table => {
            (RowProgram::new([tables(&absolute)], [OutputExpr::Plain(0)]), vec![FieldElement::ZERO])
        }
        BenchRowFunction::Gated => {
            // The gate as a quadratic form: feature 0 unchanged, (y − x)².
            let mut linear = vec![FieldElement::ZERO; profile.len()];
            let mut square = linear.clone();
            linear[0] = field.mul(minus_two, level(profile[0]));
            square[0] = FieldElement::ONE;
            let constant = field.mul(level(profile[0]), level(profile[0]));
            let gate = RowFunction { shape: RowFunctionKind::Polynomial(vec![linear, square]), constant };
            (RowProgram::new([gate, squares()], gated), vec![FieldElement::ZERO, weighted_norm])
        }
        BenchRowFunction::GatedTable => {
            (RowProgram::new([gate_table, tables(&absolute)], gated), vec![FieldElement::ZERO, FieldElement::ZERO])
        }
    }
}
