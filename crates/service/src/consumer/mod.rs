//! One consumer: its requests, its session, and the replies it still waits for.

mod changes;
mod observe;

use std::collections::VecDeque;

use ferretto_ipc::PassedFd;
use ferretto_ipc::port::consumer::{Reply, Request};
use ferretto_proto::enable_tracing_response::State;
use ferretto_proto::{
    AttachResponse, EnableTracingResponse, GetTraceStatsResponse, QueryCapabilitiesResponse,
    SaveTraceForBugreportResponse, TraceConfig, TracingServiceCapabilities, observable_events,
};

use crate::command::Command;
use crate::event::{ClientId, FileId, Peer};
use crate::limits::{MAX_DEFERRED_REQUESTS, READ_WINDOW, SessionId};
use crate::priority::Priority;
use crate::service::Service;
use crate::service::{Destination, StateQueries};
use crate::session::ReadStream;
use observe::Observer;

/// A connection to the consumer socket. It has at most one session at a time.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) peer: Peer,
    pub(crate) session: Option<SessionId>,
    /// The EnableTracing request to be answered when the session ends.
    pub(crate) end_request: Option<u64>,
    /// The ReadBuffers request being answered.
    pub(crate) reading: Option<ReadStream>,
    pub(crate) observer: Option<Observer>,
    /// QueryServiceState requests that are not answered whole yet.
    pub(crate) queries: StateQueries,
    /// Bytes sent since the driver last said that the consumer reads.
    unread: usize,
    /// That is too much: nothing long is sent before it reads.
    pub(crate) blocked: bool,
    /// An EnableTracing the driver is preparing something for; later requests wait.
    pub(crate) opening: Option<Box<Opening>>,
    deferred: VecDeque<(Option<u64>, Request, Option<PassedFd>)>,
}

/// EnableTracing, interrupted until the driver has done its part.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) request_id: Option<u64>,
    pub(crate) config: TraceConfig,
    /// What the session will want the service to run at.
    pub(crate) priority: Option<Priority>,
    pub(crate) waits_for: WaitsFor,
}

/// What an EnableTracing is interrupted for.
#[derive(Debug)]
pub(crate) enum WaitsFor {
    /// The service gets the priority; then it goes on with this destination.
    Priority(Destination),
    /// The output file exists.
    File(FileId),
}

impl Consumer {
    /// Returns how many requests wait for the driver.
    pub(crate) fn deferred(&self) -> usize {
        self.deferred.len()
    }

    pub(crate) fn new(peer: Peer) -> Self {
        Self {
            peer,
            session: None,
            end_request: None,
            reading: None,
            observer: None,
            queries: StateQueries::default(),
            unread: 0,
            blocked: false,
            opening: None,
            deferred: VecDeque::new(),
        }
    }

    /// It has no session any more.
    pub(crate) fn leave_session(&mut self) {
        self.session = None;
        if let Some(observer) = &mut self.observer {
            observer.leave_session();
        }
    }
}

impl Service {
    pub(crate) fn consumer_request(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        request: Request,
        fd: Option<PassedFd>,
    ) {
        let Some(consumer) = self.consumers.get_mut(&client) else {
            return;
        };
        if consumer.opening.is_some() {
            if consumer.deferred.len() < MAX_DEFERRED_REQUESTS {
                consumer.deferred.push_back((request_id, request, fd));
            } else {
                self.reply_to_consumer(client, request_id, None);
            }
            return;
        }
        let session = consumer.session;
        let reply = match request {
            Request::EnableTracing(request) => {
                return self.enable_tracing(client, request_id, request, fd);
            }
            Request::DisableTracing(_) => {
                if let Some(session) = session {
                    self.disable_tracing(session, false);
                }
                Some(Reply::DisableTracing(Default::default()))
            }
            Request::ReadBuffers(_) => return self.read_buffers(client, request_id),
            Request::FreeBuffers(_) => {
                // The reply comes before the one that says that the session ended.
                let reply = Reply::FreeBuffers(Default::default());
                self.reply_to_consumer(client, request_id, Some(reply));
                if let Some(session) = session {
                    self.free_session(session, None);
                }
                return;
            }
            Request::Flush(request) => return self.flush_requested(client, request_id, &request),
            Request::StartTracing(_) => {
                if let Some(session) = session {
                    self.start_tracing(session);
                }
                Some(Reply::StartTracing(Default::default()))
            }
            Request::ChangeTraceConfig(request) => {
                if let Some(session) = session {
                    self.change_trace_config(session, &request.trace_config);
                }
                Some(Reply::ChangeTraceConfig(Default::default()))
            }
            Request::Detach(request) => self
                .detach(client, request.key.unwrap_or_default())
                .then(|| Reply::Detach(Default::default())),
            Request::Attach(request) => self
                .attach(client, &request.key.unwrap_or_default())
                .map(|config| Reply::Attach(attach_response(config))),
            Request::GetTraceStats(_) => session
                .and_then(|session| self.trace_stats_reply(session))
                .map(|stats| Reply::GetTraceStats(stats_response(stats))),
            Request::ObserveEvents(request) => {
                return self.observe_events(client, request_id, &request.events_to_observe);
            }
            Request::QueryServiceState(request) => {
                let sessions_only = request.sessions_only.unwrap_or(false);
                return self.query_service_state(client, request_id, sessions_only);
            }
            Request::QueryCapabilities(_) => Some(Reply::QueryCapabilities(capabilities())),
            Request::SaveTraceForBugreport(_) => {
                Some(Reply::SaveTraceForBugreport(bugreport_refusal()))
            }
            Request::CloneSession(request) => {
                return self.clone_session(client, request_id, request, fd);
            }
        };
        self.reply_to_consumer(client, request_id, reply);
    }

    /// Answers a request with its only, or last, reply.
    pub(crate) fn reply_to_consumer(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        reply: Option<Reply>,
    ) {
        let bytes = reply.as_ref().map_or(0, Reply::encoded_len);
        self.stream_to_consumer(client, request_id, reply, false, bytes);
    }

    /// Sends one of the replies to a request. `bytes` is its size, roughly.
    pub(crate) fn stream_to_consumer(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        reply: Option<Reply>,
        has_more: bool,
        bytes: usize,
    ) {
        let Some(request_id) = request_id else { return };
        let mut wants_drained = false;
        if let Some(consumer) = self.consumers.get_mut(&client) {
            consumer.unread += bytes;
            wants_drained = consumer.unread >= READ_WINDOW && !consumer.blocked;
            consumer.blocked |= wants_drained;
        }
        let command = Command::ConsumerReply {
            client,
            request_id,
            reply,
            has_more,
            wants_drained,
        };
        self.commands.push_back(command);
    }

    /// The consumer has read what it was sent, or almost.
    pub(crate) fn consumer_drained(&mut self, client: ClientId) {
        let Some(consumer) = self.consumers.get_mut(&client) else {
            return;
        };
        consumer.unread = 0;
        consumer.blocked = false;
        self.observed = true;
        self.pump_stream(client);
        self.pump_queries(client);
    }

    /// Answers EnableTracing: the session is over, or never was.
    pub(crate) fn reply_session_ended(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        error: Option<String>,
    ) {
        // How its data sources ended comes before the end, as from upstream.
        self.deliver_observed();
        let reply = EnableTracingResponse {
            state: Some(State::Disabled(true)),
            error: error.map(String::into_bytes),
            ..Default::default()
        };
        self.reply_to_consumer(client, request_id, Some(Reply::EnableTracing(reply)));
    }

    /// Works off what waited for EnableTracing.
    pub(crate) fn resume_deferred(&mut self, client: ClientId) {
        while let Some(consumer) = self.consumers.get_mut(&client) {
            if consumer.opening.is_some() {
                return;
            }
            let Some((request_id, request, fd)) = consumer.deferred.pop_front() else {
                return;
            };
            self.consumer_request(client, request_id, request, fd);
        }
    }

    /// The consumer is gone, and with it the session it was attached to.
    pub(crate) fn consumer_disconnected(&mut self, client: ClientId) {
        let Some(consumer) = self.consumers.remove(&client) else {
            return;
        };
        self.forget_clones_of(client);
        self.settle_priority();
        if let Some(session) = consumer.session {
            self.free_session(session, None);
        }
    }
}

fn attach_response(config: TraceConfig) -> AttachResponse {
    AttachResponse {
        trace_config: config.into(),
        ..Default::default()
    }
}

fn stats_response(stats: ferretto_proto::TraceStats) -> GetTraceStatsResponse {
    GetTraceStatsResponse {
        trace_stats: stats.into(),
        ..Default::default()
    }
}

fn capabilities() -> QueryCapabilitiesResponse {
    use observable_events::Type;
    let capabilities = TracingServiceCapabilities {
        has_query_capabilities: Some(true),
        // Consumers probe this before they subscribe.
        observable_events: vec![
            Type::TYPE_DATA_SOURCES_INSTANCES,
            Type::TYPE_ALL_DATA_SOURCES_STARTED,
            Type::TYPE_CLONE_TRIGGER_HIT,
        ],
        has_trace_config_output_path: Some(true),
        has_clone_session: Some(true),
        ..Default::default()
    };
    QueryCapabilitiesResponse {
        capabilities: capabilities.into(),
        ..Default::default()
    }
}

fn bugreport_refusal() -> SaveTraceForBugreportResponse {
    SaveTraceForBugreportResponse {
        success: Some(false),
        msg: Some(
            b"SaveTraceForBugreport is deprecated. Use CloneSession(kBugreportSessionId) instead."
                .to_vec(),
        ),
        ..Default::default()
    }
}
