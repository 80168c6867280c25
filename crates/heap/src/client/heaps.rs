//! The heaps of the process, and the C interface to register them.

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_void};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::wire::NAME_BYTES;

/// The size of the table of heaps. The entry 0 is not used.
pub(super) const MAX: usize = MAX_REGISTERED + 1;
/// The number of entries before `MMAP`: 0, `LIBC`, and heaps registered by the program.
const MAX_REGISTERED: usize = 256;
/// The heap of `malloc`.
pub(super) const LIBC: u32 = 1;
/// The heap of the program's own mappings, after all registered heaps.
pub(super) const MMAP: u32 = MAX_REGISTERED as u32;
/// The flag in an interval that the free of each allocation is written.
pub(super) const ALL_FREES: u64 = 1 << 63;

/// Called when the recording of a heap begins.
pub type EnabledCallback = extern "C" fn(*mut c_void, *const EnableInfo);
/// Called when the recording of a heap ends.
pub type DisabledCallback = extern "C" fn(*mut c_void, *const c_void);

/// The argument of an [`EnabledCallback`].
#[derive(Debug)]
pub struct EnableInfo {
    /// The mean number of bytes between two samples.
    pub(super) sampling_interval: u64,
}

impl EnableInfo {
    /// Returns the mean number of bytes between two samples.
    #[must_use]
    pub fn sampling_interval(&self) -> u64 {
        self.sampling_interval
    }
}

/// The settings of a heap.
pub(super) struct Settings {
    pub(super) name: [u8; NAME_BYTES],
    pub(super) enabled: Option<(EnabledCallback, usize)>,
    pub(super) disabled: Option<(DisabledCallback, usize)>,
    /// The number of bytes until the next sample, under the client's lock. Not used for `malloc`,
    /// since each thread samples separately.
    pub(super) next: i64,
    /// The state of the random number generator, like `next`.
    pub(super) random: u64,
}

/// A heap.
pub struct Heap {
    /// The mean number of bytes between two samples; 0 if the heap is not recorded.
    pub(super) interval: AtomicU64,
    /// The last used sequence number of a record.
    pub(super) sequence: AtomicU64,
    state: AtomicU32,
    pub(super) settings: UnsafeCell<Settings>,
}

impl core::fmt::Debug for Heap {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Heap").finish_non_exhaustive()
    }
}

const CREATED: u32 = 1;
const REGISTERED: u32 = 2;

// SAFETY: only the heap's creator writes the settings before the registration. Later they are
// written only under the client's lock.
unsafe impl Sync for Heap {}

pub(super) static HEAPS: [Heap; MAX] = [const {
    Heap {
        interval: AtomicU64::new(0),
        sequence: AtomicU64::new(0),
        state: AtomicU32::new(0),
        settings: UnsafeCell::new(Settings {
            name: [0; NAME_BYTES],
            enabled: None,
            disabled: None,
            next: 0,
            random: 0,
        }),
    }
}; MAX];

/// The last used ID of a heap.
static LAST: AtomicU32 = AtomicU32::new(LIBC);

/// Creates a heap with the next ID.
fn create(name: &[u8]) -> Option<&'static Heap> {
    if name.len() >= NAME_BYTES {
        return None;
    }
    let next = |last: u32| ((last as usize) < MAX_REGISTERED - 1).then_some(last + 1);
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    let heap = HEAPS.get(last.ok()? as usize + 1)?;
    // SAFETY: no other thread has this ID.
    let settings = unsafe { &mut *heap.settings.get() };
    if let Some(start) = settings.name.get_mut(..name.len()) {
        start.copy_from_slice(name);
    }
    heap.state.store(CREATED, Ordering::Release);
    Some(heap)
}

/// Registers the heaps of the C library.
pub(super) fn create_libc() {
    let heaps: [(u32, &[u8]); 2] = [(LIBC, b"libc.malloc"), (MMAP, b"libc.mmap")];
    for (id, name) in heaps {
        let heap = &HEAPS[id as usize];
        if heap.state.load(Ordering::Acquire) == 0 {
            // SAFETY: called once, before the first session.
            let settings = unsafe { &mut *heap.settings.get() };
            settings.name[..name.len()].copy_from_slice(name);
            heap.state.store(REGISTERED, Ordering::Release);
        }
    }
}

/// Returns the registered heaps with their IDs.
pub(super) fn registered() -> impl Iterator<Item = (u32, &'static Heap)> {
    let heaps = HEAPS.iter().enumerate();
    heaps
        .filter(|(_, heap)| heap.state.load(Ordering::Acquire) == REGISTERED)
        .map(|(number, heap)| (number as u32, heap))
}

/// Returns a heap by its ID; `None` for 0 and IDs above the maximum.
pub(super) fn by_id(id: u32) -> Option<&'static Heap> {
    if id == 0 {
        return None;
    }
    HEAPS.get(id as usize)
}

/// Returns a heap for which the program may report allocations.
pub(super) fn registered_by_id(id: u32) -> Option<&'static Heap> {
    by_id(id).filter(|_| id != MMAP)
}

/// `AHeapInfo_create`.
///
/// # Safety
///
/// `name` is null or ends with a 0.
pub unsafe extern "C" fn create_info(name: *const c_char) -> *const Heap {
    if name.is_null() {
        return core::ptr::null();
    }
    // SAFETY: guaranteed by the caller.
    let name = unsafe { core::ffi::CStr::from_ptr(name) };
    create(name.to_bytes()).map_or(core::ptr::null(), |heap| heap)
}

/// Changes settings of a heap that is not registered yet.
fn set(info: *const Heap, change: impl FnOnce(&mut Settings)) -> *const Heap {
    let known = HEAPS.iter().find(|heap| core::ptr::eq(*heap, info));
    match known.filter(|heap| heap.state.load(Ordering::Acquire) == CREATED) {
        Some(heap) => {
            // SAFETY: before the registration only the heap's creator uses the settings.
            change(unsafe { &mut *heap.settings.get() });
            info
        }
        None => core::ptr::null(),
    }
}

/// `AHeapInfo_setEnabledCallback`.
pub extern "C" fn set_enabled_callback(
    info: *const Heap,
    callback: Option<EnabledCallback>,
    data: *mut c_void,
) -> *const Heap {
    set(info, |settings| {
        settings.enabled = callback.map(|callback| (callback, data as usize));
    })
}

/// `AHeapInfo_setDisabledCallback`.
pub extern "C" fn set_disabled_callback(
    info: *const Heap,
    callback: Option<DisabledCallback>,
    data: *mut c_void,
) -> *const Heap {
    set(info, |settings| {
        settings.disabled = callback.map(|callback| (callback, data as usize));
    })
}

/// `AHeapProfile_registerHeap`.
pub extern "C" fn register(info: *const Heap) -> u32 {
    let mut heaps = HEAPS.iter().enumerate();
    let Some((id, heap)) = heaps.find(|(_, heap)| core::ptr::eq(*heap, info)) else {
        return 0;
    };
    let registered =
        heap.state
            .compare_exchange(CREATED, REGISTERED, Ordering::AcqRel, Ordering::Acquire);
    if registered.is_ok() {
        super::enable_late(id as u32, heap);
    }
    id as u32
}
