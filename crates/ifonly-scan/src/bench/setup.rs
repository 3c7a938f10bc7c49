//! What is measured: random rows, a query of the chosen form as N servers see it, and the true nearest row to check by.
//!
//! Every form here is linear in its shares: server n holds `coefficient + α_n·Z` with Z uniform, so the numbers that the
//! kernels see are as large as they ever are. Interpolating the answers at 0 gives the value for the secret coefficients.

use super::{BenchForm, Clock, Options};
use crate::decode::Interpolation;
use crate::store::RowStore;
use ifonly_algebra::field::FieldRule;
use ifonly_algebra::field::{Field, Symbol};
use ifonly_algebra::form::{Form, Output, Program, Shape};
use ifonly_algebra::random::{Random, SeededRandom};

/// Weights of the weighted and gated forms lie in 1..=LARGEST_WEIGHT.
const LARGEST_WEIGHT: u64 = 7;

pub(super) struct Setup {
    pub(super) field: Field,
    pub(super) store: RowStore,
    /// Seconds to build the store from rows, and to open its serialised bytes with all checks.
    pub(super) once: [f64; 2],
    /// The rows again, one after another, as a plain program would keep them.
    pub(super) rows: Vec<u16>,
    secret: Program,
    alphas: Vec<Symbol>,
    /// The secret coefficients' constant, added after decoding: `‖x‖²` and the like.
    constants: Vec<Symbol>,
    pub(super) kappa: usize,
}

impl Setup {
    pub(super) fn new(options: &Options) -> Result<Setup, String> {
        let mut random = SeededRandom::new(options.seed);
        let (d, range) = (options.features, options.range);
        let rows = random_levels(&mut random, options.rows * d, range);
        let mut built = None;
        let build = Clock::Thread.time(&mut || built = Some(RowStore::build(&vec![range; d], rows.chunks_exact(d))));
        let store = built.ok_or("nothing was built")?.map_err(|error| error.to_string())?;
        let mut bytes = Vec::with_capacity(store.data().len() + 4096);
        store.write_to(&mut bytes).map_err(|error| error.to_string())?;
        let mut opened = Ok(());
        let open = Clock::Thread.time(&mut || opened = RowStore::from_bytes(std::mem::take(&mut bytes)).map(drop));
        opened.map_err(|error| error.to_string())?;
        let profile = random_levels(&mut random, d, range);
        let field = field_of(options)?;
        let (secret, constants) = secret_program(options.form, &field, &profile, range, &mut random);
        let alphas = alphas(&field, options.servers);
        let once = [build.as_secs_f64(), open.as_secs_f64()];
        Ok(Setup { field, store, once, rows, secret, alphas, constants, kappa: options.servers - 1 })
    }

    pub(super) fn alpha(&self, server: usize) -> Symbol {
        self.alphas[server]
    }

    /// Symbols per row.
    pub(super) fn outputs(&self) -> usize {
        self.secret.outputs.len()
    }

    /// The program of every server: secret coefficients plus α·Z.
    pub(super) fn programs(&self) -> Vec<Program> {
        let mask = |alpha: Symbol, random: &mut SeededRandom, s: &Symbol| {
            self.field.mul_add(alpha, self.field.sample(random), *s)
        };
        self.alphas
            .iter()
            .map(|&alpha| {
                // The same seed for each server, so that Z is the same.
                let mut random = SeededRandom::new(77);
                let mut program = self.secret.clone();
                for form in &mut program.forms {
                    match &mut form.shape {
                        Shape::Linear { slope, .. } => slope.iter_mut().for_each(|s| *s = mask(alpha, &mut random, s)),
                        Shape::Polynomial(vectors) | Shape::Table(vectors) => {
                            vectors.iter_mut().flatten().for_each(|s| *s = mask(alpha, &mut random, s));
                        }
                    }
                    form.constant = mask(alpha, &mut random, &form.constant);
                }
                program
            })
            .collect()
    }

    /// Lagrange's weights at 0.
    pub(super) fn interpolation(&self) -> Interpolation {
        let field = &self.field;
        let weights = self.alphas.iter().map(|&alpha| {
            let others = self.alphas.iter().filter(|&&other| other != alpha);
            others.fold(Symbol::ONE, |weight, &other| {
                let inverse = field.inverse(field.sub(other, alpha)).expect("evaluation points differ");
                field.mul(weight, field.mul(other, inverse))
            })
        });
        Interpolation { field: field.clone(), weights: weights.collect(), constants: self.constants.clone() }
    }

    /// The nearest row by the plain evaluator: its value and its first position; `None` if no row passes the gate.
    pub(super) fn nearest(&self) -> Option<(u64, usize)> {
        let field = &self.field;
        let d = self.store.features();
        let cost_form = self.secret.forms.len() - 1;
        let constant = self.constants.last().copied().unwrap_or_default();
        let rows = self.rows.chunks_exact(d).enumerate();
        let open = rows.filter(|(_, row)| cost_form == 0 || self.secret.forms[0].evaluate(field, row).is_zero());
        open.map(|(i, row)| (field.add(self.secret.forms[cost_form].evaluate(field, row), constant).value(), i)).min()
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
fn alphas(field: &Field, servers: usize) -> Vec<Symbol> {
    (0..servers as i64).map(|n| field.reduce_signed(if n % 2 == 0 { 1 + n / 2 } else { -1 - n / 2 })).collect()
}

fn field_of(options: &Options) -> Result<Field, String> {
    let delta = u128::from(options.range).pow(2) * options.features as u128;
    let bound = match options.form {
        BenchForm::Baseline => delta,
        BenchForm::Weighted | BenchForm::Gated => delta * u128::from(LARGEST_WEIGHT),
        BenchForm::Table | BenchForm::GatedTable => {
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
    Field::above(bound, FieldRule::Deployment).map_err(|error| error.to_string())
}

/// The forms for the secret profile, and what is added after decoding.
fn secret_program(
    form: BenchForm,
    field: &Field,
    profile: &[u16],
    range: u32,
    random: &mut SeededRandom,
) -> (Program, Vec<Symbol>) {
    let level = |y: u16| field.reduce(u64::from(y));
    let weights: Vec<Symbol> = profile.iter().map(|_| field.reduce(1 + random.below(LARGEST_WEIGHT))).collect();
    let minus_two = field.reduce_signed(-2);
    let squares = || {
        let cross = |(&x, &w): (&u16, &Symbol)| field.mul(minus_two, field.mul(w, level(x)));
        Form {
            shape: Shape::Polynomial(vec![profile.iter().zip(&weights).map(cross).collect(), weights.clone()]),
            constant: Symbol::ZERO,
        }
    };
    let weighted_norm = profile
        .iter()
        .zip(&weights)
        .fold(Symbol::ZERO, |sum, (&x, &w)| field.mul_add(w, field.mul(level(x), level(x)), sum));
    let tables = |entry: &dyn Fn(usize, u16) -> Symbol| Form {
        shape: Shape::Table((0..profile.len()).map(|k| (0..=range as u16).map(|y| entry(k, y)).collect()).collect()),
        constant: Symbol::ZERO,
    };
    let absolute = |k: usize, y: u16| field.mul(weights[k], field.reduce(u64::from(y.abs_diff(profile[k]))));
    // The gate asks that the first feature stays within a sixteenth of its range.
    let violates = |k: usize, y: u16| k == 0 && u32::from(y.abs_diff(profile[0])) > range / 16;
    let gate_table = tables(&|k, y| if violates(k, y) { Symbol::ONE } else { Symbol::ZERO });
    let gated = vec![Output::Blinded(0), Output::Hidden { cost: 1, gate: 0 }];
    match form {
        BenchForm::Baseline => {
            let slope = profile.iter().map(|&x| field.mul(minus_two, level(x))).collect();
            let norm = profile.iter().fold(Symbol::ZERO, |sum, &x| field.mul_add(level(x), level(x), sum));
            let form = Form { shape: Shape::Linear { norm: Symbol::ONE, slope }, constant: Symbol::ZERO };
            (Program::new([form], [Output::Plain(0)]), vec![norm])
        }
        BenchForm::Weighted => (Program::new([squares()], [Output::Plain(0)]), vec![weighted_norm]),
        BenchForm::Table => (Program::new([tables(&absolute)], [Output::Plain(0)]), vec![Symbol::ZERO]),
        BenchForm::Gated => {
            // The gate as a quadratic form: feature 0 unchanged, (y − x)².
            let mut linear = vec![Symbol::ZERO; profile.len()];
            let mut square = linear.clone();
            linear[0] = field.mul(minus_two, level(profile[0]));
            square[0] = Symbol::ONE;
            let constant = field.mul(level(profile[0]), level(profile[0]));
            let gate = Form { shape: Shape::Polynomial(vec![linear, square]), constant };
            (Program::new([gate, squares()], gated), vec![Symbol::ZERO, weighted_norm])
        }
        BenchForm::GatedTable => {
            (Program::new([gate_table, tables(&absolute)], gated), vec![Symbol::ZERO, Symbol::ZERO])
        }
    }
}
