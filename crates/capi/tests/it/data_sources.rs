//! Data sources defined by programs.

use std::ffi::c_void;
use std::os::unix::process::ExitStatusExt;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, mpsc};

use crate::common::{Session, Source, Tracer, case, config, init, run_again, text, texts};
use ferretto_c::*;
use ferretto_wire::{Fields, encode};

const SIGABRT: i32 = 6;

#[test]
fn sdk_037_a_data_source_without_descriptor_can_be_registered() {
    ferretto_testing::own_process!();
    init();
    let source = Source::register_as(&[], |_| {}).unwrap();
    assert!(!source.is_enabled());
    let mut enabled = ptr::null_mut();
    // SAFETY: by the contract of the headers.
    unsafe {
        let ds = PerfettoDsImplCreate();
        assert!(PerfettoDsImplRegister(ds, &raw mut enabled, ptr::null(), 0));
        assert!(!(*enabled).load(Ordering::Relaxed));
    }
    // A malformed descriptor counts as empty.
    assert!(Source::register_as(&[0xff; 5], |_| {}).is_some());
}

#[test]
fn sdk_037_callbacks_cannot_be_set_after_registration() {
    ferretto_testing::own_process!();
    type Case = (&'static str, fn(*mut PerfettoDsImpl));
    // SAFETY: by the contract of the headers, except that the data source is registered.
    let setters: [Case; 4] = unsafe {
        [
            ("PerfettoDsSetOnSetupCallback", |ds| {
                PerfettoDsSetOnSetupCallback(ds, None)
            }),
            ("PerfettoDsSetOnDeleteTls", |ds| {
                PerfettoDsSetOnDeleteTls(ds, None)
            }),
            ("PerfettoDsSetOnClearIncr", |ds| {
                PerfettoDsSetOnClearIncr(ds, None)
            }),
            ("PerfettoDsSetCbUserArg", |ds| {
                PerfettoDsSetCbUserArg(ds, ptr::null_mut())
            }),
        ]
    };
    let source = Source::register("registered", |ds| {
        // SAFETY: by the contract of the headers.
        unsafe {
            assert!((0..3).all(|policy| PerfettoDsSetBufferExhaustedPolicy(ds, policy)));
            assert!(!PerfettoDsSetBufferExhaustedPolicy(ds, 3));
            assert!(PerfettoDsSetBufferExhaustedPolicyConfigurable(ds, true));
            assert!(PerfettoDsSetSupportsTracingV2(ds, true));
        }
    });
    // SAFETY: as above.
    unsafe {
        assert!(!PerfettoDsSetBufferExhaustedPolicy(source.ds, 0));
        assert!(!PerfettoDsSetBufferExhaustedPolicyConfigurable(
            source.ds, true
        ));
        assert!(!PerfettoDsSetSupportsTracingV2(source.ds, true));
    }
    if let Some(case) = case() {
        let (_, set) = setters.iter().find(|(name, _)| *name == case).unwrap();
        set(source.ds);
        return;
    }
    for (name, _) in setters {
        let test = "data_sources::sdk_037_callbacks_cannot_be_set_after_registration";
        let (status, errors) = run_again(test, name);
        assert_eq!(status.signal(), Some(SIGABRT), "{name}: {errors}");
        assert!(
            errors.contains(&format!("ferretto: {name} was called")),
            "{errors}"
        );
    }
}

/// The number of created contexts.
static CONTEXTS: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn number_setup(
    _: *mut PerfettoDsImpl,
    _: u32,
    _: *mut c_void,
    _: usize,
    _: *mut c_void,
    _: *mut c_void,
) -> *mut c_void {
    let number = CONTEXTS.fetch_add(1, Ordering::Relaxed) + 1;
    ptr::without_provenance_mut(number as usize)
}

#[test]
fn sdk_038_an_instance_can_be_locked_only_while_it_exists() {
    ferretto_testing::own_process!();
    init();
    let source = Source::register("locked", |ds| {
        // SAFETY: by the contract of the headers.
        unsafe { PerfettoDsSetOnSetupCallback(ds, Some(number_setup)) };
    });
    // SAFETY: by the contract of the headers.
    let lock = |instance| unsafe { PerfettoDsImplGetInstanceLocked(source.ds, instance) } as usize;
    // SAFETY: by the contract of the headers.
    let release = |instance| unsafe { PerfettoDsImplReleaseInstanceLocked(source.ds, instance) };
    assert_eq!(lock(0), 0);
    let session = Source::record("locked");
    // Repeatedly.
    assert_eq!((lock(0), lock(0)), (1, 1));
    release(0);
    release(0);
    assert_eq!((lock(1), lock(8), lock(u32::MAX)), (0, 0, 0));
    // While one thread holds it, it cannot be released, and other threads cannot lock it.
    assert_eq!(lock(0), 1);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let source = source;
            // SAFETY: by the contract of the headers.
            let seen = unsafe { PerfettoDsImplGetInstanceLocked(source.ds, 0) } as usize;
            sender.send(seen).unwrap();
            if seen != 0 {
                // SAFETY: by the contract of the headers.
                unsafe { PerfettoDsImplReleaseInstanceLocked(source.ds, 0) };
            }
        });
        assert!(receiver.try_recv().is_err());
        release(0);
        assert_eq!(receiver.recv().unwrap(), 1);
    });
    session.stop();
    assert_eq!(lock(0), 0);
    // Another instance reuses the slot.
    let session = Source::record("locked");
    assert_eq!(lock(0), 2);
    release(0);
    // Releasing it too often has no effect.
    release(0);
    session.stop();
    assert_eq!(lock(0), 0);
}

/// The callbacks, in order.
static EVENTS: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// A postponed stop.
static STOPPER: AtomicPtr<PerfettoDsAsyncStopper> = AtomicPtr::new(ptr::null_mut());
/// True to postpone stops.
static POSTPONE: AtomicBool = AtomicBool::new(false);

fn add_event(event: String) {
    EVENTS.lock().unwrap().push(event);
}

unsafe extern "C" fn life_setup(
    _: *mut PerfettoDsImpl,
    instance: u32,
    config: *mut c_void,
    size: usize,
    user: *mut c_void,
    args: *mut c_void,
) -> *mut c_void {
    // SAFETY: the library calls this by the contract of the headers.
    let config = unsafe { std::slice::from_raw_parts(config.cast::<u8>(), size) };
    let name = Fields::find(1, config).unwrap().as_str_lossy().unwrap();
    assert!(args.is_null() && user as usize == 77);
    add_event(format!("setup {instance} {name}"));
    ptr::without_provenance_mut(instance as usize + 100)
}

unsafe extern "C" fn life_start(
    _: *mut PerfettoDsImpl,
    instance: u32,
    user: *mut c_void,
    context: *mut c_void,
    args: *mut c_void,
) {
    assert!(args.is_null() && user as usize == 77);
    add_event(format!("start {instance} {}", context as usize));
}

unsafe extern "C" fn life_stop(
    _: *mut PerfettoDsImpl,
    instance: u32,
    _: *mut c_void,
    context: *mut c_void,
    args: *mut PerfettoDsOnStopArgs,
) {
    add_event(format!("stop {instance} {}", context as usize));
    if POSTPONE.load(Ordering::Relaxed) {
        // SAFETY: the library calls this by the contract of the headers.
        let stopper = unsafe { PerfettoDsOnStopArgsPostpone(args) };
        STOPPER.store(stopper, Ordering::Release);
    }
}

unsafe extern "C" fn life_destroy(_: *mut PerfettoDsImpl, user: *mut c_void, context: *mut c_void) {
    assert_eq!(user as usize, 77);
    add_event(format!("destroy {}", context as usize));
}

unsafe extern "C" fn life_flush(
    _: *mut PerfettoDsImpl,
    instance: u32,
    _: *mut c_void,
    _: *mut c_void,
    args: *mut PerfettoDsOnFlushArgs,
) {
    // SAFETY: the library calls this by the contract of the headers; the flush is completed at once
    // through a handle.
    unsafe {
        add_event(format!(
            "flush {instance} {}",
            PerfettoDsOnFlushArgsGetReason(args)
        ));
        PerfettoDsFlushDone(PerfettoDsOnFlushArgsPostpone(args));
    }
}

#[test]
fn sdk_009_and_011_callbacks_are_called_in_order_and_a_stop_can_be_postponed() {
    ferretto_testing::own_process!();
    init();
    let source = Source::register("life", |ds| {
        // SAFETY: by the contract of the headers.
        unsafe {
            PerfettoDsSetOnSetupCallback(ds, Some(life_setup));
            PerfettoDsSetOnStartCallback(ds, Some(life_start));
            PerfettoDsSetOnStopCallback(ds, Some(life_stop));
            PerfettoDsSetOnDestroyCallback(ds, Some(life_destroy));
            PerfettoDsSetOnFlushCallback(ds, Some(life_flush));
            PerfettoDsSetCbUserArg(ds, ptr::without_provenance_mut(77));
        }
    });
    let take = || std::mem::take(&mut *EVENTS.lock().unwrap());
    let session = Source::record("life");
    assert_eq!(take(), ["setup 0 life", "start 0 100"]);
    // SAFETY: by the contract of the headers.
    assert!(unsafe { PerfettoTracingSessionFlushBlocking(session.0, 10_000) });
    assert_eq!(take(), ["flush 0 4"]);
    let second = Source::record("life");
    assert_eq!(take(), ["setup 1 life", "start 1 101"]);
    second.stop();
    assert_eq!(take(), ["stop 1 101", "destroy 101"]);
    assert!(source.is_enabled());
    POSTPONE.store(true, Ordering::Relaxed);
    // SAFETY: by the contract of the headers.
    unsafe { PerfettoTracingSessionStopAsync(session.0) };
    while STOPPER.load(Ordering::Acquire).is_null() {
        std::thread::yield_now();
    }
    assert_eq!(take(), ["stop 0 100"]);
    // The instance continues.
    assert_eq!(source.write(&text("late")), 1);
    source.trace(|tracer| {
        // SAFETY: by the contract of the headers.
        unsafe { PerfettoDsTracerImplFlush(tracer.tracer, None, ptr::null_mut()) };
    });
    // SAFETY: by the contract of the headers.
    unsafe { PerfettoDsStopDone(STOPPER.load(Ordering::Acquire)) };
    // Disabled before the service receives the stop.
    assert!(!source.is_enabled());
    let packets = session.stop_and_read();
    assert_eq!(texts(&packets), ["late"]);
    assert_eq!(take(), ["destroy 100"]);
}

static CREATED: AtomicU32 = AtomicU32::new(0);
static CLEARED: AtomicU32 = AtomicU32::new(0);
static DELETED: AtomicU32 = AtomicU32::new(0);
static CAN_CLEAR: AtomicBool = AtomicBool::new(true);

unsafe extern "C" fn create(
    _: *mut PerfettoDsImpl,
    _: u32,
    _: *mut c_void,
    _: *mut c_void,
) -> *mut c_void {
    let number = CREATED.fetch_add(1, Ordering::Relaxed) + 1;
    ptr::without_provenance_mut(number as usize)
}

unsafe extern "C" fn delete(_: *mut c_void) {
    DELETED.fetch_add(1, Ordering::Relaxed);
}

unsafe extern "C" fn clear(_: *mut c_void, _: *mut c_void) -> bool {
    CLEARED.fetch_add(1, Ordering::Relaxed);
    CAN_CLEAR.load(Ordering::Relaxed)
}

#[test]
fn sdk_019_incremental_state_is_cleared_or_recreated() {
    ferretto_testing::own_process!();
    init();
    let source = Source::register("incremental", |ds| {
        // SAFETY: by the contract of the headers.
        unsafe {
            PerfettoDsSetOnCreateIncr(ds, Some(create));
            PerfettoDsSetOnDeleteIncr(ds, Some(delete));
            PerfettoDsSetOnClearIncr(ds, Some(clear));
        }
    });
    let mut config = config("incremental", |_| {});
    // The service clears every 20 milliseconds.
    config.extend(encode(|m| m.nested(21, |m| m.varint(1, 20))));
    let session = Session::start(&config);
    let state = || {
        let mut state = 0;
        source.trace(|tracer| state = tracer.incremental_state() as usize);
        state
    };
    assert_eq!(state(), 1);
    while CLEARED.load(Ordering::Relaxed) == 0 {
        assert_eq!(state(), 1);
        std::thread::yield_now();
    }
    CAN_CLEAR.store(false, Ordering::Relaxed);
    while state() == 1 {
        std::thread::yield_now();
    }
    assert!(DELETED.load(Ordering::Relaxed) >= 1);
    session.stop();
    // The thread frees its state in its next trace point of any data source.
    let other = Source::register("other", |_| {});
    let _session = Source::record("other");
    assert_eq!(other.write(&text("x")), 1);
    assert_eq!(
        DELETED.load(Ordering::Relaxed),
        CREATED.load(Ordering::Relaxed)
    );
}

#[test]
fn a_data_source_without_incremental_state_has_none() {
    ferretto_testing::own_process!();
    init();
    let source = Source::register("stateless", |ds| {
        // SAFETY: by the contract of the headers. Without the other callbacks it has no effect.
        unsafe { PerfettoDsSetOnDeleteIncr(ds, Some(delete)) };
    });
    let _session = Source::record("stateless");
    let mut count = 0;
    source.trace(|tracer| {
        assert!(tracer.incremental_state().is_null());
        count += 1;
    });
    assert_eq!(count, 1);
}

#[test]
fn sdk_017_trace_points_do_not_nest_and_can_be_left_early() {
    ferretto_testing::own_process!();
    init();
    let source = Source::register("nested", |_| {});
    let first = Source::record("nested");
    let second = Source::record("nested");
    let mut instances = Vec::new();
    source.trace(|tracer: Tracer| {
        instances.push(tracer.instance);
        assert_eq!(source.write(&text("inside")), 0);
    });
    assert_eq!(instances, [0, 1]);
    // SAFETY: by the contract of the headers.
    unsafe {
        let mut iterator = PerfettoDsImplTraceIterateBegin(source.ds);
        assert!(!iterator.tracer.is_null());
        PerfettoDsImplTraceIterateBreak(source.ds, &raw mut iterator);
    }
    assert_eq!(source.write(&text("both")), 2);
    assert_eq!(texts(&first.stop_and_read()), ["both"]);
    assert_eq!(texts(&second.stop_and_read()), ["both"]);
    assert_eq!(source.write(&text("unrecorded")), 0);
}

#[test]
fn a_descriptor_can_be_updated_but_not_its_name() {
    ferretto_testing::own_process!();
    init();
    let source = Source::register("described", |_| {});
    let update = |name: &str| {
        let descriptor = encode(|m| m.string(1, name));
        // SAFETY: by the contract of the headers.
        unsafe {
            PerfettoDsImplUpdateDescriptor(source.ds, descriptor.as_ptr().cast(), descriptor.len());
        }
    };
    update("described");
    if case().is_some() {
        update("other");
        return;
    }
    let (status, errors) = run_again(
        "data_sources::a_descriptor_can_be_updated_but_not_its_name",
        "1",
    );
    assert_eq!(status.signal(), Some(SIGABRT), "{errors}");
    let _session = Source::record("described");
    assert_eq!(source.write(&text("x")), 1);
}

#[test]
fn protovm_033_a_program_in_the_descriptor_folds_overwritten_packets() {
    ferretto_testing::own_process!();
    init();
    // select 900.6 in the packet { select 900.7 in the state { merge } }
    let select = |cursor: u64, path: [u64; 2], nested: &[u8]| {
        encode(|m| {
            m.nested(1, |select| {
                select.varint(1, cursor);
                path.iter()
                    .for_each(|field| select.nested(2, |part| part.varint(1, *field)));
                select.bool(3, cursor == 2);
            });
            m.bytes(7, nested);
        })
    };
    let merge = encode(|m| m.nested(3, |_| {}));
    let program = select(1, [900, 6], &select(2, [900, 7], &merge));
    let program = encode(|m| m.bytes(2, &program));
    let descriptor = encode(|m| {
        m.string(1, "folded");
        m.bool(2, true);
        m.bytes(10, &program);
    });
    let source = Source::register_as(&descriptor, |_| {}).unwrap();
    let session = Session::start(&encode(|m| {
        m.nested(1, |buffer| {
            buffer.varint(1, 4);
            buffer.varint(8, 1);
        });
        m.nested(2, |source| {
            source.nested(1, |config| {
                config.string(1, "folded");
                config.nested(12, |protovm| protovm.varint(1, 64));
            });
        });
    }));
    for number in 1..=20 {
        let packet = encode(|m| {
            m.nested(900, |event| {
                event.nested(6, |patch| {
                    patch.varint(2, number);
                    patch.string(1, &"x".repeat(500));
                });
            });
        });
        source.trace(|tracer| {
            tracer.write(&packet);
            tracer.flush();
        });
    }
    let packets = session.stop_and_read();
    let number_in = |packet: &[u8], field| {
        let event = Fields::find(900, packet)?.as_bytes()?;
        let inner = Fields::find(field, event)?.as_bytes()?;
        Fields::find(2, inner)?.as_u64()
    };
    let vms = packets.iter().find_map(|packet| Fields::find(125, packet));
    let instance = vms.unwrap().as_message().unwrap().next().unwrap().unwrap();
    let of = |field| Fields::find(field, instance.as_bytes().unwrap()).unwrap();
    assert_eq!(of(1).as_bytes().unwrap(), program);
    let mut left = packets.iter().filter_map(|packet| number_in(packet, 6));
    let first = left.next().unwrap();
    assert!(first > 10);
    assert_eq!(number_in(of(2).as_bytes().unwrap(), 7), Some(first - 1));
}
