//! The state of each thread between trace points.

use std::cell::Cell;
use std::ptr;

use ferretto_client::TraceWriter;
use ferretto_engine::point;

use crate::data_source::DsThread;
use crate::track_event::TeThread;
use crate::writer::Backing;

/// A thread's access to an instance. Programs refer to it by address: it exists from its first use
/// until the thread notices that the instance has stopped, or the thread ends.
#[repr(C)]
pub(crate) struct Tracer {
    /// The next tracer of this thread, see [`TRACERS`].
    next: *mut Self,
    /// The epoch of the instance.
    pub(crate) epoch: u64,
    /// The last observed number of clears of its incremental state.
    pub(crate) clears: u32,
    pub(crate) writer: TraceWriter,
    /// The owner of the memory ranges of packets: the writer.
    pub(crate) backing: Backing,
}

impl Tracer {
    /// Creates a tracer, which can be used after [`register`](Self::register).
    pub(crate) fn new(epoch: u64, clears: u32, writer: TraceWriter) -> Self {
        Self {
            next: ptr::null_mut(),
            epoch,
            clears,
            writer,
            backing: Backing::Packet(ptr::null_mut()),
        }
    }

    /// Adds the tracer to the list of this thread's tracers. From then on its address is fixed.
    ///
    /// # Safety
    ///
    /// `tracer` is valid, and only used by this thread.
    pub(crate) unsafe fn register(tracer: *mut Self) {
        // SAFETY: by contract.
        unsafe {
            (*tracer).next = TRACERS.replace(tracer);
            (*tracer).backing = Backing::Packet(&raw mut (*tracer).writer);
        }
    }

    /// Returns true if there is a tracer of this thread at an address. Does not read the memory,
    /// which may be uninitialized. Needed where a call of two versions has the same form.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(crate) fn is(address: *mut Self) -> bool {
        let mut tracer = TRACERS.get();
        while !tracer.is_null() && tracer != address {
            // SAFETY: tracers in the list are valid, because dropping one removes it from the list.
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

/// The state of a thread.
#[derive(Default)]
pub(crate) struct Thread {
    pub(crate) data_sources: DsThread,
    pub(crate) events: TeThread,
}

thread_local! {
    /// Null before the first use and while the thread ends. Has no destructor, for fast access.
    static CURRENT: Cell<*mut Thread> = const { Cell::new(ptr::null_mut()) };

    /// The first tracer of this thread, which has few. Also without destructor.
    static TRACERS: Cell<*mut Tracer> = const { Cell::new(ptr::null_mut()) };

    /// True on the engine's thread, which must not wait for itself.
    static IS_ENGINE: Cell<bool> = const { Cell::new(false) };

    /// Frees what [`CURRENT`] points to when the thread ends.
    static OWNER: Owner = const { Owner };
}

/// Marks this thread as the engine's, which sets up instances.
pub(crate) fn mark_engine() {
    IS_ENGINE.set(true);
}

/// Returns true on the engine's thread.
pub(crate) fn is_engine() -> bool {
    IS_ENGINE.get()
}

struct Owner;

impl Drop for Owner {
    fn drop(&mut self) {
        let thread = CURRENT.replace(ptr::null_mut());
        if !thread.is_null() {
            // Trace points in callbacks that free the program's state are ignored.
            let _inside = point::enter();
            if is_main_thread() {
                // The process ends. State that these callbacks use may already be destroyed, so
                // they are not called. SAFETY: as below.
                unsafe { (*thread).data_sources.leak_states() };
            }
            // SAFETY: from `create` for this thread, and there are no other references.
            drop(unsafe { Box::from_raw(thread) });
        }
    }
}

/// Returns this thread's state; null while the thread ends.
#[inline]
pub(crate) fn current() -> *mut Thread {
    let thread = CURRENT.get();
    if thread.is_null() { create() } else { thread }
}

/// Returns this thread's state; null if there is none.
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
