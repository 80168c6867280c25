//! Kernel events, compared with those that other programs recorded at the same time: the same
//! events with the same text in the same order.

mod perf;
mod trace_cmd;

use std::fs;
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
struct Instance {
    name: String,
}

impl Instance {
    /// Creates an instance for a test. Prints the reason if this is not possible.
    ///
    /// It has events of programs that this thread starts, and of those that they start: a busy
    /// machine would fill every buffer.
    fn new(of: &str) -> Option<Self> {
        let instance = Self {
            name: format!("test-{of}-{}", std::process::id()),
        };
        match fs::create_dir(instance.folder()) {
            Ok(()) => {
                let thread = fs::read_link("/proc/thread-self").unwrap();
                let thread = thread.file_name().unwrap().to_str().unwrap();
                fs::write(instance.folder() + "/set_event_pid", thread).unwrap();
                fs::write(instance.folder() + "/options/event-fork", "1").unwrap();
                Some(instance)
            }
            Err(error) => {
                println!("skipped: tracefs instances are not available: {error}");
                None
            }
        }
    }

    fn folder(&self) -> String {
        format!("/sys/kernel/tracing/instances/{}", self.name)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(self.folder());
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
    if set.is_empty() {
        format!("R{plus}")
    } else {
        format!("{}{plus}", set.join("|"))
    }
}

/// Returns the text of an event in the kernel's format; `None` for other kinds of events.
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

/// Returns true if the recorded program leaves its CPU, after it was executed.
fn leaves(text: &str, pid: u64) -> bool {
    text.contains(&format!("prev_comm=dd prev_pid={pid} "))
}

/// Returns true if the recorded program gets a CPU, after it was executed.
fn gets(text: &str, pid: u64) -> bool {
    text.contains(&format!("next_comm=dd next_pid={pid} "))
}

/// An event that another program printed.
struct Event {
    kind: &'static str,
    text: String,
    /// True if the thread of the event is the recorded program.
    is_of_program: bool,
}

/// Adds a recording of [`PROGRAM`] into the file `t` to the arguments of another recorder, which
/// runs it. Kernel events are taken from `instance`.
fn record_inside(world: &World, instance: &Instance, mut outer: Command) -> Command {
    world.write("config", CONFIG.replace("INSTANCE", &instance.name));
    outer
        .arg(FERRETTO)
        .args(["record", "-q", "-c", "config", "-o", "t", "--"])
        .args(["sh", "-c", PROGRAM])
        .stdin(Stdio::null());
    world.at_home(outer)
}

/// Returns the process id of the recorded program; `None` if it was not started.
fn program(world: &World) -> Option<u64> {
    let pid = fs::read_to_string(world.path("pid")).ok()?;
    Some(pid.trim().parse().unwrap())
}

/// Returns the text of an event without fields that are newer than the schema.
fn known_fields(kind: &str, text: &str) -> String {
    match kind {
        // The priority of the request after the sector.
        "block:block_rq_issue" => {
            let words: Vec<&str> = text.split_whitespace().take(7).collect();
            words.join(" ")
        }
        _ => text.trim().to_owned(),
    }
}

/// Compares the events of another program with those in the file `t`. Scheduling events are those
/// at whose text `is_own` returns true.
fn compare(world: &World, pid: u64, mut theirs: Vec<Event>, is_own: impl Fn(&str) -> bool) {
    let is_own = |kind: &str, text: &str| kind != "sched:sched_switch" || is_own(text);
    theirs.retain(|event| event.kind == "sched:sched_switch" || event.is_of_program);
    theirs.retain(|event| is_own(event.kind, &event.text));

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
                        && is_own(kind, &line)
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
            .filter(|event| event.kind == kind)
            .map(|event| &event.text)
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
            // perf's events of a task end while the task exits, and a busy machine may take the CPU
            // from it any number of times after that. The recording may end before the program has
            // left its CPU for the last time.
            let both = ours.len().min(theirs.len());
            let exiting = |text: &&String| {
                let states = ["R", "R+", "Z", "X"];
                states
                    .iter()
                    .any(|state| text.contains(&format!("prev_state={state} ")))
            };
            assert!(
                ours[both..].iter().copied().all(|text| exiting(&text)) && theirs.len() <= both + 3,
                "{kind}: {ours:#?} {theirs:#?}"
            );
            assert_eq!(ours[..both], theirs[..both], "{kind}");
            continue;
        }
        // Before the execution, the process had another name, which perf prints and Ferretto does
        // not.
        let begin = ours.len().saturating_sub(theirs.len());
        assert_eq!(ours[begin..], theirs[..], "{kind}");
    }
}
