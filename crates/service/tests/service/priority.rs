//! Sessions that request a higher priority of the service.

use ferretto_proto::PriorityBoostConfig;
use ferretto_proto::priority_boost_config::BoostPolicy;
use ferretto_service::{Event, Priority};

use crate::world::{ConfigBuilder, World};

fn boosted(policy: BoostPolicy, priority: u32) -> ConfigBuilder {
    ConfigBuilder::new().with(|c| {
        c.priority_boost = PriorityBoostConfig {
            policy: Some(policy),
            priority: Some(priority),
            ..Default::default()
        }
        .into();
    })
}

fn nice(value: u32) -> ConfigBuilder {
    boosted(BoostPolicy::POLICY_SCHED_OTHER, value)
}

fn realtime(priority: u32) -> ConfigBuilder {
    boosted(BoostPolicy::POLICY_SCHED_FIFO, priority)
}

#[test]
fn the_highest_priority_applies_until_its_session_is_freed() {
    let mut world = World::new();
    let consumers = [(); 4].map(|()| world.consumer());
    world.enable(consumers[0], nice(20));
    world.enable(consumers[1], realtime(2));
    // Lower than the current priority, which stays.
    world.enable(consumers[2], nice(5));
    world.enable(consumers[3], ConfigBuilder::new());
    let (a, b, c) = (
        Priority::Normal(20),
        Priority::Realtime(2),
        Priority::Normal(5),
    );
    assert_eq!(world.priorities, [Some(a), Some(b)]);
    assert_eq!(world.sessions(), 4);
    // Its data can still be read, so that its priority still applies.
    world.disable(consumers[1]);
    assert_eq!(world.priorities.len(), 2);
    world.free(consumers[1]);
    assert_eq!(world.priorities[2..], [Some(a)]);
    world.disconnect(consumers[0]);
    assert_eq!(world.priorities[3..], [Some(c)]);
    world.free(consumers[2]);
    assert_eq!(world.priorities[4..], [None]);
}

#[test]
fn service_022_row_29_a_refused_priority_ends_the_session_before_it_begins() {
    let mut world = World::new();
    let (first, second) = (world.consumer(), world.consumer());
    world.enable(first, nice(3));
    world.priority_refused = true;
    let session = world.enable(second, realtime(1));
    assert_eq!(
        world.ended(second, session).unwrap(),
        "Failed to boost priority: setpriority(-5) failed"
    );
    assert_eq!(world.sessions(), 1);
    // The connection can still be used, and the other session keeps its priority.
    let session = world.enable(second, nice(2));
    assert_eq!(world.ended(second, session), None);
    world.priority_refused = false;
    world.free(second);
    assert_eq!(world.priorities.last(), Some(&Some(Priority::Normal(3))));
    world.free(first);
    assert_eq!(world.priorities.last(), Some(&None));
}

#[test]
fn a_refused_config_does_not_raise_the_priority() {
    let mut world = World::new();
    let consumer = world.consumer();
    let config = nice(1).with(|c| c.write_into_file = Some(true));
    let session = world.enable(consumer, config);
    let error = world.ended(consumer, session).unwrap();
    assert!(error.starts_with("When write_into_file==true"), "{error}");
    assert_eq!(world.priorities, []);
}

#[test]
fn the_file_is_created_after_the_priority_was_granted() {
    let mut world = World::new();
    world.slow = true;
    let consumer = world.consumer();
    let config = |path: &str| {
        nice(1).with(|c| {
            c.write_into_file = Some(true);
            c.output_path = Some(path.into());
        })
    };
    world.enable(consumer, config("/one"));
    assert_eq!((world.priorities.len(), world.files.len()), (1, 0));
    world.deliver_late();
    assert_eq!(world.sessions(), 1);
    assert_eq!(world.files.len(), 1);
    world.free(consumer);
    assert_eq!(world.priorities.len(), 1, "the file is not complete yet");
    world.deliver_late();
    assert_eq!(world.priorities, [Some(Priority::Normal(1)), None]);
    // The priority is lowered if the file cannot be created.
    world.enable(consumer, config("/two"));
    world.event(Event::PrioritySet { client: consumer });
    let file = *world.files.keys().last().unwrap();
    let error = "File exists (os error 17)".into();
    world.event(Event::FileFailed { file, error });
    assert_eq!(world.priorities[2..], [Some(Priority::Normal(1)), None]);
}

#[test]
fn a_consumer_that_disconnects_while_it_waits_leaves_no_priority() {
    let mut world = World::new();
    world.slow = true;
    let consumer = world.consumer();
    world.enable(consumer, nice(1));
    world.disconnect(consumer);
    world.deliver_late();
    assert_eq!(world.priorities, [Some(Priority::Normal(1)), None]);
    assert_eq!(world.sessions(), 0);
}

#[test]
fn a_clone_requests_no_priority() {
    use ferretto_ipc::port::consumer::Request;
    use ferretto_proto::{CloneSessionRequest, clone_session_request::Selector};
    let mut world = World::new();
    let (consumer, cloner) = (world.consumer(), world.consumer());
    world.enable(consumer, nice(1));
    let request = CloneSessionRequest {
        selector: Some(Selector::SessionId(1)),
        ..Default::default()
    };
    world.call(cloner, Request::CloneSession(request));
    world.free(consumer);
    assert_eq!(world.sessions(), 1);
    assert_eq!(world.priorities, [Some(Priority::Normal(1)), None]);
}
