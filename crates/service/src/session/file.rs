//! Writes the trace into a file during recording.

use ferretto_format::Preamble;
use ferretto_proto::TraceConfig;
use ferretto_proto::trace_config::FFlushMode;

use super::config::write_period_ms;
use super::{FlushPlan, Session, SessionState};
use crate::command::Command;
use crate::compress::append_packet;
use crate::context::Context;
use crate::event::FileId;
use crate::limits::FILE_BATCH;
use crate::sink::PacketSink;
use crate::timers::{TimeBase, Timer, aligned_delay_ms};

/// The number of batches under way: one is prepared while the last one is written.
const MAX_WRITES: u32 = 2;

/// The space that the end of a limited file may need beyond its current statistics: the event of
/// the end, and numbers that grow until then.
const END_BYTES: u64 = 64;

/// A session's open file.
#[derive(Debug)]
pub(super) struct Output {
    file: FileId,
    /// The limit of its size; 0 for none.
    max_bytes: u64,
    /// The number of bytes passed to the driver so far.
    bytes: u64,
    period_ms: u64,
    /// Set if the file is synced after each pass.
    syncs: bool,
    /// Set during a pass.
    draining: bool,
    /// The number of writes that the driver has not answered.
    writing: u32,
    /// Set until the driver has copied the beginning, after which all batches go.
    copying: bool,
    /// Set once a packet would have made the file too large.
    full: bool,
    /// Set once the end of a full file was passed to the driver.
    ended: bool,
}

impl Output {
    pub(super) fn new(file: FileId, config: &TraceConfig) -> Self {
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
            ended: false,
        }
    }

    /// Returns the file of a clone whose beginning the driver is still copying.
    pub(super) fn after_copy(file: FileId) -> Self {
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
            ended: false,
        }
    }

    /// Passes a batch to the driver; `more` is true if others follow.
    fn write(&mut self, cx: &mut Context, batch: FileSink, more: bool) {
        self.draining = more;
        self.full |= batch.full;
        if batch.bytes.is_empty() {
            // The batch is empty: all packets were refused, or the file is full.
            return;
        }
        self.bytes += batch.bytes.len() as u64;
        self.writing += 1;
        cx.commands.push(Command::WriteFile {
            file: self.file,
            bytes: batch.bytes,
        });
    }

    /// Notes that the driver has written a batch, or copied the beginning of the file.
    fn written(&mut self) {
        if self.copying {
            self.copying = false;
        } else {
            self.writing = self.writing.saturating_sub(1);
        }
    }

    pub(super) fn file(&self) -> FileId {
        self.file
    }

    /// Returns true if packets were dropped because the file would have become too large.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// Returns true if no batch was written yet.
    pub(super) fn is_untouched(&self) -> bool {
        self.bytes == 0
    }
}

impl Session {
    /// Returns true if the session writes into this file.
    pub(crate) fn writes(&self, file: FileId) -> bool {
        self.output
            .as_ref()
            .is_some_and(|output| output.file == file)
    }

    pub(super) fn arm_file_write(&mut self, cx: &mut Context) {
        if let Some(output) = &self.output {
            let delay = aligned_delay_ms(&cx.now, output.period_ms);
            self.set_timer(cx, TimeBase::Monotonic, delay, Timer::FileWrite);
        }
    }

    /// Writes new packets after each period.
    pub(super) fn file_write_tick(&mut self, cx: &mut Context) {
        self.arm_file_write(cx);
        if self.flush_plan == FlushPlan::BeforeWriting {
            self.flush_before_writing(cx);
        } else {
            self.drain_to_file(cx);
        }
    }

    /// Starts a pass over all readable packets, unless one is under way. The pass after the end of
    /// the session is the last, and completes the file.
    pub(super) fn drain_to_file(&mut self, cx: &mut Context) {
        if let Some(output) = &mut self.output {
            output.draining = true;
            self.continue_drain(cx);
        }
    }

    /// Writes the next batches of a pass, and ends the pass after the last one.
    fn continue_drain(&mut self, cx: &mut Context) {
        while let Some(output) = &self.output {
            if output.copying {
                return;
            }
            if !output.draining || output.full {
                if output.writing > 0 {
                    return;
                }
                if output.full && !output.ended && self.state == SessionState::Disabled {
                    self.end_full_file(cx);
                    continue;
                }
                return self.end_pass(cx);
            }
            if output.writing == MAX_WRITES {
                return;
            }
            let (bytes, max_bytes) = (output.bytes, output.max_bytes);
            let limit = match max_bytes {
                0 => 0,
                // At least half of the file is for data, however many writers there are.
                _ => max_bytes - (self.end_size(cx) + END_BYTES).min(max_bytes / 2),
            };
            let mut sink = FileSink::new(bytes, limit);
            let more = self.read_batch(cx, FILE_BATCH, &mut sink);
            if let Some(output) = &mut self.output {
                output.write(cx, sink, more);
            }
        }
    }

    /// Writes the events and the statistics of the end into a file that is full, for which space
    /// was kept. Upstream's files end with the last packet that fits, like those of a service that
    /// was killed.
    fn end_full_file(&mut self, cx: &mut Context) {
        if let Some(output) = &self.output {
            let mut sink = FileSink::new(output.bytes, output.max_bytes);
            self.read_end(cx, &mut sink);
            if let Some(output) = &mut self.output {
                output.ended = true;
                output.write(cx, sink, false);
            }
        }
    }

    fn end_pass(&mut self, cx: &mut Context) {
        let disabled = matches!(self.state, SessionState::Disabled | SessionState::Cloned);
        let Some(output) = &mut self.output else {
            return;
        };
        output.draining = false;
        if disabled {
            self.close_file(cx);
        } else if output.full {
            // The end of the file follows once the data sources have stopped.
            self.disable(cx, false);
        } else if output.syncs {
            cx.commands.push(Command::SyncFile { file: output.file });
        }
    }

    fn close_file(&mut self, cx: &mut Context) {
        self.finish_file_clones(cx);
        let Some(output) = self.output.take() else {
            return;
        };
        cx.commands.push(Command::CloseFile { file: output.file });
        self.clone_file_closed(cx);
        self.notify_if_over(cx);
    }

    /// Continues after the driver has written a batch, or copied the beginning of the file.
    pub(crate) fn file_written(&mut self, cx: &mut Context) {
        if let Some(output) = &mut self.output {
            output.written();
        }
        self.continue_drain(cx);
    }

    /// Ends the session with an error of its file, such as a full disk. Packets already written
    /// stay.
    pub(crate) fn file_failed(&mut self, cx: &mut Context, error: &str) {
        if self.cloned.is_some() {
            return self.clone_file_failed(cx, error);
        }
        self.fail_file_clones(cx, error);
        self.error
            .get_or_insert(format!("Failed to write the trace file: {error}"));
        self.close_file(cx);
        self.disable(cx, false);
    }
}

/// A batch of packets in the format of a file.
#[derive(Debug)]
struct FileSink {
    bytes: Vec<u8>,
    /// The size of the file before this batch.
    before: u64,
    max_bytes: u64,
    full: bool,
}

impl FileSink {
    fn new(before: u64, max_bytes: u64) -> Self {
        Self {
            // Includes space for the packets' lengths; unused capacity costs no memory.
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
