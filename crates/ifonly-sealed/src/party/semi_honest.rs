//! Semi-honest security: the messages that a server receives reveal nothing, if all servers follow
//! the protocol. A lie is not detected.
//!
//! ```text
//! to the next server:      v_{n+1} of the own input (step 1)
//! to the previous server:  v_n of the own input (step 1, if drawn), z_n of every circuit round
//! ```

use crate::circuit::build::Circuit;
use crate::circuit::program::Gate;
use crate::error::SealedError;
use crate::frame::{FrameCursor, INPUT, read_words};
use crate::params::{FRAME_WORDS, lane_mask};
use crate::party::planes;
use crate::party::randomness::PartyRandomness;
use crate::party::registers::ShareRegisters;
use crate::party::session::Peer;
use crate::party::share_protocol::ShareProtocol;
use crate::party::zero_sharing::{PrefetchedWords, ZeroSharing, key_words};
use ifonly_algebra::keys::{Purpose, TranscriptKeys};
use ifonly_algebra::random::RandomSource;
use std::sync::Arc;

/// The replicated shares of one server.
pub(crate) struct SemiHonest {
    circuit: Arc<Circuit>,
    registers: ShareRegisters,
    /// Whether this server draws the masks of its input, and not a key.
    draws_masks: bool,
}

impl SemiHonest {
    /// Shares the input of server `server` and prepares the zero sharings of the session.
    pub(crate) fn new(
        circuit: &Arc<Circuit>,
        server: usize,
        randomness: PartyRandomness,
        value_of: impl Fn(usize) -> u64,
        random: &mut dyn RandomSource,
    ) -> Result<(SemiHonest, ZeroSharing), SealedError> {
        let params = &circuit.params;
        let mask = lane_mask(params.lanes());
        let mut registers = ShareRegisters::new(server, &circuit.program);
        let (own, peers) = (circuit.program.own(), circuit.program.peers());
        let keyed = |keys: &TranscriptKeys, masks: &mut [u64]| {
            key_words(&keys.stream(Purpose::InputMask), 0, masks);
            masks.iter_mut().for_each(|word| *word &= mask);
        };
        let (zero, draws_masks) = match randomness {
            PartyRandomness::Drawn => (ZeroSharing::drawn(PrefetchedWords::for_circuit(circuit)), true),
            PartyRandomness::Prefetched(prefetched) if !prefetched.fits(circuit.zero_words()) => {
                return Err(SealedError::Misuse("the prefetched random words belong to another circuit, or were used"));
            }
            PartyRandomness::Prefetched(prefetched) => (ZeroSharing::drawn(prefetched), true),
            PartyRandomness::Keyed { with_previous, with_next } => {
                keyed(&with_previous, &mut registers.mine[own.clone()]);
                keyed(&with_next, &mut registers.next[peers]);
                (ZeroSharing::keyed(&with_previous, &with_next), false)
            }
        };
        if draws_masks {
            draw_words(random, mask, &mut registers.mine[own.clone()]);
        }
        // Positions without a row: the input of server 1 is 2^k − 1, that of the others 0.
        let padding = if server == 1 { u64::MAX } else { 0 };
        planes::from_rows(params, value_of, padding, &mut registers.next[own.clone()]);
        let masks = &registers.mine[own.clone()];
        registers.next[own].iter_mut().zip(masks).for_each(|(value, mask)| *value ^= mask);
        Ok((SemiHonest { circuit: Arc::clone(circuit), registers, draws_masks }, zero))
    }
}

/// The AND gates of a step; none for the input.
fn ands(circuit: &Circuit, step: u32) -> &[Gate] {
    let round = (step as usize).checked_sub(2).and_then(|round| circuit.program.rounds.get(round));
    round.map_or(&[], |round| &round.ands)
}

impl ShareProtocol for SemiHonest {
    fn words_to(&self, step: u32, to: Peer) -> usize {
        match (step, to) {
            (INPUT, Peer::Previous) if !self.draws_masks => 0,
            (INPUT, _) => self.circuit.program.own().len(),
            (_, Peer::Previous) => ands(&self.circuit, step).iter().map(|gate| gate.words).sum(),
            (_, Peer::Next) => 0,
        }
    }

    fn is_masked(&self, step: u32, to: Peer) -> bool {
        step != INPUT && to == Peer::Previous
    }

    fn compute(&mut self, step: u32, to: Peer, cursor: &mut FrameCursor, words: &mut [u64]) {
        let SemiHonest { circuit, registers, .. } = self;
        if step == INPUT {
            let planes = if to == Peer::Previous { &registers.mine } else { &registers.next };
            words.copy_from_slice(&planes[circuit.program.own()][cursor.words..cursor.words + words.len()]);
            cursor.words += words.len();
            return;
        }
        cursor.walk(ands(circuit, step), words.len(), |gate, first, range| {
            registers.and(&circuit.program, gate, first, &mut words[range]);
            true
        });
    }

    fn take(&mut self, step: u32, from: Peer, cursor: &mut FrameCursor, words: &[[u8; 8]]) -> bool {
        let SemiHonest { circuit, registers, .. } = self;
        if step == INPUT {
            let component = if from == Peer::Previous { &mut registers.mine } else { &mut registers.next };
            let planes = &mut component[circuit.program.peers()][cursor.words..cursor.words + words.len()];
            cursor.words += words.len();
            return read_words(words, lane_mask(circuit.params.lanes()), planes);
        }
        cursor.walk(ands(circuit, step), words.len(), |gate, first, range| {
            let target = circuit.program.target(gate) + first;
            read_words(&words[range.clone()], gate.mask(), &mut registers.next[target..target + range.len()])
        })
    }

    fn end_step(&mut self, step: u32) {
        for gate in &self.circuit.program.rounds[step as usize - 1].local {
            self.registers.local(&self.circuit.program, gate);
        }
    }

    fn component(&self) -> &[u64] {
        &self.registers.mine
    }
}

/// Draws uniform words; lanes outside the mask are 0.
fn draw_words(random: &mut dyn RandomSource, mask: u64, words: &mut [u64]) {
    let mut bytes = vec![0; 8 * FRAME_WORDS.min(words.len())];
    for part in words.chunks_mut(FRAME_WORDS) {
        let bytes = &mut bytes[..8 * part.len()];
        random.fill(bytes);
        let (bytes, _) = bytes.as_chunks();
        part.iter_mut().zip(bytes).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes) & mask);
    }
}
