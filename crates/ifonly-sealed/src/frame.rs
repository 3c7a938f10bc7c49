//! Frames between two servers.
//!
//! A frame has a header of eight bytes and up to [`FRAME_WORDS`] words of payload. The header holds
//! the step and the part of the step, each as a little-endian `u32`. Step 0 carries random words r,
//! step 1 the input, step 1 + j the results of circuit round j. A [`FrameCursor`] is the position
//! in the message of a step at which the next frame begins.

use crate::circuit::program::Gate;
use crate::error::PeerFault;
use crate::params::FRAME_WORDS;

/// Length of the frame header in bytes.
pub const HEADER_BYTES: usize = 8;

/// Step of the random words r.
pub(crate) const RANDOMNESS: u32 = 0;
/// Step of the input sharing.
pub(crate) const INPUT: u32 = 1;

/// Whether a party accepted a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum FrameOutcome {
    /// The party has processed the frame.
    Accepted,
    /// The frame is early. Pass it again after the party has sent or received another frame.
    NotYet,
}

/// Position in the message of a step.
#[derive(Clone, Copy, Default)]
pub(crate) struct FrameCursor {
    pub(crate) words: usize,
    /// Gate of the next word.
    gate: usize,
    /// Index of the next word within its gate.
    word: usize,
}

impl FrameCursor {
    /// Advances by `words` words. Calls `each` for every gate that they belong to, with the first
    /// word within the gate and the range of these words. Stops and returns false if `each` does.
    pub(crate) fn walk(
        &mut self,
        gates: &[Gate],
        words: usize,
        mut each: impl FnMut(&Gate, usize, std::ops::Range<usize>) -> bool,
    ) -> bool {
        let mut at = 0;
        while let Some(gate) = gates.get(self.gate)
            && at < words
        {
            let count = (gate.words - self.word).min(words - at);
            if !each(gate, self.word, at..at + count) {
                return false;
            }
            at += count;
            self.word += count;
            if self.word == gate.words {
                (self.gate, self.word) = (self.gate + 1, 0);
            }
        }
        self.words += words;
        true
    }
}

pub(crate) fn header(step: u32, words_before: usize, frame: &mut Vec<u8>) {
    frame.extend(step.to_le_bytes());
    frame.extend(((words_before / FRAME_WORDS) as u32).to_le_bytes());
}

pub(crate) fn parse(frame: &[u8]) -> Result<(u32, u32, &[u8]), PeerFault> {
    let (header, payload) = frame.split_first_chunk::<HEADER_BYTES>().ok_or(PeerFault::ShortFrame(frame.len()))?;
    let [s0, s1, s2, s3, c0, c1, c2, c3] = *header;
    Ok((u32::from_le_bytes([s0, s1, s2, s3]), u32::from_le_bytes([c0, c1, c2, c3]), payload))
}

/// The payload as words, if its length is right.
pub(crate) fn whole_words(step: u32, chunk: u32, payload: &[u8], words: usize) -> Result<&[[u8; 8]], PeerFault> {
    let need = 8 * words;
    if payload.len() != need {
        return Err(PeerFault::Length { step, chunk, have: payload.len(), need });
    }
    Ok(payload.as_chunks().0)
}

/// Decodes words; false if a bit outside `mask` is 1.
pub(crate) fn read_words(payload: &[[u8; 8]], mask: u64, words: &mut [u64]) -> bool {
    let mut all = 0;
    for (word, bytes) in words.iter_mut().zip(payload) {
        *word = u64::from_le_bytes(*bytes);
        all |= *word;
    }
    all & !mask == 0
}
