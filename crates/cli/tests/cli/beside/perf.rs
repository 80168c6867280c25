//! Comparison with `perf script`.

use std::process::Command;

use super::{EVENTS, Event, Instance, compare, known_fields, leaves, program, record_inside};
use crate::world::World;

#[test]
fn events_are_the_same_as_those_that_perf_prints() {
    let world = World::new();
    let Some(instance) = Instance::new("perf") else {
        return;
    };
    let mut perf = Command::new("perf");
    // The events of the program alone: those of a busy machine would fill every buffer. So a switch
    // belongs to the thread that leaves the CPU.
    perf.args(["record", "-q", "-m", "1024", "-o", "perf.data"])
        .args(["-e", EVENTS, "--"]);
    let recorded = match record_inside(&world, &instance, perf).output() {
        Ok(recorded) if world.path("perf.data").exists() => recorded,
        Ok(recorded) => {
            let why = String::from_utf8_lossy(&recorded.stderr).into_owned();
            return println!("skipped: perf cannot record here: {why}");
        }
        Err(error) => return println!("skipped: perf is not installed: {error}"),
    };
    let mut script = Command::new("perf");
    script
        .args(["script", "-i", "perf.data", "--show-lost-events"])
        .args(["-F", "comm,tid,event,trace"]);
    let script = world.at_home(script).output().unwrap();
    let script = String::from_utf8_lossy(&script.stdout).into_owned();
    let (Some(pid), false) = (program(&world), script.contains("PERF_RECORD_LOST")) else {
        return println!("skipped: perf lost events: {recorded:?}");
    };
    let event = |line: &str| {
        let (kind, head, text) = EVENTS.split(',').find_map(|kind| {
            let (head, text) = line.split_once(&format!("{kind}: "))?;
            Some((kind, head.trim(), text))
        })?;
        Some(Event {
            kind,
            text: known_fields(kind, text),
            is_of_program: head.starts_with("dd ") && head.ends_with(&pid.to_string()),
        })
    };
    let events = script.lines().filter_map(event).collect();
    compare(&world, pid, events, |text| leaves(text, pid));
}
