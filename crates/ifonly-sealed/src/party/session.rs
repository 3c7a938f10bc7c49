//! The state machine of one server in a session: which [frames](crate::frame) it sends and expects,
//! and in which order.
//!
//! The [`Circuit`] and the [security level](ShareProtocol) determine the steps and the lengths of
//! their messages. No message from a peer can change this. Step 0 has the random words of the zero
//! sharings, which go to the next server.
//!
//! A step begins when the previous step has been sent and received, so a peer is at most one step
//! further. The party returns [`FrameOutcome::NotYet`] for an early frame. The caller then keeps
//! the frame and stops reading from that peer.

use crate::circuit::build::Circuit;
use crate::error::{ExpectedFrame, PeerFault, SealedError};
use crate::frame::{FrameCursor, FrameOutcome, HEADER_BYTES, INPUT, RANDOMNESS, header, parse, whole_words};
use crate::params::{FRAME_WORDS, lane_mask};
use crate::party::planes;
use crate::party::randomness::PartyRandomness;
use crate::party::semi_honest::SemiHonest;
use crate::party::share_protocol::ShareProtocol;
use crate::party::zero_sharing::ZeroSharing;
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
    const BOTH: [Peer; 2] = [Peer::Next, Peer::Previous];

    pub(crate) fn opposite(self) -> Peer {
        match self {
            Peer::Next => Peer::Previous,
            Peer::Previous => Peer::Next,
        }
    }

    /// The index of this peer of server `server`.
    pub fn of(self, server: usize) -> usize {
        match self {
            Peer::Next => server % 3 + 1,
            Peer::Previous => (server + 1) % 3 + 1,
        }
    }
}

/// State machine of one server in one session.
pub struct Party {
    circuit: Arc<Circuit>,
    server: usize,
    shares: Box<dyn ShareProtocol>,
    zero: ZeroSharing,
    /// The current step.
    step: u32,
    /// Positions in the messages of this step to and from each [`Peer`].
    sent: [FrameCursor; 2],
    received: [FrameCursor; 2],
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
    /// The party of server `server` (1, 2 or 3), with semi-honest security. `value_of(row)` is its
    /// additive share of the row's value; only the lower k bits are used.
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
        let (shares, zero) = SemiHonest::new(circuit, server, randomness, value_of, random)?;
        let mut party = Party {
            circuit: Arc::clone(circuit),
            server,
            shares: Box::new(shares),
            zero,
            step: INPUT,
            sent: Default::default(),
            received: Default::default(),
            answer_masks: vec![],
            failed: None,
            scratch: vec![],
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
        let written = self.write_step(to, frame) || to == Peer::Next && self.write_random_words(random, frame);
        self.advance();
        Ok(written)
    }

    /// Takes a frame from a peer. An error ends the session.
    pub fn receive(&mut self, from: Peer, frame: &[u8]) -> Result<FrameOutcome, SealedError> {
        self.check()?;
        match self.read(from, frame) {
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
        let received = self.received[peer as usize].words;
        match self.zero.prefetched() {
            _ if received < self.shares.words_from(self.step, peer) => part(self.step, received),
            _ if self.shares.words_from(self.step + 1, peer) > 0 => part(self.step + 1, 0),
            Some(prefetched) if peer == Peer::Previous => prefetched.due(),
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
        let needed = if self.is_past_steps() {
            self.words_of_answers() - self.answer_masks.len()
        } else {
            let next = |&to: &Peer| {
                if self.shares.is_masked(self.step, to) { FRAME_WORDS.min(self.words_to_send(to)) } else { 0 }
            };
            Peer::BOTH.iter().map(next).max().unwrap_or(0)
        };
        !received_all && self.zero.ready() < needed
    }

    /// Whether all frames have been sent and received.
    pub fn is_finished(&self) -> bool {
        self.failed.is_none() && self.is_past_steps() && self.answer_masks.len() == self.words_of_answers()
    }

    /// This server's component of the one-hot bits of a rank, counted from 0, in row order: row i
    /// is bit `i mod 8` of byte `⌊i/8⌋`. The server XORs the records whose bit is 1 and passes the
    /// sums to [`Party::answer`].
    pub fn selection(&self, rank: usize) -> Result<Vec<u8>, SealedError> {
        self.require_finished()?;
        let winner = self.circuit.winners.get(rank).ok_or(SealedError::Misuse("the search has fewer ranks"))?;
        let range = self.circuit.program.range(winner.chosen);
        Ok(planes::to_row_order(
            &self.circuit.params,
            &self.shares.component()[range.offset..range.offset + range.words],
        ))
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
            let bit = |wire| self.shares.component()[self.circuit.program.range(wire).offset] & 1;
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

    /// Whether all steps have ended.
    fn is_past_steps(&self) -> bool {
        let is_silent =
            |&peer: &Peer| self.shares.words_to(self.step, peer) == 0 && self.shares.words_from(self.step, peer) == 0;
        self.step > INPUT && Peer::BOTH.iter().all(is_silent)
    }

    /// Words of zero sharings that mask the answers.
    fn words_of_answers(&self) -> usize {
        self.circuit.params.top * self.circuit.params.answer_words()
    }

    /// Words of this step that have not been sent to a peer.
    fn words_to_send(&self, to: Peer) -> usize {
        self.shares.words_to(self.step, to) - self.sent[to as usize].words
    }

    /// Starts the next step if the current one has been sent and received.
    fn advance(&mut self) {
        let is_complete = |&peer: &Peer| {
            self.words_to_send(peer) == 0
                && self.received[peer as usize].words == self.shares.words_from(self.step, peer)
        };
        if Peer::BOTH.iter().all(is_complete) && !self.is_past_steps() {
            self.shares.end_step(self.step);
            self.step += 1;
            (self.sent, self.received) = Default::default();
        }
        if self.is_past_steps() {
            let start = self.answer_masks.len();
            let more = self.zero.ready().min(self.words_of_answers() - start);
            self.answer_masks.resize(start + more, 0);
            self.zero.take(&mut self.answer_masks[start..]);
        }
    }

    fn write_random_words(&mut self, random: &mut dyn RandomSource, frame: &mut Vec<u8>) -> bool {
        self.zero.prefetched_mut().is_some_and(|prefetched| prefetched.write(random, frame))
    }

    /// Computes and writes the next words of this step.
    fn write_step(&mut self, to: Peer, frame: &mut Vec<u8>) -> bool {
        let words = FRAME_WORDS.min(self.words_to_send(to));
        let Party { shares, zero, step, scratch, .. } = self;
        let (cursor, is_masked) = (&mut self.sent[to as usize], shares.is_masked(*step, to));
        if words == 0 || is_masked && zero.ready() < words {
            return false;
        }
        scratch.resize(words, 0);
        if is_masked {
            zero.take(scratch);
        }
        header(*step, cursor.words, frame);
        shares.compute(*step, to, cursor, scratch);
        frame.resize(HEADER_BYTES + 8 * words, 0);
        let (payload, _) = frame[HEADER_BYTES..].as_chunks_mut();
        payload.iter_mut().zip(scratch.iter()).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        true
    }

    fn read(&mut self, from: Peer, frame: &[u8]) -> Result<FrameOutcome, PeerFault> {
        let (step, chunk, payload) = parse(frame)?;
        if let Some(prefetched) = self.zero.prefetched_mut()
            && (from, step) == (Peer::Previous, RANDOMNESS)
        {
            return prefetched.read(chunk, payload);
        }
        let due = self.due(from);
        if due != (ExpectedFrame::Part { step, chunk }) {
            return Err(PeerFault::OutOfOrder { step, chunk, due });
        }
        if step > self.step {
            return Ok(FrameOutcome::NotYet);
        }
        let cursor = &mut self.received[from as usize];
        let words = FRAME_WORDS.min(self.shares.words_from(step, from) - cursor.words);
        let payload = whole_words(step, chunk, payload, words)?;
        if self.shares.take(step, from, cursor, payload) {
            Ok(FrameOutcome::Accepted)
        } else {
            Err(PeerFault::BeyondRows { step })
        }
    }
}
