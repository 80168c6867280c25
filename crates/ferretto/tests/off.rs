//! Test of the feature `off`: everything compiles, trace points are removed, and the rest works as
//! without events.
//!
//! `cargo test -p ferretto --features off --test off`

use ferretto::testing::Capture;
use ferretto::{Category, DataSource, Flow, StateTrack, counter, dynamic, instant, slice, state};

static LINK: StateTrack = StateTrack::new("link");
static OWN: Category = Category::new("own");

struct Source;

impl DataSource for Source {
    type Instance = ();
    type Thread = ();

    fn setup(&self, _: &ferretto::proto::DataSourceConfig) {}
}

/// A stand-in for the value of an argument.
fn never<T>() -> T {
    panic!("an argument was evaluated")
}

#[ferretto::trace(category = "off")]
fn traced(number: u64) -> u64 {
    number + 1
}

#[test]
fn nothing_is_recorded_and_no_argument_evaluated() {
    let source = ferretto::register_data_source("off.source", Source).unwrap();
    let (_, trace) = Capture::new().all_threads().run(|| {
        instant!("off", "instant");
        instant!("off", "instant", number = never::<u64>());
        instant!("off", &never::<String>(), flow: Flow::process(never()));
        instant!(dynamic("off"), "instant", text = never::<&str>());
        counter!("off", "counter", never::<u64>());
        state!("off", LINK, never::<&str>());
        ferretto::begin!(&OWN, "begin", number = never::<u64>());
        ferretto::end!(&OWN, number = never::<u64>());
        let slice = slice!("off", "slice", number = never::<u64>());
        assert!(!slice.is_enabled());
        ferretto::end_slice!(slice, number = never::<u64>());
        source.trace(|_| never());
        assert!(!OWN.is_enabled() && !dynamic("off").is_enabled() && !source.is_enabled());
        assert_eq!(traced(1), 2);
    });
    assert_eq!(trace.to_string(), "");
}
