//! Writing packets of a data source.

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

/// Called when the service has the flushed packets.
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
        // SAFETY: the program's functions, called as it was promised: for what it made, once.
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

/// The state that a thread keeps for a data source.
struct PerSource {
    ds: &'static PerfettoDsImpl,
    /// From boxes; null where the thread has not written.
    entries: [*mut Entry; MAX_INSTANCES],
}

/// The state that a thread keeps for all data sources, by their numbers.
pub(crate) struct DsThread([*mut PerSource; MAX_SOURCES]);

impl Default for DsThread {
    fn default() -> Self {
        Self([ptr::null_mut(); MAX_SOURCES])
    }
}

impl Drop for DsThread {
    fn drop(&mut self) {
        for source in self.0.into_iter().filter(|source| !source.is_null()) {
            // SAFETY: from a box in `per_source`; nothing refers to it any more.
            drop(unsafe { Box::from_raw(source) });
        }
    }
}

impl Drop for PerSource {
    fn drop(&mut self) {
        for place in 0..MAX_INSTANCES {
            self.close(place);
        }
    }
}

impl DsThread {
    /// Leaks the program's state for this thread.
    pub(crate) fn keep_states(&mut self) {
        for source in self.0.into_iter().filter(|source| !source.is_null()) {
            // SAFETY: from a box in `per_source`, and only this thread's; entries are null or
            // valid.
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
    fn close(&mut self, place: usize) {
        let entry = mem::replace(&mut self.entries[place], ptr::null_mut());
        if !entry.is_null() {
            // SAFETY: from a box in `open`; the program does not use it outside of its trace
            // points.
            drop(unsafe { Box::from_raw(entry) });
        }
    }

    /// The thread's way into the instance that is recording in a place; null if there is none.
    ///
    /// # Safety
    ///
    /// `source` is this thread's. Not a reference, because the program's functions are called,
    /// which may look at it.
    unsafe fn tracer(source: *mut Self, place: usize) -> *mut Entry {
        // SAFETY: by contract; entries are null or valid.
        unsafe {
            let entry = (*source).entries[place];
            if !entry.is_null() && (*entry).tracer.epoch == (*source).ds.slots.epoch(place) {
                return entry;
            }
            Self::open(source, place)
        }
    }

    /// # Safety
    ///
    /// As for [`tracer`](Self::tracer).
    #[cold]
    unsafe fn open(source: *mut Self, place: usize) -> *mut Entry {
        // SAFETY: by contract; no reference lives while a function of the program runs.
        unsafe {
            (*source).close(place);
            let ds = (*source).ds;
            let Some(opened) = ds.slots.open(place) else {
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
            Tracer::settle(entry.cast());
            (*source).entries[place] = entry;
            if let Some(create) = callbacks
                .create_tls
                .filter(|_| callbacks.delete_tls.is_some())
            {
                (*entry).tls = create(pointer, place as u32, entry.cast(), callbacks.user_arg);
            }
            Self::create_incr(ds, place as u32, entry);
            entry
        }
    }

    /// Makes the program's incremental state.
    ///
    /// # Safety
    ///
    /// `entry` is this thread's, for this place.
    unsafe fn create_incr(ds: &'static PerfettoDsImpl, place: u32, entry: *mut Entry) {
        let (callbacks, pointer) = (&ds.callbacks, ptr::from_ref(ds).cast_mut());
        if let Some(create) = callbacks
            .create_incr
            .filter(|_| callbacks.delete_incr.is_some())
        {
            // SAFETY: the program's function, called as it was promised; the entry is valid.
            unsafe { (*entry).incr = create(pointer, place, entry.cast(), callbacks.user_arg) };
        }
    }
}

/// Returns this thread's state for a data source; null while the thread ends.
fn per_source(ds: &'static PerfettoDsImpl) -> *mut PerSource {
    let thread = thread::current();
    if thread.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: this thread's, and the reference ends here.
    let place = unsafe { (*thread).data_sources.0.get_mut(ds.index()) };
    let Some(place) = place else {
        return ptr::null_mut();
    };
    if place.is_null() {
        *place = Box::into_raw(Box::new(PerSource {
            ds,
            entries: [ptr::null_mut(); MAX_INSTANCES],
        }));
    }
    *place
}

/// Drops this thread's state of instances that have stopped.
pub(crate) fn collect() {
    let thread = thread::existing();
    if thread.is_null() {
        return;
    }
    // SAFETY: this thread's; the array is copied, so that no reference lives while functions of the
    // program run.
    let sources = unsafe { (*thread).data_sources.0 };
    for source in sources.into_iter().filter(|source| !source.is_null()) {
        for place in 0..MAX_INSTANCES {
            // SAFETY: this thread's, entries are null or valid. Trace points are ignored meanwhile.
            unsafe {
                let entry = (*source).entries[place];
                let has_ended =
                    |entry: *mut Entry| (*entry).tracer.epoch != (*source).ds.slots.epoch(place);
                if !entry.is_null() && has_ended(entry) {
                    (*source).close(place);
                }
            }
        }
    }
}

/// Moves on to the first instance at `from` or behind it; leaves the trace point if there is none.
///
/// # Safety
///
/// `source` is this thread's, or null.
unsafe fn advance(
    iterator: &mut PerfettoDsImplTracerIterator,
    source: *mut PerSource,
    from: usize,
) {
    if !source.is_null() {
        // SAFETY: by contract.
        let active = unsafe { (*source).ds.slots.active() };
        for place in bits(active).filter(|&place| place >= from) {
            // SAFETY: by contract.
            let entry = unsafe { PerSource::tracer(source, place) };
            if !entry.is_null() {
                iterator.inst_id = place as u32;
                iterator.tls = source.cast();
                iterator.tracer = entry.cast();
                return;
            }
        }
    }
    iterator.tracer = ptr::null_mut();
    point::leave();
}

/// Enters a trace point and goes to the first instance that is recording.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsImplTraceIterateBegin(
    ds: *mut PerfettoDsImpl,
) -> PerfettoDsImplTracerIterator {
    let mut iterator = PerfettoDsImplTracerIterator {
        inst_id: 0,
        tls: ptr::null_mut(),
        tracer: ptr::null_mut(),
    };
    // SAFETY: see the crate; registered data sources live for ever.
    let ds: &'static PerfettoDsImpl = unsafe { &*ds };
    if ds.slots.recording() == 0 {
        return iterator;
    }
    let Some(inside) = point::enter() else {
        return iterator;
    };
    // Left by `advance`, sooner or later.
    mem::forget(inside);
    // SAFETY: just looked up.
    unsafe { advance(&mut iterator, per_source(ds), 0) };
    iterator
}

/// Goes to the next instance.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsImplTraceIterateNext(
    _ds: *mut PerfettoDsImpl,
    iterator: *mut PerfettoDsImplTracerIterator,
) {
    // SAFETY: see the crate; `advance` has put `tls` there.
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
    // SAFETY: see the crate.
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
    // SAFETY: see the crate; tracers of data sources are entries.
    unsafe { (*tracer.cast::<Entry>()).tls }
}

/// The thread's incremental state, as new if that was asked for since the last call; null if the
/// program makes none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsImplGetIncrementalState(
    ds: *mut PerfettoDsImpl,
    tracer: *mut c_void,
    inst_id: u32,
) -> *mut c_void {
    let entry: *mut Entry = tracer.cast();
    // SAFETY: see the crate; as above. No reference to the entry lives while a function of the
    // program runs.
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

/// Makes the incremental state as new.
///
/// # Safety
///
/// `entry` is this thread's, for this place.
#[cold]
unsafe fn clear_incr(ds: &'static PerfettoDsImpl, place: u32, entry: *mut Entry) {
    // SAFETY: the program's functions, called as it was promised; the entry is valid.
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
        PerSource::create_incr(ds, place, entry);
    }
}

/// Starts a packet and describes the memory for it in `out`, member by member: a copy of the whole
/// would have to wait for the parts.
///
/// # Safety
///
/// `tracer` is this thread's, and `out` is memory for a writer.
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
/// After version 58 the arguments are the tracer and the writer. Before, the function returned a
/// writer by value: then the machine's convention is that the first argument is where to put it,
/// and that this address is returned. Which of the two is a tracer is known; the other may be
/// memory that nothing was written to yet.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsTracerImplPacketBegin(
    first: *mut c_void,
    second: *mut c_void,
) -> *mut c_void {
    // SAFETY: see the crate. One is a tracer, the other memory for a writer of the kind that goes
    // with the order they are in.
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
    // SAFETY: see the crate.
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
    // SAFETY: see the crate; `begin` writes all members.
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
    // SAFETY: see the crate; the writer is where the program stopped writing.
    unsafe {
        let tracer: *mut Tracer = tracer.cast();
        (*tracer).writer.end_raw_packet((*writer).write_ptr);
    }
}

/// Something to call from another thread, which the program has promised is fine.
struct Notify(unsafe extern "C" fn(*mut c_void), *mut c_void);

// SAFETY: the program is told that its function is called on another thread.
unsafe impl Send for Notify {}

impl Notify {
    fn call(self) {
        // SAFETY: the program's function, called as it was promised.
        unsafe { (self.0)(self.1) };
    }
}

/// Hands over the packets written so far.
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
    // SAFETY: see the crate.
    unsafe { (*tracer.cast::<Tracer>()).writer.flush(callback) };
}

/// Returns how often the thread has begun to lose packets of the instance.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsTracerImplGetDropCount(tracer: *mut c_void) -> u64 {
    // SAFETY: see the crate.
    unsafe { (*tracer.cast::<Tracer>()).writer.drop_count() }
}
