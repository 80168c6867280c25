//! Packets written by address, as compiled C programs do it.

use crate::common::World;
use ferretto_shm::{
    ArbiterOptions, ExhaustedPolicy, Layout, RawRange, TraceWriter, WriteByAddress,
};
use ferretto_wire::{Fields, encode};

/// A program that only knows the addresses.
struct Client<'a> {
    writer: &'a mut TraceWriter,
    range: RawRange,
    /// The address of the length of every open message, and its current value.
    open: Vec<(*mut u8, usize)>,
    announced: usize,
    refused: usize,
}

impl<'a> Client<'a> {
    fn new(writer: &'a mut TraceWriter) -> Self {
        let range = writer.start_raw_packet();
        Self {
            writer,
            range,
            open: Vec::new(),
            announced: 0,
            refused: 0,
        }
    }

    fn free(&self) -> usize {
        self.range.end as usize - self.range.cursor as usize
    }

    /// Announces all lengths in the range before it changes.
    fn leave(&mut self) {
        for (field, _) in self.open.iter_mut().rev() {
            let inside = (self.range.begin..self.range.end).contains(field);
            if !inside {
                break;
            }
            // SAFETY: cursor and field are in the range.
            *field = unsafe { self.writer.announce_raw(self.range.cursor, *field) };
            if field.is_null() {
                self.refused += 1;
            } else {
                self.announced += 1;
            }
        }
    }

    fn append(&mut self, bytes: &[u8]) {
        self.open.iter_mut().for_each(|open| open.1 += bytes.len());
        if bytes.len() <= self.free() {
            // SAFETY: there is space.
            unsafe { self.range.cursor.copy_from(bytes.as_ptr(), bytes.len()) };
            self.range.cursor = self.range.cursor.wrapping_add(bytes.len());
        } else {
            self.leave();
            // SAFETY: the cursor is where writing stopped.
            self.range = unsafe { self.writer.append_raw(self.range.cursor, bytes) };
        }
    }

    fn field(&mut self, number: u8, bytes: &[u8]) {
        let field = encode(|m| m.bytes(number.into(), bytes));
        self.append(&field);
    }

    fn begin(&mut self, number: u8) {
        self.append(&[number << 3 | 2]);
        self.open.iter_mut().for_each(|open| open.1 += 4);
        if self.free() < 4 {
            self.leave();
            // SAFETY: as above.
            self.range = unsafe { self.writer.next_raw_range(self.range.cursor, 4) };
        }
        self.open.push((self.range.cursor, 0));
        self.range.cursor = self.range.cursor.wrapping_add(4);
    }

    fn end(&mut self) {
        let (field, length) = self.open.pop().unwrap();
        let length = ferretto_wire::redundant_length(length as u32);
        if !field.is_null() {
            // SAFETY: either in the range or what `announce_raw` returned.
            unsafe { field.copy_from(length.as_ptr(), 4) };
        }
    }

    fn finish(self) -> (usize, usize) {
        // SAFETY: the cursor is where writing stopped.
        unsafe { self.writer.end_raw_packet(self.range.cursor) };
        (self.announced, self.refused)
    }
}

/// Writes `parts` texts of a size in messages three levels deep, and some before and after.
fn deep(writer: &mut TraceWriter, parts: usize, size: usize) -> (usize, usize) {
    let mut client = Client::new(writer);
    client.field(1, b"head");
    client.begin(2);
    client.begin(3);
    for part in 0..parts {
        client.begin(4);
        client.field(5, &vec![part as u8; size]);
        client.end();
    }
    client.end();
    client.field(6, b"tail");
    client.end();
    client.finish()
}

fn message(bytes: &[u8], number: u32) -> &[u8] {
    Fields::find(number, bytes)
        .and_then(|f| f.as_bytes())
        .unwrap_or_else(|| panic!("no {number}"))
}

/// Returns the texts of a packet written by [`deep`].
fn texts(packet: &[u8]) -> Vec<&[u8]> {
    assert_eq!(message(packet, 1), b"head");
    let outer = message(packet, 2);
    assert_eq!(message(outer, 6), b"tail");
    Fields::new(message(outer, 3))
        .map(|part| message(part.unwrap().as_bytes().unwrap(), 5))
        .collect()
}

#[test]
fn sdk_036_packets_written_by_address_decode_across_chunks() {
    for layout in [Layout::Div1, Layout::Div14] {
        for (parts, size) in [(1, 1), (3, 200), (1, 20_000), (40, 333), (900, 7)] {
            let options = ArbiterOptions {
                layout: Some(layout),
                ..Default::default()
            };
            let mut world = World::new(64, options);
            let mut writer = world.writer();
            writer.write_packet(&encode(|m| m.string(1, "before")));
            let (announced, refused) = deep(&mut writer, parts, size);
            writer.write_packet(&encode(|m| m.string(1, "after")));
            writer.flush(None);
            world.deliver();
            let packets = world.packets(writer.id());
            assert_eq!(packets.len(), 3, "{layout:?} {parts} {size}");
            let texts = texts(&packets[1]);
            assert_eq!(texts.len(), parts);
            for (index, text) in texts.iter().enumerate() {
                assert_eq!(*text, vec![index as u8; size], "{layout:?} {parts} {size}");
            }
            assert_eq!(refused, 0);
            assert_eq!(announced > 0, world.stored.len() > 1);
        }
    }
}

#[test]
fn sdk_036_what_finds_no_chunk_is_discarded_whole() {
    let mut world = World::new(2, ArbiterOptions::default());
    let mut writer = world.writer();
    writer.write_packet(&encode(|m| m.string(1, "before")));
    // The packet is larger than the memory: it is lost in the middle, with open lengths in the
    // abandoned chunk.
    let (announced, _) = deep(&mut writer, 30, 1000);
    assert!(announced > 0 && writer.is_dropping());
    // The packet is lost from the start: no length is announced.
    let (announced, refused) = deep(&mut writer, 30, 1000);
    assert_eq!(announced, 0);
    assert!(refused > 0);
    assert_eq!(writer.drop_count(), 1);
    writer.flush(None);
    world.deliver();
    deep(&mut writer, 2, 10);
    writer.flush(None);
    world.deliver();
    let packets = world.packets(writer.id());
    assert_eq!(packets.len(), 2);
    let lost = Fields::find(42, &packets[1]).and_then(|f| f.as_u64());
    assert_eq!(lost, Some(257));
    assert_eq!(texts(&packets[1]), [[0; 10], [1; 10]]);
}

#[test]
fn sdk_036_a_writer_without_memory_takes_everything() {
    let mut writer = TraceWriter::null();
    deep(&mut writer, 100, 1000);
    assert_eq!(writer.drop_count(), 0);
    // More than the initial memory for discarded packets.
    let range = writer.start_raw_packet();
    // SAFETY: nothing was written.
    let range = unsafe { writer.next_raw_range(range.cursor, 100_000) };
    assert!(range.end as usize - range.cursor as usize >= 100_000);
    // SAFETY: as above.
    unsafe { writer.end_raw_packet(range.cursor) };
}

#[test]
fn sdk_036_a_length_never_written_holds_nothing_up() {
    let mut world = World::new(16, ArbiterOptions::default());
    let mut writer = world.arbiter.create_writer(7, ExhaustedPolicy::Drop);
    let mut client = Client::new(&mut writer);
    client.begin(2);
    client.field(5, &[1; 5000]);
    // Not ended.
    client.finish();
    deep(&mut writer, 10, 1000);
    writer.flush(None);
    world.deliver();
    let packets = world.packets(writer.id());
    assert_eq!(texts(&packets[1]).len(), 10);
}

#[test]
fn addresses_outside_the_range_change_nothing() {
    let mut world = World::new(4, ArbiterOptions::default());
    let mut writer = world.writer();
    let range = writer.start_raw_packet();
    let past = range.end.wrapping_add(1);
    // SAFETY: not upheld on purpose: addresses outside the range must be ignored.
    unsafe {
        writer.advance_raw(past);
        assert!(writer.announce_raw(range.cursor, past).is_null());
        assert!(writer.announce_raw(range.cursor, range.cursor).is_null());
        writer.end_raw_packet(past);
    }
    writer.flush(None);
    world.deliver();
    assert_eq!(world.packets(writer.id()), [[0xb8, 0x05, 0x01]]);
}
