//! Timestamps of track events from C programs, and their loss if shared memory is full.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::common::events::*;
use crate::common::init_with;
use ferretto_c::*;
use ferretto_shm::Clock;
use ferretto_trace::events::{Kind, Problem};
use ferretto_wire::{Fields, encode};

/// Serializes the tests, which share 64 KiB of memory: one of them leaves no space for others.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    init_with(64);
    turn
}

#[test]
fn trackevent_009_to_013_times_are_written_as_the_config_says() {
    ferretto_testing::own_process!();
    let _turn = one_at_a_time();
    let category = Category::register("times");
    const START: u64 = 5_000_000_000;
    let write = move || {
        let at = |clock, time| timestamp(clock, START + time);
        category.emit(INSTANT, Some(c"a"), &[at(64, 0)]);
        category.emit(INSTANT, Some(c"b"), &[at(64, 1700)]);
        category.emit(INSTANT, Some(c"c"), &[at(64, 4000)]);
        category.emit(INSTANT, Some(c"d"), &[at(64, 900)]);
        category.emit(INSTANT, Some(c"e"), &[at(6, 5000)]);
    };
    let absolute = |unit: u64, is_absolute: bool| {
        encode(|m| {
            m.string(2, "times");
            m.bool(5, is_absolute);
            m.varint(6, unit);
        })
    };
    for (config, expected) in [
        (
            absolute(1, false),
            [
                (0, None),
                (1700, None),
                (2300, None),
                (START + 900, Some(6)),
                (START + 5000, Some(6)),
            ],
        ),
        (
            absolute(0, false),
            [
                (0, None),
                (1700, None),
                (2300, None),
                (START + 900, Some(6)),
                (START + 5000, Some(6)),
            ],
        ),
        (
            absolute(1000, false),
            [
                (0, None),
                (1, None),
                (3, None),
                (5_000_000, Some(65)),
                (START + 5000, Some(6)),
            ],
        ),
        (
            absolute(1, true),
            [
                (START, None),
                (START + 1700, None),
                (START + 4000, None),
                (START + 900, None),
                (START + 5000, None),
            ],
        ),
        (
            absolute(1000, true),
            [
                (5_000_000, None),
                (5_000_001, None),
                (5_000_004, None),
                (5_000_000, None),
                (START + 5000, Some(6)),
            ],
        ),
    ] {
        let session = record_with(&config);
        std::thread::spawn(write).join().unwrap();
        let packets = session.stop_and_read();
        let times: Vec<_> = packets
            .iter()
            .filter(|packet| Fields::find(11, packet).is_some())
            .map(|packet| {
                let number = |number| Fields::find(number, packet).and_then(|field| field.as_u64());
                (number(8).unwrap(), number(58))
            })
            .collect();
        assert_eq!(times, expected, "{config:x?}");
        let events = events(&packets);
        assert!(events.problems.is_empty(), "{:?}", events.problems);
        let last: BTreeSet<_> = events
            .events
            .iter()
            .filter_map(|event| event.time)
            .collect();
        assert_eq!(last.last(), Some(&(START + 5000)));
    }
}

#[test]
fn times_are_those_of_the_kernels_clock_and_never_go_backwards() {
    /// The largest allowed difference between the clocks, in nanoseconds. It is usually a thousand
    /// times smaller, but the test must pass on any machine.
    const NEAR: u64 = 1_000_000;
    /// Several times the calibration time of the processor's counter, in nanoseconds.
    const PERIOD: u64 = 60_000_000;

    ferretto_testing::own_process!();
    let _turn = one_at_a_time();
    let now = || Clock::Boottime.now();
    let (end, mut last) = (now() + PERIOD, 0);
    while last < end {
        let before = now();
        let time = PerfettoTeGetTimestamp();
        let after = now();
        assert_eq!(time.clock_id, PerfettoDsGetDefaultClockId());
        let near = before.saturating_sub(NEAR)..=after + NEAR;
        assert!(near.contains(&time.value), "{time:?} {near:?}");
        assert!(time.value >= last, "{time:?} after {last}");
        last = time.value;
    }
}

#[test]
fn trackevent_007_after_a_loss_a_sequence_restarts() {
    ferretto_testing::own_process!();
    let _turn = one_at_a_time();
    let category = Category::register("losses");
    let session = record("losses");
    // Sixteen times the size of the memory, so that the service cannot read chunks as fast as they
    // are written.
    let long: &CStr = Box::leak(
        CString::new("x".repeat(1 << 20))
            .unwrap()
            .into_boxed_c_str(),
    );
    let write_long = || category.emit(INSTANT, Some(c"long"), &[string(c"text", long)]);
    let write_short = || category.emit(INSTANT, Some(c"short"), &[]);
    // SAFETY: by the contract of the headers.
    let flush = || assert!(unsafe { PerfettoTracingSessionFlushBlocking(session.0, 10_000) });
    let mut packets = Vec::new();
    // The service writes 1 to the field for the first packet; writers use the same field for
    // losses.
    let lost = |packets: &[Vec<u8>]| {
        let lost = |packet| Fields::find(42, packet).and_then(|field| field.as_u64());
        packets.iter().any(|packet| lost(packet) == Some(257))
    };
    while !lost(&packets) {
        write_short();
        write_long();
        flush();
        write_short();
        flush();
        packets.extend(session.read());
    }
    session.stop();
    let first = packets
        .iter()
        .position(|packet| lost(std::slice::from_ref(packet)))
        .unwrap();
    let flags = Fields::find(13, &packets[first]).and_then(|field| field.as_u64());
    assert_eq!(flags, Some(1));
    let events = events(&packets[first..]);
    assert!(
        events
            .events
            .last()
            .is_some_and(|event| event.kind == Kind::Instant && event.categories == ["losses"])
    );
    assert_eq!(events.problems.count(Problem::StateInvalid), 0);
}
