//! What JavaScript calls: servers that were met, and questions to them.

use crate::clock::BrowserClock;
use crate::error::Problem;
use crate::fetch::Server;
use crate::form_schema;
use crate::form_schema::Inspection;
use crate::traffic_monitor::TrafficMonitor;
use futures_util::future::{Either, select};
use ifonly_client::{Client, ClientError, Pins, Policy, Retrying, Transport, Values, WishList};
use js_sys::{Function, Promise};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_futures::JsFuture;

/// Servers that agree about what they offer.
#[wasm_bindgen]
#[derive(Debug)]
pub struct WasmClient {
    client: Client,
    watch: Rc<TrafficMonitor>,
}

/// Whom to meet.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ConnectOptions {
    servers: Vec<Address>,
    #[serde(default)]
    pins: Pins,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Address {
    url: String,
    #[serde(default)]
    token: Option<String>,
}

/// Meets the servers of `{"servers": [{"url", "token"}], "pins": {…}}`. Gives up when `stop`
/// resolves.
#[wasm_bindgen]
pub async fn connect(meeting: String, stop: Promise) -> Result<WasmClient, JsValue> {
    let ConnectOptions { servers, pins } = read(&meeting)?;
    let watch = TrafficMonitor::new();
    let transport = |Address { url, token }| -> Result<Arc<dyn Transport>, ClientError> {
        let server = Arc::new(Server::new(&url, token, watch.clone())?);
        Ok(Arc::new(Retrying::new(server, Policy::default(), Arc::new(BrowserClock))))
    };
    let transports = servers.into_iter().map(transport).collect::<Result<Vec<_>, _>>().map_err(refused)?;
    let client = unless(stop, Client::connect(transports, &pins)).await?.map_err(refused)?;
    Ok(WasmClient { client, watch })
}

#[wasm_bindgen]
impl WasmClient {
    /// What they offer, as JSON.
    pub fn inspect(&self) -> Result<String, JsValue> {
        text(&Inspection::new(self.client.manifest(), self.client.server_failures()))
    }

    /// The manifest, as it was served.
    pub fn manifest(&self) -> String {
        self.client.manifest().json().to_owned()
    }

    /// How a value of a column is understood, as JSON. Nothing is sent.
    pub fn understand(&self, column: &str, value: &str) -> Result<String, JsValue> {
        let understood = form_schema::understood(self.client.manifest().schema(), column, value);
        text(&understood.map_err(|message| JsValue::from(problem(&Problem::input(message))))?)
    }

    /// Whether a question can be, and what the person should know about it, as a JSON list. Nothing
    /// is sent.
    pub fn check(&self, profile: &str, wishes: &str) -> Result<String, JsValue> {
        let (values, wishes) = question(profile, wishes)?;
        text(&self.client.check(&values, &wishes).map_err(refused)?)
    }

    /// Asks, and gives what `ifonly ask --json` prints. `progress` is called with a server's
    /// address, the step, and how many bytes of how many are there. Gives up when `stop` resolves.
    pub async fn ask(
        &self,
        profile: String,
        wishes: String,
        progress: Option<Function>,
        stop: Promise,
    ) -> Result<String, JsValue> {
        self.watch.start(progress);
        let (values, wishes) = match question(&profile, &wishes) {
            Ok(question) => question,
            Err(error) => {
                // Servers have been met, so they see a search here too.
                unless(stop, self.client.decoy(&read(&wishes).unwrap_or_default())).await?;
                return Err(error);
            }
        };
        let answer = unless(stop, self.client.ask(&values, &wishes)).await?.map_err(refused)?;
        text(&answer)
    }

    /// What each server was sent in the last search, as a JSON list.
    pub fn seen(&self) -> Result<String, JsValue> {
        text(&self.watch.sent())
    }
}

fn question(profile: &str, wishes: &str) -> Result<(Values, WishList), JsValue> {
    let values = Values::from_json(profile).map_err(|error| problem(&Problem::input(format!("profile: {error}"))))?;
    Ok((values, read(wishes)?))
}

fn read<T: serde::de::DeserializeOwned>(json: &str) -> Result<T, JsValue> {
    serde_json::from_str(json).map_err(|error| problem(&Problem::input(error.to_string())))
}

fn text(value: &impl serde::Serialize) -> Result<String, JsValue> {
    serde_json::to_string(value).map_err(|error| problem(&Problem::input(error.to_string())))
}

fn refused(error: ClientError) -> JsValue {
    problem(&Problem::from(&error))
}

/// Thrown as a text, which JavaScript turns into its error.
fn problem(problem: &Problem) -> JsValue {
    serde_json::to_string(problem).unwrap_or_default().into()
}

/// The work's result, or an empty text thrown if somebody says stop before.
async fn unless<T>(stop: Promise, work: impl Future<Output = T>) -> Result<T, JsValue> {
    match select(pin!(work), JsFuture::from(stop)).await {
        Either::Left((result, _)) => Ok(result),
        Either::Right(_) => Err("".into()),
    }
}
