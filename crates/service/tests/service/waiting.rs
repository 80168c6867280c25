//! The time for which sessions wait for producers that do not confirm.

use ferretto_service::ClientId;

use crate::world::{Behaviour, ConfigBuilder, MS, World};

/// Returns a producer that promises to confirm starts and stops.
fn promising(world: &mut World, name: &str, behaviour: Behaviour) -> ClientId {
    let producer = world.producer_with(name, behaviour);
    world.register_with(producer, "source", |d| {
        d.will_notify_on_start = Some(true);
        d.will_notify_on_stop = Some(true);
    });
    producer
}

fn silent() -> Behaviour {
    Behaviour {
        confirms_start: false,
        confirms_flush: false,
        confirms_stop: false,
        ..Default::default()
    }
}

/// Records for a second. Returns the milliseconds until the end.
fn record(world: &mut World) -> u64 {
    let consumer = world.consumer();
    let config = ConfigBuilder::new().source("source");
    let config = config.with(|c| c.duration_ms = Some(1000));
    let (session, begin) = (world.enable(consumer, config), world.now.boottime);
    while world.ended(consumer, session).is_none() {
        world.run_for(1);
        assert!(world.now.boottime - begin < 20_000 * MS, "it does not end");
    }
    world.disconnect(consumer);
    (world.now.boottime - begin) / MS
}

#[test]
fn a_producer_that_confirms_nothing_lengthens_no_recording() {
    let mut world = World::new();
    promising(&mut world, "honest", Behaviour::default());
    promising(&mut world, "silent", silent());
    for _ in 0..3 {
        assert_eq!(record(&mut world), 1000);
    }
}

#[test]
fn a_confirmation_is_awaited_for_a_short_time_at_first_and_not_after_a_miss() {
    for stops in [false, true] {
        let mut world = World::new();
        let behaviour = Behaviour {
            confirms_start: true,
            confirms_flush: stops,
            ..silent()
        };
        promising(&mut world, "p", behaviour);
        assert_eq!(
            record(&mut world),
            3000,
            "two seconds for the flush or the stop"
        );
        if !stops {
            assert_eq!(record(&mut world), 1000);
        }
    }
}

#[test]
fn a_producer_that_used_to_confirm_is_awaited_longer_once_for_its_user() {
    let mut world = World::new();
    let deaf = |world: &mut World, producer: ClientId| {
        world.producers.get_mut(&producer).unwrap().behaviour = Behaviour {
            confirms_start: true,
            ..silent()
        };
    };
    let first = promising(&mut world, "p", Behaviour::default());
    assert_eq!(record(&mut world), 1000);
    deaf(&mut world, first);
    assert_eq!(record(&mut world), 6000);
    assert_eq!(record(&mut world), 1000);
    world.disconnect(first);
    // Another connection of the same user proves itself, but is not trusted as long.
    let second = promising(&mut world, "p", Behaviour::default());
    assert_eq!(record(&mut world), 1000);
    deaf(&mut world, second);
    assert_eq!(record(&mut world), 3000);
    // A user without a miss is.
    let other = Behaviour {
        uid: 2001,
        ..Default::default()
    };
    world.disconnect(second);
    let third = promising(&mut world, "p", other);
    assert_eq!(record(&mut world), 1000);
    deaf(&mut world, third);
    assert_eq!(record(&mut world), 6000);
}
