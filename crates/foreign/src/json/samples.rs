//! Callstack samples in JSON: `samples` and `stackFrames` beside the events, events of V8's
//! profiler (phase P), and V8's own files (`.cpuprofile`).

use std::borrow::Cow;
use std::collections::HashMap;

use super::decimal;
use super::{Event, Json, Number};
use crate::sink::{Frame, Sample, Sink, ThreadRef};

/// The largest number of frames of a stack. Further ones are left out.
const MAX_FRAMES: usize = 1024;
/// The largest number of bytes of functions and samples. Further ones are left out and counted.
const MAX_BYTES: usize = 512 << 20;
/// The accounted bytes of a function or sample without its texts.
const ENTRY_BYTES: usize = 160;

/// The name of samples whose event is not named.
const UNNAMED: &str = "samples";

/// The samples of a file.
#[derive(Debug, Default)]
pub struct Samples {
    /// The functions, by profile and id.
    nodes: HashMap<(u32, String), Node>,
    /// The parents of functions that other functions name as their children.
    parents: HashMap<(u32, String), String>,
    samples: Vec<Entry>,
    threads: Vec<(Option<Number<'static>>, Option<Number<'static>>)>,
    /// The names of events.
    events: Vec<String>,
    /// The profiles of V8 by process and id.
    profiles: HashMap<String, Profile>,
    /// The lists of a `.cpuprofile`, until all have been read.
    start: i64,
    end: Option<i64>,
    ids: Vec<String>,
    deltas: Vec<i64>,
    bytes: usize,
    dropped: u64,
}

/// A profile of V8 in events.
#[derive(Debug, Clone, Copy)]
struct Profile {
    number: u32,
    thread: usize,
    now: i64,
    /// The index of its last sample, which lasts until the next one.
    last: Option<usize>,
}

#[derive(Debug)]
struct Node {
    function: String,
    file: String,
    line: Option<u32>,
    parent: Option<String>,
    /// The numbers of samples by line that are not given to samples yet.
    ticks: Vec<(u32, u64)>,
}

#[derive(Debug)]
struct Entry {
    ts: i64,
    thread: usize,
    profile: u32,
    node: String,
    event: usize,
    weight: Option<u64>,
    /// The time until the next sample; `None` if the format does not have one.
    time: Option<u64>,
    line: Option<u32>,
}

impl Samples {
    /// Adds a value of the outer object, or an element of its lists.
    pub fn part(&mut self, key: &str, bytes: &[u8]) {
        let mut spare = Vec::new();
        let Some(value) = Json::parse_leniently(bytes, &mut spare) else {
            self.dropped += 1;
            return;
        };
        match key {
            "samples" => match id_of(Some(&value)) {
                Some(id) if self.take(id.len()) => self.ids.push(id),
                Some(_) => {}
                None => self.sample(&value),
            },
            "nodes" => self.v8_node(0, &value),
            "timeDeltas" if self.take(0) => self.deltas.push(time(&value).unwrap_or(0)),
            "startTime" => self.start = time(&value).unwrap_or(0),
            "endTime" => self.end = time(&value),
            _ => {}
        }
    }

    /// Adds an entry of `stackFrames`.
    pub fn stack_frame(&mut self, id: &str, bytes: &[u8]) {
        let mut spare = Vec::new();
        let Some(frame) = Json::parse_leniently(bytes, &mut spare) else {
            self.dropped += 1;
            return;
        };
        let node = Node {
            function: text(&frame, "name").unwrap_or_default(),
            file: text(&frame, "category").unwrap_or_default(),
            line: None,
            parent: id_of(get(&frame, "parent")),
            ticks: Vec::new(),
        };
        self.node(0, id.to_owned(), node);
    }

    /// Returns the number of functions and samples that are left out.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Adds an event of V8's profiler. Returns false if it is none.
    pub fn event(&mut self, event: &Event<'_>) -> bool {
        if event.phase != b'P' {
            return false;
        }
        let args = event.args.as_deref().unwrap_or_default();
        let Some((_, data)) = args.iter().find(|(key, _)| key == "data") else {
            return false;
        };
        let key = format!("{:?} {:?}", event.pid, event.id);
        let mut of = match self.profiles.get(&key) {
            Some(known) => *known,
            None => Profile {
                number: self.profiles.len() as u32 + 1,
                thread: self.thread(event.pid.as_ref(), event.tid.as_ref()),
                now: event.ts,
                last: None,
            },
        };
        of.now = get(data, "startTime").and_then(time).unwrap_or(of.now);
        let chunk = get(data, "cpuProfile");
        let list = |key| {
            let list = get(data, key).or_else(|| get(chunk?, key));
            match list {
                Some(Json::Array(list)) => &list[..],
                _ => &[],
            }
        };
        for node in list("nodes") {
            self.v8_node(of.number, node);
        }
        let (deltas, lines) = (list("timeDeltas"), list("lines"));
        for (index, id) in list("samples").iter().enumerate() {
            let delta = deltas.get(index).and_then(time).unwrap_or(0);
            of.now = of.now.saturating_add(delta);
            self.end_sample(of.last, of.now);
            let line = lines.get(index).and_then(whole).filter(|line| *line > 0);
            of.last = id_of(Some(id)).and_then(|node| {
                self.add(Entry {
                    ts: of.now,
                    thread: of.thread,
                    profile: of.number,
                    node,
                    event: 0,
                    weight: None,
                    time: Some(0),
                    line: line.and_then(|line| u32::try_from(line).ok()),
                })
            });
        }
        if let Some(end) = get(data, "endTime").and_then(time) {
            self.end_sample(of.last, end);
        }
        self.profiles.insert(key, of);
        true
    }

    /// Sets the time of a sample that lasts until `end`.
    fn end_sample(&mut self, index: Option<usize>, end: i64) {
        if let Some(sample) = index.and_then(|index| self.samples.get_mut(index)) {
            let time = end.saturating_sub(sample.ts);
            sample.time = Some(u64::try_from(time).unwrap_or(0));
        }
    }

    /// Passes the samples on to a sink, in the order of time. `time` converts a time to the clock
    /// of the sink, if it can. Returns the number of samples.
    ///
    /// # Errors
    ///
    /// Fails if the sink does.
    pub fn finish<S: Sink>(
        &mut self,
        sink: &mut S,
        mut time: impl FnMut(&mut S, i64) -> Option<i64>,
    ) -> Result<u64, S::Error> {
        self.finish_file();
        let mut samples = std::mem::take(&mut self.samples);
        samples.sort_by_key(|sample| sample.ts);
        let mut count = 0;
        for sample in samples {
            let key = (sample.profile, sample.node);
            let line = sample.line.or_else(|| self.line_of(&key));
            let Some(ts) = time(sink, sample.ts) else {
                continue;
            };
            let frames = self.frames(key, line);
            let (pid, tid) = &self.threads[sample.thread];
            let (pid, tid) = (pid.as_ref(), tid.as_ref());
            let event = self.events.get(sample.event);
            sink.sample(&Sample {
                ts,
                thread: ThreadRef { pid, tid },
                event: event.map_or(UNNAMED, String::as_str),
                weight: sample.weight,
                time: sample.time,
                frames: &frames,
            })?;
            count += 1;
        }
        Ok(count)
    }

    /// Adds the samples of a `.cpuprofile`.
    fn finish_file(&mut self) {
        let ids = std::mem::take(&mut self.ids);
        let name = Number::Name(Cow::Borrowed("cpuprofile"));
        let (mut now, mut last) = (self.start, None);
        for (index, id) in ids.into_iter().enumerate() {
            now = now.saturating_add(self.deltas.get(index).copied().unwrap_or(0));
            self.end_sample(last, now);
            let thread = self.thread(Some(&name), Some(&name));
            last = self.add(Entry {
                ts: now,
                thread,
                profile: 0,
                node: id,
                event: 0,
                weight: None,
                time: Some(0),
                line: None,
            });
        }
        if let Some(end) = self.end {
            self.end_sample(last, end);
        }
    }

    /// Returns a line of a function's next sample. V8 counts the samples of a function by line,
    /// but not which is which.
    fn line_of(&mut self, key: &(u32, String)) -> Option<u32> {
        let ticks = &mut self.nodes.get_mut(key)?.ticks;
        let (line, left) = ticks.last_mut()?;
        let line = *line;
        *left -= 1;
        if *left == 0 {
            ticks.pop();
        }
        Some(line)
    }

    /// Returns the functions of a stack, the innermost first. Its line is that of the sample.
    fn frames(&self, mut key: (u32, String), mut line: Option<u32>) -> Vec<Frame<'_>> {
        let mut frames = Vec::new();
        while let Some(node) = self.nodes.get(&key)
            && frames.len() < MAX_FRAMES
        {
            frames.push(Frame {
                function: &node.function,
                file: &node.file,
                line: line.take().or(node.line),
            });
            let Some(parent) = node.parent.as_ref().or_else(|| self.parents.get(&key)) else {
                break;
            };
            key.1.clone_from(parent);
        }
        frames
    }

    /// Adds an object of `samples`.
    fn sample(&mut self, sample: &Json<'_>) {
        let number = |key| get(sample, key).cloned().and_then(super::event::number);
        let thread = self.thread(number("pid").as_ref(), number("tid").as_ref());
        let ts = get(sample, "ts").and_then(time);
        let (Some(ts), Some(node)) = (ts, id_of(get(sample, "sf"))) else {
            self.dropped += 1;
            return;
        };
        let name = text(sample, "name").filter(|name| !name.is_empty());
        let event = self.event_of(name.as_deref().unwrap_or(UNNAMED));
        let weight = get(sample, "weight").and_then(whole);
        self.add(Entry {
            ts,
            thread,
            profile: 0,
            node,
            event,
            weight,
            time: None,
            line: None,
        });
    }

    /// Returns the index of an event.
    fn event_of(&mut self, name: &str) -> usize {
        /// Further names count as the first.
        const MAX: usize = 256;
        if self.events.is_empty() {
            self.events.push(UNNAMED.to_owned());
        }
        match self.events.iter().position(|known| known == name) {
            Some(event) => event,
            None if self.events.len() >= MAX => 0,
            None => {
                self.events.push(name.to_owned());
                self.events.len() - 1
            }
        }
    }

    /// Adds a sample, and returns its index.
    fn add(&mut self, sample: Entry) -> Option<usize> {
        if !self.take(sample.node.len()) {
            return None;
        }
        self.samples.push(sample);
        Some(self.samples.len() - 1)
    }

    /// Takes the bytes of an entry from the budget. Counts the entry if they are too many.
    fn take(&mut self, texts: usize) -> bool {
        self.bytes += ENTRY_BYTES + texts;
        let fits = self.bytes <= MAX_BYTES;
        if !fits {
            self.bytes -= ENTRY_BYTES + texts;
            self.dropped += 1;
        }
        fits
    }

    fn thread(&mut self, pid: Option<&Number<'_>>, tid: Option<&Number<'_>>) -> usize {
        let thread = (pid.map(owned), tid.map(owned));
        if let Some(index) = self.threads.iter().rposition(|it| *it == thread) {
            return index;
        }
        self.threads.push(thread);
        self.threads.len() - 1
    }

    fn node(&mut self, profile: u32, id: String, node: Node) {
        let texts = id.len() + node.function.len() + node.file.len() + 16 * node.ticks.len();
        if self.take(texts) {
            self.nodes.insert((profile, id), node);
        }
    }

    /// Adds a function of V8, which names its parent or its children.
    fn v8_node(&mut self, profile: u32, node: &Json<'_>) {
        let Some(id) = id_of(get(node, "id")) else {
            return;
        };
        if let Some(Json::Array(children)) = get(node, "children") {
            for child in children.iter().filter_map(|child| id_of(Some(child))) {
                if self.take(child.len() + id.len()) {
                    self.parents.insert((profile, child), id.clone());
                }
            }
        }
        let frame = get(node, "callFrame").unwrap_or(node);
        let function = text(frame, "functionName").filter(|name| !name.is_empty());
        let mut ticks = Vec::new();
        if let Some(Json::Array(all)) = get(node, "positionTicks") {
            ticks.extend(all.iter().rev().filter_map(|tick| {
                let line = u32::try_from(whole(get(tick, "line")?)?).ok()?;
                let count = whole(get(tick, "ticks")?)?;
                (count > 0).then_some((line, count))
            }));
        }
        // V8 counts the lines of functions from 0.
        let line = get(frame, "lineNumber").and_then(whole);
        let of = Node {
            function: function.unwrap_or_else(|| "(anonymous)".to_owned()),
            file: text(frame, "url").unwrap_or_default(),
            line: line.and_then(|line| u32::try_from(line + 1).ok()),
            parent: id_of(get(node, "parent")),
            ticks,
        };
        self.node(profile, id, of);
    }
}

fn get<'a, 'j>(object: &'a Json<'j>, key: &str) -> Option<&'a Json<'j>> {
    match object {
        Json::Object(entries) => entries.iter().find(|(of, _)| of == key).map(|(_, it)| it),
        _ => None,
    }
}

fn text(object: &Json<'_>, key: &str) -> Option<String> {
    get(object, key)?.as_text().map(str::to_owned)
}

/// Returns an id, which is a number or a text.
fn id_of(value: Option<&Json<'_>>) -> Option<String> {
    match value? {
        Json::Text(text) => Some(text.clone().into_owned()),
        number @ (Json::Int(_) | Json::Uint(_) | Json::Real(_)) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns a number that is not negative, rounded, below 2^53.
fn whole(value: &Json<'_>) -> Option<u64> {
    const MOST: f64 = 9_007_199_254_740_992.0;
    let number: f64 = id_of(Some(value))?.parse().ok()?;
    (0.0..MOST)
        .contains(&number)
        .then_some(number.round() as u64)
}

fn time(value: &Json<'_>) -> Option<i64> {
    decimal::nanoseconds(&id_of(Some(value))?)
}

fn owned(number: &Number<'_>) -> Number<'static> {
    match number {
        Number::Number(number) => Number::Number(*number),
        Number::Other(number) => Number::Other(*number),
        Number::Name(name) => Number::Name(Cow::Owned(name.clone().into_owned())),
    }
}
