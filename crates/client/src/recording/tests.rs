//! A service made of replies, and a clock that is moved by hand.

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

const LIMIT: Duration = Duration::from_secs(10);
const FLUSH: FlushFlags = FlushFlags::new(FlushInitiator::CommandLine, FlushReason::Stop);

/// A recording, the requests that it sent and the time.
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

    /// A world with a session that runs.
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

    /// The service ends the session.
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

    /// Moves the clock to the next deadline.
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

#[test]
fn a_recording_from_start_to_read_out() {
    let mut world = World::connected();
    let observe = world.call(Call::Observe(Vec::new()));
    world.assert_done(observe);
    let setup = world.call(set_up(false));
    world.assert_done(setup);
    let start = world.call(Call::Start);
    world.assert_quiet();
    world.reply_with(Method::ObserveEvents, done(all_started()), true);
    world.assert_done(start);
    assert!(matches!(world.next(), Event::Observed(_)));
    let flush = world.call_if(Call::Flush(FlushRequest::default()), Needs::Running);
    world.reply(Method::Flush, done(Reply::Flush(Default::default())));
    world.assert_done(flush);
    let stop = world.call(Call::Stop);
    world.reply(
        Method::DisableTracing,
        done(Reply::DisableTracing(Default::default())),
    );
    world.assert_quiet();
    world.end("");
    world.assert_done(stop);
    world.assert_ended(SessionEnd::Complete);
    let read = world.call_if(read(), Needs::Session);
    let part = slices(&[(b"one", true), (b"tw", false)]);
    world.reply_with(Method::ReadBuffers, done(part), true);
    assert_eq!(world.packets(read), [b"one"]);
    world.reply(Method::ReadBuffers, done(slices(&[(b"o", true)])));
    assert_eq!(world.packets(read), [b"two"]);
    world.assert_done(read);
    // The next one begins with giving up what is left of this one.
    world.call(set_up(false));
    world.call(Call::Start);
    let methods = world.methods();
    assert_eq!(
        methods[methods.len() - 2..],
        [Method::FreeBuffers, Method::EnableTracing]
    );
}

#[test]
fn calls_wait_for_the_connection() {
    let mut world = World::new();
    let connect = world.call(Call::Connect);
    let setup = world.call(set_up(false));
    let start = world.call(Call::Start);
    assert!(world.sent.is_empty());
    world.receive(LinkEvent::Bound);
    assert!(matches!(world.next(), Event::Connected));
    world.assert_done(connect);
    world.assert_done(setup);
    assert_eq!(world.methods(), [Method::EnableTracing]);
    world.end("no");
    assert!(matches!(world.answer(start), Err(CallError::Failed { reason }) if reason == "no"));
    world.assert_ended(SessionEnd::Failed("no".to_owned()));
}

#[test]
fn what_waited_too_long_for_the_connection_is_not_sent() {
    let mut world = World::new();
    let stats = world.call(Call::Stats);
    world.pass();
    world.assert_timed_out(stats, false);
    world.receive(LinkEvent::Bound);
    assert!(world.sent.is_empty());
}

#[test]
fn without_a_port_for_consumers_all_calls_fail() {
    let mut world = World::new();
    let early = world.call(Call::Stats);
    world.receive(LinkEvent::BindFailed);
    assert!(matches!(
        world.answer(early),
        Err(CallError::NoConsumerPort)
    ));
    assert!(matches!(world.next(), Event::NoConsumerPort));
    let late = world.call(Call::Stats);
    assert!(matches!(world.answer(late), Err(CallError::NoConsumerPort)));
    assert!(world.recording.loss().is_some());
}

#[test]
fn a_deferred_session_is_created_when_set_up() {
    let mut world = World::connected();
    world.call(set_up(true));
    assert_eq!(*world.recording.phase(), Phase::Created);
    let start = world.call(Call::Start);
    assert_eq!(
        world.methods(),
        [Method::EnableTracing, Method::StartTracing]
    );
    world.next();
    world.reply(Method::StartTracing, Err(Rejected));
    assert!(matches!(
        world.answer(start),
        Err(CallError::Rejected { .. })
    ));
}

#[test]
fn what_was_set_up_while_another_runs_starts_after_it_deferred_or_not() {
    let mut world = World::running();
    world.call(set_up(true));
    world.end("");
    world.next();
    world.assert_ended(SessionEnd::Complete);
    world.call(Call::Start);
    assert_eq!(
        world.methods(),
        [
            Method::EnableTracing,
            Method::FreeBuffers,
            Method::EnableTracing,
            Method::StartTracing
        ]
    );
}

#[test]
fn calls_that_make_no_sense_are_not_sent() {
    let mut world = World::connected();
    let flush = world.call_if(Call::Flush(FlushRequest::default()), Needs::Running);
    let read = world.call_if(read(), Needs::Session);
    let stop = world.call(Call::Stop);
    let finish = world.call(finish());
    let end = world.call(Call::WaitForEnd);
    for call in [flush, read, stop, finish, end] {
        assert!(matches!(
            world.answer(call),
            Err(CallError::NotRunning { .. })
        ));
    }
    let start = world.call(Call::Start);
    assert!(matches!(world.answer(start), Err(CallError::NotSetUp)));
    assert!(world.sent.is_empty());
    world.call(enable(false));
    world.next();
    let start = world.call(Call::Start);
    assert!(matches!(
        world.answer(start),
        Err(CallError::AlreadyStarted)
    ));
}

#[test]
fn stopping_twice_asks_once_and_answers_both() {
    let mut world = World::running();
    let one = world.call(Call::Stop);
    let other = world.call(Call::Stop);
    let wait = world.call(Call::WaitForEnd);
    assert_eq!(
        world.methods(),
        [Method::EnableTracing, Method::DisableTracing]
    );
    world.end("");
    world.assert_done(one);
    world.assert_done(other);
    world.assert_done(wait);
    world.assert_ended(SessionEnd::Complete);
    // And what has ended is stopped at once.
    let late = world.call(Call::Stop);
    world.assert_done(late);
    assert_eq!(world.sent.len(), 2);
}

#[test]
fn a_stop_that_is_refused_fails() {
    let mut world = World::running();
    let stop = world.call(Call::Stop);
    world.reply(Method::DisableTracing, Err(Rejected));
    assert!(matches!(
        world.answer(stop),
        Err(CallError::Rejected { .. })
    ));
}

#[test]
fn a_finish_flushes_then_stops_each_in_its_time() {
    let mut world = World::running();
    let finish = world.call(finish());
    assert_eq!(*world.recording.phase(), Phase::Flushing);
    assert_eq!(world.recording.next_deadline(), Some(world.now + LIMIT));
    world.reply(Method::Flush, done(Reply::Flush(Default::default())));
    assert_eq!(*world.recording.phase(), Phase::Stopping);
    assert_eq!(world.recording.next_deadline(), Some(world.now + 2 * LIMIT));
    world.end("");
    world.assert_done(finish);
    world.assert_ended(SessionEnd::Complete);
    assert_eq!(world.recording.next_deadline(), None);
}

#[test]
fn a_session_that_ends_while_it_flushes_is_not_stopped() {
    let mut world = World::running();
    let finish = world.call(finish());
    world.end("");
    world.assert_done(finish);
    world.assert_ended(SessionEnd::Complete);
    world.reply(Method::Flush, Err(Rejected));
    assert!(matches!(world.next(), Event::FinalFlushFailed));
    assert!(!world.methods().contains(&Method::DisableTracing));
}

#[test]
fn a_finish_that_hangs_times_out() {
    let mut world = World::running();
    let finish = world.call(finish());
    world.reply(Method::Flush, Err(Rejected));
    assert!(matches!(world.next(), Event::FinalFlushFailed));
    world.pass();
    world.assert_timed_out(finish, false);
    // Its end may still come, and is told.
    world.end("");
    world.assert_ended(SessionEnd::Complete);
}

/// A world with a session that was attached to.
fn attached() -> World {
    let mut world = World::connected();
    let key = b"key".to_vec();
    let attach = world.call(Call::Attach { key });
    let response = AttachResponse {
        trace_config: (*config(false)).into(),
        ..Default::default()
    };
    world.reply(Method::Attach, done(Reply::Attach(response)));
    assert!(matches!(world.answer(attach), Ok(Answer::Attached(_))));
    assert_eq!(*world.recording.phase(), Phase::Running);
    world
}

#[test]
fn an_attached_session_that_cannot_be_flushed_is_presumed_to_be_over() {
    let mut world = attached();
    let watch = world.call(Call::Watch);
    world.assert_done(watch);
    let finish = world.call(finish());
    world.reply(Method::Flush, Err(Rejected));
    assert!(matches!(world.next(), Event::FinalFlushFailed));
    assert_eq!(world.recording.next_deadline(), Some(world.now + LIMIT / 2));
    world.pass();
    world.assert_done(finish);
    world.assert_ended(SessionEnd::Complete);
}

#[test]
fn an_attached_session_is_left_again() {
    let mut world = attached();
    let call = world.call(detach(LIMIT));
    world.reply(Method::Detach, done(Reply::Detach(Default::default())));
    world.assert_done(call);
    assert_eq!(*world.recording.phase(), Phase::Idle);
    let call = world.call(detach(LIMIT));
    world.reply(Method::Detach, Err(Rejected));
    // There is no reason to wait for one.
    assert!(matches!(
        world.answer(call),
        Err(CallError::Rejected { .. })
    ));
}

#[test]
fn an_attach_that_is_refused_or_comes_late() {
    let mut world = World::connected();
    let attach = || Call::Attach {
        key: b"key".to_vec(),
    };
    let refused = world.call(attach());
    world.reply(Method::Attach, Err(Rejected));
    assert!(matches!(
        world.answer(refused),
        Err(CallError::Rejected { .. })
    ));
    assert_eq!(*world.recording.phase(), Phase::Idle);
    let late = world.call(attach());
    world.pass();
    world.assert_timed_out(late, false);
    world.reply(Method::Attach, done(Reply::Attach(Default::default())));
    // Nobody waits, but the session is there.
    world.assert_quiet();
    assert_eq!(*world.recording.phase(), Phase::Running);
}

#[test]
fn detaching_while_starting_leaves_nobody_waiting() {
    let mut world = World::connected();
    world.call(set_up(false));
    world.next();
    let start = world.call(Call::Start);
    let call = world.call(detach(LIMIT));
    assert!(world.recording.is_detaching());
    world.reply(Method::Detach, done(Reply::Detach(Default::default())));
    world.assert_done(call);
    assert!(matches!(
        world.answer(start),
        Err(CallError::NotRunning { .. })
    ));
    // What becomes of it is somebody else's business.
    world.end("");
    world.assert_quiet();
}

#[test]
fn the_reason_of_a_refused_detach_may_come_before_or_after() {
    let refused = |result| match result {
        Err(CallError::Refused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    let mut world = World::running();
    let before = world.call(detach(LIMIT));
    world.end("bad config");
    world.assert_ended(SessionEnd::Failed("bad config".to_owned()));
    world.reply(Method::Detach, Err(Rejected));
    assert_eq!(refused(world.answer(before)), "bad config");

    let mut world = World::running();
    let after = world.call(detach(LIMIT / 5));
    world.reply(Method::Detach, Err(Rejected));
    world.assert_quiet();
    assert_eq!(world.recording.next_deadline(), Some(world.now + LIMIT / 5));
    world.end("bad config");
    assert_eq!(refused(world.answer(after)), "bad config");

    let mut world = World::running();
    let never = world.call(detach(LIMIT / 5));
    world.reply(Method::Detach, Err(Rejected));
    world.pass();
    assert!(matches!(
        world.answer(never),
        Err(CallError::Rejected { .. })
    ));

    let mut world = World::running();
    let impatient = world.call(detach(Duration::ZERO));
    world.reply(Method::Detach, Err(Rejected));
    assert!(matches!(
        world.answer(impatient),
        Err(CallError::Rejected { .. })
    ));
}

#[test]
fn a_copy_can_be_read() {
    let mut world = World::connected();
    let clone = || Call::Clone {
        request: Box::default(),
        file: None,
    };
    let call = world.call(clone());
    let response = CloneSessionResponse {
        success: Some(true),
        uuid_msb: Some(1),
        uuid_lsb: Some(2),
        ..Default::default()
    };
    world.reply(Method::CloneSession, done(Reply::CloneSession(response)));
    let Ok(Answer::Cloned(session)) = world.answer(call) else {
        panic!("was not copied")
    };
    assert_eq!((session.uuid, session.in_file), ((1, 2), false));
    let read = world.call_if(read(), Needs::Session);
    world.reply(Method::ReadBuffers, done(slices(&[])));
    world.assert_done(read);

    let call = world.call(clone());
    let response = CloneSessionResponse {
        success: Some(false),
        error: Some(b"no such session".to_vec()),
        ..Default::default()
    };
    world.reply(Method::CloneSession, done(Reply::CloneSession(response)));
    assert!(matches!(
        world.answer(call),
        Err(CallError::Refused { reason, .. }) if reason == "no such session"
    ));
}

#[test]
fn triggers_are_told() {
    let mut world = World::running();
    let mut observed = ObservableEvents::default();
    observed
        .clone_trigger_hit
        .get_or_insert_default()
        .trigger_name = Some(b"now".to_vec());
    let reply = Reply::ObserveEvents(ObserveEventsResponse {
        events: observed.into(),
        ..Default::default()
    });
    let observe = world.call(Call::Observe(Vec::new()));
    world.assert_done(observe);
    world.reply_with(Method::ObserveEvents, done(reply), true);
    match world.next() {
        Event::Observed(observed) => assert!(observed.clone_trigger_hit.is_set()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_refused_without_a_word_has_ended() {
    let mut world = World::running();
    world.reply(Method::EnableTracing, Err(Rejected));
    world.assert_ended(SessionEnd::Rejected);
    assert!(SessionEnd::Rejected.error().is_some());
}

#[test]
fn a_late_answer_is_not_told() {
    let mut world = World::running();
    let flush = world.call(Call::Flush(FlushRequest::default()));
    let stats = world.call(Call::Stats);
    world.pass();
    world.assert_timed_out(flush, false);
    world.assert_timed_out(stats, false);
    world.reply(Method::Flush, done(Reply::Flush(Default::default())));
    world.reply(
        Method::GetTraceStats,
        done(Reply::GetTraceStats(Default::default())),
    );
    world.assert_quiet();
}

#[test]
fn the_end_of_an_earlier_session_is_not_that_of_this_one() {
    let mut world = World::running();
    let earlier = world.id_of(Method::EnableTracing);
    world.call(enable(false));
    world.next();
    let end = Reply::EnableTracing(Default::default());
    world.reply_to(earlier, Method::EnableTracing, done(end), false);
    world.assert_quiet();
    assert_eq!(*world.recording.phase(), Phase::Running);
}

#[test]
fn reads_take_turns_and_a_late_one_keeps_its_own() {
    let mut world = World::running();
    let first = world.call(read());
    let second = world.call(read());
    let third = world.call(read());
    let id = world.id_of(Method::ReadBuffers);
    world.reply_with(Method::ReadBuffers, done(slices(&[(b"a", true)])), true);
    assert_eq!(world.packets(first), [b"a"]);
    // The first one's time began again, that of those who wait did not.
    world.now += LIMIT / 2;
    world.reply_with(Method::ReadBuffers, done(slices(&[(b"b", true)])), true);
    assert_eq!(world.packets(first), [b"b"]);
    world.pass();
    world.assert_timed_out(second, false);
    world.assert_timed_out(third, false);
    let fourth = world.call(read());
    world.pass();
    world.assert_timed_out(first, true);
    // Late, but nobody else's.
    assert_eq!(world.id_of(Method::ReadBuffers), id);
    world.reply(Method::ReadBuffers, done(slices(&[(b"c", true)])));
    assert_eq!(world.packets(first), [b"c"]);
    world.assert_done(first);
    assert_ne!(world.id_of(Method::ReadBuffers), id);
    world.reply(Method::ReadBuffers, done(slices(&[(b"d", true)])));
    assert_eq!(world.packets(fourth), [b"d"]);
    world.assert_done(fourth);
}

#[test]
fn a_read_that_is_held_up_by_its_reader_does_not_time_out() {
    let mut world = World::running();
    world.call(read());
    world.now += LIMIT - Duration::from_secs(1);
    world.recording.postpone(world.now);
    assert_eq!(world.recording.next_deadline(), Some(world.now + LIMIT));
}

#[test]
fn a_packet_cut_off_at_the_end_is_not_part_of_the_next_read() {
    let mut world = World::running();
    let first = world.call(read());
    let part = slices(&[(b"whole", true), (b"cut", false)]);
    world.reply(Method::ReadBuffers, done(part));
    assert_eq!(world.packets(first), [b"whole"]);
    world.assert_done(first);
    let second = world.call(read());
    world.reply(Method::ReadBuffers, done(slices(&[(b"next", true)])));
    assert_eq!(world.packets(second), [b"next"]);
    world.assert_done(second);
}

#[test]
fn a_packet_too_large_ends_the_read_but_not_the_turn() {
    let mut world = World::running();
    world.recording.max_packet_size = 4;
    let first = world.call(read());
    let second = world.call(read());
    let id = world.id_of(Method::ReadBuffers);
    let part = slices(&[
        (b"good", true),
        (b"much", false),
        (b"!", true),
        (b"x", true),
    ]);
    world.reply_with(Method::ReadBuffers, done(part), true);
    assert_eq!(world.packets(first), [b"good"]);
    assert!(matches!(world.answer(first), Err(CallError::Packet(_))));
    world.reply_with(Method::ReadBuffers, done(slices(&[(b"y", true)])), true);
    world.assert_quiet();
    assert_eq!(world.id_of(Method::ReadBuffers), id);
    world.reply(Method::ReadBuffers, done(slices(&[])));
    assert_ne!(world.id_of(Method::ReadBuffers), id);
    world.reply(Method::ReadBuffers, done(slices(&[(b"z", true)])));
    assert_eq!(world.packets(second), [b"z"]);
    world.assert_done(second);
}

#[test]
fn a_refused_read_makes_room_for_the_next() {
    let mut world = World::running();
    let first = world.call(read());
    let second = world.call(read());
    world.reply(Method::ReadBuffers, Err(Rejected));
    assert!(matches!(
        world.answer(first),
        Err(CallError::Rejected { .. })
    ));
    world.reply(Method::ReadBuffers, done(slices(&[])));
    world.assert_done(second);
}

#[test]
fn the_state_of_the_service_comes_in_parts() {
    let mut world = World::connected();
    let call = world.call(Call::ServiceState);
    let part = |name: &str| {
        let state = TracingServiceState {
            producers: vec![tracing_service_state::Producer {
                name: Some(name.into()),
                ..Default::default()
            }],
            ..Default::default()
        };
        Reply::QueryServiceState(QueryServiceStateResponse {
            service_state: state.into(),
            ..Default::default()
        })
    };
    world.reply_with(Method::QueryServiceState, done(part("a")), true);
    world.assert_quiet();
    world.reply(Method::QueryServiceState, done(part("b")));
    match world.answer(call) {
        Ok(Answer::ServiceState(state)) => {
            assert_eq!(state.producers.len(), 2);
            assert!(!state.encode_to_vec().is_empty());
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_sent_fails_alone() {
    let mut world = World::connected();
    let too_large = InvokeError::TooLarge {
        method: "EnableTracing",
        size: 1 << 20,
    };
    let refuse = |world: &mut World, error| {
        let outgoing = world.recording.poll_request().expect("a request");
        world.recording.handle_invoked(outgoing.ticket, Err(error));
    };
    let recording = &mut world.recording;
    recording.call(set_up(false), Needs::Nothing, None);
    let start = recording.call(Call::Start, Needs::Nothing, None);
    world.next();
    refuse(&mut world, too_large);
    assert!(matches!(
        world.answer(start),
        Err(CallError::TooLarge { .. })
    ));
    assert_eq!(*world.recording.phase(), Phase::Idle);
    let clone = Call::Clone {
        request: Box::default(),
        file: None,
    };
    let clone = world.recording.call(clone, Needs::Nothing, None);
    refuse(&mut world, InvokeError::UnknownMethod("CloneSession"));
    assert!(matches!(
        world.answer(clone),
        Err(CallError::Unsupported { .. })
    ));
    let read = world.recording.call(read(), Needs::Nothing, None);
    refuse(&mut world, InvokeError::UnknownMethod("ReadBuffers"));
    assert!(matches!(
        world.answer(read),
        Err(CallError::Unsupported { .. })
    ));
    let other = Request::FreeBuffers(Default::default());
    let call = world.call(Call::Other(Box::new(other), None));
    world.reply(
        Method::FreeBuffers,
        done(Reply::FreeBuffers(Default::default())),
    );
    assert!(matches!(world.answer(call), Ok(Answer::Reply(_))));
}

/// Loses the service with one call open, and expects that it fails, that the session is lost if
/// there is one, and that nothing but failures comes after.
fn lose_with(mut world: World, call: Call, has_session: bool) {
    let open = world.call(call);
    world.disconnect();
    assert!(matches!(world.answer(open), Err(CallError::Disconnected)));
    if has_session {
        world.assert_ended(SessionEnd::Lost);
    }
    assert!(matches!(world.next(), Event::Disconnected(_)));
    let later = world.call(Call::Stats);
    assert!(matches!(world.answer(later), Err(CallError::Disconnected)));
    assert!(world.recording.loss().is_some());
    assert_eq!(world.recording.next_deadline(), None);
    world.assert_quiet();
}

#[test]
fn a_service_that_goes_away_in_any_state_fails_what_is_open() {
    lose_with(World::new(), Call::Connect, false);
    lose_with(World::new(), Call::Stats, false);
    let key = b"key".to_vec();
    lose_with(World::connected(), Call::Attach { key }, false);
    let clone = Call::Clone {
        request: Box::default(),
        file: None,
    };
    lose_with(World::connected(), clone, false);
    lose_with(World::running(), Call::WaitForStart, true);
    lose_with(World::running(), Call::WaitForEnd, true);
    lose_with(World::running(), Call::Flush(FlushRequest::default()), true);
    lose_with(World::running(), Call::Stop, true);
    lose_with(World::running(), finish(), true);
    lose_with(World::running(), detach(LIMIT), true);
    lose_with(World::running(), read(), true);
    let mut ended = World::running();
    ended.end("");
    ended.next();
    lose_with(ended, read(), false);
    let mut stopping = World::running();
    let finish = stopping.call(finish());
    stopping.reply(Method::Flush, done(Reply::Flush(Default::default())));
    stopping.disconnect();
    assert!(matches!(
        stopping.answer(finish),
        Err(CallError::Disconnected)
    ));
    stopping.assert_ended(SessionEnd::Lost);
}

#[test]
fn a_lost_detach_tells_the_reason_it_knows() {
    let mut world = World::running();
    let call = world.call(detach(LIMIT));
    world.end("bad config");
    world.next();
    world.disconnect();
    assert!(matches!(
        world.answer(call),
        Err(CallError::Refused { reason, .. }) if reason == "bad config"
    ));
}

#[test]
fn reading_after_the_connection_is_lost_fails_at_once() {
    let mut world = World::running();
    world.disconnect();
    world.assert_ended(SessionEnd::Lost);
    assert!(matches!(world.next(), Event::Disconnected(_)));
    let read = world.call(read());
    assert!(matches!(world.answer(read), Err(CallError::Disconnected)));
    assert_eq!(read.kind(), CallKind::Read);
}

#[test]
fn a_service_that_cannot_be_reached_fails_what_was_asked() {
    let mut world = World::new();
    let start = world.call(Call::Start);
    world.recording.handle_unreachable("nobody is there");
    assert!(matches!(world.answer(start), Err(CallError::Disconnected)));
    world.assert_quiet();
    assert_eq!(world.recording.loss(), Some("nobody is there"));
}
