//! Telling others when all data sources have started.

use std::fs::File;
use std::io::Write;

use anyhow::{Context as _, Result};
use ferretto_shm::take_inherited;

/// Everything has started, or is done.
const OK: u8 = 0;
/// It failed before.
const FAILED: u8 = 1;

/// The processes that wait for the start: each gets one byte, and then the end of the pipe.
#[derive(Default)]
pub(super) struct Listeners {
    waiting: Vec<Box<dyn Write>>,
}

impl Listeners {
    /// Those that a command line names, by the number of a descriptor that this process was started
    /// with.
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

    /// Tells everybody. Only the first time counts.
    pub(super) fn notify(&mut self, ok: bool) {
        let byte = if ok { OK } else { FAILED };
        for mut listener in self.waiting.drain(..) {
            // It may be gone.
            let _ = listener.write_all(&[byte]);
        }
    }
}
