//! Handles events of consumers.

use ferretto_ipc::port::consumer::{Reply, Request};
use ferretto_proto::{
    AttachResponse, GetTraceStatsResponse, QueryCapabilitiesResponse,
    SaveTraceForBugreportResponse, TraceConfig, TracingServiceCapabilities, observable_events,
};

use super::Service;
use crate::consumer::{DeferredRequest, ReplySink};
use crate::context::Context;
use crate::event::ClientId;
use crate::ids::SessionId;
use crate::limits::READ_BATCH;
use crate::session::Session;

impl Service {
    pub(super) fn consumer_request(&mut self, client: ClientId, request: DeferredRequest) {
        let cx = &mut self.cx;
        // A client without a connection event is not a consumer.
        let Some(consumer) = cx.consumers.if_connected(client) else {
            return;
        };
        let session = consumer.session();
        let Some((request_id, request, fd)) = consumer.admit(&mut cx.commands, request) else {
            return;
        };
        let reply = match request {
            Request::EnableTracing(request) => {
                return self.enable_tracing(client, request_id, request, fd);
            }
            Request::DisableTracing(_) => {
                self.own_session(session, |session, cx| session.disable(cx, false));
                Some(Reply::DisableTracing(Default::default()))
            }
            Request::ReadBuffers(_) => return self.read_buffers(client, request_id),
            Request::FreeBuffers(_) => {
                // The reply to FreeBuffers precedes the one that reports the session's end.
                let reply = Reply::FreeBuffers(Default::default());
                cx.reply(client, request_id, Some(reply));
                self.own_session(session, |session, cx| session.free(cx, None));
                return;
            }
            Request::Flush(request) => {
                let flush = |session: &mut Session, cx: &mut Context| {
                    session.flush_for(cx, client, request_id, &request);
                };
                return match self.own_session(session, flush) {
                    Some(()) => {}
                    None => self.cx.reply(client, request_id, None),
                };
            }
            Request::StartTracing(_) => {
                self.own_session(session, Session::start);
                Some(Reply::StartTracing(Default::default()))
            }
            Request::ChangeTraceConfig(request) => {
                let uid = consumer.uid();
                let others = self.sessions.expressions_of_user(uid, session);
                self.own_session(session, |session, cx| {
                    session.change(cx, &request.trace_config, others);
                });
                Some(Reply::ChangeTraceConfig(Default::default()))
            }
            Request::Detach(request) => self
                .detach(client, request.key.unwrap_or_default())
                .map(|()| Reply::Detach(Default::default())),
            Request::Attach(request) => self
                .attach(client, &request.key.unwrap_or_default())
                .map(|config| Reply::Attach(attach_response(config))),
            Request::GetTraceStats(_) => self
                .own_session(session, |session, cx| session.stats_for_reply(cx))
                .map(|stats| Reply::GetTraceStats(stats_response(stats))),
            Request::ObserveEvents(request) => {
                let types = &request.events_to_observe;
                if consumer.observe(&mut cx.commands, request_id, types) {
                    self.own_session(session, Session::report_current_state);
                }
                return;
            }
            Request::QueryServiceState(request) => {
                // Without a reply there is no answer to build.
                if let Some(request_id) = request_id {
                    let sessions_only = request.sessions_only.unwrap_or(false);
                    consumer.ask_for_state(&mut cx.commands, request_id, sessions_only);
                    self.pump_queries(client);
                }
                return;
            }
            Request::QueryCapabilities(_) => Some(Reply::QueryCapabilities(capabilities())),
            Request::SaveTraceForBugreport(_) => {
                Some(Reply::SaveTraceForBugreport(bugreport_refusal()))
            }
            Request::CloneSession(request) => {
                return self.clone_session(client, request_id, &request, fd);
            }
        };
        self.cx.reply(client, request_id, reply);
    }

    /// Runs a method of a consumer's session, if it has one.
    fn own_session<R>(
        &mut self,
        session: Option<SessionId>,
        verb: impl FnOnce(&mut Session, &mut Context) -> R,
    ) -> Option<R> {
        self.act(session?, verb)
    }

    /// Detaches the session, which continues until someone of the same user attaches with `key`;
    /// `None` if that is not possible.
    fn detach(&mut self, client: ClientId, key: Vec<u8>) -> Option<()> {
        let consumer = self.cx.consumers.existing(client)?;
        let (id, uid) = (consumer.session()?, consumer.uid());
        // An empty key means "not detached" in upstream.
        if key.is_empty() || self.sessions.detached_as(uid, &key).is_some() {
            return None;
        }
        consumer.leave_session();
        self.act(id, |session, _| session.detach(key))
    }

    /// Attaches the consumer to its user's session with this key. Returns the session's config.
    fn attach(&mut self, client: ClientId, key: &[u8]) -> Option<TraceConfig> {
        let consumer = self.cx.consumers.existing(client)?;
        if consumer.session().is_some() {
            return None;
        }
        let id = self.sessions.detached_as(consumer.uid(), key)?;
        consumer.join_session(id);
        self.act(id, |session, cx| {
            session.attach(cx, client);
            session.config().clone()
        })
    }

    fn read_buffers(&mut self, client: ClientId, request_id: Option<u64>) {
        // Reading consumes packets, so nothing is read without a reply.
        let Some(request_id) = request_id else { return };
        if let Some(consumer) = self.cx.consumers.existing(client) {
            consumer.begin_reading(&mut self.cx.commands, request_id);
            self.pump_stream(client);
        }
    }

    /// Sends packets until the consumer has to read first, or the trace ends.
    fn pump_stream(&mut self, client: ClientId) {
        loop {
            self.fill_stream(client);
            let consumer = self.cx.consumers.existing(client);
            if !consumer.is_some_and(|c| c.send_packets(&mut self.cx.commands)) {
                return;
            }
        }
    }

    /// Prepares the next reply, and determines whether it is the last one.
    fn fill_stream(&mut self, client: ClientId) {
        let wants = |service: &mut Self| service.cx.consumers.existing(client)?.wants_packets();
        while let Some(id) = wants(self) {
            let mut sink = ReplySink::default();
            // The session may have been freed since the stream began, or have another reader.
            let session = id.and_then(|id| self.sessions.if_there(id));
            let more = session
                .filter(|session| session.is_readable_by(client))
                .is_some_and(|session| session.read_batch(&mut self.cx, READ_BATCH, &mut sink));
            if let Some(consumer) = self.cx.consumers.existing(client) {
                consumer.take_packets(sink, more);
            }
        }
    }

    /// Continues with a consumer that has read most of its queue.
    pub(super) fn consumer_drained(&mut self, client: ClientId) {
        if self.cx.consumers.drained(client) {
            self.pump_stream(client);
            self.pump_queries(client);
        }
    }

    /// Handles the requests that waited for EnableTracing.
    pub(super) fn resume_deferred(&mut self, client: ClientId) {
        let next = |service: &mut Self| service.cx.consumers.existing(client)?.next_deferred();
        while let Some(request) = next(self) {
            self.consumer_request(client, request);
        }
    }

    /// Removes a consumer, and frees the session that it was attached to.
    pub(super) fn consumer_disconnected(&mut self, client: ClientId) {
        let Some(consumer) = self.cx.consumers.disconnect(client) else {
            return;
        };
        for session in self.sessions.iter_mut() {
            session.forget_clones_for(client);
        }
        self.update_priority();
        self.own_session(consumer.session(), Session::free_abandoned);
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
        // Consumers check this before they subscribe.
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
