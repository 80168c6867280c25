//! Our consumer endpoint.

use std::convert::Infallible;
use std::time::Instant;

use ferretto_client::{Consumer as Endpoint, ConsumerEvent};
use ferretto_interop::driver::{PATIENCE, Role, unknown};
use ferretto_proto::observable_events::Type;
use ferretto_proto::{Message as _, TraceConfig};

#[derive(Default)]
pub(crate) struct Consumer {
    endpoint: Option<Endpoint>,
}

impl Consumer {
    fn endpoint(&mut self) -> Result<&mut Endpoint, String> {
        self.endpoint
            .as_mut()
            .ok_or_else(|| "no session: say `start FILE` first".to_owned())
    }

    fn start_session(&mut self, config: &str) -> Result<String, String> {
        let config = std::fs::read(config).map_err(said)?;
        let config = TraceConfig::decode_from_slice(&config).map_err(said)?;
        let mut endpoint = Endpoint::connect_default(PATIENCE).map_err(said)?;
        endpoint
            .observe_events(&[Type::TYPE_ALL_DATA_SOURCES_STARTED])
            .map_err(said)?;
        endpoint.enable_tracing(config, None).map_err(said)?;
        wait_for_start(&mut endpoint)?;
        self.endpoint = Some(endpoint);
        Ok(String::new())
    }

    fn stop(&mut self) -> Result<String, String> {
        let endpoint = self.endpoint()?;
        endpoint.disable_tracing(PATIENCE).map_err(said)?;
        let end = endpoint
            .wait_for_end(PATIENCE)
            .map_err(said)?
            .ok_or("the session does not end")?;
        end.error.map_or(Ok(String::new()), Err)
    }

    fn read(&mut self, output: &str) -> Result<String, String> {
        let mut trace = Vec::new();
        let endpoint = self.endpoint()?;
        let keep = |packet: &[u8]| {
            trace.push(0x0a);
            varint(&mut trace, packet.len() as u64);
            trace.extend_from_slice(packet);
            Ok::<(), Infallible>(())
        };
        endpoint.read_buffers(PATIENCE, keep).map_err(said)?;
        std::fs::write(output, &trace).map_err(said)?;
        Ok(trace.len().to_string())
    }
}

impl Role for Consumer {
    fn run(&mut self, words: &[&str]) -> Result<String, String> {
        match words {
            ["start", config] => self.start_session(config),
            ["flush"] => Ok(self.endpoint()?.flush(PATIENCE).is_ok().to_string()),
            ["stop"] => self.stop(),
            ["read", output] => self.read(output),
            ["end"] => {
                self.endpoint = None;
                Ok(String::new())
            }
            _ => unknown(words),
        }
    }
}

fn wait_for_start(endpoint: &mut Endpoint) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        endpoint.process();
        while let Some(event) = endpoint.poll_event() {
            match event {
                ConsumerEvent::Observed(events)
                    if events.all_data_sources_started == Some(true) =>
                {
                    return Ok(());
                }
                ConsumerEvent::Observed(_) => {}
                other => return Err(format!("{other:?}")),
            }
        }
        endpoint.wait(PATIENCE);
    }
    Err("the data sources did not start".to_owned())
}

fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}
