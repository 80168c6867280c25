//! The progress of a recording: a line on terminals, or events for programs.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ferretto_heapprofd::Live;
use ferretto_text::amount::{duration, human_bytes};

use crate::messages;
use crate::summary::terminal_width;

/// A progress line on standard error, if that is a terminal.
///
/// The line is not padded to the width of the terminal as in progress bar libraries: the echo of
/// Ctrl-C would then wrap and leave the old line behind.
#[derive(Debug)]
pub(super) struct Progress {
    line: Line,
    started: Option<Instant>,
    duration: Option<Duration>,
    file: Option<File>,
    heap: Option<Arc<Live>>,
    stopping: bool,
    events: Option<Events>,
}

/// The progress as events for programs, at most one a period unless the state changes.
#[derive(Debug, Default)]
struct Events {
    last: Option<(&'static str, Instant)>,
}

/// The least time between two events of the same state.
const PERIOD: Duration = Duration::from_secs(1);

impl Events {
    fn tell(&mut self, state: &'static str, progress: &Facts) {
        let now = Instant::now();
        if let Some((last, at)) = self.last
            && last == state
            && now < at + PERIOD
        {
            return;
        }
        self.last = Some((state, now));
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        messages::tell_event("progress", |all| {
            all.add("state", state);
            all.add("elapsed_ns", progress.elapsed.map(ns));
            all.add("duration_ns", progress.duration.map(ns));
            all.add("written_bytes", progress.bytes);
        });
    }
}

/// The facts of an event.
struct Facts {
    elapsed: Option<Duration>,
    duration: Option<Duration>,
    bytes: Option<u64>,
}

impl Progress {
    /// Creates a progress line that shows the size of `file`. Shows nothing unless `visible`.
    pub(super) fn new(visible: bool, duration: Option<Duration>, file: Option<File>) -> Self {
        let line = Line(Arc::new(Mutex::new(Shown {
            visible: visible && !messages::is_json() && io::stderr().is_terminal(),
            drawn: false,
        })));
        Self {
            line,
            started: None,
            duration,
            file,
            heap: None,
            stopping: false,
            events: (visible && messages::is_json()).then(Events::default),
        }
    }

    /// Sets the duration of the recording.
    pub(super) fn duration(&self) -> Option<Duration> {
        self.duration
    }

    /// Shows the allocated memory, too.
    pub(super) fn show_heap(&mut self, live: Arc<Live>) {
        self.heap = Some(live);
    }

    /// Marks the start of the recording.
    pub(super) fn start(&mut self) {
        self.started = Some(Instant::now());
        self.tick();
    }

    /// Marks the end of the recording, before flushing and writing.
    pub(super) fn stopping(&mut self) {
        self.stopping = true;
        self.tick();
    }

    /// Returns true if somebody sees the tenths of a second of the line, or other programs read it.
    pub(super) fn is_lively(&self) -> bool {
        let is_young = self.started.is_none_or(|at| at.elapsed() < LIVELY);
        self.events.is_some() || (self.line.is_visible() && is_young)
    }

    /// Updates the line.
    pub(super) fn tick(&mut self) {
        if let Some(events) = &mut self.events {
            let state = match self.started {
                _ if self.stopping => "stopping",
                None => "starting",
                Some(_) => "recording",
            };
            let size = self.file.as_ref().and_then(|file| file.metadata().ok());
            let facts = Facts {
                elapsed: self.started.map(|started| started.elapsed()),
                duration: self.duration,
                bytes: size.map(|size| size.len()),
            };
            return events.tell(state, &facts);
        }
        match self.started {
            _ if self.stopping => self.line.draw("collecting the last events"),
            None => self.line.draw("starting"),
            Some(started) if self.line.is_visible() => {
                self.line.draw(&self.recording(started.elapsed()));
            }
            Some(_) => {}
        }
    }

    fn recording(&self, elapsed: Duration) -> String {
        let mut text = format!("recording  {}", shown(elapsed));
        if let Some(duration) = self.duration {
            text.push_str(&format!(" of {}", shown(duration)));
        }
        if let Some(size) = self.file.as_ref().and_then(|file| file.metadata().ok()) {
            text.push_str(&format!("  {}", human_bytes(size.len())));
        }
        if let Some(live) = &self.heap {
            text.push_str(&format!("  heap {}", human_bytes(live.bytes())));
        }
        text.push_str("  (Ctrl-C ends it)");
        text
    }

    /// Prints a line above the progress line, from any thread.
    pub(super) fn reporter(&self) -> impl Fn(&str) + Send + Sync + 'static {
        let line = self.line.clone();
        move |text| line.above(text)
    }

    /// Removes the line.
    pub(super) fn finish(&self) {
        self.line.remove();
    }
}

/// The last line of the terminal, shared by the threads that write there.
#[derive(Debug, Clone)]
struct Line(Arc<Mutex<Shown>>);

#[derive(Debug)]
struct Shown {
    visible: bool,
    drawn: bool,
}

/// The time after which the line of a ring is updated less often.
const LIVELY: Duration = Duration::from_secs(60);

/// The escape sequence that erases the line.
const ERASE: &str = "\r\x1b[K";

impl Line {
    fn is_visible(&self) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .visible
    }

    fn draw(&self, text: &str) {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !shown.visible {
            return;
        }
        let mut stderr = io::stderr().lock();
        // A wrapped line could not be erased.
        let width = terminal_width(&stderr).unwrap_or(80).saturating_sub(1);
        let text: String = text.chars().take(width).collect();
        // Errors are ignored, since the recording continues without a terminal.
        let _ = write!(stderr, "{ERASE}{text}").and_then(|()| stderr.flush());
        shown.drawn = true;
    }

    fn above(&self, text: &str) {
        self.remove();
        eprintln!("ferretto: {}", ferretto_text::terminal::shown(text));
    }

    fn remove(&self) {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut shown.drawn) {
            let mut stderr = io::stderr().lock();
            let _ = write!(stderr, "{ERASE}").and_then(|()| stderr.flush());
        }
    }
}

/// Formats an elapsed time: `2.3 s`, `30 s`, `5 min 10 s`.
fn shown(time: Duration) -> String {
    let tenths = time.as_millis() / 100;
    match tenths {
        0..1200 if tenths.is_multiple_of(10) && time.subsec_millis() == 0 => {
            format!("{} s", time.as_secs())
        }
        0..1200 => format!("{}.{} s", tenths / 10, tenths % 10),
        _ => duration(time.as_nanos().try_into().unwrap_or(u64::MAX)),
    }
}
