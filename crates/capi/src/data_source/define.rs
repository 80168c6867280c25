//! Definition and registration of data sources.

use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};

use ferretto_client::ExhaustedPolicy;
use ferretto_engine::{self as engine, Registration, Slots, point};
use ferretto_proto::{DataSourceDescriptor, Message as _};
use ferretto_shm::fork::PerProcess;

use super::life::{Instances, Life, PerfettoDsOnFlushArgs, PerfettoDsOnStopArgs};
use crate::flag::Flag;

/// Called when a recording is prepared; returns the program's pointer for the instance.
pub type PerfettoDsOnSetupCb = Option<
    unsafe extern "C" fn(
        *mut PerfettoDsImpl,
        inst_id: u32,
        ds_config: *mut c_void,
        ds_config_size: usize,
        user_arg: *mut c_void,
        args: *mut c_void,
    ) -> *mut c_void,
>;
/// Called when a recording starts.
pub type PerfettoDsOnStartCb = Option<
    unsafe extern "C" fn(
        *mut PerfettoDsImpl,
        inst_id: u32,
        user_arg: *mut c_void,
        inst_ctx: *mut c_void,
        args: *mut c_void,
    ),
>;
/// Called when a recording ends; the program can postpone the end.
pub type PerfettoDsOnStopCb = Option<
    unsafe extern "C" fn(
        *mut PerfettoDsImpl,
        inst_id: u32,
        user_arg: *mut c_void,
        inst_ctx: *mut c_void,
        args: *mut PerfettoDsOnStopArgs,
    ),
>;
/// Called when a recording has ended.
pub type PerfettoDsOnDestroyCb =
    Option<unsafe extern "C" fn(*mut PerfettoDsImpl, user_arg: *mut c_void, inst_ctx: *mut c_void)>;
/// Called for a flush.
pub type PerfettoDsOnFlushCb = Option<
    unsafe extern "C" fn(
        *mut PerfettoDsImpl,
        inst_id: u32,
        user_arg: *mut c_void,
        inst_ctx: *mut c_void,
        args: *mut PerfettoDsOnFlushArgs,
    ),
>;
/// Creates a thread's state for an instance.
pub type PerfettoDsOnCreateCustomState = Option<
    unsafe extern "C" fn(
        *mut PerfettoDsImpl,
        inst_id: u32,
        tracer: *mut c_void,
        user_arg: *mut c_void,
    ) -> *mut c_void,
>;
/// Frees such a state.
pub type PerfettoDsOnDeleteCustomState = Option<unsafe extern "C" fn(obj: *mut c_void)>;
/// Resets such a state. Returns false if this is not possible.
pub type PerfettoDsOnClearCustomState =
    Option<unsafe extern "C" fn(obj: *mut c_void, user_arg: *mut c_void) -> bool>;

/// The callbacks and options that a program sets before registration.
#[derive(Clone, Copy)]
pub(crate) struct Callbacks {
    pub(crate) on_setup: PerfettoDsOnSetupCb,
    pub(crate) on_start: PerfettoDsOnStartCb,
    pub(crate) on_stop: PerfettoDsOnStopCb,
    pub(crate) on_destroy: PerfettoDsOnDestroyCb,
    pub(crate) on_flush: PerfettoDsOnFlushCb,
    pub(crate) create_tls: PerfettoDsOnCreateCustomState,
    pub(crate) delete_tls: PerfettoDsOnDeleteCustomState,
    pub(crate) create_incr: PerfettoDsOnCreateCustomState,
    pub(crate) delete_incr: PerfettoDsOnDeleteCustomState,
    pub(crate) clear_incr: PerfettoDsOnClearCustomState,
    pub(crate) user_arg: *mut c_void,
    policy: ExhaustedPolicy,
    policy_by_config: bool,
}

const NONE: Callbacks = Callbacks {
    on_setup: None,
    on_start: None,
    on_stop: None,
    on_destroy: None,
    on_flush: None,
    create_tls: None,
    delete_tls: None,
    create_incr: None,
    delete_incr: None,
    clear_incr: None,
    user_arg: ptr::null_mut(),
    policy: ExhaustedPolicy::Drop,
    policy_by_config: false,
};

/// [`PerfettoDsImpl::index`] before registration.
const UNREGISTERED: usize = usize::MAX;

/// A data source. Registered ones are never freed.
pub struct PerfettoDsImpl {
    /// Written before registration, by one thread.
    pub(crate) callbacks: Callbacks,
    pub(crate) slots: Slots<()>,
    pub(crate) instances: Instances,
    pub(crate) enabled: Flag,
    /// The descriptor at registration.
    registered: OnceLock<DataSourceDescriptor>,
    /// The last updated descriptor. A forked child, which may inherit a locked mutex, begins with
    /// the registered one.
    updated: PerProcess<Mutex<Option<DataSourceDescriptor>>>,
    index: AtomicUsize,
}

// SAFETY: the callbacks are not written after the value is shared with other threads; `user_arg` is
// only passed on.
unsafe impl Sync for PerfettoDsImpl {}

impl fmt::Debug for PerfettoDsImpl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerfettoDsImpl").finish_non_exhaustive()
    }
}

impl PerfettoDsImpl {
    pub(crate) fn index(&self) -> usize {
        self.index.load(Ordering::Acquire)
    }

    fn is_registered(&self) -> bool {
        self.index() != UNREGISTERED
    }

    /// Returns the descriptor for the service.
    pub(crate) fn descriptor(&self) -> DataSourceDescriptor {
        let updated = self.updated.get().and_then(|updated| lock(updated).clone());
        updated.unwrap_or_else(|| self.registered.get().cloned().unwrap_or_default())
    }
}

/// Creates a data source.
#[unsafe(no_mangle)]
pub extern "C" fn PerfettoDsImplCreate() -> *mut PerfettoDsImpl {
    Box::into_raw(Box::new(PerfettoDsImpl {
        callbacks: NONE,
        slots: Slots::new(),
        instances: Instances::new(),
        enabled: Flag::new(),
        registered: OnceLock::new(),
        updated: PerProcess::new(),
        index: AtomicUsize::new(UNREGISTERED),
    }))
}

/// Changes a data source before its registration. Returns false and does nothing afterwards.
///
/// # Safety
///
/// `ds` is from [`PerfettoDsImplCreate`], and no other thread uses it before it is registered.
unsafe fn define(ds: *mut PerfettoDsImpl, change: impl FnOnce(&mut Callbacks)) -> bool {
    // SAFETY: by contract; the references to the index and to the callbacks do not overlap.
    unsafe {
        if (*ds).is_registered() {
            return false;
        }
        change(&mut (*ds).callbacks);
    }
    true
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident, $member:ident: $type:ty;)+) => {
        $(
            $(#[$doc])*
            ///
            /// Ends the process if the data source is registered.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(ds: *mut PerfettoDsImpl, value: $type) {
                // SAFETY: by the contract of the crate.
                if !unsafe { define(ds, |callbacks| callbacks.$member = value) } {
                    crate::abort(concat!(stringify!($name), " was called for a registered data source"));
                }
            }
        )+
    };
}

setters! {
    /// Called when a recording is prepared.
    PerfettoDsSetOnSetupCallback, on_setup: PerfettoDsOnSetupCb;
    /// Called when a recording starts.
    PerfettoDsSetOnStartCallback, on_start: PerfettoDsOnStartCb;
    /// Called when a recording ends; the program can postpone the end.
    PerfettoDsSetOnStopCallback, on_stop: PerfettoDsOnStopCb;
    /// Called when a recording has ended.
    PerfettoDsSetOnDestroyCallback, on_destroy: PerfettoDsOnDestroyCb;
    /// Called for a flush.
    PerfettoDsSetOnFlushCallback, on_flush: PerfettoDsOnFlushCb;
    /// Creates a thread's state for an instance.
    PerfettoDsSetOnCreateTls, create_tls: PerfettoDsOnCreateCustomState;
    /// Frees a thread's state for an instance.
    PerfettoDsSetOnDeleteTls, delete_tls: PerfettoDsOnDeleteCustomState;
    /// Creates a thread's incremental state.
    PerfettoDsSetOnCreateIncr, create_incr: PerfettoDsOnCreateCustomState;
    /// Frees a thread's incremental state.
    PerfettoDsSetOnDeleteIncr, delete_incr: PerfettoDsOnDeleteCustomState;
    /// Resets a thread's incremental state.
    PerfettoDsSetOnClearIncr, clear_incr: PerfettoDsOnClearCustomState;
    /// Sets the argument of all callbacks.
    PerfettoDsSetCbUserArg, user_arg: *mut c_void;
}

/// Sets the behaviour of writers when shared memory is full: 0 drop, 1 wait then abort, 2 wait then
/// drop.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsSetBufferExhaustedPolicy(
    ds: *mut PerfettoDsImpl,
    policy: u32,
) -> bool {
    let policy = match policy {
        0 => ExhaustedPolicy::Drop,
        1 => ExhaustedPolicy::StallThenAbort,
        2 => ExhaustedPolicy::StallThenDrop,
        _ => return false,
    };
    // SAFETY: by the contract of the crate.
    unsafe { define(ds, |callbacks| callbacks.policy = policy) }
}

/// Allows or prevents configs to set the behaviour of writers when shared memory is full.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsSetBufferExhaustedPolicyConfigurable(
    ds: *mut PerfettoDsImpl,
    configurable: bool,
) -> bool {
    // SAFETY: by the contract of the crate.
    unsafe { define(ds, |callbacks| callbacks.policy_by_config = configurable) }
}

/// Sets support for a second encoding, which is never requested.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsSetSupportsTracingV2(
    ds: *mut PerfettoDsImpl,
    _supports: bool,
) -> bool {
    // SAFETY: by the contract of the crate.
    unsafe { define(ds, |_| {}) }
}

/// Registers a data source. If this fails, the data source is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsImplRegister(
    ds: *mut PerfettoDsImpl,
    enabled_ptr: *mut *mut AtomicBool,
    descriptor: *const c_void,
    descriptor_size: usize,
) -> bool {
    // SAFETY: by the contract of the crate; from here on, only the index and members with their own
    // locks are written.
    let data_source: &'static PerfettoDsImpl = unsafe { &*ds };
    // SAFETY: by the contract of the crate.
    let descriptor = unsafe { parse(descriptor, descriptor_size) };
    if data_source.is_registered() {
        // Repeated registration has no effect. SAFETY: by the contract of the crate.
        unsafe { enabled_ptr.write(data_source.enabled.address()) };
        return true;
    }
    static COLLECTING: Once = Once::new();
    COLLECTING.call_once(|| point::on_collect(super::collect));
    let no_flush = data_source.callbacks.on_flush.is_none();
    let no_flush = no_flush && descriptor.no_flush.is_none();
    // Cannot be set already, because the data source is not registered.
    let _ = data_source.registered.set(descriptor);
    let registered = engine::register(Registration {
        source: Box::new(Life(data_source)),
        policy: data_source.callbacks.policy,
        policy_by_config: data_source.callbacks.policy_by_config,
        is_single: false,
        no_flush,
    });
    let Ok(index) = registered else {
        // SAFETY: from `PerfettoDsImplCreate` and not shared yet.
        drop(unsafe { Box::from_raw(ds) });
        return false;
    };
    data_source.index.store(index, Ordering::Release);
    data_source.slots.watch_forks();
    data_source.enabled.watch_forks();
    // SAFETY: by the contract of the crate.
    unsafe { enabled_ptr.write(data_source.enabled.address()) };
    // Ensures that the next packets of the program are recorded.
    engine::wait_for_recordings(None);
    true
}

/// Updates the descriptor of a registered data source; the name must not change.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsImplUpdateDescriptor(
    ds: *mut PerfettoDsImpl,
    descriptor: *const c_void,
    descriptor_size: usize,
) {
    // SAFETY: by the contract of the crate.
    let (ds, descriptor) = unsafe { (&*ds, parse(descriptor, descriptor_size)) };
    if !ds.is_registered() {
        return;
    }
    if ds.registered.get().map(|registered| &registered.name) != Some(&descriptor.name) {
        crate::abort("PerfettoDsImplUpdateDescriptor was called with another name");
    }
    *lock(ds.updated.get_or_init(Mutex::default)) = Some(descriptor);
    engine::update(ds.index());
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Decodes a descriptor. A malformed one yields an empty descriptor.
///
/// # Safety
///
/// `bytes` has `size` bytes, and may be null if `size` is 0.
unsafe fn parse(bytes: *const c_void, size: usize) -> DataSourceDescriptor {
    if bytes.is_null() || size == 0 {
        return DataSourceDescriptor::default();
    }
    // SAFETY: by contract.
    let bytes = unsafe { slice::from_raw_parts(bytes.cast::<u8>(), size) };
    DataSourceDescriptor::decode_from_slice(bytes).unwrap_or_default()
}
