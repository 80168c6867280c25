//! The casts: combinations of implementations.

use ferretto_interop::{Cast, Sdk, Side};

/// All casts. The last one consists of official programs only, and checks the scenarios themselves.
pub(crate) const CASTS: &[Cast] = &all();

const SERVICES: [Side; 2] = [Side::Ours, Side::Official];
const PRODUCERS: [Sdk; 3] = [Sdk::Ours, Sdk::OfficialOnOurs, Sdk::Official];
const CONSUMERS: [Side; 2] = [Side::Ours, Side::Official];

const fn all() -> [Cast; SERVICES.len() * PRODUCERS.len() * CONSUMERS.len()] {
    let mut casts = [Cast {
        service: Side::Ours,
        producer: Sdk::Ours,
        consumer: Side::Ours,
    }; 12];
    let mut number = 0;
    while number < casts.len() {
        casts[number] = Cast {
            service: SERVICES[number / 6],
            producer: PRODUCERS[number / 2 % 3],
            consumer: CONSUMERS[number % 2],
        };
        number += 1;
    }
    casts
}

/// Returns the name of a cast for the names of its tests.
pub(crate) fn name(cast: Cast) -> String {
    let [service, producer, consumer] = players(cast).map(|player| player.replace(' ', "_"));
    format!("{service}_{producer}_{consumer}")
}

/// Returns the implementations of the service, the producer and the consumer.
pub(crate) fn players(cast: Cast) -> [&'static str; 3] {
    let producer = match cast.producer {
        Sdk::Ours => "ours",
        Sdk::Official => "official",
        Sdk::OfficialOnOurs => "official on ours",
    };
    [player(cast.service), producer, player(cast.consumer)]
}

fn player(whose: Side) -> &'static str {
    match whose {
        Side::Ours => "ours",
        Side::Official => "official",
    }
}
