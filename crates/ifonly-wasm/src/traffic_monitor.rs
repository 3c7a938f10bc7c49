//! Shows users their own search: the progress of each server, and the messages sent to it.

use ifonly_core::transcript::{Message, Tau};
use js_sys::{Array, Function};
use std::cell::RefCell;
use std::rc::Rc;
use wasm_bindgen::JsValue;

/// The number of payload bytes that are kept to be shown.
const SHOWN_BYTES: usize = 96;

/// One message, as its server received it.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct SentMessage {
    server: u8,
    address: String,
    path: &'static str,
    /// Length of the message.
    bytes: usize,
    /// Length of the payload, which contains the share.
    payload: usize,
    /// The first bytes of the payload, in hexadecimal digits.
    begins: String,
    /// The number of one bits of the payload.
    ones: u64,
}

/// Records the messages of one search and reports its progress.
#[derive(Debug, Default)]
pub(crate) struct TrafficMonitor {
    progress: RefCell<Option<Function>>,
    sent: RefCell<Vec<(Tau, SentMessage)>>,
}

impl TrafficMonitor {
    pub(crate) fn new() -> Rc<TrafficMonitor> {
        Rc::default()
    }

    /// Starts a new search.
    pub(crate) fn start(&self, progress: Option<Function>) {
        *self.progress.borrow_mut() = progress;
        self.sent.borrow_mut().clear();
    }

    pub(crate) fn sent(&self) -> Vec<SentMessage> {
        self.sent.borrow().iter().map(|(_, sent)| sent.clone()).collect()
    }

    /// Records a message before it is sent; returns its step of the search, from 1. A retry is the
    /// same message and is recorded once.
    pub(crate) fn record_message(&self, address: &str, path: &'static str, message: &[u8]) -> usize {
        let Ok(decoded) = Message::decode(message) else { return 0 };
        let (tau, payload) = (decoded.tau(), &decoded.payload);
        let mut sent = self.sent.borrow_mut();
        let is_same = |(other, sent): &(Tau, SentMessage)| *other == tau && sent.server == decoded.server;
        if !sent.iter().any(is_same) {
            let new = SentMessage {
                server: decoded.server,
                address: address.to_owned(),
                path,
                bytes: message.len(),
                payload: payload.len(),
                begins: hex::encode(payload.get(..SHOWN_BYTES).unwrap_or(payload)),
                ones: payload.iter().map(|byte| u64::from(byte.count_ones())).sum(),
            };
            sent.push((tau, new));
        }
        sent.iter().filter(|(_, sent)| sent.server == decoded.server).count()
    }

    /// Reports how many bytes of a server's response have arrived.
    pub(crate) fn report_progress(&self, address: &str, step: usize, received: usize, of: usize) {
        if let Some(progress) = &*self.progress.borrow() {
            let numbers = [step, received, of].map(|number| JsValue::from_f64(number as f64));
            let arguments = Array::of1(&JsValue::from_str(address)).concat(&numbers.iter().collect::<Array>());
            // An exception of the callback does not stop the search.
            let _ = progress.apply(&JsValue::NULL, &arguments);
        }
    }
}
