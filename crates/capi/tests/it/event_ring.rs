//! Track events in a ring that has wrapped.

use crate::common::events::*;
use crate::common::{Session, init};
use ferretto_wire::{Fields, encode};

/// TracePacket.track_event.
const TRACK_EVENT: u32 = 11;

#[test]
fn a_ring_can_be_read_without_repeated_interned_data() {
    ferretto_testing::own_process!();
    init();
    let category = Category::register("around");
    let config = encode(|config| {
        config.nested(1, |buffer| {
            buffer.varint(1, 512);
            // RING_BUFFER.
            buffer.varint(4, 1);
        });
        config.nested(2, |source| {
            source.nested(1, |config| {
                config.string(1, "track_event");
                config.nested(113, |events| events.string(2, "around"));
            });
        });
    });
    let session = Session::start(&config);
    let argument = uint(Some(c"argument"), 7);
    for _ in 0..100_000 {
        category.emit(INSTANT, Some(c"an event with a name"), &[argument]);
    }
    let packets = session.stop_and_read();
    let remaining = packets
        .iter()
        .filter(|packet| Fields::find(TRACK_EVENT, packet).is_some())
        .count();
    assert!(
        remaining > 10_000 && remaining < 100_000,
        "the ring is full: {remaining}"
    );
    let events = events(&packets);
    let names = names(&events);
    let readable = names.iter().filter(|name| **name == "an event with a name");
    // All remaining events except those of the first 64 KiB.
    let readable = readable.count();
    assert!(readable * 8 >= remaining * 7, "{readable} of {remaining}");
}
