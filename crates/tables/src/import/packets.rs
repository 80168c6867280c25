//! Reads packets of a file ahead on a separate thread.

use std::io::Read;
use std::sync::mpsc;

use ferretto_trace::{Damage, Limits, ReadError, TraceReader};

use super::arena::Batch;

/// A file of packets.
pub(crate) type Source<'a> = Box<dyn Read + Send + 'a>;

/// The maximum number of batches that wait to be tokenized.
const BATCHES_AHEAD: usize = 2;

/// Calls `each` with batches of all packets of a file, and the number of bytes read, until it
/// returns false. With several `threads`, one of them reads, decompresses and decodes headers
/// ahead.
///
/// # Errors
///
/// Fails if reading fails, or the file is not a trace.
pub(crate) fn read_packets(
    source: Source<'_>,
    limits: Limits,
    threads: usize,
    mut each: impl FnMut(Batch, u64) -> bool,
) -> Result<Damage, ReadError> {
    if threads < 2 {
        return read(source, limits, false, each);
    }
    std::thread::scope(|scope| {
        let (sender, batches) = mpsc::sync_channel(BATCHES_AHEAD);
        let reader = scope.spawn(move || {
            read(source, limits, true, |batch, bytes| {
                sender.send((batch, bytes)).is_ok()
            })
        });
        for (batch, bytes) in batches {
            if !each(batch, bytes) {
                break;
            }
        }
        match reader.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Returns the size of the tag and the length before a packet.
fn head_bytes(packet_bytes: usize) -> u64 {
    let bits = usize::BITS - (packet_bytes | 1).leading_zeros();
    1 + u64::from(bits.div_ceil(7))
}

fn read(
    source: Source<'_>,
    limits: Limits,
    notes_heads: bool,
    mut each: impl FnMut(Batch, u64) -> bool,
) -> Result<Damage, ReadError> {
    let mut reader = TraceReader::with_limits(source, limits);
    let (mut batch, mut bytes) = (Batch::default(), 0);
    let damage = reader.try_read_all(|packet| {
        bytes = bytes.max(packet.offset);
        if batch.is_full_for(packet.bytes.len()) && !each(std::mem::take(&mut batch), bytes) {
            return false;
        }
        batch.push(packet.bytes, packet.offset + head_bytes(packet.bytes.len()));
        if notes_heads {
            batch.note_head(packet.bytes);
        }
        true
    })?;
    if !batch.is_empty() {
        each(batch, reader.bytes_read());
    }
    Ok(damage)
}
