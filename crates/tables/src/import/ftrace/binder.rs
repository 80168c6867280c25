//! Calls between processes with binder: slices of the caller and of the called thread, and the flow
//! between them.

use ferretto_format::binder::{BinderEvent, Command, Return, Transaction};
use ferretto_proto::fields::{
    binder_command_ftrace_event as command, binder_return_ftrace_event as returned,
    binder_transaction_alloc_buf_ftrace_event as space,
    binder_transaction_ftrace_event as transaction,
    binder_transaction_received_ftrace_event as received, ftrace_event as event,
};
use rustc_hash::FxHashMap;

use super::{Context, Head};
use crate::import::message::Message;
use crate::schema::ArgValue;
use crate::store::Store;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::flow::FlowTracker;
use crate::trackers::slice::SliceStart;

/// The category of all slices.
const CATEGORY: &str = "binder";
/// The slice of a caller that waits for the reply.
const CALL: &str = "binder transaction";
/// The slice of a called thread.
const REPLY: &str = "binder reply";
/// The slices of calls without a reply.
const CALL_ONE_WAY: &str = "binder transaction async";
const RECEIVED_ONE_WAY: &str = "binder async rcv";
/// The slices of the lock.
const LOCK_WAITING: &str = "binder lock waiting";
const LOCK_HELD: &str = "binder lock held";

/// The maximum number of transactions that are not received, and of threads with calls.
const MAX_KEYS: usize = 1 << 16;
/// The maximum number of nested calls of a thread.
const MAX_DEPTH: usize = 256;

/// The state of calls.
#[derive(Debug, Default)]
pub(crate) struct Binder {
    /// The transactions that were sent and not received, by machine and number.
    sent: FxHashMap<(u32, i32), Sent>,
    /// The nested calls of each thread.
    calls: FxHashMap<u32, Vec<Stage>>,
    /// The progress of each thread with the lock.
    locks: FxHashMap<u32, Lock>,
}

/// A transaction that was sent.
#[derive(Debug)]
struct Sent {
    transaction: Transaction,
    /// The track of the sender.
    track: u32,
    tid: i64,
    slice: Option<u32>,
}

/// The progress of a call in one of its two threads.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// The caller began a call.
    Calling,
    /// It sent the call.
    Sent { is_one_way: bool },
    /// The kernel accepted the call.
    Accepted,
    /// The caller received the reply.
    Answered,
    /// The called thread received the call.
    Received,
    /// It works on the call.
    Working,
    /// It begins a reply.
    Replying,
    /// It sent the reply.
    Replied,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Lock {
    Waits,
    Holds,
}

/// Returns an event of binder.
pub(super) fn read(number: u32, body: &[u8]) -> Option<BinderEvent> {
    Some(match number {
        event::BINDER_TRANSACTION => {
            let body = Message::<8>::read(body);
            BinderEvent::Transaction(Transaction {
                id: body.u32(transaction::DEBUG_ID) as i32,
                node: body.u32(transaction::TARGET_NODE) as i32,
                process: body.u32(transaction::TO_PROC),
                thread: body.u32(transaction::TO_THREAD),
                is_reply: body.int(transaction::REPLY) == 1,
                flags: body.u32(transaction::FLAGS),
                code: body.u32(transaction::CODE),
            })
        }
        event::BINDER_TRANSACTION_RECEIVED => {
            let body = Message::<2>::read(body);
            BinderEvent::Received(body.u32(received::DEBUG_ID) as i32)
        }
        event::BINDER_TRANSACTION_ALLOC_BUF => {
            let body = Message::<5>::read(body);
            BinderEvent::Space {
                data: body.uint(space::DATA_SIZE),
                offsets: body.uint(space::OFFSETS_SIZE),
            }
        }
        event::BINDER_COMMAND => BinderEvent::Command(Message::<2>::read(body).u32(command::CMD)),
        event::BINDER_RETURN => BinderEvent::Return(Message::<2>::read(body).u32(returned::CMD)),
        event::BINDER_LOCK => BinderEvent::Lock,
        event::BINDER_LOCKED => BinderEvent::Locked,
        event::BINDER_UNLOCK => BinderEvent::Unlock,
        _ => return None,
    })
}

impl Binder {
    /// Parses a kernel event. Returns false if it is not one of binder.
    pub(super) fn parse(
        &mut self,
        cx: &mut Context,
        head: &Head<'_>,
        number: u32,
        body: &[u8],
    ) -> bool {
        let event = read(number, body);
        if let Some(event) = event {
            self.event(cx, head.ts, head.tid, event);
        }
        event.is_some()
    }

    /// Handles an event of a thread.
    pub(crate) fn event(&mut self, cx: &mut Context, ts: i64, tid: i64, event: BinderEvent) {
        let utid = cx.processes.thread(&mut cx.store, tid);
        let mut thread = Thread {
            cx,
            ts,
            tid,
            utid,
            track: None,
        };
        match event {
            BinderEvent::Transaction(sent) => self.transaction(&mut thread, sent),
            BinderEvent::Received(id) => self.received(&mut thread, id),
            BinderEvent::Space { data, offsets } => {
                thread.add_args(CALL, |store, args| {
                    args.put(store, "data size", ArgValue::Uint(data));
                    args.put(store, "offsets size", ArgValue::Uint(offsets));
                });
            }
            BinderEvent::Command(number) => self.command(utid, Command::of(number)),
            BinderEvent::Return(number) => self.returned(&mut thread, Return::of(number)),
            BinderEvent::Lock => {
                if self.locks.len() < MAX_KEYS {
                    self.locks.insert(utid, Lock::Waits);
                    thread.begin(LOCK_WAITING, &mut ArgSet::default());
                }
            }
            BinderEvent::Locked => {
                if let Some(lock @ Lock::Waits) = self.locks.get_mut(&utid) {
                    *lock = Lock::Holds;
                    thread.end("", &mut ArgSet::default());
                    thread.begin(LOCK_HELD, &mut ArgSet::default());
                }
            }
            BinderEvent::Unlock => {
                if self.locks.get(&utid) == Some(&Lock::Holds) {
                    self.locks.remove(&utid);
                    thread.end(LOCK_HELD, &mut ArgSet::default());
                }
            }
        }
    }

    fn transaction(&mut self, thread: &mut Thread<'_>, transaction: Transaction) {
        let is_one_way = transaction.is_one_way();
        let mut args = describe(&mut thread.cx.store, &transaction, thread.tid);
        let slice = if transaction.is_reply {
            let to = i64::from(transaction.thread);
            let utid = thread.cx.processes.thread(&mut thread.cx.store, to);
            thread.add_args(REPLY, |store, args| destination(store, args, to, utid));
            thread.end("", &mut args)
        } else if is_one_way {
            thread.instant(CALL_ONE_WAY, &mut args)
        } else {
            thread.begin(CALL, &mut args)
        };
        let sent = Sent {
            transaction,
            track: thread.track(),
            tid: thread.tid,
            slice,
        };
        if self.sent.len() >= MAX_KEYS {
            // Most of them were lost.
            self.sent.clear();
        }
        let key = (thread.cx.store.machine, transaction.id);
        self.sent.insert(key, sent);
        match self.stage(thread.utid) {
            Some(stage @ Stage::Calling) => *stage = Stage::Sent { is_one_way },
            Some(stage @ Stage::Replying) => *stage = Stage::Replied,
            // Commands were probably not recorded.
            Some(Stage::Received) => self.leave(thread.utid),
            _ => {}
        }
    }

    fn received(&mut self, thread: &mut Thread<'_>, id: i32) {
        let key = (thread.cx.store.machine, id);
        let Some(sent) = self.sent.remove(&key) else {
            return;
        };
        let slice = if sent.transaction.is_reply {
            if let Some(stage @ Stage::Accepted) = self.stage(thread.utid) {
                *stage = Stage::Answered;
            }
            thread.end("", &mut ArgSet::default());
            return;
        } else if sent.transaction.is_one_way() {
            let store = &mut thread.cx.store;
            let mut args = describe(store, &sent.transaction, sent.tid);
            thread.instant(RECEIVED_ONE_WAY, &mut args)
        } else {
            self.enter(thread.utid, Stage::Received);
            let (tid, utid) = (thread.tid, thread.utid);
            thread.add_args_of(sent.track, CALL, |store, args| {
                destination(store, args, tid, utid);
            });
            thread.begin(REPLY, &mut ArgSet::default())
        };
        if let (Some(from), Some(to)) = (sent.slice, slice) {
            FlowTracker::connect(&mut thread.cx.store, from, to);
        }
    }

    fn command(&mut self, utid: u32, command: Command) {
        match (command, self.stage(utid)) {
            (Command::Call, _) => self.enter(utid, Stage::Calling),
            (Command::Reply, Some(stage @ Stage::Working)) => *stage = Stage::Replying,
            _ => {}
        }
    }

    fn returned(&mut self, thread: &mut Thread<'_>, returned: Return) {
        let utid = thread.utid;
        let Some(stage) = self.stage(utid) else {
            return;
        };
        match (returned, *stage) {
            (Return::Call, Stage::Received) => *stage = Stage::Working,
            (Return::Complete, Stage::Sent { is_one_way: false }) => *stage = Stage::Accepted,
            // The event of a call may not be recorded, so that it has no slice.
            (Return::Complete, Stage::Sent { .. } | Stage::Calling | Stage::Replied)
            | (Return::Reply, Stage::Answered)
            | (
                Return::Failed,
                Stage::Calling | Stage::Sent { is_one_way: true } | Stage::Replied,
            ) => {
                self.leave(utid);
            }
            (Return::Failed, Stage::Sent { .. } | Stage::Accepted | Stage::Replying) => {
                thread.end("", &mut ArgSet::default());
                self.leave(utid);
            }
            _ => {}
        }
    }

    /// Returns the progress of the innermost call of a thread.
    fn stage(&mut self, utid: u32) -> Option<&mut Stage> {
        self.calls.get_mut(&utid)?.last_mut()
    }

    fn enter(&mut self, utid: u32, stage: Stage) {
        if self.calls.len() >= MAX_KEYS && !self.calls.contains_key(&utid) {
            return;
        }
        let calls = self.calls.entry(utid).or_default();
        if calls.len() >= MAX_DEPTH {
            // The ends of the others were lost.
            calls.clear();
        }
        calls.push(stage);
    }

    fn leave(&mut self, utid: u32) {
        if let Some(calls) = self.calls.get_mut(&utid) {
            calls.pop();
            if calls.is_empty() {
                self.calls.remove(&utid);
            }
        }
    }
}

/// The thread of an event.
struct Thread<'a> {
    cx: &'a mut Context,
    ts: i64,
    tid: i64,
    utid: u32,
    track: Option<u32>,
}

impl Thread<'_> {
    fn track(&mut self) -> u32 {
        let Self { cx, utid, .. } = self;
        *self
            .track
            .get_or_insert_with(|| cx.tracks.of_thread(&mut cx.store, *utid))
    }

    fn start(&mut self, name: &str) -> SliceStart {
        SliceStart {
            ts: self.ts,
            track: self.track(),
            category: self.cx.store.strings.intern(CATEGORY),
            name: self.cx.store.strings.intern(name),
        }
    }

    fn begin(&mut self, name: &str, args: &mut ArgSet) -> Option<u32> {
        let start = self.start(name);
        self.cx.slices.begin(&mut self.cx.store, start, args)
    }

    fn instant(&mut self, name: &str, args: &mut ArgSet) -> Option<u32> {
        let start = self.start(name);
        self.cx.slices.complete(&mut self.cx.store, start, 0, args)
    }

    /// Ends the innermost slice with this name of binder; without a name, the innermost one.
    fn end(&mut self, name: &str, args: &mut ArgSet) -> Option<u32> {
        let track = self.track();
        let store = &mut self.cx.store;
        let which = match name {
            "" => (StringId::NULL, StringId::NULL),
            name => (store.strings.intern(CATEGORY), store.strings.intern(name)),
        };
        self.cx.slices.end(store, self.ts, track, which, args)
    }

    fn add_args(&mut self, name: &str, add: impl FnOnce(&mut Store, &mut ArgSet)) {
        let track = self.track();
        self.add_args_of(track, name, add);
    }

    /// Adds arguments to the innermost slice with this name on a track.
    fn add_args_of(&mut self, track: u32, name: &str, add: impl FnOnce(&mut Store, &mut ArgSet)) {
        let Context { store, slices, .. } = &mut *self.cx;
        let category = store.strings.intern(CATEGORY);
        let name = store.strings.intern(name);
        if let Some((_, args)) = slices.open_args(track, category, name) {
            add(store, args);
        }
    }
}

/// Returns the arguments of a transaction that a thread sends.
fn describe(store: &mut Store, transaction: &Transaction, tid: i64) -> ArgSet {
    let mut args = ArgSet::default();
    args.int(store, "transaction id", transaction.id.into());
    args.int(store, "destination node", transaction.node.into());
    args.int(store, "destination process", transaction.process.into());
    let is_reply = ArgValue::Bool(transaction.is_reply);
    args.put(store, "reply transaction?", is_reply);
    args.text(store, "flags", &transaction.flags_text());
    let code = format!("{:#x} Java Layer Dependent", transaction.code);
    args.text(store, "code", &code);
    args.put(store, "calling tid", ArgValue::Uint(tid as u64));
    args
}

/// Adds the thread that receives a transaction.
fn destination(store: &mut Store, args: &mut ArgSet, tid: i64, utid: u32) {
    args.int(store, "destination thread", tid);
    let name = store.tables.thread.name.get(utid);
    if !name.is_null() {
        args.put(store, "destination name", ArgValue::Text(name));
    }
}
