//! `ifonly.Explainer`: connecting to the servers, and searching for many people at a time, one
//! search per person.
//!
//! The servers observe a search for every person. If a profile or a wish is invalid, a dummy search
//! runs, as in the client, and the error is returned like any other result.

use crate::errors::{coded_exception, input, json, parse};
use crate::runtime::{in_background, runtime};
use crate::scales;
use ifonly::client::transport::http::{self, TlsTrust};
use ifonly::client::{ClientError, Endpoint, EndpointTokens, RetryPolicy};
use ifonly::values::message::{Coded, CodedMessage};
use ifonly::{Answer, ErrorCategory, Pins, ProfileValues, WishList};
use pyo3::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// A connection to the servers of one deployment.
#[pyclass(frozen, module = "ifonly._ifonly")]
pub(crate) struct Client {
    client: Arc<ifonly::Client>,
}

/// Options of the connections to the servers.
#[derive(serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NetworkOptions {
    ca: Option<PathBuf>,
    /// The token of every server without one of its own.
    token: Option<String>,
    /// Tokens of single servers, by address.
    tokens: BTreeMap<String, String>,
    timeout: f64,
    plain_http: bool,
}

impl Default for NetworkOptions {
    fn default() -> NetworkOptions {
        NetworkOptions { ca: None, token: None, tokens: BTreeMap::new(), timeout: 120.0, plain_http: false }
    }
}

#[pymethods]
impl Client {
    /// Connects to the servers at these addresses and checks the pins.
    #[new]
    #[pyo3(signature = (urls, pins, network))]
    fn new(py: Python<'_>, urls: Vec<String>, pins: &str, network: &str) -> PyResult<Client> {
        let (pins, network): (Pins, NetworkOptions) = (parse(pins)?, parse(network)?);
        if !(1e-3..=86_400.0).contains(&network.timeout) {
            return Err(input(format!("timeout = {}: it must be between 0.001 and 86400 seconds", network.timeout)));
        }
        let tokens = EndpointTokens { all: network.token.clone(), own: network.tokens.clone() };
        let endpoints = tokens.endpoints(&urls).map_err(|error| input(format!("tokens: {error}")))?;
        let runtime = runtime()?;
        let connected = in_background(py, move || {
            let refuse = |path: &PathBuf, error| input_failure(format!("{}: {error}", path.display()));
            let pem = network.ca.as_ref().map(|path| std::fs::read(path).map_err(|error| refuse(path, error)));
            let pem = pem.transpose()?;
            runtime.block_on(connect(endpoints, &pins, &network, pem)).map_err(|error| client_error(&error))
        })?;
        let client = connected.map_err(|failure| coded_exception(&failure))?;
        Ok(Client { client: Arc::new(client) })
    }

    /// The manifest as JSON.
    #[getter]
    fn manifest(&self) -> &str {
        self.client.manifest().json()
    }

    /// The digest of the manifest, in hexadecimal.
    #[getter]
    fn digest(&self) -> String {
        self.client.manifest().digest().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The template of a profile.
    fn template(&self) -> String {
        ifonly::client::template(self.client.manifest())
    }

    /// Starts the searches for these people, `concurrency` at a time. A person has values and,
    /// if they are invalid, the reason. `notify` is called after every result.
    #[pyo3(signature = (people, wishes, concurrency, notify))]
    fn start(
        &self,
        people: Vec<(BTreeMap<String, PythonValue>, Option<String>)>,
        wishes: &str,
        concurrency: usize,
        notify: Option<Py<PyAny>>,
    ) -> PyResult<Batch> {
        let input: WishInput = parse(wishes)?;
        let wishes = input.check(&self.client);
        let person = |(values, invalid): (BTreeMap<String, PythonValue>, _)| {
            (values.into_iter().map(|(name, PythonValue(value))| (name, value)).collect::<ProfileValues>(), invalid)
        };
        let waiting = people.into_iter().map(person).enumerate().collect();
        let (results, received) = channel();
        let (stop, stopped) = watch::channel(());
        let job = Arc::new(Job {
            client: self.client.clone(),
            wishes,
            waiting: Mutex::new(waiting),
            notify,
            runtime: runtime()?.handle().clone(),
        });
        for _ in 0..concurrency.max(1) {
            let (job, results, stopped) = (job.clone(), results.clone(), stopped.clone());
            let worker = std::thread::Builder::new().name("ifonly".into());
            worker.spawn(move || job.work(&results, stopped)).map_err(crate::errors::machine)?;
        }
        Ok(Batch { received: Mutex::new(received), stop: Mutex::new(Some(stop)) })
    }
}

/// A value as the Python files pass it: a number or a text.
struct PythonValue(ifonly::values::schema::Value);

impl<'py> FromPyObject<'_, 'py> for PythonValue {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<PythonValue> {
        match value.extract::<String>() {
            Ok(text) => Ok(PythonValue(text.into())),
            Err(_) => Ok(PythonValue(value.extract::<f64>()?.into())),
        }
    }
}

async fn connect(
    endpoints: Vec<Endpoint>,
    pins: &Pins,
    network: &NetworkOptions,
    pem: Option<Vec<u8>>,
) -> Result<ifonly::Client, ClientError> {
    let trust = match pem {
        Some(text) => TlsTrust::pem(&text)?,
        None => TlsTrust::system()?,
    };
    let trust = trust.plain_http(network.plain_http);
    let policy = RetryPolicy { deadline: Duration::from_secs_f64(network.timeout), ..RetryPolicy::default() };
    ifonly::Client::connect(http::servers(endpoints, &trust, policy)?, pins).await
}

/// The category and the message of an error.
type Failure = (ErrorCategory, CodedMessage);

fn client_error(error: &ClientError) -> Failure {
    let message = ifonly::cli::sanitize::plain(&error.to_string());
    (error.category(), CodedMessage { message, ..error.coded() })
}

fn input_failure(reason: String) -> Failure {
    (ErrorCategory::Input, CodedMessage::new("input", reason))
}

/// The wishes as the Python files write them.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct WishInput {
    wishes: WishList,
    /// The argument of DiCE: two ends of a range of numbers, or a list of words. The schema
    /// decides which.
    permitted_range: BTreeMap<String, Vec<Option<ifonly::values::schema::Value>>>,
    /// Why the wishes are invalid, if the Python files have found that already.
    wrong: Option<String>,
}

/// The wishes; or, if they are invalid, the wishes of the dummy search and the reason.
type CheckedWishes = Result<WishList, Box<(WishList, String)>>;

impl WishInput {
    fn check(self, client: &ifonly::Client) -> CheckedWishes {
        let WishInput { mut wishes, permitted_range, wrong } = self;
        let schema = client.manifest().schema();
        // Only what the servers see anyway.
        let public =
            WishList { top: wishes.top, ways: wishes.ways, scheme: wishes.scheme.clone(), ..WishList::default() };
        if let Some(reason) = wrong {
            return Err(Box::new((public, reason)));
        }
        for (name, values) in permitted_range {
            let words = schema.columns().iter().any(|column| {
                let listed = !schema.features()[column.features.start].words().is_empty();
                column.name == name && (listed || column.features.len() > 1)
            });
            if words {
                let Some(values) = values.into_iter().collect() else {
                    let reason = format!("permitted_range of {name}: a list of values must not contain None");
                    return Err(Box::new((public, reason)));
                };
                wishes.permits.insert(name, values);
                continue;
            }
            let Ok([low, high]) = <[_; 2]>::try_from(values) else {
                let reason = format!("permitted_range of {name}: write [low, high]; None leaves an end open");
                return Err(Box::new((public, reason)));
            };
            wishes.ranges.insert(name, (low, high));
        }
        Ok(wishes)
    }
}

/// The searches of one call.
struct Job {
    client: Arc<ifonly::Client>,
    wishes: CheckedWishes,
    waiting: Mutex<VecDeque<(usize, Person)>>,
    notify: Option<Py<PyAny>>,
    runtime: tokio::runtime::Handle,
}

/// The values of a person and, if they are invalid, the reason.
type Person = (ProfileValues, Option<String>);

/// The number of a person and the result.
type Finished = (usize, Result<Answer, Failure>);

impl Job {
    /// Searches for one person after another, until none is left or the batch is stopped.
    fn work(&self, results: &Sender<Completed>, mut stopped: watch::Receiver<()>) {
        loop {
            let next = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some((number, (values, invalid))) = next else { return };
            let result = self.runtime.block_on(async {
                tokio::select! {
                    result = self.ask(&values, invalid) => Some(result),
                    // The batch was dropped or stopped.
                    _ = stopped.changed() => None,
                }
            });
            let Some(result) = result else { return };
            if results.send(Completed { finished: (number, result), client: self.client.clone() }).is_err() {
                return;
            }
            if let Some(notify) = &self.notify {
                // The callback fails if its event loop has ended; that does not matter.
                Python::try_attach(|py| notify.call0(py).map(drop).ok());
            }
        }
    }

    async fn ask(&self, values: &ProfileValues, invalid: Option<String>) -> Result<Answer, Failure> {
        let (public, reason) = match (&self.wishes, invalid) {
            (Ok(wishes), None) => return self.client.ask(values, wishes).await.map_err(|error| client_error(&error)),
            (Err(refused), _) => (&refused.0, refused.1.clone()),
            (Ok(wishes), Some(reason)) => (wishes, reason),
        };
        self.client.dummy_search(public).await;
        Err(input_failure(reason))
    }
}

/// A result, and the client whose schema it refers to.
struct Completed {
    finished: Finished,
    client: Arc<ifonly::Client>,
}

/// Running searches, and the results that have arrived.
#[pyclass(frozen, module = "ifonly._ifonly")]
pub(crate) struct Batch {
    received: Mutex<Receiver<Completed>>,
    stop: Mutex<Option<watch::Sender<()>>>,
}

/// A result for Python: the number of the person with the answer and the positions on scales, both
/// as JSON, or with an exception.
type PythonResult = (usize, Option<String>, Option<String>, Option<Py<PyAny>>);

#[pymethods]
impl Batch {
    /// The next result, or `None` after this many seconds.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<PythonResult>> {
        let timeout = Duration::from_secs_f64(seconds.clamp(0.0, 3600.0));
        let received = py.detach(|| {
            let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
            received.recv_timeout(timeout)
        });
        match received {
            Ok(Completed { finished: (number, Ok(answer)), client }) => {
                let scales = json(&scales::of(client.manifest().schema(), &answer))?;
                Ok(Some((number, Some(json(&answer)?), Some(scales), None)))
            }
            Ok(Completed { finished: (number, Err(failure)), .. }) => {
                Ok(Some((number, None, None, Some(coded_exception(&failure).into_value(py).into_any()))))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(crate::errors::machine("the searches were stopped")),
        }
    }

    /// Starts no further search and drops the running ones.
    fn stop(&self) {
        self.stop.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
