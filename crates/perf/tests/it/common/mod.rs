//! Configs, and work to be sampled.
#![allow(dead_code, reason = "not every test uses everything")]

pub(crate) mod kernel;
pub(crate) mod ring;

use std::time::{Duration, Instant};

use ferretto_perf::config::{Kernel, Plan};
use ferretto_perf::event::{OpenError, Opened, Scope, open_all};
use ferretto_perf::record::Record;
use ferretto_proto::perf_event_config::{CallstackSampling, UnwindMode};
use ferretto_proto::perf_events::timebase::{Event, Interval};
use ferretto_proto::perf_events::{Counter, Timebase};
use ferretto_proto::{FollowerEvent, Message, MessageField, PerfEventConfig, follower_event};

/// The time limit of every wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn plan(config: &PerfEventConfig) -> Plan {
    Plan::new(&config.encode_to_vec(), &Kernel::default()).expect("a plan")
}

/// Returns a config that samples at this frequency.
pub(crate) fn at(frequency: u64) -> PerfEventConfig {
    timebase(Timebase {
        interval: Some(Interval::Frequency(frequency)),
        ..Default::default()
    })
}

pub(crate) fn timebase(timebase: Timebase) -> PerfEventConfig {
    PerfEventConfig {
        timebase: MessageField::some(timebase),
        ..Default::default()
    }
}

/// Returns the event of a counter.
pub(crate) fn counted(counter: Counter) -> Option<Event> {
    Some(Event::Counter(counter))
}

pub(crate) fn with_callstacks(
    mut config: PerfEventConfig,
    mode: UnwindMode,
    kernel: bool,
) -> PerfEventConfig {
    config.callstack_sampling = MessageField::some(CallstackSampling {
        kernel_frames: Some(kernel),
        user_frames: Some(mode),
        ..Default::default()
    });
    config
}

pub(crate) fn follower(counter: Counter) -> FollowerEvent {
    FollowerEvent {
        event: Some(follower_event::Event::Counter(counter)),
        ..Default::default()
    }
}

/// Opens a plan; prints the reason if this user or machine cannot.
pub(crate) fn opened(plan: &Plan, scope: Option<&Scope>) -> Option<Opened> {
    match open_all(plan, &Kernel::default(), scope) {
        Ok(opened) => Some(opened),
        Err(error @ OpenError::NotPermitted { .. }) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Enables the events and passes their records to `seen` while this thread is busy, until `done`.
pub(crate) fn observe(
    opened: &mut Opened,
    mut each: impl FnMut(Record<'_>),
    done: impl Fn() -> bool,
) {
    for reader in &mut opened.readers {
        reader.enable().expect("enabled");
    }
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "waited in vain");
        burn();
        for reader in &mut opened.readers {
            reader.read(u64::MAX, &mut each);
        }
    }
    for reader in &mut opened.readers {
        reader.disable().expect("disabled");
        reader.read(u64::MAX, &mut each);
    }
}

/// Works for some milliseconds.
pub(crate) fn burn() {
    let mut number = 1_u64;
    for _ in 0..200_000 {
        number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005) + 1);
    }
}
