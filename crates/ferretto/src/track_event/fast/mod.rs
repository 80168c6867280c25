//! The accelerator: writes most events as the same bytes as the plain path of `sequence`, in fewer
//! instructions.
//!
//! The accelerator is optional. It leaves unsupported events to the plain path. `tests/fast.rs`
//! writes random events both ways and compares the bytes.

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
    /// The number of written bytes up to which the incremental state is valid and events need no
    /// special fields; 0 to disable the accelerator.
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

    /// Disables the accelerator for good.
    #[cfg(test)]
    pub(super) fn switch_off(&mut self) {
        self.is_off = true;
        self.pause();
        self.forget();
    }

    /// Disables the accelerator until the next call of [`allow_until`](Self::allow_until).
    pub(super) fn pause(&mut self) {
        self.until = 0;
    }

    /// Enables the accelerator until `written` bytes have been written. Must be called after every
    /// write of the plain path, since only such a write can lose packets.
    pub(super) fn allow_until(&mut self, written: u64) {
        #[cfg(test)]
        let written = if self.is_off { 0 } else { written };
        self.until = written;
    }

    /// Forgets the headers, whose iids are void.
    pub(super) fn forget(&mut self) {
        self.headers.clear();
    }

    /// Writes an event without fields, if it is short and needs no new incremental state. Returns
    /// false, without any effect, if not.
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

    /// Writes an event if the accelerator supports it. Returns false, without any effect, if not.
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

    /// Appends the cached first fields of an event. Returns false if they are not cached.
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

    /// Caches the first fields of an event.
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
