//! A producer and a consumer that behave correctly.

use ferretto_ipc::port::{consumer, producer};
use ferretto_proto::ObserveEventsRequest;
use ferretto_proto::observable_events::Type;
use ferretto_testing::attack::Honest;

use crate::common::{Client, enable};
use crate::service::Service;

/// The data source of the honest producer.
pub(crate) const DATA_SOURCE: &str = "honest";

/// Starts both clients, with a session. They must be served in time.
pub(crate) fn start(service: &Service) -> Vec<(&'static str, Honest)> {
    let mut producer = Client::<producer::Port>::bind(service.producer_socket());
    producer.initialize(DATA_SOURCE);
    producer.register(DATA_SOURCE);
    producer.open_commands();
    let mut consumer = Client::<consumer::Port>::bind(service.consumer_socket());
    let session = enable(DATA_SOURCE, |_| {});
    consumer.0.invoke(&session, None, true).unwrap();
    let observe = consumer::Request::ObserveEvents(ObserveEventsRequest {
        events_to_observe: vec![Type::TYPE_DATA_SOURCES_INSTANCES],
        ..Default::default()
    });
    consumer.0.invoke(&observe, None, true).unwrap();

    let producer = Honest::start(move || {
        let sync = producer::Request::Sync(Default::default());
        assert!(producer.call(&sync).result.is_ok());
    });
    let consumer = Honest::start(move || {
        let query = consumer::Request::QueryCapabilities(Default::default());
        assert!(consumer.call(&query).result.is_ok());
        let read = consumer::Request::ReadBuffers(Default::default());
        let id = consumer.0.invoke(&read, None, true).unwrap();
        loop {
            let reply = consumer.reply();
            if reply.request_id == id && !reply.has_more {
                break assert!(reply.result.is_ok());
            }
        }
    });
    vec![("producer!", producer), ("consumer!", consumer)]
}
