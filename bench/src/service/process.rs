//! A service as a child process, and its usage of CPU time and memory.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ferretto_client::Address;
use ferretto_host::HostOptions;
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;
use tempfile::TempDir;
use thiserror::Error;

/// The time limit for a service to listen.
const PATIENCE: Duration = Duration::from_secs(10);

/// The argument that runs this program as our service.
pub const SERVE: &str = "traced";

/// The environment variable with the path of another build of this program, whose service is
/// measured as well.
const BEFORE: &str = "FERRETTO_BENCH_BEFORE";

/// Runs the service like `ferretto traced`.
///
/// # Errors
///
/// Fails if the service cannot start or continue.
pub fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let options = HostOptions::from_environment()?;
    Ok(ferretto_host::traced::run(options, |_| ())?)
}

/// The implementation of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Ours: this program, called with [`SERVE`].
    Ours,
    /// The official core, if it is built in.
    Official,
    /// Another build of this program, set by [`BEFORE`].
    Before,
}

impl Who {
    /// Returns all available implementations.
    pub fn all() -> Vec<Self> {
        let mut all = vec![Self::Ours];
        if option_env!("OFFICIAL_SERVICE").is_some() {
            all.push(Self::Official);
        }
        if std::env::var_os(BEFORE).is_some() {
            all.push(Self::Before);
        }
        all
    }

    /// Returns the name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Official => "upstream",
            Self::Before => "before",
        }
    }

    fn command(self) -> Result<Command, StartError> {
        match self {
            Self::Ours => Ok(serving(std::env::current_exe()?)),
            Self::Before => Ok(serving(std::env::var_os(BEFORE).unwrap_or_default())),
            Self::Official => Ok(Command::new(
                option_env!("OFFICIAL_SERVICE").unwrap_or_default(),
            )),
        }
    }
}

/// Returns the command that runs another build of this program as a service.
fn serving(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.arg(SERVE);
    command
}

/// The reason why a service could not be started.
#[derive(Debug, Error)]
pub enum StartError {
    /// The program could not be run.
    #[error("the service does not run: {0}")]
    Run(#[from] std::io::Error),
    /// The service does not listen.
    #[error("the service does not listen within {PATIENCE:?}")]
    Silent,
}

/// The CPU time and memory of a process.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Usage {
    pub(super) cpu: Duration,
    /// The current resident memory in bytes.
    pub(super) resident: u64,
    /// The peak of resident memory in bytes.
    pub(super) peak: u64,
}

/// A running service on sockets in a temporary directory. Stopped on drop.
#[derive(Debug)]
pub(super) struct ServiceProcess {
    child: Child,
    folder: TempDir,
}

impl ServiceProcess {
    pub(super) fn start(who: Who) -> Result<Self, StartError> {
        let folder = TempDir::with_prefix("ferretto-bench-")?;
        let socket = |name: &str| OsString::from(folder.path().join(name));
        let child = who
            .command()?
            .env("PERFETTO_PRODUCER_SOCK_NAME", socket("producer.sock"))
            .env("PERFETTO_CONSUMER_SOCK_NAME", socket("consumer.sock"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let service = Self { child, folder };
        let deadline = Instant::now() + PATIENCE;
        // // The consumers' socket is the last to listen.
        while UnixStream::connect(service.folder.path().join("consumer.sock")).is_err() {
            if Instant::now() > deadline {
                return Err(StartError::Silent);
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(service)
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn producer_address(&self) -> Address {
        self.address("producer.sock")
    }

    pub(super) fn consumer_address(&self) -> Address {
        self.address("consumer.sock")
    }

    fn address(&self, name: &str) -> Address {
        let path = self.folder.path().join(name);
        Address::from_os_str(path.as_os_str()).expect("a path is an address")
    }

    /// Returns the CPU time and memory used so far.
    ///
    /// # Panics
    ///
    /// Panics if the service has ended.
    pub(super) fn usage(&self) -> Usage {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))
            .expect("the service is running");
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|rest| rest.split_whitespace().next());
            1024 * number
                .and_then(|text| text.parse::<u64>().ok())
                .unwrap_or(0)
        };
        Usage {
            cpu: self.cpu(),
            resident: kib("VmRSS:"),
            peak: kib("VmHWM:"),
        }
    }
}

impl ServiceProcess {
    /// Returns the CPU time of all threads, including ended ones, to the nanosecond.
    fn cpu(&self) -> Duration {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        let clock = clock_getcpuclockid(pid).expect("the service is running");
        clock.now().expect("the service is running").into()
    }
}

impl Drop for ServiceProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
