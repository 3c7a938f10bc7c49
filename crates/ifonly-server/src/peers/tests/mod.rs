//! Three servers in one process, over real HTTP/2 through memory.

mod faults;

use super::*;
use crate::peers::stream::{ByteStream, Connector};
use ifonly_algebra::random::{OsRandom, SeededRandom};
use ifonly_sealed::{Circuit, Party, SealedParams, combine, share};
use std::sync::Mutex;

fn subject(number: u8) -> SessionContext {
    SessionContext {
        digest: [1; 32],
        epoch: 3,
        tau: [number; 32],
        top: 1,
        key_check: [4; 16],
        source: RandomnessMode::System,
    }
}

/// Rows whose values are 8 bits, 6 of them cost; the smallest that qualifies is the last but one.
fn values(rows: usize) -> Vec<u64> {
    (0..rows).map(|row| if row + 2 == rows { 5 } else { 0b0100_0000 + row as u64 % 7 }).collect()
}

/// What each server would answer the user, for one session of `peers`.
async fn session(peers: &[Arc<PeerNetwork>; 3], number: u8, rows: usize) -> [Result<Vec<u8>, SessionError>; 3] {
    let shape = SealedParams::new(rows, 8, 6).unwrap();
    let circuit = Arc::new(Circuit::new(&shape));
    let shares = share(8, &values(rows), &mut SeededRandom::new(number.into()));
    let run = async |server: usize| {
        let subject = SessionContext { source: peers[server - 1].source(), ..subject(number) };
        let mut opened = peers[server - 1].open(&subject).await?;
        let value = |row: usize| shares[server - 1][row];
        let randomness = opened.randomness(&circuit);
        let party = Party::new(&circuit, server, randomness, value, &mut OsRandom::default())?;
        let party = opened.run(party, peers[server - 1].limit()).await?;
        Ok(party.answer(&[[]; 1])?)
    };
    let (first, second, third) = tokio::join!(run(1), run(2), run(3));
    [first, second, third]
}

fn cost(rows: usize, answers: [Result<Vec<u8>, SessionError>; 3]) -> Option<u64> {
    let answers = answers.map(Result::unwrap);
    let shape = SealedParams::new(rows, 8, 6).unwrap();
    combine(&shape, [&answers[0], &answers[1], &answers[2]]).unwrap()[0].as_ref().map(|found| found.cost)
}

fn three(limits: PeerLimits) -> [Arc<PeerNetwork>; 3] {
    PeerNetwork::in_memory(limits).map(Arc::new)
}

#[tokio::test]
async fn servers_with_keys_find_the_nearest_row_and_send_nothing_ahead() {
    let peers = PeerNetwork::in_memory_with(PeerLimits::default(), RandomnessMode::Keys).map(Arc::new);
    let sessions = (0..5).map(|number| session(&peers, number, 1000));
    for answers in futures_util::future::join_all(sessions).await {
        assert_eq!(cost(1000, answers), Some(5));
    }
    assert_eq!(cost(150_000, session(&peers, 9, 150_000).await), Some(5));
    for peers in &peers {
        assert!(peers.store.state().is_none() && peers.store.room().is_none());
    }
}

#[tokio::test]
async fn each_pair_of_servers_has_a_key_that_the_third_has_not_and_every_session_others() {
    let peers = PeerNetwork::in_memory_with(PeerLimits::default(), RandomnessMode::Keys).map(Arc::new);
    let mut seen = vec![];
    for number in 1..=2 {
        let subject = SessionContext { source: RandomnessMode::Keys, ..subject(number) };
        let opened = tokio::try_join!(peers[0].open(&subject), peers[1].open(&subject), peers[2].open(&subject));
        let (first, second, third) = opened.unwrap();
        let keys = [first, second, third].map(|opened| match &opened.bits {
            Bits::Keyed(previous, next) => [previous.check_value(), next.check_value()],
            Bits::Drawn(..) => panic!("random bits come from keys"),
        });
        for place in 0..3 {
            let [next, after] = [keys[(place + 1) % 3], keys[(place + 2) % 3]];
            assert_eq!(keys[place][1], next[0], "servers {} and the next one share it", place + 1);
            assert!(!after.contains(&keys[place][1]), "the third has another one");
            seen.push(keys[place][1]);
        }
    }
    let all = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!((all, seen.len()), (6, 6));
}

#[tokio::test]
async fn three_servers_find_the_nearest_row_in_many_sessions_at_once() {
    // One place, so that server 1 makes the others wait, and more sessions than that.
    let peers = three(PeerLimits { sessions: 1, ..PeerLimits::default() });
    let sessions = (0..5).map(|number| session(&peers, number, 1000));
    for answers in futures_util::future::join_all(sessions).await {
        assert_eq!(cost(1000, answers), Some(5));
    }
    // Large enough for several frames a step.
    assert_eq!(cost(150_000, session(&peers, 9, 150_000).await), Some(5));
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_come_is_named_and_the_next_session_works() {
    let peers = three(PeerLimits::default());
    let subject = subject(1);
    let (first, second) = tokio::join!(peers[0].open(&subject), peers[1].open(&subject));
    assert_eq!(first.err(), Some(SessionError::Away { server: 3, seconds: 15 }));
    assert_eq!(second.err(), Some(SessionError::Away { server: 3, seconds: 15 }));
    assert_eq!(cost(100, session(&peers, 2, 100).await), Some(5));
}

#[tokio::test]
async fn servers_that_were_asked_different_things_do_not_compute() {
    type Change = fn(&mut SessionContext);
    let changes: [(&str, Change); 5] = [
        ("manifest", |subject| subject.digest[0] ^= 1),
        ("key epoch", |subject| subject.epoch += 1),
        ("number of rows to find", |subject| subject.top += 1),
        ("root key or data", |subject| subject.key_check[0] ^= 1),
        ("randomness", |subject| subject.source = RandomnessMode::Keys),
    ];
    let peers = three(PeerLimits::default());
    for (number, (what, change)) in (1..).zip(changes) {
        let mut other = subject(number);
        change(&mut other);
        let ours = subject(number);
        let (first, second, third) = tokio::join!(peers[0].open(&ours), peers[1].open(&other), peers[2].open(&ours));
        assert!(first.is_err() && second.is_err() && third.is_err());
        let seen = SessionError::Differs { server: 2, what };
        assert!(first.err() == Some(seen.clone()) || third.err() == Some(seen), "{what}");
    }
}

/// Servers of so many fronts each, every one of which knows all fronts of the next server, and
/// `extra` ways that lead nowhere.
fn with_fronts(limits: PeerLimits, counts: [usize; 3], extra: fn() -> Vec<Connector>) -> [Vec<Arc<PeerNetwork>>; 3] {
    let room = |_| -> Rooms { (Arc::new(SessionRendezvous::new(limits.waiting)), Arc::default()) };
    let rooms = counts.map(|count| (0..count).map(room).collect::<Vec<_>>());
    std::array::from_fn(|place| {
        let frontend = |(rendezvous, store): &Rooms| {
            let next = rooms[(place + 1) % 3].iter().map(|rooms| through_memory(rooms, limits));
            let peers = PeerNetwork::new(place + 1, limits, RandomnessMode::System, extra().into_iter().chain(next));
            Arc::new(PeerNetwork { rendezvous: rendezvous.clone(), store: store.clone(), ..peers })
        };
        rooms[place].iter().map(frontend).collect()
    })
}

#[tokio::test]
async fn a_session_is_found_at_whichever_fronts_its_message_reached() {
    let counts = [2, 3, 2];
    // As few seats as there can be: whoever waited at another front has left it when the next
    // session comes.
    let one = with_fronts(PeerLimits { waiting: 1, ..PeerLimits::default() }, counts, Vec::new);
    let many = with_fronts(PeerLimits::default(), counts, Vec::new);
    let reached = |frontends: &[Vec<Arc<PeerNetwork>>; 3], number: usize| -> [Arc<PeerNetwork>; 3] {
        std::array::from_fn(|place| frontends[place][number / [1, 2, 6][place] % counts[place]].clone())
    };
    for number in 0..24 {
        let answers = session(&reached(&one, number), number as u8, 100).await;
        assert_eq!(cost(100, answers), Some(5), "{number}");
        // What somebody dropped is known once the tasks that serve it have run.
        while one.iter().flatten().any(|peers| peers.rendezvous.waiting() > 0) {
            tokio::task::yield_now().await;
        }
    }
    let peers: Vec<[Arc<PeerNetwork>; 3]> = (0..12).map(|number| reached(&many, number)).collect();
    let sessions = (0..).zip(&peers).map(|(number, peers)| session(peers, number, 1000));
    for answers in futures_util::future::join_all(sessions).await {
        assert_eq!(cost(1000, answers), Some(5));
    }
    // Nobody knows before a session which front will have it.
    assert!(many.iter().flatten().all(|peers| peers.store.state().is_none()));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_reached_two_fronts_opens_one_session_at_most() {
    let frontends = with_fronts(PeerLimits::default(), [2, 2, 2], Vec::new);
    let open = async |place: usize, frontend: usize| {
        let frontend = frontends[place][frontend].clone();
        // Held until all have opened theirs or given up.
        let opened = frontend.open(&subject(1)).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        opened.is_ok()
    };
    let first = async { tokio::join!(open(0, 0), open(0, 1)) };
    let second = async { tokio::join!(open(1, 0), open(1, 1)) };
    let third = async { tokio::join!(open(2, 0), open(2, 1)) };
    let (first, second, third) = tokio::join!(first, second, third);
    for (one, other) in [first, second, third] {
        assert!(!(one && other), "{first:?} {second:?} {third:?}");
    }
    // Whatever became of it, the fronts are there for the next one.
    let peers = [0, 1, 2].map(|place| frontends[place][1].clone());
    assert_eq!(cost(100, session(&peers, 2, 100).await), Some(5));
}

#[tokio::test(start_paused = true)]
async fn a_front_without_a_seat_is_asked_again_until_there_is_one() {
    let limits = PeerLimits { waiting: 1, ..PeerLimits::default() };
    let frontends = with_fronts(limits, [1, 2, 1], Vec::new);
    let peers = [frontends[0][0].clone(), frontends[1][1].clone(), frontends[2][0].clone()];
    // Its message reached server 1 alone, whose streams take the only seat at both fronts until it
    // gives up.
    let lonely = tokio::spawn({
        let first = frontends[0][0].clone();
        async move { first.open(&subject(1)).await.err() }
    });
    while frontends[1].iter().any(|frontend| frontend.rendezvous.waiting() == 0) {
        tokio::task::yield_now().await;
    }
    let asked = session(&peers, 2, 100);
    let ends = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        lonely.abort();
    };
    let (answers, ()) = tokio::join!(asked, ends);
    assert_eq!(cost(100, answers), Some(5));
}

#[tokio::test(start_paused = true)]
async fn fronts_that_are_dead_or_silent_hold_up_no_session_of_the_others() {
    let nowhere = || -> Vec<Connector> {
        let dead = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let dead: Connector = Box::new(move || Box::pin(async move { Err(dead()) }));
        vec![dead, Box::new(|| Box::pin(std::future::pending()))]
    };
    let frontends = with_fronts(PeerLimits::default(), [1, 2, 1], nowhere);
    for (number, second) in [0, 1, 1, 0].into_iter().enumerate() {
        let peers = [0, second, 0].into_iter().enumerate().map(|(place, frontend)| frontends[place][frontend].clone());
        let peers: [Arc<PeerNetwork>; 3] = peers.collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(cost(100, session(&peers, number as u8, 100).await), Some(5));
    }
    // A server that was not asked is named, although its fronts are there.
    let (subject, [first, _, third]) = (subject(9), [0, 1, 2].map(|place| frontends[place][0].clone()));
    let (first, third) = tokio::join!(first.open(&subject), third.open(&subject));
    let away = Some(SessionError::Away { server: 2, seconds: 15 });
    assert_eq!((first.err(), third.err()), (away.clone(), away));
}

#[tokio::test]
async fn one_search_cannot_be_run_twice_at_once() {
    let peers = three(PeerLimits::default());
    let first = peers[0].clone();
    let waiting = tokio::spawn(async move { first.open(&subject(1)).await.err() });
    tokio::task::yield_now().await;
    assert_eq!(peers[0].open(&subject(1)).await.err(), Some(SessionError::Twice));
    waiting.abort();
    let _ = waiting.await;
    // The seat is free again.
    assert!(peers[0].rendezvous.expect(&subject(1).tau).is_some());
}

/// What serves each server's line to the next one; aborted, the line is cut.
type Cuts = Arc<Mutex<[Vec<tokio::task::AbortHandle>; 3]>>;

/// Servers that reach each other through carriers that can be cut.
fn with_weak_lines(limits: PeerLimits, source: RandomnessMode) -> ([Arc<PeerNetwork>; 3], Cuts) {
    let mut peers = PeerNetwork::in_memory_with(limits, source);
    let cuts = Cuts::default();
    for place in 0..3 {
        let next = &peers[(place + 1) % 3];
        let (next, cut) = ((next.rendezvous.clone(), next.store.clone()), cuts.clone());
        let dial: Connector = Box::new(move || {
            let (next, cut) = (next.clone(), cut.clone());
            Box::pin(async move {
                let (ours, theirs) = tokio::io::duplex(1 << 12);
                cut.lock().unwrap()[place].push(tokio::spawn(serve(theirs, next, limits)).abort_handle());
                Ok(Box::new(ours) as Box<dyn ByteStream>)
            })
        });
        peers[place].diallers = vec![Arc::new(PeerConnector::new(dial))];
    }
    (peers.map(Arc::new), cuts)
}

#[tokio::test]
async fn a_line_that_breaks_ends_its_sessions_with_a_name_and_is_made_again() {
    let (peers, cuts) = with_weak_lines(PeerLimits::default(), RandomnessMode::System);
    assert_eq!(cost(100, session(&peers, 1, 100).await), Some(5));
    let cutting = async {
        // The session is under way when all have been told of it.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        cuts.lock().unwrap()[0].drain(..).for_each(|line| line.abort());
    };
    let (answers, ()) = tokio::join!(session(&peers, 2, 400_000), cutting);
    assert!(answers.iter().all(Result::is_err), "{answers:?}");
    assert!(answers[0].as_ref().is_err_and(|error| error.to_string().starts_with("server 2")), "{answers:?}");
    assert_eq!(cost(100, session(&peers, 3, 100).await), Some(5));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_stalls_is_named_when_the_time_is_up() {
    let peers = three(PeerLimits::default());
    let shape = SealedParams::new(100, 8, 6).unwrap();
    let circuit = Arc::new(Circuit::new(&shape));
    let run = async |server: usize| {
        let mut opened = peers[server - 1].open(&subject(1)).await?;
        let randomness = opened.randomness(&circuit);
        let party = Party::new(&circuit, server, randomness, |_| 0, &mut OsRandom::default())?;
        opened.run(party, Duration::from_secs(60)).await.map(|_| ())
    };
    let stalls = async {
        let opened = peers[2].open(&subject(1)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1000)).await;
        drop(opened);
    };
    let (first, second, ()) = tokio::join!(run(1), run(2), stalls);
    for error in [first.unwrap_err(), second.unwrap_err()] {
        assert!(matches!(error, SessionError::UploadTimeout { server: 3, seconds: 60, .. }), "{error}");
    }
}

/// Waits until every server has sent the next one all that may go ahead of such a search.
async fn until_all_is_ahead(peers: &[Arc<PeerNetwork>; 3], rows: usize) {
    let room = format!("{:?}", PrefetchedWords::before(&Circuit::new(&SealedParams::new(rows, 8, 6).unwrap())));
    let words = room.trim_end_matches(')').rsplit(' ').next().unwrap();
    let all = format!("Ahead({words} drawn, 0 received, 0 used of {words})");
    for _ in 0..1_000_000 {
        if peers.iter().all(|peers| peers.store.state().as_deref() == Some(&all)) {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("not {all}: {:?}", peers.each_ref().map(|peers| peers.store.state()));
}

#[tokio::test]
async fn random_bits_go_ahead_while_nobody_asks_and_the_next_session_uses_them() {
    let peers = three(PeerLimits::default());
    assert!(peers.iter().all(|peers| peers.store.state().is_none()), "nothing is known before the first search");
    assert_eq!(cost(150_000, session(&peers, 1, 150_000).await), Some(5));
    until_all_is_ahead(&peers, 150_000).await;
    // Everything is as before where a search is given more than it needs, or less.
    assert_eq!(cost(1000, session(&peers, 2, 1000).await), Some(5));
    assert_eq!(cost(150_000, session(&peers, 3, 150_000).await), Some(5));
    until_all_is_ahead(&peers, 150_000).await;
    // One server lost its stream: its session opens another one, and the counts still fit.
    drop(peers[1].store.take());
    assert_eq!(cost(150_000, session(&peers, 4, 150_000).await), Some(5));
}
