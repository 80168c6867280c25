//! Sessions that others left, and copies of them.

use super::*;

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
fn detaching_while_starting_completes_all_calls() {
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
    // Another consumer may attach now; this one hears no more of the session.
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
