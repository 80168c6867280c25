//! Kernel events, compared with those that `perf` recorded at the same time: the same events with
//! the same text in the same order.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use ferretto_proto::fields::{
    block_rq_issue_ftrace_event as block, ftrace_event, ftrace_event_bundle,
    sched_switch_ftrace_event as switch, sys_enter_ftrace_event as enter,
    sys_exit_ftrace_event as exit, trace_packet,
};
use ferretto_trace::TraceReader;
use ferretto_wire::Fields;

use crate::world::{FERRETTO, World};

const CONFIG: &str = r#"
buffers { size_kb: 65536 }
data_sources { config { name: "linux.ftrace" ftrace_config {
  instance_name: "INSTANCE" buffer_size_kb: 16384 compact_sched { enabled: false }
  ftrace_events: "sched/sched_switch" ftrace_events: "block/block_rq_issue"
  ftrace_events: "raw_syscalls/sys_enter" ftrace_events: "raw_syscalls/sys_exit" } } }
"#;

const EVENTS: &str =
    "sched:sched_switch,block:block_rq_issue,raw_syscalls:sys_enter,raw_syscalls:sys_exit";

/// The recorded program, which writes to the disk and waits for it.
const PROGRAM: &str = "echo $$ > pid; exec dd if=/dev/zero of=written bs=4k count=20 oflag=dsync";

/// A tracefs instance that is removed at the end of the test.
struct Instance(String);

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

fn number(message: &[u8], field: u32) -> u64 {
    Fields::find(field, message)
        .and_then(|it| it.as_u64())
        .unwrap_or(0)
}

fn text(message: &[u8], field: u32) -> String {
    let field = Fields::find(field, message);
    String::from_utf8_lossy(field.and_then(|it| it.as_bytes()).unwrap_or_default()).into_owned()
}

/// Returns the kernel's letters for a state.
fn letters(state: u64) -> String {
    let names = ["S", "D", "T", "t", "X", "Z", "P", "I"].iter().enumerate();
    let set: Vec<_> = names
        .filter(|(bit, _)| state >> bit & 1 == 1)
        .map(|(_, name)| *name)
        .collect();
    let plus = if state & 0x100 != 0 { "+" } else { "" };
    match set.is_empty() {
        true => format!("R{plus}"),
        false => format!("{}{plus}", set.join("|")),
    }
}

/// Returns the text of an event in the format of `perf script`; `None` for other kinds of events.
fn printed(event: &[u8]) -> Option<(&'static str, String)> {
    let of = |field| Fields::find(field, event).and_then(|it| it.as_bytes());
    if let Some(of) = of(ftrace_event::SYS_ENTER) {
        let args = Fields::new(of).map_while(Result::ok);
        let args = args.filter(|field| field.number == enter::ARGS);
        let args: Vec<String> = args
            .flat_map(|field| field.as_varints().collect::<Vec<_>>())
            .map(|arg| format!("{arg:x}"))
            .collect();
        let id = number(of, enter::ID) as i64;
        return Some((
            "raw_syscalls:sys_enter",
            format!("NR {id} ({})", args.join(", ")),
        ));
    }
    if let Some(of) = of(ftrace_event::SYS_EXIT) {
        let (id, ret) = (number(of, exit::ID) as i64, number(of, exit::RET) as i64);
        return Some(("raw_syscalls:sys_exit", format!("NR {id} = {ret}")));
    }
    if let Some(of) = of(ftrace_event::SCHED_SWITCH) {
        let line = format!(
            "prev_comm={} prev_pid={} prev_prio={} prev_state={} ==> next_comm={} next_pid={} next_prio={}",
            text(of, switch::PREV_COMM),
            number(of, switch::PREV_PID),
            number(of, switch::PREV_PRIO) as i64,
            letters(number(of, switch::PREV_STATE)),
            text(of, switch::NEXT_COMM),
            number(of, switch::NEXT_PID),
            number(of, switch::NEXT_PRIO) as i64,
        );
        return Some(("sched:sched_switch", line));
    }
    let of = of(ftrace_event::BLOCK_RQ_ISSUE)?;
    let dev = number(of, block::DEV);
    let line = format!(
        "{},{} {} {} () {} + {}",
        dev >> 8 & 0xfff,
        dev & 0xff | dev >> 12 & 0xfff00,
        text(of, block::RWBS),
        number(of, block::BYTES),
        number(of, block::SECTOR),
        number(of, block::NR_SECTOR)
    );
    Some(("block:block_rq_issue", line))
}

/// Returns true if an event is of the program itself, after it was executed.
fn is_own(kind: &str, line: &str, pid: u64) -> bool {
    match kind {
        "sched:sched_switch" => {
            line.contains(&format!("prev_comm=dd prev_pid={pid} "))
                || line.contains(&format!("next_comm=dd next_pid={pid} "))
        }
        _ => true,
    }
}

#[test]
fn events_are_the_same_as_those_that_perf_prints() {
    let world = World::new();
    let instance = format!("test-perf-{}", std::process::id());
    let folder = format!("/sys/kernel/tracing/instances/{instance}");
    if let Err(error) = fs::create_dir(&folder) {
        return println!("skipped: tracefs instances are not available: {error}");
    }
    let _instance = Instance(folder);
    world.write("config", CONFIG.replace("INSTANCE", &instance));
    let mut perf = Command::new("perf");
    perf.args([
        "record",
        "-q",
        "-a",
        "-m",
        "8192",
        "-o",
        "perf.data",
        "-e",
        EVENTS,
        "--",
    ])
    .arg(FERRETTO)
    .args([
        "record", "-q", "-c", "config", "-o", "t", "--", "sh", "-c", PROGRAM,
    ])
    .stdin(Stdio::null());
    let recorded = match world.at_home(perf).output() {
        Ok(recorded) if world.path("perf.data").exists() => recorded,
        Ok(recorded) => {
            let why = String::from_utf8_lossy(&recorded.stderr).into_owned();
            return println!("skipped: perf cannot record here: {why}");
        }
        Err(error) => return println!("skipped: perf is not installed: {error}"),
    };
    let mut script = Command::new("perf");
    script.args([
        "script",
        "-i",
        "perf.data",
        "--show-lost-events",
        "-F",
        "comm,tid,event,trace",
    ]);
    let script = world.at_home(script).output().unwrap();
    let script = String::from_utf8_lossy(&script.stdout).into_owned();
    if !Path::new(&world.path("pid")).exists() || script.contains("PERF_RECORD_LOST") {
        return println!("skipped: perf lost events: {recorded:?}");
    }
    let pid = String::from_utf8(world.read("pid")).unwrap();
    let pid: u64 = pid.trim().parse().unwrap();

    let mut theirs = Vec::new();
    for line in script.lines() {
        let Some((head, rest)) = EVENTS.split(',').find_map(|kind| {
            let (head, rest) = line.split_once(&format!("{kind}: "))?;
            Some((head, (kind, rest)))
        }) else {
            continue;
        };
        let (kind, rest) = rest;
        let is_of_program =
            head.trim().starts_with("dd ") && head.trim().ends_with(&pid.to_string());
        // The priority of the request after the sector is newer than the schema.
        let rest = match kind {
            "block:block_rq_issue" => {
                let words: Vec<&str> = rest.split_whitespace().take(7).collect();
                words.join(" ")
            }
            _ => rest.trim().to_owned(),
        };
        if kind == "sched:sched_switch" || is_of_program {
            theirs.push((kind, rest));
        }
    }
    theirs.retain(|(kind, line)| is_own(kind, line, pid));

    let mut ours = Vec::new();
    let mut trace = TraceReader::new(fs::File::open(world.path("t")).unwrap());
    trace
        .try_read_all(|packet| {
            let bundles = Fields::new(packet.bytes).map_while(Result::ok);
            for bundle in bundles.filter(|field| field.number == trace_packet::FTRACE_EVENTS) {
                let events =
                    Fields::new(bundle.as_bytes().unwrap_or_default()).map_while(Result::ok);
                for event in events.filter(|field| field.number == ftrace_event_bundle::EVENT) {
                    let event = event.as_bytes().unwrap_or_default();
                    let time = number(event, ftrace_event::TIMESTAMP);
                    let of = number(event, ftrace_event::PID);
                    if let Some((kind, line)) = printed(event)
                        && (kind == "sched:sched_switch" || of == pid)
                        && is_own(kind, &line, pid)
                    {
                        ours.push((time, kind, line));
                    }
                }
            }
            true
        })
        .unwrap();
    // Each CPU has separate packets.
    ours.sort_by_key(|(time, ..)| *time);

    for kind in EVENTS.split(',') {
        let theirs: Vec<&String> = theirs
            .iter()
            .filter(|(of, _)| *of == kind)
            .map(|(_, line)| line)
            .collect();
        let ours: Vec<&String> = ours
            .iter()
            .filter(|(_, of, _)| *of == kind)
            .map(|(.., line)| line)
            .collect();
        assert!(
            kind == "block:block_rq_issue" || theirs.len() > 10,
            "{kind}: {theirs:?}"
        );
        if kind == "sched:sched_switch" {
            // The recording may end before the program has left its CPU for the last time.
            let both = ours.len().min(theirs.len());
            assert!(both + 3 >= ours.len().max(theirs.len()), "{kind}");
            assert_eq!(ours[..both], theirs[..both], "{kind}");
            continue;
        }
        // Before the execution, the process had another name, which perf prints and Ferretto does
        // not.
        let begin = ours.len().saturating_sub(theirs.len());
        assert_eq!(ours[begin..], theirs[..], "{kind}");
    }
}
