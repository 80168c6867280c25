//! Planted causes: programs with a known cause of slowness are recorded with `record --why`, and
//! `why` names the cause and the thread that is to blame.

#[path = "../cli/world.rs"]
#[allow(dead_code, reason = "this program uses a part of it")]
mod world;

mod assert;
mod changed;
mod commands;
mod diff;

use ferretto_tables::{Continue, Options, Trace};
use ferretto_testing::Random;
use ferretto_why::WaitKind::{
    Child, Disk, FileLock, Lock, Message, Pipe, Poll, Signal, Socket, Stopped, Timer,
};
use ferretto_why::{Cause, Explanation, Share, Shares, StateKind, TABLES, WaitKind, Why};

use crate::world::World;

/// The programs, as C. Each runs in a process of its own, named by its kind and a time.
const PROGRAMS: &str = include_str!("planted.c");

/// The times in milliseconds.
const TIMES: [&str; 2] = ["24", "40"];

/// The planted cause of a kind of program.
#[derive(Debug, Clone, Copy)]
enum Planted {
    /// It waited for the peer, which did this meanwhile.
    Peer(WaitKind, Meanwhile),
    /// It waited without another thread.
    Wait(WaitKind),
    /// It ran this system call.
    Call(&'static str),
    /// It waited for a disk, or ran in this system call: a fast disk answers within the call.
    Disk(&'static str),
    /// It ran this function.
    Function(&'static str),
    /// It handled page faults.
    Faults,
    /// The peer had its CPU.
    Cpu,
}

/// The activity of the peer.
#[derive(Debug, Clone, Copy)]
enum Meanwhile {
    Busy,
    Asleep,
    /// It waited for a thread named `origin`, which was busy.
    Chain,
}
use Meanwhile::{Asleep, Busy, Chain};

#[rustfmt::skip]
const KINDS: &[(&str, Planted)] = &[
    ("lock", Planted::Peer(Lock, Busy)),
    ("locksleep", Planted::Peer(Lock, Asleep)),
    ("newlock", Planted::Peer(Lock, Busy)),
    ("condition", Planted::Peer(Lock, Busy)),
    ("join", Planted::Peer(Lock, Busy)),
    ("semaphore", Planted::Peer(Lock, Busy)),
    ("calls", Planted::Call("sys_getppid")),
    ("stats", Planted::Call("sys_stat")),
    ("timer", Planted::Wait(Timer)),
    ("timerfd", Planted::Wait(Timer)),
    ("polltime", Planted::Wait(Timer)),
    ("epolltime", Planted::Wait(Timer)),
    ("locktime", Planted::Wait(Timer)),
    ("pipe", Planted::Peer(Pipe, Busy)),
    ("socket", Planted::Peer(Socket, Busy)),
    ("datagram", Planted::Peer(Socket, Busy)),
    ("tcp", Planted::Peer(Socket, Busy)),
    ("accept", Planted::Peer(Socket, Busy)),
    ("fullpipe", Planted::Peer(Pipe, Busy)),
    ("poll", Planted::Peer(Poll, Busy)),
    ("epoll", Planted::Peer(Poll, Busy)),
    ("event", Planted::Peer(Poll, Busy)),
    ("signal", Planted::Peer(Signal, Busy)),
    ("semset", Planted::Peer(Message, Busy)),
    ("message", Planted::Peer(Message, Busy)),
    ("neighbour", Planted::Cpu),
    ("nice", Planted::Cpu),
    ("realtime", Planted::Cpu),
    ("faults", Planted::Faults),
    ("child", Planted::Peer(Child, Busy)),
    ("childsleep", Planted::Peer(Child, Asleep)),
    ("vfork", Planted::Peer(Child, Busy)),
    ("stopped", Planted::Peer(Stopped, Busy)),
    ("flock", Planted::Peer(FileLock, Busy)),
    ("fsync", Planted::Disk("sys_fsync")),
    ("direct", Planted::Disk("sys_pread64")),
    ("busy", Planted::Function("busy_function")),
    ("chain", Planted::Peer(Pipe, Chain)),
];

/// The number of planted causes.
const ALL: usize = KINDS.len() * TIMES.len();

/// The least percentage of named causes, apart from those that others disturbed.
const LEAST: usize = 95;
/// The number of random intervals of each recording.
const INTERVALS: usize = 1000;
/// The number of recordings, of which the best counts: a busy machine adds causes of its own.
const RECORDINGS: usize = 3;

/// Checks the shares of a program.
struct Check<'a> {
    why: &'a Why<'a>,
}

impl Check<'_> {
    fn name(&self, thread: u32) -> &str {
        let trace = self.why.trace();
        trace
            .strings()
            .text(trace.tables().thread.name().get(thread))
    }

    /// Returns true if a thread is the helper of another one. Its name may be the one that it had
    /// before it renamed itself: that of the other thread's process.
    fn is_peer(&self, thread: u32, of: u32) -> bool {
        let process = |thread| self.why.trace().tables().thread.upid().get(thread);
        self.name(thread) == "peer" || (thread != of && process(thread) == process(of))
    }

    /// Returns the greatest share, apart from the load of the machine.
    fn greatest<'s>(&self, shares: &'s [Share]) -> Option<&'s Share> {
        let is_load = |share: &&Share| matches!(share.cause, Cause::Cpu | Cause::Absent);
        shares.iter().find(|share| !is_load(share))
    }

    fn is(&self, share: &Share, function: &str) -> bool {
        let stacks = share.callstacks.iter().take(1);
        share.cause == Cause::User
            && stacks.into_iter().any(|(callsite, _)| {
                let functions = self.why.functions(*callsite);
                functions.iter().any(|found| found.name == function)
            })
    }

    /// Returns true if a share is mainly that of a system call.
    fn is_call(&self, share: &Share, name: &str) -> bool {
        let named = |share: &Share| match share.cause {
            Cause::Call(call) => self.why.trace().strings().text(call) == name,
            _ => false,
        };
        share.cause == Cause::Calls && share.inner.iter().take(2).any(named)
    }

    /// Returns true if what the peer did is among the shares, as the greatest.
    fn meanwhile(&self, shares: &[Share], meanwhile: Meanwhile) -> bool {
        let Some(greatest) = self.greatest(shares) else {
            return false;
        };
        match meanwhile {
            Busy => greatest.cause == Cause::User,
            Asleep => greatest.cause == Cause::Wait(Timer, None),
            Chain => match greatest.cause {
                Cause::Wait(Pipe, Some(origin)) => {
                    self.name(origin) == "origin" && self.meanwhile(&greatest.inner, Busy)
                }
                _ => false,
            },
        }
    }

    fn holds(&self, shares: &[Share], planted: Planted) -> bool {
        if let Planted::Cpu = planted {
            let cpu = shares.iter().find(|share| share.cause == Cause::Cpu);
            // On a busy machine, others have the CPU, too.
            let others = cpu.map_or(&[][..], |cpu| &cpu.inner);
            return others.iter().take(3).any(|other| match other.cause {
                Cause::Behind(other) => self.name(other) == "peer",
                _ => false,
            });
        }
        let Some(greatest) = self.greatest(shares) else {
            return false;
        };
        match planted {
            Planted::Peer(kind, meanwhile) => match greatest.cause {
                Cause::Wait(found, Some(waker)) => {
                    found == kind
                        && self.is_peer(waker, greatest.thread)
                        && self.meanwhile(&greatest.inner, meanwhile)
                }
                _ => false,
            },
            Planted::Wait(kind) => greatest.cause == Cause::Wait(kind, None),
            Planted::Call(name) => self.is_call(greatest, name),
            // The disk's driver or file system may have threads.
            Planted::Disk(name) => {
                matches!(greatest.cause, Cause::Wait(Disk, _)) || self.is_call(greatest, name)
            }
            Planted::Function(function) => self.is(greatest, function),
            Planted::Faults => greatest.cause == Cause::PageFault,
            Planted::Cpu => false,
        }
    }
}

/// The share of its life, in percent, from which on others disturbed a program.
const DISTURBED: i64 = 40;

impl Check<'_> {
    /// Returns the time in which a program could not do what it was to do: it had no CPU, or a
    /// thread of another program ended its waits, such as a service that freezes or signals it.
    fn disturbance(&self, shares: &[Share]) -> i64 {
        let threads = &self.why.trace().tables().thread;
        let of = |share: &Share| match share.cause {
            Cause::Cpu => share.ns,
            Cause::Wait(_, Some(waker)) => {
                let is_own = self.is_peer(waker, share.thread)
                    || self.name(waker) == "origin"
                    || self.why.is_kernel_thread(waker)
                    || threads.upid().get(waker) == threads.upid().get(share.thread);
                if is_own {
                    self.disturbance(&share.inner)
                } else {
                    share.ns
                }
            }
            _ => 0,
        };
        shares.iter().map(of).sum()
    }
}

/// Returns the shares of the life of a thread. Also checks that they add up.
fn shares_of(why: &Why<'_>, thread: u32) -> Shares {
    let states = why.schedule().states(thread);
    let is_alive = |kind: StateKind| !matches!(kind, StateKind::Unborn | StateKind::Ended);
    let mut alive = states.iter().filter(|state| is_alive(state.kind));
    let start = alive.next().map_or(0, |state| state.start);
    let end = alive.next_back().map_or(start, |state| state.end);
    check(&why.explain(thread, start..end))
}

/// Checks that the causes of random intervals of the recording add up.
fn check_random_intervals(why: &Why<'_>) {
    let bounds = &why.trace().tables().trace_bounds;
    let (start, end) = (bounds.start_ts().get(0), bounds.end_ts().get(0));
    let mut random = Random(1);
    for _ in 0..INTERVALS {
        let thread = random.below(why.schedule().threads() as usize) as u32;
        let from = start + random.below((end - start) as usize) as i64;
        let explanation = why.explain(thread, from..from + random.below(50_000_000) as i64);
        check(&explanation);
    }
}

/// Checks that the causes of an explanation add up, and returns the shares.
fn check(explanation: &Explanation) -> Shares {
    let interval = &explanation.interval;
    let mut at = interval.start;
    for piece in &explanation.pieces {
        assert_eq!(piece.start, at);
        at = piece.end;
    }
    assert_eq!(at, interval.end);
    let shares = Shares::new([explanation]);
    assert_eq!(shares.ns, interval.end - interval.start);
    let causes = shares.causes.iter().map(|share| share.ns);
    assert_eq!(causes.sum::<i64>(), shares.ns);
    shares
}

/// Writes the greatest causes of a program.
fn show(why: &Why<'_>, shares: &[Share], level: usize) {
    let trace = why.trace();
    for share in shares.iter().take(4) {
        let cause = match share.cause {
            Cause::Call(call) => format!("call {}", trace.strings().text(call)),
            Cause::Behind(thread) => format!("behind {}", why.thread_label(thread)),
            Cause::Wait(kind, Some(waker)) => format!("{kind:?} {}", why.thread_label(waker)),
            cause => format!("{cause:?}"),
        };
        let stack = share.callstacks.first().map(|(callsite, _)| {
            let functions = why.functions(*callsite);
            let names = functions
                .iter()
                .take(12)
                .map(|function| function.name.as_str());
            names.collect::<Vec<_>>().join(" < ")
        });
        let indent = "  ".repeat(level);
        println!(
            "    {indent}{:>8} µs {cause} {}",
            share.ns / 1000,
            stack.unwrap_or_default()
        );
        if level < 2 {
            show(why, &share.inner, level + 1);
        }
    }
}

#[test]
fn planted_causes_are_named() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can record scheduling");
        return;
    }
    let world = World::new();
    let flags = ["-g", "-O1", "-pthread", "-w"];
    let Some(program) = world.compile("planted", PROGRAMS, &flags) else {
        return;
    };
    let program = program.to_str().expect("text");
    let folder = world.path("");
    let folder = folder.to_str().expect("text");
    let record = ["record", "-q", "--why", "-o", "t", "--", program, folder];
    let mut counts = Vec::new();
    for _ in 0..RECORDINGS {
        let output = world.run("ferretto", &[&record[..], &TIMES].concat());
        // A busy machine may make the recording lose events.
        assert!(matches!(output.code, 0 | 3), "{output:?}");
        let (named, disturbed) = count_named(&world);
        if named * 100 >= (ALL - disturbed) * LEAST && named * 2 > ALL {
            return;
        }
        counts.push((named, disturbed));
    }
    panic!("of {ALL} planted causes, these are named and disturbed: {counts:?}");
}

/// Returns the number of planted causes that are named in the recording `t`, and that of the
/// others that the load of the machine hid.
fn count_named(world: &World) -> (usize, usize) {
    let options = Options {
        tables: TABLES,
        ..Options::default()
    };
    let trace = Trace::open(world.path("t"), &options, |_| Continue::Yes).expect("a trace");
    let why = Why::new(&trace);
    let check = Check { why: &why };
    let threads = &trace.tables().thread;
    check_random_intervals(&why);
    let (mut right, mut disturbed) = (0, 0);
    for time in TIMES {
        for (kind, planted) in KINDS {
            let label = format!("{kind}-{time}");
            let thread = (0..threads.len()).find(|thread| check.name(*thread) == label);
            let Some(thread) = thread else {
                panic!("{label} is not in the trace");
            };
            let shares = shares_of(&why, thread);
            if check.holds(&shares.causes, *planted) {
                right += 1;
            } else {
                let is_disturbed = check.disturbance(&shares.causes) * 100 > shares.ns * DISTURBED;
                disturbed += usize::from(is_disturbed);
                println!("{label}: expected {planted:?}, disturbed {is_disturbed}");
                show(&why, &shares.causes, 0);
            }
        }
    }
    println!("{right} of {ALL} planted causes are named, {disturbed} are disturbed");
    (right, disturbed)
}
