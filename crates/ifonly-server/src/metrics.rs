//! Counters, gauges and histograms of the server, in the Prometheus text format. A label contains
//! at most what the public header of a message says. No label names a user or a token.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the duration buckets, in seconds.
const BUCKETS: [f64; 10] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];

/// All metrics of one server.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    durations: Mutex<BTreeMap<&'static str, Histogram>>,
    /// Bytes of request bodies.
    pub bytes_in: AtomicU64,
    /// Bytes of response bodies.
    pub bytes_out: AtomicU64,
    /// Responses that ended early: the client disconnected or was too slow.
    pub aborted: AtomicU64,
    /// Responses that the server ended because the client did not read them.
    pub stalled: AtomicU64,
    /// Open connections.
    pub connections: AtomicU64,
    /// TLS handshakes that failed.
    pub handshakes_failed: AtomicU64,
    /// Successful reloads.
    pub reloads: AtomicU64,
    /// Failed reloads.
    pub reloads_failed: AtomicU64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Histogram {
    counts: [u64; BUCKETS.len()],
    count: u64,
    sum: f64,
}

impl Metrics {
    /// Counts a request to `route` that ended with `status` after `took`.
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

    /// All metrics as text. `running`, `admitted` and `buffered` are gauges that other types keep.
    pub(crate) fn render(&self, running: usize, admitted: usize, buffered: u64) -> String {
        let mut text = String::new();
        let mut number = |name: &str, kind: &str, help: &str, value: u64| {
            // Unwrap safety: writing to a string cannot fail; the same holds below.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        };
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        number("ifonly_requests_running", "gauge", "Running requests.", running as u64);
        number("ifonly_requests_admitted", "gauge", "Running and queued requests.", admitted as u64);
        number("ifonly_buffered_bytes", "gauge", "Bytes of messages and responses in transfer.", buffered);
        number(
            "ifonly_responses_stalled_total",
            "counter",
            "Responses ended because the client did not read them.",
            get(&self.stalled),
        );
        number("ifonly_connections", "gauge", "Open connections.", get(&self.connections));
        number("ifonly_received_bytes_total", "counter", "Bytes of request bodies.", get(&self.bytes_in));
        number("ifonly_sent_bytes_total", "counter", "Bytes of response bodies.", get(&self.bytes_out));
        number("ifonly_responses_aborted_total", "counter", "Responses that ended early.", get(&self.aborted));
        number(
            "ifonly_tls_handshake_failures_total",
            "counter",
            "Failed TLS handshakes.",
            get(&self.handshakes_failed),
        );
        number("ifonly_reloads_total", "counter", "Successful reloads.", get(&self.reloads));
        number("ifonly_reload_failures_total", "counter", "Failed reloads.", get(&self.reloads_failed));
        let _ = writeln!(text, "# HELP ifonly_requests_total Requests by route and status.");
        let _ = writeln!(text, "# TYPE ifonly_requests_total counter");
        for ((route, status), count) in self.requests.lock().iter().flat_map(|requests| requests.iter()) {
            let _ = writeln!(text, "ifonly_requests_total{{route=\"{route}\",status=\"{status}\"}} {count}");
        }
        let _ = writeln!(
            text,
            "# HELP ifonly_request_duration_seconds Time from the headers of a request until its response is computed."
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
