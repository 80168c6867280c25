//! The client, which runs inside of allocators.
//!
//! [`passes`] and [`freeing`] are called for each allocation and free. Without a session,
//! `freeing` loads one word, which is 0, and `passes` also the generation of the control page.

mod connect;
mod gate;
mod heaps;
mod lock;
mod mappings;
mod record;
mod sampler;
mod session;
mod set;
mod stack;
mod thread;

use core::ffi::{CStr, c_char, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

pub use self::heaps::{
    DisabledCallback, EnableInfo, EnabledCallback, Heap, create_info, register,
    set_disabled_callback, set_enabled_callback,
};
use self::heaps::{HEAPS, MMAP};
pub use self::mappings::Moving;
pub use self::record::Taken;
pub(crate) use self::session::enable_late;
use crate::control::{DEFAULT_SOCKET, MAX_PATH, Page, SUFFIX};
use crate::sys::{self, KeptErrno};

/// The page of clients without a profiler.
static IDLE: Page = Page::idle();
/// The control page.
static PAGE: AtomicPtr<Page> = AtomicPtr::new((&raw const IDLE).cast_mut());
/// The last handled generation of the page.
static SEEN: AtomicU32 = AtomicU32::new(0);
/// The path of the profiler's socket. Written once, before `PAGE` is set.
static SOCKET: SocketPath = SocketPath(core::cell::UnsafeCell::new([0; MAX_PATH + 1]));
static IS_PREPARED: AtomicBool = AtomicBool::new(false);

struct SocketPath(core::cell::UnsafeCell<[u8; MAX_PATH + 1]>);

// SAFETY: `prepare` writes it once before it sets `PAGE`, and it is read only after that.
unsafe impl Sync for SocketPath {}

/// Looks for a profiler, once in a process. `socket` is the path in the environment, if set.
pub fn prepare(socket: Option<&CStr>) {
    if IS_PREPARED.swap(true, Ordering::AcqRel) {
        return;
    }
    let _errno = KeptErrno::new();
    heaps::create_libc();
    let name = socket.map_or(DEFAULT_SOCKET.as_bytes(), CStr::to_bytes);
    let mut page = [0_u8; MAX_PATH + 1 + SUFFIX.len()];
    let Some((start, end)) = page.split_at_mut_checked(name.len()) else {
        return;
    };
    if name.is_empty() || name.len() > MAX_PATH {
        return;
    }
    start.copy_from_slice(name);
    end[..SUFFIX.len()].copy_from_slice(SUFFIX.as_bytes());
    // SAFETY: only the first caller gets here, and the path is read only after `PAGE` is set.
    unsafe { (&mut *SOCKET.0.get())[..name.len()].copy_from_slice(name) };
    let page = CStr::from_bytes_until_nul(&page).ok().and_then(Page::open);
    let Some(page) = page else { return };
    sys::at_fork(in_forked_child);
    // SAFETY: the handler is a function that is never unloaded.
    unsafe { sys::__cxa_atexit(at_exit, ptr::null_mut(), ptr::null_mut()) };
    PAGE.store(ptr::from_ref(page).cast_mut(), Ordering::Release);
    connect_if_announced();
}

/// Looks for a profiler by the environment of the running program.
pub fn prepare_from_environment() {
    // SAFETY: always succeeds.
    if unsafe { sys::getauxval(sys::AT_SECURE) } != 0 {
        IS_PREPARED.store(true, Ordering::Release);
        return;
    }
    // SAFETY: the name ends with a 0, and `prepare` copies the value.
    let value = unsafe {
        let value: *const c_char = sys::getenv(c"FERRETTO_HEAP_SOCK_NAME".as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))
    };
    prepare(value);
}

/// Returns true if [`prepare`] was called.
#[inline(always)]
#[must_use]
pub fn is_prepared() -> bool {
    IS_PREPARED.load(Ordering::Relaxed)
}

#[inline(always)]
fn page() -> &'static Page {
    // SAFETY: the page is never unmapped.
    unsafe { &*PAGE.load(Ordering::Relaxed) }
}

/// Returns true if the profiler has announced a session since the last check.
#[inline(always)]
fn is_announced() -> bool {
    page().generation.load(Ordering::Relaxed) != SEEN.load(Ordering::Relaxed)
}

/// Connects to the profiler if it has announced a session.
#[cold]
#[inline(never)]
fn connect_if_announced() {
    let page = page();
    let generation = page.generation.load(Ordering::Acquire);
    if SEEN.swap(generation, Ordering::AcqRel) == generation {
        return;
    }
    if page.active.load(Ordering::Acquire) == 0 {
        return;
    }
    let thread = thread::current();
    if thread.is_busy != 0 {
        // The next allocation tries again.
        SEEN.store(generation.wrapping_sub(1), Ordering::Release);
        return;
    }
    thread.is_busy = 1;
    let errno = KeptErrno::new();
    // SAFETY: written before `PAGE` was set.
    let path = unsafe { &*SOCKET.0.get() };
    let length = path.iter().position(|&byte| byte == 0).unwrap_or(MAX_PATH);
    if !session::begin(&path[..length]) {
        // The next allocation tries again.
        SEEN.store(generation.wrapping_sub(1), Ordering::Release);
    }
    drop(errno);
    thread.is_busy = 0;
}

/// Returns true if an allocation of `malloc` of this size is not sampled. Otherwise, call
/// [`allocated`] after the allocation.
#[inline(always)]
#[must_use]
pub fn passes(size: usize) -> bool {
    let tag = session::tag();
    if tag == 0 {
        return !is_announced();
    }
    let thread = thread::current();
    let size = size as u64;
    let passes = thread.tag == tag && size < thread.passing;
    if passes {
        thread.passing -= size;
    }
    passes
}

/// Records an allocation of `malloc` for which [`passes`] returned false.
#[cold]
#[inline(never)]
pub fn allocated(address: *mut c_void, size: usize) {
    if session::tag() == 0 {
        connect_if_announced();
    }
    if session::tag() != 0 {
        record::sampled(address as u64, size as u64);
    }
}

/// Records a free of `malloc`'s memory. Call it before the free.
#[inline(always)]
pub fn freeing(address: *mut c_void) {
    if set::may_contain(address as u64) {
        record::freed(address as u64);
    }
}

/// Prepares a move of `malloc`'s memory. Pass the result to [`moved`].
#[inline(always)]
#[must_use]
pub fn moving(address: *mut c_void) -> Option<Taken> {
    if set::may_contain(address as u64) {
        record::take(address as u64)
    } else {
        None
    }
}

/// Completes a move; `is_gone` if the memory was moved or freed.
pub fn moved(taken: Taken, is_gone: bool) {
    record::finish_move(taken, is_gone);
}

/// `AHeapProfile_reportAllocation`: returns true if the allocation was sampled.
#[must_use]
pub fn report_allocation(heap: u32, id: u64, size: u64) -> bool {
    record::report(heap, id, size, true)
}

/// `AHeapProfile_reportSample`: records an allocation that the caller has sampled.
#[must_use]
pub fn report_sample(heap: u32, id: u64, size: u64) -> bool {
    record::report(heap, id, size, false)
}

/// `AHeapProfile_reportFree`.
pub fn report_free(heap: u32, id: u64) {
    record::report_freed(heap, id);
}

/// Returns true if the heap of mappings is recorded.
#[inline(always)]
fn records_mappings() -> bool {
    HEAPS[MMAP as usize].interval.load(Ordering::Relaxed) != 0
}

/// Rounds up to the end of a page.
fn page_end(address: u64) -> u64 {
    let page = sys::page_size() as u64;
    address.saturating_add(page - 1) & !(page - 1)
}

/// Extends a range to whole pages. `None` if it is empty or not aligned to a page.
fn range(address: *mut c_void, length: usize) -> Option<(u64, u64)> {
    let start = address as u64;
    let is_range = length > 0 && start.is_multiple_of(sys::page_size() as u64);
    let end = page_end(start.checked_add(length as u64)?);
    is_range.then_some((start, end))
}

/// Records a new writable anonymous mapping.
pub fn mapped(address: *mut c_void, length: usize) {
    if !records_mappings() && is_announced() {
        connect_if_announced();
    }
    if records_mappings()
        && let Some((start, end)) = range(address, length)
    {
        mappings::mapped(start, end);
    }
}

/// Records an unmapping. Call it before the unmapping. If the range overlaps the ring, ends the
/// session.
pub fn unmapping(address: *mut c_void, length: usize) {
    session::unmapping(address as usize, length);
    if records_mappings()
        && let Some((start, end)) = range(address, length)
    {
        mappings::unmapping(start, end);
    }
}

/// Prepares a move of a mapping. Pass the result to [`remapped`].
#[must_use]
pub fn remapping(address: *mut c_void, length: usize) -> Option<Moving> {
    let (start, end) = range(address, length).filter(|_| records_mappings())?;
    mappings::moving(start, end)
}

/// Completes a move of a mapping; `None` if it was not moved.
pub fn remapped(moving: Moving, new: Option<(*mut c_void, usize)>) {
    let new = new.and_then(|(address, length)| range(address, length));
    mappings::moved(moving, new);
}

/// Waits before a library is unloaded until the profiler has read all samples, since it needs the
/// library to unwind their stacks.
pub fn unloading() {
    record::wait_until_read();
}

/// Records that a library was unloaded, since another one may reuse its addresses.
pub fn unloaded() {
    record::maps_changed();
}

/// Writes the remaining records at exit.
extern "C" fn at_exit(_: *mut c_void) {
    record::finish();
}

/// Abandons the parent's session. The child connects by itself.
extern "C" fn in_forked_child() {
    let _errno = KeptErrno::new();
    thread::current().is_busy = 0;
    session::forget();
    let page = page();
    SEEN.store(
        page.generation.load(Ordering::Relaxed).wrapping_sub(1),
        Ordering::Release,
    );
}
