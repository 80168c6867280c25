//! The folder, sockets and programs of a scenario.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use ferretto_proto::{Message as _, TraceConfig};
use tempfile::TempDir;

use crate::old_service::OldService;
use crate::on_ours::OnOurs;
use crate::peer::{Peer, Programs, Sdk, Side};
use crate::trace;
use crate::wire::Message;
use ferretto_interop_driver::PATIENCE;

/// The implementations of the programs in a scenario.
#[derive(Debug, Clone, Copy)]
pub struct Cast {
    /// The tracing service.
    pub service: Side,
    /// The instrumented program.
    pub producer: Sdk,
    /// The program that records.
    pub consumer: Side,
}

/// The two sockets in their own folder, and the proxies if the sockets belong to an older service.
#[derive(Debug)]
struct Sockets {
    folder: TempDir,
    older: Vec<OldService>,
}

impl Sockets {
    fn new() -> Self {
        let folder = TempDir::with_prefix("ferretto-interop-").expect("a temporary folder");
        Self {
            folder,
            older: Vec::new(),
        }
    }

    /// Returns the environment variables with these sockets for programs.
    fn environment(&self) -> [(&'static str, OsString); 2] {
        self.named("")
    }

    /// Returns the environment variables with the sockets for the service.
    fn of_service(&self) -> [(&'static str, OsString); 2] {
        self.named(if self.older.is_empty() { "" } else { "newer-" })
    }

    fn named(&self, prefix: &str) -> [(&'static str, OsString); 2] {
        let path = |port: &str| {
            let name = format!("{prefix}{port}.sock");
            self.folder.path().join(name).into()
        };
        [
            ("PERFETTO_PRODUCER_SOCK_NAME", path("producer")),
            ("PERFETTO_CONSUMER_SOCK_NAME", path("consumer")),
        ]
    }

    /// Starts proxies that hide newer methods.
    fn add_proxies(&mut self, missing: &'static [&'static str]) {
        let [producer, consumer] = self.environment().map(|(_, path)| path);
        let [newer_producer, newer_consumer] = self.named("newer-").map(|(_, path)| path);
        self.older = vec![
            OldService::start(producer.as_ref(), newer_producer.as_ref(), missing),
            OldService::start(consumer.as_ref(), newer_consumer.as_ref(), missing),
        ];
    }
}

/// A service on private sockets, and the means to start programs that connect to it. Everything
/// ends, and the folder is removed, when this value and its programs are dropped.
#[derive(Debug)]
pub struct World {
    cast: Cast,
    programs: Programs,
    service: Option<Peer>,
    sockets: Sockets,
}

impl World {
    /// Creates the folder and starts the service in it.
    ///
    /// # Panics
    ///
    /// If this fails.
    #[must_use]
    pub fn new(cast: Cast, programs: Programs) -> Self {
        let mut world = Self::without_service(cast, programs);
        world.start_service();
        world
    }

    /// Creates only the folder.
    #[must_use]
    pub fn without_service(cast: Cast, programs: Programs) -> Self {
        Self {
            cast,
            programs,
            service: None,
            sockets: Sockets::new(),
        }
    }

    /// Creates the folder and starts a service without newer methods in it.
    ///
    /// # Panics
    ///
    /// As [`Self::new`].
    #[must_use]
    pub fn of_old_service(
        cast: Cast,
        programs: Programs,
        missing: &'static [&'static str],
    ) -> Self {
        let mut world = Self::without_service(cast, programs);
        world.sockets.add_proxies(missing);
        world.start_service();
        world
    }

    /// Creates the folder and starts another daemon in it, which cannot be restarted.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn of_daemon(mut daemon: Command, programs: Programs) -> Self {
        let sockets = Sockets::new();
        let log = File::create(sockets.folder.path().join("daemon.log")).expect("a log");
        daemon.stderr(log);
        let service = Peer::start(daemon, sockets.of_service());
        for (_, socket) in sockets.environment() {
            let deadline = Instant::now() + PATIENCE;
            while UnixStream::connect(&socket).is_err() {
                assert!(Instant::now() < deadline, "the daemon does not listen");
                std::thread::yield_now();
            }
        }
        let whose = Side::Official;
        Self {
            cast: Cast {
                service: whose,
                producer: whose.into(),
                consumer: whose,
            },
            programs,
            service: Some(service),
            sockets,
        }
    }

    /// Sets the sockets and the scenario's folder for a command.
    #[must_use]
    pub fn command(&self, mut command: Command) -> Command {
        command.envs(self.sockets.environment());
        command.current_dir(self.folder());
        command
    }

    /// Starts the service again after [`Self::stop_service`].
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start_service(&mut self) {
        let command = match self.cast.service {
            Side::Ours => self.driver(Side::Ours, "service"),
            Side::Official => core("service"),
        };
        let mut service = Peer::start(command, self.sockets.of_service());
        service.answer();
        self.service = Some(service);
    }

    /// Kills the service.
    pub fn stop_service(&mut self) {
        self.service = None;
    }

    /// Returns the running service.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn service(&self) -> &Peer {
        self.service.as_ref().expect("the service runs")
    }

    /// Starts a producer.
    #[must_use]
    pub fn producer(&self) -> Peer {
        self.producer_of(self.cast.producer)
    }

    /// Starts a producer with this SDK, independently of the cast.
    #[must_use]
    pub fn producer_of(&self, sdk: impl Into<Sdk>) -> Peer {
        let command = match sdk.into() {
            Sdk::Ours => self.driver(Side::Ours, "producer"),
            Sdk::Official => self.driver(Side::Official, "producer"),
            Sdk::OfficialOnOurs => {
                let mut command = OnOurs::get().command();
                command.arg("producer");
                command
            }
        };
        Peer::start(command, self.sockets.environment())
    }

    /// Starts a consumer; the official one is a tracing session of the SDK.
    #[must_use]
    pub fn consumer(&self) -> Peer {
        self.consumer_of(self.cast.consumer)
    }

    /// Starts a consumer of this side, independently of the cast.
    #[must_use]
    pub fn consumer_of(&self, whose: Side) -> Peer {
        Peer::start(self.driver(whose, "consumer"), self.sockets.environment())
    }

    /// Starts a consumer that supports the whole protocol; the official one is the endpoint of
    /// upstream's `perfetto` command.
    #[must_use]
    pub fn full_consumer(&self) -> Peer {
        let command = match self.cast.consumer {
            Side::Ours => self.driver(Side::Ours, "consumer"),
            Side::Official => core("consumer"),
        };
        Peer::start(command, self.sockets.environment())
    }

    /// Starts a producer with startup tracing; the official one uses upstream's C++ SDK.
    ///
    /// # Panics
    ///
    /// If the cast's producer does not support it.
    #[must_use]
    pub fn startup_producer(&self) -> Peer {
        let command = match self.cast.producer {
            Sdk::Ours => self.driver(Side::Ours, "startup"),
            Sdk::Official => core("startup"),
            Sdk::OfficialOnOurs => panic!("the C interface has no startup tracing"),
        };
        Peer::start(command, self.sockets.environment())
    }

    fn driver(&self, whose: Side, role: &str) -> Command {
        let mut command = Command::new(match whose {
            Side::Ours => self.programs.ours,
            Side::Official => self.programs.official,
        });
        command.arg(role);
        command
    }

    /// Returns the scenario's folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.sockets.folder.path()
    }

    /// Returns a path in the scenario's folder.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Writes a config for a program, and returns its path.
    ///
    /// # Panics
    ///
    /// If this fails.
    #[must_use]
    pub fn config_file(&self, config: &TraceConfig) -> String {
        let path = self.file("config.pb");
        std::fs::write(&path, config.encode_to_vec()).expect("the config is written");
        path.display().to_string()
    }

    /// Starts a session.
    ///
    /// # Panics
    ///
    /// If the consumer fails.
    pub fn start_session(&self, consumer: &mut Peer, config: &TraceConfig) {
        consumer.run(&format!("start {}", self.config_file(config)));
    }

    /// Reads the current data of the session's buffers.
    ///
    /// # Panics
    ///
    /// If the consumer fails.
    pub fn read(&self, consumer: &mut Peer) -> Vec<u8> {
        let path = self.file("trace.pftrace");
        consumer.run(&format!("read {}", path.display()));
        std::fs::read(&path).expect("the trace was written")
    }

    /// Reads a file that the service writes until its trace satisfies a condition, with a flush
    /// before each read.
    ///
    /// # Panics
    ///
    /// If this does not happen.
    #[must_use]
    pub fn await_in_file(
        &self,
        consumer: &mut Peer,
        path: &Path,
        condition: impl Fn(&[Message]) -> bool,
    ) -> Vec<Message> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            consumer.run("flush");
            let written = std::fs::read(path).expect("the trace was written");
            // The file may end with an incomplete packet that is being written.
            let packets = Message::try_decode(&written).map(|_| trace::decode(&written));
            if let Some(packets) = packets.filter(|packets| condition(packets)) {
                return packets;
            }
        }
        panic!("the file never contains the written data");
    }

    /// Stops the session and reads the rest of its trace.
    ///
    /// # Panics
    ///
    /// If the consumer fails.
    pub fn stop_and_read(&self, consumer: &mut Peer) -> Vec<u8> {
        assert_eq!(consumer.run("stop"), "", "the session ends well");
        self.read(consumer)
    }
}

/// Returns a command for a program with upstream's internal classes.
fn core(role: &str) -> Command {
    let mut command = Command::new(env!("OFFICIAL_CORE"));
    command.arg(role);
    command
}
