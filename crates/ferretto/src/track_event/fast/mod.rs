//! The accelerator: most events as the same bytes that the plain path of `sequence` writes, by
//! fewer instructions.
//!
//! It is optional. Events that it does not know or cannot write at the moment are left to the plain
//! path. Random events are written with it and without in `tests/fast.rs`, where both have to be
//! the same bytes.

mod event;
mod head;
mod header_cache;

use ferretto_client::TraceWriter;
use ferretto_engine::EventBuffer;
use ferretto_format::SequenceWriter;
use ferretto_wire::Sink as _;

use self::header_cache::{HeaderCache, Key};
use super::category::Category;
use super::event::{Event, Kind, ShortEvent};

pub(super) use event::Sources;
pub(super) use head::{begin_annotation, begin_event, put_varint};

/// The accelerator of one sequence.
#[derive(Debug)]
pub(super) struct Accelerator {
    /// The number of written bytes up to which the incremental state is valid and events carry
    /// nothing unusual; 0 if not even for the next.
    until: u64,
    headers: HeaderCache,
    #[cfg(test)]
    is_off: bool,
}

impl Accelerator {
    pub(super) const fn new() -> Self {
        Self {
            until: 0,
            headers: HeaderCache::new(),
            #[cfg(test)]
            is_off: false,
        }
    }

    /// Leaves everything to the plain path.
    #[cfg(test)]
    pub(super) fn switch_off(&mut self) {
        self.is_off = true;
        self.pause();
        self.forget();
    }

    /// Leaves events to the plain path until [`allow_until`](Self::allow_until) says otherwise.
    pub(super) fn pause(&mut self) {
        self.until = 0;
    }

    /// Allows writing events until the writer has written so many bytes. To be called after
    /// anything was written by the plain path: only then packets may have been lost.
    pub(super) fn allow_until(&mut self, written: u64) {
        #[cfg(test)]
        let written = if self.is_off { 0 } else { written };
        self.until = written;
    }

    /// Forgets the headers: the iids in them are void.
    pub(super) fn forget(&mut self) {
        self.headers.clear();
    }

    /// Writes an event to which nothing is attached, if it is as short as most are and needs
    /// nothing explained. Returns whether it did; if not, nothing has happened.
    #[inline(always)]
    pub(super) fn write_short(
        &self,
        writer: &mut TraceWriter,
        sequence: &mut SequenceWriter,
        now: u64,
        event: &ShortEvent,
    ) -> bool {
        writer.written() < self.until
            && event::write_short(&self.headers, writer, sequence, now, event).is_some()
    }

    /// Writes an event, if it is of the kind that can be written quickly. Returns whether it did;
    /// if not, nothing has happened.
    #[inline(always)]
    pub(super) fn write(
        &self,
        writer: &mut TraceWriter,
        sequence: &mut SequenceWriter,
        sources: &Sources<'_>,
        now: u64,
        event: &Event<'_>,
    ) -> bool {
        writer.written() < self.until
            && event::write(&self.headers, writer, sequence, sources, now, event).is_some()
    }

    /// Appends the first fields of an event, if they are known. Returns whether they are.
    #[inline]
    pub(super) fn write_header(
        &self,
        buffer: &mut EventBuffer,
        kind: Kind,
        category: &'static Category,
        name: &'static str,
    ) -> bool {
        let Some(header) = self.headers.get(Key::new(kind, category, name)) else {
            return false;
        };
        let (fields, length) = header.fields();
        buffer.write_short(&fields.to_le_bytes(), length);
        true
    }

    /// Remembers the first fields of an event.
    pub(super) fn remember(
        &mut self,
        kind: Kind,
        category: &'static Category,
        name: &'static str,
        encoded: &[u8],
    ) {
        #[cfg(test)]
        if self.is_off {
            return;
        }
        self.headers.put(Key::new(kind, category, name), encoded);
    }
}
