//! Comparison with `trace-cmd report`.

use std::process::Command;

use super::{EVENTS, Event, Instance, compare, gets, known_fields, leaves, program, record_inside};
use crate::world::World;

#[test]
fn events_are_the_same_as_those_that_trace_cmd_prints() {
    let world = World::new();
    let (Some(instance), Some(their_instance)) =
        (Instance::new("ours"), Instance::new("trace-cmd"))
    else {
        return;
    };
    let mut trace_cmd = Command::new("trace-cmd");
    trace_cmd.args(["record", "-q", "-o", "trace.dat", "-b", "16384"]);
    // Kernels without a function tracer refuse to open its files.
    trace_cmd.args(["-d", "--no-filter", "-B", &their_instance.name]);
    for event in EVENTS.split(',') {
        trace_cmd.args(["-e", event]);
    }
    let recorded = match record_inside(&world, &instance, trace_cmd).output() {
        Ok(recorded) => recorded,
        Err(error) => return println!("skipped: trace-cmd is not installed: {error}"),
    };
    let why = String::from_utf8_lossy(&recorded.stderr).into_owned();
    let (Some(pid), true) = (program(&world), world.path("trace.dat").exists()) else {
        return println!("skipped: trace-cmd cannot record here: {why}");
    };
    // Its plugins print other text than the kernel.
    let mut report = Command::new("trace-cmd");
    report.args(["report", "-N", "-i", "trace.dat"]);
    let report = world.at_home(report).output().unwrap();
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    if report.contains("EVENTS DROPPED") || report.contains("[LOST ") {
        return println!("skipped: trace-cmd lost events: {why}");
    }
    let thread = format!("dd-{pid}");
    let event = |line: &str| {
        let (kind, head, text) = EVENTS.split(',').find_map(|kind| {
            let (_, name) = kind.split_once(':')?;
            let (head, text) = line.split_once(&format!(": {name}: "))?;
            Some((kind, head, text))
        })?;
        Some(Event {
            kind,
            text: known_fields(kind, text),
            is_of_program: head.split_whitespace().any(|word| word == thread),
        })
    };
    let events = report.lines().filter_map(event).collect();
    compare(&world, pid, events, |text| {
        leaves(text, pid) || gets(text, pid)
    });
}
