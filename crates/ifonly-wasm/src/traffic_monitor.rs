//! What a person may see of their own search: how far each server is, and what it was sent.

use ifonly_core::transcript::{Message, Tau};
use js_sys::{Array, Function};
use std::cell::RefCell;
use std::rc::Rc;
use wasm_bindgen::JsValue;

/// So many bytes of a payload are kept to be shown.
const SHOWN: usize = 96;

/// One message, as its server saw it.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct SentMessage {
    server: u8,
    address: String,
    path: &'static str,
    /// Of the whole message.
    bytes: usize,
    /// Of the part that holds the share.
    payload: usize,
    /// How it begins, in hexadecimal digits.
    begins: String,
    /// How many of its bits are ones.
    ones: u64,
}

/// Looks over the servers' shoulders for one person.
#[derive(Debug, Default)]
pub(crate) struct TrafficMonitor {
    progress: RefCell<Option<Function>>,
    sent: RefCell<Vec<(Tau, SentMessage)>>,
}

impl TrafficMonitor {
    pub(crate) fn new() -> Rc<TrafficMonitor> {
        Rc::default()
    }

    /// A new search begins.
    pub(crate) fn start(&self, progress: Option<Function>) {
        *self.progress.borrow_mut() = progress;
        self.sent.borrow_mut().clear();
    }

    pub(crate) fn sent(&self) -> Vec<SentMessage> {
        self.sent.borrow().iter().map(|(_, sent)| sent.clone()).collect()
    }

    /// A message leaves; returns which step of the search it belongs to, counted from 1. A retry is
    /// the same message.
    pub(crate) fn sends(&self, address: &str, path: &'static str, message: &[u8]) -> usize {
        let Ok(opened) = Message::decode(message) else { return 0 };
        let (tau, payload) = (opened.tau(), &opened.payload);
        let mut sent = self.sent.borrow_mut();
        let known = |(known, sent): &(Tau, SentMessage)| *known == tau && sent.server == opened.server;
        if !sent.iter().any(known) {
            let new = SentMessage {
                server: opened.server,
                address: address.to_owned(),
                path,
                bytes: message.len(),
                payload: payload.len(),
                begins: hex::encode(payload.get(..SHOWN).unwrap_or(payload)),
                ones: payload.iter().map(|byte| u64::from(byte.count_ones())).sum(),
            };
            sent.push((tau, new));
        }
        sent.iter().filter(|(_, sent)| sent.server == opened.server).count()
    }

    /// So much of a server's answer is here.
    pub(crate) fn received(&self, address: &str, step: usize, received: usize, of: usize) {
        if let Some(progress) = &*self.progress.borrow() {
            let numbers = [step, received, of].map(|number| JsValue::from_f64(number as f64));
            let told = Array::of1(&JsValue::from_str(address)).concat(&numbers.iter().collect::<Array>());
            // Whoever listens may fail; the search goes on.
            let _ = progress.apply(&JsValue::NULL, &told);
        }
    }
}
