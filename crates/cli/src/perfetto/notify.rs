//! Notifies other processes when all data sources have started.

use std::fs::File;
use std::io::Write;

use anyhow::{Context as _, Result};
use ferretto_shm::take_inherited;

/// All data sources have started, or the job is done.
const OK: u8 = 0;
/// The job failed before.
const FAILED: u8 = 1;

/// The processes that wait for the start. Each receives one byte, and then the end of the pipe.
#[derive(Default)]
pub(super) struct Listeners {
    waiting: Vec<Box<dyn Write>>,
}

impl Listeners {
    /// Returns the listener of `--notify-fd`, the number of an inherited descriptor.
    pub(super) fn inherited(number: Option<i32>) -> Result<Self> {
        let mut listeners = Self::default();
        if let Some(number) = number {
            let fd = take_inherited(number)
                .with_context(|| format!("--notify-fd {number} is not an open descriptor"))?;
            listeners.add(File::from(fd));
        }
        Ok(listeners)
    }

    pub(super) fn add(&mut self, listener: impl Write + 'static) {
        self.waiting.push(Box::new(listener));
    }

    /// Notifies all listeners. Further calls have no effect.
    pub(super) fn notify(&mut self, ok: bool) {
        let byte = if ok { OK } else { FAILED };
        for mut listener in self.waiting.drain(..) {
            // The listener may have ended.
            let _ = listener.write_all(&[byte]);
        }
    }
}
