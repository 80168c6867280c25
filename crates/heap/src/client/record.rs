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

/// The interval between two attempts to write a record, in microseconds.
const RETRY_US: u64 = 100;
/// The number of checks that the profiler has read all records, if allocations do not wait for free
/// space.
const READ_ATTEMPTS: u64 = 1000;
/// One of this many samples contains its stack even if frame pointers are sufficient, so that the
/// profiler can check them.
const CHECK_INTERVAL: u64 = 64;

/// An allocation that was removed from the set before a move, which may fail.
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
    while let Some(address) = thread.take_postponed() {
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

/// Records an allocation of `malloc` if it is sampled.
#[cold]
#[inline(never)]
pub(super) fn sampled(address: u64, size: u64) {
    // Read here, so that the next frame is the program's.
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
            let sample = Allocation {
                id: LIBC,
                heap,
                address,
                size,
                weight,
            };
            allocation(thread, &sample, &registers);
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
        if super::is_announced() {
            super::connect_if_announced();
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
        let sample = Allocation {
            id,
            heap,
            address,
            size,
            weight,
        };
        weight > 0 && allocation(thread, &sample, &registers)
    });
    recorded.unwrap_or(false)
}

/// Samples an allocation of a heap other than `malloc`. Returns its weight; 0 if it is not sampled.
pub(super) fn weigh(heap: &Heap, interval: u64, size: u64) -> u64 {
    let Some(_locked) = Lockful::new() else {
        return 0;
    };
    // SAFETY: the lock is held.
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
    sample: &Allocation<'_>,
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
    adapt(&used, writer, sample);
    let Some(mut locked) = Lockful::new() else {
        give_up(used, error_state::HIT_TIMEOUT);
        return false;
    };
    let is_kept = locked.guarded().set.insert(sample.address, sample.id);
    let sequence = next_sequence(sample.heap);
    drop(locked);
    if !is_kept {
        writer.lost();
        return false;
    }
    match write_sample(thread, &used, writer, sample, sequence, registers) {
        Ok(()) => {
            if writer.takes_pause() && !used.session().socket.wake() {
                drop(used);
                session::end();
            }
            true
        }
        Err(error) => {
            if let Some(mut locked) = Lockful::new() {
                locked.guarded().set.remove(sample.address, sample.id);
            }
            writer.lost();
            // Upstream's profiler stops at a gap in the sequence.
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

/// Returns true if a profiler has announced a session and this session's profiler is gone.
fn is_replaced(used: &Use) -> bool {
    super::is_announced() && used.session().socket.is_closed()
}

/// Doubles the interval when the ring fills up, if the config requests it.
fn adapt(used: &Use, writer: &Writer, sample: &Allocation<'_>) {
    let config = &used.session().config;
    let threshold = config.adaptive_threshold;
    if threshold == 0 || writer.free() >= threshold {
        return;
    }
    let old = sample.heap.interval.load(Ordering::Relaxed);
    let (interval, flag) = (old & !ALL_FREES, old & ALL_FREES);
    let limit = config.adaptive_max_interval;
    if interval == 0 || (limit != 0 && interval >= limit) || interval > 1 << 40 {
        return;
    }
    let new = interval * 2;
    let exchanged =
        sample
            .heap
            .interval
            .compare_exchange(old, new | flag, Ordering::SeqCst, Ordering::Relaxed);
    if exchanged.is_ok() {
        session::restart_sampling();
        let _ = heap_name(used, sample.id, new, &[0; NAME_BYTES]);
    }
}

fn write_sample(
    thread: &mut Thread,
    used: &Use,
    writer: &Writer,
    sample: &Allocation<'_>,
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
    let spared = is_extended
        && length > 1
        && writer.is_chain_enough()
        && !sequence.is_multiple_of(CHECK_INTERVAL);
    let copied = if spared {
        0
    } else {
        whole.min(writer.stack_bytes())
    };
    let metadata = AllocMetadata {
        sequence_number: sequence,
        alloc_size: sample.size,
        sample_size: sample.weight,
        alloc_address: sample.address,
        stack_pointer: sp,
        timestamp: now(),
        registers: *registers,
        heap_id: sample.id,
        arch: arch::NATIVE,
        ..AllocMetadata::EMPTY
    };
    let header = ChainHeader {
        count: length as u32,
        is_cut: u32::from(copied < whole),
    };
    let head = 8 + size_of::<AllocMetadata>();
    let fixed = if is_extended {
        head + size_of::<ChainHeader>() + length * 8
    } else {
        head
    };
    write(used, writer, fixed + copied, |to| {
        // SAFETY: `to` has space for the size above and is aligned to 8.
        unsafe {
            let kind = if is_extended {
                kind::MALLOC_WITH_CHAIN
            } else {
                kind::MALLOC
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

/// Writes a record. Waits for free space as configured.
fn write(used: &Use, writer: &Writer, size: usize, copy: impl Fn(*mut u8)) -> Result<(), Full> {
    let session = used.session();
    let attempts = attempts(used).unwrap_or(1);
    let _ = flush_late(writer);
    for attempt in 0..attempts {
        match writer.write(size, &copy) {
            Err(Full::Now) if attempt + 1 < attempts => {}
            result => return result,
        }
        // Wakes the reader, which may be waiting for a byte or sleeping.
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
        // SAFETY: `to` has space for the record and is aligned to 8.
        unsafe {
            to.cast::<u64>().write(kind::HEAP_NAME);
            to.add(8).cast::<HeapName>().write(entry);
        }
    });
    written.is_ok()
}

/// Waits until the profiler has read all records written so far. The timeout is that for free
/// space, or a tenth of a second if allocations do not wait for it.
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

/// Writes a record that mapped code may have changed.
pub(super) fn maps_changed() {
    busily(|_| {
        let Some(used) = Use::enter() else { return };
        let Some(writer) = &used.session().writer else {
            return;
        };
        if used.session().is_extended {
            // If the ring is full, the record is dropped: the profiler also notices the change with
            // later samples.
            let _ = writer.write(8, |to| {
                // SAFETY: `to` has space for the record and is aligned to 8.
                unsafe { to.cast::<u64>().write(kind::MAPS_CHANGED) };
            });
        }
    });
}

fn write_free(writer: &Writer, entry: FreeEntry) -> Result<(), Full> {
    writer.write(8 + size_of::<FreeEntry>(), |to| {
        // SAFETY: `to` has space for the record and is aligned to 8.
        unsafe {
            to.cast::<u64>().write(kind::FREE);
            to.add(8).cast::<FreeEntry>().write(entry);
        }
    })
}

/// Records a free of `malloc`'s memory, which may have been sampled.
#[cold]
#[inline(never)]
pub(super) fn freed(address: u64) {
    if address == 0 {
        return;
    }
    if busily(|_| free(LIBC, address)).is_none() {
        // In a signal handler that interrupted the client, or in the client itself.
        let _ = thread::current().postpone(address);
    }
}

/// Records a free of a custom heap's memory.
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
        record_free(&taken);
    }
}

/// Removes an allocation of `malloc` from the set before a move.
#[cold]
#[inline(never)]
pub(super) fn take(address: u64) -> Option<Taken> {
    busily(|_| take_from(LIBC, address)).flatten()
}

/// Records the free of a taken allocation, or puts it back.
#[cold]
#[inline(never)]
pub(super) fn finish_move(taken: Taken, is_gone: bool) {
    busily(|_| {
        if is_gone {
            return record_free(&taken);
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
            // Upstream's profiler needs a record with the used sequence number.
            record_free(&Taken {
                address: 0,
                ..taken
            });
        }
    });
}

/// Removes an allocation from the set. `None` if its free need not be written.
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

fn record_free(taken: &Taken) {
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
    let written = if used.session().is_extended {
        // It may be postponed: the profiler orders frees by their sequence numbers.
        write_free(writer, entry)
    } else {
        write(&used, writer, 8 + size_of::<FreeEntry>(), |to| {
            // SAFETY: `to` has space for the record and is aligned to 8.
            unsafe {
                to.cast::<u64>().write(kind::FREE);
                to.add(8).cast::<FreeEntry>().write(entry);
            }
        })
    };
    let is_recorded = match written {
        Ok(()) => {
            let wakes = writer.free() < writer.size() / 2 && writer.takes_pause();
            !wakes || used.session().socket.wake()
        }
        Err(Full::Now) if used.session().is_extended => {
            postpone(entry) && !used.session().socket.is_closed()
        }
        Err(_) => false,
    };
    if !is_recorded {
        give_up(used, error_state::HIT_TIMEOUT);
    }
}

/// Stores a free until the ring has space. Returns false if there are too many.
fn postpone(entry: FreeEntry) -> bool {
    let Some(mut locked) = Lockful::new() else {
        return false;
    };
    let guarded = locked.guarded();
    let Some(slot) = guarded.late.get_mut(guarded.late_count) else {
        return false;
    };
    *slot = (entry.sequence_number, entry.address, entry.heap_id);
    guarded.late_count += 1;
    true
}

/// Writes the postponed frees at exit.
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

/// Writes the postponed frees. Returns false if the ring has no space for all of them.
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
