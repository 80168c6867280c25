//! Events whose packets the program writes.

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

/// The first recording at `from` or behind it that wants a category, with its place; leaves the
/// trace point if there is none.
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
            // SAFETY: this thread's, and nobody else uses it here; nothing here calls the program.
            let events = unsafe { &mut (*thread).events };
            for place in bits(instances) {
                let Some((entry, buffer)) = events.entry(place) else {
                    continue;
                };
                // The program may write even if there was no room; its packet is lost then.
                entry
                    .sequence
                    .prepare(&mut entry.tracer.writer, buffer, time);
                let entry = ptr::from_mut(entry);
                return PerfettoTeLlImplIterator {
                    ds: PerfettoDsImplTracerIterator {
                        inst_id: place as u32,
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

/// Enters a trace point and goes to the first recording that wants a category. If its sequence has
/// to restart, that is written first, with the time given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTeLlImplBegin(
    cat: *mut PerfettoTeCategoryImpl,
    ts: PerfettoTeTimestamp,
) -> PerfettoTeLlImplIterator {
    // SAFETY: see the crate.
    let Some(category) = (unsafe { cat.as_ref() }) else {
        return END;
    };
    if recording(category) == 0 {
        return END;
    }
    let Some(inside) = point::enter() else {
        return END;
    };
    // Left by `next`, sooner or later.
    mem::forget(inside);
    next(category, ts, 0)
}

/// Goes to the next recording.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTeLlImplNext(
    cat: *mut PerfettoTeCategoryImpl,
    ts: PerfettoTeTimestamp,
    iterator: *mut PerfettoTeLlImplIterator,
) {
    // SAFETY: see the crate.
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
    // SAFETY: see the crate.
    let iterator = unsafe { &mut *iterator };
    if !iterator.ds.tracer.is_null() {
        *iterator = END;
        point::leave();
    }
}

/// Returns true if a recording wants a category that is not registered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTeLlImplDynCatEnabled(
    tracer: *mut c_void,
    _inst_id: u32,
    dyn_cat: *const PerfettoTeCategoryDescriptor,
) -> bool {
    // SAFETY: see the crate; tracers of track events are entries.
    unsafe { (*tracer.cast::<Entry>()).sequence.wants(&*dyn_cat) }
}

/// Returns true if a track was described; from now on it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTeLlImplTrackSeen(incr: *mut c_void, uuid: u64) -> bool {
    // SAFETY: see the crate; `next` has put an entry there.
    unsafe { !(*incr.cast::<Entry>()).sequence.described.insert(uuid) }
}

/// The number of some data, and whether it had one before.
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
        // SAFETY: see the crate.
        size => unsafe { slice::from_raw_parts(data.cast::<u8>(), size) },
    };
    // SAFETY: see the crate; `next` has put an entry there.
    unsafe {
        let (number, is_known) = (*incr.cast::<Entry>())
            .sequence
            .interner
            .intern(type_ as u32, bytes);
        seen.write(is_known);
        number
    }
}
