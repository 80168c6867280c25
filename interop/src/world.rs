//! One scenario's folder, sockets and programs.

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
use crate::peer::{Peer, Programs, Sdk, Whose};
use crate::trace;
use crate::wire::Message;
use ferretto_interop_driver::PATIENCE;

/// The sides that play the parts.
#[derive(Debug, Clone, Copy)]
pub struct Cast {
    /// The tracing service.
    pub service: Whose,
    /// The instrumented program.
    pub producer: Sdk,
    /// The program that records.
    pub consumer: Whose,
}

/// The two sockets in a folder of their own, and where the service is if they are those of an older
/// one.
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

    /// The variables that lead a program to these sockets.
    fn environment(&self) -> [(&'static str, OsString); 2] {
        self.named("")
    }

    /// The variables that tell the service where to listen.
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

    /// Puts services in front that have not all methods yet.
    fn grow_older(&mut self, missing: &'static [&'static str]) {
        let [producer, consumer] = self.environment().map(|(_, path)| path);
        let [newer_producer, newer_consumer] = self.named("newer-").map(|(_, path)| path);
        self.older = vec![
            OldService::start(producer.as_ref(), newer_producer.as_ref(), missing),
            OldService::start(consumer.as_ref(), newer_consumer.as_ref(), missing),
        ];
    }
}

/// A service on private sockets and what is needed to start programs that find
/// it. Everything ends, and the folder goes, when this value and the programs
/// started from it are dropped.
#[derive(Debug)]
pub struct World {
    cast: Cast,
    programs: Programs,
    service: Option<Peer>,
    sockets: Sockets,
}

impl World {
    /// Makes the folder and starts the service in it.
    ///
    /// # Panics
    ///
    /// When that fails.
    #[must_use]
    pub fn new(cast: Cast, programs: Programs) -> Self {
        let mut world = Self::without_service(cast, programs);
        world.start_service();
        world
    }

    /// Makes the folder only.
    #[must_use]
    pub fn without_service(cast: Cast, programs: Programs) -> Self {
        Self {
            cast,
            programs,
            service: None,
            sockets: Sockets::new(),
        }
    }

    /// Makes the folder and starts a service in it that has not all methods yet.
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
        world.sockets.grow_older(missing);
        world.start_service();
        world
    }

    /// Makes the folder and starts a daemon in it that is not one of these
    /// programs. It cannot be started again.
    ///
    /// # Panics
    ///
    /// When it does not come up.
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
        let whose = Whose::Official;
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

    /// Makes a command find the sockets and run in the scenario's folder.
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
    /// When it does not come up.
    pub fn start_service(&mut self) {
        let command = match self.cast.service {
            Whose::Ours => self.driver(Whose::Ours, "service"),
            Whose::Official => core("service"),
        };
        let mut service = Peer::start(command, self.sockets.of_service());
        service.answer();
        self.service = Some(service);
    }

    /// Kills the service.
    pub fn stop_service(&mut self) {
        self.service = None;
    }

    /// The running service.
    ///
    /// # Panics
    ///
    /// When there is none.
    #[must_use]
    pub fn service(&self) -> &Peer {
        self.service.as_ref().expect("the service runs")
    }

    /// Starts a producer.
    #[must_use]
    pub fn producer(&self) -> Peer {
        self.producer_of(self.cast.producer)
    }

    /// Starts a producer, whoever plays it in the cast.
    #[must_use]
    pub fn producer_of(&self, sdk: impl Into<Sdk>) -> Peer {
        let command = match sdk.into() {
            Sdk::Ours => self.driver(Whose::Ours, "producer"),
            Sdk::Official => self.driver(Whose::Official, "producer"),
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

    /// Starts such a consumer, whoever plays it in the cast.
    #[must_use]
    pub fn consumer_of(&self, whose: Whose) -> Peer {
        Peer::start(self.driver(whose, "consumer"), self.sockets.environment())
    }

    /// Starts a consumer that can do all the protocol offers; the official one
    /// is the endpoint inside upstream's `perfetto` command.
    #[must_use]
    pub fn full_consumer(&self) -> Peer {
        let command = match self.cast.consumer {
            Whose::Ours => self.driver(Whose::Ours, "consumer"),
            Whose::Official => core("consumer"),
        };
        Peer::start(command, self.sockets.environment())
    }

    /// Starts a producer that can record before a service asks it to; the official one is on
    /// upstream's C++ SDK.
    ///
    /// # Panics
    ///
    /// When the cast's producer cannot.
    #[must_use]
    pub fn startup_producer(&self) -> Peer {
        let command = match self.cast.producer {
            Sdk::Ours => self.driver(Whose::Ours, "startup"),
            Sdk::Official => core("startup"),
            Sdk::OfficialOnOurs => panic!("the C interface has no startup tracing"),
        };
        Peer::start(command, self.sockets.environment())
    }

    fn driver(&self, whose: Whose, role: &str) -> Command {
        let mut command = Command::new(match whose {
            Whose::Ours => self.programs.ours,
            Whose::Official => self.programs.official,
        });
        command.arg(role);
        command
    }

    /// The scenario's folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.sockets.folder.path()
    }

    /// A path in the scenario's folder.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Writes a config for a program to read and returns its path.
    ///
    /// # Panics
    ///
    /// When that fails.
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
    /// When the consumer cannot.
    pub fn start_session(&self, consumer: &mut Peer, config: &TraceConfig) {
        consumer.run(&format!("start {}", self.config_file(config)));
    }

    /// Reads what the session's buffers hold now.
    ///
    /// # Panics
    ///
    /// When the consumer cannot.
    pub fn read(&self, consumer: &mut Peer) -> Vec<u8> {
        let path = self.file("trace.pftrace");
        consumer.run(&format!("read {}", path.display()));
        std::fs::read(&path).expect("the trace was written")
    }

    /// Reads until the trace in a file that the service writes satisfies a
    /// condition. The consumer paces it with flushes.
    ///
    /// # Panics
    ///
    /// When that does not happen.
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
            // It may end in the middle of a packet that is being written.
            let packets = Message::try_decode(&written).map(|_| trace::decode(&written));
            if let Some(packets) = packets.filter(|packets| condition(packets)) {
                return packets;
            }
        }
        panic!("the file never holds what was written");
    }

    /// Stops the session and reads the rest of its trace.
    ///
    /// # Panics
    ///
    /// When the consumer cannot.
    pub fn stop_and_read(&self, consumer: &mut Peer) -> Vec<u8> {
        assert_eq!(consumer.run("stop"), "", "the session ends well");
        self.read(consumer)
    }
}

/// A program on upstream's own classes.
fn core(role: &str) -> Command {
    let mut command = Command::new(env!("OFFICIAL_CORE"));
    command.arg(role);
    command
}
