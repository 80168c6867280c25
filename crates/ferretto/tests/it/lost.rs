//! Test of a connection that is lost while instances are active.

use ferretto_client::Consumer;
use ferretto_testing::sdk::noted::{Ends, Note, Noted, texts, wait_for, write};
use ferretto_testing::sdk::{LIMIT, Service, Sockets, config, source, start, stop};

const NAME: &str = "test.lost";

/// Waits until a service knows the data source, and returns its id.
fn number_at(consumer: &mut Consumer) -> u64 {
    loop {
        let state = consumer.query_service_state(LIMIT).unwrap();
        let mut known = state.data_sources.iter();
        let known = known.find_map(|source| {
            let descriptor = source.ds_descriptor.as_option()?;
            (descriptor.name.as_deref() == Some(NAME.as_bytes())).then_some(descriptor.id?)
        });
        if let Some(number) = known {
            return number;
        }
        std::thread::yield_now();
    }
}

#[test]
fn sdk_005_and_006_and_015_and_020_what_is_late_does_not_reach_the_next_service() {
    ferretto_testing::own_process!();
    let sockets = Sockets::new();
    let service = Service::start_at(&sockets);
    let options = ferretto::Options::new().address(service.producers.clone());
    options.wait(LIMIT).init().unwrap();
    let (noted, Ends { notes, stops, .. }) = Noted::postponing();
    let handle = noted.register(NAME);
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    let number = number_at(&mut consumer);
    start(&mut consumer, config(vec![source(NAME, None)]));
    write(&handle, "to the first service");
    let mut old = None;
    handle.trace(|context| old = context.instance());
    let old = old.unwrap();
    let mut old_writer = old.create_writer();
    assert_ne!(old_writer.id(), 0);

    // The service is gone, and the instance is still stopping.
    drop(service);
    wait_for(&notes, &Note::Stop(0));
    let completion = stops.recv_timeout(LIMIT).unwrap();
    write(&handle, "to nobody");

    let service = Service::start_at(&sockets);
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    assert_eq!(number_at(&mut consumer), number);
    start(&mut consumer, config(vec![source(NAME, None)]));
    wait_for(&notes, &Note::Start(1));
    // Old writers write nowhere, and the old instance creates no working writers: its buffer id
    // has another meaning now.
    assert_eq!(old.create_writer().id(), 0);
    old_writer
        .new_packet()
        .nested(900, |message| message.string(1, "from an old writer"));
    old_writer.flush(None);
    std::thread::spawn(move || write(&handle, "from a new thread"))
        .join()
        .unwrap();
    completion.complete();
    drop(old);
    wait_for(&notes, &Note::Dropped);
    // The new instance goes on: its service was not asked to stop.
    write(&handle, "to the second service");
    assert!(ferretto::flush(LIMIT));
    consumer.disable_tracing(LIMIT).unwrap();
    let mut seen: Vec<Note> = Vec::new();
    while !seen.contains(&Note::Stop(1)) {
        seen.push(notes.recv_timeout(LIMIT).unwrap());
    }
    assert!(!seen.contains(&Note::Stop(0)), "that was notified once");
    stops.recv_timeout(LIMIT).unwrap().complete();
    let packets = stop(&mut consumer);
    assert_eq!(
        texts(&packets),
        ["from a new thread", "to the second service"]
    );
}
