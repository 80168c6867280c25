//! Tests of events right after the set-up, while recordings run already.

mod common;

use common::noted::{Noted, texts, write};
use common::{LIMIT, Service, config, source, start, stop};
use ferretto_client::Consumer;

const NAME: &str = "test.registered-later";

static FIRST: ferretto::Category = ferretto::Category::new("first");

#[test]
fn recordings_that_run_begin_before_set_up_returns() {
    let service = Service::start();
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    let sources = vec![source("track_event", None), source(NAME, None)];
    start(&mut consumer, config(sources));

    // Nothing waits for anything from here on, but what does so by itself.
    let options = ferretto::Options::new().address(service.producers.clone());
    options.wait(LIMIT).init().unwrap();
    ferretto::instant!(FIRST, "the first event");
    assert!(FIRST.is_enabled());
    let (noted, _ends) = Noted::new();
    let handle = noted.register(NAME);
    write(&handle, "the first packet");

    // Another data source that nobody wants is not waited for in vain.
    let (noted, _ends) = Noted::new();
    noted.register("test.unwanted");

    let packets = stop(&mut consumer);
    let has = |text: &str| {
        let text = text.as_bytes();
        let mut packets = packets.iter();
        packets.any(|packet| packet.windows(text.len()).any(|part| part == text))
    };
    assert!(has("the first event"));
    assert_eq!(texts(&packets), ["the first packet"]);
}
