//! From a job to its tile program: streams first, then forms, then products, and one dot product
//! per output.

use super::{Step, TileProgram, forms_of, used_forms};
use crate::backend::Kernels;
use crate::dot::limbs8::ByteDot;
use crate::dot::limbs16::{AnyDot, Features, PlaneTerm, Width};
use crate::dot::lookup::LookupTables;
use crate::row_store::RowStore;
use ifonly_algebra::field::FieldElement;
use ifonly_algebra::keys::KeyedRowRandomness;
use ifonly_algebra::row_function::{OutputExpr, RowFunctionKind, ScanJob};

/// What an output is made of before its last step.
pub(super) struct Parts {
    /// A form that goes into the last step itself.
    fused: Option<usize>,
    terms: Vec<PlaneTerm>,
    constant: FieldElement,
}

pub(super) struct Compiler<'a, 'j> {
    kernels: &'static dyn Kernels,
    width: Width,
    store: &'a RowStore,
    job: &'j ScanJob<'a>,
    gathers: bool,
    used: Vec<usize>,
    steps: Vec<Step<'a>>,
    /// The number of each form, once it has one.
    form_numbers: Vec<Option<usize>>,
    rho: Option<usize>,
    sigma: Option<usize>,
    mu: Option<usize>,
    shares: Option<usize>,
}

impl<'a, 'j> Compiler<'a, 'j> {
    pub(super) fn new(kernels: &'static dyn Kernels, store: &'a RowStore, job: &'j ScanJob<'a>, gathers: bool) -> Self {
        Compiler {
            kernels,
            width: Width::of(job.field),
            store,
            job,
            gathers,
            used: used_forms(job),
            steps: vec![],
            form_numbers: vec![None; job.program.functions.len()],
            rho: None,
            sigma: None,
            mu: None,
            shares: None,
        }
    }

    pub(super) fn finish(self, outputs: Vec<usize>) -> TileProgram<'a> {
        let Compiler { kernels, width, store, steps, .. } = self;
        TileProgram { kernels, width, field: self.job.field, store, steps, outputs }
    }

    fn push(&mut self, step: Step<'a>) -> usize {
        self.steps.push(step);
        self.steps.len() - 1
    }

    /// The parts of an output, pads included.
    pub(super) fn output(&mut self, number: usize, output: &OutputExpr, keys: &'a KeyedRowRandomness) -> Parts {
        let field = self.job.field;
        let mut parts = Parts { fused: None, terms: vec![], constant: FieldElement::ZERO };
        match *output {
            OutputExpr::Plain(function) => self.whole_form(function, &mut parts),
            OutputExpr::Masked { function, unit } => {
                self.whole_form(function, &mut parts);
                let mu = once(&mut self.mu, &mut self.steps, Step::Stream(&keys.mu));
                parts.terms.push(self.term(mu, unit));
            }
            OutputExpr::Difference(function) => {
                let (this, next) = self.form_and_next(function);
                parts.terms.push(self.term(this, FieldElement::ONE));
                parts.terms.push(self.term(next, field.neg(FieldElement::ONE)));
            }
            OutputExpr::Blinded(function) => {
                let rho = once(&mut self.rho, &mut self.steps, Step::Stream(&keys.rho));
                let function = self.function(function);
                parts.terms.push(self.product(rho, function));
            }
            OutputExpr::Hidden { cost, gate } => {
                self.whole_form(cost, &mut parts);
                let sigma = once(&mut self.sigma, &mut self.steps, Step::Stream(&keys.sigma));
                let gate = self.function(gate);
                parts.terms.push(self.product(sigma, gate));
            }
            OutputExpr::Selected { square, linear, constant } => {
                let program = self.job.program;
                let shares = once(&mut self.shares, &mut self.steps, Step::RowShares(&program.row_shares));
                let (square, linear) = (self.function(square), self.function(linear));
                let inner = vec![self.product(shares, square), self.term(linear, FieldElement::ONE)];
                let inner = self.mix(Parts { fused: None, terms: inner, constant: FieldElement::ZERO });
                parts.terms.push(self.product(shares, inner));
                parts.constant = constant;
            }
        }
        let mut power = self.job.alpha;
        for j in 1..=self.job.kappa {
            let pad = self.push(Step::Stream(keys.pad_stream(number, j)));
            parts.terms.push(self.term(pad, power));
            power = field.mul(power, self.job.alpha);
        }
        parts
    }

    /// A form with factor 1: inside the last step if nothing else needs its values and a dot kernel
    /// takes it.
    fn whole_form(&mut self, function: usize, parts: &mut Parts) {
        let uses = self.job.program.outputs.iter().flat_map(forms_of).filter(|&used| used == function).count();
        if uses == 1 && !self.gathers && self.dot(function, &[]).is_some() {
            parts.fused = Some(function);
        } else {
            let number = self.function(function);
            parts.terms.push(self.term(number, FieldElement::ONE));
        }
    }

    /// The number that holds a form's values.
    pub(super) fn function(&mut self, function: usize) -> usize {
        if let Some(number) = self.form_numbers[function] {
            return number;
        }
        let step = if self.gathers { self.gather(function, 0) } else { self.evaluate(function) };
        let of_tables = matches!(step, Step::Tables(_));
        let number = self.push(step);
        self.form_numbers[function] = Some(number);
        if of_tables && let Some((other, tables)) = self.two_tables(function) {
            self.steps[number] = Step::Tables(tables);
            let second = self.push(Step::SecondOfTables);
            self.form_numbers[other] = Some(second);
        }
        number
    }

    /// Another form that has to be looked up as well, and the tables of both.
    fn two_tables(&self, function: usize) -> Option<(usize, LookupTables)> {
        let ScanJob { field, program, .. } = self.job;
        let other = self.used.iter().copied().find(|&other| {
            self.form_numbers[other].is_none() && matches!(program.functions[other].shape, RowFunctionKind::Table(_))
        })?;
        let functions = [&program.functions[function], &program.functions[other]];
        let tables =
            (self.width == Width::Narrow).then(|| LookupTables::of_two(self.kernels, field, self.store, functions))?;
        tables.map(|tables| (other, tables))
    }

    fn form_and_next(&mut self, function: usize) -> (usize, usize) {
        let this = self.function(function);
        let next = if self.gathers {
            self.gather(function, 1)
        } else {
            let program = self.job.program;
            Step::Next { function: &program.functions[function], this }
        };
        (this, self.push(next))
    }

    fn gather(&self, function: usize, shift: usize) -> Step<'a> {
        let slot = self.used.iter().position(|&used| used == function).expect("the form of an output is a used form");
        Step::Gather { slot, slots: self.used.len(), shift }
    }

    fn evaluate(&self, function: usize) -> Step<'a> {
        if let Some(dot) = self.dot(function, &[]) {
            return dot;
        }
        let program = self.job.program;
        let function = &program.functions[function];
        // Tables are worth making when they are smaller than the rows they replace.
        let entries: usize = self.store.max_levels().iter().map(|&range| range as usize + 1).sum();
        if self.store.rows().saturating_mul(self.store.features()) < entries {
            Step::Directly(function)
        } else {
            Step::Tables(LookupTables::new(self.kernels, self.job.field, self.store, function))
        }
    }

    /// A form and some terms as one dot product, if a kernel takes its shape.
    fn dot(&self, function: usize, terms: &[PlaneTerm]) -> Option<Step<'a>> {
        let program = self.job.program;
        let function = &program.functions[function];
        let every;
        let features = match &function.shape {
            RowFunctionKind::Linear { norm, slope } if norm.is_zero() || *norm == FieldElement::ONE => {
                Features::Linear { norm: !norm.is_zero(), slope }
            }
            RowFunctionKind::Linear { norm, slope } => {
                every = vec![*norm; slope.len()];
                Features::Squares { linear: slope, square: &every }
            }
            RowFunctionKind::Polynomial(coefficients) => match &coefficients[..] {
                [] => Features::None,
                [linear] => Features::Linear { norm: false, slope: linear },
                [linear, square] => Features::Squares { linear, square },
                _ => return None,
            },
            RowFunctionKind::Table(_) => return None,
        };
        self.sum(&features, terms, function.constant)
    }

    fn sum(&self, features: &Features<'_>, terms: &[PlaneTerm], constant: FieldElement) -> Option<Step<'a>> {
        let (width, field, store) = (self.width, self.job.field, self.store);
        let bytes = || ByteDot::new(width, field, store, features, terms, constant).map(Step::ByteDot);
        let bytes = if self.kernels.prefers_bytes() { bytes() } else { None };
        bytes.or_else(|| AnyDot::new(width, field, store, features, terms, constant).map(Step::Dot))
    }

    /// The last step of an output.
    pub(super) fn mix(&mut self, parts: Parts) -> usize {
        let sum = match parts.fused {
            Some(function) => self.dot(function, &parts.terms),
            None => self.sum(&Features::None, &parts.terms, parts.constant),
        };
        self.push(sum.expect("planes always fit, and a fused form was seen to fit"))
    }

    fn term(&self, number: usize, factor: FieldElement) -> PlaneTerm {
        PlaneTerm { number, factor, below: self.below(number) }
    }

    /// Narrow sums of table entries are not reduced, and what is gathered may be such sums.
    fn below(&self, number: usize) -> u64 {
        match self.steps[number] {
            Step::Gather { slot, .. } if self.dot(self.used[slot], &[]).is_some() => self.job.field.q(),
            Step::Tables(_) | Step::SecondOfTables | Step::Gather { .. } if self.width == Width::Narrow => 1 << 32,
            Step::Next { this, .. } => self.below(this),
            _ => self.job.field.q(),
        }
    }

    fn product(&mut self, a: usize, b: usize) -> PlaneTerm {
        let number = self.push(Step::Product { a, b });
        // Narrow products come over 2^32; the next dot product puts that right for nothing.
        let factor = if self.width == Width::Narrow { self.job.field.reduce(1 << 32) } else { FieldElement::ONE };
        self.term(number, factor)
    }
}

/// The number of a step that several outputs use, pushed by the first.
fn once<'a>(number: &mut Option<usize>, steps: &mut Vec<Step<'a>>, step: Step<'a>) -> usize {
    *number.get_or_insert_with(|| {
        steps.push(step);
        steps.len() - 1
    })
}
