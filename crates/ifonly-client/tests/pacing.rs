//! Pacing: the departure of a request does not depend on the time that decoding took.

mod support;

use ifonly_client::transport::{Exchange, ServerRequest, TransportFuture};
use ifonly_client::{Client, Clock, ManifestResponse, Pins, ResponseSink, Route, Transport, WishList};
use ifonly_core::secret_query::SecretQuery;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::TestDatabase;

const MS: Duration = Duration::from_millis(1);
/// Records of a search.
const TOP: usize = 3;

/// A clock that stands still, except that every reading advances it by one tick. All work between
/// two readings thus takes one tick.
#[derive(Default)]
struct TickingClock {
    now: Mutex<Duration>,
    tick: Mutex<Duration>,
}

impl Clock for TickingClock {
    fn now(&self) -> Duration {
        let mut now = self.now.lock().unwrap();
        let time = *now;
        *now += *self.tick.lock().unwrap();
        time
    }

    fn wait_until(&self, time: Duration) -> TransportFuture<'_, ()> {
        let mut now = self.now.lock().unwrap();
        assert!(time + *self.tick.lock().unwrap() >= *now, "the time to wait for has passed");
        *now = time;
        Box::pin(std::future::ready(Ok(())))
    }
}

/// When requests arrived, and when the last bytes of their answers departed.
type Log = Arc<Mutex<Vec<(Route, Duration, Duration)>>>;

struct Timed {
    inner: Arc<dyn Transport>,
    clock: Arc<TickingClock>,
    /// The tick once the search has begun.
    tick: Duration,
    log: Log,
}

impl Exchange for Timed {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn fetch_manifest(&self) -> TransportFuture<'_, ManifestResponse> {
        self.inner.fetch_manifest()
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        Some(self.clock.clone())
    }

    fn send<'a>(&'a self, request: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        Box::pin(async move {
            let arrived = *self.clock.now.lock().unwrap();
            let (route, mut bytes) = (request.route, vec![]);
            self.inner.send(request, &mut bytes).await?;
            *self.clock.tick.lock().unwrap() = self.tick;
            self.log.lock().unwrap().push((route, arrived, *self.clock.now.lock().unwrap()));
            response.part(&bytes);
            Ok(())
        })
    }
}

/// The times from the end of each step's answers to the next step's requests, if decoding takes
/// `tick` and the rehearsal took `rehearsal`.
async fn pauses(
    database: &TestDatabase,
    scheme: &str,
    secret: SecretQuery,
    rehearsal: Duration,
    tick: Duration,
) -> Vec<Duration> {
    let clock = Arc::new(TickingClock::default());
    *clock.tick.lock().unwrap() = rehearsal;
    let log = Log::default();
    let timed =
        |inner| -> Arc<dyn Transport> { Arc::new(Timed { inner, clock: clock.clone(), tick, log: log.clone() }) };
    let client = Client::connect(database.servers().into_iter().map(timed).collect(), &Pins::default()).await.unwrap();
    let offered = database.manifest.scheme(scheme).unwrap();
    client.search(offered, secret, TOP).await.unwrap();
    let log = log.lock().unwrap();
    // A step ends with the last answer. The order in which servers are polled is not fixed.
    let step = |requests: &[(Route, Duration, Duration)]| {
        let arrived = requests.iter().map(|request| request.1).min().unwrap();
        (arrived, requests.iter().map(|request| request.2).max().unwrap())
    };
    let instance = offered.scans().unwrap();
    let fetch = instance.record_fetch(database.manifest.record_length());
    let phases = (0..instance.phases()).map(|phase| instance.responders(phase));
    let mut rest = log.as_slice();
    let mut steps = vec![];
    for queried in phases.chain([fetch.responders(); TOP]) {
        let (requests, later) = rest.split_at(queried);
        steps.push(step(requests));
        rest = later;
    }
    assert!(rest.is_empty());
    steps.windows(2).map(|pair| pair[1].0 - pair[0].1).collect()
}

#[tokio::test]
async fn the_first_message_departs_at_a_multiple_of_an_interval_after_the_manifests_whatever_the_input() {
    let database = TestDatabase::new(40, 2, 9, |_| {});
    let (valid, mut wrong) = (database.values(&[3, 2, 4, 1]), database.values(&[3, 2, 4, 1]));
    wrong.set("income", "much");
    for values in [valid, wrong] {
        for working in [Duration::ZERO, MS, 4 * MS, 11 * MS] {
            let (clock, log) = (Arc::new(TickingClock::default()), Log::default());
            let timed = |inner| -> Arc<dyn Transport> {
                Arc::new(Timed { inner, clock: clock.clone(), tick: Duration::ZERO, log: log.clone() })
            };
            let servers = database.servers().into_iter().map(timed).collect();
            let client = Client::connect(servers, &Pins::default()).await.unwrap();
            // The clock stands at the arrival of the manifests. Work until the search takes this
            // long, and the preparation of a search takes 3 ms.
            *clock.now.lock().unwrap() += working;
            *clock.tick.lock().unwrap() = 3 * MS;
            let _ = client.ask(&values, &WishList::default()).await;
            let departed = log.lock().unwrap()[0].1;
            let multiple = departed.as_micros() % (6 * MS).as_micros();
            assert!(departed > Duration::ZERO && multiple == 0, "{working:?}: {departed:?}");
        }
    }
}

#[tokio::test]
async fn requests_depart_one_interval_after_the_last_answer_regardless_of_decoding_time() {
    let database = TestDatabase::new(40, 4, 8, |_| {});
    let query = SecretQuery::new(vec![3, 2, 4, 1]);
    for (scheme, steps) in [("gated", 3), ("two-phase", 4)] {
        for immutable in [vec![false; 4], vec![true, true, false, true]] {
            for decoding in [MS / 2, MS, 3 * MS, 5 * MS] {
                let secret = query.clone().immutable(immutable.clone());
                let pauses = pauses(&database, scheme, secret, 4 * MS, decoding).await;
                // Twice the 4 ms of the rehearsal are 8 ms, a power of two.
                assert_eq!(pauses, vec![8 * MS; steps], "{scheme}, {decoding:?}");
            }
        }
    }
    // A faster machine has a shorter interval. If decoding takes longer than the interval, the
    // request departs at a multiple of it.
    assert_eq!(pauses(&database, "gated", query.clone(), MS, MS).await, [2 * MS; 3]);
    assert_eq!(pauses(&database, "gated", query, MS, 3 * MS).await, [4 * MS; 3]);
}
