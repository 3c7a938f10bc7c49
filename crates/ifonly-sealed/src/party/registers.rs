//! The share registers of one server, and the evaluation of gates on them.
//!
//! Replicated sharing: v = v_1 ⊕ v_2 ⊕ v_3, and server n holds v_n ("mine") and v_{n+1} ("next").
//! The input of server m has v_{m+2} = 0. So a server holds both components of its own input, v_n
//! of the input of its previous server and v_{n+1} of the input of its next server. This needs two
//! planes per bit in each component. The constant 1 has v_1 = 1 and v_2 = v_3 = 0.

use crate::circuit::program::{CircuitProgram, Gate, Operand, ReadPattern, XorSum};
use crate::params::lane_mask;

/// Words that are computed together. Five buffers of this size fit into the L1 cache.
const TILE: usize = 256;

/// One of the two components that a server holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShareComponent {
    Mine,
    Next,
}

/// The registers of server `server`.
pub(crate) struct ShareRegisters {
    server: usize,
    pub(crate) mine: Vec<u64>,
    pub(crate) next: Vec<u64>,
}

impl ShareRegisters {
    pub(crate) fn new(server: usize, program: &CircuitProgram) -> ShareRegisters {
        ShareRegisters { server, mine: vec![0; program.memory], next: vec![0; program.memory] }
    }

    /// Evaluates a local gate in both components.
    pub(crate) fn local(&mut self, program: &CircuitProgram, gate: &Gate) {
        let mut tile = [0; TILE];
        for first in (0..gate.words).step_by(TILE) {
            let words = TILE.min(gate.words - first);
            let tile = &mut tile[..words];
            let target = program.target(gate) + first;
            for component in [ShareComponent::Mine, ShareComponent::Next] {
                self.sum(program, &gate.plus, component, first, tile);
                let memory = if component == ShareComponent::Mine { &mut self.mine } else { &mut self.next };
                let mask = gate.mask();
                memory[target..target + words].iter_mut().zip(tile.iter()).for_each(|(word, sum)| *word = sum & mask);
            }
        }
    }

    /// Evaluates words `first..` of this server's component of an AND gate: `x_n·y_n ⊕ x_n·y_{n+1}
    /// ⊕ x_{n+1}·y_n ⊕ plus_n ⊕ zero`. The result replaces `zero`.
    pub(crate) fn and(&mut self, program: &CircuitProgram, gate: &Gate, first: usize, zero: &mut [u64]) {
        let Some((x, y)) = &gate.factors else { return };
        let (mut x_mine, mut x_next, mut y_mine, mut y_next, mut plus) =
            ([0; TILE], [0; TILE], [0; TILE], [0; TILE], [0; TILE]);
        let mask = gate.mask();
        let mut at = first;
        for zero in zero.chunks_mut(TILE) {
            let words = zero.len();
            self.sum(program, x, ShareComponent::Mine, at, &mut x_mine[..words]);
            self.sum(program, x, ShareComponent::Next, at, &mut x_next[..words]);
            self.sum(program, y, ShareComponent::Mine, at, &mut y_mine[..words]);
            self.sum(program, y, ShareComponent::Next, at, &mut y_next[..words]);
            self.sum(program, &gate.plus, ShareComponent::Mine, at, &mut plus[..words]);
            for i in 0..words {
                let product = x_mine[i] & (y_mine[i] ^ y_next[i]) ^ x_next[i] & y_mine[i];
                zero[i] = (product ^ plus[i] ^ zero[i]) & mask;
            }
            let target = program.target(gate) + at;
            self.mine[target..target + words].copy_from_slice(zero);
            at += words;
        }
    }

    /// Computes words `first..` of one component of an XOR sum.
    fn sum(&self, program: &CircuitProgram, sum: &XorSum, component: ShareComponent, first: usize, out: &mut [u64]) {
        let one = self.constant(component);
        out.fill(if sum.one { one } else { 0 });
        for term in sum.terms() {
            let beyond = if term.beyond { one } else { 0 };
            let range = match term.source {
                Operand::Input { server, bit } => {
                    let [own, peers] = program.inputs(bit);
                    match ((usize::from(server) + 3 - self.server) % 3, component) {
                        (0, _) => own,
                        (1, ShareComponent::Next) | (2, ShareComponent::Mine) => peers,
                        // This component of the input is 0.
                        _ => continue,
                    }
                }
                Operand::Register(number) => program.register(number),
            };
            let memory = if component == ShareComponent::Mine { &self.mine } else { &self.next };
            add(&memory[range.offset..range.offset + range.words], range.lanes, term.read, beyond, first, out);
        }
    }

    /// One component of the constant 1.
    fn constant(&self, component: ShareComponent) -> u64 {
        match (self.server, component) {
            (1, ShareComponent::Mine) | (3, ShareComponent::Next) => u64::MAX,
            _ => 0,
        }
    }
}

/// XORs the words that a gate reads from a register into `out`.
fn add(words: &[u64], lanes: u32, read: ReadPattern, beyond: u64, first: usize, out: &mut [u64]) {
    let add_all = |out: &mut [u64], words: &[u64]| out.iter_mut().zip(words).for_each(|(out, word)| *out ^= word);
    match read {
        ReadPattern::From(skip) => add_all(out, &words[skip as usize + first..]),
        ReadPattern::Even => {
            out.iter_mut().zip(words[2 * first..].iter().step_by(2)).for_each(|(out, word)| *out ^= word)
        }
        ReadPattern::Odd => {
            let (pairs, _) = words[2 * first..].as_chunks::<2>();
            out.iter_mut().zip(pairs).for_each(|(out, [_, word])| *out ^= word);
            // Only the last word of a gate can be unpaired.
            if let Some(last) = out.get_mut(pairs.len()) {
                *last ^= beyond;
            }
        }
        ReadPattern::EvenLanes => out[0] ^= even_bits(words[0]),
        ReadPattern::OddLanes => out[0] ^= even_bits((words[0] | beyond & !lane_mask(lanes)) >> 1),
        ReadPattern::Spread => {
            let bit = 0u64.wrapping_sub(words[0] & 1);
            out.iter_mut().for_each(|out| *out ^= bit);
        }
        ReadPattern::Up(lanes) => out[0] ^= words[0] << lanes,
    }
}

/// Moves bits 0, 2, 4, … to bits 0, 1, 2, ….
fn even_bits(word: u64) -> u64 {
    let mut bits = word & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0F0F_0F0F_0F0F_0F0F),
        (4, 0x00FF_00FF_00FF_00FF),
        (8, 0x0000_FFFF_0000_FFFF),
        (16, 0x0000_0000_FFFF_FFFF),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    bits
}
