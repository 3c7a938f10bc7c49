//! The security level of a session: what a server holds of every value, what it sends in each step,
//! and how it computes.
//!
//! The [session](crate::party::session) drives an implementation step by step: it counts words,
//! orders frames and distributes zero sharings. The number of words of every step depends on public
//! parameters only. The only implementation is [`SemiHonest`](crate::party::semi_honest); a level
//! that detects lies adds steps after those of the circuit.

use crate::frame::FrameCursor;
use crate::party::session::Peer;

/// The shares of one server at one security level.
pub(crate) trait ShareProtocol: Send {
    /// Words that this server sends to a peer in a step. The session ends before the first step
    /// after the input in which no server sends anything.
    fn words_to(&self, step: u32, to: Peer) -> usize;

    /// Words that a peer sends to this server in a step. All servers do the same, so this is what
    /// this server sends in the opposite direction.
    fn words_from(&self, step: u32, from: Peer) -> usize {
        self.words_to(step, from.opposite())
    }

    /// Whether each word to a peer in a step is masked with a word of a zero sharing.
    fn is_masked(&self, step: u32, to: Peer) -> bool;

    /// Computes the next words to a peer into `words`, which hold zero sharings if the words are
    /// masked, and advances the cursor.
    fn compute(&mut self, step: u32, to: Peer, cursor: &mut FrameCursor, words: &mut [u64]);

    /// Takes the next words from a peer and advances the cursor. Returns false if a bit is set
    /// outside the lanes in use.
    fn take(&mut self, step: u32, from: Peer, cursor: &mut FrameCursor, words: &[[u8; 8]]) -> bool;

    /// Ends a step in which all words were sent and received.
    fn end_step(&mut self, step: u32);

    /// This server's component of all registers, after the last step.
    fn component(&self) -> &[u64];
}
