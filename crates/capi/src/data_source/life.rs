//! The life of a data source: the callbacks.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use ferretto_engine::{Completion, FlushFlags, MAX_INSTANCES, Setup, Source, Target};
use ferretto_proto::{DataSourceConfig, DataSourceDescriptor, Message as _};
use ferretto_shm::fork::{PerProcess, forks};

use super::define::PerfettoDsImpl;
use crate::reentrant::Reentrant;
use crate::thread;

/// The context by which a program knows an instance.
#[derive(Debug)]
struct Instance {
    /// The pointer that the callback for setup returned; null if there is no instance.
    context: AtomicPtr<c_void>,
    /// Held while the program uses the context, and while that is given up.
    lock: Reentrant,
}

/// The instances of a data source. A forked child has none of its parent's.
#[derive(Debug)]
pub(crate) struct Instances(PerProcess<[Instance; MAX_INSTANCES]>);

impl Instances {
    pub(crate) fn new() -> Self {
        Self(PerProcess::new())
    }

    fn at(&'static self, place: usize) -> Option<&'static Instance> {
        let make = || {
            [const {
                Instance {
                    context: AtomicPtr::new(ptr::null_mut()),
                    lock: Reentrant::new(),
                }
            }; MAX_INSTANCES]
        };
        self.0.get_or_init(make).get(place)
    }

    fn context(&'static self, place: usize) -> *mut c_void {
        self.at(place)
            .map_or(ptr::null_mut(), |i| i.context.load(Ordering::Acquire))
    }
}

/// A data source as the engine knows it. Callbacks are called by its thread.
pub(super) struct Life(pub(super) &'static PerfettoDsImpl);

impl Life {
    fn pointer(&self) -> *mut PerfettoDsImpl {
        ptr::from_ref(self.0).cast_mut()
    }

    fn call_setup(&self, place: usize, config: &DataSourceConfig) -> *mut c_void {
        let Some(on_setup) = self.0.callbacks.on_setup else {
            return ptr::null_mut();
        };
        let mut config = config.encode_to_vec();
        // SAFETY: the program's function, called as it was promised.
        unsafe {
            on_setup(
                self.pointer(),
                place as u32,
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

    fn setup(&self, place: usize, setup: Setup) {
        thread::mark_engine();
        let target = Target {
            writers: setup.writers,
            settings: (),
        };
        self.0.slots.prepare(place, target);
        let context = self.call_setup(place, &setup.config);
        if let Some(instance) = self.0.instances.at(place) {
            instance.context.store(context, Ordering::Release);
        }
        self.0.enabled.set(place);
    }

    fn start(&self, place: usize) {
        self.0.slots.start(place);
        if let Some(on_start) = self.0.callbacks.on_start {
            let context = self.0.instances.context(place);
            let user_arg = self.0.callbacks.user_arg;
            // SAFETY: the program's function, called as it was promised.
            unsafe {
                on_start(
                    self.pointer(),
                    place as u32,
                    user_arg,
                    context,
                    ptr::null_mut(),
                )
            };
        }
    }

    fn stop(&self, place: usize, completion: Completion) {
        let stopper = PerfettoDsAsyncStopper {
            ds: self.0,
            place,
            forks: forks(),
            completion,
        };
        let mut args = PerfettoDsOnStopArgs(Some(Box::new(stopper)));
        if let Some(on_stop) = self.0.callbacks.on_stop {
            let context = self.0.instances.context(place);
            let user_arg = self.0.callbacks.user_arg;
            // SAFETY: the program's function, called as it was promised.
            unsafe {
                on_stop(
                    self.pointer(),
                    place as u32,
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

    fn release(&self, place: usize) {
        self.0.enabled.clear(place);
        self.0.slots.stop(place);
        self.0.slots.release(place);
        let Some(instance) = self.0.instances.at(place) else {
            return;
        };
        let _held = instance.lock.hold();
        let context = instance.context.swap(ptr::null_mut(), Ordering::AcqRel);
        if let Some(on_destroy) = self.0.callbacks.on_destroy {
            // SAFETY: the program's function, called as it was promised.
            unsafe { on_destroy(self.pointer(), self.0.callbacks.user_arg, context) };
        }
    }

    fn flush(&self, place: usize, flags: FlushFlags, completion: Completion) {
        let mut args = PerfettoDsOnFlushArgs {
            reason: flags.0 & 0xf,
            completion: Some(completion),
        };
        if let Some(on_flush) = self.0.callbacks.on_flush {
            let context = self.0.instances.context(place);
            let user_arg = self.0.callbacks.user_arg;
            // SAFETY: the program's function, called as it was promised.
            unsafe {
                on_flush(
                    self.pointer(),
                    place as u32,
                    user_arg,
                    context,
                    &raw mut args,
                )
            };
        }
    }

    fn clear_incremental_state(&self, place: usize) {
        self.0.slots.clear(place);
    }

    fn forked(&self) {
        self.0.slots.forked();
        self.0.enabled.reset();
    }
}

/// The arguments that the callback for stop may use.
#[derive(Debug)]
pub struct PerfettoDsOnStopArgs(Option<Box<PerfettoDsAsyncStopper>>);

/// An instance that is to stop.
#[derive(Debug)]
pub struct PerfettoDsAsyncStopper {
    ds: &'static PerfettoDsImpl,
    place: usize,
    /// Tells the process that has the instance from its forked children.
    forks: u32,
    completion: Completion,
}

impl PerfettoDsAsyncStopper {
    fn finish(self) {
        // A forked child may have an instance of its own in the place.
        if self.forks == forks() {
            self.ds.enabled.clear(self.place);
        }
        self.completion.complete();
    }
}

/// Lets an instance go on until [`PerfettoDsStopDone`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsOnStopArgsPostpone(
    args: *mut PerfettoDsOnStopArgs,
) -> *mut PerfettoDsAsyncStopper {
    // SAFETY: see the crate; this is the pointer that `Life::stop` passed to the callback.
    let stopper = unsafe { (*args).0.take() };
    stopper.map_or(ptr::null_mut(), Box::into_raw)
}

/// The instance has stopped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsStopDone(stopper: *mut PerfettoDsAsyncStopper) {
    if !stopper.is_null() {
        // SAFETY: from `PerfettoDsOnStopArgsPostpone`, not used any more.
        unsafe { Box::from_raw(stopper) }.finish();
    }
}

/// The arguments that the callback for flush may use.
#[derive(Debug)]
pub struct PerfettoDsOnFlushArgs {
    reason: u64,
    completion: Option<Completion>,
}

/// A flush that is not done yet.
#[derive(Debug)]
pub struct PerfettoDsAsyncFlusher(Completion);

/// Lets the service wait until [`PerfettoDsFlushDone`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsOnFlushArgsPostpone(
    args: *mut PerfettoDsOnFlushArgs,
) -> *mut PerfettoDsAsyncFlusher {
    // SAFETY: see the crate; this is the pointer that `Life::flush` passed to the callback.
    let completion = unsafe { (*args).completion.take() };
    completion.map_or(ptr::null_mut(), |completion| {
        Box::into_raw(Box::new(PerfettoDsAsyncFlusher(completion)))
    })
}

/// The flush is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsFlushDone(flusher: *mut PerfettoDsAsyncFlusher) {
    if !flusher.is_null() {
        // SAFETY: from `PerfettoDsOnFlushArgsPostpone`, not used any more.
        unsafe { Box::from_raw(flusher) }.0.complete();
    }
}

/// Why there is a flush: 0 unknown, 1 periodic, 2 end of the recording, 3 copy of the recording, 4
/// asked for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsOnFlushArgsGetReason(args: *mut PerfettoDsOnFlushArgs) -> u64 {
    // SAFETY: see the crate; this is the pointer that `Life::flush` passed to the callback.
    match unsafe { (*args).reason } {
        reason @ 0..=4 => reason,
        _ => 0,
    }
}

/// Returns what the callback for setup returned for an instance, which is not given up before
/// [`PerfettoDsImplReleaseInstanceLocked`]; null, and nothing to release, if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PerfettoDsImplGetInstanceLocked(
    ds: *mut PerfettoDsImpl,
    inst_id: u32,
) -> *mut c_void {
    // SAFETY: see the crate; registered data sources live for ever.
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

/// Ends the use of an instance.
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
