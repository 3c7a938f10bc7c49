//! What comes to a client: the answers of servers, changed, cut, replaced or left out, in every
//! step of a search.

use crate::messages::{DEPLOYMENTS, SERVERS, search};
use ifonly_algebra::random::SeededRandom;
use ifonly_core::search::StepMessages;

/// The first byte chooses the deployment. Then, for every answer, a byte says what becomes of it,
/// and some need more.
pub(crate) fn run(bytes: &[u8]) {
    let mut bytes = bytes.iter().copied();
    let number = usize::from(bytes.next().unwrap_or(0)) % DEPLOYMENTS.len();
    let (mut search, mut random) = (search(number), SeededRandom::new(2));
    let mut steps = 0;
    while let Some(StepMessages { messages, .. }) = search.next(&mut random) {
        for (index, (message, server)) in (1..).zip(messages.iter().zip(&SERVERS[number])) {
            // Whoever was given no ticket, or a wrong one, is refused from then on.
            let Ok(mut answer) = server.respond(message) else { continue };
            let mut next = || bytes.next().unwrap_or(0);
            match next() % 6 {
                0 => {}
                1 => continue,
                2 => answer.truncate(next().into()),
                3 => answer = (0..next()).map(|_| next()).collect(),
                4 => {
                    let (place, change) = (usize::from(next()), next());
                    answer.iter_mut().skip(place).take(1).for_each(|byte| *byte ^= change);
                }
                _ => answer.extend((0..next()).map(|_| 0)),
            }
            // In two pieces, as a network brings it.
            let (first, second) = answer.split_at(answer.len().min(next().into()));
            search.receive_part(index, first);
            if next() % 8 == 7 {
                search.forget(index);
            }
            search.receive_part(index, second);
        }
        steps += 1;
    }
    assert_eq!(steps, DEPLOYMENTS[number].phases() + 1, "a search ended early, which servers would see");
    let _ = search.finish();
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let lies =
        [[0, 0, 0].as_slice(), &[1], &[2, 20, 9, 0], &[3, 3, 1, 2, 3, 1, 0], &[4, 17, 1, 200, 0], &[5, 9, 30, 7]];
    (0..4).flat_map(|number| lies.iter().map(move |lie| [&[number], lie.repeat(4).as_slice()].concat())).collect()
}
