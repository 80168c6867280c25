//! A program instrumented with our SDK.

use std::sync::Arc;
use std::sync::mpsc::channel;

use ferretto::proto::DataSourceConfig;
use ferretto::proto::fields::{test_event, trace_packet};
use ferretto::{Completion, DataSource, DataSourceHandle, DataSourceOptions, Instance};
use ferretto_interop_driver::{
    NOT_STARTED, PACKETS, PATIENCE, Role, Starts, letters, number, numbered, unknown,
};

struct Packets(Arc<Starts>);

impl DataSource for Packets {
    type Instance = ();
    type Thread = ();

    fn setup(&self, _config: &DataSourceConfig) {}

    fn start(&self, _instance: &Instance<Self>) {
        self.0.started();
    }

    fn stop(&self, _instance: &Instance<Self>, completion: Completion) {
        if self.0.holds_stops() {
            let starts = Arc::clone(&self.0);
            std::thread::spawn(move || {
                starts.await_release();
                completion.complete();
            });
        }
        self.0.stopped();
    }
}

pub(crate) struct Producer {
    starts: Arc<Starts>,
    packets: DataSourceHandle<Packets>,
}

impl Producer {
    pub(crate) fn start() -> Result<Self, String> {
        let options = ferretto::Options::new().wait(PATIENCE);
        options.init().map_err(|error| error.to_string())?;
        let starts = Arc::new(Starts::default());
        let packets = DataSourceOptions::new(PACKETS)
            .policy_by_config()
            .register(Packets(Arc::clone(&starts)))
            .map_err(|error| error.to_string())?;
        Ok(Self { starts, packets })
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
            Err("the events were never flushed".to_owned())
        }
    }

    /// Writes one packet for each text and waits until the service has them.
    fn write_texts(&self, texts: &[String]) -> Result<String, String> {
        let (sender, receiver) = channel();
        let mut written = false;
        self.packets.trace(|writer| {
            for text in texts {
                let mut packet = writer.new_packet();
                packet.varint(trace_packet::TIMESTAMP, 1);
                packet.nested(trace_packet::FOR_TESTING, |event| {
                    event.string(test_event::STR, text);
                });
            }
            let sender = sender.clone();
            writer.flush(Some(Box::new(move || {
                let _ = sender.send(());
            })));
            written = true;
        });
        if !written {
            return Err(NOT_STARTED.to_owned());
        }
        receiver
            .recv_timeout(PATIENCE)
            .map_err(|_| "the packets were never flushed".to_owned())?;
        Ok(String::new())
    }
}

/// Activates a trigger and waits until the service has it.
fn activate_trigger(name: &str) -> Result<String, String> {
    if ferretto::activate_triggers(&[name], PATIENCE) && ferretto::flush(PATIENCE) {
        Ok(String::new())
    } else {
        Err("the service does not take the trigger".to_owned())
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
            ["more"] => {
                crate::script::more();
                Ok(String::new())
            }
            ["slices", count] => Self::write_slices(number(count)?),
            ["packet", length] => self.write_texts(&[letters(number(length)?)]),
            ["numbers", from, count] => self.write_texts(&numbered(number(from)?, number(count)?)),
            ["text", text] => self.write_texts(&[(*text).to_owned()]),
            ["trigger", name] => activate_trigger(name),
            ["hold-stops"] => Ok(self.starts.hold_stops(true)),
            ["release-stops"] => Ok(self.starts.hold_stops(false)),
            _ => unknown(words),
        }
    }
}
