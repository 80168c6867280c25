//! System calls as slices.

use ferretto_format::kernel_names::Architecture;
use ferretto_proto::fields::{sys_enter_ftrace_event as entered, sys_exit_ftrace_event as exited};
use ferretto_wire::Fields;
use rustc_hash::{FxHashMap, FxHashSet};

use super::functions;
use super::{Context, Head};
use crate::import::message::Message;
use crate::schema::ArgValue;
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::slice::SliceStart;

/// The prefix of the names of system calls.
const PREFIX: &str = "sys_";
/// The limit of system call numbers.
const MAX_NUMBER: u32 = 550;
/// The maximum number of arguments of a call. The kernel records six.
const MAX_ARGS: usize = 16;

/// The current system calls of threads.
#[derive(Debug, Default)]
pub(super) struct Syscalls {
    /// The names of calls, by architecture and number.
    names: FxHashMap<(Option<Architecture>, u32), StringId>,
    /// The threads in `write`.
    writing: FxHashSet<u32>,
    keys: Vec<StringId>,
}

impl Syscalls {
    /// Returns the name of a system call.
    fn name(&mut self, cx: &mut Context, number: u32) -> Option<StringId> {
        if number >= MAX_NUMBER {
            return None;
        }
        let arch = cx.kernels.get(&cx.store).arch;
        let arch = Architecture::of_machine(cx.store.strings.text(arch));
        if let Some(name) = self.names.get(&(arch, number)) {
            return Some(*name);
        }
        let mut calls = arch.into_iter().flat_map(Architecture::system_calls);
        let name = match calls.find(|(_, of)| *of == number) {
            Some((name, _)) => format!("{PREFIX}{name}"),
            None => format!("{PREFIX}{number}"),
        };
        let name = cx.store.strings.intern(&name);
        self.names.insert((arch, number), name);
        Some(name)
    }

    /// Reads a `sys_enter`.
    pub(super) fn enter(&mut self, cx: &mut Context, head: &Head<'_>, body: &[u8]) {
        let call = Message::<3>::read(body);
        let Some(name) = self.name(cx, call.u32(entered::ID)) else {
            return;
        };
        let utid = cx.processes.thread(&mut cx.store, head.tid);
        let mut args = ArgSet::default();
        let flat = cx.store.strings.intern("args");
        let fields = Fields::new(body).map_while(Result::ok);
        let all = fields.filter(|field| field.number == entered::ARGS);
        let values = all.flat_map(|field| field.as_varints());
        for (index, value) in values.take(MAX_ARGS).enumerate() {
            if self.keys.len() == index {
                let key = format!("args[{index}]");
                self.keys.push(cx.store.strings.intern(&key));
            }
            args.add(flat, self.keys[index], ArgValue::Uint(value));
        }
        let start = SliceStart {
            ts: head.ts,
            track: cx.tracks.of_thread(&mut cx.store, utid),
            category: StringId::NULL,
            name,
        };
        match cx.store.strings.text(name) {
            // This call does not return.
            "sys_rt_sigreturn" => {
                cx.slices.complete(&mut cx.store, start, 0, &mut args);
            }
            text => {
                if text == "sys_write" {
                    self.writing.insert(utid);
                }
                cx.slices.begin(&mut cx.store, start, &mut args);
            }
        }
    }

    /// Reads a `sys_exit`.
    pub(super) fn exit(&mut self, cx: &mut Context, head: &Head<'_>, body: &[u8]) {
        let call = Message::<3>::read(body);
        let Some(name) = self.name(cx, call.u32(exited::ID)) else {
            return;
        };
        let utid = cx.processes.thread(&mut cx.store, head.tid);
        if cx.store.strings.text(name) == "sys_write" && !self.writing.remove(&utid) {
            return;
        }
        let mut args = ArgSet::default();
        if call.has(exited::RET) {
            args.int(&mut cx.store, "ret", call.int(exited::RET));
        }
        let track = cx.tracks.of_thread(&mut cx.store, utid);
        let which = (StringId::NULL, name);
        cx.slices
            .end(&mut cx.store, head.ts, track, which, &mut args);
    }

    /// Ends the `write` of a thread whose data begins or ends a slice.
    pub(super) fn cut_write(&mut self, cx: &mut Context, ts: i64, utid: u32) {
        if self.writing.is_empty() || !self.writing.remove(&utid) {
            return;
        }
        let stat = Stat::truncated_sys_write_duration;
        cx.store.stats.add(stat, 1);
        let track = cx.tracks.of_thread(&mut cx.store, utid);
        let which = (StringId::NULL, cx.store.strings.intern("sys_write"));
        let mut args = ArgSet::default();
        cx.slices.end(&mut cx.store, ts, track, which, &mut args);
    }
}

/// Ends the calls of a thread that exits: `exit_group`, calls that a signal ended, and functions
/// that do not return.
pub(super) fn end_all(cx: &mut Context, ts: i64, utid: u32) {
    let Some(track) = cx.tracks.known_of_thread(utid) else {
        return;
    };
    while let Some((category, name)) = cx.slices.open(track)
        && (cx.store.strings.text(name).starts_with(PREFIX) || functions::is_call(cx, category))
    {
        let mut args = ArgSet::default();
        let which = (category, name);
        cx.slices.end(&mut cx.store, ts, track, which, &mut args);
    }
}
