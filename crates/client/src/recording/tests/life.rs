//! The life of a session: set up, started, finished, stopped.

use super::*;

#[test]
fn a_recording_is_started_stopped_and_read() {
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
    // The next session starts with discarding the rest of this one.
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
fn calls_that_time_out_before_the_connection_are_not_sent() {
    let mut world = World::new();
    let stats = world.call(Call::Stats);
    world.pass();
    world.assert_timed_out(stats, false);
    world.receive(LinkEvent::Bound);
    assert!(world.sent.is_empty());
}

#[test]
fn all_calls_fail_without_a_consumer_port() {
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
fn a_config_set_up_during_a_session_starts_after_it() {
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
fn calls_in_the_wrong_state_are_not_sent() {
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
fn two_stops_send_one_request_and_both_complete() {
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
    // A session that has ended is stopped at once.
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
fn a_finish_flushes_and_then_stops_with_a_time_limit_for_each() {
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
fn a_finish_without_replies_times_out() {
    let mut world = World::running();
    let finish = world.call(finish());
    world.reply(Method::Flush, Err(Rejected));
    assert!(matches!(world.next(), Event::FinalFlushFailed));
    world.pass();
    world.assert_timed_out(finish, false);
    // The end may still come and is reported.
    world.end("");
    world.assert_ended(SessionEnd::Complete);
}

#[test]
fn triggers_are_reported() {
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
fn a_session_refused_without_a_reason_has_ended() {
    let mut world = World::running();
    world.reply(Method::EnableTracing, Err(Rejected));
    world.assert_ended(SessionEnd::Rejected);
    assert!(SessionEnd::Rejected.error().is_some());
}

#[test]
fn a_late_reply_is_ignored() {
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
