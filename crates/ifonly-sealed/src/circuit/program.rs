//! Programs for the machine: gates on whole registers, in rounds, with every register's place in
//! memory.
//!
//! A register holds the replicated bits of some words: this server's component and the next one's.
//! A gate computes
//!
//! ```text
//! target = x·y ⊕ plus        (an AND, which takes a message)      or      target = plus      (local)
//! ```
//!
//! where x, y and plus are sums of registers, read as a [`Read`] says, and perhaps the constant 1.
//! A gate belongs to the earliest round in which its operands are known, unless it is put off;
//! inside a round the gates stand in the order in which they were made. A register's memory is used
//! again after its last reader, and so is that of every bit that the servers entered. All of it
//! depends on public numbers only.

use crate::params::lane_mask;

/// How the words of a gate are read from a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadPattern {
    /// Word i + first.
    From(u32),
    /// Words 2i.
    Even,
    /// Words 2i + 1.
    Odd,
    /// Lanes 2l.
    EvenLanes,
    /// Lanes 2l + 1.
    OddLanes,
    /// Lane 0 of word 0, in every lane of every word.
    Spread,
    /// Lane l − m.
    Up(u32),
}

/// Where bits come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// A bit of the value that a server entered.
    Input { server: u8, bit: u8 },
    /// A register, by number.
    Register(u32),
}

/// One operand of a sum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct XorTerm {
    pub(crate) source: Operand,
    pub(crate) read: ReadPattern,
    /// What [`Read::Odd`] and [`Read::OddLanes`] find behind the last word or lane of a register.
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
        sum.terms.iter_mut().zip(terms).for_each(|(place, term)| *place = Some(term));
        sum
    }

    pub(crate) fn not(self) -> XorSum {
        XorSum { one: !self.one, ..self }
    }

    pub(crate) fn terms(&self) -> impl Iterator<Item = &XorTerm> {
        self.terms.iter().flatten()
    }
}

/// A register while a program is made.
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

/// One gate on `words` words, `lanes` lanes each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    target: u32,
    /// The first word that it writes.
    pub(crate) first: usize,
    pub(crate) words: usize,
    pub(crate) lanes: u32,
    /// The factors of an AND.
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

/// Where a register lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegisterSlot {
    pub(crate) offset: usize,
    pub(crate) words: usize,
    pub(crate) lanes: u32,
}

/// What is done between two messages: first the local gates, then the ANDs, whose results are there
/// in the next stage.
#[derive(Debug, Default)]
pub(crate) struct CircuitRound {
    pub(crate) local: Vec<Gate>,
    pub(crate) ands: Vec<Gate>,
}

impl CircuitRound {
    /// Words of the message of this stage's ANDs.
    pub(crate) fn words(&self) -> usize {
        self.ands.iter().map(|gate| gate.words).sum()
    }
}

/// Gates in rounds, registers in memory.
#[derive(Debug)]
pub(crate) struct CircuitProgram {
    pub(crate) stages: Vec<CircuitRound>,
    places: Vec<RegisterSlot>,
    /// Words of memory for one component of all registers.
    pub(crate) memory: usize,
    /// Words of a plane of what the servers entered, and how many planes.
    plane_words: usize,
    bits: usize,
}

impl CircuitProgram {
    pub(crate) fn place(&self, wire: Wire) -> RegisterSlot {
        self.places[wire.0 as usize]
    }

    pub(crate) fn register(&self, number: u32) -> RegisterSlot {
        self.places[number as usize]
    }

    /// Where this server's own values lie at the beginning, plane after plane.
    pub(crate) fn own(&self) -> std::ops::Range<usize> {
        0..self.bits * self.plane_words
    }

    /// Where those of its peers lie: the previous server's in the one component, the next server's
    /// in the other.
    pub(crate) fn peers(&self) -> std::ops::Range<usize> {
        self.own().end..2 * self.own().end
    }

    /// The planes of one bit: of its own values, and of its peers'.
    pub(crate) fn entered(&self, bit: u8) -> [RegisterSlot; 2] {
        [bit.into(), self.bits + usize::from(bit)].map(|number| self.places[number])
    }

    /// Where a gate's word i goes.
    pub(crate) fn target(&self, gate: &Gate) -> usize {
        self.places[gate.target as usize].offset + gate.first
    }
}

/// Makes programs.
pub(crate) struct CircuitBuilder {
    /// The first two for each bit are what was entered, own values and then peers'.
    registers: Vec<Register>,
    gates: Vec<(usize, Gate)>,
    bits: usize,
}

struct Register {
    words: usize,
    lanes: u32,
    /// The number of rounds after which it is known.
    depth: usize,
}

impl CircuitBuilder {
    /// For values of so many bits, in planes of this size.
    pub(crate) fn new(bits: usize, (words, lanes): (usize, u32)) -> CircuitBuilder {
        let registers = (0..2 * bits).map(|_| Register { words, lanes, depth: 0 }).collect();
        CircuitBuilder { registers, gates: vec![], bits }
    }

    /// A register that gates write parts of.
    pub(crate) fn register(&mut self, words: usize, lanes: u32) -> Wire {
        self.registers.push(Register { words, lanes, depth: 0 });
        Wire(self.registers.len() as u32 - 1)
    }

    /// `x·y ⊕ plus` in a new register.
    pub(crate) fn and(&mut self, (words, lanes): (usize, u32), x: XorSum, y: XorSum, plus: XorSum) -> Wire {
        self.and_after(0, (words, lanes), x, y, plus)
    }

    /// The same, put off until so many rounds are over.
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
        let stage = known.max().unwrap_or(0).max(rounds);
        let register = &mut self.registers[target.0 as usize];
        register.depth = register.depth.max(stage + usize::from(factors.is_some()));
        self.gates.push((stage, gate));
    }

    /// Sorts gates into rounds and gives registers their memory; `kept` registers are not used
    /// again.
    pub(crate) fn finish(self, kept: &[Wire]) -> CircuitProgram {
        let count = self.registers.iter().map(|register| register.depth + 1).max().unwrap_or(1);
        let mut stages: Vec<CircuitRound> = (0..count).map(|_| CircuitRound::default()).collect();
        let mut born = vec![usize::MAX; self.registers.len()];
        let mut last = vec![0; self.registers.len()];
        born[..2 * self.bits].fill(0);
        for (stage, gate) in self.gates {
            let target = gate.target as usize;
            born[target] = born[target].min(stage);
            last[target] = last[target].max(stage);
            for term in gate.sums().flat_map(XorSum::terms) {
                let read = match term.source {
                    // Whoever entered it: all three servers have the same program.
                    Operand::Input { bit, .. } => [usize::from(bit), self.bits + usize::from(bit)],
                    Operand::Register(number) => [number as usize; 2],
                };
                read.into_iter().for_each(|register| last[register] = stage.max(last[register]));
            }
            let stage = &mut stages[stage];
            if gate.factors.is_some() { stage.ands.push(gate) } else { stage.local.push(gate) }
        }
        kept.iter().for_each(|wire| last[wire.0 as usize] = usize::MAX);

        let mut births = vec![vec![]; count];
        let mut deaths = vec![vec![]; count];
        for (number, (&born, &last)) in born.iter().zip(&last).enumerate() {
            if let Some(births) = births.get_mut(born) {
                births.push(number);
            }
            if let Some(deaths) = deaths.get_mut(last) {
                deaths.push(number);
            }
        }
        let mut places: Vec<RegisterSlot> =
            self.registers.iter().map(|r| RegisterSlot { offset: 0, words: r.words, lanes: r.lanes }).collect();
        // What was entered comes first, so it lies at the beginning and in order.
        let mut heap = Heap::default();
        for (births, deaths) in births.iter().zip(&deaths) {
            births.iter().for_each(|&number| places[number].offset = heap.take(places[number].words));
            deaths.iter().for_each(|&number| heap.give(places[number].offset, places[number].words));
        }
        let plane_words = places.first().map_or(0, |place| place.words);
        CircuitProgram { stages, places, memory: heap.end, plane_words, bits: self.bits }
    }
}

/// Memory that is handed out and given back: the smallest gap that fits.
#[derive(Default)]
struct Heap {
    gaps: std::collections::BTreeMap<usize, usize>,
    end: usize,
}

impl Heap {
    fn take(&mut self, words: usize) -> usize {
        let fitting = self.gaps.iter().filter(|&(_, &size)| size >= words).min_by_key(|&(_, &size)| size);
        if let Some((&offset, &size)) = fitting {
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

    fn give(&mut self, offset: usize, words: usize) {
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
