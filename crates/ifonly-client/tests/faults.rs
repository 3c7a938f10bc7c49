//! A fault changes nothing that servers see: every phase and every record fetch that would have
//! come still comes.

mod support;

use ifonly_client::{Client, Pins, Route, Transport};
use ifonly_core::secret_query::SecretQuery;
use std::sync::{Arc, Mutex};
use support::{Fault, Misbehaving, Recorder, Seen, World};

/// What the servers see of a search in which server 1 misbehaves.
async fn shape(world: &World, scheme: &str, fault: Option<Fault>) -> (Vec<(usize, Seen)>, bool) {
    let log = Arc::new(Mutex::new(vec![]));
    let servers = world.servers().into_iter().enumerate().map(|(number, inner)| -> Arc<dyn Transport> {
        let inner = match fault.filter(|_| number == 0) {
            Some(fault) => Arc::new(Misbehaving { inner, fault, attempts: Mutex::default() }),
            None => inner,
        };
        Arc::new(Recorder { inner, number, log: log.clone() })
    });
    let client = Client::connect(servers.collect(), &Pins::default()).await.unwrap();
    let instance = world.manifest.instance(scheme).unwrap();
    let result = client.search(instance, SecretQuery::new(vec![3, 2, 4, 1]), 2).await;
    let seen = log.lock().unwrap().clone();
    (seen, result.is_ok())
}

#[tokio::test]
async fn a_failed_phase_or_fetch_is_followed_by_all_that_would_have_come_after_it() {
    let world = World::new(40, 4, 6, |_| {});
    for scheme in ["gated", "single-phase", "two-phase", "two-phase-4", "two-phase+"] {
        let (expected, found) = shape(&world, scheme, None).await;
        assert!(found);
        assert!(expected.iter().any(|(_, seen)| matches!(seen, Seen::Message { route: Route::Record, .. })));
        for fault in [Fault::Unreachable, Fault::Dies, Fault::Truncates, Fault::SpoilsCheck, Fault::SpoilsRecord] {
            let (seen, found) = shape(&world, scheme, Some(fault)).await;
            assert!(!found, "{scheme}: {fault:?} goes unnoticed");
            assert_eq!(seen, expected, "{scheme}: {fault:?} shows in the traffic");
        }
    }
}
