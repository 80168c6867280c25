//! Tests of which recordings receive which categories.

use std::sync::mpsc;

use ferretto::track_event::CategoryChange;
use ferretto::{Category, instant};
use ferretto_client::Consumer;
use ferretto_testing::sdk::events::Decoded;
use ferretto_testing::sdk::{LIMIT, Service, config, source, start, stop};
use ferretto_wire::{Fields, encode};

ferretto::categories! {
    static TABLE = {
        EARLY: "early", "Known from the start";
        OTHER: "other";
    }
}

/// Returns the config that enables only these categories.
fn only(categories: &[&str]) -> Option<Vec<u8>> {
    Some(encode(|config| {
        config.string(1, "*");
        categories.iter().for_each(|name| config.string(2, name));
    }))
}

fn work() {
    instant!(EARLY, "1");
    instant!(OTHER, "2");
    instant!("late", "3");
}

/// Returns the categories that the service knows of.
fn published(consumer: &mut Consumer) -> Vec<String> {
    let state = consumer.query_service_state(LIMIT).unwrap();
    let mut names = Vec::new();
    for source in &state.data_sources {
        let Some(descriptor) = source.ds_descriptor.as_option() else {
            continue;
        };
        let Some(bytes) = &descriptor.track_event_descriptor else {
            continue;
        };
        for category in Fields::new(bytes).map(Result::unwrap) {
            let name = Fields::find(1, category.as_bytes().unwrap()).unwrap();
            names.push(name.as_str_lossy().unwrap().into_owned());
        }
    }
    names
}

// One test, since a process has one connection.
#[test]
fn trackevent_004_and_005_and_039_and_040_each_recording_gets_its_own_categories() {
    ferretto_testing::own_process!();
    let service = Service::start();
    ferretto::register_categories(TABLE);
    ferretto::Options::new()
        .address(service.producers.clone())
        .wait(LIMIT)
        .init()
        .unwrap();
    let mut first = Consumer::connect(&service.consumers, LIMIT).unwrap();
    let mut second = Consumer::connect(&service.consumers, LIMIT).unwrap();
    assert_eq!(published(&mut first), ["early", "other"]);

    let (sender, changes) = mpsc::channel();
    EARLY.on_change(move |change: CategoryChange| {
        let _ = sender.send((change.is_enabled, change.is_enabled_anywhere));
    });
    assert!(changes.try_recv().is_err(), "nobody records it");

    let wanted = only(&["early", "late", "later"]);
    start(&mut first, config(vec![source("track_event", wanted)]));
    assert_eq!(changes.try_recv(), Ok((true, true)));
    assert!(EARLY.is_enabled() && !OTHER.is_enabled());
    work();
    let wanted = only(&["other", "early"]);
    start(&mut second, config(vec![source("track_event", wanted)]));
    assert_eq!(changes.try_recv(), Ok((true, true)));
    work();

    // A thread that records nothing leaves no data.
    std::thread::spawn(|| assert!(ferretto::flush(LIMIT)))
        .join()
        .unwrap();

    // A category that is registered meanwhile.
    static LATER: Category = Category::new("later").tags(&["slow"]);
    LATER.register();
    assert!(LATER.is_enabled());
    instant!(LATER, "4");
    assert!(ferretto::flush(LIMIT));
    assert_eq!(published(&mut first), ["early", "other", "late", "later"]);

    let packets = stop(&mut first);
    assert_eq!(changes.try_recv(), Ok((false, true)));
    let threads = packets
        .iter()
        .filter(|packet| Fields::find(59, packet).is_some());
    assert_eq!(threads.count(), 1, "sequences");
    let expected = [
        "I early 1",
        "I late 3",
        "I early 1",
        "I late 3",
        "I later 4",
    ];
    assert_eq!(Decoded::new(&packets).lines(), expected);
    work();
    let packets = stop(&mut second);
    assert_eq!(changes.try_recv(), Ok((false, false)));
    let expected = ["I early 1", "I other 2", "I early 1", "I other 2"];
    assert_eq!(Decoded::new(&packets).lines(), expected);
    assert!(!EARLY.is_enabled() && !OTHER.is_enabled());
}
