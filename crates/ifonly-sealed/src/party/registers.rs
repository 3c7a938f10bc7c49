//! What one server holds: two components of every register and of what was entered, and the gates
//! on them.
//!
//! A bit v is v_1 ⊕ v_2 ⊕ v_3; server n holds v_n ("mine") and v_{n+1} ("next"). What server m
//! entered has v_{m+2} = 0, so that a server holds two components of its own values and one of each
//! peer's, the previous one's v_n and the next one's v_{n+1}: two planes on each side for every
//! bit. The constant 1 has v_1 = 1.

use crate::circuit::program::{CircuitProgram, Gate, Operand, ReadPattern, XorSum};
use crate::params::lane_mask;

/// Words that are computed together: they fit into the innermost cache.
const TILE: usize = 256;

/// Which of a server's two components.
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
    pub(crate) fn new(server: usize, gates: &CircuitProgram) -> ShareRegisters {
        ShareRegisters { server, mine: vec![0; gates.memory], next: vec![0; gates.memory] }
    }

    /// A local gate, both components.
    pub(crate) fn local(&mut self, gates: &CircuitProgram, gate: &Gate) {
        let mut tile = [0; TILE];
        for first in (0..gate.words).step_by(TILE) {
            let words = TILE.min(gate.words - first);
            let tile = &mut tile[..words];
            let target = gates.target(gate) + first;
            for side in [ShareComponent::Mine, ShareComponent::Next] {
                self.sum(gates, &gate.plus, side, first, tile);
                let memory = if side == ShareComponent::Mine { &mut self.mine } else { &mut self.next };
                let mask = gate.mask();
                memory[target..target + words].iter_mut().zip(tile.iter()).for_each(|(word, sum)| *word = sum & mask);
            }
        }
    }

    /// Words `first..` of this server's component of an AND: `x_n·y_n ⊕ x_n·y_{n+1} ⊕ x_{n+1}·y_n ⊕
    /// plus_n ⊕ zero`, in place of `zero`.
    pub(crate) fn and(&mut self, gates: &CircuitProgram, gate: &Gate, first: usize, zero: &mut [u64]) {
        let Some((x, y)) = &gate.factors else { return };
        let (mut x_mine, mut x_next, mut y_mine, mut y_next, mut plus) =
            ([0; TILE], [0; TILE], [0; TILE], [0; TILE], [0; TILE]);
        let mask = gate.mask();
        let mut at = first;
        for zero in zero.chunks_mut(TILE) {
            let words = zero.len();
            self.sum(gates, x, ShareComponent::Mine, at, &mut x_mine[..words]);
            self.sum(gates, x, ShareComponent::Next, at, &mut x_next[..words]);
            self.sum(gates, y, ShareComponent::Mine, at, &mut y_mine[..words]);
            self.sum(gates, y, ShareComponent::Next, at, &mut y_next[..words]);
            self.sum(gates, &gate.plus, ShareComponent::Mine, at, &mut plus[..words]);
            for i in 0..words {
                let product = x_mine[i] & (y_mine[i] ^ y_next[i]) ^ x_next[i] & y_mine[i];
                zero[i] = (product ^ plus[i] ^ zero[i]) & mask;
            }
            let target = gates.target(gate) + at;
            self.mine[target..target + words].copy_from_slice(zero);
            at += words;
        }
    }

    /// One component of a sum, words `first..`.
    fn sum(&self, gates: &CircuitProgram, sum: &XorSum, side: ShareComponent, first: usize, out: &mut [u64]) {
        let one = self.constant(side);
        out.fill(if sum.one { one } else { 0 });
        for term in sum.terms() {
            let beyond = if term.beyond { one } else { 0 };
            let place = match term.source {
                Operand::Input { server, bit } => {
                    let [own, peers] = gates.entered(bit);
                    match ((usize::from(server) + 3 - self.server) % 3, side) {
                        (0, _) => own,
                        (1, ShareComponent::Next) | (2, ShareComponent::Mine) => peers,
                        // The component that is 0.
                        _ => continue,
                    }
                }
                Operand::Register(number) => gates.register(number),
            };
            let memory = if side == ShareComponent::Mine { &self.mine } else { &self.next };
            add(&memory[place.offset..place.offset + place.words], place.lanes, term.read, beyond, first, out);
        }
    }

    /// The component of the constant 1.
    fn constant(&self, side: ShareComponent) -> u64 {
        match (self.server, side) {
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
            // Only the very last word of a gate can lack its neighbour.
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

/// Bits 0, 2, 4, … side by side.
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
