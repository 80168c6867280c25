//! `linux.frozen_ftrace`: kernel events of the previous boot, from a ring buffer in memory that
//! survives a reboot (kernel documentation: `Documentation/trace/debugging.rst`).

use std::collections::BTreeSet;
use std::fs::File;

use ferretto_proto::{FrozenFtraceConfig, FtraceConfig, decode_lazy, ftrace_config};

use super::bundle::{Batch, Bundler, CpuState, Plan};
use super::config::ConfigError;
use super::instance::{Partial, batch_pages, read_pages};
use super::kernel_state::read_buffer_pages;
use super::metadata::Metadata;
use super::page::ParseStatus;
use super::stats::{Sample, preserve_packet};
use super::table::known_events;
use super::tracefs::{Tracefs, TracefsError};
use crate::PacketSink;
use crate::source::{CreateError, DataSource, Kind};

/// Name of the data source of the previous boot's events.
pub const FROZEN_FTRACE: &str = "linux.frozen_ftrace";

/// The time between reads, in milliseconds: others use the thread meanwhile.
const PERIOD_MS: u32 = 1;
/// The kernel parameters that reserve the memory.
const REMEDY: &str = "boot with the kernel parameters \
                      reserve_mem=20M:2M:trace trace_instance=NAME^traceoff@trace";

/// The reason why there are no events of a previous boot.
#[derive(Debug, thiserror::Error)]
pub enum FrozenError {
    /// The config names no instance.
    #[error("its config has no instance_name; give the name of a persistent tracefs instance")]
    NoName,
    /// No such instance, or no tracefs.
    #[error("{0}; {REMEDY}")]
    Missing(TracefsError),
    /// This user may not read it, or the name is invalid.
    #[error(transparent)]
    Unusable(TracefsError),
    /// The formats of events are unusable.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl From<TracefsError> for FrozenError {
    fn from(error: TracefsError) -> Self {
        match error {
            TracefsError::NotMounted | TracefsError::NoSuchInstance(_) => Self::Missing(error),
            TracefsError::NotPermitted { .. } | TracefsError::BadInstanceName(_) => {
                Self::Unusable(error)
            }
        }
    }
}

/// A `linux.frozen_ftrace` data source. It reads each buffer once and then clears all of them, so
/// that the events are not found again after the next boot.
#[derive(Debug)]
pub struct FrozenFtrace {
    fs: Tracefs,
    plan: Plan,
    page_size: usize,
    pages: Vec<u8>,
    bundler: Bundler,
    errors: BTreeSet<ParseStatus>,
    buffers: Vec<Buffer>,
    started: bool,
    finished: bool,
    sink: Box<dyn PacketSink>,
}

/// The buffer of one CPU.
#[derive(Debug)]
struct Buffer {
    cpu: u32,
    file: File,
    state: CpuState,
    /// The number of pages that it can have; a buffer that is written again never ends.
    left: usize,
}

impl FrozenFtrace {
    pub(crate) const KIND: Kind = Kind {
        name: FROZEN_FTRACE,
        create: |config, sink, problems| {
            let config = decode_lazy(&config.frozen_ftrace_config)?;
            let source = Self::find(&config, sink);
            let source = source.map_err(|error| CreateError::Unavailable(error.to_string()))?;
            if source.is_recording() {
                problems(
                    "the instance records already, so its events may be those of this boot; \
                     boot with ^traceoff behind its name",
                );
            }
            Ok(Box::new(source))
        },
        starting: None,
        polling: None,
        on_metadata: None,
        has_incremental_state: false,
    };

    fn find(config: &FrozenFtraceConfig, sink: Box<dyn PacketSink>) -> Result<Self, FrozenError> {
        let name = config.instance_name.as_deref().unwrap_or_default();
        if name.is_empty() {
            return Err(FrozenError::NoName);
        }
        let name = String::from_utf8_lossy(name);
        let fs = Tracefs::find_or_mount()?.instance(&name)?;
        Self::new(fs, sink)
    }

    /// Creates a data source that reads this instance.
    ///
    /// # Errors
    ///
    /// Fails if the formats of the kernel's events cannot be used.
    pub fn new(fs: Tracefs, sink: Box<dyn PacketSink>) -> Result<Self, FrozenError> {
        // The buffer may have any event, and says nothing about which.
        let names = known_events().map(|event| format!("{}/{}", event.group, event.name));
        let all = FtraceConfig {
            ftrace_events: names.map(String::into_bytes).collect(),
            compact_sched: ftrace_config::CompactSchedConfig {
                enabled: Some(false),
                ..Default::default()
            }
            .into(),
            ..Default::default()
        };
        let plan = Plan::from_formats(&all, &fs)?;
        Ok(Self {
            plan,
            page_size: fs.page_size(),
            fs,
            pages: Vec::new(),
            bundler: Bundler::default(),
            errors: BTreeSet::new(),
            buffers: Vec::new(),
            started: false,
            finished: false,
            sink,
        })
    }

    fn is_recording(&self) -> bool {
        let state = self.fs.read("tracing_on");
        state.is_ok_and(|state| state.trim() == "1")
    }

    /// Reads some pages of each CPU. Returns true if there are more.
    fn read(&mut self) -> bool {
        let batch = batch_pages(self.page_size);
        self.pages.resize(batch * self.page_size, 0);
        // Processes and descriptors of the previous boot cannot be looked up.
        let mut metadata = Metadata::default();
        for buffer in &mut self.buffers {
            let wanted = batch.min(buffer.left);
            let limit = &mut self.pages[..wanted * self.page_size];
            let commit_size = self.plan.commit_size;
            // Pages may be partly filled anywhere: each boot of a series has its own last one.
            let read = read_pages(
                &buffer.file,
                limit,
                self.page_size,
                commit_size,
                Partial::Any,
            );
            self.errors.extend(read.error);
            buffer.left -= read.pages.len();
            if read.pages.len() < wanted {
                buffer.left = 0;
            }
            if read.pages.is_empty() {
                continue;
            }
            let batch = Batch {
                cpu: buffer.cpu,
                pages: &read.pages,
                clock: None,
            };
            let (plan, errors, sink) = (&self.plan, &mut self.errors, self.sink.as_mut());
            self.bundler
                .process(plan, &batch, &mut buffer.state, &mut metadata, errors, sink);
            metadata.clear();
        }
        self.buffers.retain(|buffer| buffer.left > 0);
        !self.buffers.is_empty()
    }

    /// Writes statistics, once everything has been read.
    fn finish(&mut self) {
        if self.started && !std::mem::replace(&mut self.finished, true) {
            let sample = Sample::take(&self.fs, &self.fs.cpus());
            self.sink.write_packet(&sample.end_packet(&self.errors));
        }
    }
}

impl DataSource for FrozenFtrace {
    fn start(&mut self) {
        // Readers drop other events that are older than the recording.
        self.sink.write_packet(&preserve_packet());
        let left = read_buffer_pages(&self.fs);
        for cpu in self.fs.cpus() {
            if let Ok(file) = self.fs.open_raw(cpu) {
                self.buffers.push(Buffer {
                    cpu,
                    file,
                    state: CpuState::default(),
                    left,
                });
            }
        }
        self.started = true;
    }

    fn poll_period_ms(&self) -> Option<u32> {
        (!self.finished).then_some(PERIOD_MS)
    }

    fn poll(&mut self) {
        if !self.read() {
            self.finish();
        }
    }

    fn poll_last(&mut self) {
        while self.read() {}
        self.finish();
    }

    fn flush(&mut self) {
        self.sink.flush();
    }
}

impl Drop for FrozenFtrace {
    fn drop(&mut self) {
        if self.started {
            self.buffers.clear();
            // If it fails, the events are read again after the next boot.
            let _ = self.fs.clear();
        }
    }
}
