//! Zero-sharings: server n gets `r_n ⊕ r_{n−1}`, and the three of them sum to 0.
//!
//! With [`Ahead`] server n draws r_n and sends it to server n + 1, at any time before it is needed,
//! for it depends on nothing: what the others receive is then exactly uniform. With keys r_n is a
//! stream that servers n and n + 1 share; nothing is sent and privacy is computational. Every word
//! of r is used once.

use crate::circuit::build::Circuit;
use crate::error::{ExpectedFrame, PeerFault, SealedError};
use crate::frame::{AHEAD, FrameOutcome, HEADER_BYTES, header, parse, whole_words};
use crate::params::FRAME_WORDS;
use ifonly_algebra::keys::{KeyStream, Purpose, TranscriptKeys};
use ifonly_algebra::random::RandomSource;
use std::collections::VecDeque;

/// Random words that one server drew, or got from the server before it, and has not used yet.
/// Servers send some before a search exists ([`Ahead::before`]); the next search takes them over
/// ([`Ahead::joined`]).
pub struct PrefetchedWords {
    /// r_n ⊕ r_{n−1}, or only one of them where the other is still to come.
    words: VecDeque<u64>,
    /// Words of the whole stream.
    total: usize,
    /// Words that may wait for their use.
    lead: usize,
    drawn: usize,
    received: usize,
    used: usize,
}

impl std::fmt::Debug for PrefetchedWords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ahead({} drawn, {} received, {} used of {})", self.drawn, self.received, self.used, self.total)
    }
}

impl PrefetchedWords {
    pub(crate) fn new(total: usize, lead: usize) -> PrefetchedWords {
        PrefetchedWords { words: VecDeque::with_capacity(total.min(lead)), total, lead, drawn: 0, received: 0, used: 0 }
    }

    /// How many words the next frame holds whose first word is `at`, if there is room for them.
    fn room(&self, at: usize) -> usize {
        let words = FRAME_WORDS.min(self.total - at);
        if at + words - self.used <= self.lead { words } else { 0 }
    }

    /// Words of the next frame to receive; 0 if there is no room yet or nothing left.
    fn to_receive(&self) -> usize {
        self.room(self.received)
    }

    /// The part of the stream that is due.
    fn chunk_due(&self) -> usize {
        self.received / FRAME_WORDS
    }

    fn all_received(&self) -> bool {
        self.received == self.total
    }

    /// Draws the words of the next frame and appends them to it; gives the frame's number, or
    /// `None` if there is no room yet.
    fn draw(&mut self, random: &mut dyn RandomSource, frame: &mut Vec<u8>) -> Option<usize> {
        let words = self.room(self.drawn);
        if words == 0 {
            return None;
        }
        let chunk = self.drawn / FRAME_WORDS;
        let start = frame.len();
        frame.resize(start + 8 * words, 0);
        random.fill(&mut frame[start..]);
        merge(&mut self.words, self.drawn - self.used, &frame[start..]);
        self.drawn += words;
        Some(chunk)
    }

    /// Words of the frame that is due, whether or not there is room for them.
    fn words_due(&self) -> usize {
        FRAME_WORDS.min(self.total - self.received)
    }

    /// Whether it is for a search that takes this many words, and unused.
    pub(crate) fn fits(&self, words: usize) -> bool {
        self.total == words && self.used == 0
    }

    /// Takes the payload of a frame of as many words as [`Ahead::to_receive`] says.
    fn take_in(&mut self, payload: &[u8]) {
        merge(&mut self.words, self.received - self.used, payload);
        self.received += payload.len() / 8;
    }
}

/// As frames of step 0.
impl PrefetchedWords {
    /// For a search of this circuit, of which nothing was sent before.
    pub(crate) fn for_circuit(circuit: &Circuit) -> PrefetchedWords {
        PrefetchedWords::new(circuit.zero_words(), circuit.shape.lead_words())
    }

    /// One direction of what is sent before a search exists: of what this server draws, or of what
    /// the previous one did. As much as one search like this one may be given.
    pub fn before(circuit: &Circuit) -> PrefetchedWords {
        let words = circuit.shape.words_before().min(circuit.zero_words().next_multiple_of(FRAME_WORDS));
        PrefetchedWords::new(words, words)
    }

    /// For a search of this circuit, with what was drawn and received before it; none where nothing
    /// was.
    pub fn joined(
        circuit: &Circuit,
        drawn: Option<PrefetchedWords>,
        received: Option<PrefetchedWords>,
    ) -> PrefetchedWords {
        let mut whole = PrefetchedWords::for_circuit(circuit);
        // Both have whole frames, unless they have all words of this search, so the next frame's
        // number follows.
        if let Some(mut drawn) = drawn {
            drawn.words.truncate(whole.total);
            whole.drawn = drawn.words.len();
            whole.words = drawn.words;
        }
        if let Some(mut received) = received {
            received.words.truncate(whole.total);
            whole.received = received.words.len();
            if whole.words.len() < received.words.len() {
                std::mem::swap(&mut whole.words, &mut received.words);
            }
            whole.words.iter_mut().zip(received.words).for_each(|(word, other)| *word ^= other);
        }
        whole
    }

    /// Puts the next frame for the next server into `frame`; false if there is no room now, or no
    /// more to draw.
    pub fn next_frame(&mut self, random: &mut dyn RandomSource, frame: &mut Vec<u8>) -> bool {
        frame.clear();
        self.write(random, frame)
    }

    /// Takes a frame from the previous server; `server` is that server's number.
    pub fn receive(&mut self, server: usize, frame: &[u8]) -> Result<FrameOutcome, SealedError> {
        let taken = parse(frame).and_then(|(step, chunk, payload)| match step {
            AHEAD => self.read(chunk, payload),
            _ => Err(PeerFault::OutOfOrder { step, chunk, due: self.due() }),
        });
        taken.map_err(|fault| SealedError::Peer { server, fault })
    }

    pub(crate) fn write(&mut self, random: &mut dyn RandomSource, frame: &mut Vec<u8>) -> bool {
        header(AHEAD, 0, frame);
        let Some(chunk) = self.draw(random, frame) else {
            frame.clear();
            return false;
        };
        frame[4..HEADER_BYTES].copy_from_slice(&(chunk as u32).to_le_bytes());
        true
    }

    pub(crate) fn read(&mut self, chunk: u32, payload: &[u8]) -> Result<FrameOutcome, PeerFault> {
        if self.due() != (ExpectedFrame::Part { step: AHEAD, chunk }) {
            return Err(PeerFault::OutOfOrder { step: AHEAD, chunk, due: self.due() });
        }
        whole_words(AHEAD, chunk, payload, self.words_due())?;
        if self.to_receive() == 0 {
            return Ok(FrameOutcome::NotYet);
        }
        self.take_in(payload);
        Ok(FrameOutcome::Yes)
    }

    /// What is due from the previous server.
    pub(crate) fn due(&self) -> ExpectedFrame {
        if self.all_received() {
            ExpectedFrame::Nothing
        } else {
            ExpectedFrame::Part { step: AHEAD, chunk: self.chunk_due() as u32 }
        }
    }
}

/// XORs little-endian words into a queue from a place on.
fn merge(queue: &mut VecDeque<u64>, place: usize, payload: &[u8]) {
    let (words, _) = payload.as_chunks();
    let present = (queue.len() - place).min(words.len());
    let (present, absent) = words.split_at(present);
    queue
        .range_mut(place..place + present.len())
        .zip(present)
        .for_each(|(word, bytes)| *word ^= u64::from_le_bytes(*bytes));
    queue.extend(absent.iter().map(|bytes| u64::from_le_bytes(*bytes)));
}

/// A server's zero-sharings, word by word.
pub(crate) struct ZeroSharing {
    source: Source,
    /// The word that is left out, so that tests can show what every one of them is for.
    #[cfg(test)]
    pub(crate) left_out: Option<usize>,
    taken: usize,
}

enum Source {
    Drawn(PrefetchedWords),
    /// Of this server and the next, of the previous one and this.
    Keyed(Box<[KeyStream; 2]>),
}

impl ZeroSharing {
    /// From words that this server and the one before it draw.
    pub(crate) fn drawn(ahead: PrefetchedWords) -> ZeroSharing {
        ZeroSharing::new(Source::Drawn(ahead))
    }

    /// From the keys that this server shares with the one before and the one behind it.
    pub(crate) fn keyed(with_previous: &TranscriptKeys, with_next: &TranscriptKeys) -> ZeroSharing {
        let stream = |keys: &TranscriptKeys| keys.stream(Purpose::ZeroSharing);
        ZeroSharing::new(Source::Keyed(Box::new([stream(with_next), stream(with_previous)])))
    }

    fn new(source: Source) -> ZeroSharing {
        ZeroSharing {
            source,
            #[cfg(test)]
            left_out: None,
            taken: 0,
        }
    }

    /// The words that are drawn, if they are.
    pub(crate) fn ahead(&self) -> Option<&PrefetchedWords> {
        if let Source::Drawn(ahead) = &self.source { Some(ahead) } else { None }
    }

    pub(crate) fn ahead_mut(&mut self) -> Option<&mut PrefetchedWords> {
        if let Source::Drawn(ahead) = &mut self.source { Some(ahead) } else { None }
    }

    /// Words that can be taken now.
    pub(crate) fn ready(&self) -> usize {
        self.ahead().map_or(usize::MAX, |ahead| ahead.drawn.min(ahead.received) - ahead.used)
    }

    /// The next words, no more than are ready.
    pub(crate) fn take(&mut self, words: &mut [u64]) {
        match &mut self.source {
            Source::Drawn(ahead) => {
                let zeros = ahead.words.drain(..words.len());
                words.iter_mut().zip(zeros).for_each(|(word, zero)| *word = zero);
                ahead.used += words.len();
            }
            Source::Keyed(streams) => {
                words.fill(0);
                for stream in streams.iter() {
                    key_words(stream, self.taken, words);
                }
            }
        }
        #[cfg(test)]
        if let Some(word) = self.left_out.and_then(|word| words.get_mut(word.checked_sub(self.taken)?)) {
            *word = 0;
        }
        self.taken += words.len();
    }
}

/// XORs the words of a key stream from word `first` on into `words`.
pub(crate) fn key_words(stream: &KeyStream, first: usize, words: &mut [u64]) {
    let mut bytes = [0; 4096];
    for (part, words) in words.chunks_mut(bytes.len() / 8).enumerate() {
        let bytes = &mut bytes[..8 * words.len()];
        stream.fill(8 * first as u64 + 4096 * part as u64, bytes);
        let (bytes, _) = bytes.as_chunks();
        words.iter_mut().zip(bytes).for_each(|(word, bytes)| *word ^= u64::from_le_bytes(*bytes));
    }
}
