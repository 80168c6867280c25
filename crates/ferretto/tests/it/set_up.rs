//! Tests of a set-up before there is a service, and with several services.

use std::sync::Arc;

use ferretto::in_process::InProcess;
use ferretto::{Backends, Options};
use ferretto_client::Consumer;
use ferretto_client::transport::AtAddress;
use ferretto_testing::sdk::{LIMIT, Service, Sockets, config, source, start, stop};

/// Waits until a service knows this process, and returns its producer name.
fn name_at(consumer: &mut Consumer) -> String {
    loop {
        let state = consumer.query_service_state(LIMIT).unwrap();
        if let Some(source) = state.data_sources.first() {
            let mut producers = state.producers.iter();
            let producer = producers.find(|producer| producer.id == source.producer_id);
            let name = producer.unwrap().name.clone().unwrap_or_default();
            return String::from_utf8(name).unwrap();
        }
        std::thread::yield_now();
    }
}

fn has(packets: &[Vec<u8>], text: &str) -> bool {
    packets.iter().any(|packet| {
        packet
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    })
}

#[test]
fn sdk_001_and_003_services_come_later_and_are_added() {
    ferretto_testing::own_process!();
    let sockets = Sockets::new();
    let producers = ferretto::Address::Path(sockets.path("producer"));
    // There is no service.
    let options = || Options::new().address(producers.clone());
    options().name("first").wait(LIMIT).init().unwrap();
    ferretto::instant!("set-up", "unheard");
    assert!(!ferretto::flush(LIMIT));

    // The library notices the service's socket.
    let service = Service::start_at(&sockets);
    let mut system = Consumer::connect(&service.consumers, LIMIT).unwrap();
    assert_eq!(name_at(&mut system), "first");

    // Other services can be added without a change to existing ones.
    assert_eq!(Backends::from_bits(8), None);
    assert_eq!(
        Backends::from_bits(6),
        Some(Backends::SYSTEM | Backends::CUSTOM)
    );
    let error = Options::new().backends(Backends::CUSTOM).init();
    assert!(matches!(error, Err(ferretto::InitError::NoCustomBackend)));
    let other = Service::start();
    let way = AtAddress::default()
        .producers_at(other.producers.clone())
        .consumers_at(other.consumers.clone());
    Options::new()
        .name("second")
        .address(other.producers.clone())
        .backends(Backends::SYSTEM | Backends::CUSTOM | Backends::IN_PROCESS)
        .custom(Arc::new(way))
        .wait(LIMIT)
        .init()
        .unwrap();
    let mut custom = Consumer::connect(&other.consumers, LIMIT).unwrap();
    let mut local = Consumer::connect_through(&InProcess::shared(), LIMIT).unwrap();
    assert_eq!(name_at(&mut system), "first");
    assert_eq!(name_at(&mut custom), "second");
    assert_eq!(name_at(&mut local), "second");
    assert_eq!(
        custom.query_service_state(LIMIT).unwrap().producers.len(),
        1
    );

    // All services record at the same time.
    for consumer in [&mut system, &mut custom, &mut local] {
        start(consumer, config(vec![source("track_event", None)]));
    }
    ferretto::instant!("set-up", "heard by all");
    assert!(ferretto::flush(LIMIT));
    for consumer in [&mut system, &mut custom, &mut local] {
        assert!(has(&stop(consumer), "heard by all"));
    }
}
