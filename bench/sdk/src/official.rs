//! The same work with the official SDK, recorded into a ring by its service in this process.

use std::hint::black_box;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use ferretto_wire::encode;
use perfetto_sdk::data_source::{DataSource, DataSourceArgsBuilder, TraceContext};
use perfetto_sdk::producer::{Backends, Producer, ProducerInitArgsBuilder};
use perfetto_sdk::protos::trace::{test_event::TestEvent, trace_packet::TracePacket};
use perfetto_sdk::tracing_session::TracingSession;
use perfetto_sdk::track_event::{
    EventContext, TrackEvent, TrackEventCounter, TrackEventDebugArg, TrackEventTrack,
};
use perfetto_sdk::{scoped_track_event, track_event_counter, track_event_instant};

use tracing::Dispatch;
use tracing_perfetto_sdk::PerfettoLayer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

use crate::{MEMORY_KB, RING_KB, Side, Work, categories};

#[allow(missing_docs, unreachable_pub, clippy::undocumented_unsafe_blocks)]
mod table {
    use perfetto_sdk::track_event_categories;

    track_event_categories! {
        pub mod bench {
            ( "bench", "Recorded", [] ),
            ( "off", "Not recorded", [] ),
        }
    }
}
use table::bench as perfetto_te_ns;

fn disabled(times: u64) {
    for _ in 0..times {
        track_event_instant!("off", "instant");
    }
}

fn disabled_argument(times: u64) {
    for i in 0..times {
        track_event_instant!("off", "instant", |event: &mut EventContext| {
            event.add_debug_arg("a", TrackEventDebugArg::Int64(black_box(i) as i64));
        });
    }
}

fn disabled_slice(times: u64) {
    for _ in 0..times {
        scoped_track_event!("off", "slice");
    }
}

fn instant(times: u64) {
    for _ in 0..times {
        track_event_instant!("bench", "instant");
    }
}

fn slice(times: u64) {
    for _ in 0..times {
        scoped_track_event!("bench", "slice");
    }
}

fn one_integer(times: u64) {
    for i in 0..times as i64 {
        track_event_instant!("bench", "instant", |event: &mut EventContext| {
            event.add_debug_arg("a", TrackEventDebugArg::Int64(i));
        });
    }
}

fn two_integers(times: u64) {
    for i in 0..times as i64 {
        track_event_instant!("bench", "instant", |event: &mut EventContext| {
            event.add_debug_arg("a", TrackEventDebugArg::Int64(i));
            event.add_debug_arg("b", TrackEventDebugArg::Int64(2));
        });
    }
}

fn four_integers(times: u64) {
    for i in 0..times as i64 {
        track_event_instant!("bench", "instant", |event: &mut EventContext| {
            event.add_debug_arg("a", TrackEventDebugArg::Int64(i));
            event.add_debug_arg("b", TrackEventDebugArg::Int64(2));
            event.add_debug_arg("c", TrackEventDebugArg::Int64(3));
            event.add_debug_arg("d", TrackEventDebugArg::Int64(4));
        });
    }
}

fn one_text(times: u64) {
    for _ in 0..times {
        track_event_instant!("bench", "instant", |event: &mut EventContext| {
            event.add_debug_arg("a", TrackEventDebugArg::String("sixteen letters."));
        });
    }
}

fn counter(times: u64) {
    thread_local! {
        static COUNTER: TrackEventTrack =
            TrackEventTrack::register_counter_track("load", TrackEventTrack::process_track_uuid())
                .expect("a name without a zero byte");
    }
    COUNTER.with(|track| {
        for i in 0..times as i64 {
            track_event_counter!("bench", |event: &mut EventContext| {
                event.set_track(track);
                event.set_counter(TrackEventCounter::Int64(i));
            });
        }
    });
}

fn named_track(times: u64) {
    thread_local! {
        static TRACK: TrackEventTrack =
            TrackEventTrack::register_named_track("lane", 1, TrackEventTrack::process_track_uuid())
                .expect("a name without a zero byte");
    }
    TRACK.with(|track| {
        for _ in 0..times {
            track_event_instant!("bench", "instant", |event: &mut EventContext| {
                event.set_track(track);
            });
        }
    });
}

static PACKETS: OnceLock<DataSource<'static>> = OnceLock::new();

fn packet(times: u64) {
    let packets = PACKETS.get().expect("it is registered");
    for i in 0..times {
        packets.trace(|context: &mut TraceContext<'_>| {
            context.add_packet(|packet: &mut TracePacket<'_, '_>| {
                packet.set_timestamp(i);
                packet.set_for_testing(|test: &mut TestEvent<'_, '_>| {
                    test.set_str("sixteen letters.");
                });
            });
        });
    }
}

/// The official side.
pub(crate) struct Official {
    session: TracingSession,
}

impl Official {
    pub(crate) fn start() -> Self {
        let mut options = ProducerInitArgsBuilder::new().backends(Backends::IN_PROCESS);
        options = options.shmem_size_hint_kb(MEMORY_KB);
        Producer::init(options.build());
        TrackEvent::init();
        let mut packets = DataSource::new();
        packets
            .register(crate::PACKETS, DataSourceArgsBuilder::new().build())
            .expect("the name is new");
        assert!(PACKETS.set(packets).is_ok());
        perfetto_te_ns::register().expect("the categories are new");
        let mut session = TracingSession::in_process().expect("a session can be made");
        session.setup(&encode(|config| {
            config.nested(1, |buffer| buffer.varint(1, RING_KB.into()));
            config.nested(2, |source| {
                source.nested(1, |source| {
                    source.string(1, "track_event");
                    source.bytes(113, &categories());
                });
            });
            config.nested(2, |source| {
                source.nested(1, |source| source.string(1, crate::PACKETS));
            });
        }));
        session.start_blocking();
        Self { session }
    }
}

impl Side for Official {
    fn name(&self) -> &'static str {
        "official"
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
        tracing_perfetto_sdk::init_in_process();
        Dispatch::new(registry().with(PerfettoLayer::new()))
    }

    fn flush(&mut self) {
        self.session.flush_blocking(Duration::from_secs(30));
    }

    fn stop(mut self: Box<Self>) -> Vec<u8> {
        self.session.stop_blocking();
        let trace = Arc::new(Mutex::new(Vec::new()));
        let part = Arc::clone(&trace);
        self.session.read_trace_blocking(move |data, _| {
            part.lock().expect("no panic").extend_from_slice(data);
        });
        std::mem::take(&mut trace.lock().expect("no panic"))
    }
}
