//! Share commitments of two-phase schemes: phase 0 commits to the shares that phase 1 uses, so that
//! a row order is used with one x only (docs/protocol.md, section 4.5).
//!
//! Row order and ticket of a search are those of phase 0. A client that could repeat phase 1 with
//! another x would see another function of the same rows in the same order, and after enough
//! repetitions the rows themselves. So the messages of phase 0 also commit to the shares of x and w
//! of phase 1: `d_n = g^{H(hdr_0, n, share)}·h^{s_n}`. τ_0 covers these commitments. Phase 1
//! contains the inputs of τ_0 and opens d_n to server n. Share commitments are perfectly hiding,
//! like all commitments.

use crate::random::RandomSource;
use crate::transcript::{Header, Message, commit, opens, tau, uniform_scalar};
use curve25519_dalek::scalar::Scalar;
use zeroize::{Zeroize, Zeroizing};

// The label on the wire; fixed by the protocol.
const KIND: &str = "promise";

/// What a message of phase 1 contains to open its share commitment.
#[derive(Clone, PartialEq, Eq)]
pub struct ShareCommitmentOpening {
    /// The payload commitments of phase 0.
    pub first_commitments: Vec<[u8; 32]>,
    /// s_n.
    pub blinding: [u8; 32],
}

impl Drop for ShareCommitmentOpening {
    fn drop(&mut self) {
        self.blinding.zeroize();
    }
}

/// The client's share commitments, kept from phase 0 to phase 1.
pub struct ShareCommitments {
    first_commitments: Vec<[u8; 32]>,
    commitments: Vec<[u8; 32]>,
    blindings: Zeroizing<Vec<Scalar>>,
}

impl std::fmt::Debug for ShareCommitments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ShareCommitments({}, ..)", self.commitments.len())
    }
}

impl ShareCommitments {
    /// Adds share commitments to the messages of phase 0. `parts` are the shares that phase 1 sends
    /// to servers 1, 2, and so on.
    pub fn make(
        messages: &mut [Message],
        parts: &[impl AsRef<[u8]>],
        random: &mut (impl RandomSource + ?Sized),
    ) -> ShareCommitments {
        let first = messages.first().expect("every phase has responders");
        let (first_commitments, header) = (first.commitments.clone(), first.header.encode());
        let blindings: Zeroizing<Vec<Scalar>> = Zeroizing::new(parts.iter().map(|_| uniform_scalar(random)).collect());
        let committed = (1..).zip(parts).zip(blindings.iter());
        let commitments: Vec<[u8; 32]> = committed
            .map(|((server, part), blinding)| commit(KIND, &header, server, part.as_ref(), blinding))
            .collect();
        messages.iter_mut().for_each(|message| message.share_commitments.clone_from(&commitments));
        ShareCommitments { first_commitments, commitments, blindings }
    }

    /// Adds the openings to the messages of phase 1.
    pub fn open_in(&self, messages: &mut [Message]) {
        for (message, blinding) in messages.iter_mut().zip(self.blindings.iter()) {
            message.share_commitments.clone_from(&self.commitments);
            message.share_opening = Some(ShareCommitmentOpening {
                first_commitments: self.first_commitments.clone(),
                blinding: blinding.to_bytes(),
            });
        }
    }
}

/// Whether a message of phase 1 contains the share commitments of its search, whose phase 0 had
/// this header, and opens its own to `part`.
pub(crate) fn is_opened(message: &Message, header: &Header, part: &[u8]) -> bool {
    let index = usize::from(message.server).wrapping_sub(1);
    let (Some(opening), Some(commitment)) = (&message.share_opening, message.share_commitments.get(index)) else {
        return false;
    };
    tau(header, &opening.first_commitments, &message.share_commitments) == message.header.parent.tau
        && opens(commitment, KIND, &header.encode(), message.server, part, opening.blinding)
}
