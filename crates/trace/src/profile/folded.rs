//! Callstacks as lines: `program;main;work 42`.

use std::collections::BTreeMap;

use super::Profile;
use super::counts::{StackCounts, StackKey, Value};
use super::label::{By, Label, LabelKind};

/// The label of callstacks that exceed the memory limit.
const LEFT_OUT: &str = "[memory limit reached]";
/// The number of copies of a line: while sorting, in the result, and at the caller.
const LINE_COPIES: usize = 4;
/// The length of a line, in bytes, after which further functions are left out.
const MAX_LINE: usize = 1 << 20;

/// Options of folded callstacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FoldOptions {
    /// The labels before the functions.
    pub by: By,
    /// The quantity to count.
    pub value: Value,
    /// Adds the annotations of flamegraph tools to functions: `_[k]` for the kernel, `_[i]` for
    /// inlined functions, `_[j]` for JIT-compiled code.
    pub annotate: bool,
}

/// Returns a sorted line per distinct callstack, with the outermost function first.
pub fn folded(profile: &Profile, counts: &StackCounts, options: &FoldOptions) -> Vec<String> {
    let is_off_cpu = counts.is_off_cpu(profile);
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for (key, count) in counts.iter(profile) {
        let value = count.value(options.value);
        if value == 0 {
            continue;
        }
        let mut text = stack(profile, key, options, is_off_cpu);
        let budget = &profile.decoder.budget;
        if !lines.contains_key(&text) && !budget.take(LINE_COPIES * (text.len() + 64)) {
            LEFT_OUT.clone_into(&mut text);
        }
        let total = lines.entry(text).or_default();
        *total = total.saturating_add(value);
    }
    let lines = lines.into_iter();
    lines
        .map(|(stack, value)| format!("{stack} {value}"))
        .collect()
}

fn stack(profile: &Profile, key: &StackKey, options: &FoldOptions, is_off_cpu: bool) -> String {
    let mut text = String::new();
    for label in profile.task_labels(key, options.by) {
        push(&mut text, &label.name);
    }
    for line in profile.lines(profile.shown_stack(key.stack, is_off_cpu)) {
        let Some(function) = profile.function(line.function) else {
            continue;
        };
        if text.len() > MAX_LINE {
            push(&mut text, "[…]");
            break;
        }
        let label = Label::function(function, line.is_inlined);
        push(&mut text, &label.name);
        if options.annotate {
            text.push_str(annotation(label.kind));
        }
    }
    text
}

fn annotation(kind: LabelKind) -> &'static str {
    match kind {
        LabelKind::Kernel => "_[k]",
        LabelKind::Jit => "_[j]",
        LabelKind::Inlined => "_[i]",
        _ => "",
    }
}

/// Appends a part. Characters that separate parts or lines are replaced.
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
