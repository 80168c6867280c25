//! Test of a program whose first events precede the recording, which reports that.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use ferretto::{DataSource, Instance};
use ferretto_client::Consumer;
use ferretto_proto::fields::trace_packet;
use ferretto_testing::sdk::{LIMIT, Service, config, source, start, stop};
use ferretto_wire::Fields;

/// Delays the starts of other data sources after its own.
struct Slow {
    reached: Sender<()>,
    go_on: Mutex<Receiver<()>>,
}

impl DataSource for Slow {
    type Instance = ();
    type Thread = ();

    fn setup(&self, _: &ferretto::proto::DataSourceConfig) {}

    fn start(&self, _: &Instance<Self>) {
        self.reached.send(()).unwrap();
        let _ = self.go_on.lock().unwrap().recv_timeout(LIMIT);
    }
}

#[test]
fn the_recording_reports_possibly_missing_first_events() {
    ferretto_testing::own_process!();
    let service = Service::start();
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    let sources = vec![source("test.slow", None), source("track_event", None)];
    start(&mut consumer, config(sources));

    let ((reached, is_reached), (go_on, may_go_on)) = (channel(), channel());
    let go_on_later = Mutex::new(may_go_on);
    let slow = Slow {
        reached,
        go_on: go_on_later,
    };
    // Registered before track events, so that it starts first.
    ferretto::register_data_source("test.slow", slow).unwrap();
    let options = ferretto::Options::new().address(service.producers.clone());
    options.wait(Duration::from_millis(1)).init().unwrap();
    is_reached.recv_timeout(LIMIT).unwrap();
    ferretto::instant!("late", "before it began");
    go_on.send(()).unwrap();
    assert!(ferretto::flush(LIMIT));
    ferretto::Options::new().wait(LIMIT).init().unwrap();
    ferretto::instant!("late", "after that");

    let packets = stop(&mut consumer);
    let has = |text: &str| {
        let text = text.as_bytes();
        let mut packets = packets.iter();
        packets.any(|packet| packet.windows(text.len()).any(|part| part == text))
    };
    assert!(has("after that") && !has("before it began"));
    let field = trace_packet::PREVIOUS_PACKET_DROPPED;
    let reasons = packets.iter().filter_map(|packet| {
        let fields = Fields::new(packet).map_while(Result::ok);
        // The last field takes effect.
        fields
            .filter(|found| found.number == field)
            .last()?
            .as_u64()
    });
    // The trace reports no earlier losses.
    let late = reasons.filter(|reason| *reason > 1);
    assert_ne!(late.count(), 0);
}
