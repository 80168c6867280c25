//! QueryServiceState: who is connected, what they offer, which sessions there are.
//!
//! The answer may be long: each of its replies is built when it can be sent, of what there is at that moment, so that
//! waiting requests take no more than their place in a queue.

use std::collections::VecDeque;
use std::ops::Bound::{Excluded, Unbounded};

use ferretto_ipc::host::max_reply_size;
use ferretto_ipc::port::consumer::Reply;
use ferretto_proto::tracing_service_state::{self, DataSource, TracingSession};
use ferretto_proto::{
    DataSourceDescriptor, Message, QueryServiceStateResponse, TracingServiceState,
};

use crate::event::ClientId;
use crate::limits::{MAX_STATE_QUERIES, ProducerId, SessionId};
use crate::producer::Producer;
use crate::registry::{Place, Registration};
use crate::service::Service;
use crate::session::{Session, State};

/// What an element of a repeated field costs beyond its own bytes, at most; the state in its reply, too.
const ELEMENT_OVERHEAD: usize = 4;

/// Requests of one consumer, answered one after the other.
#[derive(Debug, Default)]
pub(crate) struct StateQueries(VecDeque<StateQuery>);

#[derive(Debug)]
struct StateQuery {
    request_id: u64,
    sessions_only: bool,
    next: Section,
}

/// Where the next reply goes on: behind the element named, if one is.
#[derive(Debug)]
enum Section {
    Summary,
    Producers(Option<ProducerId>),
    Sessions(Option<SessionId>),
    DataSources(Option<Place>),
}

impl Service {
    /// Answers in as many replies as it takes; joined, their encodings are one message.
    pub(crate) fn query_service_state(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        sessions_only: bool,
    ) {
        let Some(request_id) = request_id else { return };
        let Some(consumer) = self.consumers.get_mut(&client) else {
            return;
        };
        if consumer.queries.0.len() >= MAX_STATE_QUERIES {
            return self.reply_to_consumer(client, Some(request_id), None);
        }
        consumer.queries.0.push_back(StateQuery {
            request_id,
            sessions_only,
            next: Section::Summary,
        });
        self.pump_queries(client);
    }

    /// Sends replies until the consumer has to read first or all its requests are answered.
    pub(crate) fn pump_queries(&mut self, client: ClientId) {
        while let Some(consumer) = self.consumers.get_mut(&client) {
            if consumer.blocked {
                return;
            }
            let uid = consumer.peer.uid;
            let Some(mut query) = consumer.queries.0.pop_front() else {
                return;
            };
            let (state, has_more) = self.next_of_state(&mut query, uid);
            let request_id = query.request_id;
            if has_more && let Some(consumer) = self.consumers.get_mut(&client) {
                consumer.queries.0.push_front(query);
            }
            let reply = Reply::QueryServiceState(QueryServiceStateResponse {
                service_state: state.into(),
                ..Default::default()
            });
            let bytes = reply.encoded_len();
            self.stream_to_consumer(client, Some(request_id), Some(reply), has_more, bytes);
        }
    }

    /// The next part of an answer, and whether another one follows.
    fn next_of_state(&self, query: &mut StateQuery, uid: u32) -> (TracingServiceState, bool) {
        let mut part = Part::for_request(query.request_id);
        loop {
            let complete = match &mut query.next {
                Section::Summary => {
                    part = part.with(self.summary());
                    true
                }
                Section::Producers(last) => {
                    let from = last.map_or(Unbounded, Excluded);
                    let mut producers = self.producers.range((from, Unbounded));
                    producers.all(|(id, producer)| {
                        let element = producer_state(*id, producer);
                        let taken = part.take(element, |state| &mut state.producers);
                        *last = if taken { Some(*id) } else { *last };
                        taken
                    })
                }
                Section::Sessions(last) => {
                    let from = last.map_or(Unbounded, Excluded);
                    let sessions = self.sessions.range((from, Unbounded));
                    let may_see = |session: &Session| uid == 0 || uid == session.consumer_uid;
                    let mut shown = sessions.filter(|(_, s)| !s.is_retiring() && may_see(s));
                    shown.all(|(id, session)| {
                        let element = session_state(*id, session);
                        let taken = part.take(element, |state| &mut state.tracing_sessions);
                        *last = if taken { Some(*id) } else { *last };
                        taken
                    })
                }
                Section::DataSources(last) => {
                    let mut offers = self.registry.after(last.clone());
                    offers.all(|(place, offer)| {
                        let element = data_source_state(offer, &part);
                        let taken = part.take(element, |state| &mut state.data_sources);
                        if taken {
                            *last = Some(place);
                        }
                        taken
                    })
                }
            };
            if !complete {
                return (part.state, true);
            }
            query.next = match &query.next {
                Section::Summary if query.sessions_only => Section::Sessions(None),
                Section::Summary => Section::Producers(None),
                Section::Producers(_) => Section::Sessions(None),
                Section::Sessions(_) if !query.sessions_only => Section::DataSources(None),
                Section::Sessions(_) | Section::DataSources(_) => return (part.state, false),
            };
        }
    }

    fn summary(&self) -> TracingServiceState {
        let live = self.live_sessions();
        let started = live.filter(|session| session.state == State::Started);
        TracingServiceState {
            tracing_service_version: Some(self.options.version.clone().into_bytes()),
            num_sessions: Some(self.live_sessions().count() as i32),
            num_sessions_started: Some(started.count() as i32),
            supports_tracing_sessions: Some(true),
            ..Default::default()
        }
    }
}

fn producer_state(id: ProducerId, producer: &Producer) -> tracing_service_state::Producer {
    let remote = producer.is_remote();
    let machine_name = producer.peer.machine_name.clone().into_bytes();
    tracing_service_state::Producer {
        id: Some(id.into()),
        name: Some(producer.name.to_vec()),
        uid: Some(producer.peer.uid as i32),
        sdk_version: Some(producer.sdk_version.clone()),
        pid: producer.peer.pid,
        frozen: Some(false),
        machine_id: remote.then_some(producer.peer.machine_id),
        machine_name: remote.then_some(machine_name),
        ..Default::default()
    }
}

/// An offer with its whole descriptor, or, if no reply had room for that, with what cannot be large.
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

/// A part of a state, which fits the frame of a reply.
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

    /// Returns true if the element would fit if it were the only one.
    fn could_hold(&self, element: &impl Message) -> bool {
        2 * ELEMENT_OVERHEAD + element.encoded_len() as usize <= self.limit
    }

    /// Adds an element; false if it has to wait for the next part. One that no part could hold is left out.
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
