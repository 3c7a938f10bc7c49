//! The target `peers`: what a server of a sealed search receives from the two others. The bytes are
//! read as a greeting. They also replace one frame of a session; the first two bytes choose which.

use ifonly_algebra::random::SeededRandom;
use ifonly_sealed::simulate::{self, FrameInTransit};
use ifonly_sealed::{
    Circuit, Party, PartyRandomness, PrefetchedWords, RandomnessMode, SealedParams, SessionContext, combine, share,
};
use std::sync::{Arc, LazyLock};

const RECORD_BYTES: usize = 3;

static CIRCUIT: LazyLock<Arc<Circuit>> = LazyLock::new(|| {
    let params = SealedParams::new(4, 8, 6).and_then(|params| params.record_bytes(RECORD_BYTES));
    Arc::new(Circuit::new(&params.expect("the parameters are valid")))
});

fn context(randomness: RandomnessMode) -> SessionContext {
    SessionContext { digest: [1; 32], epoch: 2, tau: [3; 32], top: 1, key_check: [4; 16], randomness }
}

/// Runs a session whose frames pass through `deliver`, and decodes the answers if it ends.
fn session(deliver: impl FnMut(FrameInTransit) -> Vec<FrameInTransit>) {
    let mut random = SeededRandom::new(1);
    let shares = share(8, &[3, 17, 0x80, 9], &mut random);
    let mut parties = [1, 2, 3].map(|server| {
        let value = |row: usize| shares[server - 1][row];
        Party::new(&CIRCUIT, server, PartyRandomness::Drawn, value, &mut random).expect("the party is valid")
    });
    if simulate::run(&mut parties, &mut random, deliver).iter().any(Result::is_err) {
        return;
    }
    let answers = parties.map(|party| {
        party.selection(0).expect("the session has ended");
        party.answer(&[[0u8; RECORD_BYTES]]).expect("the session has ended")
    });
    let _ = combine(CIRCUIT.params(), [&answers[0], &answers[1], &answers[2]]);
}

pub(crate) fn run(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first_chunk() else { return };
    let chosen = usize::from(u16::from_le_bytes(*choice));
    for mode in [RandomnessMode::System, RandomnessMode::Keys] {
        let context = context(mode);
        for server in 1..=3 {
            if let Ok(nonce) = context.read_greeting(server, bytes) {
                assert_eq!(context.greeting(server, &nonce), bytes, "a greeting has one encoding");
            }
        }
    }
    let _ = PrefetchedWords::before_session(&CIRCUIT).receive(3, bytes);
    let mut sent = 0;
    session(|mut frame| {
        if sent == chosen {
            frame.bytes = bytes.to_vec();
        }
        sent += 1;
        vec![frame]
    });
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = vec![];
    session(|frame| {
        seeds.push([&(seeds.len() as u16).to_le_bytes()[..], &frame.bytes].concat());
        vec![frame]
    });
    for mode in [RandomnessMode::System, RandomnessMode::Keys] {
        seeds.push([&[0u8, 0][..], &context(mode).greeting(2, &[5; 32])].concat());
    }
    seeds
}
