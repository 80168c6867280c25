//! Tests of what a program may do before it is a producer. One test, so that it is alone in its
//! process.

mod common;

use std::sync::atomic::Ordering;

use common::events::*;
use common::{Source, init, text, texts};
use ferretto_c::*;

#[test]
fn sdk_040_and_035_everything_can_be_prepared_before_the_start() {
    assert!(perfetto_te_any_categories.load(Ordering::Relaxed).is_null());
    let enabled = perfetto_te_any_categories_enabled.load(Ordering::Relaxed);
    assert_eq!(enabled, (&raw const perfetto_atomic_false).cast_mut());
    let any = Category(perfetto_te_any_categories.load(Ordering::Relaxed));
    // SAFETY: there is no category: as programs do that find the variables before they are set.
    unsafe { PerfettoTeHlEmitImpl(any.0, INSTANT, c"never".as_ptr(), std::ptr::null()) };
    // Before there is a producer, and twice.
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
    // SAFETY: used as the headers say.
    unsafe { PerfettoProducerActivateTriggers(names.as_ptr(), 1000) };
    init();
    init();
    let events_session = record("early");
    let session = Source::record("early source");
    category.instant(c"now");
    // The category is unspecified.
    Category::any().instant(c"unsaid");
    source.write(&text("now"));
    assert_eq!(texts(&session.stop_and_read()), ["now"]);
    let events = events(&events_session.stop_and_read());
    assert_eq!(common::events::names(&events), ["now", "unsaid"]);
    assert!(events.problems.is_empty() && events.events[1].categories.is_empty());
    assert!(!perfetto_atomic_false.load(Ordering::Relaxed));
}
