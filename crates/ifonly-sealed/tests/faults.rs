//! A peer that sends rubbish, too much, too little, out of order or nothing at any point: the
//! others end with an error that names it, or with the session done where nothing was missing.
//! Nobody panics and nobody waits for ever.

mod common;

use common::{Source, parties};
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_sealed::simulate::{self, FrameInTransit};
use ifonly_sealed::{
    Circuit, ExpectedFrame, FrameOutcome, HEADER_BYTES, Party, Peer, PeerFault, SealedError, SealedParams, share,
};
use std::sync::Arc;

fn circuit() -> Arc<Circuit> {
    // More than one word and one frame's worth of steps: 70 rows, two ranks.
    let shape = SealedParams::new(70, 5, 3).unwrap().top(2).unwrap().record_bytes(3).unwrap();
    Arc::new(Circuit::new(&shape))
}

/// Runs a session in which `deliver` replaces the frame with this number.
fn disturbed(
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
    let results = simulate::run(&mut parties, &mut random, |letter| {
        count += 1;
        if count - 1 == number { deliver(letter) } else { vec![letter] }
    });
    (results, parties, count)
}

/// The receiver blames the sender; the others end too, with an error that names somebody.
fn assert_blamed(results: &[Result<(), SealedError>; 3], from: usize, to: usize, fits: &dyn Fn(&PeerFault) -> bool) {
    match &results[to - 1] {
        Err(SealedError::Peer { server, fault }) => assert!(*server == from && fits(fault), "{server}: {fault:?}"),
        other => panic!("server {to} should blame {from}: {other:?}"),
    }
}

#[test]
fn every_frame_that_is_lost_is_missed() {
    for source in [Source::Drawn, Source::Keyed] {
        let circuit = circuit();
        let (results, _, frames) = disturbed(&circuit, source, usize::MAX, &mut |letter| vec![letter]);
        assert_eq!(results, [Ok(()), Ok(()), Ok(())]);
        for number in 0..frames {
            let (mut from, mut to) = (0, 0);
            let (results, ..) = disturbed(&circuit, source, number, &mut |letter| {
                (from, to) = (letter.from, letter.to.of(letter.from));
                vec![]
            });
            // What comes after it is out of order; if nothing does, it is missed in the end.
            assert_blamed(&results, from, to, &|fault| {
                matches!(fault, PeerFault::Vanished(_) | PeerFault::OutOfOrder { .. })
            });
        }
    }
}

#[test]
fn a_peer_that_vanishes_at_any_frame_is_named() {
    let circuit = circuit();
    let (.., frames) = disturbed(&circuit, Source::Drawn, usize::MAX, &mut |letter| vec![letter]);
    for number in 0..frames {
        for gone in 1..=3 {
            let mut random = SeededRandom::new(9);
            let shares = share(5, &[7; 70], &mut random);
            let mut parties = parties(&circuit, &shares, Source::Drawn, &mut random);
            let (mut count, mut lost) = (0, false);
            let results = simulate::run(&mut parties, &mut random, |letter| {
                count += 1;
                let drop = count > number && letter.from == gone;
                lost |= drop;
                if drop { vec![] } else { vec![letter] }
            });
            for n in (1..=3).filter(|n| *n != gone) {
                match &results[n - 1] {
                    Ok(()) => {}
                    Err(SealedError::Peer { fault: PeerFault::Vanished(due), .. }) => {
                        assert_ne!(*due, ExpectedFrame::Nothing)
                    }
                    other => panic!("{other:?}"),
                }
            }
            let blamed = |result: &Result<(), SealedError>| matches!(result, Err(SealedError::Peer { server, .. }) if *server == gone);
            assert!(!lost || results.iter().any(blamed), "somebody names server {gone} after frame {number}");
        }
    }
}

#[test]
fn frames_of_another_length_are_refused() {
    let circuit = circuit();
    let (.., frames) = disturbed(&circuit, Source::Drawn, usize::MAX, &mut |letter| vec![letter]);
    for number in 0..frames {
        for change in [-9, -8, -1, 1, 8, 70_000] {
            let (mut from, mut to) = (0, 0);
            let (results, ..) = disturbed(&circuit, Source::Drawn, number, &mut |mut letter| {
                (from, to) = (letter.from, letter.to.of(letter.from));
                letter.frame.resize(letter.frame.len().saturating_add_signed(change), 0);
                vec![letter]
            });
            let fits = |fault: &PeerFault| matches!(fault, PeerFault::Length { .. } | PeerFault::NoFrame(_));
            assert_blamed(&results, from, to, &fits);
        }
    }
}

#[test]
fn frames_out_of_order_or_twice_are_refused() {
    let circuit = circuit();
    let (.., frames) = disturbed(&circuit, Source::Drawn, usize::MAX, &mut |letter| vec![letter]);
    for number in 0..frames {
        for byte in 0..HEADER_BYTES {
            let (mut from, mut to) = (0, 0);
            let (results, ..) = disturbed(&circuit, Source::Drawn, number, &mut |mut letter| {
                (from, to) = (letter.from, letter.to.of(letter.from));
                letter.frame[byte] ^= 0x40;
                vec![letter]
            });
            assert_blamed(&results, from, to, &|fault| matches!(fault, PeerFault::OutOfOrder { .. }));
        }
        let (mut from, mut to) = (0, 0);
        let (results, ..) = disturbed(&circuit, Source::Drawn, number, &mut |letter| {
            (from, to) = (letter.from, letter.to.of(letter.from));
            vec![letter.clone(), letter]
        });
        assert_blamed(&results, from, to, &|fault| matches!(fault, PeerFault::OutOfOrder { .. }));
    }
}

#[test]
fn rubbish_never_panics_and_bits_of_rows_that_do_not_exist_are_refused() {
    let circuit = circuit();
    let (.., frames) = disturbed(&circuit, Source::Drawn, usize::MAX, &mut |letter| vec![letter]);
    let mut noise = SeededRandom::new(10);
    for number in 0..frames {
        for length in [None, Some(0), Some(5), Some(8), Some(16), Some(300)] {
            let (mut from, mut to, mut whole) = (0, 0, false);
            let (results, ..) = disturbed(&circuit, Source::Drawn, number, &mut |mut letter| {
                (from, to) = (letter.from, letter.to.of(letter.from));
                match length {
                    // The header of the real one: only bits beyond the rows can be told from honest
                    // ones.
                    None => noise.fill(&mut letter.frame[HEADER_BYTES..]),
                    Some(length) => {
                        letter.frame = vec![0; length];
                        noise.fill(&mut letter.frame);
                    }
                }
                whole = letter.frame.starts_with(&[0; 4]);
                vec![letter]
            });
            match (length, whole) {
                (None, true) => assert!(results.iter().all(Result::is_ok), "random bits are random bits"),
                (None, false) => {
                    assert_blamed(&results, from, to, &|fault| matches!(fault, PeerFault::BeyondRows { .. }))
                }
                (Some(_), _) => assert_blamed(&results, from, to, &|_| true),
            }
        }
    }
}

#[test]
fn nothing_is_taken_after_the_end_or_after_an_error() {
    let circuit = circuit();
    let (results, mut done, _) = disturbed(&circuit, Source::Drawn, usize::MAX, &mut |letter| vec![letter]);
    assert_eq!(results, [Ok(()), Ok(()), Ok(())]);
    for party in &mut done {
        assert!(party.is_finished());
        assert_eq!(party.peer_closed(Peer::Next), Ok(()), "whoever has said everything may go");
        assert_eq!(party.peer_closed(Peer::Previous), Ok(()));
    }
    for step in 0..60u32 {
        for peer in [Peer::Next, Peer::Previous] {
            let (_, [mut party, ..], _) = disturbed(&circuit, Source::Drawn, usize::MAX, &mut |letter| vec![letter]);
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
fn unfinished_and_misused_parties_say_so() {
    let circuit = circuit();
    let mut random = SeededRandom::new(11);
    let shares = share(5, &[0; 70], &mut random);
    let [mut party, ..] = parties(&circuit, &shares, Source::Drawn, &mut random);
    assert!(matches!(party.selection(0), Err(SealedError::Misuse(_))));
    // A whole input that comes before anything was sent is taken; a round that is early is not
    // taken yet.
    let mut early = 2u32.to_le_bytes().to_vec();
    early.extend([0; 4]);
    assert!(party.receive(Peer::Next, &early).is_err());
    let [_, mut other, _] = parties(&circuit, &shares, Source::Drawn, &mut random);
    let [mut party, ..] = parties(&circuit, &shares, Source::Drawn, &mut random);
    let mut frame = vec![];
    assert!(other.next_frame(Peer::Previous, &mut random, &mut frame).unwrap());
    assert_eq!(party.receive(Peer::Next, &frame), Ok(FrameOutcome::Yes));
    assert_eq!(party.receive(Peer::Next, &early), Ok(FrameOutcome::NotYet));
    assert!(party.answer(&[[0; 3], [0; 3]]).is_err());
}
