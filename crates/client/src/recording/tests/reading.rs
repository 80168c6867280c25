//! Reads of buffers, and replies in parts.

use super::*;

#[test]
fn reads_run_one_at_a_time_and_a_late_one_keeps_its_own_packets() {
    let mut world = World::running();
    let first = world.call(read());
    let second = world.call(read());
    let third = world.call(read());
    let id = world.id_of(Method::ReadBuffers);
    world.reply_with(Method::ReadBuffers, done(slices(&[(b"a", true)])), true);
    assert_eq!(world.packets(first), [b"a"]);
    // The time limit of the running read restarted; those of the waiting reads did not.
    world.now += LIMIT / 2;
    world.reply_with(Method::ReadBuffers, done(slices(&[(b"b", true)])), true);
    assert_eq!(world.packets(first), [b"b"]);
    world.pass();
    world.assert_timed_out(second, false);
    world.assert_timed_out(third, false);
    let fourth = world.call(read());
    world.pass();
    world.assert_timed_out(first, true);
    // A late reply belongs to its own call.
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
fn time_of_the_receiver_does_not_count_against_a_read() {
    let mut world = World::running();
    world.call(read());
    world.now += LIMIT - Duration::from_secs(1);
    world.recording.postpone(world.now);
    assert_eq!(world.recording.next_deadline(), Some(world.now + LIMIT));
}

#[test]
fn a_truncated_packet_is_not_part_of_the_next_read() {
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
fn the_next_read_waits_for_the_rest_of_one_with_a_packet_too_large() {
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
fn the_next_read_starts_after_a_refused_one() {
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
fn the_service_state_is_joined_from_its_parts() {
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
