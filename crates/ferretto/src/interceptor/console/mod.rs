//! An interceptor that prints events as they happen.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, OnceLock, PoisonError};

use ferretto_format::Fnv1a;
use ferretto_proto::DataSourceConfig;
use ferretto_proto::console_config::Output;

use super::Interceptor;
use crate::decode::{CounterValue, Event, EventReader, Kind, Track, TrackKind, Tracks, Value};

/// The duration in nanoseconds from which on slices show their duration.
const LONG: u64 = 10_000_000;

const MILLISECOND: u64 = 1_000_000;

/// The width of the title column.
const TITLE: usize = 16;
const CATEGORY: usize = 5;

/// The escape sequences for terminal colours.
const DIM: &str = "\x1b[90m";
const RESET: &str = "\x1b[0m";

/// Prints a line for each event to standard output or standard error, in colour on a terminal.
pub(super) struct Console {
    output: Output,
    has_colours: bool,
    /// The time of the first event, from which the printed times count.
    start: OnceLock<u64>,
    /// The state that all writers share: a track that one thread describes is used by all.
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    tracks: Tracks,
    /// The open slices of each track.
    open: HashMap<u64, Vec<Open>>,
    /// The order of the tracks' first events, which determines their colours.
    order: HashMap<u64, usize>,
}

struct Open {
    begin: u64,
    name: String,
    categories: String,
}

impl Interceptor for Console {
    type Writer = EventReader;

    fn set_up(config: &DataSourceConfig) -> Self {
        let config = config.interceptor_config.as_option();
        let config = config.and_then(|config| config.console_config.as_option());
        let output = config.and_then(|config| config.output);
        let output = match output {
            Some(Output::OUTPUT_STDERR) => Output::OUTPUT_STDERR,
            _ => Output::OUTPUT_STDOUT,
        };
        let is_terminal = match output {
            Output::OUTPUT_STDERR => io::stderr().is_terminal(),
            _ => io::stdout().is_terminal(),
        };
        let has_colours = config.and_then(|config| config.enable_colors);
        Self {
            output,
            has_colours: has_colours.unwrap_or(is_terminal),
            start: OnceLock::new(),
            shared: Mutex::default(),
        }
    }

    fn new_writer(&self) -> EventReader {
        EventReader::default()
    }

    fn packet(&self, reader: &mut EventReader, packet: &[u8]) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let packet = reader.packet(packet, &mut shared.tracks);
        let Some(event) = packet.and_then(|packet| packet.event) else {
            return;
        };
        let start = *self.start.get_or_init(|| event.time);
        let text = self.lines(&mut shared, &event, start);
        // Output errors are ignored: the program goes on.
        let _ = match self.output {
            Output::OUTPUT_STDERR => io::stderr().write_all(text.as_bytes()),
            _ => io::stdout().write_all(text.as_bytes()),
        };
    }
}

impl Console {
    /// Returns the lines for an event: one for the event itself and one for each counter that it
    /// sets.
    fn lines(&self, shared: &mut Shared, event: &Event, start: u64) -> String {
        let mut text = String::new();
        let _ = match event.kind {
            Kind::Counter => self.counter(&mut text, shared, event, start),
            _ => self.event(&mut text, shared, event, start),
        };
        for (track, value) in &event.extra_counters {
            let counter = Event {
                track: *track,
                counter: Some(*value),
                ..event.clone()
            };
            let _ = self.counter(&mut text, shared, &counter, start);
        }
        text
    }

    fn event(
        &self,
        text: &mut String,
        shared: &mut Shared,
        event: &Event,
        start: u64,
    ) -> std::fmt::Result {
        let open = shared.open.entry(event.track).or_default();
        let mut name = event.name.clone().unwrap_or_default();
        let mut categories = event.categories.join(",");
        let mut duration = None;
        if event.kind == Kind::End
            && let Some(ended) = open.pop()
        {
            // An end event may lack the name and category of its slice.
            duration = Some(event.time.saturating_sub(ended.begin));
            if name.is_empty() {
                name = ended.name;
            }
            if categories.is_empty() {
                categories = ended.categories;
            }
        }
        let depth = open.len();
        if event.kind == Kind::Begin {
            open.push(Open {
                begin: event.time,
                name: name.clone(),
                categories: categories.clone(),
            });
        }
        self.prefix(text, shared, event, &categories, start)?;
        text.push_str(&"-  ".repeat(depth));
        if event.kind == Kind::End {
            text.push_str("} ");
        }
        let (colour, bright) = colours(&name);
        self.coloured(text, bright, &name)?;
        if event.kind == Kind::Begin {
            text.push_str(" {");
        }
        self.arguments(text, &event.arguments, colour, bright)?;
        match duration {
            Some(duration) if duration >= LONG => {
                self.dim(text, &format!(" +{}ms", duration / MILLISECOND))?;
            }
            _ => {}
        }
        text.push('\n');
        Ok(())
    }

    fn counter(
        &self,
        text: &mut String,
        shared: &mut Shared,
        event: &Event,
        start: u64,
    ) -> std::fmt::Result {
        let track = shared.tracks.get(event.track).cloned().unwrap_or_default();
        self.prefix(text, shared, event, &event.categories.join(","), start)?;
        let (_, bright) = colours(track.name.as_deref().unwrap_or_default());
        self.coloured(text, bright, track.name.as_deref().unwrap_or("counter"))?;
        match event.counter {
            Some(CounterValue::Integer(value)) => write!(text, " = {value}")?,
            Some(CounterValue::Double(value)) => write!(text, " = {value}")?,
            None => {}
        }
        if let TrackKind::Counter {
            unit: Some(unit), ..
        } = &track.kind
        {
            write!(text, " {unit}")?;
        }
        text.push('\n');
        Ok(())
    }

    /// Returns the start of a line: time, track and category.
    fn prefix(
        &self,
        text: &mut String,
        shared: &mut Shared,
        event: &Event,
        categories: &str,
        start: u64,
    ) -> std::fmt::Result {
        let track = shared.tracks.get(event.track);
        let owner = match track {
            // A counter's name follows later in the line.
            Some(Track {
                kind: TrackKind::Counter { .. },
                parent: Some(parent),
                ..
            }) => shared.tracks.get(*parent),
            track => track,
        };
        let title = cut(&title(owner, event.track), TITLE);
        let next = shared.order.len();
        let order = *shared.order.entry(event.track).or_insert(next);
        // May be negative, since events of other threads can be older.
        let seconds = event.time.wrapping_sub(start).cast_signed() as f64 / 1e9;
        if self.has_colours {
            let (r, g, b) = hue(spread(order));
            write!(
                text,
                "{DIM}[{seconds:7.3}] \x1b[48;2;{r};{g};{b}m {RESET}{DIM} "
            )?;
            write!(text, "{title:TITLE$} ")?;
        } else {
            write!(text, "[{seconds:7.3}] {title:TITLE$}  ")?;
        }
        let category = cut(categories, CATEGORY);
        write!(text, "{category:CATEGORY$} ")?;
        if self.has_colours {
            text.push_str(RESET);
        }
        Ok(())
    }

    fn arguments(
        &self,
        text: &mut String,
        arguments: &[(String, Value)],
        colour: Rgb,
        bright: Rgb,
    ) -> std::fmt::Result {
        if arguments.is_empty() {
            return Ok(());
        }
        self.coloured(text, colour, "(")?;
        for (index, (name, value)) in arguments.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            self.coloured(text, colour, &format!("{separator}{name}:"))?;
            self.coloured(text, bright, &value.to_string())?;
        }
        self.coloured(text, colour, ")")
    }

    fn coloured(&self, text: &mut String, (r, g, b): Rgb, part: &str) -> std::fmt::Result {
        if self.has_colours {
            write!(text, "\x1b[38;2;{r};{g};{b}m{part}{RESET}")
        } else {
            text.write_str(part)
        }
    }

    fn dim(&self, text: &mut String, part: &str) -> std::fmt::Result {
        if self.has_colours {
            write!(text, "{DIM}{part}{RESET}")
        } else {
            text.write_str(part)
        }
    }
}

/// Returns the text of the title column for a track.
fn title(track: Option<&Track>, uuid: u64) -> String {
    let Some(track) = track else {
        return uuid.to_string();
    };
    let own = track.name.as_ref().filter(|name| !name.is_empty());
    match (&track.kind, own) {
        (_, Some(name)) => name.clone(),
        (TrackKind::Thread { pid, tid, name }, None) => match name {
            Some(name) if !name.is_empty() => name.clone(),
            _ => format!("{pid}:{tid}"),
        },
        (TrackKind::Process { pid, .. }, None) => pid.to_string(),
        _ => uuid.to_string(),
    }
}

/// Truncates a text to `width` characters.
fn cut(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

type Rgb = (u8, u8, u8);

/// Returns the colours of a name: the normal and the bright one.
fn colours(name: &str) -> (Rgb, Rgb) {
    let hash = Fnv1a::hash(name.as_bytes());
    let (r, g, b) = hue((hash % 360) as u16);
    let brighter = |part: u8| part / 2 + 128;
    ((r, g, b), (brighter(r), brighter(g), brighter(b)))
}

/// Returns a hue. Consecutive numbers have very different hues.
fn spread(order: usize) -> u16 {
    // The golden angle.
    (order * 137 % 360) as u16
}

/// Returns the colour of a hue, in degrees.
fn hue(angle: u16) -> Rgb {
    let up = |from: u16| (angle.saturating_sub(from).min(60) * 255 / 60) as u8;
    let down = |from: u16| 255 - up(from);
    match angle {
        0..60 => (255, up(0), 0),
        60..120 => (down(60), 255, 0),
        120..180 => (0, 255, up(120)),
        180..240 => (0, down(180), 255),
        240..300 => (up(240), 0, 255),
        _ => (255, 0, down(300)),
    }
}

#[cfg(test)]
mod tests;
