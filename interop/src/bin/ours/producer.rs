//! A program instrumented with our SDK.

use std::sync::Arc;
use std::sync::mpsc::channel;

use ferretto::proto::fields::{test_event, trace_packet};
use ferretto::{DataSource, DataSourceHandle, Instance, register_data_source};
use ferretto_interop::config::PACKETS;
use ferretto_interop::driver::{PATIENCE, Role, Starts, number, unknown};

struct Packets(Arc<Starts>);

impl DataSource for Packets {
    fn start(&mut self, _instance: &Instance) {
        self.0.started();
    }

    fn stop(&mut self, _instance: &Instance) {
        self.0.stopped();
    }
}

pub(crate) struct Producer {
    starts: Arc<Starts>,
    packets: DataSourceHandle,
}

impl Producer {
    pub(crate) fn start() -> Result<Self, String> {
        ferretto::init().map_err(|error| error.to_string())?;
        let starts = Arc::new(Starts::default());
        let packets = register_data_source(PACKETS, Packets(Arc::clone(&starts)))
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

    /// Writes one packet with `length` bytes of text and waits until the
    /// service has it.
    fn write_packet(&self, length: usize) -> Result<String, String> {
        let text: String = ('a'..='z').cycle().take(length).collect();
        let (sender, receiver) = channel();
        let mut written = false;
        self.packets.trace(|writer| {
            let mut packet = writer.new_packet();
            packet.varint(trace_packet::TIMESTAMP, 1);
            packet.nested(trace_packet::FOR_TESTING, |event| {
                event.string(test_event::STR, &text);
            });
            drop(packet);
            let sender = sender.clone();
            writer.flush(Some(Box::new(move || {
                let _ = sender.send(());
            })));
            written = true;
        });
        if !written {
            return Err("the data source is not started".to_owned());
        }
        receiver
            .recv_timeout(PATIENCE)
            .map_err(|_| "the packet was never flushed".to_owned())?;
        Ok(String::new())
    }
}

impl Role for Producer {
    fn run(&mut self, words: &[&str]) -> Result<String, String> {
        match words {
            ["await-start", starts] => self.starts.await_starts(number(starts)?),
            ["await-stop", stops] => self.starts.await_stops(number(stops)?),
            ["slices", count] => Self::write_slices(number(count)?),
            ["packet", length] => self.write_packet(number(length)?),
            _ => unknown(words),
        }
    }
}
