//! One consumer: its session, its pending requests, and the replies to it.

mod changes;
mod observer;
mod opening;
mod queries;
mod reading;

use std::collections::VecDeque;

use ferretto_ipc::PassedFd;
use ferretto_ipc::port::consumer::{Reply, Request};
use ferretto_proto::observable_events::{CloneTriggerHit, Type};
use ferretto_proto::{
    Message as _, ObserveEventsResponse, QueryServiceStateResponse, TracingServiceState,
};

use crate::command::{Command, Commands};
use crate::event::{ClientId, FileId, Peer};
use crate::ids::{InstanceKey, SessionId};
use crate::limits::{MAX_DEFERRED_REQUESTS, READ_WINDOW};
use crate::priority::Priority;
use observer::Observer;
use queries::StateQueries;
use reading::{ReadStream, StreamReply};

pub(crate) use changes::InstanceChange;
pub(crate) use opening::{Destination, Opening, WaitsFor};
pub(crate) use queries::{StateQuery, StateSection};
pub(crate) use reading::ReplySink;

/// A connection to the consumer socket. It has at most one session at a time.
#[derive(Debug)]
pub(crate) struct Consumer {
    client: ClientId,
    peer: Peer,
    session: Option<SessionId>,
    /// The EnableTracing request to reply to when the session ends.
    end_request: Option<u64>,
    /// The ReadBuffers request that is being answered.
    reading: Option<ReadStream>,
    observer: Option<Observer>,
    /// The QueryServiceState requests that are not completely answered.
    queries: StateQueries,
    /// The number of bytes sent since the driver last reported that the consumer reads.
    unread: usize,
    /// Set if that number is too large: no long reply is sent before the consumer reads.
    blocked: bool,
    /// An EnableTracing request that waits for the driver; later requests wait for it.
    opening: Option<Box<Opening>>,
    deferred: VecDeque<DeferredRequest>,
}

/// A request with its id and the descriptor that came with it.
pub(crate) type DeferredRequest = (Option<u64>, Request, Option<PassedFd>);

impl Consumer {
    pub(crate) fn new(client: ClientId, peer: Peer) -> Self {
        Self {
            client,
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

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(crate) fn uid(&self) -> u32 {
        self.peer.uid
    }

    pub(crate) fn session(&self) -> Option<SessionId> {
        self.session
    }

    pub(crate) fn join_session(&mut self, id: SessionId) {
        self.session = Some(id);
    }

    /// Leaves the session, and drops the request that waits for its end.
    pub(crate) fn leave_session(&mut self) {
        self.session = None;
        if let Some(observer) = &mut self.observer {
            observer.leave_session();
        }
    }

    /// Sends the last reply to a request; `None` rejects it.
    pub(crate) fn reply(
        &mut self,
        commands: &mut Commands,
        request_id: Option<u64>,
        reply: Option<Reply>,
    ) {
        let bytes = reply.as_ref().map_or(0, Reply::encoded_len);
        self.send(commands, request_id, reply, false, bytes);
    }

    /// Sends one of the replies to a request. `bytes` is its approximate size.
    fn send(
        &mut self,
        commands: &mut Commands,
        request_id: Option<u64>,
        reply: Option<Reply>,
        has_more: bool,
        bytes: usize,
    ) {
        let Some(request_id) = request_id else { return };
        self.unread += bytes;
        let wants_drained = self.unread >= READ_WINDOW && !self.blocked;
        self.blocked |= wants_drained;
        commands.push(Command::ConsumerReply {
            client: self.client,
            request_id,
            reply,
            has_more,
            wants_drained,
        });
    }

    /// Notes that the consumer has read most of its queue.
    pub(crate) fn drained(&mut self) {
        self.unread = 0;
        self.blocked = false;
    }

    /// Returns the request if it can be handled now. While the driver prepares something, the
    /// request is kept, or rejected if there are too many.
    pub(crate) fn admit(
        &mut self,
        commands: &mut Commands,
        request: DeferredRequest,
    ) -> Option<DeferredRequest> {
        if self.opening.is_none() {
            return Some(request);
        }
        if self.deferred.len() < MAX_DEFERRED_REQUESTS {
            self.deferred.push_back(request);
        } else {
            self.reply(commands, request.0, None);
        }
        None
    }

    /// Takes the next waiting request that can be handled now.
    pub(crate) fn next_deferred(&mut self) -> Option<DeferredRequest> {
        match self.opening {
            Some(_) => None,
            None => self.deferred.pop_front(),
        }
    }

    /// Returns the number of requests that wait for the driver.
    pub(crate) fn deferred(&self) -> usize {
        self.deferred.len()
    }

    /// Keeps an EnableTracing request until the driver has done its part.
    pub(crate) fn wait_for_driver(&mut self, opening: Opening) {
        self.opening = Some(Box::new(opening));
    }

    /// Takes the EnableTracing request that waits for this file.
    pub(crate) fn take_opening_of_file(&mut self, file: FileId) -> Option<Opening> {
        let waits = |o: &mut Box<Opening>| matches!(o.waits_for, WaitsFor::File(f) if f == file);
        self.opening.take_if(waits).map(|opening| *opening)
    }

    /// Takes the EnableTracing request that waits for a priority.
    pub(crate) fn take_opening_of_priority(&mut self) -> Option<Opening> {
        let waits = |o: &mut Box<Opening>| matches!(o.waits_for, WaitsFor::Priority(_));
        self.opening.take_if(waits).map(|opening| *opening)
    }

    /// Returns the priority requested by the session that is being opened.
    pub(crate) fn priority_of_opening(&self) -> Option<Priority> {
        self.opening.as_ref()?.priority
    }

    /// Sets the EnableTracing request to reply to when the session ends. An earlier one is
    /// rejected.
    pub(crate) fn replace_end_request(&mut self, commands: &mut Commands, request: Option<u64>) {
        let replaced = std::mem::replace(&mut self.end_request, request);
        self.reply(commands, replaced, None);
    }

    pub(crate) fn take_end_request(&mut self) -> Option<u64> {
        self.end_request.take()
    }

    /// Sends the trace in reply to this ReadBuffers request. A running stream is taken over: its
    /// request ends, and its data continues here.
    pub(crate) fn begin_reading(&mut self, commands: &mut Commands, request_id: u64) {
        let session = self.session;
        let Some(stream) = &mut self.reading else {
            self.reading = Some(ReadStream::new(request_id, session));
            return;
        };
        let replaced = stream.take_over(request_id, session);
        self.reply(commands, Some(replaced), None);
    }

    /// Returns the session to fill the stream from, if it needs packets now; `Some(None)` if there
    /// is no session.
    pub(crate) fn wants_packets(&self) -> Option<Option<SessionId>> {
        let stream = self.reading.as_ref().filter(|_| !self.blocked)?;
        stream.needs_packets().then(|| stream.session())
    }

    /// Adds packets to the stream; `more` is true if others follow.
    pub(crate) fn take_packets(&mut self, packets: ReplySink, more: bool) {
        if let Some(stream) = &mut self.reading {
            stream.extend(packets, more);
        }
    }

    /// Sends the next part of the trace. Returns false if there is none, or the consumer has to
    /// read first.
    pub(crate) fn send_packets(&mut self, commands: &mut Commands) -> bool {
        let Some(stream) = self.reading.as_mut().filter(|_| !self.blocked) else {
            return false;
        };
        let Some(StreamReply { message, bytes }) = stream.next_reply() else {
            return false;
        };
        let request_id = Some(stream.request_id());
        let last = stream.is_over();
        if last {
            self.reading = None;
        }
        let reply = Some(Reply::ReadBuffers(message));
        self.send(commands, request_id, reply, !last, bytes);
        true
    }

    /// Adds a QueryServiceState request, or rejects it if too many wait.
    pub(crate) fn ask_for_state(
        &mut self,
        commands: &mut Commands,
        request_id: u64,
        sessions_only: bool,
    ) {
        if !self.queries.push(request_id, sessions_only) {
            self.reply(commands, Some(request_id), None);
        }
    }

    /// Takes the next QueryServiceState request to answer, unless the consumer has to read first.
    pub(crate) fn next_query(&mut self) -> Option<StateQuery> {
        if self.blocked {
            None
        } else {
            self.queries.take()
        }
    }

    /// Sends a part of the service's state. If there is more, the query continues later.
    pub(crate) fn send_state(
        &mut self,
        commands: &mut Commands,
        query: StateQuery,
        state: TracingServiceState,
        has_more: bool,
    ) {
        let request_id = Some(query.request_id);
        if has_more {
            self.queries.put_back(query);
        }
        let reply = Reply::QueryServiceState(QueryServiceStateResponse {
            service_state: state.into(),
            ..Default::default()
        });
        let bytes = reply.encoded_len();
        self.send(commands, request_id, Some(reply), has_more, bytes);
    }

    /// Replaces the subscription; a request without types ends it. Returns true if there is one
    /// now.
    pub(crate) fn observe(
        &mut self,
        commands: &mut Commands,
        request_id: Option<u64>,
        types: &[Type],
    ) -> bool {
        let end = || Some(Reply::ObserveEvents(Default::default()));
        if let Some(old) = self.observer.take() {
            self.reply(commands, old.request_id(), end());
        }
        self.observer = Observer::new(request_id, types);
        if self.observer.is_none() {
            self.reply(commands, request_id, end());
        }
        self.observer.is_some()
    }

    /// Notes the state of an instance. With `anew`, it is reported even if it was reported before.
    pub(crate) fn note_instance(&mut self, change: InstanceChange, anew: bool) {
        if let Some(observer) = &mut self.observer {
            observer.note_change(change, self.blocked && !anew);
        }
    }

    pub(crate) fn note_instance_gone(&mut self, key: InstanceKey) {
        if let Some(observer) = &mut self.observer {
            observer.note_gone(key, self.blocked);
        }
    }

    pub(crate) fn note_all_started(&mut self) {
        if let Some(observer) = &mut self.observer {
            observer.note_all_started();
        }
    }

    /// Notifies the consumer that its session should be cloned, later if it does not read.
    pub(crate) fn note_clone_trigger(&mut self, hit: CloneTriggerHit) {
        if let Some(observer) = &mut self.observer {
            observer.note_clone_trigger(hit);
        }
    }

    /// Sends the noted events of the subscription. Any producer can cause them, so they wait for
    /// consumers that do not read.
    pub(crate) fn deliver_observed(&mut self, commands: &mut Commands) {
        while !self.blocked
            && let Some(observer) = &mut self.observer
            && let Some(events) = observer.take_events()
        {
            let request_id = observer.request_id();
            let reply = ObserveEventsResponse {
                events: events.into(),
                ..Default::default()
            };
            let bytes = reply.encoded_len() as usize;
            let reply = Some(Reply::ObserveEvents(reply));
            self.send(commands, request_id, reply, true, bytes);
        }
    }
}
