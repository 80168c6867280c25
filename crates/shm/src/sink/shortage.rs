//! Packets without a chunk, which are discarded, and the reports of that loss.

use ferretto_wire::Sink;

use super::state::{Fragment, State, Width};
use super::{ChunkSink, Destination};
use crate::chunk::{OwnedChunk, WIDE};
use crate::layout::ChunkFlags;
use crate::policy::ExhaustedPolicy;

/// The fragment length that marks a packet as abandoned.
const ABANDONED: [u8; WIDE] = [0xff, 0xff, 0xff, 0x7f];

/// While packets are discarded, one of so many attempts to acquire a chunk looks in all pages. The
/// others look where the service frees chunks first: reading the words of all pages, which another
/// processor changes, would take more time than the packets.
const FULL_SEARCH: u32 = 16;

/// The events since a chunk was last missing.
#[derive(Debug, Default)]
pub(super) struct Shortage {
    /// The number of bytes discarded since the last attempt to acquire a chunk.
    pub(super) discarded: u64,
    /// The number of attempts so far.
    attempts: u32,
    /// Set if the last chunk had no space to mark the loss: the arbiter remembers it until the next
    /// packet reports it.
    pub(super) is_unreported: bool,
}

impl Shortage {
    /// Makes the next packet look for a chunk, in all pages.
    pub(super) fn end_wait(&mut self, retry_after: u64) {
        self.discarded = retry_after;
        self.attempts = 0;
    }

    /// Counts an attempt. Returns true if it has to look in all pages.
    fn begin_attempt(&mut self) -> bool {
        let attempt = self.attempts;
        self.attempts = attempt.wrapping_add(1);
        attempt.is_multiple_of(FULL_SEARCH)
    }
}

impl ChunkSink {
    /// Acquires a chunk at a packet boundary. Returns true if that ends a period of discarding.
    pub(super) fn chunk_for_new_packet(&mut self) -> bool {
        let Some(arbiter) = self.arbiter() else {
            return false;
        };
        let is_dropping = self.state == State::Dropping;
        if is_dropping && self.shortage.discarded < arbiter.retry_after() {
            return false;
        }
        if is_dropping || self.policy == ExhaustedPolicy::Drop {
            // The old chunk is kept until there is a new one. If there is none, the old one marks
            // the loss.
            let next = if is_dropping && !self.shortage.begin_attempt() {
                self.acquire_near()
            } else {
                self.acquire(ExhaustedPolicy::Drop, 0, ChunkFlags::default())
            };
            let is_marked = next.is_none() && self.mark_loss();
            self.give_chunk_back();
            return self.begin_chunk(next, is_dropping, is_marked);
        }
        // A waiting writer must not hold a chunk that others could use.
        self.give_chunk_back();
        let next = self.acquire(self.policy, 0, ChunkFlags::default());
        self.begin_chunk(next, is_dropping, false)
    }

    /// Continues in a new chunk, or discards; with `is_marked`, the last chunk marks the loss.
    /// Returns true if that ends a period of discarding.
    fn begin_chunk(
        &mut self,
        chunk: Option<OwnedChunk>,
        was_dropping: bool,
        is_marked: bool,
    ) -> bool {
        let Some(chunk) = chunk else {
            self.note_shortage(was_dropping, is_marked);
            return false;
        };
        self.chunk = chunk;
        if std::mem::take(&mut self.shortage.is_unreported)
            && let Some(arbiter) = self.arbiter()
        {
            // The packet that starts now reports it.
            arbiter.unreported().remove(self.id);
        }
        was_dropping
    }

    /// Marks in the current chunk that the packet after its last one is lost. Returns false if
    /// there is no space for it.
    fn mark_loss(&mut self) -> bool {
        if !self.is_ready_for(WIDE) {
            return false;
        }
        self.chunk.append(&ABANDONED);
        // The mark replaces the packet that was counted ahead.
        self.state = State::Idle;
        true
    }

    /// Writes a packet that only reports a loss. Returns false if there is no space for it.
    pub(crate) fn report_loss(&mut self) -> bool {
        let Some(arbiter) = self.arbiter() else {
            return true;
        };
        let retry_after = arbiter.retry_after();
        self.shortage.end_wait(retry_after);
        self.state = State::Dropping;
        self.start_packet();
        self.finish_packet();
        !self.is_dropping()
    }

    /// Marks the packet as lost, and discards the rest of it.
    pub(super) fn abandon_packet(&mut self, fragment: Fragment) {
        let position = self.position();
        if fragment.width == Width::Narrow {
            self.chunk.widen(fragment.at);
        }
        self.chunk.overwrite(fragment.at, ABANDONED);
        self.lengths.abandon();
        if let Some(raw) = &mut self.raw {
            raw.abandon();
        }
        self.give_chunk_back();
        self.origin = position;
        self.note_shortage(false, true);
        self.state = State::Discarding;
    }

    /// Notes that there is no chunk. It counts once for each period of discarding.
    fn note_shortage(&mut self, was_dropping: bool, is_marked: bool) {
        if !was_dropping {
            self.drop_count += 1;
            self.shortage.attempts = 0;
            if !is_marked && let Destination::Shared(arbiter) = &self.destination {
                self.shortage.is_unreported = true;
                arbiter.note_loss(self.id);
            }
        }
        self.shortage.discarded = 0;
    }
}
