//! Made recordings: those of a command whose steps have known lengths, with random variation.

use std::fmt::Write as _;

use ferretto_diff::{Recording, TABLES};
use ferretto_tables::{Options, Trace};
use ferretto_testing::Random;
use ferretto_text::config::{Unknown, read_message};

/// A step of the main thread of the command, with its length in microseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// It runs.
    Run(u64),
    /// It runs while the program `neighbour` has the other CPU.
    Crowded(u64),
    /// A process that it started calls this many times `getppid`: its number, its name, the count.
    CallsOf(u32, &'static str, u64),
    /// A process that it started makes the kernel clear pages: its number, its name, the time.
    Clearing(u32, &'static str, u64),
    /// It runs within a slice of this name.
    Slice(&'static str, u64),
    /// It waits for a timer.
    Sleep(u64),
    /// It waits for a lock, while the thread `peer` runs.
    Lock(u64),
    /// It waits for a CPU, while the program `neighbour` has it.
    Ready(u64),
    /// The program `neighbour` has its CPU. The switch to that is missing.
    Missing(u64),
    /// It sets the counter `queue`.
    Counter(u64),
    /// The kernel tells that it has this many KiB of memory.
    Memory(u64),
    /// It calls this many times `getppid`.
    Calls(u64),
    /// It calls this many times `futex`, without a wait.
    Contended(u64),
    /// It runs within one system call.
    Call(u64),
    /// It runs within one call of `clone`.
    Fork(u64),
    /// It sends this many requests to a disk, one after the other.
    Requests(u64),
    /// Another thread of it runs on the other CPU: its number, its name, the time.
    Beside(u32, &'static str, u64),
    /// Further packets. `TIME` stands for the time.
    Packets(&'static str),
}
use Step::{
    Beside, Call, Calls, CallsOf, Clearing, Contended, Counter, Crowded, Fork, Lock, Memory,
    Missing, Packets, Ready, Requests, Run, Sleep, Slice,
};

/// The command `app`, its thread `peer`, and others.
const PROCESSES: &str = r#"
    packet { system_info { utsname { sysname: "Linux" release: "6.1.0" machine: "x86_64" } } }
    packet { timestamp: 1 process_tree {
        processes { pid: 50 ppid: 1 cmdline: "ferretto" }
        processes { pid: 100 ppid: 50 cmdline: "app" }
        processes { pid: 200 ppid: 1 cmdline: "neighbour" }
        threads { tid: 101 tgid: 100 name: "peer" } } }"#;

const NAMES: [(u32, &str); 4] = [
    (0, "swapper/0"),
    (100, "app"),
    (101, "peer"),
    (200, "neighbour"),
];

/// The callstack of the kernel while it clears pages.
const CLEARING: &str = r#"
    packet { trusted_packet_sequence_id: 7 sequence_flags: 1 interned_data {
        function_names { iid: 1 str: "clear_page_erms" } mappings { iid: 1 }
        frames { iid: 1 function_name_id: 1 mapping_id: 1 }
        callstacks { iid: 1 frame_ids: 1 } } }
"#;

struct Made {
    text: String,
    time: u64,
    /// By CPU.
    threads: [u32; 2],
    random: Random,
    /// The standard deviation of the logarithm of lengths.
    variation: f64,
}

impl Made {
    /// Returns a length in nanoseconds.
    fn length(&mut self, us: u64) -> u64 {
        // The sum of twelve uniform numbers is nearly normal.
        let sum: f64 = (0..12)
            .map(|_| self.random.below(1 << 20) as f64 / f64::from(1 << 20))
            .sum();
        (us as f64 * 1000.0 * ((sum - 6.0) * self.variation).exp()) as u64
    }

    fn event(&mut self, cpu: usize, pid: u32, event: &str) {
        self.time += 1;
        let time = self.time;
        let _ = writeln!(
            self.text,
            "packet {{ trusted_packet_sequence_id: 1 ftrace_events {{ cpu: {cpu} \
             event {{ timestamp: {time} pid: {pid} {event} }} }} }}"
        );
    }

    /// Lets another thread run. `state` is that of the thread before it.
    fn switch(&mut self, cpu: usize, to: u32, state: u32) {
        let from = std::mem::replace(&mut self.threads[cpu], to);
        let name = |pid: u32| {
            NAMES
                .iter()
                .find(|(known, _)| *known == pid)
                .map_or("?", |it| it.1)
        };
        let event = format!(
            "sched_switch {{ prev_pid: {from} prev_comm: \"{}\" prev_state: {state} \
             next_pid: {to} next_comm: \"{}\" next_prio: 120 }}",
            name(from),
            name(to)
        );
        self.event(cpu, from, &event);
    }

    fn wake(&mut self, cpu: usize, by: u32, pid: u32) {
        let event = format!("sched_waking {{ comm: \"x\" pid: {pid} prio: 120 target_cpu: 0 }}");
        self.event(cpu, by, &event);
    }

    /// Starts a process.
    fn child(&mut self, pid: u32, name: &str) {
        let _ = writeln!(
            self.text,
            "packet {{ timestamp: {} process_tree {{ processes {{ pid: {pid} ppid: 100 \
             cmdline: \"{name}\" }} }} }}",
            self.time
        );
    }

    fn calls(&mut self, (cpu, pid): (usize, u32), id: u32, count: u64) {
        for _ in 0..count {
            self.event(cpu, pid, &format!("sys_enter {{ id: {id} }}"));
            self.time += 700;
            self.event(cpu, pid, &format!("sys_exit {{ id: {id} }}"));
            self.time += 300;
        }
    }

    fn call(&mut self, id: u32, us: u64) {
        self.event(0, 100, &format!("sys_enter {{ id: {id} }}"));
        self.time += self.length(us);
        self.event(0, 100, &format!("sys_exit {{ id: {id} }}"));
    }

    fn step(&mut self, step: Step) {
        match step {
            Run(us) => self.time += self.length(us),
            Slice(name, us) => {
                self.event(0, 100, &format!("print {{ buf: \"B|100|{name}\\n\" }}"));
                self.time += self.length(us);
                self.event(0, 100, "print { buf: \"E|100\\n\" }");
            }
            Sleep(us) => {
                self.event(0, 100, "sys_enter { id: 230 }");
                self.switch(0, 0, 1);
                self.time += self.length(us);
                self.wake(0, 0, 100);
                self.switch(0, 100, 0);
                self.event(0, 100, "sys_exit { id: 230 }");
            }
            Lock(us) => {
                self.event(0, 100, "sys_enter { id: 202 args: 4096 args: 128 }");
                self.switch(0, 0, 1);
                self.switch(1, 101, 0);
                self.time += self.length(us);
                self.wake(1, 101, 100);
                self.switch(0, 100, 0);
                self.switch(1, 0, 1);
                self.event(0, 100, "sys_exit { id: 202 }");
            }
            Ready(us) => {
                self.switch(0, 200, 0);
                self.time += self.length(us);
                self.switch(0, 100, 0);
            }
            Counter(value) => {
                self.event(
                    0,
                    100,
                    &format!("print {{ buf: \"C|100|queue|{value}\\n\" }}"),
                );
            }
            Memory(kib) => {
                self.time += 1;
                let _ = writeln!(
                    self.text,
                    "packet {{ timestamp: {} process_stats {{ processes {{ pid: 100 vm_rss_kb: {kib} }} }} }}",
                    self.time
                );
            }
            Call(us) => self.call(318, us),
            Fork(us) => self.call(56, us),
            Requests(count) => {
                for sector in 0..count {
                    let of = format!("dev: 65024 sector: {sector}");
                    let issue = format!("block_rq_issue {{ {of} bytes: 65536 rwbs: \"R\" }}");
                    self.event(0, 100, &issue);
                    self.time += self.length(200);
                    self.event(0, 100, &format!("block_rq_complete {{ {of} }}"));
                }
            }
            Beside(tid, name, us) => {
                let _ = writeln!(
                    self.text,
                    "packet {{ timestamp: {} process_tree {{ threads {{ tid: {tid} tgid: 100 \
                     name: \"{name}\" }} }} }}",
                    self.time
                );
                self.switch(1, tid, 0);
                self.time += self.length(us);
                self.switch(1, 0, 1);
            }
            Packets(text) => {
                self.time += 1;
                self.text += &text.replace("TIME", &self.time.to_string());
            }
            Missing(us) => {
                self.threads[0] = 200;
                self.time += self.length(us);
                self.switch(0, 100, 0);
            }
            Calls(count) => self.calls((0, 100), 110, count),
            Contended(count) => self.calls((0, 100), 202, count),
            Crowded(us) => {
                self.switch(1, 200, 0);
                self.time += self.length(us);
                self.switch(1, 0, 1);
            }
            Clearing(pid, name, us) => {
                self.child(pid, name);
                self.switch(1, pid, 0);
                self.text += CLEARING;
                for _ in 0..us / 1000 {
                    self.time += self.length(1000);
                    let _ = writeln!(
                        self.text,
                        "packet {{ timestamp: {} trusted_packet_sequence_id: 7 sequence_flags: 2 \
                         perf_sample {{ cpu: 1 pid: {pid} tid: {pid} callstack_iid: 1 }} }}",
                        self.time
                    );
                }
                self.switch(1, 0, 1);
            }
            CallsOf(pid, name, count) => {
                self.child(pid, name);
                self.switch(1, pid, 0);
                self.calls((1, pid), 110, count);
                self.switch(1, 0, 1);
            }
        }
    }
}

/// Returns the text of the trace of a command with these steps.
fn text(steps: &[Step], variation: f64, seed: u64) -> String {
    let mut made = Made {
        text: PROCESSES.to_owned(),
        time: 1000,
        threads: [0, 0],
        // Neighbouring seeds have similar first numbers.
        random: Random((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        variation,
    };
    made.wake(0, 50, 100);
    made.switch(0, 100, 0);
    for step in steps {
        made.step(*step);
    }
    made.switch(0, 0, 16);
    made.text
}

/// Returns the trace of a command with these steps.
pub(crate) fn trace(steps: &[Step], variation: f64, seed: u64) -> Trace {
    let text = text(steps, variation, seed);
    let trace = read_message(
        "perfetto.protos.Trace",
        "trace",
        text.as_bytes(),
        Unknown::Refuse,
    );
    let Some(Ok(trace)) = trace else {
        panic!("{:?}", trace.map(|it| it.err()));
    };
    let options = Options {
        tables: TABLES,
        threads: 1,
        ..Options::default()
    };
    Trace::read(&trace.bytes[..], &options).expect("a trace")
}

/// Returns the recording of a command with these steps.
pub(crate) fn recording(steps: &[Step], variation: f64, seed: u64) -> Recording {
    Recording::new(&trace(steps, variation, seed), None)
}

/// Returns recordings of the same steps.
pub(crate) fn recordings(
    steps: &[Step],
    variation: f64,
    seeds: std::ops::Range<u64>,
) -> Vec<Recording> {
    seeds
        .map(|seed| recording(steps, variation, seed))
        .collect()
}
