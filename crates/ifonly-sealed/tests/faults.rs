//! A peer sends random bytes, too much, too little, frames out of order or nothing, at every frame
//! of a session. The other parties end with an error that names a server, or finish if they needed
//! nothing more. No party panics, and no party waits forever.

mod common;

use common::{Source, parties};
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_sealed::simulate::{self, FrameInTransit};
use ifonly_sealed::{
    Circuit, ExpectedFrame, FrameOutcome, HEADER_BYTES, Party, Peer, PeerFault, SealedError, SealedParams, share,
};
use std::sync::Arc;

fn circuit() -> Arc<Circuit> {
    // 70 rows need two words; two ranks.
    let params = SealedParams::new(70, 5, 3).unwrap().top(2).unwrap().record_bytes(3).unwrap();
    Arc::new(Circuit::new(&params))
}

/// Runs a session in which `deliver` replaces frame `number`. Returns the results, the parties and
/// the number of frames.
fn run_with_fault(
    circuit: &Arc<Circuit>,
    source: Source,
    number: usize,
    deliver: &mut dyn FnMut(FrameInTransit) -> Vec<FrameInTransit>,
) -> ([Result<(), SealedError>; 3], [Party; 3], usize) {
    let mut random = SeededRandom::new(8);
    let values: Vec<u64> = (0..70).map(|_| random.below(32)).collect();
    let shares = share(5, &values, &mut random);
    let mut parties = parties(circuit, &shares, source, &mut random);
    let mut count = 0;
    let results = simulate::run(&mut parties, &mut random, |frame| {
        count += 1;
        if count - 1 == number { deliver(frame) } else { vec![frame] }
    });
    (results, parties, count)
}

/// Asserts that the receiver names the sender, with a fault that `fits`.
fn assert_named(results: &[Result<(), SealedError>; 3], from: usize, to: usize, fits: &dyn Fn(&PeerFault) -> bool) {
    match &results[to - 1] {
        Err(SealedError::Peer { server, fault }) => assert!(*server == from && fits(fault), "{server}: {fault:?}"),
        other => panic!("server {to} should name server {from}: {other:?}"),
    }
}

#[test]
fn the_loss_of_any_frame_is_detected() {
    for source in [Source::Drawn, Source::Keyed] {
        let circuit = circuit();
        let (results, _, frames) = run_with_fault(&circuit, source, usize::MAX, &mut |frame| vec![frame]);
        assert_eq!(results, [Ok(()), Ok(()), Ok(())]);
        for number in 0..frames {
            let (mut from, mut to) = (0, 0);
            let (results, ..) = run_with_fault(&circuit, source, number, &mut |frame| {
                (from, to) = (frame.from, frame.to.of(frame.from));
                vec![]
            });
            // The following frame is out of order; without one, the frame is missing at the end.
            assert_named(&results, from, to, &|fault| {
                matches!(fault, PeerFault::Closed(_) | PeerFault::OutOfOrder { .. })
            });
        }
    }
}

#[test]
fn a_peer_that_disconnects_at_any_frame_is_named() {
    let circuit = circuit();
    let (.., frames) = run_with_fault(&circuit, Source::Drawn, usize::MAX, &mut |frame| vec![frame]);
    for number in 0..frames {
        for absent in 1..=3 {
            let mut random = SeededRandom::new(9);
            let shares = share(5, &[7; 70], &mut random);
            let mut parties = parties(&circuit, &shares, Source::Drawn, &mut random);
            let (mut count, mut lost) = (0, false);
            let results = simulate::run(&mut parties, &mut random, |frame| {
                count += 1;
                let drop = count > number && frame.from == absent;
                lost |= drop;
                if drop { vec![] } else { vec![frame] }
            });
            for n in (1..=3).filter(|n| *n != absent) {
                match &results[n - 1] {
                    Ok(()) => {}
                    Err(SealedError::Peer { fault: PeerFault::Closed(due), .. }) => {
                        assert_ne!(*due, ExpectedFrame::Nothing)
                    }
                    other => panic!("{other:?}"),
                }
            }
            let named = |result: &Result<(), SealedError>| matches!(result, Err(SealedError::Peer { server, .. }) if *server == absent);
            assert!(!lost || results.iter().any(named), "no party names server {absent} after frame {number}");
        }
    }
}

#[test]
fn frames_of_the_wrong_length_are_refused() {
    let circuit = circuit();
    let (.., frames) = run_with_fault(&circuit, Source::Drawn, usize::MAX, &mut |frame| vec![frame]);
    for number in 0..frames {
        for change in [-9, -8, -1, 1, 8, 70_000] {
            let (mut from, mut to) = (0, 0);
            let (results, ..) = run_with_fault(&circuit, Source::Drawn, number, &mut |mut frame| {
                (from, to) = (frame.from, frame.to.of(frame.from));
                frame.bytes.resize(frame.bytes.len().saturating_add_signed(change), 0);
                vec![frame]
            });
            let fits = |fault: &PeerFault| matches!(fault, PeerFault::Length { .. } | PeerFault::ShortFrame(_));
            assert_named(&results, from, to, &fits);
        }
    }
}

#[test]
fn reordered_and_duplicate_frames_are_refused() {
    let circuit = circuit();
    let (.., frames) = run_with_fault(&circuit, Source::Drawn, usize::MAX, &mut |frame| vec![frame]);
    for number in 0..frames {
        for byte in 0..HEADER_BYTES {
            let (mut from, mut to) = (0, 0);
            let (results, ..) = run_with_fault(&circuit, Source::Drawn, number, &mut |mut frame| {
                (from, to) = (frame.from, frame.to.of(frame.from));
                frame.bytes[byte] ^= 0x40;
                vec![frame]
            });
            assert_named(&results, from, to, &|fault| matches!(fault, PeerFault::OutOfOrder { .. }));
        }
        let (mut from, mut to) = (0, 0);
        let (results, ..) = run_with_fault(&circuit, Source::Drawn, number, &mut |frame| {
            (from, to) = (frame.from, frame.to.of(frame.from));
            vec![frame.clone(), frame]
        });
        assert_named(&results, from, to, &|fault| matches!(fault, PeerFault::OutOfOrder { .. }));
    }
}

#[test]
fn random_bytes_cause_no_panic_and_bits_of_missing_rows_are_refused() {
    let circuit = circuit();
    let (.., frames) = run_with_fault(&circuit, Source::Drawn, usize::MAX, &mut |frame| vec![frame]);
    let mut noise = SeededRandom::new(10);
    for number in 0..frames {
        for length in [None, Some(0), Some(5), Some(8), Some(16), Some(300)] {
            let (mut from, mut to, mut is_step_0) = (0, 0, false);
            let (results, ..) = run_with_fault(&circuit, Source::Drawn, number, &mut |mut frame| {
                (from, to) = (frame.from, frame.to.of(frame.from));
                match length {
                    // With a valid header, only bits beyond the rows differ from an honest frame.
                    None => noise.fill(&mut frame.bytes[HEADER_BYTES..]),
                    Some(length) => {
                        frame.bytes = vec![0; length];
                        noise.fill(&mut frame.bytes);
                    }
                }
                is_step_0 = frame.bytes.starts_with(&[0; 4]);
                vec![frame]
            });
            match (length, is_step_0) {
                (None, true) => assert!(results.iter().all(Result::is_ok), "any random words are valid"),
                (None, false) => {
                    assert_named(&results, from, to, &|fault| matches!(fault, PeerFault::BeyondRows { .. }))
                }
                (Some(_), _) => assert_named(&results, from, to, &|_| true),
            }
        }
    }
}

#[test]
fn frames_after_the_end_or_after_an_error_are_refused() {
    let circuit = circuit();
    let (results, mut done, _) = run_with_fault(&circuit, Source::Drawn, usize::MAX, &mut |frame| vec![frame]);
    assert_eq!(results, [Ok(()), Ok(()), Ok(())]);
    for party in &mut done {
        assert!(party.is_finished());
        assert_eq!(party.peer_closed(Peer::Next), Ok(()), "a peer may close after its last frame");
        assert_eq!(party.peer_closed(Peer::Previous), Ok(()));
    }
    for step in 0..60u32 {
        for peer in [Peer::Next, Peer::Previous] {
            let (_, [mut party, ..], _) = run_with_fault(&circuit, Source::Drawn, usize::MAX, &mut |frame| vec![frame]);
            let frame: Vec<u8> = step.to_le_bytes().into_iter().chain([0; 12]).collect();
            let error = party.receive(peer, &frame).unwrap_err();
            assert!(matches!(
                error,
                SealedError::Peer { fault: PeerFault::OutOfOrder { due: ExpectedFrame::Nothing, .. }, .. }
            ));
            assert_eq!(party.selection(0), Err(error.clone()));
            assert_eq!(party.receive(peer, &frame), Err(error));
        }
    }
}

#[test]
fn calls_in_the_wrong_state_are_refused() {
    let circuit = circuit();
    let mut random = SeededRandom::new(11);
    let shares = share(5, &[0; 70], &mut random);
    let [mut party, ..] = parties(&circuit, &shares, Source::Drawn, &mut random);
    assert!(matches!(party.selection(0), Err(SealedError::Misuse(_))));
    // A party accepts the input of a peer before it has sent its own. It does not yet accept a
    // frame of the next round.
    let mut early = 2u32.to_le_bytes().to_vec();
    early.extend([0; 4]);
    assert!(party.receive(Peer::Next, &early).is_err());
    let [_, mut other, _] = parties(&circuit, &shares, Source::Drawn, &mut random);
    let [mut party, ..] = parties(&circuit, &shares, Source::Drawn, &mut random);
    let mut frame = vec![];
    assert!(other.next_frame(Peer::Previous, &mut random, &mut frame).unwrap());
    assert_eq!(party.receive(Peer::Next, &frame), Ok(FrameOutcome::Accepted));
    assert_eq!(party.receive(Peer::Next, &early), Ok(FrameOutcome::NotYet));
    assert!(party.answer(&[[0; 3], [0; 3]]).is_err());
}
