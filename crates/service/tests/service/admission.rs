//! Sessions alongside others, and producers that may take part.

use ferretto_ipc::port::consumer::{Reply, Request};
use ferretto_proto::TraceConfig;
use ferretto_proto::trace_config::trigger_config::{Trigger, TriggerMode};
use ferretto_proto::trace_config::{LockdownModeOperation, SessionSemaphore};

use crate::cloning::{by_id, clone};
use crate::world::{Behaviour, ConfigBuilder, World};

fn exclusive(priority: u32) -> ConfigBuilder {
    ConfigBuilder::new().with(|c| c.exclusive_prio = Some(priority))
}

#[test]
fn service_022_row_18_and_029_exclusive_sessions() {
    let mut world = World::new();
    let [first, second, third] = [(); 3].map(|()| world.consumer());
    let plain = world.enable(first, ConfigBuilder::new());
    let low = world.enable(second, exclusive(1));
    assert_eq!(
        world.ended(first, plain).unwrap(),
        "Aborted due to user requested higher-priority (1) exclusive session."
    );
    assert_eq!(world.sessions(), 1);
    for priority in [0, 1] {
        let refused = world.enable(first, exclusive(priority));
        assert_eq!(
            world.ended(first, refused).unwrap(),
            format!(
                "An exclusive session with priority 1 >= requested priority {priority} is already \
                 active."
            )
        );
    }
    let high = world.enable(third, exclusive(2));
    assert_eq!(
        world.ended(second, low).unwrap(),
        "Aborted due to user requested higher-priority (2) exclusive session."
    );
    world.free(third);
    assert!(world.is_answered(third, high));
    let again = world.enable(second, ConfigBuilder::new());
    assert_eq!(world.ended(second, again), None);
}

#[test]
fn a_refused_exclusive_session_ends_no_other() {
    let mut world = World::new();
    let (first, second) = (world.consumer(), world.consumer());
    let session = world.enable(first, ConfigBuilder::new());
    let bad = exclusive(1).with(|c| c.buffers[0].size_kb = Some(0));
    let refused = world.enable(second, bad);
    assert!(world.ended(second, refused).is_some());
    assert_eq!(world.ended(first, session), None);
}

#[test]
fn an_exclusive_session_affects_its_own_user_and_one_of_root_affects_all() {
    let mut world = World::new();
    let aborted = "Aborted due to user requested higher-priority";
    let [own, second_own, other] = [7, 7, 8].map(|uid| world.consumer_of(uid));
    let of_own = world.enable(own, ConfigBuilder::new());
    let of_other = world.enable(other, ConfigBuilder::new());
    let high = world.enable(second_own, exclusive(9));
    assert!(world.ended(own, of_own).unwrap().starts_with(aborted));
    assert_eq!(world.ended(other, of_other), None);
    let refused = world.enable(own, ConfigBuilder::new());
    assert!(
        world
            .ended(own, refused)
            .unwrap()
            .starts_with("An exclusive session")
    );
    let another = world.consumer_of(8);
    let beside = world.enable(another, exclusive(1));
    assert!(world.ended(other, of_other).unwrap().starts_with(aborted));
    assert_eq!(world.ended(another, beside), None);

    // Sessions of root exclude no other, and are excluded by none.
    let root = world.consumer_of(0);
    let plain = world.enable(root, ConfigBuilder::new());
    assert_eq!(world.ended(root, plain), None);
    assert_eq!(world.ended(second_own, high), None);
    world.free(root);
    let of_root = world.enable(root, exclusive(1));
    assert_eq!(world.ended(root, of_root), None);
    assert!(world.ended(second_own, high).unwrap().starts_with(aborted));
    assert!(world.ended(another, beside).unwrap().starts_with(aborted));
    let refused = world.enable(other, exclusive(1));
    assert!(
        world
            .ended(other, refused)
            .unwrap()
            .starts_with("An exclusive session")
    );
}

#[test]
fn an_exclusive_session_is_refused_by_sessions_that_it_does_not_end() {
    let mut world = World::new();
    let other = world.consumer_of(8);
    world.enable(other, named("taken"));
    let own = world.consumer_of(7);
    let refused = world.enable(
        own,
        exclusive(1).with(|c| c.unique_session_name = Some(b"taken".to_vec())),
    );
    assert!(
        world
            .ended(own, refused)
            .unwrap()
            .contains("already exists")
    );
}

#[test]
fn sessions_of_others_do_not_exclude_root() {
    let mut world = World::new();
    for user in 1..=3 {
        for _ in 0..5 {
            let consumer = world.consumer_of(user);
            world.enable(consumer, ConfigBuilder::new());
        }
    }
    let fourth = world.consumer_of(4);
    let refused = world.enable(fourth, ConfigBuilder::new());
    assert!(world.ended(fourth, refused).is_some());
    for _ in 0..4 {
        let root = world.consumer_of(0);
        let session = world.enable(root, ConfigBuilder::new());
        assert_eq!(world.ended(root, session), None);
    }
    let root = world.consumer_of(0);
    let id = world.call_with(root, Request::CloneSession(by_id(1)), None);
    assert!(
        matches!(world.answer(root, id), Some(Reply::CloneSession(r)) if r.success == Some(true))
    );
    let root = world.consumer_of(0);
    let refused = world.enable(root, ConfigBuilder::new());
    assert!(
        world.ended(root, refused).is_some(),
        "root also has a limit"
    );
}

fn named(name: &str) -> ConfigBuilder {
    ConfigBuilder::new().with(|c| c.unique_session_name = Some(name.into()))
}

#[test]
fn service_022_row_21_and_027_unique_names() {
    let mut world = World::new();
    let (first, second) = (world.consumer(), world.consumer());
    world.enable(first, named("n"));
    world.disable(first);
    let refused = world.enable(second, named("n"));
    let text = "A trace with this unique session name (n) already exists";
    assert_eq!(world.ended(second, refused).unwrap(), text);
    let (reader, _) = clone(&mut world, by_id(1));
    world.free(first);
    // The clone also has the name, and does not exclude a session with it.
    let names = |world: &mut World| -> Vec<Vec<u8>> {
        let sessions = world.state(reader).tracing_sessions;
        let names = sessions.into_iter().map(|s| s.unique_session_name);
        names.map(Option::unwrap).collect()
    };
    assert_eq!(names(&mut world), [b"n"]);
    let accepted = world.enable(second, named("n"));
    assert_eq!(world.ended(second, accepted), None);
    assert_eq!(names(&mut world), [b"n", b"n"]);
}

fn semaphore(max: u64) -> ConfigBuilder {
    ConfigBuilder::new().with(|c| {
        c.session_semaphores.push(SessionSemaphore {
            name: Some(b"s".to_vec()),
            max_other_session_count: Some(max),
            ..Default::default()
        });
    })
}

#[test]
fn service_022_row_22_and_028_semaphores() {
    let mut world = World::new();
    let [first, second, third] = [(); 3].map(|()| world.consumer());
    world.enable(first, semaphore(1));
    let shared = world.enable(second, semaphore(5));
    assert_eq!(world.ended(second, shared), None);
    let refused = world.enable(third, semaphore(7));
    assert_eq!(
        world.ended(third, refused).unwrap(),
        "Semaphore \"s\" exceeds maximum allowed other session count (2 > min(7, 1))"
    );
    world.disable(second);
    let accepted = world.enable(third, semaphore(7));
    assert_eq!(world.ended(third, accepted), None);
}

#[test]
fn service_028_a_semaphore_that_allows_no_other_excludes() {
    let mut world = World::new();
    let (first, second) = (world.consumer(), world.consumer());
    world.enable(first, semaphore(0));
    let refused = world.enable(second, semaphore(9));
    let text = "Semaphore \"s\" exceeds maximum allowed other session count (1 > min(9, 0))";
    assert_eq!(world.ended(second, refused).unwrap(), text);
    // Neither a clone nor a session that is over holds the semaphore.
    clone(&mut world, by_id(1));
    world.disable(first);
    let accepted = world.enable(second, semaphore(0));
    assert_eq!(world.ended(second, accepted), None);
    // Other names, or none, are unaffected.
    let third = world.consumer();
    let plain = world.enable(third, ConfigBuilder::new());
    assert_eq!(world.ended(third, plain), None);
}

#[test]
fn service_022_row_23_and_026_cooldown() {
    let guarded = |name: &str| named(name).with(|c| c.enable_extra_guardrails = Some(true));
    for name in ["n", ""] {
        let mut world = World::new();
        let consumer = world.consumer();
        world.enable(consumer, guarded(name));
        world.free(consumer);
        world.run_for(300_999);
        let refused = world.enable(consumer, guarded(name));
        assert_eq!(
            world.ended(consumer, refused).unwrap(),
            format!("A trace with unique session name \"{name}\" began less than 300s ago (300s)")
        );
        // The refused attempt does not count.
        world.run_for(1);
        let accepted = world.enable(consumer, guarded(name));
        assert_eq!(world.ended(consumer, accepted), None);
    }
}

#[test]
fn service_022_rows_24_25_and_025_session_counts() {
    let mut world = World::new();
    for user in 0..3 {
        for index in 0..5 {
            let consumer = world.consumer_of(user);
            let session = world.enable(consumer, ConfigBuilder::new());
            assert_eq!(world.ended(consumer, session), None);
            if index % 2 == 0 {
                world.disable(consumer);
            }
        }
    }
    let sixth = world.consumer_of(2);
    let refused = world.enable(sixth, ConfigBuilder::new());
    assert_eq!(
        world.ended(sixth, refused).unwrap(),
        "Too many concurrent tracing sesions (5) for uid 2 limit is 5"
    );
    let sixteenth = world.consumer_of(9);
    let refused = world.enable(sixteenth, ConfigBuilder::new());
    let text = "Too many concurrent tracing sesions (15)";
    assert_eq!(world.ended(sixteenth, refused).unwrap(), text);
}

#[test]
fn service_025_clones_count_as_well() {
    let mut world = World::new();
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new());
    for _ in 0..4 {
        clone(&mut world, by_id(1));
    }
    let sixth = world.consumer();
    let refused = world.enable(sixth, ConfigBuilder::new());
    assert_eq!(
        world.ended(sixth, refused).unwrap(),
        "Too many concurrent tracing sesions (5) for uid 1000 limit is 5"
    );
}

type Mistake = (&'static str, fn(&mut TraceConfig));

/// Combines all mistakes, then removes one after the other from the first on, and expects that
/// always the first is reported.
fn first_is_reported(mut world: World, uid: u32, mistakes: &[Mistake]) {
    for first in 0..mistakes.len() {
        let config = ConfigBuilder::new().source("p").with(|c| {
            for (_, make) in mistakes[first..].iter().rev() {
                make(c);
            }
        });
        let consumer = world.consumer_of(uid);
        let session = world.enable(consumer, config);
        let error = world.ended(consumer, session).expect("a refusal");
        let expected = mistakes[first].0;
        assert!(error.starts_with(expected), "{error:?}, not {expected:?}");
        world.disconnect(consumer);
    }
}

fn trigger_named(name: &str) -> Trigger {
    Trigger {
        name: Some(name.into()),
        ..Default::default()
    }
}

#[test]
fn service_022_and_ipc_054_the_first_mistake_in_the_config_is_told() {
    let mut world = World::new();
    let consumer = world.consumer();
    world.enable(consumer, exclusive(1));
    let mistakes: [Mistake; 17] = [
        ("Requested too long", |c| c.duration_ms = Some(u32::MAX)),
        ("Traces with START_TRACING triggers", |c| {
            let triggers = c.trigger_config.get_or_insert_default();
            triggers.trigger_timeout_ms = Some(0);
        }),
        ("The trace config specified an invalid trigger_mode", |c| {
            let mode = ferretto_wire::encode(|triggers| triggers.int(1, 3));
            let triggers = c.trigger_config.get_or_insert_default();
            ferretto_proto::Message::merge_from_slice(triggers, &mode).unwrap();
            triggers.trigger_timeout_ms = Some(1);
        }),
        ("trigger_mode must be STOP_TRACING", |c| {
            let triggers = c.trigger_config.get_or_insert_default();
            triggers.trigger_mode = Some(TriggerMode::START_TRACING);
            triggers.use_clone_snapshot_if_available = Some(true);
        }),
        ("duration_ms was set", |c| c.duration_ms = Some(1)),
        ("bugreport_filename", |c| {
            c.bugreport_filename = Some(b"/".to_vec());
        }),
        ("Specifying trigger mode STOP_TRACING", |c| {
            let triggers = c.trigger_config.get_or_insert_default();
            triggers.trigger_mode = Some(TriggerMode::STOP_TRACING);
            triggers.trigger_timeout_ms = Some(1);
            c.write_into_file = Some(true);
        }),
        ("Duplicate trigger name: a", |c| {
            let triggers = c.trigger_config.get_or_insert_default();
            triggers.triggers = vec![trigger_named("a"), trigger_named("a")];
        }),
        ("deferred_start=true", |c| c.deferred_start = Some(true)),
        ("buffers.size_kb must be a multiple of 4, got 3", |c| {
            c.buffers[0].size_kb = Some(3);
        }),
        ("Requested too large trace buffer", |c| {
            c.enable_extra_guardrails = Some(true);
            c.buffers[0].size_kb = Some(1 << 20);
        }),
        ("Too many buffers configured (130)", |c| {
            c.buffers.resize(130, c.buffers[1].clone());
        }),
        ("Duplicate buffer name", |c| {
            c.buffers[1].name = Some(b"n".to_vec());
        }),
        (
            "Data source \"p\" specified target_buffer_name \"z\"",
            |c| {
                let source = c.data_sources[0].config.get_or_insert_default();
                source.target_buffer_name = Some(b"z".to_vec());
            },
        ),
        ("Data source \"p\" specified both target_buffer=9", |c| {
            let source = c.data_sources[0].config.get_or_insert_default();
            source.target_buffer_name = Some(b"n".to_vec());
            c.buffers.push(c.buffers[0].clone());
            c.buffers[0].name = Some(b"n".to_vec());
        }),
        (
            "Data source \"p\" specified an out of bounds target_buffer",
            |c| {
                let source = c.data_sources[0].config.get_or_insert_default();
                source.target_buffer = Some(9);
            },
        ),
        ("An exclusive session with priority 1", |c| {
            c.unique_session_name = Some(b"taken".to_vec());
        }),
    ];
    first_is_reported(world, crate::world::SERVICE_UID, &mistakes);
}

#[test]
fn service_022_and_ipc_054_the_first_obstacle_of_others_is_told() {
    let mut world = World::new();
    let guarded = |c: &mut TraceConfig| c.enable_extra_guardrails = Some(true);
    let first = world.consumer();
    world.enable(first, semaphore(0).with(guarded));
    for _ in 0..4 {
        clone(&mut world, by_id(1));
    }
    let other = world.consumer_of(1);
    world.enable(other, named("taken"));
    let mistakes: [Mistake; 5] = [
        ("A trace with this unique session name (taken)", |c| {
            c.unique_session_name = Some(b"taken".to_vec());
        }),
        ("Semaphore \"s\"", |c| {
            c.session_semaphores = semaphore(1).0.session_semaphores
        }),
        ("A trace with unique session name \"\" began", |c| {
            c.enable_extra_guardrails = Some(true);
        }),
        (
            "Too many concurrent tracing sesions (5) for uid 1000",
            |_| {},
        ),
        (
            "Too many concurrent tracing sesions (5) for uid 1000",
            |c| {
                c.trace_filter.get_or_insert_default();
            },
        ),
    ];
    first_is_reported(world, crate::world::SERVICE_UID, &mistakes);
}

#[test]
fn service_022_and_ipc_054_what_cannot_be_provided_is_told_last_and_in_order() {
    let mistakes: [Mistake; 5] = [
        ("Trace filter bytecode invalid", |c| {
            c.trace_filter.get_or_insert_default();
        }),
        ("Invalid priority boost config", |c| {
            c.priority_boost.get_or_insert_default();
        }),
        ("When write_into_file==true either a FD", |c| {
            c.write_into_file = Some(true)
        }),
        (
            "Failed to allocate tracing buffers: Invalid buffer sizes",
            |c| {
                c.buffers[0].size_kb = Some(0);
            },
        ),
        ("Failed to allocate tracing buffers: OOM", |c| {
            let mode = ferretto_wire::encode(|buffer| buffer.varint(8, 9));
            ferretto_proto::Message::merge_from_slice(&mut c.buffers[0], &mode).unwrap();
        }),
    ];
    first_is_reported(World::new(), 0, &mistakes);
}

#[test]
fn service_010_lockdown() {
    let mut world = World::new();
    let foreign = world.simple_producer("foreign");
    let own = Behaviour {
        uid: crate::world::SERVICE_UID,
        ..Default::default()
    };
    let own = world.producer_with("own", own);
    world.register(own, "own");
    let consumer = world.consumer();
    let lock = |mode| {
        ConfigBuilder::new()
            .source("foreign")
            .source("own")
            .with(|c| c.lockdown_mode = Some(mode))
    };
    world.enable(consumer, lock(LockdownModeOperation::LOCKDOWN_SET));
    assert!(world.setups(foreign).is_empty());
    assert_eq!(world.setups(own).len(), 1);
    world.free(consumer);
    let late = world.producer("late");
    assert!(world.producers[&late].initialized.is_none());
    // A refused config does not lift it.
    let bad = lock(LockdownModeOperation::LOCKDOWN_CLEAR).with(|c| c.buffers[0].size_kb = Some(0));
    world.enable(consumer, bad);
    let later = world.producer("later");
    assert!(world.producers[&later].initialized.is_none());
    world.enable(consumer, lock(LockdownModeOperation::LOCKDOWN_CLEAR));
    assert_eq!(world.setups(foreign).len(), 1);
    let last = world.producer("last");
    assert!(world.producers[&last].initialized.is_some());
}
