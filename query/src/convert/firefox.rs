//! Sampled callstacks in the format of Firefox' profiler ("Gecko profile").

use std::collections::HashMap;
use std::io::{self, Write};

use super::callstacks::{Samples, Thread};
use crate::engine::Engine;
use crate::output::push_text;

/// The version of the format.
const VERSION: u32 = 24;

pub(super) fn write(engine: &mut Engine, out: &mut dyn Write) -> io::Result<()> {
    let samples = Samples::read(engine)?;
    if samples.threads.is_empty() {
        let message = "the trace has no sampled callstacks, which are all that this format shows";
        return Err(io::Error::other(message));
    }
    let starts = samples.threads.iter().filter_map(|t| t.samples.first());
    let start = starts.map(|(ts, _)| *ts).min().unwrap_or_default();
    write!(
        out,
        "{{\"meta\":{{\"version\":{VERSION},\"interval\":1,\"startTime\":0,\"processType\":0,\
         \"product\":\"Ferretto\",\"stackwalk\":1,\"debug\":0,\"gcpoison\":0,\"asyncstack\":1,\
         \"shutdownTime\":null,\"presymbolicated\":true,\"categories\":[{{\"name\":\"Other\",\
         \"color\":\"grey\",\"subcategories\":[\"Other\"]}}],\"markerSchema\":[]}},\
         \"libs\":[],\"pages\":[],\"pausedRanges\":[],\"processes\":[],\"threads\":["
    )?;
    for (number, thread) in samples.threads.iter().enumerate() {
        if number > 0 {
            out.write_all(b",")?;
        }
        write_thread(&samples, thread, start, out)?;
    }
    out.write_all(b"]}\n")
}

/// The parts of a thread that its samples use, with numbers of their own.
#[derive(Debug, Default)]
struct Used {
    nodes: HashMap<usize, usize>,
    functions: HashMap<usize, usize>,
    /// The callers and functions of the nodes.
    stacks: Vec<(Option<usize>, usize)>,
    /// The functions in their order.
    frames: Vec<usize>,
}

impl Used {
    /// Adds a node with its callers.
    fn add(&mut self, samples: &Samples, node: usize) -> usize {
        let mut missing = Vec::new();
        let mut at = Some(node);
        while let Some(node) = at.filter(|node| !self.nodes.contains_key(node)) {
            missing.push(node);
            at = samples.nodes[node].caller;
        }
        for node in missing.into_iter().rev() {
            let of = samples.nodes[node];
            let frame = *self.functions.entry(of.function).or_insert_with(|| {
                self.frames.push(of.function);
                self.frames.len() - 1
            });
            let caller = of
                .caller
                .and_then(|caller| self.nodes.get(&caller).copied());
            self.nodes.insert(node, self.stacks.len());
            self.stacks.push((caller, frame));
        }
        self.nodes[&node]
    }
}

/// Returns nanoseconds as milliseconds.
fn milliseconds(ns: i64) -> String {
    format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000)
}

fn write_thread(
    samples: &Samples,
    thread: &Thread,
    start: i64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut used = Used::default();
    let rows: Vec<(i64, usize)> = thread
        .samples
        .iter()
        .map(|(ts, node)| (ts - start, used.add(samples, *node)))
        .collect();
    let mut text = String::from("{\"name\":");
    push_text(&mut text, &thread.name);
    text.push_str(",\"processName\":");
    push_text(&mut text, &thread.process);
    let begin = rows.first().map_or(0, |row| row.0);
    text.push_str(&format!(
        ",\"processType\":\"default\",\"tid\":{},\"pid\":{},\"registerTime\":{},\
         \"unregisterTime\":null,\"markers\":{{\"schema\":{{\"name\":0,\"startTime\":1,\
         \"endTime\":2,\"phase\":3,\"category\":4,\"data\":5}},\"data\":[]}},\
         \"samples\":{{\"schema\":{{\"stack\":0,\"time\":1,\"responsiveness\":2}},\"data\":[",
        thread.tid,
        thread.pid,
        milliseconds(begin)
    ));
    let list = |text: &mut String, rows: &mut dyn Iterator<Item = String>| {
        for (number, row) in rows.enumerate() {
            if number > 0 {
                text.push(',');
            }
            text.push_str(&row);
        }
    };
    let mut sampled = rows
        .iter()
        .map(|(ts, stack)| format!("[{stack},{},0]", milliseconds(*ts)));
    list(&mut text, &mut sampled);
    text.push_str(
        "]},\"frameTable\":{\"schema\":{\"location\":0,\"relevantForJS\":1,\"innerWindowID\":2,\
         \"implementation\":3,\"line\":4,\"column\":5,\"category\":6,\"subcategory\":7},\"data\":[",
    );
    let mut frames = used.frames.iter().enumerate().map(|(number, function)| {
        let line = samples.functions[*function].line;
        let line = line.map_or("null".to_owned(), |line| line.to_string());
        format!("[{number},false,0,null,{line},null,0,0]")
    });
    list(&mut text, &mut frames);
    text.push_str("]},\"stackTable\":{\"schema\":{\"prefix\":0,\"frame\":1},\"data\":[");
    let mut stacks = used.stacks.iter().map(|(caller, frame)| match caller {
        Some(caller) => format!("[{caller},{frame}]"),
        None => format!("[null,{frame}]"),
    });
    list(&mut text, &mut stacks);
    text.push_str("]},\"stringTable\":[");
    let mut names = used.frames.iter().map(|function| {
        let function = &samples.functions[*function];
        let library = function.mapping.rsplit('/').next().unwrap_or_default();
        let name = match library {
            "" => function.name.clone(),
            library => format!("{} (in {library})", function.name),
        };
        let mut quoted = String::new();
        push_text(&mut quoted, &name);
        quoted
    });
    list(&mut text, &mut names);
    text.push_str("]}");
    out.write_all(text.as_bytes())
}
