//! Callstacks as lines: `program;main;work 42`.

use std::collections::BTreeMap;

use super::Profile;
use super::counts::{StackCounts, StackKey, Value};
use super::function::{Function, Line, Origin};

/// What stands before the functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum By {
    /// The name of the program; processes of one program are added up.
    #[default]
    Program,
    /// The program with its process id.
    Process,
    /// The program with its process id, and the thread with its own.
    Thread,
    /// Nothing.
    Function,
}

/// How callstacks are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FoldOptions {
    /// What stands before the functions.
    pub by: By,
    /// What is counted.
    pub value: Value,
    /// Marks functions by what they are, as tools that draw them expect: `_[k]` for the kernel, `_[i]` for inlined ones,
    /// `_[j]` for code compiled at run time.
    pub annotate: bool,
}

/// Lines of folded callstacks, the outermost function first, each callstack once, in the order of the text.
pub fn folded(profile: &Profile, counts: &StackCounts, options: &FoldOptions) -> Vec<String> {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for (key, count) in counts.iter(profile) {
        let value = count.value(options.value);
        if value == 0 {
            continue;
        }
        let total = lines.entry(stack(profile, key, options)).or_default();
        *total = total.saturating_add(value);
    }
    let lines = lines.into_iter();
    lines
        .map(|(stack, value)| format!("{stack} {value}"))
        .collect()
}

fn stack(profile: &Profile, key: &StackKey, options: &FoldOptions) -> String {
    let mut text = String::new();
    match options.by {
        By::Program => push(&mut text, &profile.program(key.machine, key.pid)),
        By::Process => push(&mut text, &process(profile, key)),
        By::Thread => {
            push(&mut text, &process(profile, key));
            let name = profile
                .thread_name(key.machine, key.tid)
                .unwrap_or("thread");
            push(&mut text, &format!("{name} [{}]", key.tid));
        }
        By::Function => {}
    }
    for line in profile.functions(key.stack) {
        let Some(function) = profile.function(line.function) else {
            continue;
        };
        push(&mut text, &function.name);
        if options.annotate {
            text.push_str(annotation(function, line));
        }
    }
    text
}

fn process(profile: &Profile, key: &StackKey) -> String {
    format!("{} [{}]", profile.program(key.machine, key.pid), key.pid)
}

fn annotation(function: &Function, line: Line) -> &'static str {
    match function.origin {
        Origin::Kernel => "_[k]",
        Origin::Jit => "_[j]",
        _ if line.is_inlined => "_[i]",
        _ => "",
    }
}

/// Adds a part. What would be taken for the end of the part or of the line is replaced.
fn push(text: &mut String, part: &str) {
    if !text.is_empty() {
        text.push(';');
    }
    text.extend(part.chars().map(|c| match c {
        ';' => ':',
        c if c.is_control() => ' ',
        c => c,
    }));
}

impl Profile {
    /// The name of the program that a process runs, without folder and arguments.
    pub fn program(&self, machine: u32, pid: i32) -> String {
        match self.process_name(machine, pid) {
            Some(name) => program(name).to_owned(),
            None if pid == 0 => "[idle]".to_owned(),
            None => format!("pid {pid}"),
        }
    }
}

/// `/usr/bin/cc -c x.c` is `cc`; kernel threads such as `kworker/0:1` keep their names.
fn program(command_line: &str) -> &str {
    if !command_line.starts_with(['/', '.']) {
        let first = command_line.split(' ').next().unwrap_or_default();
        return if first.is_empty() {
            command_line
        } else {
            first
        };
    }
    let path = command_line.split(' ').next().unwrap_or_default();
    path.rsplit('/')
        .next()
        .filter(|name| !name.is_empty())
        .unwrap_or(path)
}
