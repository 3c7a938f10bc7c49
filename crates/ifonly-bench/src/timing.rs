//! Timing side channel: does the time between an answer and the next request reveal what the client
//! decoded?
//!
//! A server could measure this time. The answers are made once per case and given to the real
//! client from memory. Cases: no row matches; half of the rows match; half of the rows match and a
//! lying server makes their costs impossible. The time is that from the last bytes of the answers
//! to the record fetch, with requests that leave at once and with paced requests. The AUC says how
//! well one time distinguishes two cases: 0.5 is not at all, 1 is always.

use crate::BenchError;
use bytes::Bytes;
use ifonly_algebra::field::FieldElement;
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_client::transport::retry::TokioClock;
use ifonly_client::transport::{Exchange, ServerRequest, TransportFuture};
use ifonly_client::{Client, Clock, ManifestResponse, Pins, ResponseSink, Route, Transport};
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::{self, ConstraintKind, CostModel};
use ifonly_core::secret_query::SecretQuery;
use ifonly_core::server_protocol::ServerProtocol;
use ifonly_core::signature::{SIGNATURE_LENGTH, SigningKey};
use ifonly_core::transcript::MessageKind;
use ifonly_values::manifest::{Manifest, ManifestFields};
use ifonly_values::schema::{Feature, FeatureKind, Scale, Schema};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

const CASES: [&str; 3] = ["nothing", "half", "lie"];
/// The number of found rows, and whether the search is doubtful, by case.
const RESULTS: [(usize, bool); 3] = [(0, false), (1, false), (0, true)];
const ROWS: [usize; 2] = [300_000, 2_000_000];

/// The result of a measurement.
#[derive(Debug, serde::Serialize)]
pub struct TimingReport {
    /// The scheme.
    pub scheme: &'static str,
    /// Searches of each case.
    pub searches_per_case: usize,
    /// One line per number of rows and kind of request.
    pub lines: Vec<TimingLine>,
}

/// The times for one number of rows, with paced requests or with requests that leave at once.
#[derive(Debug, serde::Serialize)]
pub struct TimingLine {
    /// Number of rows.
    pub rows: usize,
    /// Whether requests are paced.
    pub paced: bool,
    /// Median of each case, in milliseconds.
    pub medians: [f64; 3],
    /// How well a time distinguishes nothing from half, nothing from lie, and half from lie.
    pub auc: [f64; 3],
}

impl std::fmt::Display for TimingReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "From the last byte of the answers to the record fetch: scheme {}, two servers, {} searches per case",
            self.scheme, self.searches_per_case
        )?;
        writeln!(f, "{:>9}  {:8}  {:^26}  {:^32}", "", "", "median, milliseconds", "AUC")?;
        writeln!(
            f,
            "{:>9}  {:8}  {:>8} {:>8} {:>8}  {:>12} {:>11} {:>7}",
            "rows", "requests", CASES[0], CASES[1], CASES[2], "nothing/half", "nothing/lie", "half/lie"
        )?;
        for TimingLine { rows, paced, medians: [a, b, c], auc: [ab, ac, bc] } in &self.lines {
            let requests = if *paced { "paced" } else { "at once" };
            writeln!(f, "{rows:>9}  {requests:8}  {a:>8.3} {b:>8.3} {c:>8.3}  {ab:>12.3} {ac:>11.3} {bc:>7.3}")?;
        }
        Ok(())
    }
}

/// Measures the given number of searches of each case.
pub fn measure(searches: usize, seed: u64) -> Result<TimingReport, BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(BenchError::machine)?;
    let mut lines = vec![];
    for rows in ROWS {
        let responses = ScriptedResponses::new(rows, seed)?;
        for paced in [false, true] {
            lines.push(runtime.block_on(responses.measure(searches, paced, seed))?);
        }
    }
    Ok(TimingReport { scheme: scheme_name(), searches_per_case: searches, lines })
}

/// The name of the measured scheme. It has two field elements per row; the first says whether the
/// second is a cost.
fn scheme_name() -> &'static str {
    scheme::smallest(CostModel::Squared, ConstraintKind::Zeros).name
}

/// A manifest, and the responses of the servers in each case.
struct ScriptedResponses {
    manifest: Manifest,
    /// By case; both servers send the same answer, because interpolation weights sum to one.
    answers: [Bytes; 3],
    /// By case and server; the sum of both is the encoded record, or zero.
    records: [[Bytes; 2]; 3],
}

impl ScriptedResponses {
    fn new(rows: usize, seed: u64) -> Result<ScriptedResponses, BenchError> {
        let kind = FeatureKind::from(Scale::whole_numbers(0, 255).map_err(BenchError::input)?);
        let features = (0..4).map(|k| Feature::new(format!("feature {k}"), kind.clone())).collect();
        let schema = Schema::new(features).map_err(BenchError::input)?;
        let key = SigningKey::new(&[1; 32]);
        let mut fields = ManifestFields::new("timing", schema, rows, 64 + SIGNATURE_LENGTH, 2);
        fields.signer = Some(key.public());
        let subject = fields.signature_context();
        let manifest = Manifest::new(fields).map_err(BenchError::machine)?;
        let instance = manifest.instance(scheme_name()).map_err(BenchError::machine)?;
        let random = &mut SeededRandom::new(seed);
        let answers = [false, true, true].map(|half| answer(instance, half, random));
        let lie = with_lie(instance, &answers[2])?;
        let [nothing, half, _] = answers;
        let mut record = vec![0; 64];
        record.extend(key.sign(&subject, &record));
        let root = RootKey::new(0, [2; 32]);
        let protocol = ServerProtocol::new(
            1,
            manifest.digest(),
            manifest.instances().cloned(),
            vec![root.clone()],
            manifest.record_length(),
        );
        let encoded = protocol.encode_records(&root, [record.as_slice()].into_iter()).concat();
        let shares = |wanted: bool, random: &mut SeededRandom| {
            let lead = MessageKind::Record.lead();
            let mut first = vec![0; lead + encoded.len()];
            random.fill(&mut first[lead..]);
            let mut second = first.clone();
            if wanted {
                second[lead..].iter_mut().zip(&encoded).for_each(|(byte, bits)| *byte ^= bits);
            }
            [first.into(), second.into()]
        };
        let records = [false, true, false].map(|wanted| shares(wanted, random));
        Ok(ScriptedResponses { manifest, answers: [nothing, half, lie], records })
    }

    async fn measure(&self, searches: usize, paced: bool, seed: u64) -> Result<TimingLine, BenchError> {
        let timer = Arc::new(CaseTimer::default());
        let clock = paced.then(|| Arc::new(TokioClock::start()) as Arc<dyn Clock>);
        let server = |index: u8| -> Arc<dyn Transport> {
            let manifest = self.manifest.json().to_owned().into();
            let records = [0, 1, 2].map(|case: usize| self.records[case][usize::from(index) - 1].clone());
            let (timer, clock, answers) = (timer.clone(), clock.clone(), self.answers.clone());
            Arc::new(ScriptedServer { index, manifest, answers, records, timer, clock })
        };
        let client = Client::connect(vec![server(1), server(2)], &Pins::default()).await?;
        let offered = client.manifest().scheme(scheme_name()).map_err(BenchError::machine)?;
        let mut times: [Vec<f64>; 3] = Default::default();
        let random = &mut SeededRandom::new(seed);
        // Three rounds warm up. The cases alternate in random order, so that drift affects all of
        // them equally.
        for round in 0..searches + 3 {
            let mut order = [0, 1, 2];
            for last in (1..3).rev() {
                order.swap(last, random.below(last as u64 + 1) as usize);
            }
            for case in order {
                timer.case.store(case, Ordering::Relaxed);
                let found = client.search(offered, SecretQuery::new(vec![0; 4]), 1).await;
                let is_right = found
                    .as_ref()
                    .is_ok_and(|report| (report.outcome.found.len(), report.outcome.is_doubtful) == RESULTS[case]);
                if !is_right {
                    return Err(BenchError::machine(format!(
                        "a search of the case {:?} had another result: {found:?}",
                        CASES[case]
                    )));
                }
                if round >= 3 {
                    times[case].push(timer.milliseconds());
                }
            }
        }
        let auc = [(0, 1), (0, 2), (1, 2)].map(|(a, b)| auc(&times[a], &times[b]));
        Ok(TimingLine { rows: self.manifest.rows(), paced, medians: times.map(median), auc })
    }
}

/// An answer with gates and costs in which half of the rows match, or none.
fn answer(instance: &SchemeInstance, half: bool, random: &mut SeededRandom) -> Bytes {
    let (field, gate_field) = (instance.field(), instance.output_field(0));
    let mut elements: Vec<FieldElement> = vec![];
    for _ in 0..instance.params().rows {
        // Costs are distances: only few field elements are possible costs.
        let matches = half && random.below(2) == 0;
        let gate = if matches { FieldElement::ZERO } else { gate_field.sample_nonzero(random) };
        let cost = if matches { field.reduce(random.below(200_000)) } else { field.sample(random) };
        elements.extend([gate, cost]);
    }
    let mut bytes = vec![0; MessageKind::Phase(0).lead()];
    bytes.extend(instance.pack_answer(&elements));
    bytes.into()
}

/// The same answer with a constant added to every cost, so that some costs are impossible.
fn with_lie(instance: &SchemeInstance, answer: &Bytes) -> Result<Bytes, BenchError> {
    let field = instance.field();
    let (check, body) = answer.split_at(MessageKind::Phase(0).lead());
    let elements = instance.unpack_answer(0, body).map_err(BenchError::machine)?;
    let lie = field.reduce(field.q() - 100_000);
    let changed: Vec<FieldElement> =
        elements.chunks_exact(2).flat_map(|pair| [pair[0], field.add(pair[1], lie)]).collect();
    Ok([check, &instance.pack_answer(&changed)].concat().into())
}

/// The probability that a time of the second case is longer than one of the first case.
fn auc(first: &[f64], second: &[f64]) -> f64 {
    let wins = |a: &f64| {
        second
            .iter()
            .map(|b| {
                if b > a {
                    1.0
                } else if b == a {
                    0.5
                } else {
                    0.0
                }
            })
            .sum::<f64>()
    };
    first.iter().map(wins).sum::<f64>() / (first.len() * second.len()) as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The current case, and when its last bytes and the following request were seen.
#[derive(Default)]
struct CaseTimer {
    case: AtomicUsize,
    last_bytes: Mutex<Option<Instant>>,
    request: Mutex<Option<Instant>>,
}

impl CaseTimer {
    fn mark(time: &Mutex<Option<Instant>>) {
        *time.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Milliseconds from the last bytes to the request.
    fn milliseconds(&self) -> f64 {
        let read = |time: &Mutex<Option<Instant>>| *time.lock().unwrap_or_else(PoisonError::into_inner);
        let both = read(&self.last_bytes).zip(read(&self.request));
        both.map_or(0.0, |(from, to)| to.saturating_duration_since(from).as_secs_f64() * 1e3)
    }
}

/// A server that sends prepared responses.
struct ScriptedServer {
    index: u8,
    manifest: Bytes,
    answers: [Bytes; 3],
    records: [Bytes; 3],
    timer: Arc<CaseTimer>,
    clock: Option<Arc<dyn Clock>>,
}

impl Exchange for ScriptedServer {
    fn name(&self) -> String {
        format!("server {}", self.index)
    }

    fn fetch_manifest(&self) -> TransportFuture<'_, ManifestResponse> {
        Box::pin(std::future::ready(Ok(ManifestResponse::of(self.index, self.manifest.clone()))))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.clock.clone()
    }

    fn send<'a>(&'a self, request: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        Box::pin(async move {
            let case = self.timer.case.load(Ordering::Relaxed);
            match request.route {
                Route::Answer => {
                    // In parts, as from a network.
                    for piece in self.answers[case].chunks(16 << 10) {
                        CaseTimer::mark(&self.timer.last_bytes);
                        response.part(piece);
                    }
                }
                Route::Record => {
                    if self.index == 1 {
                        CaseTimer::mark(&self.timer.request);
                    }
                    response.part(&self.records[case]);
                }
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_case_has_its_result_whether_requests_are_paced_or_not() {
        let responses = ScriptedResponses::new(1000, 1).unwrap();
        for paced in [false, true] {
            responses.measure(1, paced, 1).await.unwrap();
        }
    }
}
