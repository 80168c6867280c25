//! The session of the process.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};

use super::connect::{Granted, Socket, connect};
use super::gate::Gate;
use super::heaps::{self, ALL_FREES, EnableInfo, Heap, LIBC};
use super::lock::{Held, Lock};
use super::mappings::Mappings;
use super::record;
use super::set::Set;
use super::{sampler, set, stack, thread};
use crate::ring::Writer;
use crate::sys;
use crate::wire::ClientConfig;

/// The maximum number of frees that wait for free space in the ring.
pub(super) const MAX_LATE: usize = 1024;

/// The state used by recording threads. It changes only while no thread uses it.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) socket: Socket,
    pub(super) config: ClientConfig,
    pub(super) writer: Option<Writer>,
    pub(super) is_extended: bool,
}

/// The state that is changed under the lock.
#[derive(Debug)]
pub(super) struct Guarded {
    pub(super) set: Set,
    pub(super) mappings: Mappings,
    /// Sequence number, address and heap of postponed frees.
    pub(super) late: [(u64, u64, u32); MAX_LATE],
    /// The number of postponed frees.
    pub(super) late_count: usize,
}

struct Shared {
    lock: Lock,
    guarded: UnsafeCell<Guarded>,
    session: UnsafeCell<Session>,
}

// SAFETY: `guarded` is used under the lock. `session` is read by threads inside the gate, and
// changed while none is inside.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared {
    lock: Lock::new(),
    guarded: UnsafeCell::new(Guarded {
        set: Set::new(),
        mappings: Mappings::new(),
        late: [(0, 0, 0); MAX_LATE],
        late_count: 0,
    }),
    session: UnsafeCell::new(Session {
        socket: Socket::NONE,
        config: ClientConfig::EMPTY,
        writer: None,
        is_extended: false,
    }),
};

/// The gate of the session.
static GATE: Gate = Gate::new();
/// Identifies the current sampling of `malloc`; 0 if it is not recorded.
static TAG: AtomicU32 = AtomicU32::new(0);
/// The last used tag.
static LAST_TAG: AtomicU32 = AtomicU32::new(0);

/// Returns the tag of the current sampling of `malloc`; 0 if it is not recorded.
#[inline(always)]
pub(super) fn tag() -> u32 {
    TAG.load(Ordering::Relaxed)
}

/// A guard of a thread that uses the session.
#[derive(Debug)]
pub(super) struct Use(());

impl Use {
    /// Enters the session. `None` if this process has none. The child of a `vfork` has none, even
    /// though it shares its parent's memory.
    pub(super) fn enter() -> Option<Self> {
        // `then_some` would create the guard and leave on drop even if it did not enter.
        GATE.enter(sys::pid).then(|| Self(()))
    }

    pub(super) fn session(&self) -> &Session {
        // SAFETY: not changed while a thread is inside the gate.
        unsafe { &*SHARED.session.get() }
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        GATE.leave();
    }
}

/// The lock, held.
#[derive(Debug)]
pub(super) struct Lockful<'a> {
    _held: Held<'a>,
}

impl Lockful<'static> {
    /// Locks. `None` after the timeout.
    pub(super) fn new() -> Option<Self> {
        SHARED.lock.lock().map(|held| Self { _held: held })
    }

    pub(super) fn guarded(&mut self) -> &mut Guarded {
        // SAFETY: the lock is held for as long as the result is borrowed.
        unsafe { &mut *SHARED.guarded.get() }
    }
}

/// Connects to the profiler. `is_busy` must be set. Returns false if a thread still uses the
/// previous session; try again then.
pub(super) fn begin(path: &[u8]) -> bool {
    if !GATE.begin_change() {
        return !GATE.is_closed_and_used();
    }
    if let Some(granted) = connect(path) {
        start(granted);
    }
    GATE.end_change();
    true
}

fn start(granted: Granted) {
    let Some(mut locked) = Lockful::new() else {
        granted.socket.close();
        return;
    };
    let guarded = locked.guarded();
    guarded.late_count = 0;
    guarded.mappings.clear();
    if !guarded.set.clear() {
        granted.socket.close();
        return;
    }
    drop(locked);
    stack::find_main();
    // SAFETY: the gate is closed, and this thread makes the change.
    let session = unsafe { &mut *SHARED.session.get() };
    session.is_extended = granted.writer.is_extended();
    if !session.is_extended {
        set::fill();
    }
    session.socket = granted.socket;
    session.config = granted.config;
    session.writer = Some(granted.writer);
    for heap in &heaps::HEAPS {
        heap.sequence.store(0, Ordering::Relaxed);
    }
    GATE.open(sys::pid());
    for (id, heap) in heaps::registered() {
        enable(id, heap);
    }
}

/// Returns an unused tag.
fn new_tag() -> u32 {
    let tag = LAST_TAG.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    match tag {
        0 => new_tag(),
        tag => tag,
    }
}

/// Restarts sampling in all threads, if `malloc` is recorded.
pub(super) fn restart_sampling() {
    let new = new_tag();
    let _ = TAG.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |tag| {
        (tag != 0).then_some(new)
    });
}

/// Starts recording `malloc` and `free`.
fn watch_malloc() {
    set::watch();
    TAG.store(new_tag(), Ordering::SeqCst);
}

/// Stops recording `malloc` and `free`.
fn leave_malloc() {
    TAG.store(0, Ordering::SeqCst);
    set::unwatch();
}

/// Starts recording a heap if it is configured.
fn enable(id: u32, heap: &'static Heap) {
    let Some(used) = Use::enter() else { return };
    // SAFETY: the name and the callbacks do not change after the registration.
    let settings = unsafe { &*heap.settings.get() };
    let interval = used.session().config.interval(&settings.name) & !ALL_FREES;
    if interval == 0 {
        return;
    }
    if id != LIBC {
        let Some(_locked) = Lockful::new() else {
            return;
        };
        // SAFETY: the lock is held.
        let settings = unsafe { &mut *heap.settings.get() };
        settings.next = sampler::first(&mut settings.random, interval);
    }
    if !record::heap_name(&used, id, interval, &settings.name) {
        return;
    }
    let all_frees = if used.session().is_extended {
        0
    } else {
        ALL_FREES
    };
    heap.interval.store(interval | all_frees, Ordering::SeqCst);
    if id == LIBC {
        watch_malloc();
    }
    drop(used);
    if let Some((callback, data)) = settings.enabled {
        let info = EnableInfo {
            sampling_interval: interval,
        };
        // Allocations of the callback are recorded.
        let thread = thread::current();
        let was_busy = core::mem::replace(&mut thread.is_busy, 0);
        callback(data as *mut core::ffi::c_void, &info);
        thread.is_busy = was_busy;
    }
}

/// Starts recording a heap that was registered during a session.
pub(crate) fn enable_late(id: u32, heap: &'static Heap) {
    enable(id, heap);
}

/// Ends the session. The caller must have left it.
pub(super) fn end() {
    if !GATE.close() {
        return;
    }
    leave_malloc();
    let mut was_enabled = [false; heaps::MAX];
    for (was, heap) in was_enabled.iter_mut().zip(&heaps::HEAPS) {
        *was = heap.interval.swap(0, Ordering::SeqCst) != 0;
    }
    // SAFETY: `close` leaves this thread inside the gate.
    let socket = unsafe { (*SHARED.session.get()).socket };
    socket.close();
    GATE.leave();
    let ended = was_enabled.iter().zip(&heaps::HEAPS);
    for (_, heap) in ended.filter(|(was, _)| **was) {
        // SAFETY: the callbacks do not change after the registration.
        let disabled = unsafe { (*heap.settings.get()).disabled };
        if let Some((callback, data)) = disabled {
            let thread = thread::current();
            let was_busy = core::mem::replace(&mut thread.is_busy, 0);
            callback(data as *mut core::ffi::c_void, core::ptr::null());
            thread.is_busy = was_busy;
        }
    }
}

/// Abandons the session in the child of a fork, whose memory and socket are shared with the parent.
pub(super) fn forget() {
    let was_owned = GATE.forget();
    leave_malloc();
    for heap in &heaps::HEAPS {
        heap.interval.store(0, Ordering::Relaxed);
    }
    SHARED.lock.reset();
    // SAFETY: this is the only thread.
    let (session, guarded) = unsafe { (&mut *SHARED.session.get(), &mut *SHARED.guarded.get()) };
    guarded.set.forget();
    guarded.mappings.forget();
    guarded.late_count = 0;
    if was_owned {
        session.socket.close();
    }
    session.socket = Socket::NONE;
}

/// Ends the session if the program unmaps its memory.
pub(super) fn unmapping(start: usize, length: usize) {
    let Some(used) = Use::enter() else { return };
    let range = used.session().writer.as_ref().map(Writer::range);
    let Some((ring, size)) = range else { return };
    let is_hit = start < ring + size && ring < start.saturating_add(length);
    drop(used);
    if !is_hit {
        return;
    }
    end();
    // Waits for threads that are still writing.
    for _ in 0..1000 {
        if !GATE.begin_change() {
            sys::sleep_us(100);
            continue;
        }
        // SAFETY: no thread is inside the gate. The program may reuse the addresses, so the drop
        // of the writer, which would unmap them, is skipped.
        if let Some(writer) = unsafe { (*SHARED.session.get()).writer.take() } {
            core::mem::forget(writer);
        }
        return GATE.end_change();
    }
}
