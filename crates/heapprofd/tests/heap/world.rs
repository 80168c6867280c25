//! A service and the profiler on threads, with sockets in a temporary folder, and programs.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use ferretto_client::{Address, Consumer, DaemonOptions};
use ferretto_heapprofd::{HEAPPROFD, Notice, Options, Profiler};
use ferretto_host::{Host, HostOptions};
use ferretto_proto::{
    DataSourceConfig, HeapprofdConfig, Message, TraceConfig, TracePacket, trace_config,
};
use ferretto_trace::profile::{HeapDump, Profile, Selection, read_profile};

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    host: Option<(ferretto_host::Stopper, JoinHandle<()>)>,
    profiler: Option<(ferretto_heapprofd::Stopper, JoinHandle<()>)>,
    pub(crate) notices: mpsc::Receiver<Notice>,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let host = Host::bind(HostOptions::in_folder(folder.path())).expect("a host");
        let stopper = host.stopper();
        let thread = std::thread::spawn(move || host.run().expect("the host runs"));
        let (noticed, notices) = mpsc::channel();
        let mut world = Self {
            folder,
            host: Some((stopper, thread)),
            profiler: None,
            notices,
        };
        world.start_profiler(noticed);
        std::fs::write(world.library(), ferretto_heap::PRELOAD).expect("the library");
        world
    }

    fn start_profiler(&mut self, noticed: mpsc::Sender<Notice>) {
        let (is_ready, ready) = mpsc::channel();
        let (is_ready, noticed) = (Mutex::new(is_ready), Mutex::new(noticed));
        let profiler = Profiler::new(Options {
            daemon: DaemonOptions {
                address: Some(Address::Path(self.folder.path().join("producer.sock"))),
                on_ready: Some(Arc::new(move || {
                    let _ = is_ready.lock().expect("not poisoned").send(());
                })),
                on_notice: Some(Arc::new(move |notice: &Notice| {
                    let _ = noticed.lock().expect("not poisoned").send(notice.clone());
                })),
                ..DaemonOptions::default()
            },
            socket: Some(self.socket()),
            ..Options::default()
        });
        let profiler = profiler.expect("a profiler");
        let stopper = profiler.stopper();
        self.profiler = Some((stopper, std::thread::spawn(move || profiler.run())));
        ready.recv_timeout(LIMIT).expect("it is registered");
    }

    pub(crate) fn stop_profiler(&mut self) {
        if let Some((stopper, thread)) = self.profiler.take() {
            stopper.stop();
            thread.join().expect("the profiler ends");
        }
    }

    pub(crate) fn restart_profiler(&mut self) {
        self.stop_profiler();
        let (noticed, notices) = mpsc::channel();
        self.notices = notices;
        self.start_profiler(noticed);
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("heap")
    }

    pub(crate) fn library(&self) -> PathBuf {
        self.folder.path().join("libferretto_heap.so")
    }

    /// Returns a command with the client preloaded.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .env("LD_PRELOAD", self.library())
            .env("FERRETTO_HEAP_SOCK_NAME", self.socket());
        command
    }

    /// Runs a command, which must succeed.
    pub(crate) fn succeeds(&self, command: &mut Command) {
        let output = command.stdin(Stdio::null()).output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
    }

    /// Runs the test's program to its end.
    pub(crate) fn run(&self, words: &[&str]) {
        let mut target = self.target(words);
        target.ends();
    }

    pub(crate) fn target(&self, words: &[&str]) -> Target {
        let mut command = self.command(program().expect("it is built"));
        command
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        Target(command.spawn().expect("it runs"))
    }

    pub(crate) fn consumer(&self) -> Consumer {
        let address = Address::Path(self.folder.path().join("consumer.sock"));
        Consumer::connect(&address, LIMIT).expect("a consumer")
    }

    /// Starts a recording.
    pub(crate) fn begin(&self, heap: &HeapprofdConfig) -> Consumer {
        self.begin_with(config(heap))
    }

    pub(crate) fn begin_with(&self, config: TraceConfig) -> Consumer {
        let mut consumer = self.consumer();
        consumer.enable_tracing(config, None).expect("enabled");
        consumer.flush(LIMIT).expect("a flush");
        consumer
    }

    /// Records while `during` runs.
    pub(crate) fn record(&self, heap: &HeapprofdConfig, during: impl FnOnce(&Self)) -> Recorded {
        let consumer = self.begin(heap);
        during(self);
        end(consumer)
    }
}

/// Ends a recording.
pub(crate) fn end(mut consumer: Consumer) -> Recorded {
    consumer.disable_tracing(LIMIT).expect("disabled");
    assert!(consumer.wait_for_end(LIMIT).expect("connected").is_some());
    let mut packets = Vec::new();
    let mut trace = Vec::new();
    let read = consumer.read_buffers(LIMIT, |bytes| {
        packets.push(TracePacket::decode_from_slice(bytes)?);
        trace.push(0x0a);
        let mut length = bytes.len();
        while length >= 0x80 {
            trace.push(length as u8 | 0x80);
            length >>= 7;
        }
        trace.push(length as u8);
        trace.extend_from_slice(bytes);
        Ok::<(), ferretto_proto::DecodeError>(())
    });
    read.expect("a readable trace");
    consumer.free_buffers(LIMIT).expect("freed");
    let (profile, _) = read_profile(&trace[..], Selection::default()).expect("a trace");
    Recorded {
        packets,
        profile,
        bytes: trace,
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop_profiler();
        if let Some((stopper, thread)) = self.host.take() {
            stopper.stop();
            let _ = thread.join();
        }
    }
}

/// Returns a config with a large buffer.
pub(crate) fn config(heap: &HeapprofdConfig) -> TraceConfig {
    let source = DataSourceConfig {
        name: Some(HEAPPROFD.into()),
        heapprofd_config: Some(heap.encode_to_vec()),
        ..Default::default()
    };
    let buffer = trace_config::BufferConfig {
        size_kb: Some(64 << 10),
        ..Default::default()
    };
    TraceConfig {
        buffers: vec![buffer],
        data_sources: vec![trace_config::DataSource {
            config: source.into(),
            ..Default::default()
        }],
        data_source_stop_timeout_ms: Some(120_000),
        flush_timeout_ms: Some(120_000),
        ..Default::default()
    }
}

/// Returns a config for all processes at this sampling interval, without losses.
pub(crate) fn every(interval: u64) -> HeapprofdConfig {
    HeapprofdConfig {
        sampling_interval_bytes: Some(interval),
        all: Some(true),
        block_client: Some(true),
        ..Default::default()
    }
}

/// A recording.
pub(crate) struct Recorded {
    pub(crate) packets: Vec<TracePacket>,
    pub(crate) profile: Profile,
    /// The trace.
    pub(crate) bytes: Vec<u8>,
}

/// Allocated and freed bytes, allocations and frees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) allocated: u64,
    pub(crate) freed: u64,
    pub(crate) allocations: u64,
    pub(crate) frees: u64,
}

impl Sums {
    pub(crate) fn live(&self) -> u64 {
        self.allocated - self.freed
    }
}

impl Recorded {
    pub(crate) fn dumps(&self) -> &[HeapDump] {
        self.profile.heap_dumps()
    }

    /// Returns the last dump of a process's heap.
    pub(crate) fn last(&self, pid: u32, heap: &str) -> &HeapDump {
        let mut dumps = self.dumps().iter().rev();
        let found = dumps.find(|dump| dump.pid == pid as i32 && dump.heap == heap);
        found.unwrap_or_else(|| panic!("{heap} of {pid} is not in {:?}", self.dumps()))
    }

    /// Returns the totals of a function and its callees in a dump.
    pub(crate) fn sums(&self, dump: &HeapDump, function: &str) -> Sums {
        let mut sums = Sums::default();
        for (stack, row) in dump.rows() {
            if function.is_empty() || self.names(*stack).iter().any(|name| name == function) {
                sums.allocated += row.allocated.weight;
                sums.freed += row.freed.weight;
                sums.allocations += row.allocated.samples;
                sums.frees += row.freed.samples;
            }
        }
        sums
    }

    /// Returns the names of a callstack's functions, the outermost first.
    pub(crate) fn names(&self, stack: ferretto_trace::profile::StackId) -> Vec<String> {
        let lines = self.profile.functions(stack);
        let functions = lines.filter_map(|line| self.profile.function(line.function));
        functions
            .map(|function| function.name.to_string())
            .collect()
    }
}

/// A running program.
pub(crate) struct Target(pub(crate) Child);

impl Target {
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Blocks until the program waits for input.
    pub(crate) fn waits(&mut self) {
        let mut byte = [0];
        let out = self.0.stdout.as_mut().expect("it was piped");
        out.read_exact(&mut byte).expect("it goes on");
        assert_eq!(byte, *b"w", "it waits");
    }

    /// Lets the program continue.
    pub(crate) fn goes_on(&mut self) {
        let input = self.0.stdin.as_mut().expect("it was piped");
        input.write_all(b"g").expect("it reads");
    }

    /// Waits for the program to succeed.
    pub(crate) fn ends(&mut self) {
        let mut text = String::new();
        let out = self.0.stdout.as_mut().expect("it was piped");
        out.read_to_string(&mut text).expect("it ends");
        let status = self.0.wait().expect("it ends");
        assert!(status.success(), "{status}: {text}");
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // The program may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the program, compiled once; `None` if there is no compiler.
pub(crate) fn program() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let options = [
        "-g",
        "-O1",
        "-w",
        "-fno-builtin",
        "-pthread",
        "-rdynamic",
        "-lrt",
        "-ldl",
    ];
    let built = BUILT.get_or_init(|| compiled("heap-target", "target.c", &options));
    built.as_deref()
}

/// Compiles a source of this folder; `None` if there is no compiler.
pub(crate) fn compiled(name: &str, source: &str, options: &[&str]) -> Option<PathBuf> {
    let compiler = match source.rsplit('.').next() {
        Some("rs") => "rustc",
        Some("cc") => "c++",
        _ => "cc",
    };
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/heap");
    // Several test processes and threads may compile the same program.
    static PARTS: AtomicU32 = AtomicU32::new(0);
    let number = PARTS.fetch_add(1, Ordering::Relaxed);
    let part = path.with_file_name(format!("{}-{number}-{name}", std::process::id()));
    let status = Command::new(compiler)
        .arg("-o")
        .arg(&part)
        .arg(folder.join(source))
        .args(options)
        .status()
        .ok()?;
    assert!(status.success(), "{source} is compiled");
    std::fs::rename(&part, &path).expect("the program is there");
    Some(path)
}

/// Runs a test if its program can be compiled; otherwise prints that it is skipped.
pub(crate) fn with_program(test: impl FnOnce(World)) {
    match program() {
        Some(_) => test(World::new()),
        None => println!("skipped: no C compiler is installed"),
    }
}
