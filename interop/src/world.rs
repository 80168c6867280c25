//! One scenario's folder, sockets and programs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::peer::{Peer, Programs, Whose};

/// Who plays which part.
#[derive(Debug, Clone, Copy)]
pub struct Cast {
    /// The tracing service.
    pub service: Whose,
    /// The instrumented program.
    pub producer: Whose,
    /// The program that records.
    pub consumer: Whose,
}

/// The two sockets in a folder of their own.
#[derive(Debug)]
pub(crate) struct Sockets {
    folder: TempDir,
}

impl Sockets {
    /// The variables that lead a program to these sockets.
    pub(crate) fn environment(&self) -> [(&'static str, OsString); 2] {
        let path = |name: &str| self.folder.path().join(name).into();
        [
            ("PERFETTO_PRODUCER_SOCK_NAME", path("producer.sock")),
            ("PERFETTO_CONSUMER_SOCK_NAME", path("consumer.sock")),
        ]
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
        let folder = TempDir::with_prefix("ferretto-interop-").expect("a temporary folder");
        let mut world = Self {
            cast,
            programs,
            service: None,
            sockets: Sockets { folder },
        };
        world.start_service();
        world
    }

    /// Starts the service again after [`Self::stop_service`].
    ///
    /// # Panics
    ///
    /// When it does not come up.
    pub fn start_service(&mut self) {
        let command = match self.cast.service {
            Whose::Ours => self.driver(Whose::Ours, "service"),
            Whose::Official => Command::new(env!("OFFICIAL_SERVICE")),
        };
        let mut service = Peer::start(command, &self.sockets);
        service.answer();
        self.service = Some(service);
    }

    /// Kills the service.
    pub fn stop_service(&mut self) {
        self.service = None;
    }

    /// Starts a producer.
    #[must_use]
    pub fn producer(&self) -> Peer {
        Peer::start(self.driver(self.cast.producer, "producer"), &self.sockets)
    }

    /// Starts a consumer.
    #[must_use]
    pub fn consumer(&self) -> Peer {
        Peer::start(self.driver(self.cast.consumer, "consumer"), &self.sockets)
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

    fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Starts a session with an encoded `TraceConfig`.
    ///
    /// # Panics
    ///
    /// When the consumer cannot.
    pub fn start_session(&self, consumer: &mut Peer, config: &[u8]) {
        let path = self.file("config.pb");
        std::fs::write(&path, config).expect("the config is written");
        consumer.run(&format!("start {}", path.display()));
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

    /// Stops the session and reads the rest of its trace.
    ///
    /// # Panics
    ///
    /// When the consumer cannot.
    pub fn stop_and_read(&self, consumer: &mut Peer) -> Vec<u8> {
        consumer.run("stop");
        self.read(consumer)
    }
}
