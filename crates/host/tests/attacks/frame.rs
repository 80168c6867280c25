//! The framework of all attacks: a service, honest clients, attackers as other processes, and the
//! measurements.
#![allow(dead_code, reason = "each attack uses a part")]

use std::env;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ferretto_ipc::Address;
use ferretto_ipc::frame;
use ferretto_ipc::port::{Method as _, PortMessage};
use ferretto_ipc::socket::Socket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::ATTACKS;
use crate::honest::{Honest, Latencies};
use crate::service::{CONSUMERS, PRODUCERS, Service, ServiceOptions};

/// The variable with the duration of all attacks together.
const SECONDS_VARIABLE: &str = "ATTACK_SECONDS";
/// The variable with the longest time that the honest clients may wait, in milliseconds.
const WORST_VARIABLE: &str = "ATTACK_WORST_MS";
/// The variable with the allowed growth of the service in MiB, in place of the attack's own limit:
/// sanitizers keep freed memory.
const KEPT_VARIABLE: &str = "ATTACK_KEPT_MIB";
/// The variable that tells a process which attack to make, and for how many milliseconds.
const ATTACK_VARIABLE: &str = "FERRETTO_TEST_ATTACK";
const TIME_VARIABLE: &str = "FERRETTO_TEST_ATTACK_MS";

/// The duration of an attack in an ordinary test.
const SHORT: Duration = Duration::from_millis(500);
/// The longest wait of an honest client, besides the time for which the service waits for a CPU.
const WORST: Duration = Duration::from_millis(100);
/// The time until attackers have ended and memory is returned.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time for which attackers wait until they can send.
const SOON: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// The users of attackers.
pub(crate) const NOBODY: u32 = 65_534;
pub(crate) const TWO: &[u32] = &[NOBODY, 65_533];
pub(crate) const EIGHT: &[u32] = &[
    NOBODY, 65_533, 65_532, 65_531, 65_530, 65_529, 65_528, 65_527,
];

/// One attack.
pub(crate) struct Attack {
    /// The users that attack, each in a process of its own.
    pub(crate) users: &'static [u32],
    /// The attack, run in each of these processes. It lasts while [`Target::goes_on`] returns true;
    /// the process ends with it.
    pub(crate) run: fn(&Target),
    /// The options of the service.
    pub(crate) service: ServiceOptions,
    /// The growth of the service's memory in MiB that is allowed.
    pub(crate) kept_mib: u64,
}

impl Attack {
    /// Returns an attack by the user nobody on a service with default options.
    pub(crate) const fn by_nobody(run: fn(&Target)) -> Self {
        Self {
            users: &[NOBODY],
            run,
            service: ServiceOptions::DEFAULT,
            kept_mib: 16,
        }
    }
}

/// The attacked service, and the end of the attack.
pub(crate) struct Target {
    until: Instant,
}

impl Target {
    /// Returns true if there is time left. An attack that consists of rounds does at least one.
    pub(crate) fn goes_on(&self) -> bool {
        Instant::now() < self.until
    }

    /// Waits until the time is over, with all connections still open.
    pub(crate) fn hold(&self) {
        while let Some(left) = self.until.checked_duration_since(Instant::now()) {
            std::thread::sleep(left);
        }
    }

    /// Opens a connection; `None` if it is refused for now.
    pub(crate) fn producer_socket(&self) -> Option<Socket> {
        connect(PRODUCERS)
    }

    /// Opens a connection; `None` if it is refused for now.
    pub(crate) fn consumer_socket(&self) -> Option<Socket> {
        connect(CONSUMERS)
    }
}

fn connect(variable: &str) -> Option<Socket> {
    let address: Address = env::var(variable).unwrap().parse().unwrap();
    Socket::connect(&address).ok()
}

/// Returns the frame of a call.
pub(crate) fn call<M: PortMessage>(request: &M, drop_reply: bool) -> Vec<u8> {
    let (method, size) = (request.method().id(), request.encoded_len());
    frame::invoke_method(1, 1, method, drop_reply, size, |out| request.encode(out))
}

/// Sends bytes, as long as there is soon room for them. Returns true if all were taken.
pub(crate) fn push(socket: &Socket, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match rustix::net::send(socket, bytes, flags) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::AGAIN) => {
                let mut fds = [PollFd::new(socket, PollFlags::OUT)];
                if poll(&mut fds, Some(&SOON)).unwrap() == 0 {
                    return false;
                }
            }
            Err(_) => return false,
        }
    }
    true
}

/// Attacks, in the process of an attacker: the test [`attacker_main`](crate::attacker_main) is its
/// entry point.
pub(crate) fn attacker_main() {
    let Ok(name) = env::var(ATTACK_VARIABLE) else {
        return;
    };
    let (_, attack) = ATTACKS.iter().find(|(known, _)| *known == name).unwrap();
    let time: u64 = env::var(TIME_VARIABLE).unwrap().parse().unwrap();
    let until = Instant::now() + Duration::from_millis(time);
    (attack.run)(&Target { until });
}

/// Makes an attack, prints the measurements of the honest clients, and asserts that it failed.
pub(crate) fn run(name: &str, attack: &Attack) {
    // One attack at a time: they would disturb each other.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);

    let time = time();
    let mut service = Service::start(&attack.service);
    let honest = Honest::start(&service);
    service.forget_peak();
    honest.serve_for(time / 5);
    honest.take_latencies();
    // Not the memory at one moment: it varies by what the honest clients are doing.
    let before = service.peak();
    service.forget_peak();
    let times = service.times();

    let Some(attackers) = Attackers::start(name, attack, &service, time) else {
        return;
    };
    let (success, duration) = attackers.wait();
    let latencies = honest.take_latencies();
    let [ran, waited] = service.times();
    let [ran, waited] = [
        ran.saturating_sub(times[0]),
        waited.saturating_sub(times[1]),
    ];
    let peak = service.peak();
    let limit = before + (number(KEPT_VARIABLE).unwrap_or(attack.kept_mib) << 20);
    let deadline = Instant::now() + PATIENCE;
    let mut after = service.memory();
    while after > limit && Instant::now() < deadline {
        // An idle service returns no memory.
        honest.serve_for(Duration::from_millis(50));
        after = service.memory();
    }
    service.assert_alive();
    honest.end();
    service.end();

    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "{name}: {} for {:.1} s; {latencies}; service {:.1} MiB before, {:.1} at its peak, {:.1} after; it ran \
         for {} ms and waited {} ms for a CPU",
        users(attack),
        duration.as_secs_f64(),
        mib(before),
        mib(peak),
        mib(after),
        milliseconds(ran),
        milliseconds(waited),
    );
    tabulate(format!(
        "{name:<20} {:>10} {:>10} {:>10} {:>8.1} {:>8.1} {:>8.1}",
        milliseconds(latencies.worst()),
        milliseconds(ran),
        milliseconds(waited),
        mib(before),
        mib(peak),
        mib(after),
    ));
    assert!(success, "an attacker of {name} failed");
    assert!(after <= limit, "{name}: the service keeps memory");
    let worst = number(WORST_VARIABLE).map_or(WORST, Duration::from_millis) + waited;
    assert!(
        latencies.worst() <= worst,
        "{name}: more than {worst:?} is too long"
    );
}

/// Adds a row to the table of all attacks, and prints it if it is the last one.
fn tabulate(row: String) {
    static ROWS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
    rows.push(row);
    if rows.len() == ATTACKS.len() {
        rows.sort_unstable();
        println!(
            "All attacks: worst wait of the honest clients, time that the service ran and waited for a CPU (ms), \
             memory before, at its peak and after (MiB)\n{}",
            rows.join("\n")
        );
    }
}

fn time() -> Duration {
    number(SECONDS_VARIABLE).map_or(SHORT, |seconds| {
        Duration::from_secs(seconds) / ATTACKS.len() as u32
    })
}

/// Returns a number from the environment.
fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn users(attack: &Attack) -> String {
    match (is_root(), attack.users) {
        (false, users) => format!("{} processes of this user", users.len()),
        (true, [user]) => format!("user {user}"),
        (true, users) => format!("{} users", users.len()),
    }
}

/// The processes of an attack.
struct Attackers {
    children: Vec<Child>,
    begin: Instant,
}

impl Attackers {
    /// Starts the attackers; `None` if that is not possible.
    fn start(name: &str, attack: &Attack, service: &Service, time: Duration) -> Option<Self> {
        let mut attackers = Self {
            children: Vec::new(),
            begin: Instant::now(),
        };
        if !is_root() {
            println!("skipped: the attackers of {name} are this user: only root can be others");
        }
        for user in attack.users {
            let mut command = this_program("attacker_main");
            command
                .env(ATTACK_VARIABLE, name)
                .env(TIME_VARIABLE, time.as_millis().to_string());
            service.address(&mut command);
            if is_root() {
                command.uid(*user).gid(*user);
            }
            match command.spawn() {
                Ok(child) => attackers.children.push(child),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    println!("skipped: {name}: others may not run this program where it is");
                    return None;
                }
                Err(error) => panic!("{error}"),
            }
        }
        Some(attackers)
    }

    /// Waits until all have ended. Returns true if they succeeded, and the time that took.
    fn wait(mut self) -> (bool, Duration) {
        let mut success = true;
        let deadline = self.begin + PATIENCE + time();
        for child in &mut self.children {
            loop {
                match child.try_wait().unwrap() {
                    Some(status) => {
                        success &= status.success();
                        break;
                    }
                    None if Instant::now() > deadline => {
                        success = false;
                        break;
                    }
                    None => std::thread::sleep(Duration::from_millis(5)),
                }
            }
        }
        (success, self.begin.elapsed())
    }
}

impl Drop for Attackers {
    fn drop(&mut self) {
        for child in &mut self.children {
            // The child has usually ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns a command that runs this program with one of its tests as its main function.
pub(crate) fn this_program(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture"])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// Returns milliseconds with one decimal.
fn milliseconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

impl std::fmt::Display for Latencies {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (who, times) in [("producer", &self.producer), ("consumer", &self.consumer)] {
            let at = |percent: usize| {
                let index = (times.len() * percent / 100).min(times.len().saturating_sub(1));
                times
                    .get(index)
                    .map_or_else(|| "-".to_owned(), |time| milliseconds(*time))
            };
            let separator = if who == "producer" { "" } else { ", " };
            let count = times.len();
            write!(
                out,
                "{separator}{who} p50 {} p99 {} worst {} ms of {count}",
                at(50),
                at(99),
                at(100)
            )?;
        }
        Ok(())
    }
}
