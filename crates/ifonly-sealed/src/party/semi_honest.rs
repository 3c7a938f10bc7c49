//! One of the three servers, as a machine that is handed frames and hands out frames.
//!
//! Which [frames](crate::frame) go where, and how long they are, follows from the [`Circuit`];
//! nothing a peer sends can change it.
//!
//! ```text
//! to the next server:      r_n (step 0, if drawn)     v_{n+1} of the own input (step 1)
//! to the previous server:  v_n of the own input (step 1, if drawn), z_n of every round
//! ```
//!
//! A step begins when the one before has been sent and received, so a peer is at most one step
//! ahead. What comes early is [not taken yet](Taken::NotYet); whoever runs a party holds it back
//! and stops reading from that peer.

use crate::circuit::build::Circuit;
use crate::circuit::program::Gate;
use crate::error::{ExpectedFrame, PeerFault, SealedError};
use crate::frame::{
    AHEAD, FrameCursor, FrameOutcome, HEADER_BYTES, INPUT, header, parse, read_planes, read_words, whole_words,
    write_planes,
};
use crate::params::{FRAME_WORDS, lane_mask};
use crate::party::planes;
use crate::party::registers::ShareRegisters;
use crate::party::zero_sharing::{PrefetchedWords, ZeroSharing, key_words};
use ifonly_algebra::keys::{Purpose, TranscriptKeys};
use ifonly_algebra::random::RandomSource;
use std::sync::Arc;

/// One of the two others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// Server n + 1, or 1 after 3.
    Next,
    /// Server n − 1, or 3 before 1.
    Previous,
}

impl Peer {
    /// The number of this peer of server `server`.
    pub fn of(self, server: usize) -> usize {
        match self {
            Peer::Next => server % 3 + 1,
            Peer::Previous => (server + 1) % 3 + 1,
        }
    }
}

/// Where random bits come from.
#[derive(Debug)]
pub enum PartyRandomness {
    /// From the generator that the party is given: the operating system's, for perfect privacy. The
    /// default.
    Drawn,
    /// The same, with random bits that the servers sent each other before.
    DrawnAhead(PrefetchedWords),
    /// From keys that pairs of servers share, for this session alone: half the traffic, and privacy
    /// is computational.
    Keyed {
        /// The key of the previous server and this one.
        with_previous: TranscriptKeys,
        /// The key of this server and the next one.
        with_next: TranscriptKeys,
    },
}

/// One server's half of a session.
pub struct Party {
    circuit: Arc<Circuit>,
    server: usize,
    memory: ShareRegisters,
    zero: ZeroSharing,
    /// The step under way.
    step: u32,
    to_previous: FrameCursor,
    to_next: FrameCursor,
    from_next: FrameCursor,
    from_previous: FrameCursor,
    /// Zero-sharings for the answers; complete when the session is.
    answer_masks: Vec<u64>,
    failed: Option<SealedError>,
    scratch: Vec<u64>,
}

impl std::fmt::Debug for Party {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Party(server {}, step {} of {})", self.server, self.step, self.circuit.gates.stages.len())
    }
}

impl Party {
    /// Server `server` (1, 2 or 3) with its shares `value_of(row)` of the rows' values, of which
    /// the lower k bits count.
    pub fn new(
        circuit: &Arc<Circuit>,
        server: usize,
        randomness: PartyRandomness,
        value_of: impl Fn(usize) -> u64,
        random: &mut dyn RandomSource,
    ) -> Result<Party, SealedError> {
        if !(1..=3).contains(&server) {
            return Err(SealedError::Shape { what: "the server's number", value: server as u64, least: 1, most: 3 });
        }
        let shape = &circuit.shape;
        let mask = lane_mask(shape.lanes());
        let mut memory = ShareRegisters::new(server, &circuit.gates);
        let (own, peers) = (circuit.gates.own(), circuit.gates.peers());
        let keyed = |keys: &TranscriptKeys, masks: &mut [u64]| {
            key_words(&keys.stream(Purpose::InputMask), 0, masks);
            masks.iter_mut().for_each(|word| *word &= mask);
        };
        let zero = match randomness {
            PartyRandomness::Drawn => {
                draw_words(random, mask, &mut memory.mine[own.clone()]);
                ZeroSharing::drawn(PrefetchedWords::for_circuit(circuit))
            }
            PartyRandomness::DrawnAhead(ahead) => {
                if !ahead.fits(circuit.zero_words()) {
                    return Err(SealedError::Misuse("these random bits are for another circuit"));
                }
                draw_words(random, mask, &mut memory.mine[own.clone()]);
                ZeroSharing::drawn(ahead)
            }
            PartyRandomness::Keyed { with_previous, with_next } => {
                keyed(&with_previous, &mut memory.mine[own.clone()]);
                keyed(&with_next, &mut memory.next[peers]);
                ZeroSharing::keyed(&with_previous, &with_next)
            }
        };
        // Places without a row: server 1 enters 2^k − 1, the others 0.
        let elsewhere = if server == 1 { u64::MAX } else { 0 };
        planes::from_rows(shape, value_of, elsewhere, &mut memory.next[own.clone()]);
        let masks = &memory.mine[own.clone()];
        memory.next[own].iter_mut().zip(masks).for_each(|(value, mask)| *value ^= mask);
        let mut party = Party {
            server,
            memory,
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

    /// Puts the next frame for a peer into `frame`; false if there is none now.
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
                let total = self.words_back(INPUT);
                write_planes(&self.memory.mine[..total], &mut self.to_previous, frame)
            }
            Peer::Previous => self.write_round(frame),
            Peer::Next => {
                let own = self.circuit.gates.own();
                (self.step == INPUT && write_planes(&self.memory.next[own], &mut self.to_next, frame))
                    || self.write_ahead(random, frame)
            }
        };
        self.advance();
        Ok(written)
    }

    /// Takes a frame from a peer. After an error the session is over.
    pub fn receive(&mut self, from: Peer, frame: &[u8]) -> Result<FrameOutcome, SealedError> {
        self.check()?;
        let taken = match from {
            Peer::Next => self.receive_back(frame),
            Peer::Previous => self.receive_forward(frame),
        };
        match taken {
            Ok(taken) => {
                self.advance();
                Ok(taken)
            }
            Err(fault) => Err(self.fail(from, fault)),
        }
    }

    /// Says that a peer went away, or that its time is up: an error if something was due from it.
    pub fn peer_closed(&mut self, peer: Peer) -> Result<(), SealedError> {
        self.check()?;
        match self.due(peer) {
            ExpectedFrame::Nothing => Ok(()),
            due => Err(self.fail(peer, PeerFault::Vanished(due))),
        }
    }

    /// What is due from a peer.
    pub fn due(&self, peer: Peer) -> ExpectedFrame {
        let part = |step, words: usize| ExpectedFrame::Part { step, chunk: (words / FRAME_WORDS) as u32 };
        match (peer, self.zero.ahead()) {
            (Peer::Next, _) if self.from_next.words < self.words_back(self.step) => {
                part(self.step, self.from_next.words)
            }
            (Peer::Next, _) if !self.ands(self.step + 1).is_empty() => part(self.step + 1, 0),
            (Peer::Previous, _)
                if self.step == INPUT && self.from_previous.words < self.circuit.gates.peers().len() =>
            {
                part(INPUT, self.from_previous.words)
            }
            (Peer::Previous, Some(ahead)) => ahead.due(),
            _ => ExpectedFrame::Nothing,
        }
    }

    /// Whom the party waits for, and for what; a server names it when a deadline passes. Random
    /// bits are late once they are needed, anything else in the order of steps.
    pub fn behind(&self) -> (Peer, ExpectedFrame) {
        let late = |due: &ExpectedFrame| match due {
            ExpectedFrame::Part { step, .. } if *step > AHEAD => *step,
            _ => u32::MAX,
        };
        let [next, previous] = [Peer::Next, Peer::Previous].map(|peer| (peer, self.due(peer)));
        if self.lacks_random_bits() || late(&previous.1) < late(&next.1) { previous } else { next }
    }

    /// Whether this party could send or finish, if it had received the random bits for it.
    fn lacks_random_bits(&self) -> bool {
        let received_all = self.zero.ahead().is_none_or(|ahead| ahead.due() == ExpectedFrame::Nothing);
        let unsent = match self.over() {
            true => self.circuit.shape.top * self.circuit.shape.answer_words() - self.answer_masks.len(),
            false if self.step == INPUT => 0,
            false => FRAME_WORDS.min(self.words_back(self.step) - self.to_previous.words),
        };
        !received_all && self.zero.ready() < unsent
    }

    /// Whether everything has been sent and received.
    pub fn is_finished(&self) -> bool {
        self.failed.is_none()
            && self.over()
            && self.answer_masks.len() == self.circuit.shape.top * self.circuit.shape.answer_words()
    }

    /// This server's component of the bits that name the record of one rank, from 0, in the order
    /// of the rows: bit `i mod 8` of byte `⌊i/8⌋` for row i. The server XORs the records that it
    /// names and hands the sums to [`Party::answer`].
    pub fn selection(&self, rank: usize) -> Result<Vec<u8>, SealedError> {
        self.require_finished()?;
        let winner = self.circuit.winners.get(rank).ok_or(SealedError::Misuse("there are fewer ranks"))?;
        let place = self.circuit.gates.place(winner.chosen);
        Ok(planes::to_row_order(&self.circuit.shape, &self.memory.mine[place.offset..place.offset + place.words]))
    }

    /// What the user gets: for each rank its component of (qualifies, cost, record), re-shared.
    /// `sums` are the XORs of the records that [`Party::selection`] named. The party is used up,
    /// because a zero-sharing serves once.
    pub fn answer<S: AsRef<[u8]>>(self, sums: &[S]) -> Result<Vec<u8>, SealedError> {
        self.require_finished()?;
        let shape = &self.circuit.shape;
        if sums.len() != shape.top || sums.iter().any(|sum| sum.as_ref().len() != shape.record_bytes) {
            return Err(SealedError::Misuse("there must be one sum of records for each rank, as long as a record"));
        }
        let mut answer = Vec::with_capacity(shape.answer_bytes());
        for ((winner, sum), masks) in
            self.circuit.winners.iter().zip(sums).zip(self.answer_masks.chunks(shape.answer_words()))
        {
            let bit = |wire| self.memory.mine[self.circuit.gates.place(wire).offset] & 1;
            let cost = winner.cost.iter().enumerate().fold(0, |cost, (place, &wire)| cost | bit(wire) << (place + 1));
            let used = lane_mask(shape.cost_bits as u32 + 1);
            answer.extend(((bit(winner.qualifies) | cost) ^ masks[0] & used).to_le_bytes());
            let masks = masks[1..].iter().flat_map(|mask| mask.to_le_bytes());
            answer.extend(sum.as_ref().iter().zip(masks).map(|(byte, mask)| byte ^ mask));
        }
        Ok(answer)
    }

    /// Leaves out one word of the zero-sharings.
    #[cfg(test)]
    pub(crate) fn leave_out(&mut self, word: usize) {
        self.zero.left_out = Some(word);
    }

    fn check(&self) -> Result<(), SealedError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn require_finished(&self) -> Result<(), SealedError> {
        self.check()?;
        if self.is_finished() { Ok(()) } else { Err(SealedError::Misuse("the session is not over yet")) }
    }

    fn fail(&mut self, peer: Peer, fault: PeerFault) -> SealedError {
        let error = SealedError::Peer { server: peer.of(self.server), fault };
        self.failed = Some(error.clone());
        error
    }

    /// Whether all rounds are.
    fn over(&self) -> bool {
        self.step > INPUT && self.words_back(self.step) == 0
    }

    /// The ANDs of a round.
    fn ands(&self, step: u32) -> &[Gate] {
        let stage = (step as usize).checked_sub(2).and_then(|stage| self.circuit.gates.stages.get(stage));
        stage.map_or(&[], |stage| &stage.ands)
    }

    /// Words that go to the previous server in a step.
    fn words_back(&self, step: u32) -> usize {
        match (step, self.zero.ahead()) {
            (INPUT, Some(_)) => self.circuit.gates.own().len(),
            (INPUT, None) => 0,
            _ => self.ands(step).iter().map(|gate| gate.words).sum(),
        }
    }

    /// Goes on to the next step when this one has been sent and received.
    fn advance(&mut self) {
        let forward = if self.step == INPUT { self.circuit.gates.own().len() } else { 0 };
        let back = self.words_back(self.step);
        if self.to_previous.words == back
            && self.from_next.words == back
            && self.to_next.words == forward
            && self.from_previous.words == forward
            && !self.over()
        {
            let stage = self.step as usize - 1;
            for gate in &self.circuit.gates.stages[stage].local {
                self.memory.local(&self.circuit.gates, gate);
            }
            self.step += 1;
            for cursor in [&mut self.to_previous, &mut self.from_next, &mut self.to_next, &mut self.from_previous] {
                *cursor = FrameCursor::default();
            }
        }
        if self.over() {
            let need = self.circuit.shape.top * self.circuit.shape.answer_words();
            let start = self.answer_masks.len();
            self.answer_masks.resize(start + self.zero.ready().min(need - start), 0);
            self.zero.take(&mut self.answer_masks[start..]);
        }
    }

    fn write_ahead(&mut self, random: &mut dyn RandomSource, frame: &mut Vec<u8>) -> bool {
        self.zero.ahead_mut().is_some_and(|ahead| ahead.write(random, frame))
    }

    /// Computes the next words of the round and writes them.
    fn write_round(&mut self, frame: &mut Vec<u8>) -> bool {
        let Party { circuit, memory, zero, to_previous: cursor, scratch, .. } = self;
        let Some(stage) = circuit.gates.stages.get(self.step as usize - 2) else { return false };
        let words = FRAME_WORDS.min(stage.words() - cursor.words);
        if words == 0 || zero.ready() < words {
            return false;
        }
        scratch.resize(words, 0);
        zero.take(scratch);
        header(self.step, cursor.words, frame);
        cursor.walk(&stage.ands, scratch.len(), |gate, first, range| {
            memory.and(&circuit.gates, gate, first, &mut scratch[range]);
            true
        });
        frame.resize(HEADER_BYTES + 8 * words, 0);
        let (payload, _) = frame[HEADER_BYTES..].as_chunks_mut();
        payload.iter_mut().zip(scratch.iter()).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        true
    }

    fn receive_back(&mut self, frame: &[u8]) -> Result<FrameOutcome, PeerFault> {
        let (step, chunk, payload) = parse(frame)?;
        let due = self.due(Peer::Next);
        if due != (ExpectedFrame::Part { step, chunk }) {
            return Err(PeerFault::OutOfOrder { step, chunk, due });
        }
        if step > self.step {
            return Ok(FrameOutcome::NotYet);
        }
        let total = self.words_back(step);
        let words = FRAME_WORDS.min(total - self.from_next.words);
        let payload = whole_words(step, chunk, payload, words)?;
        if step == INPUT {
            let mask = lane_mask(self.circuit.shape.lanes());
            let peers = self.circuit.gates.peers();
            return read_planes(payload, mask, &mut self.memory.next[peers], &mut self.from_next);
        }
        let Party { circuit, memory, from_next: cursor, .. } = self;
        let ands = circuit.gates.stages.get(step as usize - 2).map_or(&[][..], |stage| &stage.ands);
        let fits = cursor.walk(ands, words, |gate, first, range| {
            let target = circuit.gates.target(gate) + first;
            read_words(&payload[range.clone()], gate.mask(), &mut memory.next[target..target + range.len()])
        });
        if fits { Ok(FrameOutcome::Yes) } else { Err(PeerFault::BeyondRows { step }) }
    }

    fn receive_forward(&mut self, frame: &[u8]) -> Result<FrameOutcome, PeerFault> {
        let (step, chunk, payload) = parse(frame)?;
        if let Some(ahead) = self.zero.ahead_mut()
            && step == AHEAD
        {
            return ahead.read(chunk, payload);
        }
        let due = self.due(Peer::Previous);
        if due != (ExpectedFrame::Part { step, chunk }) {
            return Err(PeerFault::OutOfOrder { step, chunk, due });
        }
        let previous = &mut self.memory.mine[self.circuit.gates.peers()];
        let words = FRAME_WORDS.min(previous.len() - self.from_previous.words);
        let payload = whole_words(step, chunk, payload, words)?;
        read_planes(payload, lane_mask(self.circuit.shape.lanes()), previous, &mut self.from_previous)
    }
}

/// Uniform words, the lanes of the mask only.
fn draw_words(random: &mut dyn RandomSource, mask: u64, words: &mut [u64]) {
    let mut bytes = vec![0; 8 * FRAME_WORDS.min(words.len())];
    for part in words.chunks_mut(FRAME_WORDS) {
        let bytes = &mut bytes[..8 * part.len()];
        random.fill(bytes);
        let (bytes, _) = bytes.as_chunks();
        part.iter_mut().zip(bytes).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes) & mask);
    }
}
