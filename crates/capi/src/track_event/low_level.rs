//! Events whose packets are written by programs.

use std::ffi::c_void;
use std::mem;
use std::ptr;
use std::slice;

use ferretto_engine::{bits, point};

use super::category::PerfettoTeCategoryImpl;
use super::emit::recording;
use super::thread::Entry;
use crate::abi::{
    PerfettoDsImplTracerIterator, PerfettoTeCategoryDescriptor, PerfettoTeLlImplIterator,
    PerfettoTeTimestamp,
};
use crate::thread;

const END: PerfettoTeLlImplIterator = PerfettoTeLlImplIterator {
    ds: PerfettoDsImplTracerIterator {
        inst_id: 0,
        tls: ptr::null_mut(),
        tracer: ptr::null_mut(),
    },
    incr: ptr::null_mut(),
    tls: ptr::null_mut(),
};

/// Returns the first recording of a category at or after `from`; leaves the trace point if there is
/// none.
#[inline(always)]
fn next(
    category: &PerfettoTeCategoryImpl,
    time: PerfettoTeTimestamp,
    from: usize,
) -> PerfettoTeLlImplIterator {
    let instances = category.flag.instances() >> from << from;
    if instances != 0 {
        let thread = thread::current();
        if !thread.is_null() {
            // SAFETY: the state belongs to this thread, and there are no other uses here; no
            // callbacks of the program are called.
            let events = unsafe { &mut (*thread).events };
            for slot in bits(instances) {
                let Some((entry, buffer)) = events.entry(slot) else {
                    continue;
                };
                // The program may write even if the buffer is full; its packet is lost then.
                entry
                    .sequence
                    .prepare(&mut entry.tracer.writer, buffer, time);
                let entry = ptr::from_mut(entry);
                return PerfettoTeLlImplIterator {
                    ds: PerfettoDsImplTracerIterator {
                        inst_id: slot as u32,
                        tls: ptr::null_mut(),
                        tracer: entry.cast(),
                    },
                    incr: entry.cast(),
                    tls: entry.cast(),
                };
            }
        }
    }
    point::leave();
    END
}

/// Enters a trace point and advances to the first recording of a category. If its sequence must
/// restart, the restart is written first, with the given time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTeLlImplBegin(
    cat: *mut PerfettoTeCategoryImpl,
    ts: PerfettoTeTimestamp,
) -> PerfettoTeLlImplIterator {
    // SAFETY: by the contract of the crate.
    let Some(category) = (unsafe { cat.as_ref() }) else {
        return END;
    };
    if recording(category) == 0 {
        return END;
    }
    let Some(inside) = point::enter() else {
        return END;
    };
    // `next` leaves the trace point later.
    mem::forget(inside);
    next(category, ts, 0)
}

/// Advances to the next recording.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTeLlImplNext(
    cat: *mut PerfettoTeCategoryImpl,
    ts: PerfettoTeTimestamp,
    iterator: *mut PerfettoTeLlImplIterator,
) {
    // SAFETY: by the contract of the crate.
    let (category, iterator) = unsafe { (&*cat, &mut *iterator) };
    if !iterator.ds.tracer.is_null() {
        let from = iterator.ds.inst_id as usize + 1;
        *iterator = next(category, ts, from);
    }
}

/// Leaves the trace point early.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTeLlImplBreak(
    _cat: *mut PerfettoTeCategoryImpl,
    iterator: *mut PerfettoTeLlImplIterator,
) {
    // SAFETY: by the contract of the crate.
    let iterator = unsafe { &mut *iterator };
    if !iterator.ds.tracer.is_null() {
        *iterator = END;
        point::leave();
    }
}

/// Returns true if a recording selects a dynamic category.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTeLlImplDynCatEnabled(
    tracer: *mut c_void,
    _inst_id: u32,
    dyn_cat: *const PerfettoTeCategoryDescriptor,
) -> bool {
    // SAFETY: by the contract of the crate; tracers of track events are entries.
    unsafe { (*tracer.cast::<Entry>()).sequence.wants(&*dyn_cat) }
}

/// Returns true if a track was described before, and marks it as described.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTeLlImplTrackSeen(incr: *mut c_void, uuid: u64) -> bool {
    // SAFETY: by the contract of the crate; `next` stored an entry there.
    unsafe { !(*incr.cast::<Entry>()).sequence.described.insert(uuid) }
}

/// Returns the iid of data, and sets `seen` to true if it had one before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTeLlImplIntern(
    incr: *mut c_void,
    type_: i32,
    data: *const c_void,
    data_size: usize,
    seen: *mut bool,
) -> u64 {
    let bytes = match data_size {
        0 => &[],
        // SAFETY: by the contract of the crate.
        size => unsafe { slice::from_raw_parts(data.cast::<u8>(), size) },
    };
    // SAFETY: by the contract of the crate; `next` stored an entry there.
    unsafe {
        let (number, is_known) = (*incr.cast::<Entry>())
            .sequence
            .interner
            .intern(type_ as u32, bytes);
        seen.write(is_known);
        number
    }
}
