//! The browser's clock: `performance.now` and `setTimeout`.

use ifonly_client::Clock;
use ifonly_client::transport::Pending;
use js_sys::{Function, Promise};
use std::time::Duration;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_futures::JsFuture;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    fn now() -> f64;
    // Node gives an object where browsers give a number; it is only handed back.
    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(then: &Function, milliseconds: i32) -> JsValue;
    #[wasm_bindgen(js_name = clearTimeout)]
    fn clear_timeout(timer: &JsValue);
}

/// A timer that nobody waits for any more is taken back: a deadline would keep Node awake for
/// minutes.
struct Running(JsValue);

impl Drop for Running {
    fn drop(&mut self) {
        clear_timeout(&self.0);
    }
}

/// What the page or the worker has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BrowserClock;

impl Clock for BrowserClock {
    fn now(&self) -> Duration {
        Duration::try_from_secs_f64(now() / 1e3).unwrap_or_default()
    }

    fn wait_until(&self, time: Duration) -> Pending<'_, ()> {
        Box::pin(async move {
            // Timers may be early by a fraction of a millisecond, and end after 24 days.
            while let Some(left) = time.checked_sub(self.now()).filter(|left| !left.is_zero()) {
                let milliseconds = i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
                let mut timer = JsValue::UNDEFINED;
                let sleep = Promise::new(&mut |resolve, _| timer = set_timeout(&resolve, milliseconds));
                let _running = Running(timer);
                // Nobody rejects it.
                let _ = JsFuture::from(sleep).await;
            }
            Ok(())
        })
    }
}
