//! Three parties in one thread, for tests, vectors and measurements.

use crate::error::SealedError;
use crate::frame::FrameOutcome;
use crate::party::semi_honest::{Party, Peer};
use ifonly_algebra::random::RandomSource;
use std::collections::VecDeque;

/// A frame on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameInTransit {
    /// Who sent it, from 1.
    pub from: usize,
    /// Which peer of the sender gets it.
    pub to: Peer,
    /// The frame.
    pub frame: Vec<u8>,
}

/// Runs a session to its end. `deliver` sees every frame in the order of sending and gives those
/// that arrive in its place; when nothing moves any more, unfinished parties are told that whoever
/// owes them something went away.
pub fn run(
    parties: &mut [Party; 3],
    random: &mut dyn RandomSource,
    mut deliver: impl FnMut(FrameInTransit) -> Vec<FrameInTransit>,
) -> [Result<(), SealedError>; 3] {
    // One queue for each receiver and peer: a party that holds one back still reads from the other.
    let mut queues: [[VecDeque<Vec<u8>>; 2]; 3] = Default::default();
    let mut results: [Result<(), SealedError>; 3] = [const { Ok(()) }; 3];
    let mut frame = vec![];
    loop {
        let mut moved = false;
        for n in 0..3 {
            for (side, peer) in [Peer::Next, Peer::Previous].into_iter().enumerate() {
                while results[n].is_ok() {
                    match parties[n].next_frame(peer, random, &mut frame) {
                        Ok(false) => break,
                        Ok(true) => moved = true,
                        Err(error) => {
                            results[n] = Err(error);
                            break;
                        }
                    }
                    for letter in deliver(FrameInTransit { from: n + 1, to: peer, frame: std::mem::take(&mut frame) }) {
                        let receiver = letter.to.of(letter.from) - 1;
                        // What goes to the next server arrives there from the previous one.
                        let arrives = usize::from(letter.to == Peer::Next);
                        queues[receiver][arrives].push_back(letter.frame);
                    }
                }
                while results[n].is_ok()
                    && let Some(first) = queues[n][side].front()
                {
                    match parties[n].receive(peer, first) {
                        Ok(FrameOutcome::Yes) => moved = queues[n][side].pop_front().is_some(),
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
        // Random bits come long before they are needed: where they lack, their absence is the
        // reason for any other.
        for peer in [Peer::Previous, Peer::Next] {
            if result.is_ok() && !party.is_finished() {
                *result = party.peer_closed(peer);
            }
        }
    }
    results
}
