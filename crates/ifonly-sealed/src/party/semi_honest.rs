//! The state machine of one server in a session, secure against semi-honest servers.
//!
//! The [`Circuit`] determines which [frames](crate::frame) a party sends and expects, and their
//! lengths. No message from a peer can change this.
//!
//! ```text
//! to the next server:      r_n (step 0, if drawn), v_{n+1} of the own input (step 1)
//! to the previous server:  v_n of the own input (step 1, if drawn), z_n of every circuit round
//! ```
//!
//! A step begins when the previous step has been sent and received, so a peer is at most one step
//! further. The party returns [`FrameOutcome::NotYet`] for an early frame. The caller then keeps
//! the frame and stops reading from that peer.

use crate::circuit::build::Circuit;
use crate::circuit::program::Gate;
use crate::error::{ExpectedFrame, PeerFault, SealedError};
use crate::frame::{
    FrameCursor, FrameOutcome, HEADER_BYTES, INPUT, RANDOMNESS, header, parse, read_planes, read_words, whole_words,
    write_planes,
};
use crate::params::{FRAME_WORDS, lane_mask};
use crate::party::planes;
use crate::party::registers::ShareRegisters;
use crate::party::zero_sharing::{PrefetchedWords, ZeroSharing, key_words};
use ifonly_algebra::keys::{Purpose, TranscriptKeys};
use ifonly_algebra::random::RandomSource;
use std::sync::Arc;

/// One of the two other servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// Server n + 1, or 1 after 3.
    Next,
    /// Server n − 1, or 3 before 1.
    Previous,
}

impl Peer {
    /// The index of this peer of server `server`.
    pub fn of(self, server: usize) -> usize {
        match self {
            Peer::Next => server % 3 + 1,
            Peer::Previous => (server + 1) % 3 + 1,
        }
    }
}

/// Source of the random bits of a party.
#[derive(Debug)]
pub enum PartyRandomness {
    /// The generator that the caller passes. With the operating system's generator, privacy is
    /// information-theoretic.
    Drawn,
    /// Like `Drawn`, starting with random words that the servers sent before the session.
    Prefetched(PrefetchedWords),
    /// Keys that pairs of servers share for this session. This halves the traffic; privacy is
    /// computational.
    Keyed {
        /// Key shared with the previous server.
        with_previous: TranscriptKeys,
        /// Key shared with the next server.
        with_next: TranscriptKeys,
    },
}

/// State machine of one server in one session.
pub struct Party {
    circuit: Arc<Circuit>,
    server: usize,
    registers: ShareRegisters,
    zero: ZeroSharing,
    /// The current step.
    step: u32,
    to_previous: FrameCursor,
    to_next: FrameCursor,
    from_next: FrameCursor,
    from_previous: FrameCursor,
    /// Zero sharings for the answers; complete at the end of the session.
    answer_masks: Vec<u64>,
    failed: Option<SealedError>,
    scratch: Vec<u64>,
}

impl std::fmt::Debug for Party {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Party(server {}, step {} of {})", self.server, self.step, self.circuit.program.rounds.len())
    }
}

impl Party {
    /// The party of server `server` (1, 2 or 3). `value_of(row)` is its additive share of the row's
    /// value; only the lower k bits are used.
    pub fn new(
        circuit: &Arc<Circuit>,
        server: usize,
        randomness: PartyRandomness,
        value_of: impl Fn(usize) -> u64,
        random: &mut dyn RandomSource,
    ) -> Result<Party, SealedError> {
        if !(1..=3).contains(&server) {
            return Err(SealedError::ParamOutOfRange {
                what: "the server index",
                value: server as u64,
                least: 1,
                most: 3,
            });
        }
        let params = &circuit.params;
        let mask = lane_mask(params.lanes());
        let mut registers = ShareRegisters::new(server, &circuit.program);
        let (own, peers) = (circuit.program.own(), circuit.program.peers());
        let keyed = |keys: &TranscriptKeys, masks: &mut [u64]| {
            key_words(&keys.stream(Purpose::InputMask), 0, masks);
            masks.iter_mut().for_each(|word| *word &= mask);
        };
        let zero = match randomness {
            PartyRandomness::Drawn => {
                draw_words(random, mask, &mut registers.mine[own.clone()]);
                ZeroSharing::drawn(PrefetchedWords::for_circuit(circuit))
            }
            PartyRandomness::Prefetched(prefetched) => {
                if !prefetched.fits(circuit.zero_words()) {
                    return Err(SealedError::Misuse(
                        "the prefetched random words belong to another circuit, or were used",
                    ));
                }
                draw_words(random, mask, &mut registers.mine[own.clone()]);
                ZeroSharing::drawn(prefetched)
            }
            PartyRandomness::Keyed { with_previous, with_next } => {
                keyed(&with_previous, &mut registers.mine[own.clone()]);
                keyed(&with_next, &mut registers.next[peers]);
                ZeroSharing::keyed(&with_previous, &with_next)
            }
        };
        // Positions without a row: the input of server 1 is 2^k − 1, that of the others 0.
        let padding = if server == 1 { u64::MAX } else { 0 };
        planes::from_rows(params, value_of, padding, &mut registers.next[own.clone()]);
        let masks = &registers.mine[own.clone()];
        registers.next[own].iter_mut().zip(masks).for_each(|(value, mask)| *value ^= mask);
        let mut party = Party {
            server,
            registers,
            zero,
            step: INPUT,
            to_previous: FrameCursor::default(),
            to_next: FrameCursor::default(),
            from_next: FrameCursor::default(),
            from_previous: FrameCursor::default(),
            answer_masks: vec![],
            failed: None,
            scratch: vec![],
            circuit: Arc::clone(circuit),
        };
        party.advance();
        Ok(party)
    }

    /// Writes the next frame for a peer into `frame`; returns false if there is none now.
    pub fn next_frame(
        &mut self,
        to: Peer,
        random: &mut dyn RandomSource,
        frame: &mut Vec<u8>,
    ) -> Result<bool, SealedError> {
        self.check()?;
        frame.clear();
        let written = match to {
            Peer::Previous if self.step == INPUT => {
                let total = self.words_to_previous(INPUT);
                write_planes(&self.registers.mine[..total], &mut self.to_previous, frame)
            }
            Peer::Previous => self.write_round(frame),
            Peer::Next => {
                let own = self.circuit.program.own();
                (self.step == INPUT && write_planes(&self.registers.next[own], &mut self.to_next, frame))
                    || self.write_random_words(random, frame)
            }
        };
        self.advance();
        Ok(written)
    }

    /// Takes a frame from a peer. An error ends the session.
    pub fn receive(&mut self, from: Peer, frame: &[u8]) -> Result<FrameOutcome, SealedError> {
        self.check()?;
        let received = match from {
            Peer::Next => self.receive_from_next(frame),
            Peer::Previous => self.receive_from_previous(frame),
        };
        match received {
            Ok(outcome) => {
                self.advance();
                Ok(outcome)
            }
            Err(fault) => Err(self.fail(from, fault)),
        }
    }

    /// Reports that a peer closed its stream or exceeded its deadline. Returns an error if a frame
    /// was expected from it.
    pub fn peer_closed(&mut self, peer: Peer) -> Result<(), SealedError> {
        self.check()?;
        match self.due(peer) {
            ExpectedFrame::Nothing => Ok(()),
            due => Err(self.fail(peer, PeerFault::Closed(due))),
        }
    }

    /// The frame that is expected from a peer.
    pub fn due(&self, peer: Peer) -> ExpectedFrame {
        let part = |step, words: usize| ExpectedFrame::Part { step, chunk: (words / FRAME_WORDS) as u32 };
        match (peer, self.zero.prefetched()) {
            (Peer::Next, _) if self.from_next.words < self.words_to_previous(self.step) => {
                part(self.step, self.from_next.words)
            }
            (Peer::Next, _) if !self.ands(self.step + 1).is_empty() => part(self.step + 1, 0),
            (Peer::Previous, _)
                if self.step == INPUT && self.from_previous.words < self.circuit.program.peers().len() =>
            {
                part(INPUT, self.from_previous.words)
            }
            (Peer::Previous, Some(prefetched)) => prefetched.due(),
            _ => ExpectedFrame::Nothing,
        }
    }

    /// The peer and the frame that the party waits for. A server reports them when a deadline
    /// passes. Missing random words come first if they are needed now, then the lower step.
    pub fn waiting_for(&self) -> (Peer, ExpectedFrame) {
        let step_of = |due: &ExpectedFrame| match due {
            ExpectedFrame::Part { step, .. } if *step > RANDOMNESS => *step,
            _ => u32::MAX,
        };
        let [next, previous] = [Peer::Next, Peer::Previous].map(|peer| (peer, self.due(peer)));
        if self.lacks_random_words() || step_of(&previous.1) < step_of(&next.1) { previous } else { next }
    }

    /// Whether only missing random words keep this party from sending or finishing.
    fn lacks_random_words(&self) -> bool {
        let received_all = self.zero.prefetched().is_none_or(|prefetched| prefetched.due() == ExpectedFrame::Nothing);
        let needed = match self.is_past_rounds() {
            true => self.circuit.params.top * self.circuit.params.answer_words() - self.answer_masks.len(),
            false if self.step == INPUT => 0,
            false => FRAME_WORDS.min(self.words_to_previous(self.step) - self.to_previous.words),
        };
        !received_all && self.zero.ready() < needed
    }

    /// Whether all frames have been sent and received.
    pub fn is_finished(&self) -> bool {
        self.failed.is_none()
            && self.is_past_rounds()
            && self.answer_masks.len() == self.circuit.params.top * self.circuit.params.answer_words()
    }

    /// This server's component of the one-hot bits of a rank, counted from 0, in row order: row i
    /// is bit `i mod 8` of byte `⌊i/8⌋`. The server XORs the records whose bit is 1 and passes the
    /// sums to [`Party::answer`].
    pub fn selection(&self, rank: usize) -> Result<Vec<u8>, SealedError> {
        self.require_finished()?;
        let winner = self.circuit.winners.get(rank).ok_or(SealedError::Misuse("the search has fewer ranks"))?;
        let slot = self.circuit.program.slot(winner.chosen);
        Ok(planes::to_row_order(&self.circuit.params, &self.registers.mine[slot.offset..slot.offset + slot.words]))
    }

    /// The answer to the client: for each rank this server's component of match bit, cost and
    /// record, XORed with a zero sharing. `sums` are the XORs of the records that
    /// [`Party::selection`] selects. The call consumes the party, because a zero sharing must not
    /// be used twice.
    pub fn answer<S: AsRef<[u8]>>(self, sums: &[S]) -> Result<Vec<u8>, SealedError> {
        self.require_finished()?;
        let params = &self.circuit.params;
        if sums.len() != params.top || sums.iter().any(|sum| sum.as_ref().len() != params.record_bytes) {
            return Err(SealedError::Misuse("`sums` must hold one sum of records per rank, each as long as a record"));
        }
        let mut answer = Vec::with_capacity(params.answer_bytes());
        for ((winner, sum), masks) in
            self.circuit.winners.iter().zip(sums).zip(self.answer_masks.chunks(params.answer_words()))
        {
            let bit = |wire| self.registers.mine[self.circuit.program.slot(wire).offset] & 1;
            let cost = winner.cost.iter().enumerate().fold(0, |cost, (i, &wire)| cost | bit(wire) << (i + 1));
            let used = lane_mask(params.cost_bits as u32 + 1);
            answer.extend(((bit(winner.matches) | cost) ^ masks[0] & used).to_le_bytes());
            let masks = masks[1..].iter().flat_map(|mask| mask.to_le_bytes());
            answer.extend(sum.as_ref().iter().zip(masks).map(|(byte, mask)| byte ^ mask));
        }
        Ok(answer)
    }

    /// Sets one word of the zero sharings to 0.
    #[cfg(test)]
    pub(crate) fn omit_zero_word(&mut self, word: usize) {
        self.zero.omitted_word = Some(word);
    }

    fn check(&self) -> Result<(), SealedError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn require_finished(&self) -> Result<(), SealedError> {
        self.check()?;
        if self.is_finished() { Ok(()) } else { Err(SealedError::Misuse("the session has not finished")) }
    }

    fn fail(&mut self, peer: Peer, fault: PeerFault) -> SealedError {
        let error = SealedError::Peer { server: peer.of(self.server), fault };
        self.failed = Some(error.clone());
        error
    }

    /// Whether all circuit rounds have ended.
    fn is_past_rounds(&self) -> bool {
        self.step > INPUT && self.words_to_previous(self.step) == 0
    }

    /// The AND gates of a step; none for the input.
    fn ands(&self, step: u32) -> &[Gate] {
        let round = (step as usize).checked_sub(2).and_then(|round| self.circuit.program.rounds.get(round));
        round.map_or(&[], |round| &round.ands)
    }

    /// Words that the party sends to the previous server in a step. It receives as many from the
    /// next server.
    fn words_to_previous(&self, step: u32) -> usize {
        match (step, self.zero.prefetched()) {
            (INPUT, Some(_)) => self.circuit.program.own().len(),
            (INPUT, None) => 0,
            _ => self.ands(step).iter().map(|gate| gate.words).sum(),
        }
    }

    /// Starts the next step if the current one has been sent and received.
    fn advance(&mut self) {
        let forward = if self.step == INPUT { self.circuit.program.own().len() } else { 0 };
        let back = self.words_to_previous(self.step);
        if self.to_previous.words == back
            && self.from_next.words == back
            && self.to_next.words == forward
            && self.from_previous.words == forward
            && !self.is_past_rounds()
        {
            let round = self.step as usize - 1;
            for gate in &self.circuit.program.rounds[round].local {
                self.registers.local(&self.circuit.program, gate);
            }
            self.step += 1;
            for cursor in [&mut self.to_previous, &mut self.from_next, &mut self.to_next, &mut self.from_previous] {
                *cursor = FrameCursor::default();
            }
        }
        if self.is_past_rounds() {
            let need = self.circuit.params.top * self.circuit.params.answer_words();
            let start = self.answer_masks.len();
            self.answer_masks.resize(start + self.zero.ready().min(need - start), 0);
            self.zero.take(&mut self.answer_masks[start..]);
        }
    }

    fn write_random_words(&mut self, random: &mut dyn RandomSource, frame: &mut Vec<u8>) -> bool {
        self.zero.prefetched_mut().is_some_and(|prefetched| prefetched.write(random, frame))
    }

    /// Computes and writes the next words of the circuit round.
    fn write_round(&mut self, frame: &mut Vec<u8>) -> bool {
        let Party { circuit, registers, zero, to_previous: cursor, scratch, .. } = self;
        let Some(round) = circuit.program.rounds.get(self.step as usize - 2) else { return false };
        let words = FRAME_WORDS.min(round.words() - cursor.words);
        if words == 0 || zero.ready() < words {
            return false;
        }
        scratch.resize(words, 0);
        zero.take(scratch);
        header(self.step, cursor.words, frame);
        cursor.walk(&round.ands, scratch.len(), |gate, first, range| {
            registers.and(&circuit.program, gate, first, &mut scratch[range]);
            true
        });
        frame.resize(HEADER_BYTES + 8 * words, 0);
        let (payload, _) = frame[HEADER_BYTES..].as_chunks_mut();
        payload.iter_mut().zip(scratch.iter()).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        true
    }

    fn receive_from_next(&mut self, frame: &[u8]) -> Result<FrameOutcome, PeerFault> {
        let (step, chunk, payload) = parse(frame)?;
        let due = self.due(Peer::Next);
        if due != (ExpectedFrame::Part { step, chunk }) {
            return Err(PeerFault::OutOfOrder { step, chunk, due });
        }
        if step > self.step {
            return Ok(FrameOutcome::NotYet);
        }
        let total = self.words_to_previous(step);
        let words = FRAME_WORDS.min(total - self.from_next.words);
        let payload = whole_words(step, chunk, payload, words)?;
        if step == INPUT {
            let mask = lane_mask(self.circuit.params.lanes());
            let peers = self.circuit.program.peers();
            return read_planes(payload, mask, &mut self.registers.next[peers], &mut self.from_next);
        }
        let Party { circuit, registers, from_next: cursor, .. } = self;
        let ands = circuit.program.rounds.get(step as usize - 2).map_or(&[][..], |round| &round.ands);
        let fits = cursor.walk(ands, words, |gate, first, range| {
            let target = circuit.program.target(gate) + first;
            read_words(&payload[range.clone()], gate.mask(), &mut registers.next[target..target + range.len()])
        });
        if fits { Ok(FrameOutcome::Accepted) } else { Err(PeerFault::BeyondRows { step }) }
    }

    fn receive_from_previous(&mut self, frame: &[u8]) -> Result<FrameOutcome, PeerFault> {
        let (step, chunk, payload) = parse(frame)?;
        if let Some(prefetched) = self.zero.prefetched_mut()
            && step == RANDOMNESS
        {
            return prefetched.read(chunk, payload);
        }
        let due = self.due(Peer::Previous);
        if due != (ExpectedFrame::Part { step, chunk }) {
            return Err(PeerFault::OutOfOrder { step, chunk, due });
        }
        let previous = &mut self.registers.mine[self.circuit.program.peers()];
        let words = FRAME_WORDS.min(previous.len() - self.from_previous.words);
        let payload = whole_words(step, chunk, payload, words)?;
        read_planes(payload, lane_mask(self.circuit.params.lanes()), previous, &mut self.from_previous)
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
