//! Honest writers whose chunks arrive late, are scraped before they arrive, wait for patches, and
//! are overwritten. Every packet must be read once, complete and in order, or the next one must
//! report a loss; and it must not report one otherwise.

use std::collections::VecDeque;

use crate::support::*;
use ferretto_service::buffer::{Patch, TraceBuffer};
use ferretto_testing::Random;
use proptest::prelude::*;

/// A message in transit to the service.
#[derive(Debug, Clone)]
enum Message {
    Commit(Make),
    Patch(u32, Patch),
}

#[derive(Debug)]
struct Writer {
    key: (u16, u16),
    chunk: Make,
    capacity: usize,
    packets: u32,
    outbox: VecDeque<Message>,
    /// The last packet that was read.
    seen: Option<u32>,
    missing: u32,
}

/// Returns the content of packet number `number` of a writer.
fn contents(key: (u16, u16), number: u32, len: usize) -> Vec<u8> {
    let head = [&number.to_le_bytes()[..], &(len as u32).to_le_bytes()].concat();
    let fill = (0..len).map(|index| (index as u8) ^ (number as u8) ^ (key.0 * 16 + key.1) as u8);
    head.into_iter().chain(fill).collect()
}

impl Writer {
    fn new(key: (u16, u16), first: u32) -> Self {
        Self {
            key,
            chunk: chunk(key.0, key.1, first),
            capacity: 248,
            packets: 0,
            outbox: VecDeque::new(),
            seen: None,
            missing: 0,
        }
    }

    fn write(&mut self, numbers: &mut Random) {
        let len = match numbers.below(8) {
            0 => numbers.below(1500),
            1..4 => numbers.below(300),
            _ => numbers.below(40),
        };
        let packet = contents(self.key, self.packets, len);
        self.packets += 1;
        if self.capacity - self.chunk.payload.len() < 12 {
            self.close(None);
        }
        let mut rest = &packet[..];
        loop {
            let capacity = self.capacity - self.chunk.payload.len() - 4;
            let (part, after) = rest.split_at(capacity.min(rest.len()));
            let size = part.len() as u32;
            let prefix = [size as u8 | 0x80, (size >> 7) as u8 | 0x80, 0x80, 0];
            let start = self.chunk.payload.len() + 4;
            self.chunk.payload.extend(prefix);
            self.chunk.payload.extend(part);
            self.chunk.fragments += 1;
            rest = after;
            if rest.is_empty() {
                break;
            }
            let hole = (part.len() >= 4 && numbers.one_in(2))
                .then(|| start + numbers.below(part.len() - 3));
            self.chunk.flags |= LAST;
            self.close(hole);
            self.chunk.flags = FIRST;
        }
    }

    /// Aborts a packet, and marks that.
    fn give_up(&mut self) {
        if self.capacity - self.chunk.payload.len() < ABORT.len() {
            self.close(None);
        }
        self.chunk.payload.extend(ABORT);
        self.chunk.fragments += 1;
        self.packets += 1;
        self.close(None);
    }

    /// Sends the chunk, with four bytes to be patched later if `hole` is set.
    fn close(&mut self, hole: Option<usize>) {
        let next = chunk(self.key.0, self.key.1, self.chunk.id.wrapping_add(1));
        let mut done = std::mem::replace(&mut self.chunk, next).pad(self.capacity);
        let id = done.id;
        let patch = hole.map(|offset| {
            let bytes = &mut done.payload[offset..offset + 4];
            let data = [bytes[0], bytes[1], bytes[2], bytes[3]];
            bytes.fill(0);
            done.flags |= PATCH;
            Message::Patch(id, patch(offset as u32, data))
        });
        self.outbox.push_back(Message::Commit(done));
        self.outbox.extend(patch);
    }

    fn deliver(&mut self, buffer: &mut TraceBuffer, world: &World, numbers: &mut Random) {
        let both = matches!(
            (self.outbox.front(), self.outbox.get(1)),
            (Some(Message::Commit(_)), Some(Message::Commit(_)))
        );
        let message = if world.overtaking && both && numbers.one_in(6) {
            self.outbox.remove(1)
        } else {
            self.outbox.pop_front()
        };
        match message {
            Some(Message::Commit(made)) => made.copy_to(buffer),
            Some(Message::Patch(id, patch)) => {
                buffer.try_patch(self.key.0, self.key.1, id, &[patch], false);
            }
            None => {}
        }
    }

    /// Copies undelivered chunks, as the service does at a flush.
    fn scrape(&self, buffer: &mut TraceBuffer, numbers: &mut Random) {
        let mut all: Vec<Make> = self
            .outbox
            .iter()
            .filter_map(|message| match message {
                Message::Commit(made) => Some(made.clone()),
                Message::Patch(..) => None,
            })
            .collect();
        if self.chunk.fragments > 0 {
            all.push(self.chunk.clone().pad(self.capacity).scraped());
        }
        // In the order of memory, not of the chunks.
        if numbers.one_in(2) {
            all.reverse();
        }
        all.iter().for_each(|made| made.copy_to(buffer));
    }

    fn check(&mut self, got: &Got) -> Result<(), TestCaseError> {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|index| got.bytes[at + index]));
        prop_assert!(got.bytes.len() >= 8);
        let (number, len) = (word(0), word(4) as usize);
        prop_assert_eq!(&got.bytes, &contents(self.key, number, len));
        let expected = self.seen.map_or(0, |seen| seen + 1);
        prop_assert!(number >= expected, "packet {number} again");
        let missing = number - expected;
        // Losses before a writer's first packet are not known.
        if self.seen.is_some() || missing == 0 {
            prop_assert_eq!(got.loss != 0, missing > 0, "{} missing", missing);
        }
        self.missing += missing;
        self.seen = Some(number);
        Ok(())
    }
}

fn read(
    buffer: &mut TraceBuffer,
    writers: &mut [Writer],
    count: usize,
) -> Result<(), TestCaseError> {
    for _ in 0..count {
        let Some(got) = read_one(buffer) else {
            return Ok(());
        };
        let writer = writers
            .iter_mut()
            .find(|writer| writer.key == (got.producer, got.writer));
        writer.expect("a known writer").check(&got)?;
    }
    Ok(())
}

/// An event of a run.
struct World {
    size: u64,
    /// Set if chunks are copied before they are committed.
    scraping: bool,
    /// Set if commits can overtake each other.
    overtaking: bool,
    /// Set if writers sometimes find no space.
    giving_up: bool,
}

/// Returns the number of lost packets.
fn run(world: &World, seed: u64) -> Result<u32, TestCaseError> {
    let mut numbers = Random(seed | 1);
    let mut buffer = ring(world.size);
    let mut writers = [
        Writer::new((1, 1), 0),
        Writer::new((1, 2), 0xffff_fff0),
        Writer::new((2, 1), 7),
    ];
    for _ in 0..600 {
        let index = numbers.below(writers.len());
        match numbers.below(10) {
            0..3 if world.giving_up && numbers.one_in(16) => writers[index].give_up(),
            0..3 => writers[index].write(&mut numbers),
            3..8 => writers[index].deliver(&mut buffer, world, &mut numbers),
            8 if world.scraping => writers[index].scrape(&mut buffer, &mut numbers),
            _ => {
                let count = numbers.below(12);
                read(&mut buffer, &mut writers, count)?;
            }
        }
    }
    // Chunks in transit arrive, then one packet of each writer, which reports all losses before it.
    for index in 0..writers.len() {
        if writers[index].chunk.fragments > 0 {
            writers[index].close(None);
        }
        while !writers[index].outbox.is_empty() {
            writers[index].deliver(&mut buffer, world, &mut numbers);
            let count = numbers.below(4);
            read(&mut buffer, &mut writers, count)?;
        }
    }
    read(&mut buffer, &mut writers, usize::MAX)?;
    for writer in &mut writers {
        let last = contents(writer.key, writer.packets, 3);
        writer.packets += 1;
        writer.chunk.clone().bytes(&last).copy_to(&mut buffer);
    }
    read(&mut buffer, &mut writers, usize::MAX)?;
    for writer in &writers {
        prop_assert_eq!(writer.seen.map(|seen| seen + 1), Some(writer.packets));
    }
    Ok(writers.iter().map(|writer| writer.missing).sum())
}

proptest! {
    #![proptest_config(cases(80))]

    #[test]
    fn every_loss_is_reported(
        seed in any::<u64>(),
        scraping in any::<bool>(),
        overtaking in any::<bool>(),
        giving_up in any::<bool>(),
    ) {
        run(&World { size: 4096, scraping, overtaking, giving_up }, seed)?;
    }

    #[test]
    fn no_packet_is_lost_if_the_buffer_is_large_enough(seed in any::<u64>(), scraping in any::<bool>()) {
        let world = World { size: 1 << 20, scraping, overtaking: false, giving_up: false };
        prop_assert_eq!(run(&world, seed)?, 0);
    }
}
