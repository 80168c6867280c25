//! Explanations of random intervals of random traces: each nanosecond has exactly one cause.

use std::fmt::Write as _;

use ferretto_tables::{Options, Trace};
use ferretto_testing::Random;
use ferretto_text::config::{Unknown, read_message};
use ferretto_why::{Explanation, PartKind, Partition, Run, Share, Shares, State, StateKind, Why};

/// The number of intervals of each property, unless the environment has another one.
const INTERVALS: u64 = 20_000;

/// Threads 0 to 6; 0 is the idle task.
const THREADS: usize = 7;

/// The mapping of the kernel's functions.
const KERNEL: &str = "[kernel.kallsyms]";

/// The callstacks of samples, from the outermost function, with the mapping of each.
const STACKS: [&[(&str, &str)]; 5] = [
    &[("main", "app"), ("work", "app")],
    &[("main", "app"), ("futex_wait", KERNEL)],
    &[
        ("main", "app"),
        ("asm_exc_page_fault", KERNEL),
        ("clear", KERNEL),
    ],
    &[
        ("main", "app"),
        ("do_syscall_64", KERNEL),
        ("vfs_read", KERNEL),
    ],
    &[("worker_thread", KERNEL)],
];

/// Encodes a trace from its text form, and imports it.
fn import(text: &str) -> Trace {
    let read = read_message(
        "perfetto.protos.Trace",
        "trace",
        text.as_bytes(),
        Unknown::Refuse,
    );
    match read.expect("the schema has traces") {
        Ok(parsed) => Trace::read(&parsed.bytes[..], &Options::default()).expect("a trace"),
        Err(error) => panic!("{error:?}"),
    }
}

/// The events of a random trace. Threads, calls and interrupts need not fit together, as in
/// recordings that lost events, and in hostile files.
struct Events<'a> {
    random: &'a mut Random,
    text: String,
    /// The current thread of each CPU.
    current: [usize; 2],
}

impl Events<'_> {
    fn thread(&mut self) -> usize {
        self.random.below(THREADS)
    }

    fn event(&mut self, time: u64, cpu: usize, flags: usize, body: &str) {
        let pid = self.current[cpu];
        let lost = self.random.one_in(200);
        let _ = writeln!(
            self.text,
            "packet {{ trusted_packet_sequence_id: 1 ftrace_events {{ cpu: {cpu} lost_events: {lost}
             event {{ timestamp: {time} pid: {pid} common_flags: {flags} {body} }} }} }}"
        );
    }

    fn sample(&mut self, time: u64) {
        let thread = 1 + self.random.below(THREADS - 1);
        let sequence = 2 + self.random.below(2);
        let stack = 1 + self.random.below(STACKS.len());
        let _ = writeln!(
            self.text,
            "packet {{ trusted_packet_sequence_id: {sequence} sequence_flags: 2 timestamp: {time}
             stack_sample {{ task_context {{ pid: {thread} tid: {thread} }} callstack_iid: {stack} }} }}"
        );
    }

    fn next(&mut self, time: u64) {
        let cpu = self.random.below(2);
        let thread = self.thread();
        match self.random.below(16) {
            0..=4 => {
                let state = [0, 0, 1, 1, 2, 4, 8, 16, 32, 256][self.random.below(10)];
                // Another thread than the current one: switches are missing.
                let is_missing = self.random.one_in(8);
                let prev = if is_missing {
                    self.thread()
                } else {
                    self.current[cpu]
                };
                let next = thread;
                let body = format!(
                    "sched_switch {{ prev_pid: {prev} prev_state: {state} next_pid: {next} }}"
                );
                self.current[cpu] = prev;
                self.event(time, cpu, 0, &body);
                self.current[cpu] = next;
            }
            5..=7 => {
                let flags = if self.random.one_in(3) { 8 } else { 0 };
                let body = format!("sched_waking {{ pid: {thread} target_cpu: {cpu} }}");
                self.event(time, cpu, flags, &body);
            }
            8 => {
                let call = [0, 1, 7, 35, 39, 61, 202, 231][self.random.below(8)];
                self.event(
                    time,
                    cpu,
                    0,
                    &format!("sys_enter {{ id: {call} args: 4096 }}"),
                );
            }
            9 => {
                let call = [0, 1, 7, 35, 39, 61, 202, 231][self.random.below(8)];
                self.event(time, cpu, 0, &format!("sys_exit {{ id: {call} ret: 0 }}"));
            }
            10 => {
                let name = ["timer", "virtio1-req.0", "eth0"][self.random.below(3)];
                let body = format!("irq_handler_entry {{ irq: 7 name: \"{name}\" }}");
                self.event(time, cpu, 0, &body);
            }
            11 => self.event(time, cpu, 0, "irq_handler_exit { irq: 7 }"),
            12 => {
                let vec = self.random.below(4);
                self.event(time, cpu, 0, &format!("softirq_entry {{ vec: {vec} }}"));
            }
            13 => self.event(time, cpu, 0, "softirq_exit { vec: 3 }"),
            14 => self.sample(time),
            _ if self.random.one_in(4) => {
                let body =
                    format!("task_newtask {{ pid: {thread} comm: \"new\" clone_flags: 65536 }}");
                self.event(time, cpu, 0, &body);
            }
            _ if self.random.one_in(8) => {
                self.event(
                    time,
                    cpu,
                    0,
                    &format!("sched_process_free {{ pid: {thread} }}"),
                );
            }
            _ => {}
        }
    }
}

/// Returns the beginning of a sequence of samples, with the callstacks.
fn sequence(id: u32, source: &str) -> String {
    let mut interned = String::new();
    for (at, stack) in (1..).zip(STACKS) {
        let mut frames = String::new();
        for (depth, (function, mapping)) in (0..).zip(stack) {
            let iid = 10 * at + depth;
            let mapping = 1 + u32::from(*mapping == KERNEL);
            let _ = write!(
                interned,
                "function_names {{ iid: {iid} str: \"{function}\" }}
                 frames {{ iid: {iid} function_name_id: {iid} mapping_id: {mapping} rel_pc: {iid} }} "
            );
            let _ = write!(frames, "frame_ids: {iid} ");
        }
        let _ = write!(interned, "callstacks {{ iid: {at} {frames} }} ");
    }
    format!(
        "packet {{ trusted_packet_sequence_id: {id} sequence_flags: 1 timestamp: 1
         trace_packet_defaults {{ stack_sample_defaults {{ source: \"{source}\" }} }}
         interned_data {{
            mapping_paths {{ iid: 1 str: \"app\" }} mapping_paths {{ iid: 2 str: \"{KERNEL}\" }}
            mappings {{ iid: 1 end: 4096 path_string_ids: 1 }}
            mappings {{ iid: 2 start: 8192 end: 9000 path_string_ids: 2 }}
            {interned} }} }}\n"
    )
}

/// Returns a trace with a number of events at times that `time` returns.
fn random_trace(
    random: &mut Random,
    events: usize,
    mut time: impl FnMut(&mut Random) -> u64,
) -> Trace {
    let text = r#"
        packet { system_info { utsname { sysname: "Linux" release: "6.1.0" machine: "x86_64" } } }
        packet { process_tree { processes { pid: 2 ppid: 0 cmdline: "kthreadd" } processes { pid: 6 ppid: 2 } } }
    "#;
    let mut all = Events {
        random,
        text: text.to_owned() + &sequence(2, "linux.perf") + &sequence(3, "linux.off_cpu"),
        current: [0; 2],
    };
    for _ in 0..events {
        let at = time(all.random);
        all.next(at);
    }
    import(&all.text)
}

/// Returns times in random steps of up to `step` ns.
fn steps(step: usize) -> impl FnMut(&mut Random) -> u64 {
    let mut now = 1000;
    move |random| {
        now += random.below(step + 1) as u64;
        now
    }
}

/// Checks that the shares within a share add up to it.
fn add_up(share: &Share) {
    if !share.inner.is_empty() {
        assert_eq!(
            share.inner.iter().map(|inner| inner.ns).sum::<i64>(),
            share.ns,
            "{share:?}"
        );
    }
    share.inner.iter().for_each(add_up);
}

/// Checks that an explanation covers its interval without gaps and overlaps, and that the shares
/// add up to it.
fn check(explanation: &Explanation) {
    let interval = &explanation.interval;
    let mut at = interval.start;
    for piece in &explanation.pieces {
        assert_eq!(piece.start, at, "{explanation:?}");
        assert!(piece.end > piece.start, "{explanation:?}");
        at = piece.end;
        if let Some(wait) = piece.wait {
            let wait = &explanation.waits[wait as usize].wait;
            assert!(
                wait.start <= piece.start && piece.end <= wait.end,
                "{explanation:?}"
            );
        }
    }
    assert_eq!(at, interval.end, "{explanation:?}");
    let shares = Shares::new([explanation]);
    assert_eq!(shares.ns, interval.end - interval.start);
    assert_eq!(
        shares.causes.iter().map(|share| share.ns).sum::<i64>(),
        shares.ns
    );
    shares.causes.iter().for_each(add_up);
}

fn wanted() -> u64 {
    let wanted = std::env::var("FERRETTO_WHY_INTERVALS").ok();
    wanted
        .and_then(|number| number.parse().ok())
        .unwrap_or(INTERVALS)
}

/// Checks random intervals of a trace.
fn check_intervals(random: &mut Random, trace: &Trace, count: u64) {
    let why = Why::new(trace);
    let bounds = &trace.tables().trace_bounds;
    let (start, end) = (bounds.start_ts().get(0), bounds.end_ts().get(0));
    let threads = why.schedule().threads() as usize + 1;
    for _ in 0..count {
        let thread = random.below(threads) as u32;
        // Most intervals are short: those of slices. The ends may be outside of the trace.
        let whole = (end - start) as usize + 100;
        let length = if random.one_in(20) {
            whole
        } else {
            whole / 50 + 1
        };
        let from = start - 50 + random.below(whole) as i64;
        let to = from + random.below(length) as i64;
        check(&why.explain(thread, from..to));
    }
}

#[test]
fn the_causes_of_random_intervals_add_up_exactly() {
    let mut random = Random(11);
    let (mut left, traces) = (wanted(), 40);
    let of_each = left.div_ceil(traces);
    for round in 0.. {
        if left == 0 {
            break;
        }
        let step = [3, 900, 300_000, 40_000_000][round % 4];
        let trace = random_trace(&mut random, 800, steps(step));
        let count = of_each.min(left);
        check_intervals(&mut random, &trace, count);
        left -= count;
    }
}

/// Reads the traces that the environment names, separated by colons.
#[test]
fn the_causes_of_random_intervals_of_recordings_add_up_exactly() {
    let paths = std::env::var("FERRETTO_WHY_TRACES").unwrap_or_default();
    for path in paths.split(':').filter(|path| !path.is_empty()) {
        let file = std::fs::File::open(path).expect("a file");
        let trace = Trace::read(file, &Options::default()).expect("a trace");
        check_intervals(&mut Random(12), &trace, wanted());
    }
}

/// The cause of a nanosecond depends on nothing but the trace: alone, it has the one that it has
/// within any interval. The thread and its state are those of the definition.
#[test]
fn the_cause_of_a_nanosecond_is_the_same_in_all_intervals() {
    let mut random = Random(13);
    for round in 0..40 {
        let step = [3, 40][round % 2];
        let trace = random_trace(&mut random, 120, steps(step));
        let why = Why::new(&trace);
        let bounds = &trace.tables().trace_bounds;
        let (start, end) = (bounds.start_ts().get(0), bounds.end_ts().get(0));
        let threads = why.schedule().threads() + 1;
        for _ in 0..20 {
            let thread = random.below(threads as usize) as u32;
            let from = start + random.below((end - start) as usize + 1) as i64;
            let to = from + random.below(120) as i64;
            let whole = why.explain(thread, from..to);
            check(&whole);
            for piece in &whole.pieces {
                for time in piece.start..piece.end {
                    let alone = why.explain(thread, time..time + 1);
                    let one = &alone.pieces[0];
                    let of_whole = (
                        piece.thread,
                        piece.cause,
                        piece.callsite,
                        whole.depth(piece),
                    );
                    let of_alone = (one.thread, one.cause, one.callsite, alone.depth(one));
                    assert_eq!(of_whole, of_alone, "at {time} of {whole:?}");
                    let part = Partition::new(why.schedule(), thread, time, time + 1).parts[0];
                    assert_eq!(part.thread, piece.thread);
                    let runs = part.kind == PartKind::Running;
                    let is_run = matches!(
                        piece.cause.name(),
                        "user"
                            | "system-call"
                            | "system-call-entry"
                            | "page-fault"
                            | "kernel"
                            | "running"
                            | "interrupt"
                    );
                    assert_eq!(runs, is_run, "at {time} of {whole:?}");
                }
            }
        }
    }
}

/// Times at the ends of their range, in any order.
#[test]
fn hostile_times_have_causes_that_add_up() {
    let mut random = Random(14);
    const ENDS: [u64; 9] = [
        0,
        1,
        499,
        20_000_001,
        1 << 62,
        i64::MAX as u64 - 1,
        i64::MAX as u64,
        i64::MAX as u64 + 1,
        u64::MAX,
    ];
    for _ in 0..60 {
        let time = |random: &mut Random| {
            let near = random.below(2000) as u64;
            ENDS[random.below(ENDS.len())].wrapping_add(near)
        };
        let trace = random_trace(&mut random, 150, time);
        let why = Why::new(&trace);
        for _ in 0..30 {
            let thread = random.below(8) as u32;
            let ends = [0, 1, 700, 1 << 61, 1 << 62, i64::MAX - 1, i64::MAX];
            let (one, other) = (ends[random.below(7)], ends[random.below(7)]);
            check(&why.explain(thread, one.min(other)..one.max(other)));
            let lifetime = why.lifetime(thread);
            check(&why.explain(thread, lifetime));
        }
    }
}

/// The runs of a CPU are the states of threads on it; neither overlap.
#[test]
fn each_run_of_a_cpu_is_a_state_of_its_thread() {
    let mut random = Random(17);
    for round in 0..40 {
        let step = [3, 900][round % 2];
        let trace = random_trace(&mut random, 400, steps(step));
        let why = Why::new(&trace);
        let schedule = why.schedule();
        let mut ran = 0;
        for thread in 0..schedule.threads() {
            let states = schedule.states(thread);
            assert!(states.iter().all(|state| state.start <= state.end));
            assert!(states.windows(2).all(|two| two[0].end <= two[1].start));
            for state in states.iter().filter(|it| it.kind == StateKind::Running) {
                let cpu = state.cpu.expect("it ran on a CPU");
                let is_of_state = |run: &&Run| run.thread == thread && run.start == state.start;
                let run = schedule.runs(cpu).iter().find(is_of_state);
                assert!(
                    run.is_some_and(|run| run.end <= state.end),
                    "{state:?} {run:?}"
                );
                ran += 1;
            }
        }
        assert!(ran > 10, "{ran}");
        for cpu in 0..2 {
            let runs = schedule.runs(cpu);
            assert!(runs.windows(2).all(|two| two[0].end <= two[1].start));
            for (at, run) in runs.iter().enumerate() {
                // The last event of a thread that runs may be missing.
                let is_of_run = |state: &&State| {
                    let is_running = matches!(state.kind, StateKind::Running | StateKind::Lost);
                    is_running && state.cpu == Some(cpu) && state.start == run.start
                };
                let states = schedule.states(run.thread).iter().filter(is_of_run);
                let end = states.map(|state| state.end).max().expect("a state");
                let next = runs.get(at + 1).map_or(i64::MAX, |next| next.start);
                assert!(
                    run.end == end.min(next) || run.start == next,
                    "{run:?} {end}"
                );
            }
        }
    }
}
