//! Our consumer endpoint.

use std::convert::Infallible;
use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::time::Instant;

use ferretto_client::{CallError, Consumer as Endpoint, ConsumerEvent};
use ferretto_format::Preamble;
use ferretto_interop_driver::{PATIENCE, Role, unknown};
use ferretto_ipc::port::consumer::{Reply, Request};
use ferretto_proto::clone_session_request::Selector;
use ferretto_proto::observable_events::{CloneTriggerHit, Type};
use ferretto_proto::{ChangeTraceConfigRequest, CloneSessionRequest, Message as _, TraceConfig};

#[derive(Default)]
pub(crate) struct Consumer {
    /// Connected by the first command.
    endpoint: Option<Endpoint>,
    all_started: bool,
    clone_trigger: Option<CloneTriggerHit>,
}

impl Consumer {
    fn endpoint(&mut self) -> Result<&mut Endpoint, String> {
        if self.endpoint.is_none() {
            let mut endpoint = Endpoint::connect_default(PATIENCE).map_err(to_text)?;
            let events = [
                Type::TYPE_ALL_DATA_SOURCES_STARTED,
                Type::TYPE_CLONE_TRIGGER_HIT,
            ];
            endpoint.observe_events(&events).map_err(to_text)?;
            self.endpoint = Some(endpoint);
        }
        Ok(self.endpoint.as_mut().expect("it was just connected"))
    }

    fn enable(&mut self, config: &str, output: Option<&str>) -> Result<String, String> {
        self.all_started = false;
        let config = read_config(config)?;
        let output = output.map(open).transpose()?;
        let endpoint = self.endpoint()?;
        endpoint.enable_tracing(config, output).map_err(to_text)?;
        // The session exists when this is answered.
        match endpoint.query_capabilities(PATIENCE) {
            Ok(_) | Err(CallError::Unsupported { .. }) => Ok(String::new()),
            Err(error) => Err(to_text(error)),
        }
    }

    fn start(&mut self, config: &str, output: Option<&str>) -> Result<String, String> {
        self.enable(config, output)?;
        self.wait_for_start()
    }

    fn start_deferred(&mut self) -> Result<String, String> {
        self.endpoint()?.start_tracing(PATIENCE).map_err(to_text)?;
        self.wait_for_start()
    }

    fn wait_for_start(&mut self) -> Result<String, String> {
        self.wait(|consumer| consumer.all_started)?;
        Ok(String::new())
    }

    fn wait_for_clone_trigger(&mut self) -> Result<String, String> {
        self.wait(|consumer| consumer.clone_trigger.is_some())?;
        let hit = self.clone_trigger.take().unwrap_or_default();
        let name = hit.trigger_name.unwrap_or_default();
        let session = hit.tracing_session_id.unwrap_or_default();
        Ok(format!("{session} {}", String::from_utf8_lossy(&name)))
    }

    fn change(&mut self, config: &str) -> Result<String, String> {
        let request = Request::ChangeTraceConfig(ChangeTraceConfigRequest {
            trace_config: read_config(config)?.into(),
            ..Default::default()
        });
        let reply = self.endpoint()?.call(request, None, PATIENCE);
        reply.map(|_| String::new()).map_err(to_text)
    }

    fn stop(&mut self) -> Result<String, String> {
        self.endpoint()?
            .disable_tracing(PATIENCE)
            .map_err(to_text)?;
        self.wait_for_end()
    }

    fn wait_for_end(&mut self) -> Result<String, String> {
        match self.endpoint()?.wait_for_end(PATIENCE) {
            Ok(Some(end)) => Ok(end.error().unwrap_or_default().to_owned()),
            Ok(None) => Err("the session does not end".to_owned()),
            Err(error) => Ok(error.to_string()),
        }
    }

    fn read(&mut self, output: &str) -> Result<String, String> {
        let mut trace = Vec::new();
        let keep = |packet: &[u8]| {
            trace.extend_from_slice(Preamble::new(packet.len()).as_bytes());
            trace.extend_from_slice(packet);
            Ok::<(), Infallible>(())
        };
        self.endpoint()?
            .read_buffers(PATIENCE, keep)
            .map_err(to_text)?;
        std::fs::write(output, &trace).map_err(to_text)?;
        Ok(trace.len().to_string())
    }

    fn clone(&mut self, session: &str, output: Option<&str>) -> Result<String, String> {
        let request = Request::CloneSession(CloneSessionRequest {
            selector: Some(match session.parse() {
                Ok(id) => Selector::SessionId(id),
                Err(_) => Selector::UniqueSessionName(session.into()),
            }),
            ..Default::default()
        });
        let output = output.map(open).transpose()?;
        let reply = self.endpoint()?.call(request, output, PATIENCE);
        let Ok(Reply::CloneSession(reply)) = reply.map_err(to_text)?.result else {
            return Err("the clone was rejected".to_owned());
        };
        if reply.success != Some(true) {
            let error = reply.error.unwrap_or_default();
            return Err(String::from_utf8_lossy(&error).into_owned());
        }
        let (lsb, msb) = (reply.uuid_lsb.unwrap_or(0), reply.uuid_msb.unwrap_or(0));
        let file = match reply.was_write_into_file {
            Some(true) => " file",
            _ => "",
        };
        Ok(format!("{lsb} {msb}{file}"))
    }

    fn sessions(&mut self) -> Result<String, String> {
        let state = self.endpoint()?.query_service_state(PATIENCE);
        let sessions = state.map_err(to_text)?.tracing_sessions;
        let sessions = sessions.iter().map(|session| {
            let id = session.id.unwrap_or(0);
            let name = text(&session.unique_session_name);
            format!("{id}:{}:{name}", text(&session.state))
        });
        Ok(sessions.collect::<Vec<_>>().join(" "))
    }

    fn sources(&mut self) -> Result<String, String> {
        let state = self.endpoint()?.query_service_state(PATIENCE);
        let sources = state.map_err(to_text)?.data_sources;
        let names = sources
            .iter()
            .map(|source| text(&source.ds_descriptor.name));
        Ok(names.collect::<Vec<_>>().join(" "))
    }

    /// Waits until a condition is true, while handling events.
    fn wait(&mut self, happened: impl Fn(&Self) -> bool) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        while !happened(self) {
            if Instant::now() > deadline {
                return Err("the condition is not met in time".to_owned());
            }
            let endpoint = self.endpoint()?;
            endpoint.wait(PATIENCE);
            endpoint.process();
            while let Some(event) = self.endpoint()?.poll_event() {
                self.note(event)?;
            }
        }
        Ok(())
    }

    fn note(&mut self, event: ConsumerEvent) -> Result<(), String> {
        let ConsumerEvent::Observed(mut events) = event else {
            return Err(format!("{event:?}"));
        };
        self.all_started |= events.all_data_sources_started == Some(true);
        if let Some(hit) = events.clone_trigger_hit.take() {
            self.clone_trigger = Some(hit);
        }
        Ok(())
    }
}

impl Role for Consumer {
    fn run(&mut self, words: &[&str]) -> Result<String, String> {
        let found = |could: bool| Ok(could.to_string());
        match words {
            ["start", config] => self.start(config, None),
            ["start", config, output] => self.start(config, Some(output)),
            ["enable", config] => self.enable(config, None),
            ["enable", config, output] => self.enable(config, Some(output)),
            ["await-started"] => self.wait_for_start(),
            ["start-deferred"] => self.start_deferred(),
            ["change", config] => self.change(config),
            ["flush"] => found(self.endpoint()?.flush(PATIENCE).is_ok()),
            ["stop"] => self.stop(),
            ["await-end"] => self.wait_for_end(),
            ["await-clone-trigger"] => self.wait_for_clone_trigger(),
            ["read", output] => self.read(output),
            ["clone", session] => self.clone(session, None),
            ["clone", session, output] => self.clone(session, Some(output)),
            ["detach", key] => found(self.endpoint()?.detach(key, PATIENCE).is_ok()),
            ["attach", key] => found(self.endpoint()?.attach(key, PATIENCE).is_ok()),
            ["sessions"] => self.sessions(),
            ["sources"] => self.sources(),
            ["end"] => {
                *self = Self::default();
                Ok(String::new())
            }
            _ => unknown(words),
        }
    }
}

fn read_config(path: &str) -> Result<TraceConfig, String> {
    let config = std::fs::read(path).map_err(to_text)?;
    TraceConfig::decode_from_slice(&config).map_err(to_text)
}

fn text(bytes: &Option<Vec<u8>>) -> String {
    String::from_utf8_lossy(bytes.as_deref().unwrap_or_default()).into_owned()
}

fn open(path: &str) -> Result<OwnedFd, String> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    options.open(path).map(File::into).map_err(to_text)
}

fn to_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
