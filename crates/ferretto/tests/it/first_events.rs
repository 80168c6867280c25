//! Test of events right after the set-up, with active recordings.

use ferretto_client::Consumer;
use ferretto_testing::sdk::noted::{Noted, texts, write};
use ferretto_testing::sdk::{LIMIT, Service, config, source, start, stop};

const NAME: &str = "test.registered-later";

static FIRST: ferretto::Category = ferretto::Category::new("first");

#[test]
fn active_recordings_start_before_the_set_up_returns() {
    ferretto_testing::own_process!();
    let service = Service::start();
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    let sources = vec![source("track_event", None), source(NAME, None)];
    start(&mut consumer, config(sources));

    // From here on the test itself does not wait.
    let options = ferretto::Options::new().address(service.producers.clone());
    options.wait(LIMIT).init().unwrap();
    ferretto::instant!(FIRST, "the first event");
    assert!(FIRST.is_enabled());
    let (noted, _ends) = Noted::new();
    let handle = noted.register(NAME);
    write(&handle, "the first packet");

    // Another data source without a recording is not waited for.
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
