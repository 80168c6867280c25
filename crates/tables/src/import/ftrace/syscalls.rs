//! System calls as slices.

use ferretto_format::kernel_names::Architecture;
use ferretto_proto::fields::{sys_enter_ftrace_event as entered, sys_exit_ftrace_event as exited};
use ferretto_wire::{Fields, Value};
use rustc_hash::FxHashSet;

use super::functions;
use super::{Context, Head};
use crate::schema::{ArgValue, TableId};
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
    architectures: Vec<Calls>,
    /// The threads in `write`.
    writing: FxHashSet<u32>,
    /// The key of all arguments, and the key of each, once one is known.
    flat: StringId,
    keys: Vec<StringId>,
    /// The arguments of an event.
    args: ArgSet,
}

/// The system calls of an architecture.
#[derive(Debug)]
struct Calls {
    /// Its name in the notation of `uname`.
    architecture: StringId,
    /// The known calls, by number.
    calls: Vec<Option<Call>>,
}

/// A system call.
#[derive(Debug, Clone, Copy)]
struct Call {
    name: StringId,
    kind: CallKind,
}

/// A kind of system call, by the events that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallKind {
    Usual,
    /// `write`, which ends early if its data begins or ends a slice.
    Write,
    /// `rt_sigreturn`, which does not return.
    NoReturn,
    /// `futex` and its relatives, whose first argument is the address of a lock.
    Lock,
}

impl Call {
    fn new(cx: &mut Context, architecture: StringId, number: u32) -> Self {
        let architecture = Architecture::of_machine(cx.store.strings.text(architecture));
        let mut calls = architecture
            .into_iter()
            .flat_map(Architecture::system_calls);
        let name = match calls.find(|(_, of)| *of == number) {
            Some((name, _)) => format!("{PREFIX}{name}"),
            None => format!("{PREFIX}{number}"),
        };
        Self {
            name: cx.store.strings.intern(&name),
            kind: match name.as_str() {
                "sys_write" => CallKind::Write,
                "sys_rt_sigreturn" => CallKind::NoReturn,
                name if name.starts_with("sys_futex") => CallKind::Lock,
                _ => CallKind::Usual,
            },
        }
    }
}

impl Syscalls {
    /// Returns a system call by its number.
    #[inline]
    fn call(&mut self, cx: &mut Context, number: u32) -> Option<Call> {
        if number >= MAX_NUMBER {
            return None;
        }
        let architecture = cx.kernels.get(&cx.store).arch;
        let mut all = self.architectures.iter();
        let known = all.find(|calls| calls.architecture == architecture);
        match known.and_then(|known| *known.calls.get(number as usize)?) {
            Some(call) => Some(call),
            None => Some(self.add_call(cx, architecture, number)),
        }
    }

    #[cold]
    fn add_call(&mut self, cx: &mut Context, architecture: StringId, number: u32) -> Call {
        let call = Call::new(cx, architecture, number);
        let mut all = self.architectures.iter();
        let known = all.position(|calls| calls.architecture == architecture);
        let known = known.unwrap_or_else(|| {
            self.architectures.push(Calls {
                architecture,
                calls: Vec::new(),
            });
            self.architectures.len() - 1
        });
        let calls = &mut self.architectures[known].calls;
        let index = number as usize;
        if calls.len() <= index {
            calls.resize(index + 1, None);
        }
        calls[index] = Some(call);
        call
    }

    /// Reads the number of a call, and its arguments if they are wanted.
    #[inline]
    fn read(&mut self, cx: &mut Context, body: &[u8], wants_args: bool) -> u32 {
        self.args.clear();
        let (mut id, mut count) = (0, 0);
        let mut add = |value| {
            if count < MAX_ARGS {
                self.add_arg(cx, count, value);
                count += 1;
            }
        };
        Fields::walk_while(body, |field| {
            match (field.number, field.value) {
                (entered::ID, _) => {
                    id = field.as_u32().unwrap_or(0);
                    return wants_args;
                }
                (entered::ARGS, Value::Varint(value)) if wants_args => add(value),
                (entered::ARGS, _) if wants_args => field.as_varints().for_each(&mut add),
                _ => {}
            }
            true
        });
        id
    }

    #[inline]
    fn add_arg(&mut self, cx: &mut Context, index: usize, value: u64) {
        if self.keys.len() == index {
            self.flat = cx.store.strings.intern("args");
            let key = format!("args[{index}]");
            self.keys.push(cx.store.strings.intern(&key));
        }
        self.args
            .add_new(self.flat, self.keys[index], ArgValue::Uint(value));
    }

    /// Reads a `sys_enter`.
    pub(super) fn enter(&mut self, cx: &mut Context, head: &Head<'_>, body: &[u8]) {
        let wants_all = cx.store.wants_all_args();
        let number = self.read(cx, body, wants_all);
        let Some(call) = self.call(cx, number) else {
            return;
        };
        if call.kind == CallKind::Lock && !wants_all && cx.store.wants(TableId::args) {
            self.read(cx, body, true);
        }
        let utid = cx.processes.thread(&mut cx.store, head.tid);
        let start = SliceStart {
            ts: head.ts,
            track: cx.tracks.of_thread(&mut cx.store, utid),
            category: StringId::NULL,
            name: call.name,
        };
        let args = &mut self.args;
        if call.kind == CallKind::NoReturn {
            cx.slices.complete(&mut cx.store, start, 0, args);
            return;
        }
        if call.kind == CallKind::Write {
            self.writing.insert(utid);
        }
        cx.slices.begin(&mut cx.store, start, args);
    }

    /// Reads a `sys_exit`.
    pub(super) fn exit(&mut self, cx: &mut Context, head: &Head<'_>, body: &[u8]) {
        let (mut number, mut result) = (0, None);
        Fields::walk(body, |field| match field.number {
            exited::ID => number = field.as_u32().unwrap_or(0),
            exited::RET => result = Some(field.as_i64().unwrap_or(0)),
            _ => {}
        });
        let Some(call) = self.call(cx, number) else {
            return;
        };
        let utid = cx.processes.thread(&mut cx.store, head.tid);
        if call.kind == CallKind::Write && !self.writing.remove(&utid) {
            return;
        }
        self.args.clear();
        if let Some(result) = result.filter(|_| cx.store.wants_all_args()) {
            self.args.int(&mut cx.store, "ret", result);
        }
        let track = cx.tracks.of_thread(&mut cx.store, utid);
        let which = (StringId::NULL, call.name);
        cx.slices
            .end(&mut cx.store, head.ts, track, which, &mut self.args);
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
