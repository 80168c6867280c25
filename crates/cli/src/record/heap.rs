//! The data source that `ferretto record --heap` adds to a recording.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use ferretto_heapprofd::HEAPPROFD;
use ferretto_proto::heapprofd_config::ContinuousDumpConfig;
use ferretto_proto::trace_config::{BufferConfig, DataSource, ProducerConfig};
use ferretto_proto::{DataSourceConfig, HeapprofdConfig, Message, MessageField, TraceConfig};

use super::args::RecordArgs;

/// Central buffer of dumps, which holds what comes between two writes to the file.
const BUFFER_KB: u32 = 64 << 10;
/// Memory that a program shares with the profiler if samples are rare: a part of what recording
/// takes in a program.
const SMALL_RING: u64 = 2 << 20;
/// Bytes between two samples from which on they are.
const RARE: u64 = 64 << 10;
/// Shared memory of the profiler.
const SHARED_MEMORY_KB: u32 = 4 << 10;
/// The heap of what programs map themselves.
const MAPPINGS: &str = "libc.mmap";
/// The time that an allocation waits for the profiler, in microseconds, before it is not counted.
const PATIENCE_US: u32 = 1_000_000;

/// Checks what was asked for.
pub(super) fn check(args: &RecordArgs) -> Result<()> {
    if args.heap.is_none() {
        return Ok(());
    }
    if args.config.is_some() {
        bail!(
            "--heap goes with the default config; in one of your own, add the data source {HEAPPROFD} (record --heap \
             --print-config shows how)"
        );
    }
    if args.command.is_empty() && args.pids.is_empty() {
        bail!(
            "--heap records the heap of a command, as in ferretto record --heap -- ./app, or of programs that carry the \
             client, given by -p"
        );
    }
    Ok(())
}

/// Adds the data source if it was asked for.
pub(super) fn add(config: &mut TraceConfig, args: &RecordArgs) {
    let Some(interval) = args.heap else { return };
    let buffer = config.buffers.len() as u32;
    config.buffers.push(BufferConfig {
        size_kb: Some(BUFFER_KB),
        name: Some("heap".into()),
        ..Default::default()
    });
    config.producers.push(ProducerConfig {
        producer_name: Some(HEAPPROFD.into()),
        shm_size_kb: Some(SHARED_MEMORY_KB),
        page_size_kb: Some(32),
        ..Default::default()
    });
    let heap = HeapprofdConfig {
        sampling_interval_bytes: Some(interval),
        // Descendants of the command are recorded, too.
        all: args.pids.is_empty().then_some(true),
        pid: args.pids.iter().map(|&pid| pid as u64).collect(),
        all_heaps: Some(true),
        exclude_heaps: match args.heap_mmap {
            true => Vec::new(),
            false => vec![MAPPINGS.into()],
        },
        block_client: Some(true),
        shmem_size_bytes: (interval >= RARE).then_some(SMALL_RING),
        block_client_timeout_us: Some(PATIENCE_US),
        continuous_dump_config: MessageField::some(ContinuousDumpConfig {
            dump_interval_ms: Some(args.heap_dumps.as_millis().try_into().unwrap_or(u32::MAX)),
            dump_phase_ms: Some(args.heap_dumps.as_millis().try_into().unwrap_or(u32::MAX)),
            ..Default::default()
        }),
        ..Default::default()
    };
    config.data_sources.push(DataSource {
        config: MessageField::some(DataSourceConfig {
            name: Some(HEAPPROFD.into()),
            target_buffer: Some(buffer),
            heapprofd_config: Some(heap.encode_to_vec()),
            ..Default::default()
        }),
        ..Default::default()
    });
}

/// Returns the socket that the processes given by `-p` know; `None` for a command, which is told.
///
/// # Errors
///
/// If they carry no client, or know different ones.
pub(super) fn socket(args: &RecordArgs) -> Result<Option<PathBuf>> {
    let mut found: Option<PathBuf> = None;
    for pid in &args.pids {
        if !knows_profiler(*pid) && carries_client(*pid) {
            bail!(
                "process {pid} carries the client, but there was no profiler yet when it was started, and programs look \
                 for one then, by {}{}; start heapprofd once, then the program",
                socket_of(*pid).display(),
                ferretto_heap::control::SUFFIX
            );
        }
        if !knows_profiler(*pid) {
            bail!(
                "process {pid} carries no client, so its heap cannot be recorded; start it by ferretto record --heap, \
                 or with LD_PRELOAD (see heapprofd --help)"
            );
        }
        let socket = socket_of(*pid);
        match &found {
            Some(other) if *other != socket => bail!(
                "the processes know different profilers: {} and {}",
                other.display(),
                socket.display()
            ),
            _ => found = Some(socket),
        }
    }
    Ok(found)
}

/// The preload library is mapped.
fn carries_client(pid: i32) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().any(|line| line.contains(crate::preload::NAME))
}

/// A client maps its profiler's page.
fn knows_profiler(pid: i32) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let page = format!(
        "{}{}",
        socket_of(pid).display(),
        ferretto_heap::control::SUFFIX
    );
    maps.lines().any(|line| line.ends_with(&page))
}

fn socket_of(pid: i32) -> PathBuf {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mut entries = environment.split(|&byte| byte == 0);
    let named = entries.find_map(|entry| {
        let value = entry.strip_prefix(ferretto_heap::SOCKET_VARIABLE.as_bytes())?;
        value.strip_prefix(b"=")
    });
    match named {
        Some(path) => Path::new(std::ffi::OsStr::from_bytes(path)).to_path_buf(),
        None => ferretto_heap::control::DEFAULT_SOCKET.into(),
    }
}
