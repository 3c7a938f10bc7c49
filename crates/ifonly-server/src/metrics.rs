//! Numbers about requests, in the text format that Prometheus reads. No label carries anything of a
//! query beyond what its public header says, and none names a person or a token.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper ends of the duration buckets, in seconds.
const BUCKETS: [f64; 10] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];

/// All numbers of one server.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    durations: Mutex<BTreeMap<&'static str, Histogram>>,
    /// Bytes of requests' bodies.
    pub bytes_in: AtomicU64,
    /// Bytes of answers' bodies.
    pub bytes_out: AtomicU64,
    /// Answers that were cut off: the client went away or was too slow.
    pub aborted: AtomicU64,
    /// Answers given up because their client did not read them.
    pub unread: AtomicU64,
    /// Connections open.
    pub connections: AtomicU64,
    /// Handshakes that failed.
    pub handshakes_failed: AtomicU64,
    /// Bundles taken up after the first.
    pub reloads: AtomicU64,
    /// Bundles that could not be taken up.
    pub reloads_failed: AtomicU64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Histogram {
    counts: [u64; BUCKETS.len()],
    count: u64,
    sum: f64,
}

impl Metrics {
    /// One request to `route` ended with `status`.
    pub(crate) fn request(&self, route: &'static str, status: u16, took: Duration) {
        let seconds = took.as_secs_f64();
        if let Ok(mut requests) = self.requests.lock() {
            *requests.entry((route, status)).or_default() += 1;
        }
        if let Ok(mut durations) = self.durations.lock() {
            let histogram = durations.entry(route).or_default();
            histogram.count += 1;
            histogram.sum += seconds;
            let buckets = histogram.counts.iter_mut().zip(BUCKETS);
            buckets.filter(|(_, end)| seconds <= *end).for_each(|(count, _)| *count += 1);
        }
    }

    /// The text.
    pub(crate) fn render(&self, running: usize, inside: usize, in_transit: u64) -> String {
        let mut text = String::new();
        let mut number = |name: &str, kind: &str, help: &str, value: u64| {
            // Unwrap safety: writing to a string cannot fail; the same holds below.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        };
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        number("ifonly_requests_running", "gauge", "Requests at work.", running as u64);
        number("ifonly_requests_admitted", "gauge", "Requests at work or waiting.", inside as u64);
        number("ifonly_buffered_bytes", "gauge", "Bytes of messages and answers on their way.", in_transit);
        number("ifonly_responses_stalled_total", "counter", "Answers that nobody read.", get(&self.unread));
        number("ifonly_connections", "gauge", "Open connections.", get(&self.connections));
        number("ifonly_received_bytes_total", "counter", "Bytes of messages.", get(&self.bytes_in));
        number("ifonly_sent_bytes_total", "counter", "Bytes of answers.", get(&self.bytes_out));
        number("ifonly_responses_aborted_total", "counter", "Answers that were cut off.", get(&self.aborted));
        number("ifonly_tls_handshake_failures_total", "counter", "Failed handshakes.", get(&self.handshakes_failed));
        number("ifonly_reloads_total", "counter", "Bundles taken up after the first.", get(&self.reloads));
        number("ifonly_reload_failures_total", "counter", "Bundles refused.", get(&self.reloads_failed));
        let _ = writeln!(text, "# HELP ifonly_requests_total Requests by path and status.");
        let _ = writeln!(text, "# TYPE ifonly_requests_total counter");
        for ((route, status), count) in self.requests.lock().iter().flat_map(|requests| requests.iter()) {
            let _ = writeln!(text, "ifonly_requests_total{{route=\"{route}\",status=\"{status}\"}} {count}");
        }
        let _ = writeln!(
            text,
            "# HELP ifonly_request_duration_seconds From the headers of a request to the end of computing its answer."
        );
        let _ = writeln!(text, "# TYPE ifonly_request_duration_seconds histogram");
        for (route, histogram) in self.durations.lock().iter().flat_map(|durations| durations.iter()) {
            for (end, count) in BUCKETS.iter().zip(histogram.counts) {
                let _ =
                    writeln!(text, "ifonly_request_duration_seconds_bucket{{route=\"{route}\",le=\"{end}\"}} {count}");
            }
            let Histogram { count, sum, .. } = histogram;
            let _ = writeln!(text, "ifonly_request_duration_seconds_bucket{{route=\"{route}\",le=\"+Inf\"}} {count}");
            let _ = writeln!(text, "ifonly_request_duration_seconds_sum{{route=\"{route}\"}} {sum}");
            let _ = writeln!(text, "ifonly_request_duration_seconds_count{{route=\"{route}\"}} {count}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_requests_are_counted_by_status() {
        let metrics = Metrics::default();
        metrics.request("/v1/answer", 200, Duration::from_millis(20));
        metrics.request("/v1/answer", 503, Duration::from_millis(2));
        let text = metrics.render(1, 2, 3);
        for line in [
            "ifonly_requests_running 1",
            "ifonly_requests_total{route=\"/v1/answer\",status=\"200\"} 1",
            "ifonly_requests_total{route=\"/v1/answer\",status=\"503\"} 1",
            "ifonly_request_duration_seconds_bucket{route=\"/v1/answer\",le=\"0.01\"} 1",
            "ifonly_request_duration_seconds_bucket{route=\"/v1/answer\",le=\"0.03\"} 2",
            "ifonly_request_duration_seconds_count{route=\"/v1/answer\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
