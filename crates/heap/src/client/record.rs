//! Writing of samples and frees.

use core::ptr;
use core::sync::atomic::Ordering;

use super::heaps::{self, ALL_FREES, HEAPS, Heap, LIBC};
use super::session::{self, Lockful, MAX_LATE, Use};
use super::stack::{self, FOREIGN_BYTES, MAX_CHAIN, Registers};
use super::thread::{self, Thread};
use super::{sampler, set};
use crate::ring::{Full, Writer, error_state};
use crate::sys::{self, KeptErrno};
use crate::wire::{
    AllocMetadata, ChainHeader, FreeEntry, HeapName, NAME_BYTES, arch, record as kind,
};

/// Microseconds between two attempts of one that waits for room.
const RETRY_US: u64 = 100;
/// Times that one waits for the profiler to read all, if allocations do not wait for it.
const READ_ATTEMPTS: u64 = 1000;
/// One of so many samples brings its stack even if frame pointers will do.
const CHECKED: u64 = 64;

/// An allocation removed from the set until its fate is known.
#[derive(Debug, Clone, Copy)]
pub struct Taken {
    heap: u32,
    address: u64,
    sequence: u64,
    was_sampled: bool,
}

/// Runs `f` as the client, without recording its allocations. Does nothing if the client is already
/// running.
pub(super) fn busily<R>(f: impl FnOnce(&mut Thread) -> R) -> Option<R> {
    let thread = thread::current();
    if thread.is_busy != 0 {
        return None;
    }
    thread.is_busy = 1;
    let errno = KeptErrno::new();
    let result = f(thread);
    while let Some(address) = thread.take_left() {
        free(LIBC, address);
    }
    drop(errno);
    thread.is_busy = 0;
    Some(result)
}

/// Ends the session with an error.
fn give_up(used: Use, error: u64) {
    if let Some(writer) = &used.session().writer {
        writer.set_error(error);
    }
    drop(used);
    session::end();
}

/// Records an allocation of `malloc`, if the sampler wants it.
#[cold]
#[inline(never)]
pub(super) fn sampled(address: u64, size: u64) {
    // Taken here, so that the callers of this function are those of the program.
    let registers = stack::registers();
    busily(|thread| {
        let heap = &HEAPS[LIBC as usize];
        let interval = heap.interval.load(Ordering::Relaxed) & !ALL_FREES;
        let tag = session::tag();
        if interval == 0 || tag == 0 {
            return;
        }
        let weight = thread.sample(tag, interval, size);
        if weight > 0 {
            let what = Allocation {
                id: LIBC,
                heap,
                address,
                size,
                weight,
            };
            allocation(thread, &what, &registers);
        }
    });
}

/// Records an allocation of a custom heap.
#[inline(never)]
pub(super) fn report(id: u32, address: u64, size: u64, samples: bool) -> bool {
    let Some(heap) = heaps::registered_by_id(id) else {
        return false;
    };
    if heap.interval.load(Ordering::Relaxed) == 0 {
        if super::is_called() {
            super::look();
        }
        if heap.interval.load(Ordering::Relaxed) == 0 {
            return false;
        }
    }
    let registers = stack::registers();
    let recorded = busily(|thread| {
        let interval = heap.interval.load(Ordering::Relaxed) & !ALL_FREES;
        let weight = match (interval, samples) {
            (0, _) => 0,
            (_, false) => size,
            _ => weigh(heap, interval, size),
        };
        let what = Allocation {
            id,
            heap,
            address,
            size,
            weight,
        };
        weight > 0 && allocation(thread, &what, &registers)
    });
    recorded.unwrap_or(false)
}

/// Samples an allocation of another heap than that of `malloc`.
pub(super) fn weigh(heap: &Heap, interval: u64, size: u64) -> u64 {
    let Some(_locked) = Lockful::new() else {
        return 0;
    };
    // SAFETY: changed under the lock.
    let settings = unsafe { &mut *heap.settings.get() };
    sampler::sample(&mut settings.next, &mut settings.random, interval, size)
}

/// A sampled allocation.
pub(super) struct Allocation<'a> {
    pub(super) id: u32,
    pub(super) heap: &'a Heap,
    pub(super) address: u64,
    pub(super) size: u64,
    /// The number of bytes that the sample represents.
    pub(super) weight: u64,
}

/// Records an allocation. Returns false on failure.
pub(super) fn allocation(
    thread: &mut Thread,
    what: &Allocation<'_>,
    registers: &Registers,
) -> bool {
    let Some(used) = Use::enter() else {
        return false;
    };
    let Some(writer) = &used.session().writer else {
        return false;
    };
    if writer.is_shutting_down() || is_replaced(&used) {
        drop(used);
        session::end();
        return false;
    }
    adapt(&used, writer, what);
    let Some(mut locked) = Lockful::new() else {
        give_up(used, error_state::HIT_TIMEOUT);
        return false;
    };
    let is_kept = locked.guarded().set.insert(what.address, what.id);
    let sequence = next_sequence(what.heap);
    drop(locked);
    if !is_kept {
        writer.lost();
        return false;
    }
    match write_sample(thread, &used, writer, what, sequence, registers) {
        Ok(()) => {
            if writer.takes_pause() && !used.session().socket.wake() {
                drop(used);
                session::end();
            }
            true
        }
        Err(error) => {
            if let Some(mut locked) = Lockful::new() {
                locked.guarded().set.remove(what.address, what.id);
            }
            writer.lost();
            // A gap in the sequence would stop upstream's books.
            let is_fatal = !used.session().is_extended || error == Full::Always;
            if is_fatal || used.session().socket.is_closed() {
                give_up(used, error_state::HIT_TIMEOUT);
            }
            false
        }
    }
}

fn next_sequence(heap: &Heap) -> u64 {
    heap.sequence.fetch_add(1, Ordering::Relaxed) + 1
}

/// Returns true if another profiler has called, and this one is gone.
fn is_replaced(used: &Use) -> bool {
    super::is_called() && used.session().socket.is_closed()
}

/// Doubles the interval when the ring fills up, if the config requests it.
fn adapt(used: &Use, writer: &Writer, what: &Allocation<'_>) {
    let config = &used.session().config;
    let threshold = config.adaptive_threshold;
    if threshold == 0 || writer.free() >= threshold {
        return;
    }
    let old = what.heap.interval.load(Ordering::Relaxed);
    let (interval, flag) = (old & !ALL_FREES, old & ALL_FREES);
    let limit = config.adaptive_max_interval;
    if interval == 0 || (limit != 0 && interval >= limit) || interval > 1 << 40 {
        return;
    }
    let new = interval * 2;
    let exchanged =
        what.heap
            .interval
            .compare_exchange(old, new | flag, Ordering::SeqCst, Ordering::Relaxed);
    if exchanged.is_ok() {
        session::restart_sampling();
        let _ = heap_name(used, what.id, new, &[0; NAME_BYTES]);
    }
}

fn write_sample(
    thread: &mut Thread,
    used: &Use,
    writer: &Writer,
    what: &Allocation<'_>,
    sequence: u64,
    registers: &Registers,
) -> Result<(), Full> {
    let (_, sp, _) = stack::pointers(registers);
    let end = stack::end(thread, sp);
    let is_extended = used.session().is_extended;
    let mut chain = [0; MAX_CHAIN];
    let length = match end {
        Some(end) if is_extended => stack::chain(registers, end, &mut chain),
        _ => 0,
    };
    let chain = chain.get(..length).unwrap_or_default();
    let whole = end.map_or(FOREIGN_BYTES, |end| (end - sp) as usize);
    let spared =
        is_extended && length > 1 && writer.is_chain_enough() && !sequence.is_multiple_of(CHECKED);
    let copied = match spared {
        true => 0,
        false => whole.min(writer.stack_bytes()),
    };
    let metadata = AllocMetadata {
        sequence_number: sequence,
        alloc_size: what.size,
        sample_size: what.weight,
        alloc_address: what.address,
        stack_pointer: sp,
        timestamp: now(),
        registers: *registers,
        heap_id: what.id,
        arch: arch::NATIVE,
        ..AllocMetadata::EMPTY
    };
    let header = ChainHeader {
        count: length as u32,
        is_cut: u32::from(copied < whole),
    };
    let head = 8 + size_of::<AllocMetadata>();
    let fixed = match is_extended {
        true => head + size_of::<ChainHeader>() + length * 8,
        false => head,
    };
    write(used, writer, fixed + copied, |to| {
        // SAFETY: `to` has room for what was counted above, and is aligned to 8.
        unsafe {
            let kind = match is_extended {
                true => kind::MALLOC_WITH_CHAIN,
                false => kind::MALLOC,
            };
            to.cast::<u64>().write(kind);
            to.add(8).cast::<AllocMetadata>().write(metadata);
            if is_extended {
                to.add(head).cast::<ChainHeader>().write(header);
                let addresses = to.add(head + size_of::<ChainHeader>()).cast::<u64>();
                for (at, address) in chain.iter().enumerate() {
                    addresses.add(at).write(*address);
                }
            }
            match end {
                Some(_) => stack::copy(sp, to.add(fixed), copied),
                None if copied >= FOREIGN_BYTES => stack::copy_foreign(sp, to.add(fixed)),
                None => ptr::write_bytes(to.add(fixed), 0, copied),
            }
        }
    })
}

fn now() -> u64 {
    let mut time = sys::Timespec::default();
    // SAFETY: `time` is valid.
    unsafe { sys::clock_gettime(sys::CLOCK_MONOTONIC_COARSE, &mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

/// Returns the configured number of attempts of an allocation; `None` if there is only one.
fn attempts(used: &Use) -> Option<u64> {
    let config = &used.session().config;
    match (config.block_client, config.block_client_timeout_us) {
        (0, _) => None,
        (_, 0) => Some(u64::MAX),
        (_, timeout) => Some((timeout / RETRY_US).max(1)),
    }
}

/// Writes a record, and waits for room as the config says.
fn write(used: &Use, writer: &Writer, size: usize, copy: impl Fn(*mut u8)) -> Result<(), Full> {
    let session = used.session();
    let attempts = attempts(used).unwrap_or(1);
    let _ = flush_late(writer);
    for attempt in 0..attempts {
        match writer.write(size, &copy) {
            Err(Full::Now) if attempt + 1 < attempts => {}
            result => return result,
        }
        // Its reader may sleep, or pause because there was little to read.
        let wakes = writer.takes_pause() || attempt == 0;
        let is_gone = wakes && !session.socket.wake();
        if is_gone || writer.is_shutting_down() || session.socket.is_closed() {
            return Err(Full::Always);
        }
        sys::sleep_us(RETRY_US as i64);
    }
    Err(Full::Now)
}

/// Writes the name and interval of a heap, or only the interval.
pub(super) fn heap_name(used: &Use, id: u32, interval: u64, name: &[u8; NAME_BYTES]) -> bool {
    let Some(writer) = &used.session().writer else {
        return false;
    };
    let entry = HeapName {
        sample_interval: interval,
        heap_id: id,
        name: *name,
        padding: [0; 4],
    };
    let written = write(used, writer, 8 + size_of::<HeapName>(), |to| {
        // SAFETY: `to` has room, and is aligned to 8.
        unsafe {
            to.cast::<u64>().write(kind::HEAP_NAME);
            to.add(8).cast::<HeapName>().write(entry);
        }
    });
    written.is_ok()
}

/// Waits until the profiler has read what was written before, as long as for room; for a tenth of
/// a second if that is not waited for.
pub(super) fn wait_until_read() {
    busily(|_| {
        let Some(used) = Use::enter() else { return };
        let Some(writer) = &used.session().writer else {
            return;
        };
        let position = writer.position();
        for attempt in 0..attempts(&used).unwrap_or(READ_ATTEMPTS) {
            let wakes = writer.takes_pause() || attempt == 0;
            let is_gone = wakes && !used.session().socket.wake();
            let is_over = is_gone || writer.is_shutting_down() || writer.is_read(position);
            if is_over || used.session().socket.is_closed() {
                return;
            }
            sys::sleep_us(RETRY_US as i64);
        }
    });
}

/// Writes that code may have changed.
pub(super) fn maps_changed() {
    busily(|_| {
        let Some(used) = Use::enter() else { return };
        let Some(writer) = &used.session().writer else {
            return;
        };
        if used.session().is_extended {
            // Without room there are samples to come that tell as much.
            let _ = writer.write(8, |to| {
                // SAFETY: `to` has room, and is aligned to 8.
                unsafe { to.cast::<u64>().write(kind::MAPS_CHANGED) };
            });
        }
    });
}

fn write_free(writer: &Writer, entry: FreeEntry) -> Result<(), Full> {
    writer.write(8 + size_of::<FreeEntry>(), |to| {
        // SAFETY: `to` has room, and is aligned to 8.
        unsafe {
            to.cast::<u64>().write(kind::FREE);
            to.add(8).cast::<FreeEntry>().write(entry);
        }
    })
}

/// Memory of `malloc` is freed, and was perhaps sampled.
#[cold]
#[inline(never)]
pub(super) fn freed(address: u64) {
    if address == 0 {
        return;
    }
    if busily(|_| free(LIBC, address)).is_none() {
        // A signal handler, in the middle of the client, or the client's own.
        let _ = thread::current().leave(address);
    }
}

/// Memory of a heap of the program's is freed.
pub(super) fn report_freed(id: u32, address: u64) {
    let Some(heap) = heaps::registered_by_id(id) else {
        return;
    };
    let interval = heap.interval.load(Ordering::Relaxed);
    if interval != 0 && (interval & ALL_FREES != 0 || set::may_contain_of_any(address)) {
        busily(|_| free(id, address));
    }
}

pub(super) fn free(id: u32, address: u64) {
    if let Some(taken) = take_from(id, address) {
        tell_free(&taken);
    }
}

/// Takes an allocation of `malloc` out of the set, before it is moved.
#[cold]
#[inline(never)]
pub(super) fn take(address: u64) -> Option<Taken> {
    busily(|_| take_from(LIBC, address)).flatten()
}

/// Records the fate of a taken allocation.
#[cold]
#[inline(never)]
pub(super) fn settle(taken: Taken, is_gone: bool) {
    busily(|_| {
        if is_gone {
            return tell_free(&taken);
        }
        let session = Use::enter();
        let is_extended = session
            .as_ref()
            .is_none_or(|used| used.session().is_extended);
        if taken.was_sampled
            && session.is_some()
            && let Some(mut locked) = Lockful::new()
        {
            locked.guarded().set.insert(taken.address, taken.heap);
        }
        drop(session);
        if !is_extended {
            // The number was given out, and the books wait for it.
            tell_free(&Taken {
                address: 0,
                ..taken
            });
        }
    });
}

/// Takes an allocation out of the set, before it is gone.
pub(super) fn take_from(id: u32, address: u64) -> Option<Taken> {
    let used = Use::enter()?;
    let heap = heaps::by_id(id)?;
    let mut locked = Lockful::new()?;
    let was_sampled = locked.guarded().set.remove(address, id);
    if !was_sampled && used.session().is_extended {
        return None;
    }
    Some(Taken {
        heap: id,
        address,
        sequence: next_sequence(heap),
        was_sampled,
    })
}

fn tell_free(taken: &Taken) {
    let Some(used) = Use::enter() else { return };
    let Some(writer) = &used.session().writer else {
        return;
    };
    if writer.is_shutting_down() || is_replaced(&used) {
        drop(used);
        return session::end();
    }
    let entry = FreeEntry {
        sequence_number: taken.sequence,
        address: taken.address,
        heap_id: taken.heap,
        padding: 0,
    };
    let written = match used.session().is_extended {
        // It may come later; the books know by the number what it frees.
        true => write_free(writer, entry),
        false => write(&used, writer, 8 + size_of::<FreeEntry>(), |to| {
            // SAFETY: `to` has room, and is aligned to 8.
            unsafe {
                to.cast::<u64>().write(kind::FREE);
                to.add(8).cast::<FreeEntry>().write(entry);
            }
        }),
    };
    let is_told = match written {
        Ok(()) => {
            let wakes = writer.free() < writer.size() / 2 && writer.takes_pause();
            !wakes || used.session().socket.wake()
        }
        Err(Full::Now) if used.session().is_extended => {
            postpone(entry) && !used.session().socket.is_closed()
        }
        Err(_) => false,
    };
    if !is_told {
        give_up(used, error_state::HIT_TIMEOUT);
    }
}

/// Keeps a free for when there is room; `false` if too many are kept.
fn postpone(entry: FreeEntry) -> bool {
    let Some(mut locked) = Lockful::new() else {
        return false;
    };
    let guarded = locked.guarded();
    let Some(place) = guarded.late.get_mut(guarded.late_count) else {
        return false;
    };
    *place = (entry.sequence_number, entry.address, entry.heap_id);
    guarded.late_count += 1;
    true
}

/// Writes what was kept, as the process ends: nothing follows that would.
pub(super) fn finish() {
    busily(|_| {
        let Some(used) = Use::enter() else { return };
        let Some(writer) = &used.session().writer else {
            return;
        };
        for attempt in 0..attempts(&used).unwrap_or(1) {
            if flush_late(writer) || writer.is_shutting_down() {
                return;
            }
            let wakes = writer.takes_pause() || attempt == 0;
            let is_gone = wakes && !used.session().socket.wake();
            if is_gone || used.session().socket.is_closed() {
                return;
            }
            sys::sleep_us(RETRY_US as i64);
        }
    });
}

/// Writes what was kept; `false` if there is no room for all of it.
fn flush_late(writer: &Writer) -> bool {
    let Some(mut locked) = Lockful::new() else {
        return true;
    };
    let guarded = locked.guarded();
    while let Some(last) = guarded
        .late_count
        .checked_sub(1)
        .filter(|&last| last < MAX_LATE)
    {
        let (sequence_number, address, heap_id) = guarded.late[last];
        let entry = FreeEntry {
            sequence_number,
            address,
            heap_id,
            padding: 0,
        };
        if write_free(writer, entry).is_err() {
            return false;
        }
        guarded.late_count = last;
    }
    true
}
