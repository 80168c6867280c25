//! The work with our SDK, recorded into a ring by our service in this process.

use std::hint::black_box;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ferretto::Backends;
use ferretto::in_process::InProcess;
use ferretto::proto::trace_config::{BufferConfig, DataSource};
use ferretto::proto::{DataSourceConfig, TraceConfig};
use ferretto::track_event::EventClock;
use ferretto_client::Consumer;
use ferretto_wire::Encoder;

use tracing::Dispatch;
use tracing_ferretto::FerrettoLayer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

use crate::{MEMORY_KB, RING_KB, Side, Work, categories};

/// The time limit for replies of the service.
const LIMIT: Duration = Duration::from_secs(30);

fn disabled(times: u64) {
    for _ in 0..times {
        ferretto::instant!("off", "instant");
    }
}

fn disabled_argument(times: u64) {
    for i in 0..times {
        ferretto::instant!("off", "instant", a = black_box(i) as i64);
    }
}

fn disabled_slice(times: u64) {
    for _ in 0..times {
        let _slice = ferretto::slice!("off", "slice");
    }
}

fn instant(times: u64) {
    for _ in 0..times {
        ferretto::instant!("bench", "instant");
    }
}

fn slice(times: u64) {
    for _ in 0..times {
        let _slice = ferretto::slice!("bench", "slice");
    }
}

fn one_integer(times: u64) {
    for i in 0..times as i64 {
        ferretto::instant!("bench", "instant", a = i);
    }
}

fn two_integers(times: u64) {
    for i in 0..times as i64 {
        ferretto::instant!("bench", "instant", a = i, b = 2i64);
    }
}

fn four_integers(times: u64) {
    for i in 0..times as i64 {
        ferretto::instant!("bench", "instant", a = i, b = 2i64, c = 3i64, d = 4i64);
    }
}

fn one_text(times: u64) {
    for _ in 0..times {
        ferretto::instant!("bench", "instant", a = "sixteen letters.");
    }
}

fn counter(times: u64) {
    for i in 0..times as i64 {
        ferretto::counter!("bench", "load", i);
    }
}

fn named_track(times: u64) {
    static LANE: ferretto::Track<'_> = ferretto::Track::named("lane", 1);
    for _ in 0..times {
        ferretto::instant!("bench", "instant", track: &LANE);
    }
}

struct Packets;

impl ferretto::DataSource for Packets {
    type Instance = ();
    type Thread = ();

    fn setup(&self, _: &DataSourceConfig) {}
}

static PACKETS: OnceLock<ferretto::DataSourceHandle<Packets>> = OnceLock::new();

fn packet(times: u64) {
    let packets = PACKETS.get().expect("it is registered");
    for i in 0..times {
        packets.trace(|context| {
            let mut packet = context.new_packet();
            packet.varint(8, i);
            packet.nested(900, |test| test.string(1, "sixteen letters."));
        });
    }
}

/// Our side.
pub(crate) struct Ours {
    consumer: Consumer,
}

impl Ours {
    /// Starts with this clock for all events of the process.
    pub(crate) fn start(clock: EventClock) -> Self {
        let service = InProcess::shared();
        let packets = ferretto::register_data_source(crate::PACKETS, Packets);
        let _ = PACKETS.set(packets.expect("the name is new"));
        let mut consumer =
            Consumer::connect_through(&service, LIMIT).expect("the service is there");
        consumer
            .enable_tracing(config(), None)
            .expect("the service takes the configuration");
        let options = ferretto::Options::new().backends(Backends::CUSTOM);
        options
            .custom(Arc::new(service))
            .memory_kb(MEMORY_KB)
            .clock(clock)
            .wait(LIMIT)
            .init()
            .expect("tracing starts");
        Self { consumer }
    }
}

fn config() -> TraceConfig {
    let source = DataSourceConfig {
        name: Some(b"track_event".to_vec()),
        track_event_config: Some(categories()),
        ..Default::default()
    };
    let packets = DataSourceConfig {
        name: Some(crate::PACKETS.into()),
        ..Default::default()
    };
    TraceConfig {
        buffers: vec![BufferConfig {
            size_kb: Some(RING_KB),
            ..Default::default()
        }],
        data_sources: [source, packets]
            .map(|source| DataSource {
                config: source.into(),
                ..Default::default()
            })
            .into(),
        ..Default::default()
    }
}

impl Side for Ours {
    fn name(&self) -> &'static str {
        "ours"
    }

    fn work(&self) -> &'static [Work] {
        &[
            ("disabled", disabled),
            ("disabled, 1 argument", disabled_argument),
            ("disabled slice", disabled_slice),
            ("instant", instant),
            ("slice", slice),
            ("instant, 1 integer", one_integer),
            ("instant, 2 integers", two_integers),
            ("instant, 4 integers", four_integers),
            ("instant, 1 text", one_text),
            ("counter", counter),
            ("instant on a named track", named_track),
            ("packet of a data source", packet),
        ]
    }

    fn subscriber(&self) -> Dispatch {
        Dispatch::new(registry().with(FerrettoLayer::new()))
    }

    fn flush(&mut self) {
        self.consumer.flush(LIMIT).expect("the service flushes");
    }

    fn stop(mut self: Box<Self>) -> Vec<u8> {
        self.consumer.disable_tracing(LIMIT).expect("it stops");
        self.consumer.wait_for_end(LIMIT).expect("it ends");
        let mut trace = Vec::new();
        self.consumer
            .read_buffers(LIMIT, |packet| {
                Encoder::new(&mut trace).bytes(1, packet);
                Ok::<_, std::convert::Infallible>(())
            })
            .expect("it can be read");
        trace
    }
}
