//! A slow model of the buffer without cursors, indexes or caches: every query visits all records.

use std::collections::BTreeMap;

use crate::support::*;
use ferretto_service::buffer::{BufferStats, Patch, Policy};

pub(crate) const SIZE: usize = 4096;

const GAP: u32 = 1 | 2;
const CORRUPTED: u32 = 1 | 4;
const ORPHAN: u32 = 1 | 8;
const REASSEMBLY_GAP: u32 = 1 | 16;
const BROKEN_CHAIN: u32 = 1 | 32;
const OVERWRITE: u32 = 1 | 64;
const ABORTED: u32 = 1 | 128;

pub(crate) type Key = (u16, u16);

#[derive(Debug, Clone)]
struct Stored {
    key: Key,
    id: u32,
    reserved: usize,
    bytes: Vec<u8>,
    read: usize,
    flags: u8,
    incomplete: bool,
    aborted: bool,
}

#[derive(Debug, Clone)]
struct Record {
    len: usize,
    chunk: Option<Stored>,
}

#[derive(Debug, Clone, Default)]
struct Writer {
    /// The id, the length, true if it was only scraped, and true if a packet in it was aborted.
    consumed: Option<(u32, usize, bool, bool)>,
    loss: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Part {
    Whole,
    Begin,
    Continue,
    End,
}

enum Found {
    Fragment {
        part: Part,
        body: Vec<u8>,
        end: usize,
    },
    Nothing,
    Garbage,
}

/// Returns the first size at or after `at`: the offset of its bytes, and their number.
fn size_at(bytes: &[u8], at: usize) -> Option<(usize, u64)> {
    let mut value: u128 = 0;
    for (index, byte) in bytes[at..].iter().enumerate().take(10) {
        value += u128::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((at + index + 1, value as u64));
        }
    }
    None
}

impl Stored {
    fn next(&self) -> Found {
        if self.read == self.bytes.len() {
            return Found::Nothing;
        }
        let Some((start, len)) = size_at(&self.bytes, self.read) else {
            return Found::Garbage;
        };
        if len == 0x0fff_ffff || len > (self.bytes.len() - start) as u64 {
            return Found::Garbage;
        }
        let end = start + len as usize;
        let first = self.read == 0 && self.flags & FIRST != 0;
        let last = end == self.bytes.len() && self.flags & LAST != 0;
        let part = match (first, last) {
            (true, true) => Part::Continue,
            (true, false) => Part::End,
            (false, true) => Part::Begin,
            (false, false) => Part::Whole,
        };
        Found::Fragment {
            part,
            body: self.bytes[start..end].to_vec(),
            end,
        }
    }
}

pub(crate) struct Model {
    policy: Policy,
    records: BTreeMap<usize, Record>,
    write: usize,
    writers: BTreeMap<Key, Writer>,
    sealed: bool,
    pub(crate) stats: BufferStats,
}

fn record_len(payload: usize) -> usize {
    16 + payload.div_ceil(16) * 16
}

impl Model {
    pub(crate) fn new(policy: Policy) -> Self {
        let stats = BufferStats {
            buffer_size: SIZE as u64,
            ..BufferStats::default()
        };
        Self {
            policy,
            records: BTreeMap::new(),
            write: 0,
            writers: BTreeMap::new(),
            sealed: false,
            stats,
        }
    }

    /// Returns the offsets of a writer's chunks, in order.
    fn chunks(&self, key: Key) -> Vec<(usize, u32)> {
        let all: Vec<(usize, u32)> = self
            .records
            .iter()
            .filter_map(|(at, record)| {
                let chunk = record.chunk.as_ref().filter(|chunk| chunk.key == key)?;
                Some((*at, chunk.id))
            })
            .collect();
        // The first is the one after which all others come.
        let first = all
            .iter()
            .map(|(_, id)| *id)
            .find(|first| all.iter().all(|(_, id)| id.wrapping_sub(*first) < 1 << 31));
        let mut sorted = all;
        sorted.sort_by_key(|(_, id)| id.wrapping_sub(first.unwrap_or_default()));
        sorted
    }

    fn at(&mut self, at: usize) -> &mut Stored {
        let record = self.records.get_mut(&at).expect("a record");
        record.chunk.as_mut().expect("a chunk")
    }

    fn writer(&mut self, key: Key) -> &mut Writer {
        self.writers.entry(key).or_default()
    }

    fn erase(&mut self, at: usize) {
        let record = self.records.get_mut(&at).expect("a record");
        let chunk = record.chunk.take().expect("a chunk");
        self.note(chunk.key, chunk.aborted);
        self.writer(chunk.key).consumed =
            Some((chunk.id, chunk.bytes.len(), chunk.incomplete, chunk.aborted));
    }

    /// Marks the packet after an aborted one.
    fn note(&mut self, key: Key, aborted: bool) {
        if aborted {
            self.writer(key).loss |= ABORTED;
        }
    }

    /// Marks a writer's first chunk as used: it is too late for earlier ones.
    fn judge(&mut self, at: usize) {
        let chunk = self.at(at);
        let (key, id) = (chunk.key, chunk.id);
        let writer = self.writer(key);
        let before = (id.wrapping_sub(1), 0, false, false);
        match writer.consumed {
            Some((last, _, true, _)) if last == id => return,
            Some((last, _, false, _)) if last == before.0 => return,
            Some(_) => writer.loss |= GAP,
            None => {}
        }
        writer.consumed = Some(before);
    }

    fn consume(&mut self, at: usize, end: usize, erase: bool) {
        let chunk = self.at(at);
        chunk.read = end;
        if chunk.read < chunk.bytes.len() {
            return;
        }
        let len = record_len(chunk.reserved) as u64;
        if erase {
            self.stats.chunks_overwritten += 1;
            self.stats.bytes_overwritten += len;
        } else {
            self.stats.chunks_read += 1;
            self.stats.bytes_read += len;
        }
    }

    /// Returns the next packet of a writer, and erases chunks up to the one at `erase_to` if given.
    fn take(&mut self, key: Key, erase_to: Option<usize>) -> Option<(Vec<u8>, usize)> {
        let erase = erase_to.is_some();
        loop {
            let (at, _) = *self.chunks(key).first()?;
            let chunk = self.at(at).clone();
            match chunk.next() {
                Found::Fragment {
                    part: Part::Whole,
                    body,
                    end,
                } => {
                    self.judge(at);
                    self.consume(at, end, erase);
                    if !body.is_empty() {
                        return Some((body, 1));
                    }
                    continue;
                }
                Found::Fragment {
                    part: Part::Continue | Part::End,
                    end,
                    ..
                } => {
                    self.judge(at);
                    self.writer(key).loss |= ORPHAN;
                    self.consume(at, end, erase);
                    continue;
                }
                Found::Fragment {
                    part: Part::Begin, ..
                } => {
                    let (pieces, outcome) = self.collect(key);
                    if outcome == Err(0) && !erase {
                        return None;
                    }
                    self.judge(at);
                    for (at, end, _) in &pieces {
                        self.consume(*at, *end, erase);
                    }
                    match outcome {
                        Ok(()) => {
                            self.stats.readaheads_succeeded += 1;
                            let count = pieces.len();
                            let body: Vec<u8> =
                                pieces.into_iter().flat_map(|piece| piece.2).collect();
                            if !body.is_empty() {
                                return Some((body, count));
                            }
                        }
                        Err(0) => self.writer(key).loss |= OVERWRITE,
                        Err(loss) => self.writer(key).loss |= loss,
                    }
                    continue;
                }
                Found::Garbage => self.writer(key).loss |= CORRUPTED,
                Found::Nothing => {}
            }
            if chunk.incomplete && !erase {
                return None;
            }
            self.judge(at);
            self.erase(at);
            if erase_to == Some(at) {
                return None;
            }
        }
    }

    /// Returns the available pieces of a writer's next packet; the error is the loss, or 0 if more
    /// may come.
    #[allow(clippy::type_complexity)]
    fn collect(&mut self, key: Key) -> (Vec<(usize, usize, Vec<u8>)>, Result<(), u32>) {
        let mut pieces = Vec::new();
        let mut expected: Option<u32> = None;
        for (at, id) in self.chunks(key) {
            let first = expected.is_none();
            if expected.is_some_and(|expected| expected != id) {
                return (pieces, Err(REASSEMBLY_GAP));
            }
            expected = Some(id.wrapping_add(1));
            let chunk = self.at(at).clone();
            let (part, body, end) = match chunk.next() {
                Found::Fragment { part, body, end } => (part, body, end),
                Found::Garbage => return (pieces, Err(CORRUPTED)),
                Found::Nothing if chunk.incomplete => return (pieces, Err(0)),
                Found::Nothing => continue,
            };
            let blocked = chunk.flags & PATCH != 0;
            match part {
                Part::Begin if first => {
                    pieces.push((at, end, body));
                    if blocked {
                        return (pieces, Err(0));
                    }
                }
                Part::Continue if blocked => return (pieces, Err(0)),
                Part::Continue => pieces.push((at, end, body)),
                Part::End => {
                    pieces.push((at, end, body));
                    return (pieces, Ok(()));
                }
                Part::Begin | Part::Whole => return (pieces, Err(BROKEN_CHAIN)),
            }
        }
        (pieces, Err(0))
    }

    pub(crate) fn drain(&mut self) -> Vec<Got> {
        let keys: Vec<Key> = self.writers.keys().copied().collect();
        let mut all = Vec::new();
        for key in keys {
            while let Some((bytes, pieces)) = self.take(key, None) {
                all.push(Got {
                    producer: key.0,
                    writer: key.1,
                    bytes,
                    pieces,
                    loss: std::mem::take(&mut self.writer(key).loss),
                });
            }
        }
        all
    }

    pub(crate) fn patch(&mut self, key: Key, id: u32, patches: &[Patch], more: bool) -> bool {
        let Some((at, _)) = self.chunks(key).into_iter().find(|chunk| chunk.1 == id) else {
            self.stats.patches_failed += 1;
            return false;
        };
        let chunk = self.at(at);
        for patch in patches {
            let offset = patch.offset as usize;
            if offset + 4 > chunk.bytes.len() {
                self.stats.patches_failed += 1;
                return false;
            }
            chunk.bytes[offset..offset + 4].copy_from_slice(&patch.data);
        }
        if !more {
            chunk.flags &= !PATCH;
        }
        self.stats.patches_succeeded += patches.len() as u64;
        true
    }

    /// Returns the number of bytes already read of a chunk that is still wanted.
    fn admit(&mut self, key: Key, id: u32, len: usize) -> Option<usize> {
        let (last, read, incomplete, _) = match self.writer(key).consumed {
            None => return Some(0),
            Some(consumed) => consumed,
        };
        if id == last {
            return (incomplete && read < len).then_some(read);
        }
        (id.wrapping_sub(last) < 1 << 31).then_some(0)
    }

    pub(crate) fn copy(&mut self, made: &Make) {
        if self.sealed {
            self.stats.chunks_discarded += 1;
            return;
        }
        let mut made = made.clone();
        if !made.complete && made.fragments > 0 {
            made.fragments -= 1;
            made.flags &= FIRST;
        }
        let mut len = 0;
        let mut aborted = false;
        for _ in 0..made.fragments {
            let whole = Stored {
                key: (0, 0),
                id: 0,
                reserved: 0,
                bytes: made.payload.clone(),
                read: len,
                flags: 0,
                incomplete: false,
                aborted: false,
            };
            if let Found::Fragment { end, .. } = whole.next() {
                len = end;
                continue;
            }
            let size = size_at(&made.payload, len);
            aborted = size.is_some_and(|size| size.1 == 0x0fff_ffff);
            self.stats.abi_violations += u64::from(!aborted);
            break;
        }
        let reserved = if made.complete {
            len
        } else {
            made.payload.len()
        };
        if record_len(reserved) > SIZE {
            self.stats.abi_violations += 1;
            return;
        }
        made.payload.truncate(len);
        self.store(made, reserved, aborted);
    }

    fn store(&mut self, made: Make, reserved: usize, aborted: bool) {
        let key = (made.producer, made.writer);
        let len = made.payload.len();
        let gone = self.writer(key).consumed;
        let is_known = gone.is_some_and(|(last, .., known)| last == made.id && known)
            || self
                .chunks(key)
                .into_iter()
                .any(|(at, id)| id == made.id && self.at(at).aborted);
        let is_news = aborted && !is_known;
        self.stats.trace_writer_packet_loss += u64::from(is_news);
        let Some(mut read) = self.admit(key, made.id, len) else {
            // All losses but the rest of a scraped chunk have been reported.
            if let Some((last, _, incomplete, known)) = &mut self.writer(key).consumed
                && *last == made.id
                && *incomplete
            {
                *incomplete = !made.complete;
                *known |= aborted;
                self.note(key, is_news);
            } else {
                self.stats.chunks_discarded += 1;
            }
            return;
        };
        let there = self.chunks(key);
        let ids = there.iter().map(|chunk| chunk.1);
        if there.iter().all(|chunk| chunk.1 != made.id) && !fits(ids, made.id) {
            self.stats.abi_violations += 1;
            return;
        }
        if let Some(index) = there.iter().position(|chunk| chunk.1 == made.id) {
            match self.recommit(there[index].0, index == 0, &made, aborted) {
                None => return,
                Some(skip) => read = skip,
            }
        }
        let size = record_len(reserved);
        if size > SIZE - self.write {
            if self.policy == Policy::Discard {
                self.sealed = true;
                self.stats.chunks_discarded += 1;
                self.note(key, aborted);
                self.note(key, aborted);
                return;
            }
            self.evict(SIZE - self.write);
            self.write = 0;
            self.stats.write_wrap_count += 1;
        }
        self.evict(size);
        let again = self.admit(key, made.id, len);
        let range = self.write..self.write + size;
        let cleared: usize = self
            .records
            .range(range.clone())
            .map(|record| record.1.len)
            .sum();
        self.records.retain(|at, _| !range.contains(at));
        let Some(again) = again else {
            self.stats.chunks_discarded += 1;
            self.note(key, aborted);
            if cleared > 0 {
                let len = cleared.min(size);
                self.records.insert(self.write, Record { len, chunk: None });
            }
            return;
        };
        if let Some((_, last)) = self.chunks(key).last()
            && last.wrapping_sub(made.id) < 1 << 31
        {
            self.stats.chunks_committed_out_of_order += 1;
        }
        let chunk = Some(Stored {
            key,
            id: made.id,
            reserved,
            read: read.max(again),
            flags: made.flags,
            incomplete: !made.complete,
            aborted,
            bytes: made.payload,
        });
        self.records.insert(self.write, Record { len: size, chunk });
        self.write += size;
        self.stats.chunks_written += 1;
        self.stats.bytes_written += size as u64;
    }

    /// Returns the number of bytes already read if the chunk is to be stored anew.
    fn recommit(&mut self, at: usize, first: bool, made: &Make, aborted: bool) -> Option<usize> {
        let ring = self.policy == Policy::Ring;
        let len = made.payload.len();
        let old = self.at(at);
        if len < old.bytes.len() || len > old.reserved || old.flags & !made.flags != 0 {
            self.stats.abi_violations += 1;
            return None;
        }
        let completes = old.incomplete && made.complete;
        let grows = len > old.bytes.len();
        if completes && grows && old.read == old.bytes.len() && first && ring {
            let read = old.read;
            self.erase(at);
            self.stats.chunks_relocated += 1;
            return Some(read);
        }
        old.aborted |= aborted;
        if completes {
            old.incomplete = false;
        }
        if completes || grows {
            old.flags |= made.flags;
        }
        if grows {
            old.bytes.clone_from(&made.payload);
            self.stats.chunks_rewritten += 1;
        }
        None
    }

    fn evict(&mut self, size: usize) {
        let end = self.write + size;
        let starts: Vec<usize> = self
            .records
            .range(self.write..end)
            .map(|record| *record.0)
            .collect();
        for at in &starts {
            let record = &self.records[at];
            let Some(chunk) = &record.chunk else {
                self.stats.padding_bytes_cleared += record.len as u64;
                continue;
            };
            let key = chunk.key;
            let mut lost = false;
            while self.take(key, Some(*at)).is_some() {
                lost = true;
            }
            if lost {
                self.writer(key).loss |= OVERWRITE;
            }
        }
        if let Some(last) = starts.last() {
            let over = (last + self.records[last].len).saturating_sub(end);
            if over > 0 {
                self.records.get_mut(last).expect("a record").len -= over;
                let rest = Record {
                    len: over,
                    chunk: None,
                };
                self.records.insert(end, rest);
                self.stats.padding_bytes_written += over as u64;
            }
        }
    }
}

/// Returns true if all these ids and `id` are within half the id space.
fn fits(ids: impl Iterator<Item = u32>, id: u32) -> bool {
    let all: Vec<u32> = ids.chain([id]).collect();
    all.iter()
        .any(|first| all.iter().all(|other| other.wrapping_sub(*first) < 1 << 31))
}
