//! Writing of packets of data sources.

use std::ffi::c_void;
use std::mem;
#[cfg(all(not(target_arch = "x86_64"), feature = "v58"))]
use std::mem::MaybeUninit;
use std::ptr;

use ferretto_client::WriteByAddress;
use ferretto_engine::{MAX_INSTANCES, MAX_SOURCES, bits, point};

use super::define::{PerfettoDsImpl, PerfettoDsOnDeleteCustomState};
use crate::abi::{PerfettoDsImplTracerIterator, PerfettoPbMsgWriter, PerfettoStreamWriter};
use crate::thread::{self, Tracer};

/// Called when the service has received the flushed packets.
pub type PerfettoDsTracerOnFlushCb = Option<unsafe extern "C" fn(user_arg: *mut c_void)>;

/// A thread's access to an instance of a data source, with the program's state for it.
#[repr(C)]
struct Entry {
    tracer: Tracer,
    tls: *mut c_void,
    incr: *mut c_void,
    delete_tls: PerfettoDsOnDeleteCustomState,
    delete_incr: PerfettoDsOnDeleteCustomState,
}

impl Drop for Entry {
    fn drop(&mut self) {
        // SAFETY: calls the program's callbacks according to their contract, once for each created
        // state.
        unsafe {
            if let Some(delete) = self.delete_incr.filter(|_| !self.incr.is_null()) {
                delete(self.incr);
            }
            if let Some(delete) = self.delete_tls.filter(|_| !self.tls.is_null()) {
                delete(self.tls);
            }
        }
    }
}

/// The state of a thread for a data source.
struct PerSource {
    ds: &'static PerfettoDsImpl,
    /// Pointers from boxes; null for instances to which the thread has not written.
    entries: [*mut Entry; MAX_INSTANCES],
}

/// The state of a thread for all data sources, by their indices.
pub(crate) struct DsThread([*mut PerSource; MAX_SOURCES]);

impl Default for DsThread {
    fn default() -> Self {
        Self([ptr::null_mut(); MAX_SOURCES])
    }
}

impl Drop for DsThread {
    fn drop(&mut self) {
        for source in self.0.into_iter().filter(|source| !source.is_null()) {
            // SAFETY: from a box in `per_source`; and there are no other references.
            drop(unsafe { Box::from_raw(source) });
        }
    }
}

impl Drop for PerSource {
    fn drop(&mut self) {
        for slot in 0..MAX_INSTANCES {
            self.close(slot);
        }
    }
}

impl DsThread {
    /// Leaks the program's state for this thread.
    pub(crate) fn leak_states(&mut self) {
        for source in self.0.into_iter().filter(|source| !source.is_null()) {
            // SAFETY: from a box in `per_source` of this thread; entries are null or valid.
            unsafe {
                let entries = (*source).entries.into_iter();
                for entry in entries.filter(|entry| !entry.is_null()) {
                    (*entry).delete_tls = None;
                    (*entry).delete_incr = None;
                }
            }
        }
    }
}

impl PerSource {
    /// Drops the thread's state of a slot.
    fn close(&mut self, slot: usize) {
        let entry = mem::replace(&mut self.entries[slot], ptr::null_mut());
        if !entry.is_null() {
            // SAFETY: from a box in `open`; the program only uses it inside of trace points.
            drop(unsafe { Box::from_raw(entry) });
        }
    }

    /// Returns the thread's access to the recording instance in a slot; null if there is none.
    ///
    /// # Safety
    ///
    /// `source` belongs to this thread. It is not a reference, because callbacks of the program may
    /// access it.
    unsafe fn tracer(source: *mut Self, slot: usize) -> *mut Entry {
        // SAFETY: by contract; entries are null or valid.
        unsafe {
            let entry = (*source).entries[slot];
            if !entry.is_null() && (*entry).tracer.epoch == (*source).ds.slots.epoch(slot) {
                return entry;
            }
            Self::open(source, slot)
        }
    }

    /// # Safety
    ///
    /// As for [`tracer`](Self::tracer).
    #[cold]
    unsafe fn open(source: *mut Self, slot: usize) -> *mut Entry {
        // SAFETY: by contract; there are no references during callbacks of the program.
        unsafe {
            (*source).close(slot);
            let ds = (*source).ds;
            let Some(opened) = ds.slots.open(slot) else {
                return ptr::null_mut();
            };
            let (callbacks, pointer) = (&ds.callbacks, ptr::from_ref(ds).cast_mut());
            let entry = Box::into_raw(Box::new(Entry {
                tracer: Tracer::new(opened.epoch, opened.clears, opened.writer),
                tls: ptr::null_mut(),
                incr: ptr::null_mut(),
                delete_tls: callbacks.delete_tls,
                delete_incr: callbacks.delete_incr,
            }));
            Tracer::register(entry.cast());
            (*source).entries[slot] = entry;
            if let Some(create) = callbacks
                .create_tls
                .filter(|_| callbacks.delete_tls.is_some())
            {
                (*entry).tls = create(pointer, slot as u32, entry.cast(), callbacks.user_arg);
            }
            Self::create_incr(ds, slot as u32, entry);
            entry
        }
    }

    /// Creates the program's incremental state.
    ///
    /// # Safety
    ///
    /// `entry` belongs to this thread, and to this slot.
    unsafe fn create_incr(ds: &'static PerfettoDsImpl, slot: u32, entry: *mut Entry) {
        let (callbacks, pointer) = (&ds.callbacks, ptr::from_ref(ds).cast_mut());
        if let Some(create) = callbacks
            .create_incr
            .filter(|_| callbacks.delete_incr.is_some())
        {
            // SAFETY: calls the program's callback according to its contract; the entry is valid.
            unsafe { (*entry).incr = create(pointer, slot, entry.cast(), callbacks.user_arg) };
        }
    }
}

/// Returns this thread's state for a data source; null while the thread ends.
fn per_source(ds: &'static PerfettoDsImpl) -> *mut PerSource {
    let thread = thread::current();
    if thread.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the state belongs to this thread, and the reference ends here.
    let entry = unsafe { (*thread).data_sources.0.get_mut(ds.index()) };
    let Some(entry) = entry else {
        return ptr::null_mut();
    };
    if entry.is_null() {
        *entry = Box::into_raw(Box::new(PerSource {
            ds,
            entries: [ptr::null_mut(); MAX_INSTANCES],
        }));
    }
    *entry
}

/// Drops this thread's state of instances that have stopped.
pub(crate) fn collect() {
    let thread = thread::existing();
    if thread.is_null() {
        return;
    }
    // SAFETY: the state belongs to this thread; the array is copied, so there are no references
    // during callbacks of the program.
    let sources = unsafe { (*thread).data_sources.0 };
    for source in sources.into_iter().filter(|source| !source.is_null()) {
        for slot in 0..MAX_INSTANCES {
            // SAFETY: the state belongs to this thread, and entries are null or valid. Trace points
            // are ignored meanwhile.
            unsafe {
                let entry = (*source).entries[slot];
                let has_ended =
                    |entry: *mut Entry| (*entry).tracer.epoch != (*source).ds.slots.epoch(slot);
                if !entry.is_null() && has_ended(entry) {
                    (*source).close(slot);
                }
            }
        }
    }
}

/// Advances to the first instance at or after `from`; leaves the trace point if there is none.
///
/// # Safety
///
/// `source` belongs to this thread, or is null.
unsafe fn advance(
    iterator: &mut PerfettoDsImplTracerIterator,
    source: *mut PerSource,
    from: usize,
) {
    if !source.is_null() {
        // SAFETY: by contract.
        let active = unsafe { (*source).ds.slots.active() };
        for slot in bits(active).filter(|&slot| slot >= from) {
            // SAFETY: by contract.
            let entry = unsafe { PerSource::tracer(source, slot) };
            if !entry.is_null() {
                iterator.inst_id = slot as u32;
                iterator.tls = source.cast();
                iterator.tracer = entry.cast();
                return;
            }
        }
    }
    iterator.tracer = ptr::null_mut();
    point::leave();
}

/// Enters a trace point and advances to the first recording instance.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsImplTraceIterateBegin(
    ds: *mut PerfettoDsImpl,
) -> PerfettoDsImplTracerIterator {
    let mut iterator = PerfettoDsImplTracerIterator {
        inst_id: 0,
        tls: ptr::null_mut(),
        tracer: ptr::null_mut(),
    };
    // SAFETY: by the contract of the crate; registered data sources are never freed.
    let ds: &'static PerfettoDsImpl = unsafe { &*ds };
    if ds.slots.recording() == 0 {
        return iterator;
    }
    let Some(inside) = point::enter() else {
        return iterator;
    };
    // `advance` leaves the trace point later.
    mem::forget(inside);
    // SAFETY: `per_source` returns the state of this thread.
    unsafe { advance(&mut iterator, per_source(ds), 0) };
    iterator
}

/// Advances to the next instance.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsImplTraceIterateNext(
    _ds: *mut PerfettoDsImpl,
    iterator: *mut PerfettoDsImplTracerIterator,
) {
    // SAFETY: by the contract of the crate; `advance` stored `tls` there.
    unsafe {
        let iterator = &mut *iterator;
        if !iterator.tracer.is_null() {
            let next = iterator.inst_id as usize + 1;
            advance(iterator, iterator.tls.cast(), next);
        }
    }
}

/// Leaves the trace point early.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsImplTraceIterateBreak(
    _ds: *mut PerfettoDsImpl,
    iterator: *mut PerfettoDsImplTracerIterator,
) {
    // SAFETY: by the contract of the crate.
    let iterator = unsafe { &mut *iterator };
    if !iterator.tracer.is_null() {
        iterator.tracer = ptr::null_mut();
        point::leave();
    }
}

/// Returns the program's state for this thread and instance.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsImplGetCustomTls(
    _ds: *mut PerfettoDsImpl,
    tracer: *mut c_void,
    _inst_id: u32,
) -> *mut c_void {
    // SAFETY: by the contract of the crate; tracers of data sources are entries.
    unsafe { (*tracer.cast::<Entry>()).tls }
}

/// Returns the thread's incremental state, reset if requested since the last call; null if the
/// program has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsImplGetIncrementalState(
    ds: *mut PerfettoDsImpl,
    tracer: *mut c_void,
    inst_id: u32,
) -> *mut c_void {
    let entry: *mut Entry = tracer.cast();
    // SAFETY: by the contract of the crate; tracers of data sources are entries. There are no
    // references to the entry during callbacks of the program.
    unsafe {
        let ds: &'static PerfettoDsImpl = &*ds;
        if (inst_id as usize) < MAX_INSTANCES {
            let clears = ds.slots.clears(inst_id as usize);
            if (*entry).tracer.clears != clears {
                (*entry).tracer.clears = clears;
                clear_incr(ds, inst_id, entry);
            }
        }
        (*entry).incr
    }
}

/// Resets the incremental state.
///
/// # Safety
///
/// `entry` belongs to this thread, and to this slot.
#[cold]
unsafe fn clear_incr(ds: &'static PerfettoDsImpl, slot: u32, entry: *mut Entry) {
    // SAFETY: calls the program's callbacks according to their contract; the entry is valid.
    unsafe {
        let state = (*entry).incr;
        if !state.is_null() {
            let callbacks = &ds.callbacks;
            if callbacks
                .clear_incr
                .is_some_and(|clear| clear(state, callbacks.user_arg))
            {
                return;
            }
            (*entry).incr = ptr::null_mut();
            if let Some(delete) = callbacks.delete_incr {
                delete(state);
            }
        }
        PerSource::create_incr(ds, slot, entry);
    }
}

/// Starts a packet and stores its memory range in `out`, member by member: copying the whole struct
/// would stall on the preceding stores.
///
/// # Safety
///
/// `tracer` belongs to this thread, and `out` is memory for a writer.
#[inline(always)]
unsafe fn begin(tracer: *mut Tracer, out: *mut PerfettoStreamWriter) {
    // SAFETY: by contract.
    unsafe {
        let range = (*tracer).writer.start_raw_packet();
        (&raw mut (*out).backing).write(&raw mut (*tracer).backing);
        (&raw mut (*out).begin).write(range.begin);
        (&raw mut (*out).end).write(range.end);
        (&raw mut (*out).write_ptr).write(range.cursor);
        (&raw mut (*out).written_previously).write(range.before as usize);
    }
}

/// Starts a packet and fills in a writer.
///
/// After version 58, the arguments are the tracer and the writer. Before, the function returned a
/// writer by value: by the calling convention, the first argument is then the address for the
/// result, which is also returned. The library knows which argument is a tracer; the other may be
/// uninitialized memory.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsTracerImplPacketBegin(
    first: *mut c_void,
    second: *mut c_void,
) -> *mut c_void {
    // SAFETY: by the contract of the crate. One argument is a tracer, the other memory for a writer
    // of the version that the order implies.
    unsafe {
        if Tracer::is(first.cast()) {
            let writer: *mut PerfettoPbMsgWriter = second.cast();
            begin(first.cast(), &raw mut (*writer).stream);
            (&raw mut (*writer).encoding).write(0);
            second
        } else {
            begin(second.cast(), first.cast());
            first
        }
    }
}

/// Starts a packet and fills in a writer.
#[cfg(all(not(target_arch = "x86_64"), not(feature = "v58")))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsTracerImplPacketBegin(
    tracer: *mut c_void,
    writer: *mut PerfettoPbMsgWriter,
) {
    // SAFETY: by the contract of the crate.
    unsafe {
        begin(tracer.cast(), &raw mut (*writer).stream);
        (&raw mut (*writer).encoding).write(0);
    }
}

/// Starts a packet and returns a writer.
#[cfg(all(not(target_arch = "x86_64"), feature = "v58"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsTracerImplPacketBegin(
    tracer: *mut c_void,
) -> PerfettoStreamWriter {
    let mut writer = MaybeUninit::uninit();
    // SAFETY: by the contract of the crate; `begin` writes all members.
    unsafe {
        begin(tracer.cast(), writer.as_mut_ptr());
        writer.assume_init()
    }
}

/// Ends a packet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsTracerImplPacketEnd(
    tracer: *mut c_void,
    writer: *mut PerfettoStreamWriter,
) {
    // SAFETY: by the contract of the crate; the writer contains the end of the written bytes.
    unsafe {
        let tracer: *mut Tracer = tracer.cast();
        (*tracer).writer.end_raw_packet((*writer).write_ptr);
    }
}

/// A callback for another thread, and its argument.
struct Notify(unsafe extern "C" fn(*mut c_void), *mut c_void);

// SAFETY: by the contract of the interface, the callback can be called on another thread.
unsafe impl Send for Notify {}

impl Notify {
    fn call(self) {
        // SAFETY: calls the program's callback according to its contract.
        unsafe { (self.0)(self.1) };
    }
}

/// Commits the packets written so far.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsTracerImplFlush(
    tracer: *mut c_void,
    cb: PerfettoDsTracerOnFlushCb,
    user_arg: *mut c_void,
) {
    let callback = cb.map(|cb| {
        let notify = Notify(cb, user_arg);
        Box::new(move || notify.call()) as ferretto_client::FlushCallback
    });
    ferretto_engine::wait_for_continued();
    // SAFETY: by the contract of the crate.
    unsafe { (*tracer.cast::<Tracer>()).writer.flush(callback) };
}

/// Returns the number of times that the thread began to drop packets of the instance.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsTracerImplGetDropCount(tracer: *mut c_void) -> u64 {
    // SAFETY: by the contract of the crate.
    unsafe { (*tracer.cast::<Tracer>()).writer.drop_count() }
}
