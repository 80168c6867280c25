//! The preload library: the allocator's functions. Each calls the next library's function and
//! notifies the client.

#![no_std]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use ferretto_heap::client::{self, DisabledCallback, EnableInfo, EnabledCallback, Heap};
use ferretto_heap::sys;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: does not return.
    unsafe { abort() }
}

const RTLD_NEXT: *mut c_void = -1_isize as *mut c_void;
const RTLD_DEFAULT: *mut c_void = ptr::null_mut();

unsafe extern "C" {
    fn abort() -> !;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// A function of the next library.
struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
    /// Our function.
    own: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr, own: *const ()) -> Self {
        Self {
            name,
            address: AtomicPtr::new(ptr::null_mut()),
            own: AtomicPtr::new(own as *mut c_void),
        }
    }

    #[inline(always)]
    fn get(&self) -> *mut c_void {
        let address = self.address.load(Ordering::Relaxed);
        if address.is_null() {
            return self.find();
        }
        address
    }

    /// The linker allocates only if it does not find the function. If the program loaded this
    /// library, there is no next library, and the function is the program's.
    #[cold]
    #[inline(never)]
    fn find(&self) -> *mut c_void {
        // SAFETY: the name ends with a 0.
        let mut address = unsafe { dlsym(RTLD_NEXT, self.name.as_ptr()) };
        if address.is_null() {
            // SAFETY: as above.
            address = unsafe { dlsym(RTLD_DEFAULT, self.name.as_ptr()) };
            if address == self.own.load(Ordering::Relaxed) {
                return ptr::null_mut();
            }
        }
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

static CALLOC: Next = Next::new(c"calloc", calloc as *const ());
static REALLOC: Next = Next::new(c"realloc", realloc as *const ());
static POSIX_MEMALIGN: Next = Next::new(c"posix_memalign", posix_memalign as *const ());
static ALIGNED_ALLOC: Next = Next::new(c"aligned_alloc", aligned_alloc as *const ());
static MEMALIGN: Next = Next::new(c"memalign", memalign as *const ());
static VALLOC: Next = Next::new(c"valloc", valloc as *const ());
static PVALLOC: Next = Next::new(c"pvalloc", pvalloc as *const ());
static MMAP: Next = Next::new(c"mmap", mmap as *const ());
static MUNMAP: Next = Next::new(c"munmap", munmap as *const ());
static DLCLOSE: Next = Next::new(c"dlclose", dlclose as *const ());
static MREMAP: Next = Next::new(c"mremap", mremap as *const ());

type One = unsafe extern "C" fn(usize) -> *mut c_void;
type Two = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type Move = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type Align = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;
type Map = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, i64) -> *mut c_void;
type Unmap = unsafe extern "C" fn(*mut c_void, usize) -> c_int;
type Remap = unsafe extern "C" fn(*mut c_void, usize, usize, c_int, *mut c_void) -> *mut c_void;

type Close = unsafe extern "C" fn(*mut c_void) -> c_int;

const MAP_FAILED: *mut c_void = -1_isize as *mut c_void;
const MREMAP_FIXED: c_int = 2;

#[inline(always)]
fn note(address: *mut c_void, size: usize) -> *mut c_void {
    if !address.is_null() && !client::passes(size) {
        client::allocated(address, size);
    }
    address
}

/// Like [`note`], for an allocation that did not pass.
#[inline(always)]
fn note_sampled(address: *mut c_void, size: usize) -> *mut c_void {
    if !address.is_null() {
        client::allocated(address, size);
    }
    address
}

/// Calls a function with one argument.
#[inline(always)]
fn one(next: &Next, argument: usize) -> *mut c_void {
    let address = next.get();
    if address.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the function of that name has that type.
    unsafe { transmute::<*mut c_void, One>(address)(argument) }
}

#[inline(always)]
fn two(next: &Next, first: usize, second: usize) -> *mut c_void {
    let address = next.get();
    if address.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the function of that name has that type.
    unsafe { transmute::<*mut c_void, Two>(address)(first, second) }
}

/// The next library's functions. They start as functions that look for them, since a check in each
/// call would be expensive.
static MALLOC: AtomicPtr<c_void> = AtomicPtr::new(find_malloc as *const () as *mut c_void);
static FREE: AtomicPtr<c_void> = AtomicPtr::new(find_free as *const () as *mut c_void);

#[cold]
extern "C" fn find_malloc(size: usize) -> *mut c_void {
    static NEXT: Next = Next::new(c"malloc", malloc as *const ());
    let next = NEXT.get();
    if next.is_null() {
        return ptr::null_mut();
    }
    MALLOC.store(next, Ordering::Relaxed);
    next_malloc(size)
}

#[cold]
extern "C" fn find_free(address: *mut c_void) {
    static NEXT: Next = Next::new(c"free", free as *const ());
    let next = NEXT.get();
    if !next.is_null() {
        FREE.store(next, Ordering::Relaxed);
        next_free(address);
    }
}

#[inline(always)]
fn next_malloc(size: usize) -> *mut c_void {
    // SAFETY: `malloc` and `find_malloc` have that type.
    unsafe { transmute::<*mut c_void, One>(MALLOC.load(Ordering::Relaxed))(size) }
}

#[inline(always)]
fn next_free(address: *mut c_void) {
    // SAFETY: `free` and `find_free` have that type, and the caller owns the memory.
    unsafe { transmute::<*mut c_void, Free>(FREE.load(Ordering::Relaxed))(address) }
}

#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    // Checked before the allocation, so that this is a tail call.
    if client::passes(size) {
        next_malloc(size)
    } else {
        malloc_sampled(size)
    }
}

#[cold]
#[inline(never)]
extern "C" fn malloc_sampled(size: usize) -> *mut c_void {
    note_sampled(next_malloc(size), size)
}

#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    note(two(&CALLOC, count, size), count.wrapping_mul(size))
}

#[unsafe(no_mangle)]
pub extern "C" fn free(address: *mut c_void) {
    client::freeing(address);
    next_free(address);
}

#[unsafe(no_mangle)]
pub extern "C" fn free_sized(address: *mut c_void, _: usize) {
    free(address);
}

#[unsafe(no_mangle)]
pub extern "C" fn free_aligned_sized(address: *mut c_void, _: usize, _: usize) {
    free(address);
}

#[unsafe(no_mangle)]
pub extern "C" fn cfree(address: *mut c_void) {
    free(address);
}

#[unsafe(no_mangle)]
pub extern "C" fn realloc(old: *mut c_void, size: usize) -> *mut c_void {
    let next = REALLOC.get();
    if next.is_null() {
        return ptr::null_mut();
    }
    let taken = if old.is_null() {
        None
    } else {
        client::moving(old)
    };
    // SAFETY: the function of that name has that type, and the caller owns the memory.
    let new = unsafe { transmute::<*mut c_void, Move>(next)(old, size) };
    if let Some(taken) = taken {
        client::moved(taken, !new.is_null() || size == 0);
    }
    note(new, size)
}

#[unsafe(no_mangle)]
pub extern "C" fn reallocarray(old: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        Some(bytes) => realloc(old, bytes),
        None => {
            // SAFETY: the address is that of the calling thread's `errno`.
            unsafe { *sys::__errno_location() = sys::ENOMEM };
            ptr::null_mut()
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn posix_memalign(out: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    let next = POSIX_MEMALIGN.get();
    if next.is_null() {
        return sys::ENOMEM;
    }
    // SAFETY: the function of that name has that type, and the caller guarantees that `out` is
    // valid.
    let result = unsafe { transmute::<*mut c_void, Align>(next)(out, alignment, size) };
    if result == 0 {
        // SAFETY: as above, and the function has written it.
        note(unsafe { *out }, size);
    }
    result
}

#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    note(two(&ALIGNED_ALLOC, alignment, size), size)
}

#[unsafe(no_mangle)]
pub extern "C" fn memalign(alignment: usize, size: usize) -> *mut c_void {
    note(two(&MEMALIGN, alignment, size), size)
}

#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut c_void {
    note(one(&VALLOC, size), size)
}

#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> *mut c_void {
    note(one(&PVALLOC, size), size.next_multiple_of(4096))
}

#[unsafe(no_mangle)]
pub extern "C" fn mmap(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> *mut c_void {
    if flags & sys::MAP_FIXED != 0 {
        client::unmapping(address, length);
    }
    let next = MMAP.get();
    // SAFETY: the function of that name has that type, and the caller is responsible for the range.
    let mapped = unsafe {
        transmute::<*mut c_void, Map>(next)(address, length, protection, flags, fd, offset)
    };
    let is_memory = flags & sys::MAP_ANONYMOUS != 0 && protection & sys::PROT_WRITE != 0;
    if is_memory && mapped != MAP_FAILED {
        client::mapped(mapped, length);
    }
    mapped
}

/// Offsets always have 64 bits.
#[unsafe(no_mangle)]
pub extern "C" fn mmap64(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> *mut c_void {
    mmap(address, length, protection, flags, fd, offset)
}

/// The last argument is valid only with some flags. It is in a register in any case.
#[unsafe(no_mangle)]
pub extern "C" fn mremap(
    old: *mut c_void,
    length: usize,
    new_length: usize,
    flags: c_int,
    new: *mut c_void,
) -> *mut c_void {
    if flags & MREMAP_FIXED != 0 {
        client::unmapping(new, new_length);
    }
    let moving = client::remapping(old, length);
    let next = MREMAP.get();
    // SAFETY: the function of that name accepts these, and the caller is responsible for the range.
    let moved =
        unsafe { transmute::<*mut c_void, Remap>(next)(old, length, new_length, flags, new) };
    if let Some(moving) = moving {
        client::remapped(moving, (moved != MAP_FAILED).then_some((moved, new_length)));
    }
    moved
}

/// Always notifies the client, since a program may also unmap the client's memory.
#[unsafe(no_mangle)]
pub extern "C" fn munmap(address: *mut c_void, length: usize) -> c_int {
    client::unmapping(address, length);
    let next = MUNMAP.get();
    // SAFETY: the function of that name has that type, and the caller is responsible for the range.
    unsafe { transmute::<*mut c_void, Unmap>(next)(address, length) }
}

/// Notifies the client, since recorded stacks may have addresses in the library.
#[unsafe(no_mangle)]
pub extern "C" fn dlclose(handle: *mut c_void) -> c_int {
    let next = DLCLOSE.get();
    if next.is_null() {
        return -1;
    }
    client::unloading();
    // SAFETY: the function of that name has that type, and the caller owns the handle.
    let result = unsafe { transmute::<*mut c_void, Close>(next)(handle) };
    client::unloaded();
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AHeapInfo_create(name: *const c_char) -> *const Heap {
    // SAFETY: guaranteed by the caller.
    unsafe { client::create_info(name) }
}

#[unsafe(no_mangle)]
pub extern "C" fn AHeapInfo_setEnabledCallback(
    info: *const Heap,
    callback: Option<EnabledCallback>,
    data: *mut c_void,
) -> *const Heap {
    client::set_enabled_callback(info, callback, data)
}

#[unsafe(no_mangle)]
pub extern "C" fn AHeapInfo_setDisabledCallback(
    info: *const Heap,
    callback: Option<DisabledCallback>,
    data: *mut c_void,
) -> *const Heap {
    client::set_disabled_callback(info, callback, data)
}

#[unsafe(no_mangle)]
pub extern "C" fn AHeapProfile_registerHeap(info: *const Heap) -> u32 {
    client::register(info)
}

#[unsafe(no_mangle)]
pub extern "C" fn AHeapProfile_reportAllocation(heap: u32, id: u64, size: u64) -> bool {
    client::report_allocation(heap, id, size)
}

#[unsafe(no_mangle)]
pub extern "C" fn AHeapProfile_reportSample(heap: u32, id: u64, size: u64) -> bool {
    client::report_sample(heap, id, size)
}

#[unsafe(no_mangle)]
pub extern "C" fn AHeapProfile_reportFree(heap: u32, id: u64) {
    client::report_free(heap, id);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn AHeapProfileEnableCallbackInfo_getSamplingInterval(
    info: *const EnableInfo,
) -> u64 {
    // SAFETY: the caller guarantees that it is a callback's argument.
    unsafe { info.as_ref() }.map_or(0, EnableInfo::sampling_interval)
}

/// Runs before the constructors of all other libraries. The C library has no environment yet.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = construct;

extern "C" fn construct(_: c_int, _: *const *const c_char, environment: *const *const c_char) {
    const VARIABLE: &[u8] = b"FERRETTO_HEAP_SOCK_NAME=";
    // SAFETY: the function has no pointer arguments.
    if unsafe { sys::getauxval(sys::AT_SECURE) } != 0 {
        return;
    }
    let mut socket = None;
    let mut at = environment;
    while !at.is_null() {
        // SAFETY: the environment is a null-terminated list of strings.
        let entry = unsafe { at.read() };
        if entry.is_null() {
            break;
        }
        // SAFETY: as above.
        let text = unsafe { CStr::from_ptr(entry) };
        if text.to_bytes().starts_with(VARIABLE) {
            // SAFETY: the string has at least this length.
            socket = Some(unsafe { CStr::from_ptr(entry.add(VARIABLE.len())) });
            break;
        }
        // SAFETY: this entry was not the last.
        at = unsafe { at.add(1) };
    }
    client::prepare(socket);
}
