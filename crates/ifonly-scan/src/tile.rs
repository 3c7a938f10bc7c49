//! What happens to a tile of rows: a short straight-line program over numbers that stand beside the rows.
//!
//! Every output of [`ifonly_core::form`] is `constant + Σ factor·number`, where the numbers are form values, keyed streams, row
//! shares and products of two numbers. So a tile first fills the streams, then evaluates the forms, then multiplies, and
//! ends with one [`Dot`] per output; a form that only one output uses is part of that last dot product, and its pads ride
//! along as further feature groups. For a shuffled answer the form values come from a buffer, picked in the order's
//! positions, and the rest is the same program.

mod pair;

use crate::backend::{Blocks, Kernels, Planes};
use crate::bytes::ByteDot;
use crate::dot::{Dot, Features, NARROW, Term};
use crate::numbers::{self, KeyBytes};
use crate::store::{BLOCK_ROWS, RowStore};
use crate::table::Tables;
use ifonly_core::field::{Field, Symbol};
use ifonly_core::form::{Form, Job, Output, Shape};
use ifonly_core::keys::{KeyedRows, SymbolStream};
pub(crate) use pair::{Norms, run_pair};
use std::ops::Range;

/// Form values of all rows, or of the positions that a tile needs: `planes` words per used form, all forms of a row
/// together.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gathered<'a> {
    /// In stored order, and where each position finds its row.
    Picked { values: &'a [u32], order: &'a [u32] },
    /// In the order of positions, from one of them on.
    Moved { values: &'a [u32], first: usize },
}

impl Gathered<'_> {
    /// Word `place` of the `step` words of each wanted position.
    fn read(self, wanted: Range<usize>, place: usize, step: usize, out: &mut [u32]) {
        match self {
            Gathered::Picked { values, order } => {
                for (out, &row) in out.iter_mut().zip(&order[wanted]) {
                    *out = values[row as usize * step + place];
                }
            }
            Gathered::Moved { values, first } => {
                let values = &values[(wanted.start - first) * step..(wanted.end - first) * step];
                if step == 1 {
                    out[..values.len()].copy_from_slice(values);
                } else {
                    out.iter_mut().zip(values.chunks_exact(step)).for_each(|(out, row)| *out = row[place]);
                }
            }
        }
    }
}

/// The program of one job.
#[derive(Debug)]
pub(crate) struct TileProgram<'a, const L: usize> {
    kernels: Kernels,
    field: &'a Field,
    store: &'a RowStore,
    steps: Vec<Step<'a, L>>,
    numbers: usize,
    /// Which numbers are the outputs.
    outputs: Vec<usize>,
}

#[derive(Debug)]
enum Step<'a, const L: usize> {
    Stream(&'a SymbolStream),
    RowShares(&'a [Symbol]),
    Dot(Dot<L>),
    /// The same where bytes are multiplied with bytes.
    ByteDot(ByteDot),
    /// Also the values of a second form, if the tables are of two.
    Tables(Tables),
    /// The second form of the tables in the step before.
    SecondOfTables,
    /// For databases smaller than the tables would be.
    Directly(&'a Form),
    /// The form at the following row.
    Next {
        form: &'a Form,
        this: usize,
    },
    Gather {
        slot: usize,
        slots: usize,
        shift: usize,
    },
    /// `a·b`, over 2^32 if narrow.
    Product {
        a: usize,
        b: usize,
    },
}

/// Words of a tile, kept from tile to tile.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    words: Vec<u32>,
    key: KeyBytes,
    levels: Vec<u16>,
    second: Vec<u32>,
}

/// The forms that the outputs use, each once.
pub(crate) fn used_forms(job: &Job<'_>) -> Vec<usize> {
    let mut used: Vec<usize> = job.program.outputs.iter().flat_map(forms_of).collect();
    used.sort_unstable();
    used.dedup();
    used
}

fn forms_of(output: &Output) -> Vec<usize> {
    match *output {
        Output::Plain(form) | Output::Masked { form, .. } | Output::Difference(form) | Output::Blinded(form) => {
            vec![form]
        }
        Output::Hidden { cost, gate } => vec![cost, gate],
        Output::Selected { square, linear, .. } => vec![square, linear],
    }
}

impl<'a, const L: usize> TileProgram<'a, L> {
    /// The values of all used forms as outputs, without any randomness: the first pass of a shuffled answer.
    pub(crate) fn values(kernels: Kernels, store: &'a RowStore, job: &Job<'a>) -> Self {
        let mut compiler = Compiler::new(kernels, store, job, false);
        let outputs = used_forms(job).into_iter().map(|form| compiler.form(form)).collect();
        compiler.finish(outputs)
    }

    /// The answer in stored order, or from [`Gathered`] values.
    pub(crate) fn answer(
        kernels: Kernels,
        store: &'a RowStore,
        job: &Job<'a>,
        keys: &'a KeyedRows,
        gathers: bool,
    ) -> Self {
        let mut compiler = Compiler::new(kernels, store, job, gathers);
        // All streams first: numbers may only depend on earlier ones.
        let outputs = job.program.outputs.iter().enumerate();
        let terms: Vec<_> = outputs.map(|(number, output)| compiler.output(number, output, keys)).collect();
        let outputs = terms.into_iter().map(|parts| compiler.mix(parts)).collect();
        compiler.finish(outputs)
    }

    /// Symbols per row.
    pub(crate) fn outputs(&self) -> usize {
        self.outputs.len()
    }

    /// Runs the rows or positions `first..first + rows`; `first` is a multiple of 64.
    pub(crate) fn run(&self, first: usize, rows: usize, gathered: Option<Gathered<'_>>, scratch: &mut Scratch) {
        self.run_steps(&self.steps, first, rows, gathered, scratch);
    }

    /// The first steps only.
    fn run_steps(
        &self,
        steps: &[Step<'a, L>],
        first: usize,
        rows: usize,
        gathered: Option<Gathered<'_>>,
        scratch: &mut Scratch,
    ) {
        let stride = rows.next_multiple_of(BLOCK_ROWS);
        let planes = L / NARROW;
        let Scratch { words, key, levels, second } = scratch;
        let kernels = self.kernels;
        if rows < stride {
            // What an earlier tile left beyond the last row need not be reduced.
            words.clear();
        }
        words.resize(self.numbers * planes * stride, 0);
        let blocks = blocks_of(self.store, first, stride);
        for (to, step) in steps.iter().enumerate() {
            let (done, rest) = words.split_at_mut(to * planes * stride);
            let out = &mut rest[..planes * stride];
            let number = |n: usize| &done[n * planes * stride..(n + 1) * planes * stride];
            match step {
                Step::Stream(stream) => numbers::fill::<L>(kernels, stream, first, key, out),
                Step::Dot(dot) => kernels.dot(dot, blocks, Planes { words: done, stride }, out),
                Step::ByteDot(dot) => kernels.byte_dot(dot, blocks, Planes { words: done, stride }, out),
                Step::Tables(tables) => {
                    let (low, high) = out.split_at_mut(stride);
                    tables.evaluate(kernels, blocks, low, high, second);
                }
                Step::SecondOfTables => out.copy_from_slice(second),
                Step::RowShares(shares) => {
                    for row in 0..rows {
                        put(out, stride, row, shares[first + row].value());
                    }
                }
                Step::Directly(form) => {
                    for row in 0..rows {
                        self.store.read_row(first + row, levels);
                        put(out, stride, row, form.evaluate(self.field, levels).value());
                    }
                }
                Step::Next { form, this } => {
                    let this = number(*this);
                    for (out, this) in out.chunks_mut(stride).zip(this.chunks(stride)) {
                        out[..rows - 1].copy_from_slice(&this[1..rows]);
                    }
                    if first + rows < self.store.rows() {
                        self.store.read_row(first + rows, levels);
                        put(out, stride, rows - 1, form.evaluate(self.field, levels).value());
                    }
                }
                Step::Gather { slot, slots, shift } => {
                    let Some(gathered) = gathered else { continue };
                    let wanted = first + shift..(first + rows + shift).min(self.store.rows());
                    for (plane, out) in out.chunks_mut(stride).enumerate() {
                        gathered.read(wanted.clone(), slot * planes + plane, slots * planes, out);
                    }
                }
                Step::Product { a, b } if L == NARROW => {
                    kernels.montgomery_products(self.field.q() as u32, number(*a), number(*b), out);
                }
                Step::Product { a, b } => {
                    let (a, b) = (number(*a), number(*b));
                    for row in 0..rows {
                        put(
                            out,
                            stride,
                            row,
                            self.field.mul(self.get(a, stride, row), self.get(b, stride, row)).value(),
                        );
                    }
                }
            }
        }
    }

    /// The planes of an output after [`TileProgram::run`] over `rows` rows: one if narrow, else the low and the high one.
    pub(crate) fn output<'s>(&self, output: usize, rows: usize, scratch: &'s Scratch) -> (&'s [u32], &'s [u32]) {
        let stride = rows.next_multiple_of(BLOCK_ROWS);
        let planes = L / NARROW;
        let number = &scratch.words[self.outputs[output] * planes * stride..][..planes * stride];
        let (low, high) = number.split_at(stride);
        (&low[..rows], high.get(..rows).unwrap_or(&[]))
    }

    fn get(&self, number: &[u32], stride: usize, row: usize) -> Symbol {
        let value = u64::from(number[row]) | u64::from(number[stride + row]) << 32;
        self.field.symbol(value).expect("numbers of a tile are reduced")
    }
}

/// The blocks of `rows` rows from `first` on, both whole blocks.
fn blocks_of(store: &RowStore, first: usize, rows: usize) -> Blocks<'_> {
    let block_bytes = store.block_bytes();
    let data = &store.data()[first / BLOCK_ROWS * block_bytes..];
    Blocks { bytes: &data[..data.len().min(rows / BLOCK_ROWS * block_bytes)], block_bytes }
}

fn put(number: &mut [u32], stride: usize, row: usize, value: u64) {
    number[row] = value as u32;
    if let Some(high) = number.get_mut(stride + row) {
        *high = (value >> 32) as u32;
    }
}

/// What an output is made of before its last step.
struct Parts {
    /// A form that goes into the last step itself.
    fused: Option<usize>,
    terms: Vec<Term>,
    constant: Symbol,
}

struct Compiler<'a, 'j, const L: usize> {
    kernels: Kernels,
    store: &'a RowStore,
    job: &'j Job<'a>,
    gathers: bool,
    used: Vec<usize>,
    steps: Vec<Step<'a, L>>,
    /// The number of each form, once it has one.
    form_numbers: Vec<Option<usize>>,
    rho: Option<usize>,
    sigma: Option<usize>,
    mu: Option<usize>,
    shares: Option<usize>,
}

impl<'a, 'j, const L: usize> Compiler<'a, 'j, L> {
    fn new(kernels: Kernels, store: &'a RowStore, job: &'j Job<'a>, gathers: bool) -> Self {
        Compiler {
            kernels,
            store,
            job,
            gathers,
            used: used_forms(job),
            steps: vec![],
            form_numbers: vec![None; job.program.forms.len()],
            rho: None,
            sigma: None,
            mu: None,
            shares: None,
        }
    }

    fn finish(self, outputs: Vec<usize>) -> TileProgram<'a, L> {
        let Compiler { kernels, store, steps, .. } = self;
        TileProgram { kernels, field: self.job.field, store, numbers: steps.len(), steps, outputs }
    }

    fn push(&mut self, step: Step<'a, L>) -> usize {
        self.steps.push(step);
        self.steps.len() - 1
    }

    /// The parts of an output, pads included.
    fn output(&mut self, number: usize, output: &Output, keys: &'a KeyedRows) -> Parts {
        let field = self.job.field;
        let mut parts = Parts { fused: None, terms: vec![], constant: Symbol::ZERO };
        match *output {
            Output::Plain(form) => self.whole_form(form, &mut parts),
            Output::Masked { form, unit } => {
                self.whole_form(form, &mut parts);
                let mu = *self.mu.get_or_insert_with(|| {
                    self.steps.push(Step::Stream(keys.mu_stream()));
                    self.steps.len() - 1
                });
                parts.terms.push(self.term(mu, unit));
            }
            Output::Difference(form) => {
                let (this, next) = self.form_and_next(form);
                parts.terms.push(self.term(this, Symbol::ONE));
                parts.terms.push(self.term(next, field.neg(Symbol::ONE)));
            }
            Output::Blinded(form) => {
                let rho = *self.rho.get_or_insert_with(|| {
                    self.steps.push(Step::Stream(keys.rho_stream()));
                    self.steps.len() - 1
                });
                let form = self.form(form);
                parts.terms.push(self.product(rho, form));
            }
            Output::Hidden { cost, gate } => {
                self.whole_form(cost, &mut parts);
                let sigma = *self.sigma.get_or_insert_with(|| {
                    self.steps.push(Step::Stream(keys.sigma_stream()));
                    self.steps.len() - 1
                });
                let gate = self.form(gate);
                parts.terms.push(self.product(sigma, gate));
            }
            Output::Selected { square, linear, constant } => {
                let program = self.job.program;
                let shares = *self.shares.get_or_insert_with(|| {
                    self.steps.push(Step::RowShares(&program.row_shares));
                    self.steps.len() - 1
                });
                let (square, linear) = (self.form(square), self.form(linear));
                let inner = vec![self.product(shares, square), self.term(linear, Symbol::ONE)];
                let inner = self.mix(Parts { fused: None, terms: inner, constant: Symbol::ZERO });
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

    /// A form with factor 1: inside the last step if nothing else needs its values and a dot kernel takes it.
    fn whole_form(&mut self, form: usize, parts: &mut Parts) {
        let uses = self.job.program.outputs.iter().flat_map(forms_of).filter(|&used| used == form).count();
        if uses == 1 && !self.gathers && self.dot(form, &[]).is_some() {
            parts.fused = Some(form);
        } else {
            let number = self.form(form);
            parts.terms.push(self.term(number, Symbol::ONE));
        }
    }

    /// The number that holds a form's values.
    fn form(&mut self, form: usize) -> usize {
        if let Some(number) = self.form_numbers[form] {
            return number;
        }
        let step = if self.gathers { self.gather(form, 0) } else { self.evaluate(form) };
        let of_tables = matches!(step, Step::Tables(_));
        let number = self.push(step);
        self.form_numbers[form] = Some(number);
        if of_tables && let Some((other, tables)) = self.two_tables(form) {
            self.steps[number] = Step::Tables(tables);
            let second = self.push(Step::SecondOfTables);
            self.form_numbers[other] = Some(second);
        }
        number
    }

    /// Another form that has to be looked up as well, and the tables of both.
    fn two_tables(&self, form: usize) -> Option<(usize, Tables)> {
        let Job { field, program, .. } = self.job;
        let other = self.used.iter().copied().find(|&other| {
            self.form_numbers[other].is_none() && matches!(program.forms[other].shape, Shape::Table(_))
        })?;
        let forms = [&program.forms[form], &program.forms[other]];
        let tables = (L == NARROW).then(|| Tables::of_two(self.kernels, field, self.store, forms))?;
        tables.map(|tables| (other, tables))
    }

    fn form_and_next(&mut self, form: usize) -> (usize, usize) {
        let this = self.form(form);
        let next = if self.gathers {
            self.gather(form, 1)
        } else {
            let program = self.job.program;
            Step::Next { form: &program.forms[form], this }
        };
        (this, self.push(next))
    }

    fn gather(&self, form: usize, shift: usize) -> Step<'a, L> {
        let slot = self.used.iter().position(|&used| used == form).expect("the form of an output is a used form");
        Step::Gather { slot, slots: self.used.len(), shift }
    }

    fn evaluate(&self, form: usize) -> Step<'a, L> {
        if let Some(dot) = self.dot(form, &[]) {
            return dot;
        }
        let program = self.job.program;
        let form = &program.forms[form];
        // Tables are worth making when they are smaller than the rows they replace.
        let entries: usize = self.store.ranges().iter().map(|&range| range as usize + 1).sum();
        if self.store.rows().saturating_mul(self.store.features()) < entries {
            Step::Directly(form)
        } else {
            Step::Tables(Tables::new(self.kernels, self.job.field, self.store, form))
        }
    }

    /// A form and some terms as one dot product, if a kernel takes its shape.
    fn dot(&self, form: usize, terms: &[Term]) -> Option<Step<'a, L>> {
        let program = self.job.program;
        let form = &program.forms[form];
        let every;
        let features = match &form.shape {
            Shape::Linear { norm, slope } if norm.is_zero() || *norm == Symbol::ONE => {
                Features::Linear { norm: !norm.is_zero(), slope }
            }
            Shape::Linear { norm, slope } => {
                every = vec![*norm; slope.len()];
                Features::Squares { linear: slope, square: &every }
            }
            Shape::Polynomial(coefficients) => match &coefficients[..] {
                [] => Features::None,
                [linear] => Features::Linear { norm: false, slope: linear },
                [linear, square] => Features::Squares { linear, square },
                _ => return None,
            },
            Shape::Table(_) => return None,
        };
        self.sum(&features, terms, form.constant)
    }

    fn sum(&self, features: &Features<'_>, terms: &[Term], constant: Symbol) -> Option<Step<'a, L>> {
        let (field, store) = (self.job.field, self.store);
        let bytes = || ByteDot::new(field, store, features, terms, constant, L != NARROW).map(Step::ByteDot);
        let bytes = if self.kernels.multiplies_bytes() { bytes() } else { None };
        bytes.or_else(|| Dot::new(field, store, features, terms, constant).map(Step::Dot))
    }

    /// The last step of an output.
    fn mix(&mut self, parts: Parts) -> usize {
        let sum = match parts.fused {
            Some(form) => self.dot(form, &parts.terms),
            None => self.sum(&Features::None, &parts.terms, parts.constant),
        };
        self.push(sum.expect("planes always fit, and a fused form was seen to fit"))
    }

    fn term(&self, number: usize, factor: Symbol) -> Term {
        Term { number, factor, below: self.below(number) }
    }

    /// Narrow sums of table entries are not reduced, and what is gathered may be such sums.
    fn below(&self, number: usize) -> u64 {
        match self.steps[number] {
            Step::Gather { slot, .. } if self.dot(self.used[slot], &[]).is_some() => self.job.field.q(),
            Step::Tables(_) | Step::SecondOfTables | Step::Gather { .. } if L == NARROW => 1 << 32,
            Step::Next { this, .. } => self.below(this),
            _ => self.job.field.q(),
        }
    }

    fn product(&mut self, a: usize, b: usize) -> Term {
        let number = self.push(Step::Product { a, b });
        // Narrow products come over 2^32; the next dot product puts that right for nothing.
        let factor = if L == NARROW { self.job.field.reduce(1 << 32) } else { Symbol::ONE };
        self.term(number, factor)
    }
}
