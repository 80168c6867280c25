//! QueryServiceState: the clients, their data sources, and the sessions.
//!
//! The answer may be long. Each of its replies is built from the current state when it can be sent,
//! so that a waiting request only needs its position in a queue.

use ferretto_ipc::host::max_reply_size;
use ferretto_ipc::port::state;
use ferretto_proto::tracing_service_state::{self, DataSource, TracingSession};
use ferretto_proto::{DataSourceDescriptor, Message, TracingServiceState};

use super::Service;
use crate::consumer::{Consumer, StateQuery, StateSection};
use crate::event::ClientId;
use crate::ids::ProducerId;
use crate::pool::BufferPool;
use crate::producer::Producer;
use crate::registry::Registration;
use crate::session::{Session, SessionState};

/// The largest overhead of an element of a repeated field, including that of the state in its
/// reply.
const ELEMENT_OVERHEAD: usize = 4;

impl Service {
    /// Sends parts of the state until the consumer has to read first, or all its requests are
    /// answered.
    pub(super) fn pump_queries(&mut self, client: ClientId) {
        let next = |service: &mut Self| service.cx.consumers.existing(client)?.next_query();
        while let Some(mut query) = next(self) {
            let uid = self.cx.consumers.get(client).map_or(0, Consumer::uid);
            let (state, has_more) = self.next_of_state(&mut query, uid);
            if let Some(consumer) = self.cx.consumers.existing(client) {
                consumer.send_state(&mut self.cx.commands, query, state, has_more);
            }
        }
    }

    /// Returns the next part of an answer, and true if another one follows.
    fn next_of_state(&self, query: &mut StateQuery, uid: u32) -> (TracingServiceState, bool) {
        let mut part = Part::for_request(query.request_id);
        loop {
            let complete = match &mut query.next {
                StateSection::Summary => {
                    part = part.with(self.summary());
                    true
                }
                StateSection::Producers(last) => {
                    let mut producers = self.cx.producers.after(*last);
                    producers.all(|(id, producer)| {
                        let element = producer_state(id, producer);
                        let taken = part.take(element, |state| &mut state.producers);
                        *last = if taken { Some(id) } else { *last };
                        taken
                    })
                }
                StateSection::Sessions(last) => {
                    let sessions = self.sessions.after(*last);
                    let may_see = |session: &Session| uid == 0 || uid == session.uid();
                    let mut shown = sessions.filter(|s| !s.is_retiring() && may_see(s));
                    shown.all(|session| {
                        let element = session_state(session, &self.cx.buffers);
                        let taken = part.take(element, |state| &mut state.tracing_sessions);
                        *last = if taken { Some(session.id()) } else { *last };
                        taken
                    })
                }
                StateSection::DataSources(last) => {
                    let mut offers = self.cx.registry.after(last.clone());
                    offers.all(|(position, offer)| {
                        let element = data_source_state(offer, &part);
                        let taken = part.take(element, |state| &mut state.data_sources);
                        if taken {
                            *last = Some(position);
                        }
                        taken
                    })
                }
            };
            if !complete {
                return (part.state, true);
            }
            query.next = match &query.next {
                StateSection::Summary if query.sessions_only => StateSection::Sessions(None),
                StateSection::Summary => StateSection::Producers(None),
                StateSection::Producers(_) => StateSection::Sessions(None),
                StateSection::Sessions(_) if !query.sessions_only => {
                    StateSection::DataSources(None)
                }
                StateSection::Sessions(_) | StateSection::DataSources(_) => {
                    return (part.state, false);
                }
            };
        }
    }

    fn summary(&self) -> TracingServiceState {
        let live = self.sessions.live();
        let started = live.filter(|session| session.state() == SessionState::Started);
        let mut summary = TracingServiceState {
            tracing_service_version: Some(self.cx.options.version.clone().into_bytes()),
            num_sessions: Some(self.sessions.live().count() as i32),
            num_sessions_started: Some(started.count() as i32),
            supports_tracing_sessions: Some(true),
            ..Default::default()
        };
        if self.cx.relays.len() > 0 {
            state::add_machines(&mut summary, self.cx.relays.offsets());
        }
        summary
    }
}

fn producer_state(id: ProducerId, producer: &Producer) -> tracing_service_state::Producer {
    let remote = producer.is_remote();
    // A producer that does not identify itself has an address in place of a machine.
    let machine_name = producer.peer().machine_name.clone().into_bytes();
    let is_named = remote || !machine_name.is_empty();
    tracing_service_state::Producer {
        id: Some(id.into()),
        name: Some(producer.name().to_vec()),
        uid: Some(producer.peer().uid as i32),
        sdk_version: Some(producer.sdk_version().to_vec()),
        pid: producer.peer().pid,
        frozen: Some(false),
        machine_id: remote.then_some(producer.peer().machine_id),
        machine_name: is_named.then_some(machine_name),
        ..Default::default()
    }
}

/// Returns a registration with its whole descriptor, or, if no reply could hold that, with the
/// fields of limited size.
fn data_source_state(offer: &Registration, part: &Part) -> DataSource {
    let whole = DataSource {
        ds_descriptor: offer.descriptor.clone().into(),
        producer_id: Some(offer.producer.into()),
        ..Default::default()
    };
    if part.could_hold(&whole) {
        return whole;
    }
    let brief = DataSourceDescriptor {
        name: offer.descriptor.name.clone(),
        id: offer.descriptor.id,
        ..Default::default()
    };
    DataSource {
        ds_descriptor: brief.into(),
        ..whole
    }
}

fn session_state(session: &Session, buffers: &BufferPool) -> TracingSession {
    let config = session.config();
    let name = match session.state() {
        SessionState::Configured => "CONFIGURED",
        SessionState::Started => "STARTED",
        SessionState::Stopping => "STOP_WAIT",
        SessionState::Disabled => "DISABLED",
        SessionState::Cloned => "CLONED_READ_ONLY",
    };
    let mut shown = TracingSession {
        id: Some(session.id().get()),
        consumer_uid: Some(session.uid() as i32),
        state: Some(name.into()),
        unique_session_name: Some(session.name().to_vec()),
        buffer_size_kb: config
            .buffers
            .iter()
            .map(|b| b.size_kb.unwrap_or(0))
            .collect(),
        duration_ms: Some(config.duration_ms.unwrap_or(0)),
        num_data_sources: Some(session.instance_count() as u32),
        start_realtime_ns: session.started_realtime().map(|ns| ns as i64),
        bugreport_score: config.bugreport_score,
        bugreport_filename: config.bugreport_filename.clone(),
        is_started: (session.state() == SessionState::Started).then_some(true),
        ..Default::default()
    };
    state::add_buffers(&mut shown, &session.buffer_use(buffers));
    shown
}

/// A part of the state that fits the frame of a reply.
struct Part {
    state: TracingServiceState,
    bytes: usize,
    limit: usize,
}

impl Part {
    fn for_request(request_id: u64) -> Self {
        Self {
            state: TracingServiceState::default(),
            bytes: ELEMENT_OVERHEAD,
            limit: max_reply_size(request_id),
        }
    }

    fn with(mut self, summary: TracingServiceState) -> Self {
        self.bytes += summary.encoded_len() as usize;
        self.state = summary;
        self
    }

    /// Returns true if the element would fit on its own.
    fn could_hold(&self, element: &impl Message) -> bool {
        2 * ELEMENT_OVERHEAD + element.encoded_len() as usize <= self.limit
    }

    /// Adds an element. Returns false if it has to wait for the next part. An element that no part
    /// could hold is left out.
    fn take<M: Message>(
        &mut self,
        element: M,
        list: impl FnOnce(&mut TracingServiceState) -> &mut Vec<M>,
    ) -> bool {
        if !self.could_hold(&element) {
            return true;
        }
        let bytes = self.bytes + ELEMENT_OVERHEAD + element.encoded_len() as usize;
        if bytes > self.limit {
            return false;
        }
        self.bytes = bytes;
        list(&mut self.state).push(element);
        true
    }
}
