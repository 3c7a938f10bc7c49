//! The functions that JavaScript calls: connecting, inspecting the manifest, and searching.

use crate::clock::BrowserClock;
use crate::error::JsError;
use crate::fetch::FetchServer;
use crate::form_schema;
use crate::form_schema::Inspection;
use crate::traffic_monitor::TrafficMonitor;
use futures_util::future::{Either, select};
use ifonly_client::{Client, ClientError, Endpoint, Pins, ProfileValues, RetryPolicy, Retrying, Transport, WishList};
use js_sys::{Function, Promise};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_futures::JsFuture;

/// A connection to the servers of one deployment.
#[wasm_bindgen]
#[derive(Debug)]
pub struct WasmClient {
    client: Client,
    monitor: Rc<TrafficMonitor>,
}

/// The servers to connect to, and the pins.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ConnectOptions {
    servers: Vec<Endpoint>,
    #[serde(default)]
    pins: Pins,
}

/// Connects to the servers of `{"servers": [{"url", "token"}], "pins": {…}}`. Stops when `stop`
/// resolves.
#[wasm_bindgen]
pub async fn connect(options: String, stop: Promise) -> Result<WasmClient, JsValue> {
    let ConnectOptions { servers, pins } = read(&options)?;
    let monitor = TrafficMonitor::new();
    let transport = |endpoint: Endpoint| -> Result<Arc<dyn Transport>, ClientError> {
        let server = Arc::new(FetchServer::new(endpoint, monitor.clone())?);
        Ok(Arc::new(Retrying::new(server, RetryPolicy::default(), Arc::new(BrowserClock))))
    };
    let transports = servers.into_iter().map(transport).collect::<Result<Vec<_>, _>>().map_err(client_error)?;
    let client = until_stopped(stop, Client::connect(transports, &pins)).await?.map_err(client_error)?;
    Ok(WasmClient { client, monitor })
}

#[wasm_bindgen]
impl WasmClient {
    /// The content of the manifest for a page, as JSON (see `Inspection`).
    pub fn inspect(&self) -> Result<String, JsValue> {
        text(&Inspection::new(self.client.manifest(), self.client.failures()))
    }

    /// The manifest, as received.
    pub fn manifest(&self) -> String {
        self.client.manifest().json().to_owned()
    }

    /// How a value of a column is interpreted, as JSON. Sends nothing.
    pub fn understand(&self, column: &str, value: &str) -> Result<String, JsValue> {
        let interpreted = form_schema::interpret(self.client.manifest().schema(), column, value);
        text(&interpreted.map_err(|error| client_error(ClientError::Profile(error)))?)
    }

    /// Checks a profile and wishes, and returns notes as a JSON list. Sends nothing.
    pub fn check(&self, profile: &str, wishes: &str) -> Result<String, JsValue> {
        let (values, wishes) = query(profile, wishes)?;
        text(&self.client.check(&values, &wishes).map_err(client_error)?)
    }

    /// Searches, and returns the JSON that `ifonly ask --json` prints. `progress` is called with
    /// the address of a server, the step, the received bytes and the expected bytes. Stops when
    /// `stop` resolves.
    pub async fn ask(
        &self,
        profile: String,
        wishes: String,
        progress: Option<Function>,
        stop: Promise,
    ) -> Result<String, JsValue> {
        self.monitor.start(progress);
        let (values, wishes) = match query(&profile, &wishes) {
            Ok(query) => query,
            Err(error) => {
                // The servers have already been contacted, so they must observe a search here too.
                until_stopped(stop, self.client.dummy_search(&read(&wishes).unwrap_or_default())).await?;
                return Err(error);
            }
        };
        let answer = until_stopped(stop, self.client.ask(&values, &wishes)).await?.map_err(client_error)?;
        text(&answer)
    }

    /// The messages of the last search, as a JSON list.
    pub fn seen(&self) -> Result<String, JsValue> {
        text(&self.monitor.sent())
    }
}

fn query(profile: &str, wishes: &str) -> Result<(ProfileValues, WishList), JsValue> {
    let values = ProfileValues::from_json(profile).map_err(|error| thrown(&JsError::input(error.to_string())))?;
    Ok((values, read(wishes)?))
}

fn read<T: serde::de::DeserializeOwned>(json: &str) -> Result<T, JsValue> {
    serde_json::from_str(json).map_err(|error| thrown(&JsError::input(error.to_string())))
}

fn text(value: &impl serde::Serialize) -> Result<String, JsValue> {
    serde_json::to_string(value).map_err(|error| thrown(&JsError::input(error.to_string())))
}

fn client_error(error: ClientError) -> JsValue {
    thrown(&JsError::from(&error))
}

/// The error as a JSON text to throw. The npm package converts it to its own error class.
fn thrown(error: &JsError) -> JsValue {
    serde_json::to_string(error).expect("an error is plain data").into()
}

/// The result of the work. Throws an empty text if `stop` resolves first.
async fn until_stopped<T>(stop: Promise, work: impl Future<Output = T>) -> Result<T, JsValue> {
    match select(pin!(work), JsFuture::from(stop)).await {
        Either::Left((result, _)) => Ok(result),
        Either::Right(_) => Err("".into()),
    }
}
