//! Random traces of track events and of scheduling.

use std::fmt::Write as _;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

/// The number of traces.
const CASES: u32 = 60;
/// Packets with the descriptors of the tracks.
const TRACKS: &str = r#"
packet { system_info { utsname { sysname: "Linux" release: "6.1.0" version: "1" machine: "x86_64" } } }
packet { timestamp: 1 trusted_packet_sequence_id: 1 sequence_flags: 1 track_descriptor { uuid: 1 process { pid: 100 process_name: "p" } } }
packet { timestamp: 1 trusted_packet_sequence_id: 1 track_descriptor { uuid: 2 parent_uuid: 1 thread { pid: 100 tid: 101 thread_name: "t" } } }
packet { timestamp: 1 trusted_packet_sequence_id: 1 track_descriptor { uuid: 3 parent_uuid: 1 name: "of the process" } }
packet { timestamp: 1 trusted_packet_sequence_id: 1 track_descriptor { uuid: 4 name: "global" } }
packet { timestamp: 1 trusted_packet_sequence_id: 1 track_descriptor { uuid: 5 name: "global" } }
packet { timestamp: 1 trusted_packet_sequence_id: 1 track_descriptor { uuid: 6 parent_uuid: 2 name: "count" counter { unit: UNIT_COUNT } } }
"#;

#[derive(Clone, Debug)]
enum Event {
    Begin(u64, u8),
    End(u64),
    Instant(u64, u8, u8),
    Count(i32),
    Flow(u64, u8),
    Switch(u8, u8, u8),
    Wake(u8, u8),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (2..6u64, 0..4u8).prop_map(|(track, name)| Event::Begin(track, name)),
        3 => (2..6u64).prop_map(Event::End),
        1 => (2..6u64, 0..4u8, 0..3u8).prop_map(|(track, name, value)| Event::Instant(track, name, value)),
        1 => any::<i32>().prop_map(Event::Count),
        1 => (2..6u64, 0..3u8).prop_map(|(track, flow)| Event::Flow(track, flow)),
        4 => (0..2u8, 0..5u8, 0..4u8).prop_map(|(cpu, next, state)| Event::Switch(cpu, next, state)),
        2 => (0..2u8, 1..5u8).prop_map(|(cpu, tid)| Event::Wake(cpu, tid)),
    ]
}

fn trace(events: &[(u8, Event)]) -> String {
    let mut text = TRACKS.to_owned();
    let mut now = 10;
    let mut running = [0; 2];
    for (step, event) in events {
        now += u64::from(*step);
        let head =
            format!("packet {{ timestamp: {now} trusted_packet_sequence_id: 1 track_event {{");
        let _ = match event {
            Event::Begin(track, name) => {
                writeln!(
                    text,
                    "{head} type: TYPE_SLICE_BEGIN track_uuid: {track} name: \"n{name}\" }} }}"
                )
            }
            Event::End(track) => {
                writeln!(
                    text,
                    "{head} type: TYPE_SLICE_END track_uuid: {track} }} }}"
                )
            }
            Event::Instant(track, name, value) => writeln!(
                text,
                "{head} type: TYPE_INSTANT track_uuid: {track} name: \"i{name}\" debug_annotations {{ name: \"v\" int_value: {value} }} }} }}"
            ),
            Event::Count(value) => {
                writeln!(
                    text,
                    "{head} type: TYPE_COUNTER track_uuid: 6 counter_value: {value} }} }}"
                )
            }
            Event::Flow(track, flow) => {
                writeln!(
                    text,
                    "{head} type: TYPE_INSTANT track_uuid: {track} name: \"f\" flow_ids: {flow} }} }}"
                )
            }
            Event::Switch(cpu, next, state) => {
                let previous = std::mem::replace(&mut running[usize::from(*cpu)], *next);
                let state = [0, 1, 2, 256][usize::from(*state)];
                writeln!(
                    text,
                    "packet {{ trusted_packet_sequence_id: 2 ftrace_events {{ cpu: {cpu} event {{ timestamp: {now} pid: {previous} sched_switch {{ prev_comm: \"c{previous}\" prev_pid: {previous} prev_prio: 120 prev_state: {state} next_comm: \"c{next}\" next_pid: {next} next_prio: 120 }} }} }} }}"
                )
            }
            Event::Wake(cpu, tid) => {
                let waker = running[usize::from(*cpu)];
                // Without flags, which upstream takes for an event without name.
                writeln!(
                    text,
                    "packet {{ trusted_packet_sequence_id: 2 ftrace_events {{ cpu: {cpu} event {{ timestamp: {now} pid: {waker} sched_waking {{ comm: \"c{tid}\" pid: {tid} prio: 120 success: 1 target_cpu: {cpu} }} }} }} }}"
                )
            }
        };
    }
    text
}

/// Checks random traces from a fixed seed, and shrinks one that has differences.
pub(crate) fn check(differences: impl Fn(&str) -> Vec<String>) {
    let config = Config {
        cases: CASES,
        max_shrink_iters: 200,
        failure_persistence: None,
        ..Config::default()
    };
    let numbers = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, numbers);
    let events = prop::collection::vec((0..4u8, event()), 0..60);
    let result = runner.run(&events, |events| {
        let text = trace(&events);
        let found = differences(&text);
        if found.is_empty() {
            return Ok(());
        }
        let found = found.join("\n");
        Err(TestCaseError::fail(format!("{text}\n{found}")))
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
