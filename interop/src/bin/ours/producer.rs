//! A program instrumented with our SDK.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

use ferretto::proto::DataSourceConfig;
use ferretto::proto::fields::{test_event, trace_packet};
use ferretto::{
    Completion, DataSource, DataSourceHandle, DataSourceOptions, FlushFlags, Instance, Packet,
    TraceContext,
};
use ferretto_interop_driver::{
    Callback, Lifecycle, NOT_STARTED, PACKETS, PATIENCE, Role, letters, number, numbered, unknown,
};

struct Packets(Arc<Lifecycle>);

/// True if a thread's packets of a recording can depend on earlier ones.
#[derive(Default)]
struct Known(bool);

impl DataSource for Packets {
    /// The text in the config of the instance.
    type Instance = String;
    type Thread = Known;

    fn setup(&self, config: &DataSourceConfig) -> String {
        let tag = config.legacy_config.as_deref().unwrap_or_default();
        let tag = String::from_utf8_lossy(tag).into_owned();
        self.0.set_up(tag.clone());
        tag
    }

    fn start(&self, _instance: &Instance<Self>) {
        self.0.called(Callback::Start);
    }

    fn stop(&self, _instance: &Instance<Self>, completion: Completion) {
        self.answer(Callback::Stop, completion);
    }

    fn flush(&self, _instance: &Instance<Self>, _flags: FlushFlags, completion: Completion) {
        self.answer(Callback::Flush, completion);
    }
}

impl Packets {
    fn answer(&self, to: Callback, completion: Completion) {
        if self.0.called(to) {
            let life = Arc::clone(&self.0);
            std::thread::spawn(move || {
                life.await_release();
                completion.complete();
            });
        }
    }
}

pub(crate) struct Producer {
    life: Arc<Lifecycle>,
    packets: DataSourceHandle<Packets>,
}

impl Producer {
    pub(crate) fn start() -> Result<Self, String> {
        let options = ferretto::Options::new().wait(PATIENCE);
        Self::with(options)
    }

    /// Registers a producer without waiting for a service.
    pub(crate) fn register() -> Result<Self, String> {
        Self::with(ferretto::Options::new())
    }

    fn with(options: ferretto::Options) -> Result<Self, String> {
        options.init().map_err(|error| error.to_string())?;
        let life = Arc::new(Lifecycle::default());
        let packets = DataSourceOptions::new(PACKETS)
            .policy_by_config()
            .register(Packets(Arc::clone(&life)))
            .map_err(|error| error.to_string())?;
        Ok(Self { life, packets })
    }

    /// Writes `count` rounds of a slice, an instant and a counter value.
    fn write_slices(count: i64) -> Result<String, String> {
        for round in 0..count {
            let _round = ferretto::slice!("interop", "round", round = round);
            ferretto::instant!("silent", "never");
            ferretto::instant!("interop", "tick", who = "ours");
            ferretto::counter!("interop", "interop counter", round);
        }
        ferretto::instant!("interop", "last");
        if ferretto::flush(PATIENCE) {
            Ok(String::new())
        } else {
            Err("the events were not flushed in time".to_owned())
        }
    }

    /// Writes the texts for each session, one per packet, and optionally waits until the service
    /// has received them.
    fn write(
        &self,
        waits: bool,
        mut texts: impl FnMut(&mut Context<'_>) -> Vec<String>,
    ) -> Result<String, String> {
        let commit = Commit::new();
        self.packets.trace(|context| {
            for text in texts(context) {
                write_text(context.new_packet(), &text);
            }
            if waits {
                commit.request(context);
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
        let mut known = "";
        let commit = Commit::new();
        self.packets.trace(|context| {
            let (packet, state) = context.packet_and_state();
            let text = if state.0 { "known" } else { "new" };
            state.0 = true;
            write_text(packet, text);
            known = text;
            commit.request(context);
        });
        commit.wait()?;
        Ok(known.to_owned())
    }

    /// Writes the text of its config to each session.
    fn write_tags(&self) -> Result<String, String> {
        self.write(true, |context| {
            let instance = context.instance();
            instance.iter().map(|found| found.data().clone()).collect()
        })
    }
}

type Context<'a> = TraceContext<'a, Packets>;

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

    fn request(&self, context: &mut Context<'_>) {
        let sender = self.sender.clone();
        context.flush(Some(Box::new(move || {
            let _ = sender.send(());
        })));
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

fn write_text(mut packet: Packet<'_>, text: &str) {
    packet.varint(trace_packet::TIMESTAMP, 1);
    packet.nested(trace_packet::FOR_TESTING, |event| {
        event.string(test_event::STR, text);
    });
}

/// Activates a trigger and waits until the service has received it.
fn activate_trigger(name: &str) -> Result<String, String> {
    if ferretto::activate_triggers(&[name], PATIENCE) && ferretto::flush(PATIENCE) {
        Ok(String::new())
    } else {
        Err("the service did not receive the trigger".to_owned())
    }
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
            ["more"] => {
                crate::script::more();
                Ok(String::new())
            }
            ["slices", count] => Self::write_slices(number(count)?),
            ["packet", length] => self.write_texts(&[letters(number(length)?)]),
            ["numbers", from, count] => self.write_texts(&numbered(number(from)?, number(count)?)),
            ["text", text] => self.write_texts(&[(*text).to_owned()]),
            ["trigger", name] => activate_trigger(name),
            _ => unknown(words),
        }
    }
}
