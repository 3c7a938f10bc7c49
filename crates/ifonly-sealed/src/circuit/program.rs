//! Circuit programs: gates on whole registers, sorted into circuit rounds, and the memory range of
//! every register.
//!
//! A register holds the replicated sharing of some words: the component of this server and that of
//! the next server. A gate computes
//!
//! ```text
//! target = x·y ⊕ plus        (an AND, which takes a message)      or      target = plus      (local)
//! ```
//!
//! where x, y and plus are XOR sums of registers, each read by a [`ReadPattern`], and optionally
//! the constant 1. A gate belongs to the earliest round in which its operands are known, unless it
//! is deferred. Within a round, gates keep the order of their creation. The memory of a register is
//! reused after its last reader; the same holds for input bits. A program depends on public
//! parameters only.

use crate::params::lane_mask;

/// How a gate reads words from an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadPattern {
    /// Words i + first.
    From(u32),
    /// Words 2i.
    Even,
    /// Words 2i + 1.
    Odd,
    /// Lanes 2l.
    EvenLanes,
    /// Lanes 2l + 1.
    OddLanes,
    /// Lane 0 of word 0, copied to every lane of every word.
    Spread,
    /// Lanes l − m.
    Up(u32),
}

/// Source of the bits of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// A bit of the input of a server.
    Input { server: u8, bit: u8 },
    /// A register, by number.
    Register(u32),
}

/// One operand of an XOR sum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct XorTerm {
    pub(crate) source: Operand,
    pub(crate) read: ReadPattern,
    /// Value that [`ReadPattern::Odd`] and [`ReadPattern::OddLanes`] read after the last word or
    /// lane of a register.
    pub(crate) beyond: bool,
}

/// The XOR of up to five terms and a constant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct XorSum {
    terms: [Option<XorTerm>; 5],
    pub(crate) one: bool,
}

impl XorSum {
    pub(crate) fn of<const N: usize>(terms: [XorTerm; N]) -> XorSum {
        const { assert!(N <= 5) };
        let mut sum = XorSum::default();
        sum.terms.iter_mut().zip(terms).for_each(|(to, term)| *to = Some(term));
        sum
    }

    pub(crate) fn not(self) -> XorSum {
        XorSum { one: !self.one, ..self }
    }

    pub(crate) fn terms(&self) -> impl Iterator<Item = &XorTerm> {
        self.terms.iter().flatten()
    }
}

/// A register of a program under construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wire(u32);

impl Wire {
    pub(crate) fn read(self, read: ReadPattern) -> XorTerm {
        XorTerm { source: Operand::Register(self.0), read, beyond: false }
    }

    pub(crate) fn all(self) -> XorTerm {
        self.read(ReadPattern::From(0))
    }
}

/// One gate on `words` words with `lanes` lanes each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    target: u32,
    /// First word of the target that the gate writes.
    pub(crate) first: usize,
    pub(crate) words: usize,
    pub(crate) lanes: u32,
    /// Factors of an AND gate; `None` for a local gate.
    pub(crate) factors: Option<(XorSum, XorSum)>,
    pub(crate) plus: XorSum,
}

impl Gate {
    pub(crate) fn mask(&self) -> u64 {
        lane_mask(self.lanes)
    }

    fn sums(&self) -> impl Iterator<Item = &XorSum> {
        let (x, y) = self.factors.as_ref().map(|(x, y)| (x, y)).unzip();
        x.into_iter().chain(y).chain([&self.plus])
    }
}

/// Memory range of a register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegisterRange {
    pub(crate) offset: usize,
    pub(crate) words: usize,
    pub(crate) lanes: u32,
}

/// One circuit round: first the local gates, then the ANDs. The results of the ANDs are known in
/// the next round.
#[derive(Debug, Default)]
pub(crate) struct CircuitRound {
    pub(crate) local: Vec<Gate>,
    pub(crate) ands: Vec<Gate>,
}

impl CircuitRound {
    /// Words of the message for the ANDs of this round.
    pub(crate) fn words(&self) -> usize {
        self.ands.iter().map(|gate| gate.words).sum()
    }
}

/// Gates in circuit rounds, and the memory layout of the registers.
#[derive(Debug)]
pub(crate) struct CircuitProgram {
    pub(crate) rounds: Vec<CircuitRound>,
    ranges: Vec<RegisterRange>,
    /// Words of memory for one component of all registers.
    pub(crate) memory: usize,
    /// Words of an input plane.
    plane_words: usize,
    /// Number of input planes.
    bits: usize,
}

impl CircuitProgram {
    pub(crate) fn range(&self, wire: Wire) -> RegisterRange {
        self.ranges[wire.0 as usize]
    }

    pub(crate) fn register(&self, number: u32) -> RegisterRange {
        self.ranges[number as usize]
    }

    /// Memory of this server's input planes at the start, in order.
    pub(crate) fn own(&self) -> std::ops::Range<usize> {
        0..self.bits * self.plane_words
    }

    /// Memory of the input planes of the peers: those of the previous server in component `mine`,
    /// those of the next server in component `next`.
    pub(crate) fn peers(&self) -> std::ops::Range<usize> {
        self.own().end..2 * self.own().end
    }

    /// The input planes of one bit: own input, inputs of the peers.
    pub(crate) fn inputs(&self, bit: u8) -> [RegisterRange; 2] {
        [bit.into(), self.bits + usize::from(bit)].map(|number| self.ranges[number])
    }

    /// Memory offset of the first word that a gate writes.
    pub(crate) fn target(&self, gate: &Gate) -> usize {
        self.ranges[gate.target as usize].offset + gate.first
    }
}

/// Builds a [`CircuitProgram`].
pub(crate) struct CircuitBuilder {
    /// The first `2·bits` registers are the input planes: own input, then inputs of the peers.
    registers: Vec<Register>,
    gates: Vec<(usize, Gate)>,
    bits: usize,
}

struct Register {
    words: usize,
    lanes: u32,
    /// Number of rounds after which the register is known.
    depth: usize,
}

impl CircuitBuilder {
    /// A builder for inputs of `bits` planes of this size.
    pub(crate) fn new(bits: usize, (words, lanes): (usize, u32)) -> CircuitBuilder {
        let registers = (0..2 * bits).map(|_| Register { words, lanes, depth: 0 }).collect();
        CircuitBuilder { registers, gates: vec![], bits }
    }

    /// A new register that several gates may write.
    pub(crate) fn register(&mut self, words: usize, lanes: u32) -> Wire {
        self.registers.push(Register { words, lanes, depth: 0 });
        Wire(self.registers.len() as u32 - 1)
    }

    /// `x·y ⊕ plus` in a new register.
    pub(crate) fn and(&mut self, (words, lanes): (usize, u32), x: XorSum, y: XorSum, plus: XorSum) -> Wire {
        self.and_after(0, (words, lanes), x, y, plus)
    }

    /// `x·y ⊕ plus` in a new register, deferred until `rounds` rounds have ended.
    pub(crate) fn and_after(
        &mut self,
        rounds: usize,
        (words, lanes): (usize, u32),
        x: XorSum,
        y: XorSum,
        plus: XorSum,
    ) -> Wire {
        let target = self.register(words, lanes);
        self.write_after(rounds, target, 0, words, Some((x, y)), plus);
        target
    }

    /// `sum` in a new register.
    pub(crate) fn xor(&mut self, (words, lanes): (usize, u32), sum: XorSum) -> Wire {
        let target = self.register(words, lanes);
        self.write(target, 0, words, None, sum);
        target
    }

    /// Writes words `first..first + words` of a register.
    pub(crate) fn write(
        &mut self,
        target: Wire,
        first: usize,
        words: usize,
        factors: Option<(XorSum, XorSum)>,
        plus: XorSum,
    ) {
        self.write_after(0, target, first, words, factors, plus);
    }

    fn write_after(
        &mut self,
        rounds: usize,
        target: Wire,
        first: usize,
        words: usize,
        factors: Option<(XorSum, XorSum)>,
        plus: XorSum,
    ) {
        let lanes = self.registers[target.0 as usize].lanes;
        let gate = Gate { target: target.0, first, words, lanes, factors, plus };
        let known = gate.sums().flat_map(XorSum::terms).map(|term| match term.source {
            Operand::Input { .. } => 0,
            Operand::Register(number) => self.registers[number as usize].depth,
        });
        let round = known.max().unwrap_or(0).max(rounds);
        let register = &mut self.registers[target.0 as usize];
        register.depth = register.depth.max(round + usize::from(factors.is_some()));
        self.gates.push((round, gate));
    }

    /// Sorts gates into rounds and assigns memory to registers. The memory of `outputs` is never
    /// reused.
    pub(crate) fn finish(self, outputs: &[Wire]) -> CircuitProgram {
        let count = self.registers.iter().map(|register| register.depth + 1).max().unwrap_or(1);
        let mut rounds: Vec<CircuitRound> = (0..count).map(|_| CircuitRound::default()).collect();
        let mut first = vec![usize::MAX; self.registers.len()];
        let mut last = vec![0; self.registers.len()];
        first[..2 * self.bits].fill(0);
        for (round, gate) in self.gates {
            let target = gate.target as usize;
            first[target] = first[target].min(round);
            last[target] = last[target].max(round);
            for term in gate.sums().flat_map(XorSum::terms) {
                let read = match term.source {
                    // All three servers run the same program, so both planes count as read,
                    // whichever server owns the input.
                    Operand::Input { bit, .. } => [usize::from(bit), self.bits + usize::from(bit)],
                    Operand::Register(number) => [number as usize; 2],
                };
                read.into_iter().for_each(|register| last[register] = round.max(last[register]));
            }
            let round = &mut rounds[round];
            if gate.factors.is_some() { round.ands.push(gate) } else { round.local.push(gate) }
        }
        outputs.iter().for_each(|wire| last[wire.0 as usize] = usize::MAX);

        let mut allocated = vec![vec![]; count];
        let mut freed = vec![vec![]; count];
        for (number, (&first, &last)) in first.iter().zip(&last).enumerate() {
            if let Some(allocated) = allocated.get_mut(first) {
                allocated.push(number);
            }
            if let Some(freed) = freed.get_mut(last) {
                freed.push(number);
            }
        }
        let mut ranges: Vec<RegisterRange> =
            self.registers.iter().map(|r| RegisterRange { offset: 0, words: r.words, lanes: r.lanes }).collect();
        // Inputs are allocated first, so they are at the start of the memory and in order.
        let mut heap = Heap::default();
        for (allocated, freed) in allocated.iter().zip(&freed) {
            allocated.iter().for_each(|&number| ranges[number].offset = heap.allocate(ranges[number].words));
            freed.iter().for_each(|&number| heap.free(ranges[number].offset, ranges[number].words));
        }
        let plane_words = ranges.first().map_or(0, |range| range.words);
        CircuitProgram { rounds, ranges, memory: heap.end, plane_words, bits: self.bits }
    }
}

/// Best-fit allocator of register memory.
#[derive(Default)]
struct Heap {
    gaps: std::collections::BTreeMap<usize, usize>,
    end: usize,
}

impl Heap {
    fn allocate(&mut self, words: usize) -> usize {
        let best = self.gaps.iter().filter(|&(_, &size)| size >= words).min_by_key(|&(_, &size)| size);
        if let Some((&offset, &size)) = best {
            self.gaps.remove(&offset);
            if size > words {
                self.gaps.insert(offset + words, size - words);
            }
            return offset;
        }
        // No gap fits: grow, from the last gap if it reaches the end.
        let offset = match self.gaps.last_key_value() {
            Some((&offset, &size)) if offset + size == self.end => offset,
            _ => self.end,
        };
        self.gaps.remove(&offset);
        self.end = offset + words;
        offset
    }

    fn free(&mut self, offset: usize, words: usize) {
        let (mut offset, mut words) = (offset, words);
        if let Some(size) = self.gaps.remove(&(offset + words)) {
            words += size;
        }
        if let Some((&before, &size)) = self.gaps.range(..offset).next_back()
            && before + size == offset
        {
            self.gaps.remove(&before);
            (offset, words) = (before, words + size);
        }
        self.gaps.insert(offset, words);
    }
}
