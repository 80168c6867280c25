//! A simulated service, and a clock that the tests advance.

use std::time::{Duration, Instant};

use ferretto_format::{FlushFlags, FlushInitiator, FlushReason};
use ferretto_ipc::client::{DisconnectReason, InvokeError, Rejected};
use ferretto_ipc::port::consumer::{Method, Reply, Request};
use ferretto_proto::read_buffers_response::Slice;
use ferretto_proto::{
    AttachResponse, CloneSessionResponse, EnableTracingResponse, FlushRequest, Message as _,
    ObservableEvents, ObserveEventsResponse, QueryServiceStateResponse, ReadBuffersResponse,
    TraceConfig, TracingServiceState, tracing_service_state,
};

use super::{
    Answer, Call, CallError, CallId, CallKind, Event, Needs, Phase, Recording, SessionEnd,
};
use crate::transport::{LinkEvent, LinkReply};

mod attached;
mod life;
mod reading;
mod trouble;

const LIMIT: Duration = Duration::from_secs(10);
const FLUSH: FlushFlags = FlushFlags::new(FlushInitiator::CommandLine, FlushReason::Stop);

/// A recording, its sent requests and the time.
struct World {
    recording: Recording,
    now: Instant,
    sent: Vec<(u64, Method)>,
    last_id: u64,
}

impl World {
    fn new() -> Self {
        Self {
            recording: Recording::new(),
            now: Instant::now(),
            sent: Vec::new(),
            last_id: 0,
        }
    }

    fn connected() -> Self {
        let mut world = Self::new();
        world.receive(LinkEvent::Bound);
        assert!(matches!(world.next(), Event::Connected));
        world
    }

    /// Returns a world with a running session.
    fn running() -> Self {
        let mut world = Self::connected();
        let call = world.call(enable(false));
        world.assert_done(call);
        assert_eq!(*world.recording.phase(), Phase::Running);
        world
    }

    fn call(&mut self, call: Call) -> CallId {
        self.call_if(call, Needs::Nothing)
    }

    fn call_if(&mut self, call: Call, needs: Needs) -> CallId {
        let deadline = Some(self.now + LIMIT);
        let id = self.recording.call(call, needs, deadline);
        self.send();
        id
    }

    fn send(&mut self) {
        while let Some(outgoing) = self.recording.poll_request() {
            self.last_id += 1;
            self.sent.push((self.last_id, outgoing.request.method()));
            let ticket = outgoing.ticket;
            self.recording.handle_invoked(ticket, Ok(self.last_id));
        }
    }

    fn receive(&mut self, event: LinkEvent<ferretto_ipc::port::consumer::Port>) {
        self.recording.handle_event(event, self.now);
        self.send();
    }

    /// Answers the newest request of a method.
    fn reply(&mut self, method: Method, result: Result<Reply, Rejected>) {
        self.reply_with(method, result, false);
    }

    fn reply_with(&mut self, method: Method, result: Result<Reply, Rejected>, has_more: bool) {
        let request_id = self.id_of(method);
        self.reply_to(request_id, method, result, has_more);
    }

    fn reply_to(
        &mut self,
        request_id: u64,
        method: Method,
        result: Result<Reply, Rejected>,
        has_more: bool,
    ) {
        self.receive(LinkEvent::Reply(LinkReply {
            request_id,
            method,
            result,
            has_more,
            attachment: None,
        }));
    }

    fn id_of(&self, method: Method) -> u64 {
        let mut sent = self.sent.iter().rev();
        sent.find(|(_, of)| *of == method).expect("was sent").0
    }

    fn methods(&self) -> Vec<Method> {
        self.sent.iter().map(|(_, method)| *method).collect()
    }

    /// Ends the session as the service does.
    fn end(&mut self, error: &str) {
        let reply = Reply::EnableTracing(EnableTracingResponse {
            error: Some(error.into()),
            ..Default::default()
        });
        self.reply(Method::EnableTracing, Ok(reply));
    }

    fn disconnect(&mut self) {
        self.recording.handle_closing();
        for (request_id, method) in self.sent.clone() {
            self.reply_to(request_id, method, Err(Rejected), false);
        }
        self.receive(LinkEvent::Disconnected(DisconnectReason::Closed));
    }

    /// Advances the clock to the next deadline.
    fn pass(&mut self) {
        self.now = self.recording.next_deadline().expect("a deadline");
        self.recording.handle_timeout(self.now);
        self.send();
    }

    fn next(&mut self) -> Event {
        self.recording.poll_event().expect("an event")
    }

    fn answer(&mut self, call: CallId) -> Result<Answer, CallError> {
        match self.next() {
            Event::Answered { call: of, result } if of == call => result,
            other => panic!("{other:?} instead of the answer to {call:?}"),
        }
    }

    fn assert_done(&mut self, call: CallId) {
        assert!(matches!(self.answer(call), Ok(Answer::Done)));
    }

    fn assert_timed_out(&mut self, call: CallId, reads_on: bool) {
        match self.next() {
            Event::TimedOut { call: of, goes_on } => assert_eq!((of, goes_on), (call, reads_on)),
            other => panic!("{other:?}"),
        }
    }

    fn assert_ended(&mut self, end: SessionEnd) {
        match self.next() {
            Event::Ended(how) => assert_eq!(how, end),
            other => panic!("{other:?}"),
        }
        assert_eq!(*self.recording.phase(), Phase::Ended(end));
    }

    fn assert_quiet(&mut self) {
        let event = self.recording.poll_event();
        assert!(event.is_none(), "{event:?}");
    }

    fn packets(&mut self, call: CallId) -> Vec<Vec<u8>> {
        match self.next() {
            Event::Packets { call: of, packets } if of == call => packets,
            other => panic!("{other:?}"),
        }
    }
}

fn config(is_deferred: bool) -> Box<TraceConfig> {
    Box::new(TraceConfig {
        deferred_start: Some(is_deferred),
        ..Default::default()
    })
}

fn enable(is_deferred: bool) -> Call {
    let config = config(is_deferred);
    Call::Enable { config, file: None }
}

fn set_up(is_deferred: bool) -> Call {
    let config = config(is_deferred);
    Call::SetUp { config, file: None }
}

fn finish() -> Call {
    Call::Finish {
        flags: FLUSH,
        stop_limit: 2 * LIMIT,
        presumed_end: LIMIT / 2,
    }
}

fn detach(reason_patience: Duration) -> Call {
    Call::Detach {
        key: b"key".to_vec(),
        reason_patience,
    }
}

fn read() -> Call {
    Call::Read { part_limit: LIMIT }
}

fn all_started() -> Reply {
    Reply::ObserveEvents(ObserveEventsResponse {
        events: ObservableEvents {
            all_data_sources_started: Some(true),
            ..Default::default()
        }
        .into(),
        ..Default::default()
    })
}

fn slices(slices: &[(&[u8], bool)]) -> Reply {
    let slices = slices.iter().map(|(data, is_last)| Slice {
        data: Some(data.to_vec()),
        last_slice_for_packet: Some(*is_last),
        ..Default::default()
    });
    Reply::ReadBuffers(ReadBuffersResponse {
        slices: slices.collect(),
        ..Default::default()
    })
}

fn done(reply: Reply) -> Result<Reply, Rejected> {
    Ok(reply)
}
