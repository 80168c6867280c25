//! Reads packets of a file ahead on a separate thread.

use std::io::Read;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::Builder;

use ferretto_trace::{Damage, ReadError, TraceReader};

use super::arena::Batch;

/// A file of packets.
pub(crate) type Source<'a> = Box<dyn Read + Send + 'a>;

/// The maximum number of batches that wait to be tokenized.
const BATCHES_AHEAD: usize = 2;

/// Calls `each` with batches of all packets of a file, and the number of bytes read, until it
/// returns false. It takes the packets of a batch and leaves memory for another one. With several
/// `threads`, one of them reads, decompresses and decodes headers ahead.
///
/// # Errors
///
/// Fails if reading fails, or the file is not a trace.
pub(crate) fn read_packets(
    reader: TraceReader<Source<'_>>,
    threads: usize,
    mut each: impl FnMut(&mut Batch, u64) -> bool,
) -> Result<Damage, ReadError> {
    if threads < 2 {
        return read(reader, false, each);
    }
    // Outside of the thread's function, which is lost if the thread cannot be started.
    let source = Mutex::new(Some(reader));
    let take = || {
        let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
        source.take()
    };
    std::thread::scope(|scope| {
        let (sender, batches) = mpsc::sync_channel(BATCHES_AHEAD);
        let (returned, taken) = mpsc::channel();
        let reader = Builder::new().spawn_scoped(scope, move || {
            let Some(source) = take() else {
                return Ok(Damage::default());
            };
            read(source, true, |batch, bytes| {
                let full = std::mem::take(batch);
                let is_wanted = sender.send((full, bytes)).is_ok();
                *batch = taken.try_recv().unwrap_or_default();
                is_wanted
            })
        });
        let Ok(reader) = reader else {
            return take().map_or_else(|| Ok(Damage::default()), |source| read(source, true, each));
        };
        for (mut batch, bytes) in batches {
            if !each(&mut batch, bytes) {
                break;
            }
            // The reader may have finished.
            let _ = returned.send(batch);
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
    mut reader: TraceReader<Source<'_>>,
    notes_heads: bool,
    mut each: impl FnMut(&mut Batch, u64) -> bool,
) -> Result<Damage, ReadError> {
    let (mut batch, mut bytes) = (Batch::default(), 0);
    let damage = reader.try_read_all(|packet| {
        bytes = bytes.max(packet.offset);
        if batch.is_full_for(packet.bytes.len()) && !each(&mut batch, bytes) {
            return false;
        }
        batch.push(packet.bytes, packet.offset + head_bytes(packet.bytes.len()));
        if notes_heads {
            batch.note_head(packet.bytes);
        }
        true
    })?;
    if !batch.is_empty() {
        each(&mut batch, reader.bytes_read());
    }
    Ok(damage)
}
