//! Requests that cannot be sent, and lost services.

use super::*;

#[test]
fn only_calls_that_cannot_be_sent_fail() {
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

/// Loses the service while a call is open. Expects that the call fails, that an existing session is
/// lost, and that only failures follow.
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
fn a_lost_service_fails_open_calls_in_any_state() {
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
fn a_lost_detach_reports_the_known_reason() {
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
fn an_unreachable_service_fails_all_calls() {
    let mut world = World::new();
    let start = world.call(Call::Start);
    world.recording.handle_unreachable("no service");
    assert!(matches!(world.answer(start), Err(CallError::Disconnected)));
    world.assert_quiet();
    assert_eq!(world.recording.loss(), Some("no service"));
}
