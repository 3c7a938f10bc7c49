//! The clock of a browser or of Node: `performance.now` and `setTimeout`.

use ifonly_client::Clock;
use ifonly_client::transport::TransportFuture;
use js_sys::{Function, Promise};
use std::time::Duration;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_futures::JsFuture;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    fn now() -> f64;
    // Node returns an object, browsers a number; it is only passed to `clearTimeout`.
    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(then: &Function, milliseconds: i32) -> JsValue;
    #[wasm_bindgen(js_name = clearTimeout)]
    fn clear_timeout(timer: &JsValue);
}

/// Clears a timer on drop. Otherwise the timer of a deadline would keep Node running for minutes.
struct TimerGuard(JsValue);

impl Drop for TimerGuard {
    fn drop(&mut self) {
        clear_timeout(&self.0);
    }
}

/// The clock of a page, a worker or Node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BrowserClock;

impl Clock for BrowserClock {
    fn now(&self) -> Duration {
        Duration::try_from_secs_f64(now() / 1e3).unwrap_or_default()
    }

    fn wait_until(&self, time: Duration) -> TransportFuture<'_, ()> {
        Box::pin(async move {
            // A timer may fire a fraction of a millisecond early and lasts at most 24 days.
            while let Some(left) = time.checked_sub(self.now()).filter(|left| !left.is_zero()) {
                let milliseconds = i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
                let mut timer = JsValue::UNDEFINED;
                let sleep = Promise::new(&mut |resolve, _| timer = set_timeout(&resolve, milliseconds));
                let _guard = TimerGuard(timer);
                // This promise is never rejected.
                let _ = JsFuture::from(sleep).await;
            }
            Ok(())
        })
    }
}
