//! The overview of a trace: a bit of everything that it tells.

use std::collections::HashMap;

use ferretto_mcp::Answer;
use ferretto_why::StateKind;
use serde_json::{Value, json};

use super::flatten::{mixed, section, without};
use super::loaded::Loaded;

/// The items of each section that come first.
const FIRST: usize = 4;
/// The names of slices and the threads that are listed.
const MAX_LISTED: usize = 100;

pub(super) fn answer(loaded: &mut Loaded) -> Result<Answer, String> {
    let name = loaded.name.clone();
    let summary = loaded.summary()?;
    let bounds = &loaded.trace.tables().trace_bounds;
    let (start, end) = (bounds.start_ts().get(0), bounds.end_ts().get(0));
    let slices = slices(loaded);
    let threads = threads(loaded);
    let why = loaded.why();
    let recorded = why.recorded();
    let missing = recorded.missing();
    let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let command = match &summary["command"] {
        Value::Object(_) => without(&summary["command"], &["slices"]),
        _ => Value::Null,
    };
    let head = json!({
        "file": name,
        "start_ns": start,
        "end_ns": end,
        "duration_ns": summary["duration_ns"],
        "bytes": summary["bytes"],
        "complete": summary["complete"],
        "command": command,
        "recorded": {
            "switches": recorded.switches,
            "wakeups": recorded.wakeups,
            "system_calls": recorded.system_calls,
            "interrupts": recorded.interrupts,
            "samples": recorded.samples,
            "waits": recorded.waits,
            "heaps": summary["heaps"].as_array().is_some_and(|heaps| !heaps.is_empty()),
        },
    });
    let mut functions = Vec::new();
    for profile in summary["profiles"].as_array().into_iter().flatten() {
        for mut item in section("function", &profile["functions"]) {
            item["off_cpu"] = profile["off_cpu"].clone();
            item["unit"] = profile["unit"].clone();
            functions.push(item);
        }
    }
    let mut sites = Vec::new();
    for heap in summary["heaps"].as_array().into_iter().flatten() {
        sites.extend(section("heap-site", &heap["sites"]));
    }
    let named = |name: &'static str, list: &Value| section(name, list).collect::<Vec<_>>();
    let sections = vec![
        named("loss", &summary["losses"]),
        named("doubt", &summary["unknown"]),
        named("left-out", &summary["left_out"]),
        named("note", &summary["notes"]),
        slices,
        threads,
        functions,
        sites,
        named("process", &summary["processes"]),
        named("own-system-call", &summary["own_system_calls"]),
        named("activity", &summary["activity"]),
        named("memory", &summary["memory"]["processes"]),
        named("cpu", &summary["cpus"]),
        named("missing", &json!(missing)),
        named("source", &summary["sources"]),
        named("counter", &summary["counters"]),
        named("machine", &summary["machines"]),
    ];
    Ok(Answer::new(head, mixed(sections, FIRST)))
}

/// Returns the names of slices, the longest total first.
fn slices(loaded: &Loaded) -> Vec<Value> {
    let slices = &loaded.trace.tables().slice;
    // The number, the total and the longest by name, with the longest slice.
    let mut names: HashMap<_, (u64, i64, i64, u32)> = HashMap::new();
    for row in 0..slices.len() {
        let dur = slices.dur().get(row).max(0);
        let of = names.entry(slices.name().get(row)).or_default();
        of.0 += 1;
        of.1 = of.1.saturating_add(dur);
        if dur > of.2 || of.0 == 1 {
            (of.2, of.3) = (dur, row);
        }
    }
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_by_key(|(_, (_, total, _, longest))| (-total, *longest));
    let listed = names.into_iter().take(MAX_LISTED);
    listed
        .map(|(name, (count, total, max, longest))| {
            json!({
                "section": "slice",
                "name": loaded.trace.strings().get(name),
                "count": count,
                "total_ns": total,
                "max_ns": max,
                "longest_slice": longest,
            })
        })
        .collect()
}

/// Returns the threads of programs, the busiest first.
fn threads(loaded: &mut Loaded) -> Vec<Value> {
    let why = loaded.why();
    let tables = why.trace().tables();
    let count = tables.thread.len().min(why.schedule().threads());
    let mut threads = Vec::new();
    for thread in (0..count).filter(|it| !why.is_kernel_thread(*it) && !why.is_recorder(*it)) {
        let (mut running, mut runnable, mut blocked) = (0, 0, 0);
        for state in why.schedule().states(thread) {
            let dur = state.end - state.start;
            match state.kind {
                StateKind::Running => running += dur,
                StateKind::Runnable => runnable += dur,
                StateKind::Blocked(_) => blocked += dur,
                _ => {}
            }
        }
        if running > 0 {
            threads.push((running, runnable, blocked, thread));
        }
    }
    threads.sort_by_key(|(running, .., thread)| (-running, *thread));
    threads.truncate(MAX_LISTED);
    let item = |(running, runnable, blocked, thread): (i64, i64, i64, u32)| {
        json!({
            "section": "thread",
            "name": why.thread_name(thread),
            "tid": tables.thread.tid().get(thread),
            "running_ns": running,
            "waiting_for_cpu_ns": runnable,
            "blocked_ns": blocked,
        })
    };
    threads.into_iter().map(item).collect()
}
