//! QueryServiceState: who is connected, what they offer, which sessions there are.

use ferretto_ipc::port::consumer::Reply;
use ferretto_proto::tracing_service_state::{DataSource, Producer, TracingSession};
use ferretto_proto::{
    DataSourceDescriptor, Message, QueryServiceStateResponse, TracingServiceState,
};

use super::{Session, State};
use crate::event::ClientId;
use crate::limits::{REPLY_BYTES, SessionId};
use crate::service::Service;

/// What an element of a repeated field costs beyond its own bytes, rounded up.
const ELEMENT_OVERHEAD: usize = 8;

impl Service {
    /// Answers in as many replies as it takes; joined, their encodings are one message.
    pub(crate) fn query_service_state(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        sessions_only: bool,
    ) {
        let uid = self
            .consumers
            .get(&client)
            .map_or(0, |consumer| consumer.peer.uid);
        let live = self.live_sessions();
        let started = live
            .filter(|session| session.state == State::Started)
            .count();
        let mut parts = Parts::new(TracingServiceState {
            tracing_service_version: Some(self.options.version.clone().into_bytes()),
            num_sessions: Some(self.live_sessions().count() as i32),
            num_sessions_started: Some(started as i32),
            supports_tracing_sessions: Some(true),
            ..Default::default()
        });
        if !sessions_only {
            for producer in self.producers_state() {
                if let Some(part) = parts.room_for(&producer) {
                    part.producers.push(producer);
                }
            }
        }
        for (id, session) in &self.sessions {
            if !session.is_retiring() && (uid == 0 || uid == session.consumer_uid) {
                let state = session_state(*id, session);
                if let Some(part) = parts.room_for(&state) {
                    part.tracing_sessions.push(state);
                }
            }
        }
        if !sessions_only {
            for offer in self.registry.iter() {
                let mut state = DataSource {
                    ds_descriptor: offer.descriptor.clone().into(),
                    producer_id: Some(offer.producer.into()),
                    ..Default::default()
                };
                if !fits(&state) {
                    state.ds_descriptor = brief(&offer.descriptor).into();
                }
                if let Some(part) = parts.room_for(&state) {
                    part.data_sources.push(state);
                }
            }
        }
        let replies = parts.finish().into_iter().map(|state| {
            let reply = QueryServiceStateResponse {
                service_state: state.into(),
                ..Default::default()
            };
            Reply::QueryServiceState(reply)
        });
        self.answer_in_parts(client, request_id, replies.collect());
    }

    fn producers_state(&self) -> impl Iterator<Item = Producer> {
        self.producers.iter().map(|(id, producer)| {
            let remote = producer.is_remote();
            let machine_name = producer.peer.machine_name.clone().into_bytes();
            Producer {
                id: Some((*id).into()),
                name: Some(producer.name.to_vec()),
                uid: Some(producer.peer.uid as i32),
                sdk_version: Some(producer.sdk_version.clone()),
                pid: producer.peer.pid,
                frozen: Some(false),
                machine_id: remote.then_some(producer.peer.machine_id),
                machine_name: remote.then_some(machine_name),
                ..Default::default()
            }
        })
    }
}

fn session_state(id: SessionId, session: &Session) -> TracingSession {
    let config = &session.config;
    let name = match session.state {
        State::Configured => "CONFIGURED",
        State::Started => "STARTED",
        State::Stopping => "STOP_WAIT",
        State::Disabled => "DISABLED",
        State::Cloned => "CLONED_READ_ONLY",
    };
    TracingSession {
        id: Some(id.get()),
        consumer_uid: Some(session.consumer_uid as i32),
        state: Some(name.into()),
        unique_session_name: Some(session.name().to_vec()),
        buffer_size_kb: config
            .buffers
            .iter()
            .map(|b| b.size_kb.unwrap_or(0))
            .collect(),
        duration_ms: Some(config.duration_ms.unwrap_or(0)),
        num_data_sources: Some(session.instances.len() as u32),
        start_realtime_ns: session.started_realtime.map(|ns| ns as i64),
        bugreport_score: config.bugreport_score,
        bugreport_filename: config.bugreport_filename.clone(),
        is_started: (session.state == State::Started).then_some(true),
        ..Default::default()
    }
}

/// Whether the element fits a reply at all.
fn fits(element: &impl Message) -> bool {
    element.encoded_len() as usize + ELEMENT_OVERHEAD <= REPLY_BYTES
}

/// The descriptor without what can be large.
fn brief(descriptor: &DataSourceDescriptor) -> DataSourceDescriptor {
    DataSourceDescriptor {
        name: descriptor.name.clone(),
        id: descriptor.id,
        ..Default::default()
    }
}

/// A state cut into messages that each fit a frame.
struct Parts {
    done: Vec<TracingServiceState>,
    current: TracingServiceState,
    bytes: usize,
}

impl Parts {
    fn new(current: TracingServiceState) -> Self {
        let bytes = current.encoded_len() as usize;
        Self {
            done: Vec::new(),
            current,
            bytes,
        }
    }

    /// The part the element goes into; `None` if it is too large for any.
    fn room_for(&mut self, element: &impl Message) -> Option<&mut TracingServiceState> {
        if !fits(element) {
            return None;
        }
        let cost = element.encoded_len() as usize + ELEMENT_OVERHEAD;
        if self.bytes + cost > REPLY_BYTES {
            self.done.push(std::mem::take(&mut self.current));
            self.bytes = 0;
        }
        self.bytes += cost;
        Some(&mut self.current)
    }

    fn finish(mut self) -> Vec<TracingServiceState> {
        self.done.push(self.current);
        self.done
    }
}
