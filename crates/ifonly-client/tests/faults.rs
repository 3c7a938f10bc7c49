//! A fault does not change what servers observe: all later phases and record fetches still run.

mod support;

use ifonly_client::{Client, Pins, Route, Transport};
use ifonly_core::secret_query::SecretQuery;
use std::sync::{Arc, Mutex};
use support::{Fault, Faulty, ObservedRequest, Recorder, TestDatabase};

/// The requests that the servers observe in a search in which server 1 has a fault, and whether the
/// search succeeds without doubt.
async fn observed(
    database: &TestDatabase,
    scheme: &str,
    fault: Option<Fault>,
) -> (Vec<(usize, ObservedRequest)>, bool) {
    let log = Arc::new(Mutex::new(vec![]));
    let servers = database.servers().into_iter().enumerate().map(|(number, inner)| -> Arc<dyn Transport> {
        let inner = match fault.filter(|_| number == 0) {
            Some(fault) => Arc::new(Faulty { inner, fault, attempts: Mutex::default() }),
            None => inner,
        };
        Arc::new(Recorder { inner, number, log: log.clone() })
    });
    let client = Client::connect(servers.collect(), &Pins::default()).await.unwrap();
    let offered = database.manifest.scheme(scheme).unwrap();
    let result = client.search(offered, SecretQuery::new(vec![3, 2, 4, 1]), 2).await;
    let requests = log.lock().unwrap().clone();
    (requests, result.is_ok_and(|report| !report.outcome.is_doubtful))
}

#[tokio::test]
async fn after_a_failed_phase_or_fetch_all_later_requests_are_still_sent() {
    let database = TestDatabase::new(40, 4, 6, |_| {});
    for scheme in ["gated", "single-phase", "two-phase", "two-phase-4", "two-phase+"] {
        let (expected, found) = observed(&database, scheme, None).await;
        assert!(found);
        let fetches =
            |request: &ObservedRequest| matches!(request, ObservedRequest::Message { route: Route::Record, .. });
        assert!(expected.iter().any(|(_, request)| fetches(request)));
        for fault in [Fault::Unreachable, Fault::Dies, Fault::Truncates, Fault::WrongKeyCheck, Fault::WrongRecord] {
            let (requests, found) = observed(&database, scheme, Some(fault)).await;
            assert!(!found, "{scheme}: {fault:?} is not detected");
            assert_eq!(requests, expected, "{scheme}: {fault:?} changes the traffic");
        }
    }
}
