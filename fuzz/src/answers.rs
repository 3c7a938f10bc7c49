//! The target `answers`: the input of a client. The answers of servers are changed, truncated,
//! replaced, extended or omitted in every step of a search.

use crate::messages::{INSTANCES, SERVERS, search};
use ifonly_algebra::random::SeededRandom;
use ifonly_core::search::StepMessages;

/// The first byte selects the scheme instance. Then each answer takes one byte that selects its
/// change, and the bytes that this change needs.
pub(crate) fn run(bytes: &[u8]) {
    let mut bytes = bytes.iter().copied();
    let number = usize::from(bytes.next().unwrap_or(0)) % INSTANCES.len();
    let (mut search, mut random) = (search(number), SeededRandom::new(2));
    let mut steps = 0;
    while let Some(StepMessages { messages, .. }) = search.next(&mut random) {
        for (index, (message, server)) in (1..).zip(messages.iter().zip(&SERVERS[number])) {
            // Servers refuse later phases of a search that received no ticket or a wrong one.
            let Ok(mut answer) = server.respond(message) else { continue };
            let mut next = || bytes.next().unwrap_or(0);
            match next() % 6 {
                0 => {}
                1 => continue,
                2 => answer.truncate(next().into()),
                3 => answer = (0..next()).map(|_| next()).collect(),
                4 => {
                    let (index, change) = (usize::from(next()), next());
                    answer.iter_mut().skip(index).take(1).for_each(|byte| *byte ^= change);
                }
                _ => answer.extend((0..next()).map(|_| 0)),
            }
            // Networks deliver answers in pieces.
            let (first, second) = answer.split_at(answer.len().min(next().into()));
            search.receive_part(index, first);
            if next() % 8 == 7 {
                search.forget(index);
            }
            search.receive_part(index, second);
        }
        steps += 1;
    }
    assert_eq!(steps, INSTANCES[number].phases() + 1, "a search must not end early, because servers would notice");
    let _ = search.finish();
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let lies =
        [[0, 0, 0].as_slice(), &[1], &[2, 20, 9, 0], &[3, 3, 1, 2, 3, 1, 0], &[4, 17, 1, 200, 0], &[5, 9, 30, 7]];
    (0..4).flat_map(|number| lies.iter().map(move |lie| [&[number], lie.repeat(4).as_slice()].concat())).collect()
}
