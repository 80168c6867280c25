//! The lifecycle of data sources: calls of the callbacks.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use ferretto_engine::{Completion, FlushFlags, MAX_INSTANCES, Setup, Source, Target};
use ferretto_proto::{DataSourceConfig, DataSourceDescriptor, Message as _};
use ferretto_shm::fork::{PerProcess, forks};

use super::define::PerfettoDsImpl;
use crate::reentrant::Reentrant;
use crate::thread;

/// The program's context of an instance.
#[derive(Debug)]
struct Instance {
    /// The pointer that the callback for setup returned; null if there is no instance.
    context: AtomicPtr<c_void>,
    /// Held while the program uses the context, and while the context is released.
    lock: Reentrant,
}

/// The instances of a data source. A forked child does not inherit them.
#[derive(Debug)]
pub(crate) struct Instances(PerProcess<[Instance; MAX_INSTANCES]>);

impl Instances {
    pub(crate) fn new() -> Self {
        Self(PerProcess::new())
    }

    fn at(&'static self, slot: usize) -> Option<&'static Instance> {
        let make = || {
            [const {
                Instance {
                    context: AtomicPtr::new(ptr::null_mut()),
                    lock: Reentrant::new(),
                }
            }; MAX_INSTANCES]
        };
        self.0.get_or_init(make).get(slot)
    }

    fn context(&'static self, slot: usize) -> *mut c_void {
        self.at(slot)
            .map_or(ptr::null_mut(), |i| i.context.load(Ordering::Acquire))
    }
}

/// A data source for the engine, whose thread calls the callbacks.
pub(super) struct Life(pub(super) &'static PerfettoDsImpl);

impl Life {
    fn pointer(&self) -> *mut PerfettoDsImpl {
        ptr::from_ref(self.0).cast_mut()
    }

    fn call_setup(&self, slot: usize, config: &DataSourceConfig) -> *mut c_void {
        let Some(on_setup) = self.0.callbacks.on_setup else {
            return ptr::null_mut();
        };
        let mut config = config.encode_to_vec();
        // SAFETY: calls the program's callback according to its contract.
        unsafe {
            on_setup(
                self.pointer(),
                slot as u32,
                config.as_mut_ptr().cast(),
                config.len(),
                self.0.callbacks.user_arg,
                ptr::null_mut(),
            )
        }
    }
}

impl Source for Life {
    fn descriptor(&self) -> DataSourceDescriptor {
        self.0.descriptor()
    }

    fn setup(&self, slot: usize, setup: Setup) {
        thread::mark_engine();
        let target = Target {
            writers: setup.writers,
            settings: (),
        };
        self.0.slots.prepare(slot, target);
        let context = self.call_setup(slot, &setup.config);
        if let Some(instance) = self.0.instances.at(slot) {
            instance.context.store(context, Ordering::Release);
        }
        self.0.enabled.set(slot);
    }

    fn start(&self, slot: usize) {
        self.0.slots.start(slot);
        if let Some(on_start) = self.0.callbacks.on_start {
            let context = self.0.instances.context(slot);
            let user_arg = self.0.callbacks.user_arg;
            // SAFETY: calls the program's callback according to its contract.
            unsafe {
                on_start(
                    self.pointer(),
                    slot as u32,
                    user_arg,
                    context,
                    ptr::null_mut(),
                )
            };
        }
    }

    fn stop(&self, slot: usize, completion: Completion) {
        let stopper = PerfettoDsAsyncStopper {
            ds: self.0,
            slot,
            forks: forks(),
            completion,
        };
        let mut args = PerfettoDsOnStopArgs(Some(Box::new(stopper)));
        if let Some(on_stop) = self.0.callbacks.on_stop {
            let context = self.0.instances.context(slot);
            let user_arg = self.0.callbacks.user_arg;
            // SAFETY: calls the program's callback according to its contract.
            unsafe {
                on_stop(
                    self.pointer(),
                    slot as u32,
                    user_arg,
                    context,
                    &raw mut args,
                )
            };
        }
        if let Some(stopper) = args.0 {
            stopper.finish();
        }
    }

    fn release(&self, slot: usize) {
        self.0.enabled.clear(slot);
        self.0.slots.stop(slot);
        self.0.slots.release(slot);
        let Some(instance) = self.0.instances.at(slot) else {
            return;
        };
        let _held = instance.lock.hold();
        let context = instance.context.swap(ptr::null_mut(), Ordering::AcqRel);
        if let Some(on_destroy) = self.0.callbacks.on_destroy {
            // SAFETY: calls the program's callback according to its contract.
            unsafe { on_destroy(self.pointer(), self.0.callbacks.user_arg, context) };
        }
    }

    fn flush(&self, slot: usize, flags: FlushFlags, completion: Completion) {
        let mut args = PerfettoDsOnFlushArgs {
            reason: flags.0 & 0xf,
            completion: Some(completion),
        };
        if let Some(on_flush) = self.0.callbacks.on_flush {
            let context = self.0.instances.context(slot);
            let user_arg = self.0.callbacks.user_arg;
            // SAFETY: calls the program's callback according to its contract.
            unsafe {
                on_flush(
                    self.pointer(),
                    slot as u32,
                    user_arg,
                    context,
                    &raw mut args,
                )
            };
        }
    }

    fn clear_incremental_state(&self, slot: usize) {
        self.0.slots.clear(slot);
    }

    fn forked(&self) {
        self.0.slots.forked();
        self.0.enabled.forked();
    }

    fn decided(&self) {
        self.0.slots.decided();
        self.0.enabled.decided();
    }
}

/// The arguments of the stop callback.
#[derive(Debug)]
pub struct PerfettoDsOnStopArgs(Option<Box<PerfettoDsAsyncStopper>>);

/// A stopping instance.
#[derive(Debug)]
pub struct PerfettoDsAsyncStopper {
    ds: &'static PerfettoDsImpl,
    slot: usize,
    /// Identifies the process of the instance, to exclude forked children.
    forks: u32,
    completion: Completion,
}

impl PerfettoDsAsyncStopper {
    fn finish(self) {
        // A forked child may have its own instance in the slot.
        if self.forks == forks() {
            self.ds.enabled.clear(self.slot);
        }
        self.completion.complete();
    }
}

/// Postpones the stop until [`PerfettoDsStopDone`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsOnStopArgsPostpone(
    args: *mut PerfettoDsOnStopArgs,
) -> *mut PerfettoDsAsyncStopper {
    // SAFETY: by the contract of the crate; `args` is the pointer that `Life::stop` passed to the
    // callback.
    let stopper = unsafe { (*args).0.take() };
    stopper.map_or(ptr::null_mut(), Box::into_raw)
}

/// Completes a postponed stop.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsStopDone(stopper: *mut PerfettoDsAsyncStopper) {
    if !stopper.is_null() {
        // SAFETY: from `PerfettoDsOnStopArgsPostpone`, and not used any more.
        unsafe { Box::from_raw(stopper) }.finish();
    }
}

/// The arguments of the flush callback.
#[derive(Debug)]
pub struct PerfettoDsOnFlushArgs {
    reason: u64,
    completion: Option<Completion>,
}

/// A pending flush.
#[derive(Debug)]
pub struct PerfettoDsAsyncFlusher(Completion);

/// Postpones the flush until [`PerfettoDsFlushDone`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsOnFlushArgsPostpone(
    args: *mut PerfettoDsOnFlushArgs,
) -> *mut PerfettoDsAsyncFlusher {
    // SAFETY: by the contract of the crate; `args` is the pointer that `Life::flush` passed to the
    // callback.
    let completion = unsafe { (*args).completion.take() };
    completion.map_or(ptr::null_mut(), |completion| {
        Box::into_raw(Box::new(PerfettoDsAsyncFlusher(completion)))
    })
}

/// Completes a postponed flush.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsFlushDone(flusher: *mut PerfettoDsAsyncFlusher) {
    if !flusher.is_null() {
        // SAFETY: from `PerfettoDsOnFlushArgsPostpone`, and not used any more.
        unsafe { Box::from_raw(flusher) }.0.complete();
    }
}

/// Returns the reason of a flush: 0 unknown, 1 periodic, 2 end of the recording, 3 clone, 4
/// explicit request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsOnFlushArgsGetReason(args: *mut PerfettoDsOnFlushArgs) -> u64 {
    // SAFETY: by the contract of the crate; `args` is the pointer that `Life::flush` passed to the
    // callback.
    match unsafe { (*args).reason } {
        reason @ 0..=4 => reason,
        _ => 0,
    }
}

/// Returns the program's context of an instance from the setup callback, and keeps it valid until
/// [`PerfettoDsImplReleaseInstanceLocked`]. Returns null, without need for a release, if there is
/// none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsImplGetInstanceLocked(
    ds: *mut PerfettoDsImpl,
    inst_id: u32,
) -> *mut c_void {
    // SAFETY: by the contract of the crate; registered data sources are never freed.
    let ds: &'static PerfettoDsImpl = unsafe { &*ds };
    let Some(instance) = ds.instances.at(inst_id as usize) else {
        return ptr::null_mut();
    };
    instance.lock.lock();
    let context = instance.context.load(Ordering::Acquire);
    if context.is_null() {
        instance.lock.unlock();
    }
    context
}

/// Releases the context of an instance.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsImplReleaseInstanceLocked(
    ds: *mut PerfettoDsImpl,
    inst_id: u32,
) {
    // SAFETY: as in `PerfettoDsImplGetInstanceLocked`.
    let ds: &'static PerfettoDsImpl = unsafe { &*ds };
    if let Some(instance) = ds.instances.at(inst_id as usize) {
        instance.lock.unlock();
    }
}
