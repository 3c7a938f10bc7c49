//! Three servers in one process, connected by HTTP/2 through memory.

mod certificates;
mod faults;

use super::*;
use crate::peers::stream::{ByteStream, Connector};
use ifonly_algebra::random::{OsRandom, SeededRandom};
use ifonly_sealed::{Circuit, Party, SealedParams, combine, share};
use std::sync::Mutex;

fn context(number: u8) -> SessionContext {
    SessionContext {
        digest: [1; 32],
        epoch: 3,
        tau: [number; 32],
        top: 1,
        key_check: [4; 16],
        randomness: RandomnessMode::System,
    }
}

/// Values of 8 bits, of which 6 are the cost. Only the last row but one matches; its cost is 5.
fn values(rows: usize) -> Vec<u64> {
    (0..rows).map(|row| if row + 2 == rows { 5 } else { 0b0100_0000 + row as u64 % 7 }).collect()
}

/// The answers of the three servers to the client, for one session of `peers`.
async fn session(peers: &[Arc<PeerNetwork>; 3], number: u8, rows: usize) -> [Result<Vec<u8>, SessionError>; 3] {
    let params = SealedParams::new(rows, 8, 6).unwrap();
    let circuit = Arc::new(Circuit::new(&params));
    let shares = share(8, &values(rows), &mut SeededRandom::new(number.into()));
    let run = async |server: usize| {
        let context = SessionContext { randomness: peers[server - 1].randomness(), ..context(number) };
        let mut opened = peers[server - 1].open(&context).await?;
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
    let params = SealedParams::new(rows, 8, 6).unwrap();
    combine(&params, [&answers[0], &answers[1], &answers[2]]).unwrap()[0].as_ref().map(|found| found.cost)
}

fn three(limits: PeerLimits) -> [Arc<PeerNetwork>; 3] {
    PeerNetwork::in_memory(limits).map(Arc::new)
}

#[tokio::test]
async fn servers_with_keys_find_the_nearest_row_and_prefetch_nothing() {
    let peers = PeerNetwork::in_memory_with(PeerLimits::default(), RandomnessMode::Keys).map(Arc::new);
    let sessions = (0..5).map(|number| session(&peers, number, 1000));
    for answers in futures_util::future::join_all(sessions).await {
        assert_eq!(cost(1000, answers), Some(5));
    }
    assert_eq!(cost(150_000, session(&peers, 9, 150_000).await), Some(5));
    for peers in &peers {
        assert!(peers.prefetched.state().is_none() && peers.prefetched.receive_buffer().is_none());
    }
}

#[tokio::test]
async fn each_pair_of_servers_has_its_own_key_in_every_session() {
    let peers = PeerNetwork::in_memory_with(PeerLimits::default(), RandomnessMode::Keys).map(Arc::new);
    let mut all_keys = vec![];
    for number in 1..=2 {
        let context = SessionContext { randomness: RandomnessMode::Keys, ..context(number) };
        let opened = tokio::try_join!(peers[0].open(&context), peers[1].open(&context), peers[2].open(&context));
        let (first, second, third) = opened.unwrap();
        let keys = [first, second, third].map(|opened| match &opened.randomness {
            SessionRandomness::Keyed(previous, next) => [previous.check_value(), next.check_value()],
            SessionRandomness::Drawn(..) => panic!("expected random bits from keys"),
        });
        for server in 0..3 {
            let [next, third] = [keys[(server + 1) % 3], keys[(server + 2) % 3]];
            assert_eq!(keys[server][1], next[0], "server {} and the next server share this key", server + 1);
            assert!(!third.contains(&keys[server][1]), "the third server does not have this key");
            all_keys.push(keys[server][1]);
        }
    }
    let count = all_keys.len();
    all_keys.sort_unstable();
    all_keys.dedup();
    assert_eq!((count, all_keys.len()), (6, 6));
}

#[tokio::test]
async fn three_servers_find_the_nearest_row_in_many_concurrent_sessions() {
    // More sessions than the one permit, so that server 1 makes its peers wait.
    let peers = three(PeerLimits { sessions: 1, ..PeerLimits::default() });
    let sessions = (0..5).map(|number| session(&peers, number, 1000));
    for answers in futures_util::future::join_all(sessions).await {
        assert_eq!(cost(1000, answers), Some(5));
    }
    // Large enough for several frames per step.
    assert_eq!(cost(150_000, session(&peers, 9, 150_000).await), Some(5));
}

#[tokio::test(start_paused = true)]
async fn an_absent_server_is_named_and_the_next_session_works() {
    let peers = three(PeerLimits::default());
    let context = context(1);
    let (first, second) = tokio::join!(peers[0].open(&context), peers[1].open(&context));
    assert_eq!(first.err(), Some(SessionError::Absent { server: 3, seconds: 5 }));
    assert_eq!(second.err(), Some(SessionError::Absent { server: 3, seconds: 5 }));
    assert_eq!(cost(100, session(&peers, 2, 100).await), Some(5));
}

#[tokio::test]
async fn servers_with_different_session_contexts_do_not_compute() {
    type Change = fn(&mut SessionContext);
    let changes: [(&str, Change); 5] = [
        ("manifest", |context| context.digest[0] ^= 1),
        ("key epoch", |context| context.epoch += 1),
        ("number of rows to find", |context| context.top += 1),
        ("root key or data", |context| context.key_check[0] ^= 1),
        ("randomness", |context| context.randomness = RandomnessMode::Keys),
    ];
    let peers = three(PeerLimits::default());
    for (number, (what, change)) in (1..).zip(changes) {
        let mut other = context(number);
        change(&mut other);
        let ours = context(number);
        let (first, second, third) = tokio::join!(peers[0].open(&ours), peers[1].open(&other), peers[2].open(&ours));
        assert!(first.is_err() && second.is_err() && third.is_err());
        let expected = SessionError::Differs { server: 2, what };
        assert!(first.err() == Some(expected.clone()) || third.err() == Some(expected), "{what}");
    }
}

/// Servers with `counts` frontends each. Every frontend connects to all frontends of the next
/// server and to the unreachable ones of `extra`.
fn with_frontends(limits: PeerLimits, counts: [usize; 3], extra: fn() -> Vec<Connector>) -> [Vec<Arc<PeerNetwork>>; 3] {
    let endpoint = |_| -> Endpoint { (Arc::new(SessionRendezvous::new(limits.waiting)), Arc::default()) };
    let endpoints = counts.map(|count| (0..count).map(endpoint).collect::<Vec<_>>());
    std::array::from_fn(|index| {
        let frontend = |(rendezvous, prefetched): &Endpoint| {
            let next = endpoints[(index + 1) % 3].iter().map(|endpoint| memory_connector(endpoint, limits));
            let peers = PeerNetwork::new(index + 1, limits, RandomnessMode::System, extra().into_iter().chain(next));
            Arc::new(PeerNetwork { rendezvous: rendezvous.clone(), prefetched: prefetched.clone(), ..peers })
        };
        endpoints[index].iter().map(frontend).collect()
    })
}

#[tokio::test]
async fn a_session_works_at_every_combination_of_frontends() {
    let counts = [2, 3, 2];
    // With one waiting stream per frontend, streams at the other frontends must end before the next
    // session.
    let one = with_frontends(PeerLimits { waiting: 1, ..PeerLimits::default() }, counts, Vec::new);
    let many = with_frontends(PeerLimits::default(), counts, Vec::new);
    let chosen = |frontends: &[Vec<Arc<PeerNetwork>>; 3], number: usize| -> [Arc<PeerNetwork>; 3] {
        std::array::from_fn(|index| frontends[index][number / [1, 2, 6][index] % counts[index]].clone())
    };
    for number in 0..24 {
        let answers = session(&chosen(&one, number), number as u8, 100).await;
        assert_eq!(cost(100, answers), Some(5), "{number}");
        // A dropped stream is noticed when the task that serves it has run.
        while one.iter().flatten().any(|peers| peers.rendezvous.waiting() > 0) {
            tokio::task::yield_now().await;
        }
    }
    let peers: Vec<[Arc<PeerNetwork>; 3]> = (0..12).map(|number| chosen(&many, number)).collect();
    let sessions = (0..).zip(&peers).map(|(number, peers)| session(peers, number, 1000));
    for answers in futures_util::future::join_all(sessions).await {
        assert_eq!(cost(1000, answers), Some(5));
    }
    // Nothing is prefetched, because the frontend of the next session is not known.
    assert!(many.iter().flatten().all(|peers| peers.prefetched.state().is_none()));
}

#[tokio::test(start_paused = true)]
async fn a_message_at_two_frontends_opens_at_most_one_session() {
    let frontends = with_frontends(PeerLimits::default(), [2, 2, 2], Vec::new);
    let open = async |index: usize, frontend: usize| {
        let frontend = frontends[index][frontend].clone();
        // Keeps the session until all have opened theirs or failed.
        let opened = frontend.open(&context(1)).await;
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
    // In every case the next session works.
    let peers = [0, 1, 2].map(|index| frontends[index][1].clone());
    assert_eq!(cost(100, session(&peers, 2, 100).await), Some(5));
}

/// An address of a client.
fn client(number: u8) -> IpAddr {
    IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, number))
}

/// The attack: sessions at one server only, which wait for peers that never get the message. With
/// several frontends, the streams of one frontend meet those of the others at the next server.
#[tokio::test(start_paused = true)]
async fn half_open_sessions_of_one_address_displace_only_each_other() {
    let limits = PeerLimits { waiting: 4, ..PeerLimits::default() };
    let frontends = with_frontends(limits, [2, 1, 1], Vec::new);
    let peers = [frontends[0][0].clone(), frontends[1][0].clone(), frontends[2][0].clone()];
    // This session waits for server 3 from the start.
    let victim = context(200);
    let honest = async {
        let met = tokio::join!(peers[0].meet(&victim, client(1)), peers[1].meet(&victim, client(1)), async {
            tokio::time::sleep(Duration::from_secs(4)).await;
            peers[2].meet(&victim, client(1)).await
        });
        met.0.is_ok() && met.1.is_ok() && met.2.is_ok()
    };
    let attack = async {
        let open = async |number: u8| {
            let (server, frontend) = (usize::from(number) % 3, usize::from(number) % 2);
            let frontend = &frontends[server][frontend % frontends[server].len()];
            frontend.meet(&context(number), client(66)).await.err()
        };
        futures_util::future::join_all((0..100).map(open)).await
    };
    let (honest, attack) = tokio::join!(honest, attack);
    assert!(honest, "the session of another address is displaced");
    assert!(attack.iter().all(Option::is_some));
    let displaced = attack.iter().flatten().filter(|error| **error == SessionError::Displaced).count();
    assert!(displaced > 80, "{displaced} of 100 sessions at one server were displaced");
    assert!(frontends.iter().flatten().all(|peers| peers.half_open.used() == 0));
}

#[tokio::test(start_paused = true)]
async fn a_full_rendezvous_displaces_streams_of_the_largest_client_class() {
    // Server 2 allows two waiting streams; server 1 opens more, for two clients.
    let rendezvous = Arc::new(SessionRendezvous::new(2));
    let endpoint: Endpoint = (rendezvous.clone(), Arc::default());
    let limits = PeerLimits::default();
    let next = memory_connector(&endpoint, limits);
    let first = Arc::new(PeerNetwork::new(1, limits, RandomnessMode::System, [next]));
    let open = |number: u8, address: u8| {
        let first = first.clone();
        tokio::spawn(async move { first.meet(&context(number), client(address)).await.err() })
    };
    let honest = open(1, 1);
    while rendezvous.waiting() < 1 {
        tokio::task::yield_now().await;
    }
    let flood: Vec<_> = (2..20).map(|number| open(number, 66)).collect();
    let mut gone = 0;
    for task in flood {
        let error = task.await.unwrap().unwrap();
        gone += usize::from(error == SessionError::Stream { server: 2, error: PeerStreamError::Refused(410) });
    }
    assert_eq!(gone, 17, "all but the last stream of the flood");
    assert!(matches!(honest.await.unwrap(), Some(SessionError::BothAbsent { .. })), "waits until its deadline");
}

#[tokio::test(start_paused = true)]
async fn unreachable_and_silent_frontends_do_not_delay_sessions_of_the_others() {
    let unreachable = || -> Vec<Connector> {
        let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let refusing: Connector = Box::new(move || Box::pin(async move { Err(refused()) }));
        vec![refusing, Box::new(|| Box::pin(std::future::pending()))]
    };
    let frontends = with_frontends(PeerLimits::default(), [1, 2, 1], unreachable);
    for (number, second) in [0, 1, 1, 0].into_iter().enumerate() {
        let peers = [0, second, 0].into_iter().enumerate().map(|(index, frontend)| frontends[index][frontend].clone());
        let peers: [Arc<PeerNetwork>; 3] = peers.collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(cost(100, session(&peers, number as u8, 100).await), Some(5));
    }
    // A server without the message is named, although its frontends are reachable.
    let (context, [first, _, third]) = (context(9), [0, 1, 2].map(|index| frontends[index][0].clone()));
    let (first, third) = tokio::join!(first.open(&context), third.open(&context));
    let absent = Some(SessionError::Absent { server: 2, seconds: 5 });
    assert_eq!((first.err(), third.err()), (absent.clone(), absent));
}

#[tokio::test]
async fn a_second_copy_of_a_waiting_message_is_refused() {
    let peers = three(PeerLimits::default());
    let first = peers[0].clone();
    let waiting = tokio::spawn(async move { first.open(&context(1)).await.err() });
    tokio::task::yield_now().await;
    assert_eq!(peers[0].open(&context(1)).await.err(), Some(SessionError::Duplicate));
    waiting.abort();
    let _ = waiting.await;
    // The entry was removed.
    assert!(peers[0].rendezvous.expect(&context(1).tau).is_some());
}

/// Tasks that serve the connection of each server to its next server. Aborting one breaks the
/// connection.
type ConnectionTasks = Arc<Mutex<[Vec<tokio::task::AbortHandle>; 3]>>;

/// Three servers whose connections a test can break.
fn with_breakable_connections(
    limits: PeerLimits,
    randomness: RandomnessMode,
) -> ([Arc<PeerNetwork>; 3], ConnectionTasks) {
    let mut peers = PeerNetwork::in_memory_with(limits, randomness);
    let tasks = ConnectionTasks::default();
    for index in 0..3 {
        let next = &peers[(index + 1) % 3];
        let (next, tasks) = ((next.rendezvous.clone(), next.prefetched.clone()), tasks.clone());
        let connect: Connector = Box::new(move || {
            let (next, tasks) = (next.clone(), tasks.clone());
            Box::pin(async move {
                let (ours, theirs) = tokio::io::duplex(1 << 12);
                tasks.lock().unwrap()[index].push(tokio::spawn(serve(theirs, next, limits)).abort_handle());
                Ok(Box::new(ours) as Box<dyn ByteStream>)
            })
        });
        peers[index].connectors = vec![Arc::new(PeerConnector::new(connect))];
    }
    (peers.map(Arc::new), tasks)
}

#[tokio::test]
async fn a_broken_connection_fails_its_sessions_and_the_next_session_reconnects() {
    let (peers, tasks) = with_breakable_connections(PeerLimits::default(), RandomnessMode::System);
    assert_eq!(cost(100, session(&peers, 1, 100).await), Some(5));
    let breaking = async {
        // Gives all servers time to start the session.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        tasks.lock().unwrap()[0].drain(..).for_each(|task| task.abort());
    };
    let (answers, ()) = tokio::join!(session(&peers, 2, 400_000), breaking);
    assert!(answers.iter().all(Result::is_err), "{answers:?}");
    assert!(answers[0].as_ref().is_err_and(|error| error.to_string().starts_with("server 2")), "{answers:?}");
    assert_eq!(cost(100, session(&peers, 3, 100).await), Some(5));
}

#[tokio::test(start_paused = true)]
async fn a_stalled_peer_is_named_at_the_deadline() {
    let peers = three(PeerLimits::default());
    let params = SealedParams::new(100, 8, 6).unwrap();
    let circuit = Arc::new(Circuit::new(&params));
    let run = async |server: usize| {
        let mut opened = peers[server - 1].open(&context(1)).await?;
        let randomness = opened.randomness(&circuit);
        let party = Party::new(&circuit, server, randomness, |_| 0, &mut OsRandom::default())?;
        opened.run(party, Duration::from_secs(60)).await.map(|_| ())
    };
    let stalls = async {
        let opened = peers[2].open(&context(1)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1000)).await;
        drop(opened);
    };
    let (first, second, ()) = tokio::join!(run(1), run(2), stalls);
    for error in [first.unwrap_err(), second.unwrap_err()] {
        assert!(matches!(error, SessionError::Timeout { server: 3, seconds: 60, .. }), "{error}");
    }
}

/// Waits until every server has sent its next server all words that it may prefetch.
async fn until_prefetched(peers: &[Arc<PeerNetwork>; 3], rows: usize) {
    let empty =
        format!("{:?}", PrefetchedWords::before_session(&Circuit::new(&SealedParams::new(rows, 8, 6).unwrap())));
    let words = empty.trim_end_matches(')').rsplit(' ').next().unwrap();
    let full = format!("PrefetchedWords({words} drawn, 0 received, 0 used of {words})");
    for _ in 0..1_000_000 {
        if peers.iter().all(|peers| peers.prefetched.state().as_deref() == Some(&full)) {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("not {full}: {:?}", peers.each_ref().map(|peers| peers.prefetched.state()));
}

#[tokio::test]
async fn random_words_are_prefetched_between_sessions_and_the_next_session_uses_them() {
    let peers = three(PeerLimits::default());
    assert!(
        peers.iter().all(|peers| peers.prefetched.state().is_none()),
        "nothing is prefetched before the first session"
    );
    assert_eq!(cost(150_000, session(&peers, 1, 150_000).await), Some(5));
    until_prefetched(&peers, 150_000).await;
    // Sessions work with more prefetched words than they need, and with fewer.
    assert_eq!(cost(1000, session(&peers, 2, 1000).await), Some(5));
    assert_eq!(cost(150_000, session(&peers, 3, 150_000).await), Some(5));
    until_prefetched(&peers, 150_000).await;
    // If a server loses its stream, its session opens a new one, and both ends still agree.
    drop(peers[1].prefetched.take());
    assert_eq!(cost(150_000, session(&peers, 4, 150_000).await), Some(5));
}
