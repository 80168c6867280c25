//! The state that each thread keeps from one trace point to the next.

use std::cell::Cell;
use std::ptr;

use ferretto_client::TraceWriter;
use ferretto_engine::point;

use crate::data_source::DsThread;
use crate::track_event::TeThread;
use crate::writer::Backing;

/// A thread's way into an instance, as programs refer to it. At a fixed address, from its first use
/// until the instance has stopped and the thread notices, or the thread ends.
#[repr(C)]
pub(crate) struct Tracer {
    /// The next one of this thread's, see [`TRACERS`].
    next: *mut Self,
    /// The instance, by its epoch.
    pub(crate) epoch: u64,
    /// The number of times its incremental state had been cleared, when this thread noticed last.
    pub(crate) clears: u32,
    pub(crate) writer: TraceWriter,
    /// The owner of the ranges of packets: the writer.
    pub(crate) backing: Backing,
}

impl Tracer {
    /// The tracer is of use after [`settle`](Self::settle).
    pub(crate) fn new(epoch: u64, clears: u32, writer: TraceWriter) -> Self {
        Self {
            next: ptr::null_mut(),
            epoch,
            clears,
            writer,
            backing: Backing::Packet(ptr::null_mut()),
        }
    }

    /// Says that the tracer will stay where it is.
    ///
    /// # Safety
    ///
    /// `tracer` is valid, and used by this thread only.
    pub(crate) unsafe fn settle(tracer: *mut Self) {
        // SAFETY: by contract.
        unsafe {
            (*tracer).next = TRACERS.replace(tracer);
            (*tracer).backing = Backing::Packet(&raw mut (*tracer).writer);
        }
    }

    /// Returns true if there is a tracer of this thread's at an address, rather than a writer that
    /// a program has. Does not look at what is there.
    #[inline]
    pub(crate) fn is(address: *mut Self) -> bool {
        let mut tracer = TRACERS.get();
        while !tracer.is_null() && tracer != address {
            // SAFETY: tracers in the list are valid: they leave it when they are dropped.
            tracer = unsafe { (*tracer).next };
        }
        !tracer.is_null()
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let this = ptr::from_mut(self);
        let mut tracer = TRACERS.get();
        if tracer == this {
            TRACERS.set(self.next);
            return;
        }
        // SAFETY: as in `is`.
        unsafe {
            while !tracer.is_null() {
                if (*tracer).next == this {
                    (*tracer).next = self.next;
                    return;
                }
                tracer = (*tracer).next;
            }
        }
    }
}

/// A thread's state.
#[derive(Default)]
pub(crate) struct Thread {
    pub(crate) data_sources: DsThread,
    pub(crate) events: TeThread,
}

thread_local! {
    /// Null before the first use and while the thread ends. Has no destructor, so that looking at
    /// it is cheap.
    static CURRENT: Cell<*mut Thread> = const { Cell::new(ptr::null_mut()) };

    /// The first of this thread's tracers, which are few. Has no destructor either.
    static TRACERS: Cell<*mut Tracer> = const { Cell::new(ptr::null_mut()) };

    /// This is the engine's thread, which must not wait for itself.
    static IS_ENGINE: Cell<bool> = const { Cell::new(false) };

    /// Frees what [`CURRENT`] points to when the thread ends.
    static OWNER: Owner = const { Owner };
}

/// Notes that this is the engine's thread: one that sets up instances.
pub(crate) fn mark_engine() {
    IS_ENGINE.set(true);
}

/// True if this is the engine's thread.
pub(crate) fn is_engine() -> bool {
    IS_ENGINE.get()
}

struct Owner;

impl Drop for Owner {
    fn drop(&mut self) {
        let thread = CURRENT.replace(ptr::null_mut());
        if !thread.is_null() {
            // Trace points in the functions that free the program's state are ignored.
            let _inside = point::enter();
            if is_main_thread() {
                // The process ends. State that those functions use may be destroyed already, so
                // they are not called. SAFETY: as below.
                unsafe { (*thread).data_sources.keep_states() };
            }
            // SAFETY: made by `create` for this thread, and nothing refers to it any more.
            drop(unsafe { Box::from_raw(thread) });
        }
    }
}

/// This thread's state; null while the thread ends.
#[inline]
pub(crate) fn current() -> *mut Thread {
    let thread = CURRENT.get();
    if thread.is_null() { create() } else { thread }
}

/// This thread's state; null if there is none.
pub(crate) fn existing() -> *mut Thread {
    CURRENT.get()
}

#[cold]
fn create() -> *mut Thread {
    if OWNER.try_with(|_| ()).is_err() {
        return ptr::null_mut();
    }
    let thread = Box::into_raw(Box::default());
    CURRENT.set(thread);
    thread
}

/// Returns true if this thread ends with the process.
fn is_main_thread() -> bool {
    u32::try_from(ferretto_shm::thread_id()) == Ok(std::process::id())
}
