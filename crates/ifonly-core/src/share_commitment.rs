//! What the first phase of a search promises about the second: one x for every order of the rows.
//!
//! Order and ticket of a search are those of its first phase. Whoever could send the second one
//! again with another x would see another function of the same rows in the same order, and after
//! enough of them the rows. So the messages of phase 0 also commit to the shares of x and w that
//! phase 1 will use, `d_n = g^{H(hdr_0, n, share)}·h^{s_n}`; τ_0 covers these promises; and phase 1
//! shows from what τ_0 was made, and opens d_n to server n. They hide as perfectly as all
//! commitments.

use crate::random::RandomSource;
use crate::transcript::{Header, Message, commit, opens, tau, uniform_scalar};
use curve25519_dalek::scalar::Scalar;
use zeroize::{Zeroize, Zeroizing};

const KIND: &str = "promise";

/// What a message of the second phase shows of the first.
#[derive(Clone, PartialEq, Eq)]
pub struct ShareCommitmentOpening {
    /// The first phase's commitments to its payloads.
    pub first: Vec<[u8; 32]>,
    /// s_n.
    pub blinding: [u8; 32],
}

impl Drop for ShareCommitmentOpening {
    fn drop(&mut self) {
        self.blinding.zeroize();
    }
}

/// The user's promises, from the first phase to the second.
pub struct ShareCommitments {
    first: Vec<[u8; 32]>,
    promises: Vec<[u8; 32]>,
    blindings: Zeroizing<Vec<Scalar>>,
}

impl std::fmt::Debug for ShareCommitments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Promises({}, ..)", self.promises.len())
    }
}

impl ShareCommitments {
    /// Puts promises into the messages of the first phase; `parts` are what the second will show to
    /// servers 1, 2, and so on.
    pub fn make(
        messages: &mut [Message],
        parts: &[impl AsRef<[u8]>],
        random: &mut (impl RandomSource + ?Sized),
    ) -> ShareCommitments {
        let first = messages.first().map(|message| message.commitments.clone()).unwrap_or_default();
        let header = messages.first().map(|message| message.header.encode()).unwrap_or_default();
        let blindings: Zeroizing<Vec<Scalar>> = Zeroizing::new(parts.iter().map(|_| uniform_scalar(random)).collect());
        let committed = (1..).zip(parts).zip(blindings.iter());
        let promises: Vec<[u8; 32]> = committed
            .map(|((server, part), blinding)| commit(KIND, &header, server, part.as_ref(), blinding))
            .collect();
        messages.iter_mut().for_each(|message| message.promises.clone_from(&promises));
        ShareCommitments { first, promises, blindings }
    }

    /// Shows in the messages of the second phase that they are kept.
    pub fn open_in(&self, messages: &mut [Message]) {
        for (message, blinding) in messages.iter_mut().zip(self.blindings.iter()) {
            message.promises.clone_from(&self.promises);
            message.kept = Some(ShareCommitmentOpening { first: self.first.clone(), blinding: blinding.to_bytes() });
        }
    }
}

/// Whether a message of the second phase shows promises of the search that it names, whose first
/// header was `header`, and opens its own to `part`.
pub(crate) fn is_opened(message: &Message, header: &Header, part: &[u8]) -> bool {
    let place = usize::from(message.server).wrapping_sub(1);
    let (Some(kept), Some(promise)) = (&message.kept, message.promises.get(place)) else { return false };
    tau(header, &kept.first, &message.promises) == message.header.parent.tau
        && opens(promise, KIND, &header.encode(), message.server, part, kept.blinding)
}
