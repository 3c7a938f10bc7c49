//! Zero sharings: server n has `r_n ⊕ r_{n−1}`, and the values of the three servers XOR to 0.
//!
//! With [`PrefetchedWords`], server n draws r_n and sends it to server n + 1. It may do so at any
//! time before the use of r_n, because r_n depends on no other value. The messages of AND gates are
//! then exactly uniform. With keys, r_n is a key stream that servers n and n + 1 share; nothing is
//! sent, and privacy is computational. Every word of r is used once.

use crate::circuit::build::Circuit;
use crate::error::{ExpectedFrame, PeerFault, SealedError};
use crate::frame::{FrameOutcome, HEADER_BYTES, RANDOMNESS, header, parse, whole_words};
use crate::params::FRAME_WORDS;
use ifonly_algebra::keys::{KeyStream, Purpose, TranscriptKeys};
use ifonly_algebra::random::RandomSource;
use std::collections::VecDeque;

/// Random words that a server drew or received from its previous server, and has not used. Servers
/// send some before a session exists ([`PrefetchedWords::before_session`]). The next session uses
/// them ([`PrefetchedWords::for_session`]).
pub struct PrefetchedWords {
    /// r_n ⊕ r_{n−1}, or only one of the two while the other is missing.
    words: VecDeque<u64>,
    /// Words of the complete stream.
    total: usize,
    /// Maximum number of unused words.
    lead: usize,
    drawn: usize,
    received: usize,
    used: usize,
}

impl std::fmt::Debug for PrefetchedWords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "PrefetchedWords({} drawn, {} received, {} used of {})",
            self.drawn, self.received, self.used, self.total
        )
    }
}

impl PrefetchedWords {
    pub(crate) fn new(total: usize, lead: usize) -> PrefetchedWords {
        PrefetchedWords { words: VecDeque::with_capacity(total.min(lead)), total, lead, drawn: 0, received: 0, used: 0 }
    }

    /// Number of words of the frame that starts with word `at`; 0 if the limit allows no frame.
    fn room(&self, at: usize) -> usize {
        let words = FRAME_WORDS.min(self.total - at);
        if at + words - self.used <= self.lead { words } else { 0 }
    }

    /// Words of the next frame to receive; 0 if the limit allows no frame or none is left.
    fn to_receive(&self) -> usize {
        self.room(self.received)
    }

    /// The part of the stream that is expected.
    fn chunk_due(&self) -> usize {
        self.received / FRAME_WORDS
    }

    fn all_received(&self) -> bool {
        self.received == self.total
    }

    /// Draws the words of the next frame and appends them to `frame`. Returns the part number, or
    /// `None` if the limit allows no frame now.
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

    /// Words of the expected frame, whether or not the limit allows it now.
    fn words_due(&self) -> usize {
        FRAME_WORDS.min(self.total - self.received)
    }

    /// Whether these words are unused and belong to a search that needs `words` words.
    pub(crate) fn fits(&self, words: usize) -> bool {
        self.total == words && self.used == 0
    }

    /// Takes the payload of a frame of [`PrefetchedWords::to_receive`] words.
    fn take_in(&mut self, payload: &[u8]) {
        merge(&mut self.words, self.received - self.used, payload);
        self.received += payload.len() / 8;
    }
}

/// Frames of step 0.
impl PrefetchedWords {
    /// The words of a session with this circuit, none of them drawn.
    pub(crate) fn for_circuit(circuit: &Circuit) -> PrefetchedWords {
        PrefetchedWords::new(circuit.zero_words(), circuit.params.lead_words())
    }

    /// Words that are sent before a session exists, in one direction: drawn by this server or
    /// received from its previous server. The limit is that of one search with this circuit.
    pub fn before_session(circuit: &Circuit) -> PrefetchedWords {
        let words = circuit.params.prefetch_words().min(circuit.zero_words().next_multiple_of(FRAME_WORDS));
        PrefetchedWords::new(words, words)
    }

    /// The words of a session with this circuit, starting with those that were drawn and received
    /// before it.
    pub fn for_session(
        circuit: &Circuit,
        drawn: Option<PrefetchedWords>,
        received: Option<PrefetchedWords>,
    ) -> PrefetchedWords {
        let mut session_words = PrefetchedWords::for_circuit(circuit);
        // Both consist of full frames, unless they hold all words of this session. So the number of
        // words determines the next part number.
        if let Some(mut drawn) = drawn {
            drawn.words.truncate(session_words.total);
            session_words.drawn = drawn.words.len();
            session_words.words = drawn.words;
        }
        if let Some(mut received) = received {
            received.words.truncate(session_words.total);
            session_words.received = received.words.len();
            if session_words.words.len() < received.words.len() {
                std::mem::swap(&mut session_words.words, &mut received.words);
            }
            session_words.words.iter_mut().zip(received.words).for_each(|(word, other)| *word ^= other);
        }
        session_words
    }

    /// Writes the next frame for the next server into `frame`. Returns false if the limit allows no
    /// frame now, or if all words have been drawn.
    pub fn next_frame(&mut self, random: &mut dyn RandomSource, frame: &mut Vec<u8>) -> bool {
        frame.clear();
        self.write(random, frame)
    }

    /// Takes a frame from the previous server, whose index is `server`.
    pub fn receive(&mut self, server: usize, frame: &[u8]) -> Result<FrameOutcome, SealedError> {
        let outcome = parse(frame).and_then(|(step, chunk, payload)| match step {
            RANDOMNESS => self.read(chunk, payload),
            _ => Err(PeerFault::OutOfOrder { step, chunk, due: self.due() }),
        });
        outcome.map_err(|fault| SealedError::Peer { server, fault })
    }

    pub(crate) fn write(&mut self, random: &mut dyn RandomSource, frame: &mut Vec<u8>) -> bool {
        header(RANDOMNESS, 0, frame);
        let Some(chunk) = self.draw(random, frame) else {
            frame.clear();
            return false;
        };
        frame[4..HEADER_BYTES].copy_from_slice(&(chunk as u32).to_le_bytes());
        true
    }

    pub(crate) fn read(&mut self, chunk: u32, payload: &[u8]) -> Result<FrameOutcome, PeerFault> {
        if self.due() != (ExpectedFrame::Part { step: RANDOMNESS, chunk }) {
            return Err(PeerFault::OutOfOrder { step: RANDOMNESS, chunk, due: self.due() });
        }
        whole_words(RANDOMNESS, chunk, payload, self.words_due())?;
        if self.to_receive() == 0 {
            return Ok(FrameOutcome::NotYet);
        }
        self.take_in(payload);
        Ok(FrameOutcome::Accepted)
    }

    /// The frame that is expected from the previous server.
    pub(crate) fn due(&self) -> ExpectedFrame {
        if self.all_received() {
            ExpectedFrame::Nothing
        } else {
            ExpectedFrame::Part { step: RANDOMNESS, chunk: self.chunk_due() as u32 }
        }
    }
}

/// XORs little-endian words into a queue, starting at `position`; appends the words beyond its end.
fn merge(queue: &mut VecDeque<u64>, position: usize, payload: &[u8]) {
    let (words, _) = payload.as_chunks();
    let present = (queue.len() - position).min(words.len());
    let (present, absent) = words.split_at(present);
    queue
        .range_mut(position..position + present.len())
        .zip(present)
        .for_each(|(word, bytes)| *word ^= u64::from_le_bytes(*bytes));
    queue.extend(absent.iter().map(|bytes| u64::from_le_bytes(*bytes)));
}

/// The zero sharings of a server, word by word.
pub(crate) struct ZeroSharing {
    source: Source,
    /// Word that is set to 0, so that tests can show that every word is needed.
    #[cfg(test)]
    pub(crate) omitted_word: Option<usize>,
    taken: usize,
}

enum Source {
    Drawn(PrefetchedWords),
    /// Key stream shared with the next server, then with the previous server.
    Keyed(Box<[KeyStream; 2]>),
}

impl ZeroSharing {
    /// From words that this server and the previous server draw.
    pub(crate) fn drawn(prefetched: PrefetchedWords) -> ZeroSharing {
        ZeroSharing::new(Source::Drawn(prefetched))
    }

    /// From the keys that this server shares with the previous and the next server.
    pub(crate) fn keyed(with_previous: &TranscriptKeys, with_next: &TranscriptKeys) -> ZeroSharing {
        let stream = |keys: &TranscriptKeys| keys.stream(Purpose::ZeroSharing);
        ZeroSharing::new(Source::Keyed(Box::new([stream(with_next), stream(with_previous)])))
    }

    fn new(source: Source) -> ZeroSharing {
        ZeroSharing {
            source,
            #[cfg(test)]
            omitted_word: None,
            taken: 0,
        }
    }

    /// The drawn words; `None` with keys.
    pub(crate) fn prefetched(&self) -> Option<&PrefetchedWords> {
        if let Source::Drawn(prefetched) = &self.source { Some(prefetched) } else { None }
    }

    pub(crate) fn prefetched_mut(&mut self) -> Option<&mut PrefetchedWords> {
        if let Source::Drawn(prefetched) = &mut self.source { Some(prefetched) } else { None }
    }

    /// Number of words that can be taken now.
    pub(crate) fn ready(&self) -> usize {
        self.prefetched().map_or(usize::MAX, |prefetched| prefetched.drawn.min(prefetched.received) - prefetched.used)
    }

    /// Takes the next words, at most [`ZeroSharing::ready`].
    pub(crate) fn take(&mut self, words: &mut [u64]) {
        match &mut self.source {
            Source::Drawn(prefetched) => {
                let zeros = prefetched.words.drain(..words.len());
                words.iter_mut().zip(zeros).for_each(|(word, zero)| *word = zero);
                prefetched.used += words.len();
            }
            Source::Keyed(streams) => {
                words.fill(0);
                for stream in streams.iter() {
                    key_words(stream, self.taken, words);
                }
            }
        }
        #[cfg(test)]
        if let Some(word) = self.omitted_word.and_then(|word| words.get_mut(word.checked_sub(self.taken)?)) {
            *word = 0;
        }
        self.taken += words.len();
    }
}

/// XORs the words of a key stream, starting with word `first`, into `words`.
pub(crate) fn key_words(stream: &KeyStream, first: usize, words: &mut [u64]) {
    let mut bytes = [0; 4096];
    for (part, words) in words.chunks_mut(bytes.len() / 8).enumerate() {
        let bytes = &mut bytes[..8 * words.len()];
        stream.fill(8 * first as u64 + 4096 * part as u64, bytes);
        let (bytes, _) = bytes.as_chunks();
        words.iter_mut().zip(bytes).for_each(|(word, bytes)| *word ^= u64::from_le_bytes(*bytes));
    }
}
