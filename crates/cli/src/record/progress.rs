//! The line that tells how the recording goes, on a terminal only.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use ferretto_trace::summary::human_bytes;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::print;

/// A progress line on standard error, or nothing where that is no terminal.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    started: Option<Instant>,
    duration: Option<Duration>,
    file: Option<File>,
    stopping: bool,
}

impl Progress {
    /// `file` is looked at for its size. With `visible` false nothing is ever shown.
    pub(super) fn new(visible: bool, duration: Option<Duration>, file: Option<File>) -> Self {
        let visible = visible && io::stderr().is_terminal();
        let target = if visible {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        Self {
            bar,
            started: None,
            duration,
            file,
            stopping: false,
        }
    }

    /// Recording has begun.
    pub(super) fn start(&mut self) {
        self.started = Some(Instant::now());
        self.tick();
    }

    /// The recording ends; what is left is flushing and writing.
    pub(super) fn stopping(&mut self) {
        self.stopping = true;
        self.tick();
    }

    /// Shows the present state.
    pub(super) fn tick(&mut self) {
        if self.bar.is_hidden() {
            return;
        }
        let message = match self.started {
            _ if self.stopping => "collecting the last events".to_owned(),
            None => "starting".to_owned(),
            Some(started) => self.recording(started.elapsed()),
        };
        self.bar.set_message(message);
        self.bar.tick();
    }

    fn recording(&self, elapsed: Duration) -> String {
        let show = |time: Duration| {
            let rounded = time.as_millis() / 100 * 100;
            print::duration((rounded as u64).saturating_mul(1_000_000))
        };
        let mut text = format!("recording  {:>4.1} s", elapsed.as_secs_f64());
        if elapsed >= Duration::from_secs(120) {
            text = format!("recording  {}", show(elapsed));
        }
        if let Some(duration) = self.duration {
            text.push_str(&format!(" of {}", show(duration)));
        }
        if let Some(size) = self.file.as_ref().and_then(|file| file.metadata().ok()) {
            text.push_str(&format!("  {}", human_bytes(size.len())));
        }
        text.push_str("  (Ctrl-C ends it)");
        text
    }

    /// Prints a line above the progress line, from any thread.
    pub(super) fn teller(&self) -> impl Fn(&str) + Send + Sync + 'static {
        let bar = self.bar.clone();
        move |line| bar.suspend(|| anstream::eprintln!("ferretto: {line}"))
    }

    /// Removes the line.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
