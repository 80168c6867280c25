//! A program instrumented with the official SDK: track events and one data
//! source of its own, on the system service.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferretto_interop_driver::{
    NOT_STARTED, PACKETS, PATIENCE, Role, Starts, letters, number, numbered, unknown,
};
use perfetto_sdk::data_source::{
    DataSource, DataSourceArgsBuilder, DataSourceBufferExhaustedPolicy, TraceContext,
};
use perfetto_sdk::producer::{Backends, Producer as SdkProducer, ProducerInitArgsBuilder};
use perfetto_sdk::protos::trace::{test_event::TestEvent, trace_packet::TracePacket};
use perfetto_sdk::track_event::{
    EventContext, TrackEvent, TrackEventCounter, TrackEventDebugArg, TrackEventTrack,
};
use perfetto_sdk::{
    track_event_begin, track_event_categories, track_event_counter, track_event_end,
    track_event_instant,
};

#[allow(missing_docs, unreachable_pub, clippy::undocumented_unsafe_blocks)]
pub(crate) mod categories {
    use super::track_event_categories;

    track_event_categories! {
        pub mod interop {
            ( "interop", "What the scenarios write", [ "tag" ] ),
            ( "silent", "What the scenarios do not ask for", [] ),
        }
    }
}
use categories::interop as perfetto_te_ns;

pub(crate) struct Producer {
    starts: Arc<Starts>,
    source: DataSource<'static>,
    counter: TrackEventTrack,
}

impl Producer {
    pub(crate) fn start() -> Result<Self, String> {
        SdkProducer::init(
            ProducerInitArgsBuilder::new()
                .backends(Backends::SYSTEM)
                .build(),
        );
        TrackEvent::init();
        perfetto_te_ns::register().map_err(|error| error.to_string())?;
        let starts = Arc::new(Starts::default());
        let (on_start, on_stop) = (Arc::clone(&starts), Arc::clone(&starts));
        let mut source = DataSource::new();
        source
            .register(
                PACKETS,
                DataSourceArgsBuilder::new()
                    .buffer_exhausted_policy(DataSourceBufferExhaustedPolicy::StallAndDrop)
                    .will_notify_on_stop(true)
                    .on_start(move |_instance, _| on_start.started())
                    .on_stop(move |_instance, stop| {
                        if on_stop.holds_stops() {
                            let guard = stop.postpone();
                            let starts = Arc::clone(&on_stop);
                            std::thread::spawn(move || {
                                starts.await_release();
                                drop(guard);
                            });
                        }
                        on_stop.stopped();
                    })
                    .build(),
            )
            .map_err(|error| error.to_string())?;
        let counter = TrackEventTrack::register_counter_track(
            "interop counter",
            TrackEventTrack::process_track_uuid(),
        )
        .map_err(|error| error.to_string())?;
        Ok(Self {
            starts,
            source,
            counter,
        })
    }

    /// Writes `count` rounds of a slice, an instant and a counter value.
    fn write_slices(&self, count: u64) -> String {
        for round in 0..count {
            track_event_begin!("interop", "round", |ctx: &mut EventContext| {
                ctx.add_debug_arg("round", TrackEventDebugArg::Uint64(round));
            });
            track_event_instant!("silent", "never");
            track_event_instant!("interop", "tick", |ctx: &mut EventContext| {
                ctx.add_debug_arg("who", TrackEventDebugArg::String("official"));
            });
            track_event_counter!("interop", |ctx: &mut EventContext| {
                ctx.set_track(&self.counter);
                ctx.set_counter(TrackEventCounter::Int64(round as i64));
            });
            track_event_end!("interop");
        }
        track_event_instant!("interop", "last", |ctx: &mut EventContext| {
            ctx.set_flush();
        });
        String::new()
    }

    /// Writes one packet for each text and waits until the service has them.
    fn write_texts(&self, texts: &[String]) -> Result<String, String> {
        let written = AtomicBool::new(false);
        let (sender, receiver) = std::sync::mpsc::channel();
        self.source.trace(|ctx: &mut TraceContext| {
            for text in texts {
                ctx.add_packet(|packet: &mut TracePacket| {
                    packet
                        .set_timestamp(1)
                        .set_for_testing(|event: &mut TestEvent| {
                            event.set_str(text);
                        });
                });
            }
            let sender = sender.clone();
            ctx.flush(move || {
                let _ = sender.send(());
            });
            written.store(true, Ordering::Relaxed);
        });
        if !written.load(Ordering::Relaxed) {
            return Err(NOT_STARTED.to_owned());
        }
        receiver
            .recv_timeout(PATIENCE)
            .map_err(|_| "the packets were never flushed".to_owned())?;
        Ok(String::new())
    }
}

impl Role for Producer {
    fn run(&mut self, words: &[&str]) -> Result<String, String> {
        match words {
            ["await-start", starts] => self.starts.await_starts(number(starts)?),
            ["await-stop", stops] => self.starts.await_stops(number(stops)?),
            ["script"] => {
                crate::script::run();
                Ok(String::new())
            }
            ["slices", count] => Ok(self.write_slices(number(count)?)),
            ["packet", length] => self.write_texts(&[letters(number(length)?)]),
            ["numbers", from, count] => self.write_texts(&numbered(number(from)?, number(count)?)),
            ["text", text] => self.write_texts(&[(*text).to_owned()]),
            ["trigger", name] => SdkProducer::activate_trigger(name, PATIENCE)
                .map(|()| String::new())
                .map_err(|error| error.to_string()),
            ["hold-stops"] => Ok(self.starts.hold_stops(true)),
            ["release-stops"] => Ok(self.starts.hold_stops(false)),
            _ => unknown(words),
        }
    }
}
