//! Writing the trace into a file while it is recorded.

use ferretto_format::Preamble;
use ferretto_proto::TraceConfig;
use ferretto_proto::trace_config::FFlushMode;

use super::read::PacketSink;
use super::{FlushPlan, State};
use crate::command::Command;
use crate::compress::append_packet;
use crate::event::FileId;
use crate::limits::{DEFAULT_WRITE_PERIOD_MS, FILE_BATCH, MIN_WRITE_PERIOD_MS, SessionId};
use crate::service::{Service, Timer};
use crate::timers::{TimeBase, aligned_delay_ms};

/// How many batches are under way at a time: one is made while the last is written.
const MAX_WRITES: u32 = 2;

/// A session's file, while it is open.
#[derive(Debug)]
pub(crate) struct Output {
    file: FileId,
    /// Size it must stay below, 0 = any.
    max_bytes: u64,
    /// Bytes handed to the driver so far.
    bytes: u64,
    period_ms: u64,
    /// Whether each pass ends with the data on the medium.
    syncs: bool,
    /// A pass is under way.
    draining: bool,
    /// How many writes the driver has not answered.
    writing: u32,
    /// The driver has not copied the beginning yet, behind which everything else goes.
    copying: bool,
    /// The next packet would make the file too large.
    full: bool,
}

/// How often a file is written: the config's period within the allowed range.
pub(crate) fn write_period_ms(config: &TraceConfig) -> u64 {
    match config.file_write_period_ms.unwrap_or(0) {
        0 => DEFAULT_WRITE_PERIOD_MS,
        ms => u64::from(ms).max(MIN_WRITE_PERIOD_MS),
    }
}

impl Output {
    pub(crate) fn new(file: FileId, config: &TraceConfig) -> Self {
        Self {
            file,
            max_bytes: config.max_file_size_bytes.unwrap_or(0),
            bytes: 0,
            period_ms: write_period_ms(config),
            syncs: config.fflush_post_write == Some(FFlushMode::FFLUSH_ENABLED),
            draining: false,
            writing: 0,
            copying: false,
            full: false,
        }
    }

    /// The file of a clone, the beginning of which the driver is still copying.
    pub(crate) fn after_copy(file: FileId) -> Self {
        Self {
            file,
            max_bytes: 0,
            bytes: 0,
            period_ms: 0,
            syncs: false,
            draining: true,
            writing: 0,
            copying: true,
            full: false,
        }
    }

    pub(crate) fn file(&self) -> FileId {
        self.file
    }

    /// Whether packets were thrown away because the file would have become too large.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// Whether nothing was written yet.
    pub(crate) fn is_untouched(&self) -> bool {
        self.bytes == 0
    }
}

impl Service {
    pub(crate) fn arm_file_write(&mut self, id: SessionId) {
        let Some(output) = self.sessions.get(&id).and_then(|s| s.output.as_ref()) else {
            return;
        };
        let delay = aligned_delay_ms(&self.now, output.period_ms);
        self.set_timer(TimeBase::Monotonic, delay, Timer::FileWrite(id));
    }

    /// It is time to write what has come meanwhile.
    pub(crate) fn file_write_tick(&mut self, id: SessionId) {
        self.arm_file_write(id);
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        if session.flush_plan == FlushPlan::BeforeWriting {
            self.flush_before_writing(id);
        } else {
            self.drain_to_file(id);
        }
    }

    /// Starts a pass over everything that can be read now, unless one is under way.
    pub(crate) fn drain_to_file(&mut self, id: SessionId) {
        let Some(output) = self.sessions.get_mut(&id).and_then(|s| s.output.as_mut()) else {
            return;
        };
        output.draining = true;
        self.continue_drain(id);
    }

    /// Writes the next batches of a pass; at its end does what follows it.
    fn continue_drain(&mut self, id: SessionId) {
        while let Some(output) = self.sessions.get(&id).and_then(|s| s.output.as_ref()) {
            if output.copying {
                return;
            }
            if !output.draining || output.full {
                if output.writing == 0 {
                    self.end_pass(id);
                }
                return;
            }
            if output.writing == MAX_WRITES {
                return;
            }
            self.write_batch(id);
        }
    }

    fn write_batch(&mut self, id: SessionId) {
        let Some(output) = self.sessions.get(&id).and_then(|s| s.output.as_ref()) else {
            return;
        };
        let mut sink = FileSink::new(output.bytes, output.max_bytes);
        let more = self.read_batch(id, FILE_BATCH, &mut sink);
        let Some(output) = self.sessions.get_mut(&id).and_then(|s| s.output.as_mut()) else {
            return;
        };
        output.draining = more;
        output.full = sink.full;
        if sink.bytes.is_empty() {
            // Nothing but refused packets, or a full file.
            return;
        }
        output.bytes += sink.bytes.len() as u64;
        output.writing += 1;
        self.commands.push_back(Command::WriteFile {
            file: output.file,
            bytes: sink.bytes,
        });
    }

    fn end_pass(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let disabled = matches!(session.state, State::Disabled | State::Cloned);
        let Some(output) = &mut session.output else {
            return;
        };
        let (file, full, syncs) = (output.file, output.full, output.syncs);
        output.draining = false;
        if disabled || full {
            self.close_file(id);
            if !disabled {
                self.disable_tracing(id, false);
            }
            return;
        }
        if syncs {
            self.commands.push_back(Command::SyncFile { file });
        }
    }

    fn close_file(&mut self, id: SessionId) {
        self.finish_file_clones(id);
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some(output) = session.output.take() else {
            return;
        };
        self.commands
            .push_back(Command::CloseFile { file: output.file });
        self.clone_file_closed(id);
        self.notify_if_over(id);
    }

    /// The session is over: one more pass, then the file is complete.
    pub(crate) fn finish_file(&mut self, id: SessionId) {
        self.drain_to_file(id);
    }

    pub(crate) fn file_written(&mut self, file: FileId, _bytes: u64) {
        let Some(id) = self.session_of_file(file) else {
            return;
        };
        if let Some(output) = self.sessions.get_mut(&id).and_then(|s| s.output.as_mut()) {
            if output.copying {
                output.copying = false;
            } else {
                output.writing = output.writing.saturating_sub(1);
            }
        }
        self.continue_drain(id);
    }

    /// The disk is full, or gone. What was written stays; the session ends and says why.
    pub(crate) fn file_failed(&mut self, file: FileId, error: String) {
        let Some(id) = self.session_of_file(file) else {
            return self.file_opened(file, Err(error));
        };
        if self.clone_file_failed(id, file, &error) {
            return;
        }
        self.fail_file_clones(id, &error);
        if let Some(session) = self.sessions.get_mut(&id) {
            session
                .error
                .get_or_insert(format!("Failed to write the trace file: {error}"));
        }
        self.close_file(id);
        self.disable_tracing(id, false);
    }

    pub(crate) fn session_of_file(&self, file: FileId) -> Option<SessionId> {
        let is_it = |output: &Output| output.file == file;
        let mut sessions = self.sessions.iter();
        sessions
            .find(|(_, s)| s.output.as_ref().is_some_and(is_it))
            .map(|(id, _)| *id)
    }
}

/// Packets as they stand in a file.
#[derive(Debug)]
struct FileSink {
    bytes: Vec<u8>,
    /// Size of the file before these.
    before: u64,
    max_bytes: u64,
    full: bool,
}

impl FileSink {
    fn new(before: u64, max_bytes: u64) -> Self {
        Self {
            // With room for the packets' lengths; what is not filled costs nothing.
            bytes: Vec::with_capacity(FILE_BATCH + FILE_BATCH / 16),
            before,
            max_bytes,
            full: false,
        }
    }
}

impl PacketSink for FileSink {
    fn packet<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]> + Clone) {
        let length: usize = pieces.clone().map(<[u8]>::len).sum();
        let size = Preamble::new(length).as_bytes().len();
        let after = self.before + (self.bytes.len() + size + length) as u64;
        self.full = self.full || (self.max_bytes > 0 && after >= self.max_bytes);
        if self.full {
            return;
        }
        append_packet(&mut self.bytes, pieces);
    }

    fn is_full(&self) -> bool {
        self.full
    }
}
