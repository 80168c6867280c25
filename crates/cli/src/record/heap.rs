//! The data source of `ferretto record --heap`.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use ferretto_heapprofd::HEAPPROFD;
use ferretto_proto::heapprofd_config::ContinuousDumpConfig;
use ferretto_proto::trace_config::{BufferConfig, DataSource, ProducerConfig};
use ferretto_proto::{DataSourceConfig, HeapprofdConfig, Message, MessageField, TraceConfig};

use super::args::RecordArgs;

/// The central buffer of dumps, for the data between two writes to the file.
const BUFFER_KB: u32 = 64 << 10;
/// The shared memory of a program at low sampling rates.
const SMALL_RING: u64 = 2 << 20;
/// The sampling interval in bytes from which on the rate counts as low.
const RARE: u64 = 64 << 10;
/// Shared memory of the profiler.
const SHARED_MEMORY_KB: u32 = 4 << 10;
/// The heap of memory that programs map themselves.
const MAPPINGS: &str = "libc.mmap";
/// The time in microseconds that an allocation waits for the profiler before it is dropped.
const PATIENCE_US: u32 = 1_000_000;

/// Checks the options.
pub(super) fn check(args: &RecordArgs) -> Result<()> {
    if args.heap.is_none() {
        return Ok(());
    }
    if args.config.is_some() {
        bail!(
            "--heap needs the default config; add the data source {HEAPPROFD} to your own config (see record --heap \
             --print-config)"
        );
    }
    if args.command.is_empty() && args.pids.is_empty() {
        bail!(
            "--heap needs a command, as in ferretto record --heap -- ./app, or processes with the client, given by -p"
        );
    }
    Ok(())
}

/// Adds the data source if `--heap` is given.
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
        exclude_heaps: if args.heap_mmap {
            Vec::new()
        } else {
            vec![MAPPINGS.into()]
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

/// Returns the profiler's socket of the processes of `-p`; `None` for a command, which gets it from
/// the recorder.
///
/// # Errors
///
/// Fails if they have no client, or use different sockets.
pub(super) fn socket(args: &RecordArgs) -> Result<Option<PathBuf>> {
    let mut found: Option<PathBuf> = None;
    for pid in &args.pids {
        if !knows_profiler(*pid) && carries_client(*pid) {
            bail!(
                "process {pid} has the client, but found no profiler by {}{} at its start; start heapprofd first, then \
             the program",
                socket_of(*pid).display(),
                ferretto_heap::control::SUFFIX
            );
        }
        if !knows_profiler(*pid) {
            bail!(
                "cannot record the heap of process {pid}, which has no client; start it with ferretto record --heap \
             or with LD_PRELOAD (see heapprofd --help)"
            );
        }
        let socket = socket_of(*pid);
        match &found {
            Some(other) if *other != socket => bail!(
                "the processes use different profilers: {} and {}",
                other.display(),
                socket.display()
            ),
            _ => found = Some(socket),
        }
    }
    Ok(found)
}

/// Set if the preload library is mapped.
fn carries_client(pid: i32) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().any(|line| line.contains(crate::preload::NAME))
}

/// Set if a client has mapped its profiler's page.
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
