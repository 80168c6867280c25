//! Sets of arguments and callstacks, which are shared by rows of several frames.

use ferretto_tables::Trace;
use ferretto_trace::profile::switches_threads;
use rustc_hash::FxHashMap;

use crate::details::arg_text;
use crate::frame::{Code, Frame, Texts};
use crate::nodes::NONE;
use crate::profile::functions;

/// Sets of arguments, numbered from 1 in the order of use.
#[derive(Debug, Default)]
pub(super) struct Sets {
    /// The number of each set of the trace; 0 for unused ones.
    numbers: Vec<u32>,
    sets: Vec<u32>,
}

impl Sets {
    /// Returns the number of a set; 0 for none.
    pub(super) fn number(&mut self, set: Option<u32>) -> u32 {
        let Some(set) = set else {
            return 0;
        };
        let index = set as usize;
        if self.numbers.len() <= index {
            self.numbers.resize(index + 1, 0);
        }
        if self.numbers[index] == 0 {
            self.sets.push(set);
            self.numbers[index] = self.sets.len() as u32;
        }
        self.numbers[index]
    }

    pub(super) fn frame(&self, trace: &Trace) -> Vec<u8> {
        let strings = trace.strings();
        let mut texts = Texts::default();
        let (mut set, mut key) = (Vec::new(), Vec::new());
        let (mut kind, mut value) = (Vec::new(), Vec::new());
        let mut numbers: FxHashMap<String, u32> = FxHashMap::default();
        for (index, id) in self.sets.iter().enumerate() {
            for arg in trace.tables().args.set(*id) {
                set.push(index as u64 + 1);
                key.push(u64::from(texts.of(strings, arg.key)));
                kind.push(u64::from(texts.number(arg.value.type_name())));
                let text = arg_text(arg.value, strings);
                let number = *numbers
                    .entry(text)
                    .or_insert_with_key(|text| texts.add(text.clone()));
                value.push(u64::from(number));
            }
        }
        let mut frame = Frame::new("args");
        frame.texts(texts);
        frame.whole("set", "u32", Code::Delta, set.into_iter());
        frame.whole("key", "u32", Code::Varint, key.into_iter());
        frame.whole("type", "u32", Code::Varint, kind.into_iter());
        frame.whole("value", "u32", Code::Varint, value.into_iter());
        frame.finish()
    }
}

/// Callsites, with one for each inlined function.
#[derive(Debug)]
pub(super) struct Callsites<'a> {
    trace: &'a Trace,
    /// The row of each callsite.
    rows: FxHashMap<u32, u32>,
    parent: Vec<u32>,
    functions: Vec<[u32; 3]>,
    texts: Texts<'a>,
    numbers: FxHashMap<String, u32>,
    /// True for functions that switch threads.
    switching: Vec<bool>,
}

impl<'a> Callsites<'a> {
    pub(super) fn new(trace: &'a Trace) -> Self {
        Self {
            trace,
            rows: FxHashMap::default(),
            parent: Vec::new(),
            functions: Vec::new(),
            texts: Texts::default(),
            numbers: FxHashMap::default(),
            switching: Vec::new(),
        }
    }

    /// Returns the row of a callsite.
    pub(super) fn row(&mut self, callsite: Option<u32>) -> u32 {
        let table = &self.trace.tables().stack_profile_callsite;
        let mut missing = Vec::new();
        let mut above = NONE;
        let mut next = callsite;
        while let Some(at) = next.filter(|at| *at < table.len()) {
            if let Some(row) = self.rows.get(&at) {
                above = *row;
                break;
            }
            missing.push(at);
            next = table.parent_id().get(at).filter(|parent| *parent < at);
        }
        while let Some(at) = missing.pop() {
            let all = functions(self.trace, table.frame_id().get(at));
            for function in all.into_iter().rev() {
                self.switching.push(switches_threads(&function.name));
                let texts = [function.name, function.file, function.line];
                let texts = texts.map(|text| self.text(text));
                self.parent.push(above);
                self.functions.push(texts);
                above = self.parent.len() as u32 - 1;
            }
            self.rows.insert(at, above);
        }
        above
    }

    /// Returns the row of a callsite without its innermost functions that switch threads.
    pub(super) fn waiting_row(&mut self, callsite: Option<u32>) -> u32 {
        let whole = self.row(callsite);
        let mut row = whole;
        while self.switching.get(row as usize) == Some(&true) {
            row = self.parent[row as usize];
        }
        if row == NONE { whole } else { row }
    }

    fn text(&mut self, text: String) -> u32 {
        if let Some(number) = self.numbers.get(&text) {
            return *number;
        }
        let number = self.texts.add(text.clone());
        self.numbers.insert(text, number);
        number
    }

    pub(super) fn frame(self) -> Vec<u8> {
        let mut frame = Frame::new("callsites");
        frame.texts(self.texts);
        let parents = self.parent.iter().map(|parent| u64::from(*parent));
        frame.whole("parent", "u32", Code::Delta, parents);
        for (index, name) in ["name", "file", "line"].into_iter().enumerate() {
            let column = self.functions.iter().map(|texts| u64::from(texts[index]));
            frame.whole(name, "u32", Code::Varint, column);
        }
        frame.finish()
    }
}
