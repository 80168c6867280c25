//! A service as a child process, and what the kernel counts of it.

use std::ffi::OsString;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ferretto_client::Address;
use ferretto_host::HostOptions;
use tempfile::TempDir;
use thiserror::Error;

/// The time that a service may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);

/// The argument that makes the program our service.
pub const SERVE: &str = "traced";

/// Serves as `ferretto traced` does.
///
/// # Errors
///
/// When it cannot, or not any more.
pub fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let options = HostOptions::from_environment()?;
    Ok(ferretto_host::traced::run(options, |_| ())?)
}

/// The maker of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Ours: the running program, called with [`SERVE`].
    Ours,
    /// The official core's, if it is built in.
    Official,
}

impl Who {
    /// All that are there.
    pub fn all() -> &'static [Self] {
        if option_env!("OFFICIAL_SERVICE").is_some() {
            &[Self::Ours, Self::Official]
        } else {
            &[Self::Ours]
        }
    }

    /// As the report names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Official => "upstream",
        }
    }

    fn command(self) -> Result<Command, StartError> {
        match self {
            Self::Ours => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg(SERVE);
                Ok(command)
            }
            Self::Official => Ok(Command::new(
                option_env!("OFFICIAL_SERVICE").unwrap_or_default(),
            )),
        }
    }
}

/// Why there is no service to measure.
#[derive(Debug, Error)]
pub enum StartError {
    /// It could not be run.
    #[error("the service does not run: {0}")]
    Run(#[from] std::io::Error),
    /// It does not listen.
    #[error("the service does not listen within {PATIENCE:?}")]
    Silent,
}

/// Processor time and memory of a process.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Usage {
    pub(super) cpu: Duration,
    /// Resident now, in bytes.
    pub(super) resident: u64,
    /// The most that was resident, in bytes.
    pub(super) peak: u64,
}

/// A running service on sockets in a folder of its own. Ends with the value.
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
        // The consumers' socket is the second to listen.
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

    /// Returns the CPU time and memory that it has used so far.
    ///
    /// # Panics
    ///
    /// When it is gone.
    pub(super) fn usage(&self) -> Usage {
        let read = |name: &str| {
            fs::read_to_string(format!("/proc/{}/{name}", self.child.id()))
                .expect("the service is running")
        };
        let status = read("status");
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|rest| rest.split_whitespace().next());
            1024 * number
                .and_then(|text| text.parse::<u64>().ok())
                .unwrap_or(0)
        };
        Usage {
            cpu: cpu(&read("stat")),
            resident: kib("VmRSS:"),
            peak: kib("VmHWM:"),
        }
    }
}

impl Drop for ServiceProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `utime` and `stime` of `/proc/PID/stat`, of all threads, those that ended included.
fn cpu(stat: &str) -> Duration {
    // The name before it may hold blanks and brackets.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|text| text.parse::<u64>().ok())
        .sum();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
