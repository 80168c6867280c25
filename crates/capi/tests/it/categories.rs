//! Categories of C programs.

use std::ffi::c_void;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::common::events::*;
use crate::common::init;
use ferretto_c::*;
use ferretto_proto::{Message as _, TracingServiceState};
use ferretto_wire::encode;

/// Serializes the tests, so that the slots of recordings are known.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    init();
    ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The arguments of callbacks: the instance, true if it started, and true if it is the first or
/// last one.
type Calls = Mutex<Vec<(u32, bool, bool)>>;

unsafe extern "C" fn record_call(
    _: *mut PerfettoTeCategoryImpl,
    instance: u32,
    created: bool,
    global: bool,
    received: *mut c_void,
) {
    // SAFETY: this is the pointer that `listen` passed.
    let received = unsafe { &*received.cast::<Calls>() };
    received.lock().unwrap().push((instance, created, global));
}

fn listen(category: Category, received: &'static Calls) {
    // SAFETY: by the contract of the headers.
    unsafe {
        PerfettoTeCategoryImplSetCallback(
            category.0,
            Some(record_call),
            ptr::from_ref(received).cast_mut().cast(),
        );
    }
}

#[test]
fn sdk_039_callbacks_report_current_recordings_and_every_change() {
    ferretto_testing::own_process!();
    let _alone = alone();
    static RECEIVED: Calls = Mutex::new(Vec::new());
    let take = || std::mem::take(&mut *RECEIVED.lock().unwrap());
    let category = Category::register("observed");
    let first = record("observed");
    let unrelated = record("unrelated");
    let second = record("obs*");
    assert!(category.is_enabled());
    listen(category, &RECEIVED);
    assert_eq!(take(), [(0, true, true), (2, true, false)]);
    first.stop();
    assert_eq!(take(), [(0, false, false)]);
    let third = record("observed");
    assert_eq!(take(), [(0, true, false)]);
    second.stop();
    third.stop();
    assert_eq!(take(), [(2, false, false), (0, false, true)]);
    assert!(!category.is_enabled());
    drop(unrelated);
    let fourth = record("observed");
    assert_eq!(take(), [(0, true, true)]);
    // SAFETY: by the contract of the headers.
    unsafe { PerfettoTeCategoryImplSetCallback(category.0, None, ptr::null_mut()) };
    fourth.stop();
    assert_eq!(take(), []);
    listen(category, &RECEIVED);
    let fifth = record("observed");
    assert_eq!(take(), [(0, true, true)]);
    // The end of a category is not reported.
    category.destroy();
    fifth.stop();
    assert_eq!(take(), []);
}

/// Registers a category, sets its callback and destroys it, from a callback.
unsafe extern "C" fn use_category(
    _: *mut PerfettoTeCategoryImpl,
    _: u32,
    created: bool,
    _: bool,
    calls: *mut c_void,
) {
    // SAFETY: this is the pointer that the test passed.
    let calls = unsafe { &*calls.cast::<AtomicU32>() };
    calls.fetch_add(1, Ordering::Relaxed);
    if created {
        static RECEIVED: Calls = Mutex::new(Vec::new());
        let category = Category::register("nested");
        listen(category, &RECEIVED);
        category.destroy();
    }
}

#[test]
fn sdk_039_callbacks_may_use_categories_while_threads_start_and_end() {
    ferretto_testing::own_process!();
    let _alone = alone();
    static CALLS: AtomicU32 = AtomicU32::new(0);
    static RECEIVED: Calls = Mutex::new(Vec::new());
    let category = Category::register("busy 0");
    // SAFETY: by the contract of the headers.
    unsafe {
        let calls = ptr::from_ref(&CALLS).cast_mut().cast();
        PerfettoTeCategoryImplSetCallback(category.0, Some(use_category), calls);
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 1..4 {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let category = Category::register(&format!("busy {thread}"));
                    listen(category, &RECEIVED);
                    category.instant(c"busy");
                    category.destroy();
                }
            });
        }
        for _ in 0..20 {
            let session = record("busy*");
            category.instant(c"busy 0");
            let events = events(&session.stop_and_read());
            assert!(names(&events).contains(&"busy 0"));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(CALLS.load(Ordering::Relaxed), 40);
    category.destroy();
}

#[test]
fn trackevent_039_and_040_every_recording_contains_its_categories() {
    ferretto_testing::own_process!();
    let _alone = alone();
    let early = Category::with_tags("early", &["slow"]);
    let first = record("e*");
    let late = Category::register("else");
    let second = record_with(&encode(|m| m.string(4, "slow")));
    assert!(late.is_enabled());
    early.instant(c"early");
    late.instant(c"late");
    let first = events(&first.stop_and_read());
    assert!(!late.is_enabled());
    late.instant(c"too late");
    early.instant(c"again");
    let second = events(&second.stop_and_read());
    assert_eq!(names(&first), ["early", "late"]);
    assert_eq!(names(&second), ["early", "again"]);
    assert!(first.problems.is_empty() && second.problems.is_empty());
}

#[test]
fn trackevent_040_categories_are_published_to_the_service() {
    ferretto_testing::own_process!();
    let _alone = alone();
    let category = Category::with_tags("published", &["tag 1", "tag 2"]);
    let listed = || {
        let session = ferretto::session::Session::open(ferretto::session::Backend::Custom(
            std::sync::Arc::new(ferretto::in_process::InProcess::shared()),
        ));
        let limit = std::time::Duration::from_secs(10);
        let state: TracingServiceState = session.unwrap().service_state(limit).wait().unwrap();
        let bytes = state.encode_to_vec();
        let entry = encode(|m| {
            m.string(1, "published");
            m.string(3, "tag 1");
            m.string(3, "tag 2");
        });
        bytes.windows(entry.len()).any(|window| window == entry)
    };
    drop(record("published"));
    assert!(listed());
    category.destroy();
    PerfettoTePublishCategories();
    drop(record("published"));
    assert!(!listed());
}

#[test]
fn trackevent_041_malformed_configs_are_tolerated() {
    ferretto_testing::own_process!();
    let _alone = alone();
    // The data source exists before the recording, which therefore waits for its start.
    PerfettoTeInit();
    let config = encode(|m| {
        for number in 0..2_000 {
            m.string(1, &format!("disabled {number}*"));
            m.string(2, &format!("enab*led {number}"));
        }
        m.bytes(2, &[0xff, 0xfe, b'*']);
        m.string(2, "");
        m.string(2, "*wild");
    });
    let session = record_with(&config);
    let wild = Category::register("anything");
    let nameless = Category::register("");
    assert!(wild.is_enabled() && nameless.is_enabled());
    wild.instant(c"x");
    let mut cut = config;
    cut.truncate(cut.len() - 3);
    let second = record_with(&cut);
    assert_eq!(names(&events(&session.stop_and_read())), ["x"]);
    second.stop();
    nameless.destroy();
}
