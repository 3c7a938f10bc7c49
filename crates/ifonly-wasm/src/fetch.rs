//! A server behind `fetch`: what a browser or Node has instead of sockets.
//!
//! The browser's own rules hold beside ours: the server must allow the page's origin (CORS), no
//! cookie or referrer is sent, no redirect is followed and nothing is cached. It does not say why a
//! connection failed.

use crate::clock::BrowserClock;
use crate::traffic_monitor::TrafficMonitor;
use ifonly_client::transport::{Call, Checked, Exchange, Greeting, Pending, Receive, TransportError, response};
use ifonly_client::{ClientError, Clock};
use ifonly_core::http_api::{EARLIER_HEADER, MANIFEST_PATH, MESSAGE_TYPE, SERVER_HEADER};
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
    // That of windows, workers and Node alike.
    #[wasm_bindgen(js_name = fetch)]
    fn fetch(request: &Request) -> Promise;
}

/// A server at a URL.
pub(crate) struct FetchServer {
    base: String,
    token: Option<String>,
    watch: Rc<TrafficMonitor>,
}

impl FetchServer {
    /// The server at `url`, by the same rules as everywhere: TLS, except on this machine.
    pub(crate) fn new(url: &str, token: Option<String>, watch: Rc<TrafficMonitor>) -> Result<FetchServer, ClientError> {
        let refuse = |reason| Err(ClientError::Url { url: url.into(), reason });
        let Ok(parsed) = Url::new(url) else { return refuse("it cannot be read; write https://host:port") };
        match parsed.protocol().as_str() {
            "https:" => {}
            "http:" if response::is_loopback(&parsed.hostname()) => {}
            "http:" => return refuse("plain HTTP is only for this machine; use https"),
            _ => return refuse("it must begin with https://"),
        }
        if !parsed.search().is_empty() || !parsed.hash().is_empty() {
            return refuse("it has a query or a fragment; give the address only");
        }
        if !parsed.username().is_empty() || !parsed.password().is_empty() {
            return refuse("it names a user; give the address only");
        }
        Ok(FetchServer { base: url.trim_end_matches('/').into(), token, watch })
    }

    /// The response to a request, if it is one.
    async fn request(&self, path: &str, message: Option<&[u8]>) -> Result<Exchanged, TransportError> {
        let broken = |_: JsValue| TransportError::Unreachable("the request cannot be made".into());
        let controller = Abort(AbortController::new().map_err(broken)?);
        let headers = Headers::new().map_err(broken)?;
        if let Some(token) = &self.token {
            headers.set("authorization", &format!("Bearer {token}")).map_err(broken)?;
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
        init.set_signal(Some(&controller.0.signal()));
        let request = Request::new_with_str_and_init(&format!("{}{path}", self.base), &init).map_err(broken)?;
        let response = JsFuture::from(fetch(&request)).await.map_err(|error| unreachable(&error))?;
        let response: Response = response.dyn_into().map_err(broken)?;
        let exchanged = Exchanged { response, _abort: controller };
        match exchanged.response.status() {
            200 => Ok(exchanged),
            status => {
                let retry_after = exchanged.header("retry-after");
                let body = exchanged.body(response::LONGEST_PROBLEM).await.unwrap_or_default();
                Err(response::refusal(status, retry_after.as_deref(), &body))
            }
        }
    }
}

/// A response, and the end of its request should nobody want it any more.
struct Exchanged {
    response: Response,
    _abort: Abort,
}

/// Ends a request that is still under way when it is let go.
struct Abort(AbortController);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Exchanged {
    fn header(&self, name: &str) -> Option<String> {
        self.response.headers().get(name).ok().flatten()
    }

    /// Hands the body over piece by piece.
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
        let mut whole = vec![];
        self.stream(|bytes| {
            if whole.len() + bytes.len() > limit {
                return Err(TransportError::Length { have: limit as u64 + 1, need: limit });
            }
            whole.extend_from_slice(bytes);
            Ok(())
        })
        .await?;
        Ok(whole)
    }
}

impl Exchange for FetchServer {
    fn name(&self) -> String {
        self.base.clone()
    }

    fn address(&self) -> Option<String> {
        Some(self.base.clone())
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        Some(Arc::new(BrowserClock))
    }

    fn greet(&self) -> Pending<'_, Greeting> {
        Box::pin(async {
            let response = self.request(MANIFEST_PATH, None).await?;
            let index = response::index(response.header(SERVER_HEADER).as_deref())?;
            let named = response.header(EARLIER_HEADER).unwrap_or_default();
            let manifest = response.body(MAX_JSON).await?.into();
            let mut earlier = vec![];
            for path in response::earlier_paths(named.as_bytes()) {
                earlier.push(self.request(&path, None).await?.body(MAX_JSON).await?.into());
            }
            Ok(Greeting { index, manifest, earlier })
        })
    }

    fn send<'a>(&'a self, call: Call, response: &'a mut dyn Receive) -> Pending<'a, ()> {
        Box::pin(async move {
            let Call { route, message, length } = call;
            let step = self.watch.sends(&self.base, route.path(), &message);
            self.watch.received(&self.base, step, 0, length);
            let mut checked = Checked::new(length, response);
            let body = self.request(route.path(), Some(&message)).await?;
            response::check_length(body.header("content-length").as_deref(), length)?;
            let mut received = 0;
            body.stream(|bytes| {
                checked.part(bytes)?;
                received += bytes.len();
                self.watch.received(&self.base, step, received.min(length), length);
                Ok(())
            })
            .await?;
            checked.finish()
        })
    }
}

/// Browsers do not say why, so as not to tell pages what is in their visitor's network.
fn unreachable(error: &JsValue) -> TransportError {
    TransportError::Unreachable(format!(
        "{}; nobody listens there, its certificate is not trusted here, or it does not allow pages from here to ask",
        reason(error)
    ))
}

fn reason(error: &JsValue) -> String {
    let message = Reflect::get(error, &"message".into()).ok().and_then(|message| message.as_string());
    response::plain(&message.unwrap_or_else(|| "it broke off".into()))
}
