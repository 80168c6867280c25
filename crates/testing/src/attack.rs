//! Attacks on servers: the attacked process, honest clients beside the attackers, and what both
//! show.
//!
//! A wait of an honest client is judged without the time for which it and the server had no CPU:
//! that depends on what else the machine does. The time that the server works while the client
//! waits is judged as well.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The user of attackers.
pub const NOBODY: u32 = 65_534;
/// The longest wait of an honest client.
const WORST: Duration = Duration::from_millis(100);
/// The pause between two requests of an honest client: attackers should keep the server busy.
const PAUSE: Duration = Duration::from_millis(2);
/// The variable with the longest time that honest clients may wait, in milliseconds.
const WORST_VARIABLE: &str = "ATTACK_WORST_MS";
/// The variable with the duration of each attack, in milliseconds.
const TIME_VARIABLE: &str = "ATTACK_MS";
/// The variable with the allowed growth of the server in MiB, in place of the attack's own limit:
/// sanitizers keep freed memory.
const KEPT_VARIABLE: &str = "ATTACK_KEPT_MIB";
/// The variable with a file to which a row for each attack is added, for `cargo xtask attacks`.
const TABLE_VARIABLE: &str = "ATTACK_TABLE";
/// The time that a server may run until it has given memory back, and the longest wait for that on
/// a busy machine.
const WORK: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(240);

/// Returns the duration of an attack.
pub fn time() -> Duration {
    Duration::from_millis(number(TIME_VARIABLE).unwrap_or(500))
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

/// Returns a command that runs this program with one of its tests as its main function.
pub fn this_program(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", test, "--nocapture"])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// A process that is killed at the end of a test.
pub struct Process(pub Child);

impl Process {
    /// Starts a program as another user. Prints that the test is skipped and returns `None` if
    /// that is not possible.
    pub fn of_user(mut command: Command, user: u32) -> Option<Self> {
        match command.uid(user).gid(user).spawn() {
            Ok(child) => Some(Self(child)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                println!(
                    "skipped: only root can be several users, and others must reach this program"
                );
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn read(&self, file: &str) -> String {
        let path = format!("/proc/{}/{file}", self.0.id());
        std::fs::read_to_string(path).unwrap_or_default()
    }

    fn status(&self, name: &str) -> u64 {
        let status = self.read("status");
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let line = line.expect("the server lives").trim();
        line.trim_end_matches(" kB").parse().expect("a number")
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> u64 {
        self.status("Threads:")
    }

    /// Returns the memory in use in MiB.
    pub fn memory(&self) -> u64 {
        self.status("VmRSS:") >> 10
    }

    /// Returns the largest memory in use in MiB, since it was last forgotten.
    pub fn peak(&self) -> u64 {
        self.status("VmHWM:") >> 10
    }

    pub fn forget_peak(&self) {
        // Where that is not possible, the peak is that of its life.
        let _ = std::fs::write(format!("/proc/{}/clear_refs", self.0.id()), "5");
    }

    /// Returns the times that all its threads have run and waited for a CPU.
    fn times(&self) -> CpuTimes {
        let threads = threads_of(self.0.id());
        CpuTimes {
            ran: threads.values().map(|times| times.ran).sum(),
            waited: threads.values().map(|times| times.waited).sum(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already, or is no longer needed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Times of threads in the kernel's statistics.
#[derive(Debug, Clone, Copy, Default)]
struct CpuTimes {
    /// The time on a CPU.
    ran: Duration,
    /// The time of waiting for one.
    waited: Duration,
}

impl CpuTimes {
    /// Reads the file `schedstat` of a thread. A thread may have ended meanwhile, and not every
    /// kernel counts: then there are no times.
    fn read(path: &str) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut times = text.split(' ').map(|text| text.trim().parse().unwrap_or(0));
        let mut next = || Duration::from_nanos(times.next().unwrap_or(0));
        Self {
            ran: next(),
            waited: next(),
        }
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            ran: self.ran.saturating_sub(earlier.ran),
            waited: self.waited.saturating_sub(earlier.waited),
        }
    }
}

/// Returns the times of the threads of a process.
fn threads_of(process: u32) -> BTreeMap<String, CpuTimes> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
    let names = tasks.into_iter().flatten().flatten();
    let names = names.map(|task| task.file_name().to_string_lossy().into_owned());
    names
        .map(|name| {
            let times = CpuTimes::read(&format!("/proc/{process}/task/{name}/schedstat"));
            (name, times)
        })
        .collect()
}

fn times_here() -> CpuTimes {
    CpuTimes::read("/proc/thread-self/schedstat")
}

/// The wait of an honest client for the answer to one request.
#[derive(Debug, Clone, Copy, Default)]
struct Wait {
    /// The time on the clock.
    elapsed: Duration,
    /// The time without that for which the client and the server's threads waited for a CPU.
    own: Duration,
    /// The time that the busiest thread of the server worked meanwhile.
    work: Duration,
}

/// An honest client, which makes the same request again and again.
pub struct Honest {
    over: Arc<AtomicBool>,
    /// The process of the server; 0 until it is known.
    server: Arc<AtomicU32>,
    waits: Arc<Mutex<Vec<Wait>>>,
    thread: JoinHandle<()>,
}

impl Honest {
    pub fn start(mut request: impl FnMut() + Send + 'static) -> Self {
        let over = Arc::<AtomicBool>::default();
        let server = Arc::<AtomicU32>::default();
        let waits = Arc::<Mutex<Vec<Wait>>>::default();
        let run = {
            let (over, server, waits) = (over.clone(), server.clone(), waits.clone());
            move || {
                while !over.load(Ordering::Relaxed) {
                    let server = server.load(Ordering::Relaxed);
                    let threads = threads_of(server);
                    let (begin, here) = (Instant::now(), times_here());
                    request();
                    let (elapsed, here) = (begin.elapsed(), times_here().since(here));
                    let (mut work, mut waited) = (Duration::ZERO, Duration::ZERO);
                    for (name, times) in threads_of(server) {
                        let earlier = threads.get(&name).copied().unwrap_or_default();
                        let times = times.since(earlier);
                        (work, waited) = (work.max(times.ran), waited.max(times.waited));
                    }
                    let own = elapsed.saturating_sub(here.waited + waited);
                    let mut waits = waits.lock().unwrap_or_else(PoisonError::into_inner);
                    waits.push(Wait { elapsed, own, work });
                    drop(waits);
                    thread::sleep(PAUSE);
                }
            }
        };
        let thread = thread::spawn(run);
        Self {
            over,
            server,
            waits,
            thread,
        }
    }

    fn count(&self) -> usize {
        let waits = self.waits.lock();
        waits.unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Waits until the client has been served once more.
    pub fn is_served(&self) {
        let before = self.count();
        while self.count() <= before + 1 {
            assert!(!self.thread.is_finished(), "an honest client failed");
            thread::sleep(PAUSE);
        }
    }

    /// Takes the waits since the last call.
    fn take_waits(&self) -> Waits {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = std::mem::take(&mut *waits);
        let sorted = |of: fn(&Wait) -> Duration| {
            let mut times: Vec<_> = waits.iter().map(of).collect();
            times.sort_unstable();
            times
        };
        Waits {
            elapsed: sorted(|wait| wait.elapsed),
            own: sorted(|wait| wait.own),
            work: sorted(|wait| wait.work),
        }
    }

    pub fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("an honest client failed");
    }
}

/// The times of many waits, each in ascending order.
struct Waits {
    elapsed: Vec<Duration>,
    own: Vec<Duration>,
    work: Vec<Duration>,
}

/// Returns a percentile of sorted times.
fn percentile(times: &[Duration], percent: usize) -> Duration {
    let last = times.len().saturating_sub(1);
    let time = times.get((times.len() * percent / 100).min(last));
    time.copied().unwrap_or_default()
}

/// Returns milliseconds with one decimal.
fn milliseconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |percent| milliseconds(percentile(&self.own, percent));
        write!(
            f,
            "p50 {} p99 {} worst {} ms of {}, with waits for a CPU worst {}, the server's work worst {}",
            at(50),
            at(99),
            at(100),
            self.own.len(),
            milliseconds(percentile(&self.elapsed, 100)),
            milliseconds(percentile(&self.work, 100)),
        )
    }
}

/// Lets a server be attacked beside honest clients, and prints what they show. Asserts that the
/// clients whose names are marked with `!` were served in time, and that the server kept no memory
/// beyond `kept` MiB. Returns the largest memory in MiB.
pub fn measure<T>(
    name: &str,
    server: &Process,
    kept: u64,
    clients: Vec<(&str, Honest)>,
    attack: impl FnOnce() -> T,
) -> u64 {
    let serve_all = || clients.iter().for_each(|(_, client)| client.is_served());
    for (_, client) in &clients {
        client.server.store(server.0.id(), Ordering::Relaxed);
    }
    serve_all();
    server.forget_peak();
    serve_all();
    for (_, client) in &clients {
        client.take_waits();
    }
    // Not the memory at one moment: it varies by what the honest clients are doing.
    let before = server.peak();
    server.forget_peak();
    let times = server.times();
    let attackers = attack();
    serve_all();
    let times = server.times().since(times);
    let (peak, threads) = (server.peak(), server.threads());
    let waits: Vec<_> = clients.iter().map(|(_, it)| it.take_waits()).collect();
    drop(attackers);
    let kept = number(KEPT_VARIABLE).unwrap_or(kept);
    // Judged when the state is reached: a busy machine lets the server run late.
    let (begin, running) = (Instant::now(), server.times());
    let mut after = server.memory();
    while after > before + kept
        && server.times().since(running).ran < WORK
        && begin.elapsed() < PATIENCE
    {
        // An idle server returns no memory.
        serve_all();
        thread::sleep(PAUSE);
        after = server.memory();
    }
    let named = clients
        .iter()
        .map(|(client, _)| client.trim_end_matches('!'));
    let shown: Vec<_> = named
        .zip(&waits)
        .map(|(client, waits)| format!("{client} {waits}"))
        .collect();
    println!(
        "{name}: {}; server {before} MiB before, {peak} at its peak, {after} after, {threads} threads; it ran for \
         {} ms and waited {} ms for a CPU",
        shown.join(", "),
        milliseconds(times.ran),
        milliseconds(times.waited),
    );
    let limit = number(WORST_VARIABLE).map_or(WORST, Duration::from_millis);
    let mut worst = Wait::default();
    let is_judged = clients.iter().any(|(client, _)| client.ends_with('!'));
    for ((client, honest), waits) in clients.into_iter().zip(waits) {
        honest.end();
        if !client.ends_with('!') {
            continue;
        }
        let [own, work, elapsed] =
            [&waits.own, &waits.work, &waits.elapsed].map(|times| percentile(times, 100));
        worst.own = worst.own.max(own);
        worst.work = worst.work.max(work);
        worst.elapsed = worst.elapsed.max(elapsed);
    }
    let row = format!(
        "{name} | {} | {} | {} | {before} | {peak} | {after}",
        milliseconds(worst.own),
        milliseconds(worst.work),
        milliseconds(worst.elapsed),
    );
    if is_judged {
        tabulate(&row);
    }
    assert!(
        worst.own <= limit,
        "{name}: a client waited {:?}, which is more than {limit:?}",
        worst.own
    );
    assert!(
        worst.work <= limit,
        "{name}: the server worked for {:?} before it answered, which is more than {limit:?}",
        worst.work
    );
    assert!(after <= before + kept, "{name}: the server keeps memory");
    peak
}

/// Adds a row to the table of all attacks.
fn tabulate(row: &str) {
    if let Some(path) = std::env::var_os(TABLE_VARIABLE) {
        let file = OpenOptions::new().append(true).create(true).open(path);
        let mut file = file.expect("the table");
        writeln!(file, "{row}").expect("the table");
    }
}

/// Reads a line of a server's output that begins with this text, and returns the rest of it.
pub fn line_after(output: &mut impl io::Read, begin: &str) -> String {
    let mut line = Vec::new();
    loop {
        let mut byte = [0];
        output.read_exact(&mut byte).expect("the server starts");
        if byte != *b"\n" {
            line.extend(byte);
            continue;
        }
        let text = String::from_utf8_lossy(&line).into_owned();
        if let Some(rest) = text.strip_prefix(begin) {
            return rest.to_owned();
        }
        line.clear();
    }
}
