//! Callstack samples in JSON: `samples` and `stackFrames` beside the events, events of V8's
//! profiler (phase P), and V8's own files (`.cpuprofile`).

use std::borrow::Cow;
use std::collections::HashMap;

use super::decimal;
use super::{Event, Json, Number};
use crate::sink::{Sample, Sink, ThreadRef};

/// The largest number of frames of a stack. Further ones are left out.
const MAX_FRAMES: usize = 1024;
/// The largest number of functions and samples. Further ones are left out.
const MAX_ENTRIES: usize = 8 << 20;

/// The samples of a file.
#[derive(Debug, Default)]
pub struct Samples {
    /// The functions, by profile and id.
    nodes: HashMap<(u32, String), Node>,
    samples: Vec<Entry>,
    threads: Vec<(Option<Number<'static>>, Option<Number<'static>>)>,
    /// The profiles of V8 by process and id: their number, thread and current time.
    profiles: HashMap<String, (u32, usize, i64)>,
    /// The lists of a `.cpuprofile`, until all have been read.
    start: i64,
    ids: Vec<String>,
    deltas: Vec<i64>,
}

#[derive(Debug)]
struct Node {
    function: String,
    file: String,
    parent: Option<String>,
}

#[derive(Debug)]
struct Entry {
    ts: i64,
    thread: usize,
    profile: u32,
    node: String,
}

impl Samples {
    /// Adds a part of the outer object.
    pub fn part(&mut self, key: &str, bytes: &[u8]) {
        let mut spare = Vec::new();
        match (key, Json::parse_leniently(bytes, &mut spare)) {
            ("stackFrames", Some(Json::Object(frames))) => {
                for (id, frame) in frames {
                    let function = text(&frame, "name").unwrap_or_default();
                    let file = text(&frame, "category").unwrap_or_default();
                    let parent = id_of(get(&frame, "parent"));
                    self.node(
                        0,
                        id.into_owned(),
                        Node {
                            function,
                            file,
                            parent,
                        },
                    );
                }
            }
            ("samples", Some(Json::Array(samples))) => {
                for sample in samples {
                    match id_of(Some(&sample)) {
                        Some(id) => self.ids.push(id),
                        None => self.sample(&sample),
                    }
                }
            }
            ("nodes", Some(Json::Array(nodes))) => self.nodes(0, &nodes),
            ("timeDeltas", Some(Json::Array(deltas))) => self.deltas = times(&deltas),
            ("startTime", Some(value)) => self.start = time(&value).unwrap_or(0),
            _ => {}
        }
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
        if !self.profiles.contains_key(&key) {
            let thread = self.thread(event.pid.as_ref(), event.tid.as_ref());
            let number = self.profiles.len() as u32 + 1;
            self.profiles
                .insert(key.clone(), (number, thread, event.ts));
        }
        let Some((number, thread, mut now)) = self.profiles.get(&key).copied() else {
            return false;
        };
        now = get(data, "startTime").and_then(time).unwrap_or(now);
        let chunk = get(data, "cpuProfile");
        if let Some(Json::Array(nodes)) = chunk.and_then(|chunk| get(chunk, "nodes")) {
            self.nodes(number, nodes);
        }
        let deltas = get(data, "timeDeltas").or(chunk.and_then(|chunk| get(chunk, "timeDeltas")));
        let deltas = match deltas {
            Some(Json::Array(deltas)) => times(deltas),
            _ => Vec::new(),
        };
        if let Some(Json::Array(ids)) = chunk.and_then(|chunk| get(chunk, "samples")) {
            for (index, id) in ids.iter().enumerate() {
                now = now.saturating_add(deltas.get(index).copied().unwrap_or(0));
                if let Some(node) = id_of(Some(id)) {
                    self.add(now, thread, number, node);
                }
            }
        }
        self.profiles.insert(key, (number, thread, now));
        true
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
        let ids = std::mem::take(&mut self.ids);
        let name = Number::Name(Cow::Borrowed("cpuprofile"));
        let mut now = self.start;
        for (index, id) in ids.into_iter().enumerate() {
            now = now.saturating_add(self.deltas.get(index).copied().unwrap_or(0));
            let thread = self.thread(Some(&name), Some(&name));
            self.add(now, thread, 0, id);
        }
        let mut samples = std::mem::take(&mut self.samples);
        samples.sort_by_key(|sample| sample.ts);
        let mut count = 0;
        for sample in samples {
            let Some(ts) = time(sink, sample.ts) else {
                continue;
            };
            let mut frames = Vec::new();
            let mut key = (sample.profile, sample.node);
            while let Some(node) = self.nodes.get(&key)
                && frames.len() < MAX_FRAMES
            {
                frames.push((&*node.function, &*node.file));
                let Some(parent) = &node.parent else { break };
                key.1.clone_from(parent);
            }
            let (pid, tid) = &self.threads[sample.thread];
            let (pid, tid) = (pid.as_ref(), tid.as_ref());
            sink.sample(&Sample {
                ts,
                thread: ThreadRef { pid, tid },
                frames: &frames,
            })?;
            count += 1;
        }
        Ok(count)
    }

    fn sample(&mut self, sample: &Json<'_>) {
        let number = |key| get(sample, key).cloned().and_then(super::event::number);
        let thread = self.thread(number("pid").as_ref(), number("tid").as_ref());
        let ts = get(sample, "ts").and_then(time);
        if let (Some(ts), Some(node)) = (ts, id_of(get(sample, "sf"))) {
            self.add(ts, thread, 0, node);
        }
    }

    fn add(&mut self, ts: i64, thread: usize, profile: u32, node: String) {
        if self.samples.len() < MAX_ENTRIES {
            self.samples.push(Entry {
                ts,
                thread,
                profile,
                node,
            });
        }
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
        if self.nodes.len() < MAX_ENTRIES {
            self.nodes.insert((profile, id), node);
        }
    }

    /// Adds functions of V8, which name their parent or their children.
    fn nodes(&mut self, profile: u32, nodes: &[Json<'_>]) {
        let mut parents = HashMap::new();
        for node in nodes {
            if let (Some(id), Some(Json::Array(children))) =
                (id_of(get(node, "id")), get(node, "children"))
            {
                let children = children.iter().filter_map(|child| id_of(Some(child)));
                parents.extend(children.map(|child| (child, id.clone())));
            }
        }
        for node in nodes {
            let Some(id) = id_of(get(node, "id")) else {
                continue;
            };
            let frame = get(node, "callFrame").unwrap_or(node);
            let function = text(frame, "functionName").filter(|name| !name.is_empty());
            let of = Node {
                function: function.unwrap_or_else(|| "(anonymous)".to_owned()),
                file: text(frame, "url").unwrap_or_default(),
                parent: id_of(get(node, "parent")).or_else(|| parents.remove(&id)),
            };
            self.node(profile, id, of);
        }
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

fn time(value: &Json<'_>) -> Option<i64> {
    decimal::nanoseconds(&id_of(Some(value))?)
}

fn times(values: &[Json<'_>]) -> Vec<i64> {
    values
        .iter()
        .map(|value| time(value).unwrap_or(0))
        .collect()
}

fn owned(number: &Number<'_>) -> Number<'static> {
    match number {
        Number::Number(number) => Number::Number(*number),
        Number::Other(number) => Number::Other(*number),
        Number::Name(name) => Number::Name(Cow::Owned(name.clone().into_owned())),
    }
}
