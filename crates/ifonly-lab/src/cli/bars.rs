//! Progress on standard error: bars on a terminal, otherwise a line for every tenth of the work.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::progress::ProgressSink;

/// Draws one progress bar at a time.
#[derive(Debug, Default)]
pub(super) struct Bars {
    bar: Mutex<Option<ProgressBar>>,
    /// The tenths that were printed.
    printed: Mutex<u64>,
}

impl Bars {
    fn with(&self, f: impl FnOnce(&mut Option<ProgressBar>)) {
        // A panic of another thread cannot make the bar invalid, so a poisoned lock is usable.
        f(&mut self.bar.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}

impl ProgressSink for Bars {
    fn start(&self, what: &str, steps: u64) {
        if !std::io::stderr().is_terminal() {
            eprintln!("{what}");
            *self.printed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = 0;
        }
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{msg:34} [{bar:32}] {pos}/{len} {elapsed} (about {eta} left)")
        {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        self.with(|slot| *slot = Some(bar));
    }

    fn advance(&self, steps: u64) {
        self.with(|slot| {
            if let Some(bar) = slot {
                bar.inc(steps);
                let tenths = 10 * bar.position() / bar.length().unwrap_or(1).max(1);
                let mut printed = self.printed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                if tenths > *printed && !std::io::stderr().is_terminal() {
                    eprintln!("{}: {}%", bar.message(), 10 * tenths);
                    *printed = tenths;
                }
            }
        });
    }

    fn finish(&self) {
        self.with(|slot| {
            if let Some(bar) = slot.take() {
                bar.finish_and_clear();
            }
        });
    }
}
