//! Test of startup tracing with a service that refuses the producer's memory.

use ferretto_client::Consumer;
use ferretto_testing::sdk::noted::{texts, write};
use ferretto_testing::sdk::startup::{both, expecting, stalling, start_and_wait};
use ferretto_testing::sdk::{LIMIT, Service, Sockets, start, stop};

#[test]
fn sdk_033_nothing_is_lost_if_the_service_refuses_the_memory() {
    ferretto_testing::own_process!();
    let sockets = Sockets::new();
    let options =
        ferretto::Options::new().address(ferretto::Address::Path(sockets.path("producer")));
    // Not a whole number of pages, which services refuse.
    options.page_kb(8).memory_kb(44).init().unwrap();
    let (handle, _ends) = stalling();
    let (options, outcome) = expecting(both("startup"));
    options.timeout(None).start().unwrap();
    write(&handle, "early");

    let service = Service::start_at(&sockets);
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    start_and_wait(&mut consumer, both("startup"), &outcome);
    write(&handle, "late");
    assert!(ferretto::flush(LIMIT));
    assert_eq!(texts(&stop(&mut consumer)), ["early", "late"]);

    // Later recordings work like any others.
    consumer.free_buffers(LIMIT).unwrap();
    start(&mut consumer, both("startup"));
    write(&handle, "later");
    assert!(ferretto::flush(LIMIT));
    assert_eq!(texts(&stop(&mut consumer)), ["later"]);
}
