//! Does the time between an answer and the next request tell what was decoded? What a server could
//! measure, measured.
//!
//! Answers are made once per case and given to the real client from memory: nothing qualifies, half
//! of the rows qualify, or half do and a lie makes their costs impossible. The time is that from
//! the last bytes of the answers to the request for the record, with requests that leave at once
//! and with paced ones. AUC is how well one time tells two cases apart: 0.5 is not at all, 1
//! always.

use crate::cli::exit::CommandError;
use bytes::Bytes;
use ifonly_algebra::field::FieldElement;
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_algebra::wire;
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
const ROWS: [usize; 2] = [300_000, 2_000_000];

/// What was measured.
#[derive(Debug, serde::Serialize)]
pub(crate) struct TimingReport {
    scheme: &'static str,
    searches_per_case: usize,
    lines: Vec<Line>,
}

/// One number of rows, paced or not.
#[derive(Debug, serde::Serialize)]
struct Line {
    rows: usize,
    paced: bool,
    /// Milliseconds, case by case.
    medians: [f64; 3],
    /// Nothing or half, nothing or lie, half or lie.
    auc: [f64; 3],
}

impl std::fmt::Display for TimingReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "From the last byte of the answers to the request for the record: scheme {}, two servers, {} searches per case",
            self.scheme, self.searches_per_case
        )?;
        writeln!(f, "{:>9}  {:8}  {:^26}  {:^32}", "", "", "median, milliseconds", "AUC")?;
        writeln!(
            f,
            "{:>9}  {:8}  {:>8} {:>8} {:>8}  {:>12} {:>11} {:>7}",
            "rows", "requests", CASES[0], CASES[1], CASES[2], "nothing/half", "nothing/lie", "half/lie"
        )?;
        for Line { rows, paced, medians: [a, b, c], auc: [ab, ac, bc] } in &self.lines {
            let requests = if *paced { "paced" } else { "at once" };
            writeln!(f, "{rows:>9}  {requests:8}  {a:>8.3} {b:>8.3} {c:>8.3}  {ab:>12.3} {ac:>11.3} {bc:>7.3}")?;
        }
        Ok(())
    }
}

/// Measures, with so many searches of each case.
pub(crate) fn measure(searches: usize, seed: u64) -> Result<TimingReport, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(CommandError::machine)?;
    let mut lines = vec![];
    for rows in ROWS {
        let scene = Scene::new(rows, seed)?;
        for paced in [false, true] {
            lines.push(runtime.block_on(scene.line(searches, paced, seed))?);
        }
    }
    Ok(TimingReport { scheme: scheme_name(), searches_per_case: searches, lines })
}

/// Of the scheme that is measured: two symbols per row, of which the first says whether the second
/// is a cost.
fn scheme_name() -> &'static str {
    scheme::leanest(CostModel::Squared, ConstraintKind::Zeros).name
}

/// A manifest, and what servers say in each case.
struct Scene {
    manifest: Manifest,
    /// By case; the same from both servers, since weights of interpolation sum to one.
    answers: [Bytes; 3],
    /// By case and server; their sum is the sealed record, or nothing.
    records: [[Bytes; 2]; 3],
}

impl Scene {
    fn new(rows: usize, seed: u64) -> Result<Scene, CommandError> {
        let kind = FeatureKind::from(Scale::whole_numbers(0, 255).map_err(CommandError::Input)?);
        let features = (0..4).map(|k| Feature::new(format!("feature {k}"), kind.clone())).collect();
        let schema = Schema::new(features).map_err(CommandError::input)?;
        let key = SigningKey::new(&[1; 32]);
        let mut contents = ManifestFields::new("timing", schema, rows, 64 + SIGNATURE_LENGTH, 2);
        contents.signer = Some(key.public());
        let subject = contents.subject();
        let manifest = Manifest::new(contents).map_err(CommandError::machine)?;
        let instance = manifest.instance(scheme_name()).map_err(CommandError::machine)?;
        let random = &mut SeededRandom::new(seed);
        let answers = [false, true, true].map(|half| answer(instance, half, random));
        let lie = lied(instance, &answers[2])?;
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
        let sealed = protocol.encode_records(&root, [record.as_slice()].into_iter()).concat();
        let shares = |wanted: bool, random: &mut SeededRandom| {
            let lead = MessageKind::Record.lead();
            let mut first = vec![0; lead + sealed.len()];
            random.fill(&mut first[lead..]);
            let mut second = first.clone();
            if wanted {
                second[lead..].iter_mut().zip(&sealed).for_each(|(byte, bits)| *byte ^= bits);
            }
            [first.into(), second.into()]
        };
        let records = [false, true, false].map(|wanted| shares(wanted, random));
        Ok(Scene { manifest, answers: [nothing, half, lie], records })
    }

    async fn line(&self, searches: usize, paced: bool, seed: u64) -> Result<Line, CommandError> {
        let watch = Arc::new(Watch::default());
        let clock = paced.then(|| Arc::new(TokioClock::start()) as Arc<dyn Clock>);
        let server = |index: u8| -> Arc<dyn Transport> {
            let manifest = self.manifest.json().to_owned().into();
            let records = [0, 1, 2].map(|case: usize| self.records[case][usize::from(index) - 1].clone());
            let (watch, clock, answers) = (watch.clone(), clock.clone(), self.answers.clone());
            Arc::new(ScriptedServer { index, manifest, answers, records, watch, clock })
        };
        let client = Client::connect(vec![server(1), server(2)], &Pins::default()).await?;
        let instance = client.manifest().instance(scheme_name()).map_err(CommandError::machine)?;
        let mut times: [Vec<f64>; 3] = Default::default();
        let random = &mut SeededRandom::new(seed);
        // A few to warm up. Cases come in a fresh order, so that nothing that drifts is on the side
        // of one.
        for round in 0..searches + 3 {
            let mut order = [0, 1, 2];
            for last in (1..3).rev() {
                order.swap(last, random.below(last as u64 + 1) as usize);
            }
            for case in order {
                watch.case.store(case, Ordering::Relaxed);
                let found = client.search(instance, SecretQuery::new(vec![0; 4]), 1).await;
                let right = match &found {
                    Ok(report) => case == usize::from(!report.outcome.found.is_empty()),
                    Err(_) => case == 2,
                };
                if !right {
                    return Err(CommandError::Machine(format!(
                        "the case {:?} ended as another: {found:?}",
                        CASES[case]
                    )));
                }
                if round >= 3 {
                    times[case].push(watch.took());
                }
            }
        }
        let auc = [(0, 1), (0, 2), (1, 2)].map(|(a, b)| auc(&times[a], &times[b]));
        Ok(Line { rows: self.manifest.rows(), paced, medians: times.map(median), auc })
    }
}

/// Gates and costs, in an answer's form: half of the rows qualify, or none.
fn answer(instance: &SchemeInstance, half: bool, random: &mut SeededRandom) -> Bytes {
    let field = instance.field();
    let mut elements: Vec<FieldElement> = vec![];
    for _ in 0..instance.params().rows {
        // Costs are distances here, so all values are possible but few.
        let qualifies = half && random.below(2) == 0;
        let gate = if qualifies { FieldElement::ZERO } else { field.sample_nonzero(random) };
        let cost = if qualifies { field.reduce(random.below(200_000)) } else { field.sample(random) };
        elements.extend([gate, cost]);
    }
    let mut bytes = vec![0; MessageKind::Phase(0).lead()];
    bytes.extend(wire::pack(field, &elements));
    bytes.into()
}

/// The same with a constant added to every cost, so that some are impossible.
fn lied(instance: &SchemeInstance, answer: &Bytes) -> Result<Bytes, CommandError> {
    let field = instance.field();
    let (check, body) = answer.split_at(MessageKind::Phase(0).lead());
    let elements = wire::unpack(field, body, instance.answer_length(0)).map_err(CommandError::machine)?;
    let lie = field.reduce(field.q() - 100_000);
    let bent: Vec<FieldElement> =
        elements.chunks_exact(2).flat_map(|pair| [pair[0], field.add(pair[1], lie)]).collect();
    Ok([check, &wire::pack(field, &bent)].concat().into())
}

/// How probably a time of the second case is the longer one.
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

/// Which case is on, and when what was seen.
#[derive(Default)]
struct Watch {
    case: AtomicUsize,
    last_bytes: Mutex<Option<Instant>>,
    request: Mutex<Option<Instant>>,
}

impl Watch {
    fn mark(place: &Mutex<Option<Instant>>) {
        *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Milliseconds from the last bytes to the request.
    fn took(&self) -> f64 {
        let read = |place: &Mutex<Option<Instant>>| *place.lock().unwrap_or_else(PoisonError::into_inner);
        let both = read(&self.last_bytes).zip(read(&self.request));
        both.map_or(0.0, |(from, to)| to.saturating_duration_since(from).as_secs_f64() * 1e3)
    }
}

/// A server that says what it was given.
struct ScriptedServer {
    index: u8,
    manifest: Bytes,
    answers: [Bytes; 3],
    records: [Bytes; 3],
    watch: Arc<Watch>,
    clock: Option<Arc<dyn Clock>>,
}

impl Exchange for ScriptedServer {
    fn name(&self) -> String {
        format!("server {}", self.index)
    }

    fn greet(&self) -> TransportFuture<'_, ManifestResponse> {
        Box::pin(std::future::ready(Ok(ManifestResponse {
            index: self.index,
            manifest: self.manifest.clone(),
            earlier: vec![],
        })))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.clock.clone()
    }

    fn send<'a>(&'a self, call: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        Box::pin(async move {
            let case = self.watch.case.load(Ordering::Relaxed);
            match call.route {
                Route::Answer => {
                    // As a network brings it.
                    for piece in self.answers[case].chunks(16 << 10) {
                        Watch::mark(&self.watch.last_bytes);
                        response.part(piece);
                    }
                }
                Route::Record => {
                    if self.index == 1 {
                        Watch::mark(&self.watch.request);
                    }
                    response.part(&self.records[case]);
                }
            }
            Ok(())
        })
    }
}
