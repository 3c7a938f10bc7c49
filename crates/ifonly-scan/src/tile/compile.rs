//! Compiles a scan job to a tile program: first the keystreams, then the row functions, then the
//! products, and at the end one dot product per output.

use super::{Step, TileProgram, functions_of, used_functions};
use crate::backend::Kernels;
use crate::dot::limbs8::ByteDot;
use crate::dot::limbs16::{AnyDot, Features, PlaneTerm, Width};
use crate::dot::lookup::LookupTables;
use crate::row_store::RowStore;
use ifonly_algebra::field::FieldElement;
use ifonly_algebra::keys::KeyedRowRandomness;
use ifonly_algebra::row_function::{OutputExpr, RowFunctionKind, ScanJob};

/// The terms of an output, before its final dot product.
pub(super) struct OutputTerms {
    /// A row function that is evaluated inside the final dot product.
    fused: Option<usize>,
    terms: Vec<PlaneTerm>,
    constant: FieldElement,
}

pub(super) struct Compiler<'a, 'j> {
    kernels: &'static dyn Kernels,
    width: Width,
    store: &'a RowStore,
    job: &'j ScanJob<'a>,
    is_gathered: bool,
    used: Vec<usize>,
    steps: Vec<Step<'a>>,
    /// The register of each row function that has been compiled.
    function_registers: Vec<Option<usize>>,
    rho: Option<usize>,
    sigma: Option<usize>,
    mu: Option<usize>,
    shares: Option<usize>,
}

impl<'a, 'j> Compiler<'a, 'j> {
    pub(super) fn new(
        kernels: &'static dyn Kernels,
        store: &'a RowStore,
        job: &'j ScanJob<'a>,
        is_gathered: bool,
    ) -> Self {
        Compiler {
            kernels,
            width: Width::of(job.field),
            store,
            job,
            is_gathered,
            used: used_functions(job),
            steps: vec![],
            function_registers: vec![None; job.program.functions.len()],
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

    /// The terms of an output, including its pads.
    pub(super) fn output(&mut self, index: usize, output: &OutputExpr, keys: &'a KeyedRowRandomness) -> OutputTerms {
        let field = self.job.field;
        let mut sum = OutputTerms { fused: None, terms: vec![], constant: FieldElement::ZERO };
        match *output {
            OutputExpr::Plain(function) => self.add_function(function, &mut sum),
            OutputExpr::Masked { function, unit } => {
                self.add_function(function, &mut sum);
                let mu = once(&mut self.mu, &mut self.steps, Step::Stream(&keys.mu));
                sum.terms.push(self.term(mu, unit));
            }
            OutputExpr::Difference(function) => {
                let (current, next) = self.function_and_next(function);
                sum.terms.push(self.term(current, FieldElement::ONE));
                sum.terms.push(self.term(next, field.neg(FieldElement::ONE)));
            }
            OutputExpr::Blinded(function) => {
                let rho = once(&mut self.rho, &mut self.steps, Step::Stream(&keys.rho));
                let function = self.function(function);
                sum.terms.push(self.product(rho, function));
            }
            OutputExpr::Hidden { cost, gate } => {
                self.add_function(cost, &mut sum);
                let sigma = once(&mut self.sigma, &mut self.steps, Step::Stream(&keys.sigma));
                let gate = self.function(gate);
                sum.terms.push(self.product(sigma, gate));
            }
            OutputExpr::Selected { square, linear, constant } => {
                let program = self.job.program;
                let shares = once(&mut self.shares, &mut self.steps, Step::RowShares(&program.row_shares));
                let (square, linear) = (self.function(square), self.function(linear));
                let inner = vec![self.product(shares, square), self.term(linear, FieldElement::ONE)];
                let inner = self.finish_output(OutputTerms { fused: None, terms: inner, constant: FieldElement::ZERO });
                sum.terms.push(self.product(shares, inner));
                sum.constant = constant;
            }
        }
        let mut power = self.job.alpha;
        for j in 1..=self.job.kappa {
            let pad = self.push(Step::Stream(keys.pad_stream(index, j)));
            sum.terms.push(self.term(pad, power));
            power = field.mul(power, self.job.alpha);
        }
        sum
    }

    /// Adds a row function with factor 1. It is fused into the final dot product if no other output
    /// uses its values and a dot kernel supports it.
    fn add_function(&mut self, function: usize, sum: &mut OutputTerms) {
        let uses = self.job.program.outputs.iter().flat_map(functions_of).filter(|&used| used == function).count();
        if uses == 1 && !self.is_gathered && self.dot(function, &[]).is_some() {
            sum.fused = Some(function);
        } else {
            let register = self.function(function);
            sum.terms.push(self.term(register, FieldElement::ONE));
        }
    }

    /// The register that holds the values of a row function.
    pub(super) fn function(&mut self, function: usize) -> usize {
        if let Some(register) = self.function_registers[function] {
            return register;
        }
        let step = if self.is_gathered { self.gather(function, 0) } else { self.evaluate(function) };
        let is_table = matches!(step, Step::Tables(_));
        let register = self.push(step);
        self.function_registers[function] = Some(register);
        if is_table && let Some((other, tables)) = self.two_tables(function) {
            self.steps[register] = Step::Tables(tables);
            let second = self.push(Step::SecondOfTables);
            self.function_registers[other] = Some(second);
        }
        register
    }

    /// Another row function that also needs look-up tables, and the tables of both.
    fn two_tables(&self, function: usize) -> Option<(usize, LookupTables)> {
        let ScanJob { field, program, .. } = self.job;
        let other = self.used.iter().copied().find(|&other| {
            self.function_registers[other].is_none()
                && matches!(program.functions[other].kind, RowFunctionKind::Table(_))
        })?;
        let functions = [&program.functions[function], &program.functions[other]];
        let tables =
            (self.width == Width::Narrow).then(|| LookupTables::of_two(self.kernels, field, self.store, functions))?;
        tables.map(|tables| (other, tables))
    }

    fn function_and_next(&mut self, function: usize) -> (usize, usize) {
        let current = self.function(function);
        let next = if self.is_gathered {
            self.gather(function, 1)
        } else {
            let program = self.job.program;
            Step::Next { function: &program.functions[function], current }
        };
        (current, self.push(next))
    }

    fn gather(&self, function: usize, shift: usize) -> Step<'a> {
        let value = self
            .used
            .iter()
            .position(|&used| used == function)
            .expect("the row function of an output is among the used ones");
        Step::Gather { value, values: self.used.len(), shift }
    }

    fn evaluate(&self, function: usize) -> Step<'a> {
        if let Some(dot) = self.dot(function, &[]) {
            return dot;
        }
        let program = self.job.program;
        let function = &program.functions[function];
        // Look-up tables are built only if they have fewer entries than the rows have levels.
        let entries: usize = self.store.max_levels().iter().map(|&max_level| max_level as usize + 1).sum();
        if self.store.rows().saturating_mul(self.store.features()) < entries {
            Step::Directly(function)
        } else {
            Step::Tables(LookupTables::new(self.kernels, self.job.field, self.store, function))
        }
    }

    /// A row function and further terms as one dot product, if a kernel supports this kind of row
    /// function.
    fn dot(&self, function: usize, terms: &[PlaneTerm]) -> Option<Step<'a>> {
        let program = self.job.program;
        let function = &program.functions[function];
        let norms;
        let features = match &function.kind {
            RowFunctionKind::Linear { norm, slope } if norm.is_zero() || *norm == FieldElement::ONE => {
                Features::Linear { norm: !norm.is_zero(), slope }
            }
            RowFunctionKind::Linear { norm, slope } => {
                norms = vec![*norm; slope.len()];
                Features::Squares { linear: slope, square: &norms }
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

    /// The final dot product of an output.
    pub(super) fn finish_output(&mut self, sum: OutputTerms) -> usize {
        let step = match sum.fused {
            Some(function) => self.dot(function, &sum.terms),
            None => self.sum(&Features::None, &sum.terms, sum.constant),
        };
        self.push(step.expect("planes always fit, and a fused row function was checked to fit"))
    }

    fn term(&self, register: usize, factor: FieldElement) -> PlaneTerm {
        PlaneTerm { register, factor, below: self.below(register) }
    }

    /// A bound on the values of a register. Narrow sums of table entries are not reduced, and
    /// gathered values may be such sums.
    fn below(&self, register: usize) -> u64 {
        match self.steps[register] {
            Step::Gather { value, .. } if self.dot(self.used[value], &[]).is_some() => self.job.field.q(),
            Step::Tables(_) | Step::SecondOfTables | Step::Gather { .. } if self.width == Width::Narrow => 1 << 32,
            Step::Next { current, .. } => self.below(current),
            _ => self.job.field.q(),
        }
    }

    fn product(&mut self, a: usize, b: usize) -> PlaneTerm {
        let register = self.push(Step::Product { a, b });
        // Narrow products have the factor 2^-32 (Montgomery form). The factor 2^32 in the next dot
        // product removes it at no cost.
        let factor = if self.width == Width::Narrow { self.job.field.reduce(1 << 32) } else { FieldElement::ONE };
        self.term(register, factor)
    }
}

/// The register of a step that several outputs share. The first caller adds the step.
fn once<'a>(register: &mut Option<usize>, steps: &mut Vec<Step<'a>>, step: Step<'a>) -> usize {
    *register.get_or_insert_with(|| {
        steps.push(step);
        steps.len() - 1
    })
}
