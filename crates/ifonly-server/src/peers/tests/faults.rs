//! A peer that sends rubbish, too much, too little, out of order, stalls or goes away, at every
//! frame of a session and at each of the three servers: the others end in time with an error that
//! names a server, and the next session works.
//!
//! Lines, HTTP/2 and deadlines are the real ones, on a clock that only moves when nobody has
//! anything to do. What one server puts on one of its lines passes through a task that harms one
//! frame.

use super::*;
use crate::peers::stream::framed;
use bytes::Bytes;
use ifonly_algebra::random::RandomSource;
use ifonly_sealed::Peer;
use tokio::sync::{mpsc, watch};

const LIMITS: PeerLimits = PeerLimits { sessions: 2, waiting: 4, join_seconds: 3, session_seconds: 5 };
const ROWS: usize = 5;

/// What happens to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    /// Other bytes, as many.
    Rubbish,
    /// Eight bytes more.
    Longer,
    /// A byte less.
    Shorter,
    /// No bytes at all.
    Empty,
    /// A length that no frame has.
    Endless,
    /// Half of it, and then the end of the stream.
    Halved,
    /// It does not come.
    Lost,
    /// It comes twice.
    Twice,
    /// The one behind it comes first.
    Swapped,
    /// Neither it nor anything behind it comes; the stream stays open.
    Stalled,
    /// The connections of its sender break.
    Broken,
}

use Harm::*;
const HARMS: [Harm; 11] = [Rubbish, Longer, Shorter, Empty, Endless, Halved, Lost, Twice, Swapped, Stalled, Broken];

/// One frame of one server, to one of the others, and what happens to it.
#[derive(Clone, Copy, Debug)]
struct Case {
    server: usize,
    to: Peer,
    frame: usize,
    harm: Harm,
}

/// What a server puts on a line, counted, with one frame harmed. `gone` hears when the server is to
/// be cut off.
fn harmed(
    to: mpsc::Sender<Bytes>,
    case: Option<Case>,
    gone: watch::Sender<bool>,
    count: Arc<Mutex<usize>>,
) -> mpsc::Sender<Bytes> {
    let (harmed, mut frames) = mpsc::channel::<Bytes>(1);
    tokio::spawn(async move {
        let mut cut = gone.subscribe();
        let mut behind = None;
        loop {
            let frame = tokio::select! {
                frame = frames.recv() => frame,
                () = to.closed() => return,
                _ = cut.wait_for(|cut| *cut) => return,
            };
            let Some(frame) = frame else {
                // The last one of a line has nobody to change places with.
                if let Some(frame) = behind {
                    let _ = to.send(frame).await;
                }
                return;
            };
            let number = {
                let mut count = count.lock().unwrap();
                *count += 1;
                *count - 1
            };
            let payload = &frame[4..];
            let instead = match case.filter(|case| case.frame == number).map(|case| case.harm) {
                None => vec![frame],
                Some(Rubbish) => {
                    let mut bytes = vec![0; payload.len()];
                    SeededRandom::new(number as u64).fill(&mut bytes);
                    vec![framed(&bytes)]
                }
                Some(Longer) => vec![framed(&[payload, &[0; 8]].concat())],
                Some(Shorter) => vec![framed(&payload[..payload.len() - 1])],
                Some(Empty) => vec![framed(&[])],
                Some(Endless) => vec![u32::MAX.to_le_bytes().to_vec().into(), frame],
                Some(Halved) => {
                    let _ = to.send(frame.slice(..frame.len() / 2)).await;
                    return;
                }
                Some(Lost) => vec![],
                Some(Twice) => vec![frame.clone(), frame],
                Some(Swapped) => {
                    behind = Some(frame);
                    continue;
                }
                Some(Stalled) => {
                    to.closed().await;
                    return;
                }
                Some(Broken) => {
                    let _ = gone.send(true);
                    return;
                }
            };
            for frame in instead.into_iter().chain(behind.take()) {
                if to.send(frame).await.is_err() {
                    return;
                }
            }
        }
    });
    harmed
}

/// A session in which this happens; what each server would answer, and how many frames each line of
/// `watched` carried.
async fn session_with(
    (peers, cuts): &([Arc<PeerNetwork>; 3], Cuts),
    number: u8,
    watched: usize,
    case: Option<Case>,
) -> ([Result<Vec<u8>, SessionError>; 3], [usize; 2]) {
    let shape = SealedParams::new(ROWS, 8, 6).unwrap();
    let circuit = Arc::new(Circuit::new(&shape));
    let shares = share(8, &values(ROWS), &mut SeededRandom::new(number.into()));
    let counts = [Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0))];
    let (gone, mut cut) = watch::channel(false);
    let run = async |server: usize| {
        let peers = &peers[server - 1];
        let subject = SessionContext { source: peers.source(), ..subject(number) };
        let mut reached = peers.reach(&subject).await?;
        if server == watched {
            for ((peer, line), count) in [Peer::Next, Peer::Previous].into_iter().zip(reached.lines.ends()).zip(&counts)
            {
                let case = case.filter(|case| case.to == peer);
                *line = harmed(line.clone(), case, gone.clone(), count.clone());
            }
        }
        let mut opened = peers.agree(reached, &subject).await?;
        let randomness = opened.randomness(&circuit);
        let value = |row: usize| shares[server - 1][row];
        let party = Party::new(&circuit, server, randomness, value, &mut OsRandom::default())?;
        Ok(opened.run(party, peers.limit()).await?.answer(&[[]; 1])?)
    };
    let breaking = async {
        if cut.wait_for(|cut| *cut).await.is_ok() {
            // Its own line to the next server, and the one of the server before it.
            let mut cuts = cuts.lock().unwrap();
            for place in [watched - 1, (watched + 1) % 3] {
                cuts[place].drain(..).for_each(|line| line.abort());
            }
        }
        std::future::pending::<()>().await;
    };
    let three = async { tokio::join!(run(1), run(2), run(3)) };
    let (first, second, third) = tokio::select! {
        three = three => three,
        () = breaking => unreachable!("it waits for ever"),
    };
    let counts = counts.map(|count| *count.lock().unwrap());
    ([first, second, third], counts)
}

/// Plays every harm at every frame that one server sends.
async fn every_frame_of(server: usize, source: RandomnessMode, after_another: bool) -> usize {
    let fresh = async || {
        let three = with_weak_lines(LIMITS, source);
        if after_another {
            assert_eq!(cost(ROWS, session(&three.0, 1, ROWS).await), Some(5));
            until_all_is_ahead(&three.0, ROWS).await;
        }
        three
    };
    let (answers, frames) = session_with(&fresh().await, 2, server, None).await;
    assert_eq!(cost(ROWS, answers), Some(5));
    let mut cases = 0;
    for (to, frames) in [Peer::Next, Peer::Previous].into_iter().zip(frames) {
        for (frame, harm) in (0..frames).flat_map(|frame| HARMS.map(|harm| (frame, harm))) {
            let case = Case { server, to, frame, harm };
            let three = fresh().await;
            let started = Instant::now();
            let (results, _) = session_with(&three, 2, server, Some(case)).await;
            let took = started.elapsed();
            let most = Duration::from_secs(LIMITS.join_seconds + 1 + LIMITS.session_seconds);
            assert!(took <= most + Duration::from_millis(10), "{case:?} took {took:?}");
            // The third frame to the next server is a key, where there are keys: any 32 bytes are
            // one.
            let unseen = harm == Rubbish && source == RandomnessMode::Keys && (to, frame) == (Peer::Next, 2);
            check(case, frame + 1 == frames, unseen, results);
            if after_another {
                // A stream that is ready, on a connection that broke: whoever has it hears of that
                // as soon as there is time.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(cost(ROWS, session(&three.0, 3, ROWS).await), Some(5), "the next session after {case:?}");
            assert!(three.0.iter().all(|peers| peers.rendezvous.is_empty()), "{case:?}");
            assert_eq!(three.0[0].places.available_permits(), LIMITS.sessions, "{case:?}");
            cases += 1;
        }
    }
    cases
}

/// What the others may say.
fn check(case: Case, last: bool, unseen: bool, results: [Result<Vec<u8>, SessionError>; 3]) {
    let Case { server, to, harm, .. } = case;
    let receiver = to.of(server);
    let blames = |by: usize, whom: usize| {
        results[by - 1].as_ref().is_err_and(|error| error.to_string().starts_with(&format!("server {whom} ")))
    };
    let said = format!("{case:?}: {results:?}");
    for other in (1..=3).filter(|other| *other != server) {
        let named = (1..=3).any(|whom| whom != other && blames(other, whom));
        assert!(results[other - 1].is_ok() || named, "an error names another server; {said}");
    }
    let fine = results[receiver - 1].is_ok();
    match harm {
        Rubbish if unseen => assert!(fine, "{said}"),
        Rubbish | Longer | Shorter | Empty | Endless | Halved | Lost | Stalled => {
            assert!(blames(receiver, server), "{said}")
        }
        // The receiver may be done before it reads the second one.
        Twice => assert!(blames(receiver, server) || fine && last, "{said}"),
        // Random bits may come before or behind anything else.
        Swapped => assert!(blames(receiver, server) || fine, "{said}"),
        // Both others lose it at once, and whoever hears of it first is lost to the other.
        Broken => {
            let somebody = (1..=3).any(|other| other != server && blames(other, server));
            assert!(somebody || fine && last, "{said}");
        }
    }
    if !unseen && results.iter().all(Result::is_ok) {
        assert_eq!(cost(ROWS, results), Some(5), "{case:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_at_any_frame_of_any_server_is_named_and_the_next_session_works() {
    let mut cases = 0;
    for server in 1..=3 {
        cases += every_frame_of(server, RandomnessMode::System, false).await;
    }
    println!("{cases} faults");
    assert!(cases > 1000, "{cases}");
}

#[tokio::test(start_paused = true)]
async fn so_it_is_where_random_bits_were_sent_ahead() {
    assert!(every_frame_of(2, RandomnessMode::System, true).await > 300);
}

#[tokio::test(start_paused = true)]
async fn so_it_is_where_random_bits_come_from_keys() {
    for server in 1..=3 {
        assert!(every_frame_of(server, RandomnessMode::Keys, false).await > 300);
    }
}
