//! Calls before the initialization of a producer. One test, because it needs its own process.

use std::sync::atomic::Ordering;

use crate::common::events::*;
use crate::common::{Source, init, text, texts};
use ferretto_c::*;

#[test]
fn sdk_040_and_035_calls_before_initialization_are_supported() {
    ferretto_testing::own_process!();
    assert!(perfetto_te_any_categories.load(Ordering::Relaxed).is_null());
    let enabled = perfetto_te_any_categories_enabled.load(Ordering::Relaxed);
    assert_eq!(enabled, (&raw const perfetto_atomic_false).cast_mut());
    let any = Category(perfetto_te_any_categories.load(Ordering::Relaxed));
    // SAFETY: the category is null, as in programs that read the variables before they are set.
    unsafe { PerfettoTeHlEmitImpl(any.0, INSTANT, c"never".as_ptr(), std::ptr::null()) };
    // Before the initialization of a producer, and twice.
    PerfettoTeInit();
    let (categories, track) = (
        perfetto_te_any_categories.load(Ordering::Relaxed),
        perfetto_te_process_track_uuid.load(Ordering::Relaxed),
    );
    PerfettoTeInit();
    assert!(!categories.is_null() && track != 0);
    assert_eq!(
        categories,
        perfetto_te_any_categories.load(Ordering::Relaxed)
    );
    let category = Category::register("early");
    let source = Source::register("early source", |_| {});
    category.emit(INSTANT, Some(c"never"), &[]);
    assert_eq!(source.write(&text("never")), 0);
    let names = [c"trigger".as_ptr(), std::ptr::null()];
    // SAFETY: by the contract of the headers.
    unsafe { PerfettoProducerActivateTriggers(names.as_ptr(), 1000) };
    init();
    init();
    let events_session = record("early");
    let session = Source::record("early source");
    category.instant(c"now");
    // The category is unspecified.
    Category::any().instant(c"unspecified");
    source.write(&text("now"));
    assert_eq!(texts(&session.stop_and_read()), ["now"]);
    let events = events(&events_session.stop_and_read());
    assert_eq!(
        crate::common::events::names(&events),
        ["now", "unspecified"]
    );
    assert!(events.problems.is_empty() && events.events[1].categories.is_empty());
    assert!(!perfetto_atomic_false.load(Ordering::Relaxed));
}
