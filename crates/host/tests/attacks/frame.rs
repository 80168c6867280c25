//! The framework of all attacks: a service, honest clients, and attackers as other processes.
#![allow(dead_code, reason = "each attack uses a part")]

use std::env;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Child;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ferretto_ipc::Address;
use ferretto_ipc::frame;
use ferretto_ipc::port::{Method as _, PortMessage};
use ferretto_ipc::socket::Socket;
use ferretto_testing::attack::{measure, this_program, time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::ATTACKS;
use crate::honest;
use crate::service::{CONSUMERS, PRODUCERS, Service, ServiceOptions};

/// The variable that tells a process which attack to make, and for how many milliseconds.
const ATTACK_VARIABLE: &str = "FERRETTO_TEST_ATTACK";
const TIME_VARIABLE: &str = "FERRETTO_TEST_ATTACK_MS";

/// The time until attackers have ended.
const PATIENCE: Duration = Duration::from_secs(240);

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

/// Sends bytes, as long as there is soon space for them. Returns true if all were taken.
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

    let mut service = Service::start(&attack.service);
    let clients = honest::start(&service);
    measure(name, &service.process, attack.kept_mib, clients, || {
        if let Some(attackers) = Attackers::start(name, attack, &service) {
            assert!(attackers.wait(), "an attacker of {name} failed");
        }
    });
    service.assert_alive();
    service.end();
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The processes of an attack.
struct Attackers(Vec<Child>);

impl Attackers {
    /// Starts the attackers; `None` if that is not possible.
    fn start(name: &str, attack: &Attack, service: &Service) -> Option<Self> {
        let mut attackers = Self(Vec::new());
        if !is_root() {
            println!("skipped: the attackers of {name} are this user: only root can be others");
        }
        for user in attack.users {
            let mut command = this_program("attacker_main");
            command
                .env(ATTACK_VARIABLE, name)
                .env(TIME_VARIABLE, time().as_millis().to_string());
            service.address(&mut command);
            if is_root() {
                command.uid(*user).gid(*user);
            }
            match command.spawn() {
                Ok(child) => attackers.0.push(child),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    println!("skipped: {name}: others may not run this program where it is");
                    return None;
                }
                Err(error) => panic!("{error}"),
            }
        }
        Some(attackers)
    }

    /// Waits until all have ended. Returns true if they succeeded.
    fn wait(mut self) -> bool {
        let deadline = Instant::now() + PATIENCE + time();
        self.0.iter_mut().all(|child| {
            loop {
                match child.try_wait().unwrap() {
                    Some(status) => break status.success(),
                    None if Instant::now() > deadline => break false,
                    None => std::thread::sleep(Duration::from_millis(5)),
                }
            }
        })
    }
}

impl Drop for Attackers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // The child has usually ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
