//! A program with startup tracing.

use std::sync::mpsc::{Receiver, channel};

use ferretto::proto::{Message as _, TraceConfig};
use ferretto::{StartupTracing, StartupTracingOptions};
use ferretto_interop_driver::{PATIENCE, Role, unknown};

use crate::producer::Producer;

pub(crate) struct Startup {
    producer: Producer,
    adopted: Option<Receiver<()>>,
}

impl Startup {
    pub(crate) fn start() -> Result<Self, String> {
        Ok(Self {
            producer: Producer::register()?,
            adopted: None,
        })
    }

    fn set_up(&mut self, config: &str) -> Result<String, String> {
        let config = std::fs::read(config).map_err(|error| error.to_string())?;
        let config = TraceConfig::decode_from_slice(&config).map_err(|error| error.to_string())?;
        let (sender, receiver) = channel();
        self.adopted = Some(receiver);
        StartupTracingOptions::new(config)
            .timeout(Some(PATIENCE))
            .on_adopted(move || {
                let _ = sender.send(());
            })
            .start()
            .as_ref()
            .map(StartupTracing::sources)
            .map(|sources| sources.to_string())
            .map_err(|error| error.to_string())
    }

    fn await_adopted(&self) -> Result<String, String> {
        let adopted = self
            .adopted
            .as_ref()
            .ok_or("no startup tracing is set up")?;
        let adopted = adopted.recv_timeout(PATIENCE);
        adopted.map_err(|_| "no session adopted the recording")?;
        Ok(String::new())
    }
}

impl Role for Startup {
    fn run(&mut self, words: &[&str]) -> Result<String, String> {
        match words {
            ["setup", config] => self.set_up(config),
            ["await-adopted"] => self.await_adopted(),
            ["commit"] => self.producer.run(&["numbers", "0", "0"]),
            ["numbers", from, count] => self.producer.run(&["fill", from, count]),
            _ => unknown(words),
        }
    }
}
