//! Tests of the data source descriptors at the service.

use ferretto::proto::DataSourceDescriptor;
use ferretto::{DataSourceOptions, RegisterError};
use ferretto_client::Consumer;
use ferretto_testing::sdk::noted::Noted;
use ferretto_testing::sdk::{LIMIT, Service};

/// Returns the service's descriptor of the data source with this name.
fn described(consumer: &mut Consumer, name: &str) -> Vec<DataSourceDescriptor> {
    let state = consumer.query_service_state(LIMIT).unwrap();
    let described = state.data_sources.iter();
    described
        .filter_map(|source| source.ds_descriptor.as_option())
        .filter(|source| source.name.as_deref() == Some(name.as_bytes()))
        .cloned()
        .collect()
}

#[test]
fn sdk_007_and_008_data_sources_are_described_and_counted() {
    ferretto_testing::own_process!();
    // Before and after the set-up.
    let early = Noted::new().0.register("test.early");
    let service = Service::start();
    let options = ferretto::Options::new().address(service.producers.clone());
    options.wait(LIMIT).init().unwrap();
    let quiet = DataSourceOptions::with_descriptor(DataSourceDescriptor {
        name: Some(b"test.quiet".to_vec()),
        will_notify_on_stop: Some(false),
        ..Default::default()
    });
    quiet.no_flush().register(Noted::new().0).unwrap();
    let again = Noted::new().0.register("test.early");
    assert!(std::ptr::eq(early.source(), again.source()));
    assert!(ferretto::flush(LIMIT));

    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    let [early_known] = &described(&mut consumer, "test.early")[..] else {
        panic!("the service knows it once");
    };
    assert_eq!(early_known.will_notify_on_start, Some(true));
    assert_eq!(early_known.will_notify_on_stop, Some(true));
    assert_eq!(early_known.handles_incremental_state_clear, Some(true));
    assert_ne!(early_known.id.unwrap_or(0), 0);
    assert_ne!(early_known.no_flush, Some(true));
    let [quiet] = &described(&mut consumer, "test.quiet")[..] else {
        panic!("the service knows it once");
    };
    assert_eq!(quiet.will_notify_on_stop, Some(false));
    assert_eq!(quiet.no_flush, Some(true));
    assert_ne!(quiet.id, early_known.id);
    assert_eq!(
        described(&mut consumer, "track_event")[0].no_flush,
        Some(true)
    );

    // A descriptor can change, except for the name.
    early.update(DataSourceDescriptor {
        name: Some(b"test.other".to_vec()),
        track_event_descriptor: Some(vec![0x0a, 0]),
        ..Default::default()
    });
    assert!(ferretto::flush(LIMIT));
    let updated = described(&mut consumer, "test.early");
    assert_eq!(updated.len(), 1);
    assert_eq!(updated[0].id, early_known.id);
    assert!(updated[0].track_event_descriptor.is_some());

    // Three are registered.
    for number in 3..32 {
        Noted::new().0.register(&format!("test.{number}"));
    }
    let one_more = DataSourceOptions::new("test.32").register(Noted::new().0);
    assert_eq!(one_more.unwrap_err(), RegisterError::TooMany);
    assert!(
        DataSourceOptions::new("test.31")
            .register(Noted::new().0)
            .is_ok()
    );
}
