//! One run of a recording: the daemons, the producers and the commands.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use ferretto_interop::wire::Message;
use ferretto_interop::{Peer, Side, World};
use ferretto_interop_driver::PATIENCE;
use ferretto_proto::TraceConfig;
use ferretto_proto::fields::{trace, trace_packet};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tempfile::TempDir;

use crate::PROGRAMS;

/// The sides of the daemon and of the commands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mix {
    pub(crate) service: Side,
    pub(crate) client: Side,
}

impl Mix {
    pub(crate) const fn of(service: Side, client: Side) -> Self {
        Self { service, client }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service {:?}, client {:?}", self.service, self.client)
    }
}

/// The folders with the programs of both sides, under upstream's names.
#[derive(Debug)]
pub(crate) struct Folders {
    upstream: PathBuf,
    ours: TempDir,
}

impl Folders {
    pub(crate) fn from_environment() -> Option<Self> {
        let upstream = PathBuf::from(std::env::var_os("FERRETTO_UPSTREAM")?);
        let test = std::env::current_exe().expect("this test has a path");
        let program = test
            .ancestors()
            .nth(2)
            .expect("a target folder")
            .join("ferretto");
        assert!(program.exists(), "run `cargo build` first");
        let ours = TempDir::with_prefix("ferretto-programs-").expect("a temporary folder");
        for name in ["traced", "traced_probes", "perfetto", "trigger_perfetto"] {
            std::os::unix::fs::symlink(&program, ours.path().join(name)).expect("a link");
        }
        Some(Self { upstream, ours })
    }

    fn of(&self, whose: Side) -> &Path {
        match whose {
            Side::Ours => self.ours.path(),
            Side::Official => &self.upstream,
        }
    }

    /// Returns upstream's importer, if it is in the folder.
    pub(crate) fn importer(&self) -> Option<PathBuf> {
        let path = self.upstream.join("trace_processor_shell");
        path.exists().then_some(path)
    }
}

/// A running mix, with one producer of each kind.
pub(crate) struct Run<'a> {
    pub(crate) folders: &'a Folders,
    mix: Mix,
    pub(crate) world: World,
    producers: Vec<Peer>,
    /// The exit codes of the commands, in order.
    pub(crate) exits: Vec<i32>,
}

impl<'a> Run<'a> {
    pub(crate) fn start(folders: &'a Folders, mix: Mix) -> Self {
        let daemon = Command::new(folders.of(mix.service).join("traced"));
        let world = World::of_daemon(daemon, PROGRAMS);
        let producers = vec![
            world.producer_of(Side::Ours),
            world.producer_of(Side::Official),
        ];
        Self {
            folders,
            mix,
            world,
            producers,
            exits: Vec::new(),
        }
    }

    /// Starts the client's `traced_probes`.
    pub(crate) fn start_probes(&self) -> Ended {
        let path = self.folders.of(self.mix.client).join("traced_probes");
        Ended(
            self.world
                .command(Command::new(path))
                .spawn()
                .expect("the probes start"),
        )
    }

    /// Waits until both producers have been started this often.
    pub(crate) fn await_start(&mut self, starts: u64) {
        self.produce(&format!("await-start {starts}"));
    }

    /// Runs a command in both producers, one after the other.
    pub(crate) fn produce(&mut self, command: &str) {
        for producer in &mut self.producers {
            producer.run(command);
        }
    }

    /// Writes `count` numbers from the first one, half of them by each producer.
    pub(crate) fn numbers(&mut self, from: u64, count: u64) {
        let half = count / 2;
        for (part, producer) in (0..).zip(&mut self.producers) {
            producer.run(&format!("numbers {} {half}", from + part * half));
        }
    }

    /// Waits for a session in a state and returns its id.
    pub(crate) fn await_session(&self, state: &str) -> String {
        let mut observer = self.world.consumer_of(Side::Ours);
        until("the session is in that state", || {
            let sessions = observer.run("sessions");
            let found = sessions
                .split(' ')
                .find(|session| session.contains(state))?;
            found.split(':').next().map(str::to_owned)
        })
    }

    /// Waits until data sources are registered.
    pub(crate) fn await_sources(&self, names: &[Vec<u8>]) {
        let mut observer = self.world.consumer_of(Side::Ours);
        until("the data sources are registered", || {
            let sources = observer.run("sources");
            let sources: Vec<&[u8]> = sources.split(' ').map(str::as_bytes).collect();
            names
                .iter()
                .all(|name| sources.contains(&name.as_slice()))
                .then_some(())
        });
    }

    /// Waits until a trace is completely written, with statistics at its end.
    pub(crate) fn await_file(&self, name: &str) {
        let path = self.world.file(name);
        until("the file is written", || {
            let bytes = std::fs::read(&path).ok()?;
            let packets = Message::try_decode(&bytes)?.messages(trace::PACKET);
            let last = packets.last()?;
            last.has(trace_packet::TRACE_STATS).then_some(())
        });
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(self.folders.of(self.mix.client).join(program));
        command.args(args);
        self.world.command(command)
    }

    fn log(&self) -> Stdio {
        let mut options = File::options();
        let path = self.world.file("commands.log");
        let file = options.create(true).append(true).open(path);
        file.expect("a log").into()
    }

    /// Runs a command to its end and returns its output.
    pub(crate) fn run(&mut self, program: &str, args: &[&str]) -> String {
        let mut command = self.command(program, args);
        let output = command.stderr(self.log()).output().expect("it runs");
        self.exits.push(output.status.code().unwrap_or(-1));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Starts `perfetto` with a config and an output.
    pub(crate) fn perfetto(&self, config: &TraceConfig, args: &[&str]) -> Foreground {
        let config = self.world.config_file(config);
        let mut command = self.command("perfetto", &["-c", &config]);
        let child = command.args(args).stderr(self.log()).spawn();
        Foreground(Ended(child.expect("it starts")))
    }

    /// Waits for a command that ends by itself.
    pub(crate) fn wait(&mut self, mut command: Foreground) {
        let status = command.0.0.wait().expect("it ends");
        self.exits.push(status.code().unwrap_or(-1));
    }

    /// Interrupts a command like a terminal, and waits for its end.
    pub(crate) fn interrupt(&mut self, command: Foreground) {
        signal(command.0.0.id(), Signal::INT);
        self.wait(command);
    }
}

/// A command that records.
pub(crate) struct Foreground(Ended);

/// A program that is killed when dropped.
pub(crate) struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn until<T>(what: &str, mut reached: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(found) = reached() {
            return found;
        }
        std::thread::yield_now();
    }
    panic!("timeout while waiting until {what}");
}

fn pid(id: u32) -> Pid {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    id.expect("a process id")
}

fn signal(id: u32, signal: Signal) {
    kill_process(pid(id), signal).expect("the process exists");
}

/// Ends a process that is not a child, and waits for its end.
pub(crate) fn end(id: u32) {
    let process = pidfd_open(pid(id), PidfdFlags::empty()).expect("the process exists");
    signal(id, Signal::TERM);
    poll(&mut [PollFd::new(&process, PollFlags::IN)], None).expect("it ends");
}

/// Returns the contents of a file.
pub(crate) fn contents(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    file.read_to_end(&mut bytes).expect("it is readable");
    bytes
}
