//! Regular expressions of configs, and limits on their cost.

use ferretto_ipc::port::consumer::Request;
use ferretto_proto::ChangeTraceConfigRequest;

use crate::world::{ConfigBuilder, World};

fn with_expressions(count: usize, pattern: &str) -> ConfigBuilder {
    ConfigBuilder::new().source("p").with(|c| {
        c.data_sources[0].producer_name_regex_filter = vec![pattern.into(); count];
    })
}

#[test]
fn the_expressions_of_a_session_and_of_a_user_are_bounded() {
    let mut world = World::new();
    let refusal = |world: &mut World, uid: u32, config: ConfigBuilder| {
        let consumer = world.consumer_of(uid);
        let session = world.enable(consumer, config);
        world.ended(consumer, session)
    };
    let too_many = "one session may have 256 expressions of 4096 kB compiled, all sessions of a user 512 of 8192 kB";
    let refused = refusal(&mut world, 1, with_expressions(6_000, "a.*b")).unwrap();
    assert_eq!(
        refused,
        format!("Invalid regular expression \"a.*b\" in producer_name_regex_filter: {too_many}")
    );
    // A few large ones also exceed the limit.
    let large = r"\w{10}".to_owned() + &"x".repeat(200);
    let refused = refusal(&mut world, 1, with_expressions(200, &large)).unwrap();
    assert!(
        refused.ends_with(too_many) && refused.len() < 400,
        "{refused}"
    );
    let refused = refusal(&mut world, 1, with_expressions(1, r"\w{100}")).unwrap();
    assert!(
        refused.ends_with("it takes more than 262144 bytes once compiled"),
        "{refused}"
    );
    let refused = refusal(&mut world, 1, with_expressions(1, &"x".repeat(4097))).unwrap();
    assert!(
        refused.ends_with("it has 4097 bytes, at most 4096 are allowed"),
        "{refused}"
    );

    assert_eq!(refusal(&mut world, 1, with_expressions(256, "a.*b")), None);
    assert_eq!(refusal(&mut world, 1, with_expressions(256, "a.*b")), None);
    assert!(refusal(&mut world, 1, with_expressions(1, "a.*b")).is_some());
    assert_eq!(refusal(&mut world, 1, with_expressions(0, "")), None);
    assert_eq!(refusal(&mut world, 2, with_expressions(256, "a.*b")), None);
}

#[test]
fn expressions_of_a_changed_config_have_the_same_limit() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    world.enable(consumer, with_expressions(1, "none"));
    let mut change = |config: ConfigBuilder| {
        let request = ChangeTraceConfigRequest {
            trace_config: config.0.into(),
            ..Default::default()
        };
        world.call(consumer, Request::ChangeTraceConfig(request));
        world.setups(producer).len()
    };
    assert_eq!(
        change(with_expressions(256, "p")),
        0,
        "the change is ignored"
    );
    // Replaced expressions do not count.
    for _ in 0..10 {
        assert_eq!(change(with_expressions(100, "other")), 0);
    }
    assert_eq!(change(with_expressions(100, "p")), 1);
}
