//! Test of triggers that wait for a connection.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferretto::proto::TraceConfig;
use ferretto::proto::trace_config::TriggerConfig;
use ferretto::proto::trace_config::trigger_config::{Trigger, TriggerMode};
use ferretto::{Backends, Options};
use ferretto_client::Consumer;
use ferretto_client::transport::{
    AtAddress, Connect, ConnectFailure, ConsumerPort, Link, ProducerPort,
};
use ferretto_testing::sdk::{LIMIT, Service, config, start};
use ferretto_wire::Fields;

/// A connection that is blocked while the test holds the lock.
#[derive(Debug)]
struct Gate {
    closed: Arc<Mutex<()>>,
    way: AtAddress,
}

impl Connect<ProducerPort> for Gate {
    fn connect(&self) -> Result<Box<dyn Link<ProducerPort>>, ConnectFailure> {
        let _open = self.closed.lock().unwrap();
        self.way.connect()
    }
}

impl Connect<ConsumerPort> for Gate {
    fn connect(&self) -> Result<Box<dyn Link<ConsumerPort>>, ConnectFailure> {
        self.way.connect()
    }
}

fn waiting_for(names: &[&str]) -> TraceConfig {
    let trigger = |name: &&str| Trigger {
        name: Some(name.as_bytes().to_vec()),
        stop_delay_ms: Some(1),
        ..Default::default()
    };
    TraceConfig {
        trigger_config: TriggerConfig {
            trigger_mode: Some(TriggerMode::STOP_TRACING),
            triggers: names.iter().map(trigger).collect(),
            trigger_timeout_ms: Some(600_000),
            ..Default::default()
        }
        .into(),
        ..config(Vec::new())
    }
}

/// Returns the names of the triggers in a trace.
fn fired(packets: &[Vec<u8>]) -> Vec<String> {
    let triggers = packets
        .iter()
        .filter_map(|packet| Fields::find(46, packet)?.as_bytes());
    triggers
        .filter_map(|trigger| Some(Fields::find(1, trigger)?.as_str_lossy()?.into_owned()))
        .collect()
}

#[test]
fn sdk_030_triggers_wait_for_a_connection_as_long_as_they_are_to_be_kept() {
    ferretto_testing::own_process!();
    let service = Service::start();
    let closed = Arc::new(Mutex::new(()));
    let gate = Gate {
        closed: Arc::clone(&closed),
        way: AtAddress::default().producers_at(service.producers.clone()),
    };
    assert!(!ferretto::activate_triggers(&["too early"], LIMIT));
    let is_closed = closed.lock().unwrap();
    let options = Options::new()
        .backends(Backends::CUSTOM)
        .custom(Arc::new(gate));
    options.init().unwrap();
    assert!(ferretto::activate_triggers(&["expired"], Duration::ZERO));
    assert!(ferretto::activate_triggers(&["kept", "kept too"], LIMIT));

    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    start(&mut consumer, waiting_for(&["expired", "kept", "kept too"]));
    drop(is_closed);
    consumer
        .wait_for_end(LIMIT)
        .unwrap()
        .expect("it is stopped by a trigger");
    let fired = fired(&ferretto_testing::sdk::read(&mut consumer));
    assert!(fired.contains(&"kept".to_owned()), "{fired:?}");
    assert!(!fired.contains(&"expired".to_owned()), "{fired:?}");

    // With a connection, triggers are sent at once.
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    start(&mut consumer, waiting_for(&["expired", "now"]));
    assert!(ferretto::activate_triggers(&["now"], Duration::ZERO));
    consumer
        .wait_for_end(LIMIT)
        .unwrap()
        .expect("it is stopped by a trigger");
}
