//! The casts.

use ferretto_interop::{Cast, Sdk, Whose};

/// Every cast. The last proves the scenarios themselves.
pub(crate) const CASTS: &[Cast] = &all();

const SERVICES: [Whose; 2] = [Whose::Ours, Whose::Official];
const PRODUCERS: [Sdk; 3] = [Sdk::Ours, Sdk::OfficialOnOurs, Sdk::Official];
const CONSUMERS: [Whose; 2] = [Whose::Ours, Whose::Official];

const fn all() -> [Cast; SERVICES.len() * PRODUCERS.len() * CONSUMERS.len()] {
    let mut casts = [Cast {
        service: Whose::Ours,
        producer: Sdk::Ours,
        consumer: Whose::Ours,
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

/// The name of a cast in the names of its tests.
pub(crate) fn name(cast: Cast) -> String {
    let [service, producer, consumer] = players(cast).map(|player| player.replace(' ', "_"));
    format!("{service}_{producer}_{consumer}")
}

/// Returns the players of the service, the producer and the consumer.
pub(crate) fn players(cast: Cast) -> [&'static str; 3] {
    let producer = match cast.producer {
        Sdk::Ours => "ours",
        Sdk::Official => "official",
        Sdk::OfficialOnOurs => "official on ours",
    };
    [player(cast.service), producer, player(cast.consumer)]
}

fn player(whose: Whose) -> &'static str {
    match whose {
        Whose::Ours => "ours",
        Whose::Official => "official",
    }
}
