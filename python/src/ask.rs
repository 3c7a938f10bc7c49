//! `ifonly.Explainer`: meeting servers, and asking for many people at a time, each by a search of
//! their own.
//!
//! However a question ends, servers see a search: a mistake in a profile or a wish is followed by a
//! decoy, as the client does it, and comes out at the end like any other result.

use crate::errors::{blamed, input, json, options};
use crate::runtime::{aside, runtime};
use crate::scales;
use ifonly::client::transport::http::{self, TlsTrust};
use ifonly::client::{ClientError, RetryPolicy, Transport};
use ifonly::{Answer, ErrorCategory, Pins, ProfileValues, WishList};
use pyo3::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Servers that have been met.
#[pyclass(frozen, module = "ifonly._ifonly")]
pub(crate) struct Client {
    client: Arc<ifonly::Client>,
}

/// How to reach them.
#[derive(serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Reach {
    ca: Option<PathBuf>,
    /// For all servers.
    token: Option<String>,
    /// For single ones, by their address.
    tokens: BTreeMap<String, String>,
    timeout: f64,
    plain_http: bool,
}

impl Default for Reach {
    fn default() -> Reach {
        Reach { ca: None, token: None, tokens: BTreeMap::new(), timeout: 120.0, plain_http: false }
    }
}

#[pymethods]
impl Client {
    /// Meets the servers at these addresses, if they keep what is pinned.
    #[new]
    #[pyo3(signature = (urls, pins, reach))]
    fn new(py: Python<'_>, urls: Vec<String>, pins: &str, reach: &str) -> PyResult<Client> {
        let (pins, reach): (Pins, Reach) = (options(pins)?, options(reach)?);
        if !(1e-3..=86_400.0).contains(&reach.timeout) {
            return Err(input(format!("timeout = {}: it is between a millisecond and a day", reach.timeout)));
        }
        if let Some(url) = reach.tokens.keys().find(|url| !urls.contains(url)) {
            return Err(input(format!("tokens: none of the servers has the address {url}")));
        }
        let runtime = runtime()?;
        let met = aside(py, move || {
            let refuse = |path: &PathBuf, error| (ErrorCategory::Input, format!("{}: {error}", path.display()));
            let pem = reach.ca.as_ref().map(|path| std::fs::read(path).map_err(|error| refuse(path, error)));
            let pem = pem.transpose()?;
            runtime.block_on(meet(&urls, &pins, &reach, pem)).map_err(|error| fault(&error))
        })?;
        let client = met.map_err(|(category, message)| blamed(category, message))?;
        Ok(Client { client: Arc::new(client) })
    }

    /// The manifest as JSON.
    #[getter]
    fn manifest(&self) -> &str {
        self.client.manifest().json()
    }

    /// The manifest's digest, in hexadecimal.
    #[getter]
    fn digest(&self) -> String {
        self.client.manifest().digest().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// A profile to fill in.
    fn template(&self) -> String {
        ifonly::client::template(self.client.manifest())
    }

    /// Starts asking for all these people, so many at a time: their values, or what is wrong with
    /// them. `notify` is called whenever somebody's answer is there.
    #[pyo3(signature = (people, wishes, concurrency, notify))]
    fn start(
        &self,
        people: Vec<(BTreeMap<String, String>, Option<String>)>,
        wishes: &str,
        concurrency: usize,
        notify: Option<Py<PyAny>>,
    ) -> PyResult<Batch> {
        let asked: Asked = options(wishes)?;
        let wishes = asked.wishes(&self.client);
        let person = |(values, wrong): (BTreeMap<_, _>, _)| (values.into_iter().collect::<ProfileValues>(), wrong);
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

async fn meet(
    urls: &[String],
    pins: &Pins,
    reach: &Reach,
    pem: Option<Vec<u8>>,
) -> Result<ifonly::Client, ClientError> {
    let trust = match pem {
        Some(text) => TlsTrust::pem(&text)?,
        None => TlsTrust::system()?,
    };
    let trust = trust.plain_http(reach.plain_http);
    let policy = RetryPolicy { deadline: Duration::from_secs_f64(reach.timeout), ..RetryPolicy::default() };
    let mut servers: Vec<Arc<dyn Transport>> = vec![];
    for url in urls {
        let token = reach.tokens.get(url).or(reach.token.as_ref());
        servers.extend(http::servers(std::slice::from_ref(url), &trust, token.map(String::as_str), policy)?);
    }
    ifonly::Client::connect(servers, pins).await
}

fn fault(error: &ClientError) -> (ErrorCategory, String) {
    (error.category(), ifonly::cli::sanitize::plain(&error.to_string()))
}

/// Wishes as the Python files write them.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    wishes: WishList,
    /// DiCE's word: two ends of numbers, or a list of words. Which it is, the schema says.
    permitted_range: BTreeMap<String, Vec<Option<ifonly::values::schema::Value>>>,
    /// What is wrong with them already.
    wrong: Option<String>,
}

/// Wishes, or what is wrong with them and what servers may see all the same.
type Wished = Result<WishList, Box<(WishList, String)>>;

impl Asked {
    fn wishes(self, client: &ifonly::Client) -> Wished {
        let Asked { mut wishes, permitted_range, wrong } = self;
        let schema = client.manifest().schema();
        let seen = WishList { top: wishes.top, scheme: wishes.scheme.clone(), ..WishList::default() };
        if let Some(reason) = wrong {
            return Err(Box::new((seen, reason)));
        }
        for (name, values) in permitted_range {
            let words = schema.columns().iter().any(|column| {
                let listed = !schema.features()[column.features.start].words().is_empty();
                column.name == name && (listed || column.features.len() > 1)
            });
            if words {
                let Some(values) = values.into_iter().collect() else {
                    let reason = format!("permitted_range of {name}: a list of values has no open end");
                    return Err(Box::new((seen, reason)));
                };
                wishes.permits.insert(name, values);
                continue;
            }
            let Ok([low, high]) = <[_; 2]>::try_from(values) else {
                let reason = format!("permitted_range of {name}: write [low, high]; None leaves an end open");
                return Err(Box::new((seen, reason)));
            };
            wishes.ranges.insert(name, (low, high));
        }
        Ok(wishes)
    }
}

/// Questions on their way.
struct Job {
    client: Arc<ifonly::Client>,
    wishes: Wished,
    waiting: Mutex<VecDeque<(usize, Person)>>,
    notify: Option<Py<PyAny>>,
    runtime: tokio::runtime::Handle,
}

/// Somebody's values, and what is wrong with them if something is.
type Person = (ProfileValues, Option<String>);

/// Whose result, and what it is.
type Finished = (usize, Result<Answer, (ErrorCategory, String)>);

impl Job {
    /// Asks for one after another until nobody is left, or somebody says stop.
    fn work(&self, results: &Sender<Named>, mut stopped: watch::Receiver<()>) {
        loop {
            let next = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some((number, (values, wrong))) = next else { return };
            let asked = self.runtime.block_on(async {
                tokio::select! {
                    asked = self.ask(&values, wrong) => Some(asked),
                    // Nobody holds the batch any more, or it was stopped.
                    _ = stopped.changed() => None,
                }
            });
            let Some(asked) = asked else { return };
            if results.send(Named { finished: (number, asked), client: self.client.clone() }).is_err() {
                return;
            }
            if let Some(notify) = &self.notify {
                // An event loop that has ended wants to hear nothing.
                Python::try_attach(|py| notify.call0(py).map(drop).ok());
            }
        }
    }

    async fn ask(&self, values: &ProfileValues, wrong: Option<String>) -> Result<Answer, (ErrorCategory, String)> {
        let (seen, reason) = match (&self.wishes, wrong) {
            (Ok(wishes), None) => return self.client.ask(values, wishes).await.map_err(|error| fault(&error)),
            (Err(mistake), _) => (&mistake.0, mistake.1.clone()),
            (Ok(seen), Some(reason)) => (seen, reason),
        };
        self.client.dummy_search(seen).await;
        Err((ErrorCategory::Input, reason))
    }
}

/// A result, and whose schema it is about.
struct Named {
    finished: Finished,
    client: Arc<ifonly::Client>,
}

/// Questions on their way, and the results that have come back.
#[pyclass(frozen, module = "ifonly._ifonly")]
pub(crate) struct Batch {
    received: Mutex<Receiver<Named>>,
    stop: Mutex<Option<watch::Sender<()>>>,
}

/// A result for Python: whose, the answer as JSON, places on scales as JSON; or whose, and an
/// exception.
type Told = (usize, Option<String>, Option<String>, Option<Py<PyAny>>);

#[pymethods]
impl Batch {
    /// The next result, if there is one within so many seconds.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<Told>> {
        let patience = Duration::from_secs_f64(seconds.clamp(0.0, 3600.0));
        let received = py.detach(|| {
            let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
            received.recv_timeout(patience)
        });
        match received {
            Ok(Named { finished: (number, Ok(answer)), client }) => {
                let scales = json(&scales::of(client.manifest().schema(), &answer))?;
                Ok(Some((number, Some(json(&answer)?), Some(scales), None)))
            }
            Ok(Named { finished: (number, Err((category, message))), .. }) => {
                Ok(Some((number, None, None, Some(blamed(category, message).into_value(py).into_any()))))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(crate::errors::machine("the questions were stopped")),
        }
    }

    /// Asks for nobody else, and drops the questions on their way.
    fn stop(&self) {
        self.stop.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
