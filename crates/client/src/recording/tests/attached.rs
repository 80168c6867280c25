//! Sessions that other consumers detached, and clones.

use super::*;

/// Returns a world with an attached session.
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
fn an_attached_session_that_cannot_be_flushed_is_presumed_to_have_ended() {
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
fn an_attached_session_can_be_detached_again() {
    let mut world = attached();
    let call = world.call(detach(LIMIT));
    world.reply(Method::Detach, done(Reply::Detach(Default::default())));
    world.assert_done(call);
    assert_eq!(*world.recording.phase(), Phase::Idle);
    let call = world.call(detach(LIMIT));
    world.reply(Method::Detach, Err(Rejected));
    // No pause follows if the patience for a reason is zero.
    assert!(matches!(
        world.answer(call),
        Err(CallError::Rejected { .. })
    ));
}

#[test]
fn an_attach_can_be_refused_or_complete_after_its_time_limit() {
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
    // No call waits for the reply, but the session is attached.
    world.assert_quiet();
    assert_eq!(*world.recording.phase(), Phase::Running);
}

#[test]
fn detaching_during_a_start_completes_all_calls() {
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
    // Another consumer may attach now. The end of the session is not reported to this one.
    world.end("");
    world.assert_quiet();
}

#[test]
fn the_reason_of_a_refused_detach_may_precede_or_follow_the_refusal() {
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
fn a_clone_can_be_read() {
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
