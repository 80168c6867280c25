//! Categories that programs register at run time.

use std::ffi::c_void;
use std::fmt;
use std::mem;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ferretto_engine::{self as engine, MAX_INSTANCES, bits};
use ferretto_proto::fields::{track_event_category, track_event_descriptor};
use ferretto_shm::fork::{AppendList, PerProcess};

use super::filter::Filter;
use super::text;
use crate::abi::PerfettoTeCategoryDescriptor;
use crate::flag::Flag;
use crate::reentrant::Reentrant;

/// Called when a recording starts or stops recording a category.
pub type PerfettoTeCategoryImplCallback = Option<
    unsafe extern "C" fn(
        *mut PerfettoTeCategoryImpl,
        inst_id: u32,
        created: bool,
        global_state_changed: bool,
        user_arg: *mut c_void,
    ),
>;

/// A category. Its address is never freed, but reused after it is destroyed.
pub struct PerfettoTeCategoryImpl {
    pub(super) flag: Flag,
    iid: AtomicU64,
    is_used: AtomicBool,
    /// The program's descriptor; null if there is none.
    descriptor: AtomicPtr<PerfettoTeCategoryDescriptor>,
    /// A [`PerfettoTeCategoryImplCallback`]; changed with the world locked.
    callback: AtomicPtr<c_void>,
    user_arg: AtomicPtr<c_void>,
}

impl fmt::Debug for PerfettoTeCategoryImpl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerfettoTeCategoryImpl")
            .field("iid", &self.iid)
            .finish_non_exhaustive()
    }
}

/// A category that stands for all categories: every recording of track events records it.
pub(super) static ANY: PerfettoTeCategoryImpl = PerfettoTeCategoryImpl::new();

/// The entries for categories, the newest first. Entries of destroyed categories are reused.
static CATEGORIES: AppendList<PerfettoTeCategoryImpl> = AppendList::new();

static WORLD: PerProcess<World> = PerProcess::new();

/// The recordings and their filters. A forked child begins without recordings.
struct World {
    /// Held while categories or recordings are added or removed, and during callbacks of the
    /// program.
    changing: Reentrant,
    /// The filters of the recordings.
    filters: Mutex<[Option<Arc<Filter>>; MAX_INSTANCES]>,
}

fn world() -> &'static World {
    WORLD.get_or_init(|| World {
        changing: Reentrant::new(),
        filters: Mutex::new([const { None }; MAX_INSTANCES]),
    })
}

impl World {
    fn set_filter(&self, slot: usize, filter: Option<Arc<Filter>>) {
        let mut filters = self.filters.lock().unwrap_or_else(PoisonError::into_inner);
        filters[slot] = filter;
    }

    /// Returns the recordings of a category.
    fn wanting(&self, category: &PerfettoTeCategoryImpl) -> Vec<usize> {
        let filters = self.filters.lock().unwrap_or_else(PoisonError::into_inner);
        let wants = |filter: &Arc<Filter>| category.is_wanted_by(filter);
        (0..MAX_INSTANCES)
            .filter(|&slot| filters[slot].as_ref().is_some_and(wants))
            .collect()
    }
}

/// Returns the existing categories, in the order of their iids.
fn used() -> Vec<&'static PerfettoTeCategoryImpl> {
    let is_used = |category: &&PerfettoTeCategoryImpl| category.is_used.load(Ordering::Acquire);
    let mut categories: Vec<_> = CATEGORIES.iter().filter(is_used).collect();
    categories.reverse();
    categories
}

impl PerfettoTeCategoryImpl {
    const fn new() -> Self {
        Self {
            flag: Flag::new(),
            iid: AtomicU64::new(0),
            is_used: AtomicBool::new(false),
            descriptor: AtomicPtr::new(ptr::null_mut()),
            callback: AtomicPtr::new(ptr::null_mut()),
            user_arg: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Returns the iid; 0 for [`ANY`].
    #[inline]
    pub(super) fn iid(&self) -> u64 {
        self.iid.load(Ordering::Relaxed)
    }

    /// Returns the program's descriptor.
    ///
    /// # Safety
    ///
    /// The category is not destroyed meanwhile.
    pub(super) unsafe fn descriptor(&self) -> Option<&PerfettoTeCategoryDescriptor> {
        // SAFETY: programs keep descriptors for as long as their categories.
        unsafe { self.descriptor.load(Ordering::Acquire).as_ref() }
    }

    fn is_wanted_by(&self, filter: &Filter) -> bool {
        // SAFETY: called with the world locked, so no category is destroyed.
        unsafe {
            self.descriptor()
                .is_some_and(|descriptor| is_wanted(descriptor, filter))
        }
    }

    /// Calls the program's callback when a recording starts or stops recording the category. Called
    /// with the world locked.
    fn notify(&'static self, slot: usize, created: bool, is_global: bool) {
        let callback = self.callback.load(Ordering::Relaxed);
        // SAFETY: the value is a callback or null, see `PerfettoTeCategoryImplSetCallback`.
        let callback: PerfettoTeCategoryImplCallback = unsafe { mem::transmute(callback) };
        if let Some(callback) = callback {
            let user_arg = self.user_arg.load(Ordering::Relaxed);
            let category = ptr::from_ref(self).cast_mut();
            // SAFETY: calls the program's callback according to its contract.
            unsafe { callback(category, slot as u32, created, is_global, user_arg) };
        }
    }
}

/// Returns true if a filter selects the category of a descriptor.
///
/// # Safety
///
/// The descriptor and its pointers are valid.
pub(super) unsafe fn is_wanted(descriptor: &PerfettoTeCategoryDescriptor, filter: &Filter) -> bool {
    // SAFETY: by contract.
    unsafe {
        let name = text(descriptor.name).unwrap_or_default();
        filter.is_enabled(name, tags(descriptor).iter().filter_map(|&tag| text(tag)))
    }
}

/// Returns the tags of a descriptor.
///
/// # Safety
///
/// The descriptor and its pointers are valid.
unsafe fn tags(descriptor: &PerfettoTeCategoryDescriptor) -> &[*const std::ffi::c_char] {
    if descriptor.tags.is_null() || descriptor.num_tags == 0 {
        return &[];
    }
    // SAFETY: by contract.
    unsafe { slice::from_raw_parts(descriptor.tags, descriptor.num_tags) }
}

/// Adds a recording.
pub(super) fn enable(slot: usize, filter: &Arc<Filter>) {
    let world = world();
    let _changing = world.changing.hold();
    world.set_filter(slot, Some(Arc::clone(filter)));
    ANY.flag.set(slot);
    for category in used() {
        if category.is_wanted_by(filter) {
            let change = category.flag.set(slot);
            if change.is_new {
                category.notify(slot, true, change.is_global);
            }
        }
    }
}

/// Removes a recording.
pub(super) fn disable(slot: usize) {
    let world = world();
    let _changing = world.changing.hold();
    world.set_filter(slot, None);
    ANY.flag.clear(slot);
    for category in used() {
        let change = category.flag.clear(slot);
        if change.is_new {
            category.notify(slot, false, change.is_global);
        }
    }
}

/// Removes all recordings in a forked child, where trace points still have to find out.
pub(super) fn forked() {
    ANY.flag.forked();
    used().iter().for_each(|category| category.flag.forked());
}

/// Makes trace points of a forked child rely on the recordings that have started meanwhile.
pub(super) fn decided() {
    let _changing = world().changing.hold();
    ANY.flag.decided();
    CATEGORIES
        .iter()
        .for_each(|category| category.flag.decided());
}

/// Returns the existing categories as an encoded TrackEventDescriptor.
pub(super) fn describe() -> Vec<u8> {
    let _changing = world().changing.hold();
    ferretto_wire::encode(|list| {
        for category in used() {
            // SAFETY: no category is destroyed while the world is locked.
            let Some(descriptor) = (unsafe { category.descriptor() }) else {
                continue;
            };
            list.nested(track_event_descriptor::AVAILABLE_CATEGORIES, |item| {
                // SAFETY: programs keep descriptors for as long as their categories.
                unsafe {
                    item.bytes(
                        track_event_category::NAME,
                        text(descriptor.name).unwrap_or_default(),
                    );
                    if let Some(description) = text(descriptor.desc) {
                        item.bytes(track_event_category::DESCRIPTION, description);
                    }
                    for tag in tags(descriptor).iter().filter_map(|&tag| text(tag)) {
                        item.bytes(track_event_category::TAGS, tag);
                    }
                }
            });
        }
    })
}

/// Registers a category. Recordings that select it begin to record it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTeCategoryImplCreate(
    desc: *mut PerfettoTeCategoryDescriptor,
) -> *mut PerfettoTeCategoryImpl {
    static NEXT_IID: AtomicU64 = AtomicU64::new(1);
    let world = world();
    let _changing = world.changing.hold();
    let free = CATEGORIES
        .iter()
        .find(|category| !category.is_used.load(Ordering::Relaxed));
    let category = free.unwrap_or_else(|| {
        let category = CATEGORIES.push(PerfettoTeCategoryImpl::new());
        category.flag.watch_forks();
        category
    });
    let iid = NEXT_IID.fetch_add(1, Ordering::Relaxed);
    category.iid.store(iid, Ordering::Relaxed);
    category.descriptor.store(desc, Ordering::Release);
    category.is_used.store(true, Ordering::Release);
    if engine::is_undecided() {
        category.flag.forked();
    }
    for slot in world.wanting(category) {
        category.flag.set(slot);
    }
    ptr::from_ref(category).cast_mut()
}

/// Returns the address of the flag that is true while the category is recorded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTeCategoryImplGetEnabled(
    cat: *mut PerfettoTeCategoryImpl,
) -> *mut AtomicBool {
    // SAFETY: by the contract of the crate; categories are never freed.
    let category: &'static PerfettoTeCategoryImpl = unsafe { &*cat };
    category.flag.address()
}

/// Sets a callback that is called whenever a recording starts or stops recording the category, and
/// immediately for current recordings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTeCategoryImplSetCallback(
    cat: *mut PerfettoTeCategoryImpl,
    cb: PerfettoTeCategoryImplCallback,
    user_arg: *mut c_void,
) {
    // SAFETY: by the contract of the crate; categories are never freed.
    let category: &'static PerfettoTeCategoryImpl = unsafe { &*cat };
    let _changing = world().changing.hold();
    let callback = cb.map_or(ptr::null_mut(), |callback| callback as *mut c_void);
    category.callback.store(callback, Ordering::Relaxed);
    category.user_arg.store(user_arg, Ordering::Relaxed);
    for (count, slot) in bits(category.flag.instances()).enumerate() {
        category.notify(slot, true, count == 0);
    }
}

/// Returns the iid of the category.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTeCategoryImplGetIid(cat: *mut PerfettoTeCategoryImpl) -> u64 {
    // SAFETY: by the contract of the crate.
    unsafe { &*cat }.iid()
}

/// Releases a category without notification.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoTeCategoryImplDestroy(cat: *mut PerfettoTeCategoryImpl) {
    if cat.is_null() {
        return;
    }
    // SAFETY: by the contract of the crate; categories are never freed.
    let category: &'static PerfettoTeCategoryImpl = unsafe { &*cat };
    let _changing = world().changing.hold();
    category.callback.store(ptr::null_mut(), Ordering::Relaxed);
    category.flag.reset();
    category
        .descriptor
        .store(ptr::null_mut(), Ordering::Release);
    category.is_used.store(false, Ordering::Release);
}
