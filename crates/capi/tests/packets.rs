//! Packets that programs write by address, through a small memory.

mod common;

use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{Session, Source, Tracer, config, init_with, text, texts};
use ferretto_c::*;
use ferretto_wire::{Fields, encode, redundant_length};

/// A message written as the headers' inlined code does: it writes between two addresses and asks
/// for more.
struct Message {
    writer: *mut PerfettoStreamWriter,
    /// The place where the length of every open message is to be written, and how long it is.
    open: Vec<(*mut u8, usize)>,
}

impl Message {
    fn room(&self) -> usize {
        // SAFETY: the writer is valid for as long as the packet.
        unsafe { (*self.writer).end as usize - (*self.writer).write_ptr as usize }
    }

    fn announce(&mut self) {
        // SAFETY: used as the headers say.
        unsafe {
            let range = (*self.writer).begin..(*self.writer).end;
            for (place, _) in self
                .open
                .iter_mut()
                .rev()
                .take_while(|(p, _)| range.contains(p))
            {
                *place = PerfettoStreamWriterAnnotatePatch(self.writer, *place);
            }
        }
    }

    fn append(&mut self, bytes: &[u8]) {
        self.open.iter_mut().for_each(|open| open.1 += bytes.len());
        // SAFETY: used as the headers say.
        unsafe {
            if bytes.len() <= self.room() {
                (*self.writer)
                    .write_ptr
                    .copy_from(bytes.as_ptr(), bytes.len());
                (*self.writer).write_ptr = (*self.writer).write_ptr.add(bytes.len());
            } else {
                self.announce();
                PerfettoPbMsgWriterAppendBytesSlowpath(self.writer, bytes.as_ptr(), bytes.len());
            }
        }
    }

    fn nested(&mut self, field: u8, write: impl FnOnce(&mut Self)) {
        // Numbers up to 15 have tags of one byte.
        self.append(&[field << 3 | 2]);
        self.open.iter_mut().for_each(|open| open.1 += 4);
        // SAFETY: used as the headers say.
        unsafe {
            if self.room() < 4 {
                self.announce();
                PerfettoPbMsgWriterReserveBytesSlowpath(self.writer, 4);
            } else {
                (*self.writer).write_ptr = (*self.writer).write_ptr.add(4);
            }
            self.open.push(((*self.writer).write_ptr.sub(4), 0));
        }
        write(self);
        let (place, length) = self.open.pop().unwrap();
        if !place.is_null() {
            let length = redundant_length(length as u32);
            // SAFETY: used as the headers say.
            unsafe { place.copy_from(length.as_ptr(), 4) };
        }
    }
}

/// Writes a packet with so many parts, two messages deep, and a text behind them.
fn write_deep(tracer: Tracer, parts: usize, part: &[u8]) {
    tracer.write_with(|writer| {
        let mut message = Message {
            writer,
            open: Vec::new(),
        };
        message.nested(1, |message| {
            for _ in 0..parts {
                message.nested(2, |message| message.append(&encode(|m| m.bytes(3, part))));
            }
        });
        message.append(&text("deep"));
    });
}

fn parts(packet: &[u8]) -> Vec<&[u8]> {
    let parts = Fields::find(1, packet).and_then(|field| field.as_message());
    parts
        .unwrap()
        .map(|part| {
            Fields::find(3, part.unwrap().as_bytes().unwrap())
                .unwrap()
                .as_bytes()
                .unwrap()
        })
        .collect()
}

/// Lets the tests have the 64 KiB of memory that they share in turn: some leave no room for others.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    init_with(64);
    turn
}

#[test]
fn sdk_036_packets_larger_than_the_memory_arrive_whole_if_the_writer_waits() {
    let _turn = one_at_a_time();
    let source = Source::register("waits", |ds| {
        // SAFETY: used as the headers say.
        assert!(unsafe { PerfettoDsSetBufferExhaustedPolicy(ds, 1) });
    });
    for (count, size) in [(1, 3), (1, 74 << 10), (40, 100), (5000, 120), (3, 1 << 20)] {
        let session = Source::record("waits");
        let part: Vec<u8> = (0..size).map(|n| n as u8).collect();
        source.trace(|tracer| {
            tracer.write(&text("before"));
            write_deep(tracer, count, &part);
            tracer.write(&text("after"));
            assert_eq!(tracer.drop_count(), 0);
        });
        let packets = session.stop_and_read();
        assert_eq!(
            texts(&packets),
            ["before", "deep", "after"],
            "{count} {size}"
        );
        let deep = packets
            .iter()
            .find(|packet| Fields::find(1, packet).is_some())
            .unwrap();
        let parts = parts(deep);
        assert_eq!(parts.len(), count);
        assert!(parts.iter().all(|found| *found == part), "{count} {size}");
    }
}

#[test]
fn sdk_021_and_036_a_writer_that_does_not_wait_loses_packets_and_says_so() {
    let _turn = one_at_a_time();
    let source = Source::register("drops", |_| {});
    let session = Source::record("drops");
    source.trace(|tracer| {
        tracer.write(&text("before"));
        // More than the service can take away meanwhile, perhaps: all or nothing.
        let mut attempts = 0;
        while tracer.drop_count() == 0 {
            write_deep(tracer, 2000, &[attempts; 120]);
            attempts += 1;
        }
        assert_eq!(tracer.drop_count(), 1);
    });
    // The written packets are taken away now, and the next packet reports a loss. SAFETY: used as
    // the headers say.
    assert!(unsafe { PerfettoTracingSessionFlushBlocking(session.0, 10_000) });
    let mut packets = Vec::new();
    while !texts(&packets).iter().any(|text| text == "after") {
        source.trace(|tracer| tracer.write(&text("after")));
        // SAFETY: used as the headers say.
        assert!(unsafe { PerfettoTracingSessionFlushBlocking(session.0, 10_000) });
        packets.extend(session.read());
    }
    let lost = |packet: &Vec<u8>| Fields::find(42, packet).and_then(|field| field.as_u64());
    let after = packets
        .iter()
        .find(|packet| texts(&[(*packet).clone()]) == ["after"])
        .unwrap();
    assert_eq!(lost(after), Some(257));
    for deep in packets
        .iter()
        .filter(|packet| Fields::find(1, packet).is_some())
    {
        let parts = parts(deep);
        assert_eq!(parts.len(), 2000);
        assert!(
            parts
                .iter()
                .all(|part| part.len() == 120 && part.iter().all(|b| *b == part[0]))
        );
    }
}

#[test]
fn a_config_can_choose_only_where_the_data_source_lets_it() {
    let _turn = one_at_a_time();
    // 3: wait, then drop.
    let config = |name| config(name, |m| m.varint(9, 3));
    let lets = Source::register("lets", |ds| {
        // SAFETY: used as the headers say.
        assert!(unsafe { PerfettoDsSetBufferExhaustedPolicyConfigurable(ds, true) });
    });
    let session = Session::start(&config("lets"));
    lets.trace(|tracer| {
        for _ in 0..20 {
            write_deep(tracer, 2000, &[7; 120]);
        }
        assert_eq!(tracer.drop_count(), 0);
    });
    assert_eq!(texts(&session.stop_and_read()).len(), 20);
    let does_not = Source::register("does not", |_| {});
    let _session = Session::start(&config("does not"));
    does_not.trace(|tracer| {
        while tracer.drop_count() == 0 {
            write_deep(tracer, 2000, &[7; 120]);
        }
    });
}

#[test]
fn sdk_020_a_session_that_is_gone_takes_no_packets_and_does_no_harm() {
    let _turn = one_at_a_time();
    let source = Source::register("gone", |_| {});
    let session = Source::record("gone");
    source.trace(|tracer| {
        tracer.write(&text("x"));
        session.stop();
        tracer.write(&text("y"));
        write_deep(tracer, 2000, &[7; 120]);
    });
    assert_eq!(source.write(&text("z")), 0);
}

#[test]
fn the_heap_takes_messages_of_any_size() {
    // SAFETY: used as the headers say, those up to version 58 with more room than they have.
    unsafe {
        let mut writer = std::mem::MaybeUninit::<PerfettoPbMsgWriter>::uninit();
        let buffer = PerfettoHeapBufferCreate(writer.as_mut_ptr());
        let mut writer = writer.assume_init();
        assert_eq!(writer.encoding, 0);
        let stream = &raw mut writer.stream;
        assert_eq!(
            (
                writer.stream.end as usize - writer.stream.begin as usize,
                writer.stream.written_previously
            ),
            (4096, 0)
        );
        let mut message = Message {
            writer: stream,
            open: Vec::new(),
        };
        let part = [9; 700];
        message.nested(1, |message| {
            for _ in 0..30 {
                message.nested(2, |message| message.append(&encode(|m| m.bytes(3, &part))));
            }
        });
        let size = writer.stream.written_previously
            + (writer.stream.write_ptr as usize - writer.stream.begin as usize);
        let mut copy = vec![0; size];
        PerfettoHeapBufferCopyInto(buffer, stream, copy.as_mut_ptr().cast(), size);
        assert_eq!(parts(&copy), vec![part.as_slice(); 30]);
        let mut short = [0; 10];
        PerfettoHeapBufferCopyInto(buffer, stream, short.as_mut_ptr().cast(), 10);
        assert_eq!(short, copy[..10]);
        PerfettoHeapBufferDestroy(buffer, stream);
    }
}

/// Up to version 58 the function returned a writer, in memory that the caller has not written to.
#[cfg(target_arch = "x86_64")]
#[test]
fn sdk_035_the_memory_of_a_returned_writer_may_be_uninitialized() {
    let _turn = one_at_a_time();
    let source = Source::register("returned", |_| {});
    let session = Source::record("returned");
    let mut writer = [0usize; 5];
    let place = writer.as_mut_ptr();
    for left in [
        0,
        usize::MAX,
        place as usize,
        (place as usize).rotate_left(17) ^ 0x7ace_5eed_f057_1e55,
    ] {
        source.trace(|tracer| {
            writer.fill(left);
            // SAFETY: as programs of that version call it.
            unsafe {
                let begun = PerfettoDsTracerImplPacketBegin(place.cast(), tracer.tracer);
                assert_eq!(begun, place.cast(), "{left:x}");
                let body = text("returned");
                PerfettoStreamWriterAppendBytesSlowpath(place.cast(), body.as_ptr(), body.len());
                PerfettoDsTracerImplPacketEnd(tracer.tracer, place.cast());
            }
        });
    }
    assert_eq!(texts(&session.stop_and_read()), ["returned"; 4]);
}
