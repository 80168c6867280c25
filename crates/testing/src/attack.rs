//! Attacks on servers: the attacked process, honest clients beside the attackers, and what both
//! show.

use std::fmt;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The user of attackers.
pub const NOBODY: u32 = 65_534;
/// The longest wait of an honest client, besides the time for which the server waits for a CPU.
const WORST: Duration = Duration::from_millis(100);
/// The pause between two requests of an honest client: attackers should keep the server busy.
const PAUSE: Duration = Duration::from_millis(2);
/// The variable with the longest time that honest clients may wait, in milliseconds.
const WORST_VARIABLE: &str = "ATTACK_WORST_MS";
/// The variable with the duration of each attack, in milliseconds.
const TIME_VARIABLE: &str = "ATTACK_MS";

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

    /// Returns the time for which its threads have waited for a CPU.
    fn waited(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0.id()));
        let tasks = tasks.expect("the server lives").flatten();
        // A thread may have ended meanwhile; not every kernel counts.
        let texts = tasks.map(|task| std::fs::read_to_string(task.path().join("schedstat")));
        texts.flatten().map(|text| waited(&text)).sum()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already, or is no longer needed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the time of waiting for a CPU in the kernel's statistics of a thread.
fn waited(schedstat: &str) -> Duration {
    let waited = schedstat.split(' ').nth(1);
    Duration::from_nanos(waited.and_then(|text| text.parse().ok()).unwrap_or(0))
}

fn waited_here() -> Duration {
    waited(&std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default())
}

/// An honest client, which makes the same request again and again.
pub struct Honest {
    over: Arc<AtomicBool>,
    times: Arc<Mutex<Vec<Duration>>>,
    thread: JoinHandle<()>,
}

impl Honest {
    pub fn start(mut request: impl FnMut() + Send + 'static) -> Self {
        let (over, times) = (
            Arc::<AtomicBool>::default(),
            Arc::<Mutex<Vec<Duration>>>::default(),
        );
        let run = {
            let (over, times) = (over.clone(), times.clone());
            move || {
                while !over.load(Ordering::Relaxed) {
                    let (begin, waited) = (Instant::now(), waited_here());
                    request();
                    // The client itself may have to wait for a CPU.
                    let own = waited_here().saturating_sub(waited);
                    let time = begin.elapsed().saturating_sub(own);
                    let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
                    times.push(time);
                    drop(times);
                    thread::sleep(PAUSE);
                }
            }
        };
        let thread = thread::spawn(run);
        Self {
            over,
            times,
            thread,
        }
    }

    fn count(&self) -> usize {
        let times = self.times.lock();
        times.unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Waits until the client has been served once more.
    pub fn is_served(&self) {
        let before = self.count();
        while self.count() <= before + 1 {
            assert!(!self.thread.is_finished(), "an honest client failed");
            thread::yield_now();
        }
    }

    /// Returns the durations of its requests since the last call, in ascending order.
    pub fn take_times(&self) -> Latencies {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let mut times = std::mem::take(&mut *times);
        times.sort_unstable();
        Latencies(times)
    }

    pub fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("an honest client failed");
    }
}

/// Durations of requests in ascending order.
pub struct Latencies(Vec<Duration>);

impl Latencies {
    pub fn worst(&self) -> Duration {
        self.0.last().copied().unwrap_or_default()
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |percent: usize| {
            let last = self.0.len().saturating_sub(1);
            let time = self.0.get((self.0.len() * percent / 100).min(last));
            time.copied().unwrap_or_default().as_secs_f64() * 1e3
        };
        let count = self.0.len();
        let [p50, p99, worst] = [50, 99, 100].map(at);
        write!(
            f,
            "p50 {p50:.1} p99 {p99:.1} worst {worst:.1} ms of {count}"
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
    for (_, client) in &clients {
        client.is_served();
        client.take_times();
    }
    server.forget_peak();
    for (_, client) in &clients {
        client.is_served();
        client.take_times();
    }
    // Not the memory at one moment: it varies by what the honest clients are doing.
    let before = server.peak();
    server.forget_peak();
    let waited = server.waited();
    let attackers = attack();
    for (_, client) in &clients {
        client.is_served();
    }
    let waited = server.waited().saturating_sub(waited);
    let (peak, threads) = (server.peak(), server.threads());
    let limit = number(WORST_VARIABLE).map_or(WORST, Duration::from_millis) + waited;
    let latencies: Vec<_> = clients.iter().map(|(_, it)| it.take_times()).collect();
    drop(attackers);
    let deadline = Instant::now() + Duration::from_secs(60);
    while server.memory() > before + kept && Instant::now() < deadline {
        clients.iter().for_each(|(_, client)| client.is_served());
    }
    let after = server.memory();
    let named = clients
        .iter()
        .map(|(client, _)| client.trim_end_matches('!'));
    let shown = named.zip(&latencies);
    let shown: Vec<_> = shown
        .map(|(client, times)| format!("{client} {times}"))
        .collect();
    println!(
        "{name}: {}; server {before} MiB before, {peak} at its peak, {after} after, {threads} threads; it waited \
         {:.1} ms for a CPU",
        shown.join(", "),
        waited.as_secs_f64() * 1e3,
    );
    for ((client, honest), times) in clients.into_iter().zip(latencies) {
        honest.end();
        let worst = times.worst();
        assert!(
            !client.ends_with('!') || worst <= limit,
            "{name}: {client}: {worst:?} is more than {limit:?}"
        );
    }
    assert!(after <= before + kept, "{name}: the server keeps memory");
    peak
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
