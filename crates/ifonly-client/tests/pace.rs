//! The next request leaves when public sizes say, however long reading the answers took.

mod support;

use ifonly_client::transport::{Exchange, ServerRequest, TransportFuture};
use ifonly_client::{Client, Clock, ManifestResponse, Pins, ResponseSink, Route, Transport};
use ifonly_core::secret_query::SecretQuery;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::World;

const MS: Duration = Duration::from_millis(1);

/// Stands still but for a tick whenever somebody looks at it: that long everything takes between
/// two looks.
#[derive(Default)]
struct Clockwork {
    now: Mutex<Duration>,
    tick: Mutex<Duration>,
}

impl Clock for Clockwork {
    fn now(&self) -> Duration {
        let mut now = self.now.lock().unwrap();
        let seen = *now;
        *now += *self.tick.lock().unwrap();
        seen
    }

    fn wait_until(&self, time: Duration) -> TransportFuture<'_, ()> {
        let mut now = self.now.lock().unwrap();
        assert!(time + *self.tick.lock().unwrap() >= *now, "nobody can wait for what is over");
        *now = time;
        Box::pin(std::future::ready(Ok(())))
    }
}

/// When requests came, and when the last bytes of their answers left.
type Log = Arc<Mutex<Vec<(Route, Duration, Duration)>>>;

struct Watched {
    inner: Arc<dyn Transport>,
    clock: Arc<Clockwork>,
    /// What a look costs once the search has begun.
    tick: Duration,
    log: Log,
}

impl Exchange for Watched {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn greet(&self) -> TransportFuture<'_, ManifestResponse> {
        self.inner.greet()
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        Some(self.clock.clone())
    }

    fn send<'a>(&'a self, call: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        Box::pin(async move {
            let came = *self.clock.now.lock().unwrap();
            let (route, mut bytes) = (call.route, vec![]);
            self.inner.send(call, &mut bytes).await?;
            *self.clock.tick.lock().unwrap() = self.tick;
            self.log.lock().unwrap().push((route, came, *self.clock.now.lock().unwrap()));
            response.part(&bytes);
            Ok(())
        })
    }
}

/// From the end of each step's answers to the next step's request, for somebody whose answers take
/// `tick` to read on a machine that took `rehearsal` for the empty ones.
async fn pauses(
    world: &World,
    scheme: &str,
    secret: SecretQuery,
    rehearsal: Duration,
    tick: Duration,
) -> Vec<Duration> {
    let clock = Arc::new(Clockwork::default());
    *clock.tick.lock().unwrap() = rehearsal;
    let log = Log::default();
    let watched =
        |inner| -> Arc<dyn Transport> { Arc::new(Watched { inner, clock: clock.clone(), tick, log: log.clone() }) };
    let client = Client::connect(world.servers().into_iter().map(watched).collect(), &Pins::default()).await.unwrap();
    let instance = world.manifest.instance(scheme).unwrap();
    client.search(instance, secret, 3).await.unwrap();
    let log = log.lock().unwrap();
    // Every step asks as many servers, and is over when the last has answered; who is polled when
    // is nobody's to say.
    let step = |requests: &[(Route, Duration, Duration)]| {
        let came = requests.iter().map(|request| request.1).min().unwrap();
        (came, requests.iter().map(|request| request.2).max().unwrap())
    };
    let steps: Vec<(Duration, Duration)> = log.chunks(instance.servers()).map(step).collect();
    steps.windows(2).map(|pair| pair[1].0 - pair[0].1).collect()
}

#[tokio::test]
async fn every_request_leaves_a_step_after_the_last_answer_however_long_reading_took() {
    let world = World::new(40, 4, 8, |_| {});
    let anybody = SecretQuery::new(vec![3, 2, 4, 1]);
    for (scheme, steps) in [("gated", 3), ("two-phase", 4)] {
        for immutable in [vec![false; 4], vec![true, true, false, true]] {
            for reading in [MS / 2, MS, 3 * MS, 5 * MS] {
                let secret = anybody.clone().immutable(immutable.clone());
                let pauses = pauses(&world, scheme, secret, 4 * MS, reading).await;
                // Twice the rehearsal's 4 ms is 8 ms, a power of two.
                assert_eq!(pauses, vec![8 * MS; steps], "{scheme}, {reading:?}");
            }
        }
    }
    // Another machine, another step; and whoever is slower than the step leaves at one of its
    // multiples.
    assert_eq!(pauses(&world, "gated", anybody.clone(), MS, MS).await, [2 * MS; 3]);
    assert_eq!(pauses(&world, "gated", anybody, MS, 3 * MS).await, [4 * MS; 3]);
}
