//! A program instrumented with the official SDK: track events and a custom data source, with the
//! system service.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};

use ferretto_interop_driver::{
    Callback, Lifecycle, NOT_STARTED, PACKETS, PATIENCE, Role, letters, number, numbered, unknown,
};
use perfetto_sdk::data_source::{
    DataSource, DataSourceArgs, DataSourceArgsBuilder, DataSourceBufferExhaustedPolicy,
    TraceContext,
};
use perfetto_sdk::pb_decoder::{PbDecoder, PbDecoderField};
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
            ( "interop", "Events of the scenarios", [ "tag" ] ),
            ( "silent", "Events that the scenarios do not record", [] ),
        }
    }
}
use categories::interop as perfetto_te_ns;

/// `DataSourceConfig.legacy_config`.
const LEGACY_CONFIG: u32 = 1000;

/// The text in the config of each instance, by its index.
type Tags = Arc<Mutex<HashMap<u32, String>>>;

/// Returns the arguments of the data source. The config sets the buffer policy.
fn arguments(life: &Arc<Lifecycle>, tags: &Tags) -> DataSourceArgs {
    let tags = Arc::clone(tags);
    let [on_setup, on_start, on_stop, on_flush] = [(); 4].map(|()| Arc::clone(life));
    DataSourceArgsBuilder::new()
        .buffer_exhausted_policy(DataSourceBufferExhaustedPolicy::Drop)
        .buffer_exhausted_policy_configurable(true)
        .handles_incremental_state_clear(true)
        .will_notify_on_stop(true)
        .on_setup(move |instance, config, _| {
            let tag = tag(config);
            if let Ok(mut tags) = tags.lock() {
                tags.insert(instance, tag.clone());
            }
            on_setup.set_up(tag);
        })
        .on_start(move |_instance, _| {
            on_start.called(Callback::Start);
        })
        .on_stop(move |_instance, stop| {
            // Recorded before the answer, so that scenarios can check that it is pending.
            if on_stop.called(Callback::Stop) {
                let guard = stop.postpone();
                later(&on_stop, move || drop(guard));
            }
        })
        .on_flush(move |_instance, flush| {
            if on_flush.called(Callback::Flush) {
                let guard = flush.postpone();
                later(&on_flush, move || drop(guard));
            }
        })
        .build()
}

/// Answers after the release of held answers.
fn later(life: &Arc<Lifecycle>, answer: impl FnOnce() + Send + 'static) {
    let life = Arc::clone(life);
    std::thread::spawn(move || {
        life.await_release();
        answer();
    });
}

/// Returns the text in a config for data sources without their own message.
fn tag(config: &[u8]) -> String {
    let fields = PbDecoder::new(config).filter_map(Result::ok);
    let mut texts = fields.filter_map(|(number, field)| match field {
        PbDecoderField::Delimited(text) if number == LEGACY_CONFIG => Some(text),
        _ => None,
    });
    texts.next().map_or(String::new(), |text| {
        String::from_utf8_lossy(text).into_owned()
    })
}

pub(crate) struct Producer {
    life: Arc<Lifecycle>,
    tags: Tags,
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
        let life = Arc::new(Lifecycle::default());
        let tags = Arc::new(Mutex::default());
        let mut source = DataSource::new();
        source
            .register(PACKETS, arguments(&life, &tags))
            .map_err(|error| error.to_string())?;
        let counter = TrackEventTrack::register_counter_track(
            "interop counter",
            TrackEventTrack::process_track_uuid(),
        )
        .map_err(|error| error.to_string())?;
        Ok(Self {
            life,
            tags,
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

    /// Writes the texts for each session, one per packet, and optionally waits until the service
    /// has received them.
    fn write(
        &self,
        waits: bool,
        mut texts: impl FnMut(u32) -> Vec<String>,
    ) -> Result<String, String> {
        let commit = Commit::new();
        self.source.trace(|ctx: &mut TraceContext| {
            for text in texts(ctx.instance_index()) {
                write_text(ctx, &text);
            }
            if waits {
                commit.request(ctx);
            }
        });
        if waits {
            commit.wait()
        } else {
            Ok(String::new())
        }
    }

    /// Writes one packet for each text and waits until the service has received them.
    fn write_texts(&self, texts: &[String]) -> Result<String, String> {
        self.write(true, |_| texts.to_vec())
    }

    /// Writes `known` or `new`, depending on the validity of earlier data.
    fn write_known(&self) -> Result<String, String> {
        let known = Mutex::new("");
        let commit = Commit::new();
        self.source.trace(|ctx: &mut TraceContext| {
            ctx.with_incremental_state(|ctx, state| {
                let text = if state.was_cleared { "new" } else { "known" };
                state.was_cleared = false;
                write_text(ctx, text);
                *known.lock().expect("the lock is not poisoned") = text;
            });
            commit.request(ctx);
        });
        commit.wait()?;
        let known = known.into_inner().map_err(|error| error.to_string())?;
        Ok(known.to_owned())
    }

    /// Writes the text of its config to each session.
    fn write_tags(&self) -> Result<String, String> {
        let tags = self.tags.lock().map_err(|error| error.to_string())?.clone();
        self.write(true, |instance| {
            tags.get(&instance).cloned().into_iter().collect()
        })
    }
}

/// Waits until the service has received the written packets of every session.
struct Commit {
    sender: Sender<()>,
    receiver: Receiver<()>,
}

impl Commit {
    fn new() -> Self {
        let (sender, receiver) = channel();
        Self { sender, receiver }
    }

    fn request(&self, ctx: &mut TraceContext) {
        let sender = self.sender.clone();
        ctx.flush(move || {
            let _ = sender.send(());
        });
    }

    fn wait(self) -> Result<String, String> {
        drop(self.sender);
        let mut answers = 0;
        loop {
            match self.receiver.recv_timeout(PATIENCE) {
                Ok(()) => answers += 1,
                Err(RecvTimeoutError::Timeout) => {
                    return Err("the packets were not flushed in time".to_owned());
                }
                Err(RecvTimeoutError::Disconnected) if answers > 0 => return Ok(String::new()),
                Err(RecvTimeoutError::Disconnected) => return Err(NOT_STARTED.to_owned()),
            }
        }
    }
}

fn write_text(ctx: &mut TraceContext, text: &str) {
    ctx.add_packet(|packet: &mut TracePacket| {
        packet
            .set_timestamp(1)
            .set_for_testing(|event: &mut TestEvent| {
                event.set_str(text);
            });
    });
}

impl Role for Producer {
    fn run(&mut self, words: &[&str]) -> Result<String, String> {
        match words {
            ["await-start", count] => self.life.await_callback(Callback::Start, number(count)?),
            ["await-stop", count] => self.life.await_callback(Callback::Stop, number(count)?),
            ["await-flush", count] => self.life.await_callback(Callback::Flush, number(count)?),
            ["hold-stops"] => Ok(self.life.hold(Callback::Stop)),
            ["hold-flushes"] => Ok(self.life.hold(Callback::Flush)),
            ["release"] => Ok(self.life.release()),
            ["tags"] => Ok(self.life.tags()),
            ["tag"] => self.write_tags(),
            ["known"] => self.write_known(),
            ["fill", from, count] => {
                let texts = numbered(number(from)?, number(count)?);
                self.write(false, |_| texts.clone())
            }
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
            _ => unknown(words),
        }
    }
}
