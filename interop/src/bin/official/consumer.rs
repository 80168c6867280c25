//! A tracing session of the official SDK with the system service.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use ferretto_interop_driver::{Role, unknown};
use perfetto_sdk::producer::{Backends, Producer, ProducerInitArgsBuilder};
use perfetto_sdk::tracing_session::TracingSession;

#[derive(Default)]
pub(crate) struct Consumer {
    session: Option<TracingSession>,
}

impl Consumer {
    pub(crate) fn start() -> Self {
        // Sessions need the muxer, which only a producer starts.
        Producer::init(
            ProducerInitArgsBuilder::new()
                .backends(Backends::SYSTEM)
                .build(),
        );
        Self::default()
    }

    fn session(&mut self) -> Result<&mut TracingSession, String> {
        self.session
            .as_mut()
            .ok_or_else(|| "no session: run `start FILE` first".to_owned())
    }

    fn start_session(&mut self, config: &str) -> Result<String, String> {
        let config = std::fs::read(config).map_err(|error| error.to_string())?;
        let mut session = TracingSession::system().map_err(|error| error.to_string())?;
        session.setup(&config);
        session.start_blocking();
        self.session = Some(session);
        Ok(String::new())
    }

    fn flush(&mut self) -> Result<String, String> {
        let (sender, receiver) = mpsc::channel();
        self.session()?
            .flush_async(Duration::from_secs(20), move |success| {
                let _ = sender.send(success);
            });
        let success = receiver
            .recv_timeout(Duration::from_secs(30))
            .map_err(|_| "no answer to the flush".to_owned())?;
        Ok(success.to_string())
    }

    fn read(&mut self, output: &str) -> Result<String, String> {
        let trace = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&trace);
        self.session()?.read_trace_blocking(move |data, _has_more| {
            if let Ok(mut sink) = sink.lock() {
                sink.extend_from_slice(data);
            }
        });
        let trace = trace.lock().map_err(|error| error.to_string())?;
        std::fs::write(output, &*trace).map_err(|error| error.to_string())?;
        Ok(trace.len().to_string())
    }
}

impl Role for Consumer {
    fn run(&mut self, words: &[&str]) -> Result<String, String> {
        match words {
            ["start", config] => self.start_session(config),
            ["flush"] => self.flush(),
            ["stop"] => {
                self.session()?.stop_blocking();
                Ok(String::new())
            }
            ["read", output] => self.read(output),
            ["end"] => {
                self.session = None;
                Ok(String::new())
            }
            _ => unknown(words),
        }
    }
}
