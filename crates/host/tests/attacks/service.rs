//! The attacked service: the daemon in a process of its own.

use std::fs::{Permissions, set_permissions};
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use ferretto_host::{FilePermissions, HostOptions, SocketPermissions};
use ferretto_ipc::Address;
use ferretto_ipc::socket::Socket;
use ferretto_testing::attack::{Process, this_program};
use nix::sys::signal::SigSet;
use nix::sys::signal::Signal::{SIGINT, SIGTERM};
use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process, setrlimit};

/// The variable with the address at which the service listens.
pub(crate) const PRODUCERS: &str = "PERFETTO_PRODUCER_SOCK_NAME";
pub(crate) const CONSUMERS: &str = "PERFETTO_CONSUMER_SOCK_NAME";
/// Set where [`main`] acts as the service, to the number of descriptors it may open.
const SERVICE_VARIABLE: &str = "FERRETTO_TEST_SERVICE";

/// The options of a service.
pub(crate) struct ServiceOptions {
    /// The limit of descriptors; 0 for that of this process.
    pub(crate) descriptors: u64,
}

impl ServiceOptions {
    pub(crate) const DEFAULT: Self = Self { descriptors: 0 };
}

/// Serves, in the process of the service: the test [`service_main`](crate::service_main) is its
/// entry point.
pub(crate) fn main() {
    let Ok(descriptors) = std::env::var(SERVICE_VARIABLE) else {
        return;
    };
    let descriptors: u64 = descriptors.parse().unwrap();
    if descriptors > 0 {
        let mut limit = getrlimit(Resource::Nofile);
        (limit.current, limit.maximum) = (Some(descriptors), Some(descriptors));
        setrlimit(Resource::Nofile, limit).unwrap();
    }
    let mut options = HostOptions::from_environment().unwrap();
    let anyone = FilePermissions {
        group: rustix::process::getegid().as_raw(),
        mode: 0o666,
    };
    options.permissions = Some(SocketPermissions {
        producer: anyone.clone(),
        consumer: anyone,
    });
    ferretto_host::traced::run(options, |_| ()).unwrap_or_else(|error| panic!("{error}"));
}

/// A running service that all users may connect to.
pub(crate) struct Service {
    folder: tempfile::TempDir,
    pub(crate) process: Process,
}

impl Service {
    pub(crate) fn start(options: &ServiceOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        // The child inherits it under the same number.
        rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::empty()).unwrap();
        let mut command = this_program("service_main");
        command
            .env(SERVICE_VARIABLE, options.descriptors.to_string())
            .env("TRACED_NOTIFY_FD", writer.as_raw_fd().to_string());
        let mut service = Self {
            process: {
                address(&mut command, folder.path().into());
                // Its other threads, those of the test, have its signals blocked, too.
                let signals = SigSet::from_iter([SIGINT, SIGTERM]);
                signals.thread_block().unwrap();
                let child = command.spawn();
                signals.thread_unblock().unwrap();
                Process(child.unwrap())
            },
            folder,
        };
        drop(writer);
        if reader.read_exact(&mut [0]).is_err() {
            panic!("the service does not start: {:?}", service.process.0.wait());
        }
        service
    }

    /// Passes the service's addresses to a program.
    pub(crate) fn address(&self, command: &mut Command) {
        address(command, self.folder.path().into());
    }

    pub(crate) fn producer_socket(&self) -> Socket {
        Socket::connect(&Address::Path(self.folder.path().join("p"))).unwrap()
    }

    pub(crate) fn consumer_socket(&self) -> Socket {
        Socket::connect(&Address::Path(self.folder.path().join("c"))).unwrap()
    }

    pub(crate) fn assert_alive(&mut self) {
        let ended = self.process.0.try_wait().unwrap();
        assert!(ended.is_none(), "the service ended: {ended:?}");
    }

    /// Ends the service as an operator does.
    pub(crate) fn end(mut self) {
        kill_process(Pid::from_child(&self.process.0), Signal::TERM).unwrap();
        assert!(self.process.0.wait().unwrap().success());
    }
}

fn address(command: &mut Command, folder: PathBuf) {
    command.env(PRODUCERS, folder.join("p"));
    command.env(CONSUMERS, folder.join("c"));
}
