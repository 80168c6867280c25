//! Process trees.

use ferretto_format::cgroup::Group;
use ferretto_format::clock::BOOTTIME;
use ferretto_proto::fields::process_tree::{PROCESSES, THREADS, process as field, thread};
use ferretto_wire::Fields;

use crate::import::context::Context;
use crate::import::message::Message;
use crate::schema::ArgValue;
use crate::stats::Stat;
use crate::trackers::args::ArgSet;
use crate::trackers::clock::ClockId;
use crate::trackers::process::{ProcessNameSource, ThreadNameSource};

/// The parent of all kernel threads.
const KTHREADD: i64 = 2;
/// The maximum depth of namespaces.
const MAX_NAMESPACES: usize = 64;

/// Reads a `ProcessTree`.
pub(super) fn parse(cx: &mut Context, ts: i64, bytes: &[u8]) {
    cx.processes.set_idle_task(&mut cx.store);
    let mut kernel_threads = Vec::new();
    let all = || Fields::new(bytes).map_while(Result::ok);
    for part in all().filter(|part| part.number == PROCESSES) {
        let part = part.as_bytes().unwrap_or_default();
        if let Some(pid) = process(cx, ts, part) {
            kernel_threads.push(pid);
        }
    }
    kernel_threads.sort_unstable();
    for part in all().filter(|part| part.number == THREADS) {
        let part = part.as_bytes().unwrap_or_default();
        one_thread(cx, ts, &kernel_threads, part);
    }
}

/// Reads a process. Returns its pid if it is a kernel thread.
fn process(cx: &mut Context, ts: i64, bytes: &[u8]) -> Option<i64> {
    let head = Message::<10>::read(bytes);
    if !head.has(field::CMDLINE) {
        return None;
    }
    let pid = i64::from(head.u32(field::PID));
    let ppid = i64::from(head.u32(field::PPID));
    if head.has(field::NSPID) {
        let numbers = numbers(bytes, field::NSPID);
        cx.processes
            .set_namespaced_process(&cx.store, pid, &numbers);
    }
    let fields = Fields::new(bytes).map_while(Result::ok);
    let words: Vec<&[u8]> = fields
        .filter(|part| part.number == field::CMDLINE)
        .filter_map(|part| part.as_bytes())
        .collect();
    let mut name = words.first().copied().unwrap_or_default();
    let mut line = words.join(&b' ');
    let is_kernel = ppid == KTHREADD;
    if is_kernel {
        let short = without_queue(name);
        if short.len() < name.len() {
            name = short;
            line = name.to_owned();
        }
    }
    if words.len() == 1 {
        // Programs that change their command line separate words by spaces.
        let first = name.split(|c| *c == b' ').next();
        name = first.unwrap_or_default();
    }
    let store = &mut cx.store;
    let parent = cx.processes.process(store, ppid);
    let upid = cx.processes.process(store, pid);
    cx.processes.set_parent(store, upid, parent, Some(ts));
    let name = store.strings.intern_bytes(name);
    let line = store.strings.intern_bytes(&line);
    let source = ProcessNameSource::System;
    cx.processes.name_process(store, upid, name, source);
    store.tables.process.cmdline.set(upid, line);
    if head.uint(field::CMDLINE_IS_COMM) != 0 {
        let utid = cx.processes.thread(store, pid);
        let source = ThreadNameSource::ProcessTree;
        cx.processes.name_thread(store, utid, line, source);
    }
    if head.has(field::UID) {
        cx.processes.set_uid(store, upid, head.u32(field::UID));
    }
    if head.has(field::PROCESS_START_FROM_BOOT) {
        let boot = ClockId::of_machine(store.machine, BOOTTIME);
        let start = head.int(field::PROCESS_START_FROM_BOOT);
        if let Ok(start) = cx.clocks.trace_time(boot, start) {
            cx.processes.set_start(store, upid, start);
        }
    }
    if head.has(field::IS_KTHREAD) {
        let is_kthread = head.uint(field::IS_KTHREAD) != 0;
        let args = cx.processes.process_args(upid);
        args.put(store, "is_kthread", ArgValue::Bool(is_kthread));
    }
    let cgroup = Fields::find(field::CGROUP, bytes).and_then(|path| path.as_bytes());
    if let Some(path) = cgroup {
        set_control_group(cx, upid, &String::from_utf8_lossy(path));
    }
    is_kernel.then_some(pid)
}

/// Adds the group of a process, and the names in its path.
fn set_control_group(cx: &mut Context, upid: u32, path: &str) {
    let group = Group::new(path);
    let store = &mut cx.store;
    let args = cx.processes.process_args(upid);
    args.text(store, "cgroup.path", path);
    if let Some(unit) = group.unit {
        args.text(store, "cgroup.unit", unit);
    }
    if let Some(container) = group.container {
        args.text(store, "cgroup.container", container.id);
        if let Some(engine) = container.engine {
            args.text(store, "cgroup.engine", engine);
        }
    }
    if let Some(pod) = group.pod {
        args.text(store, "cgroup.pod", pod);
    }
}

fn one_thread(cx: &mut Context, ts: i64, kernel_threads: &[i64], bytes: &[u8]) {
    let head = Message::<5>::read(bytes);
    let tid = i64::from(head.u32(thread::TID));
    let tgid = i64::from(head.u32(thread::TGID));
    let store = &mut cx.store;
    cx.processes.thread_in_process(store, tid, tgid);
    if head.has(thread::NAME) {
        let mut name = head.bytes(thread::NAME);
        if tid == tgid && kernel_threads.binary_search(&tid).is_ok() {
            name = without_queue(name);
        }
        let name = store.strings.intern_bytes(name);
        let utid = cx.processes.thread(store, tid);
        let source = ThreadNameSource::ProcessTree;
        cx.processes.name_thread(store, utid, name, source);
    }
    if head.has(thread::NSTID) {
        let numbers = numbers(bytes, thread::NSTID);
        let is_known = cx
            .processes
            .set_namespaced_thread(store, tgid, tid, &numbers);
        if !is_known {
            let stat = Stat::namespaced_thread_missing_process;
            store.log(stat, Some(ts), ArgSet::default());
        }
    }
}

fn numbers(bytes: &[u8], field: u32) -> Vec<i64> {
    let fields = Fields::new(bytes).map_while(Result::ok);
    let values = fields
        .filter(|part| part.number == field)
        .flat_map(|part| part.as_varints());
    values
        .map(|value| i64::from(value as i32))
        .take(MAX_NAMESPACES)
        .collect()
}

/// Returns the name of a kernel worker without its last queue.
fn without_queue(name: &[u8]) -> &[u8] {
    const PREFIX: &[u8] = b"kworker/";
    if !name.starts_with(PREFIX) {
        return name;
    }
    let is_end = |c: &u8| matches!(c, b'+' | b'-');
    match name[PREFIX.len()..].iter().position(is_end) {
        Some(end) => &name[..PREFIX.len() + end],
        None => name,
    }
}
