//! The transport over `fetch`, for browsers and Node.
//!
//! The server must allow the origin of the page (CORS). Requests send no cookie and no referrer,
//! follow no redirect and are not cached. A browser does not reveal why a connection failed.

use crate::clock::BrowserClock;
use crate::traffic_monitor::TrafficMonitor;
use ifonly_client::transport::credential::Credential;
use ifonly_client::transport::{
    ChecksumVerifier, Exchange, ManifestResponse, ResponseSink, ServedManifest, ServerRequest, TransportError,
    TransportFuture, response,
};
use ifonly_client::{ClientError, Clock, Endpoint};
use ifonly_core::http_api::{
    KEY_FINGERPRINTS_HEADER, MANIFEST_PATH, MESSAGE_TYPE, PREVIOUS_MANIFESTS_HEADER, SERVER_INDEX_HEADER,
};
use ifonly_values::manifest::MAX_JSON;
use js_sys::{Promise, Reflect, Uint8Array};
use std::rc::Rc;
use std::sync::Arc;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{
    AbortController, Headers, ReadableStreamDefaultReader, ReferrerPolicy, Request, RequestCache, RequestCredentials,
    RequestInit, RequestMode, RequestRedirect, Response, Url,
};

#[wasm_bindgen]
extern "C" {
    // Windows, workers and Node all have this global function.
    #[wasm_bindgen(js_name = fetch)]
    fn fetch(request: &Request) -> Promise;
}

/// A server at a URL.
pub(crate) struct FetchServer {
    base: String,
    /// The address as the browser reads it. Other texts may mean the same host.
    address: String,
    token: Option<String>,
    monitor: Rc<TrafficMonitor>,
}

impl FetchServer {
    /// The server at an endpoint. Plain HTTP is allowed on loopback only.
    pub(crate) fn new(endpoint: Endpoint, monitor: Rc<TrafficMonitor>) -> Result<FetchServer, ClientError> {
        let Endpoint { url, token } = endpoint;
        let refuse = |reason| Err(ClientError::Url { url: url.clone(), reason });
        let Ok(parsed) = Url::new(&url) else { return refuse("it cannot be parsed; write https://host:port") };
        match parsed.protocol().as_str() {
            "https:" => {}
            "http:" if response::is_loopback(&parsed.hostname()) => {}
            "http:" => return refuse("plain HTTP is allowed on this machine only; use https://"),
            _ => return refuse("it must begin with https://"),
        }
        if !parsed.search().is_empty() || !parsed.hash().is_empty() {
            return refuse("it has a query or a fragment; write https://host:port");
        }
        if !parsed.username().is_empty() || !parsed.password().is_empty() {
            return refuse("it has a user name or a password; write https://host:port");
        }
        let address = parsed.href().trim_end_matches('/').into();
        Ok(FetchServer { base: url.trim_end_matches('/').into(), address, token, monitor })
    }

    /// Sends a request; returns the response if its status is 200.
    async fn request(
        &self,
        path: &str,
        message: Option<&[u8]>,
        credential: Option<&Credential>,
    ) -> Result<FetchResponse, TransportError> {
        let broken = |_: JsValue| TransportError::Unreachable("the browser refused to create the request".into());
        let abort = AbortGuard(AbortController::new().map_err(broken)?);
        let headers = Headers::new().map_err(broken)?;
        if let Some(token) = &self.token {
            headers.set("authorization", &format!("Bearer {token}")).map_err(broken)?;
        }
        if let Some(credential) = credential {
            headers.set(credential.header(), credential.value()).map_err(broken)?;
        }
        let init = RequestInit::new();
        if let Some(message) = message {
            headers.set("content-type", MESSAGE_TYPE).map_err(broken)?;
            init.set_method("POST");
            init.set_body(&Uint8Array::from(message));
        }
        init.set_headers(&headers);
        init.set_mode(RequestMode::Cors);
        init.set_credentials(RequestCredentials::Omit);
        init.set_cache(RequestCache::NoStore);
        init.set_redirect(RequestRedirect::Error);
        init.set_referrer_policy(ReferrerPolicy::NoReferrer);
        init.set_signal(Some(&abort.0.signal()));
        let request = Request::new_with_str_and_init(&format!("{}{path}", self.base), &init).map_err(broken)?;
        let response = JsFuture::from(fetch(&request)).await.map_err(|error| unreachable(&error))?;
        let response: Response = response.dyn_into().map_err(broken)?;
        let response = FetchResponse { response, _abort: abort };
        match response.response.status() {
            200 => Ok(response),
            status => {
                let retry_after = response.header("retry-after");
                let body = response.body(response::MAX_PROBLEM_LENGTH).await.unwrap_or_default();
                Err(response::refusal(status, retry_after.as_deref(), &body))
            }
        }
    }
}

/// A response. Dropping it aborts the request.
struct FetchResponse {
    response: Response,
    _abort: AbortGuard,
}

/// Aborts a request on drop, if it is still running.
struct AbortGuard(AbortController);

impl Drop for AbortGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl FetchResponse {
    fn header(&self, name: &str) -> Option<String> {
        self.response.headers().get(name).ok().flatten()
    }

    async fn manifest(&self) -> Result<ServedManifest, TransportError> {
        let key_fingerprints = self.header(KEY_FINGERPRINTS_HEADER).unwrap_or_default();
        Ok(ServedManifest { json: self.body(MAX_JSON).await?.into(), key_fingerprints })
    }

    /// Passes the body to `part` as its bytes arrive.
    async fn stream(&self, mut part: impl FnMut(&[u8]) -> Result<(), TransportError>) -> Result<(), TransportError> {
        let broken = |error: JsValue| TransportError::CutOff(reason(&error));
        let Some(body) = self.response.body() else { return Ok(()) };
        let reader: ReadableStreamDefaultReader = body.get_reader().unchecked_into();
        let mut bytes = vec![];
        loop {
            let read = JsFuture::from(reader.read()).await.map_err(broken)?;
            if Reflect::get(&read, &"done".into()).map_err(broken)?.is_truthy() {
                return Ok(());
            }
            let chunk: Uint8Array = Reflect::get(&read, &"value".into()).map_err(broken)?.unchecked_into();
            bytes.resize(chunk.length() as usize, 0);
            chunk.copy_to(&mut bytes);
            part(&bytes)?;
        }
    }

    /// The whole body, up to a limit.
    async fn body(&self, limit: usize) -> Result<Vec<u8>, TransportError> {
        let mut body = vec![];
        self.stream(|bytes| {
            if body.len() + bytes.len() > limit {
                return Err(TransportError::Length { have: limit as u64 + 1, need: limit });
            }
            body.extend_from_slice(bytes);
            Ok(())
        })
        .await?;
        Ok(body)
    }
}

impl Exchange for FetchServer {
    fn name(&self) -> String {
        self.base.clone()
    }

    fn address(&self) -> Option<String> {
        Some(self.address.clone())
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        Some(Arc::new(BrowserClock))
    }

    fn fetch_manifest(&self) -> TransportFuture<'_, ManifestResponse> {
        Box::pin(async {
            let response = self.request(MANIFEST_PATH, None, None).await?;
            let index = response::index(response.header(SERVER_INDEX_HEADER).as_deref())?;
            let digests = response.header(PREVIOUS_MANIFESTS_HEADER).unwrap_or_default();
            let manifest = response.manifest().await?;
            let mut previous = vec![];
            for path in response::previous_manifest_paths(digests.as_bytes()) {
                previous.push(self.request(&path, None, None).await?.manifest().await?);
            }
            Ok(ManifestResponse { index, manifest, previous })
        })
    }

    fn send<'a>(&'a self, request: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        Box::pin(async move {
            let ServerRequest { route, message, length, credential } = request;
            let step = self.monitor.record_message(&self.base, route.path(), &message);
            self.monitor.report_progress(&self.base, step, 0, length);
            let mut verifier = ChecksumVerifier::new(length, response);
            let body = self.request(route.path(), Some(&message), credential.as_ref()).await?;
            response::check_length(body.header("content-length").as_deref(), length)?;
            let mut received = 0;
            body.stream(|bytes| {
                verifier.part(bytes)?;
                received += bytes.len();
                self.monitor.report_progress(&self.base, step, received.min(length), length);
                Ok(())
            })
            .await?;
            verifier.finish()
        })
    }
}

/// A browser does not reveal the reason, because pages must not learn about the user's network.
fn unreachable(error: &JsValue) -> TransportError {
    TransportError::Unreachable(format!(
        "{}; it may be offline, its certificate may not be trusted, or it does not allow this page",
        reason(error)
    ))
}

fn reason(error: &JsValue) -> String {
    let message = Reflect::get(error, &"message".into()).ok().and_then(|message| message.as_string());
    response::plain(&message.unwrap_or_else(|| "the connection failed".into()))
}
