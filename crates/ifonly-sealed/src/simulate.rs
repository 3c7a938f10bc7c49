//! Runs three parties in one thread, for tests, test vectors and benchmarks.

use crate::error::SealedError;
use crate::frame::FrameOutcome;
use crate::party::session::{Party, Peer};
use ifonly_algebra::random::RandomSource;
use std::collections::VecDeque;

/// A frame in transit between two parties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameInTransit {
    /// Index of the sender, 1 to 3.
    pub from: usize,
    /// Receiver, as seen by the sender.
    pub to: Peer,
    /// Header and payload.
    pub bytes: Vec<u8>,
}

/// Runs a session to its end. `deliver` gets every frame in the order of sending and returns the
/// frames that arrive instead. When no party makes progress, the function tells every unfinished
/// party that its peers have closed their streams.
pub fn run(
    parties: &mut [Party; 3],
    random: &mut dyn RandomSource,
    mut deliver: impl FnMut(FrameInTransit) -> Vec<FrameInTransit>,
) -> [Result<(), SealedError>; 3] {
    // One queue per receiver and peer: a party that leaves one unread still reads from the other.
    let mut queues: [[VecDeque<Vec<u8>>; 2]; 3] = Default::default();
    let mut results: [Result<(), SealedError>; 3] = [const { Ok(()) }; 3];
    let mut bytes = vec![];
    loop {
        let mut moved = false;
        for n in 0..3 {
            for (side, peer) in [Peer::Next, Peer::Previous].into_iter().enumerate() {
                while results[n].is_ok() {
                    match parties[n].next_frame(peer, random, &mut bytes) {
                        Ok(false) => break,
                        Ok(true) => moved = true,
                        Err(error) => {
                            results[n] = Err(error);
                            break;
                        }
                    }
                    for frame in deliver(FrameInTransit { from: n + 1, to: peer, bytes: std::mem::take(&mut bytes) }) {
                        let receiver = frame.to.of(frame.from) - 1;
                        // A frame to the next server arrives there from its previous server.
                        let side = usize::from(frame.to == Peer::Next);
                        queues[receiver][side].push_back(frame.bytes);
                    }
                }
                while results[n].is_ok()
                    && let Some(first) = queues[n][side].front()
                {
                    match parties[n].receive(peer, first) {
                        Ok(FrameOutcome::Accepted) => moved = queues[n][side].pop_front().is_some(),
                        Ok(FrameOutcome::NotYet) => break,
                        Err(error) => results[n] = Err(error),
                    }
                }
            }
        }
        if !moved {
            break;
        }
    }
    for (party, result) in parties.iter_mut().zip(&mut results) {
        // Random words arrive long before their use. If they are missing, that is the cause of any
        // other missing frame, so the previous server is checked first.
        for peer in [Peer::Previous, Peer::Next] {
            if result.is_ok() && !party.is_finished() {
                *result = party.peer_closed(peer);
            }
        }
    }
    results
}
