//! Packets that programs write by address, with little shared memory.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::common::{Session, Source, Tracer, config, init_with, text, texts};
use ferretto_c::*;
use ferretto_wire::{Fields, encode, redundant_length};

/// A message, written like the inline code of the headers: to a memory range, with requests for
/// further ranges.
struct Message {
    writer: *mut PerfettoStreamWriter,
    /// The address for the length of every open message, and its current length.
    open: Vec<(*mut u8, usize)>,
}

impl Message {
    fn free(&self) -> usize {
        // SAFETY: the writer is valid as long as the packet.
        unsafe { (*self.writer).end as usize - (*self.writer).write_ptr as usize }
    }

    fn announce(&mut self) {
        // SAFETY: by the contract of the headers.
        unsafe {
            let range = (*self.writer).begin..(*self.writer).end;
            for (field, _) in self
                .open
                .iter_mut()
                .rev()
                .take_while(|(p, _)| range.contains(p))
            {
                *field = PerfettoStreamWriterAnnotatePatch(self.writer, *field);
            }
        }
    }

    fn append(&mut self, bytes: &[u8]) {
        self.open.iter_mut().for_each(|open| open.1 += bytes.len());
        // SAFETY: by the contract of the headers.
        unsafe {
            if bytes.len() <= self.free() {
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
        // Field numbers up to 15 have tags of one byte.
        self.append(&[field << 3 | 2]);
        self.open.iter_mut().for_each(|open| open.1 += 4);
        // SAFETY: by the contract of the headers.
        unsafe {
            if self.free() < 4 {
                self.announce();
                PerfettoPbMsgWriterReserveBytesSlowpath(self.writer, 4);
            } else {
                (*self.writer).write_ptr = (*self.writer).write_ptr.add(4);
            }
            self.open.push(((*self.writer).write_ptr.sub(4), 0));
        }
        write(self);
        let (field, length) = self.open.pop().unwrap();
        if !field.is_null() {
            let length = redundant_length(length as u32);
            // SAFETY: by the contract of the headers.
            unsafe { field.copy_from(length.as_ptr(), 4) };
        }
    }
}

/// Writes a packet with a number of parts, nested in two messages, followed by a text.
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

/// Serializes the tests, which share 64 KiB of memory: some of them leave no space for others.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    init_with(64);
    turn
}

#[test]
fn sdk_036_packets_larger_than_the_memory_are_complete_if_the_writer_waits() {
    ferretto_testing::own_process!();
    let _turn = one_at_a_time();
    let source = Source::register("waits", |ds| {
        // SAFETY: by the contract of the headers.
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
fn sdk_021_and_036_a_writer_that_does_not_wait_drops_packets_and_reports_it() {
    ferretto_testing::own_process!();
    let _turn = one_at_a_time();
    let source = Source::register("drops", |_| {});
    let session = Source::record("drops");
    source.trace(|tracer| {
        tracer.write(&text("before"));
        // Probably more than the service can read meanwhile: packets are complete or dropped.
        let mut attempts = 0;
        while tracer.drop_count() == 0 {
            write_deep(tracer, 2000, &[attempts; 120]);
            attempts += 1;
        }
        assert_eq!(tracer.drop_count(), 1);
    });
    // The flush makes the service read the packets, and the next packet reports a loss. SAFETY: by
    // the contract of the headers.
    assert!(unsafe { PerfettoTracingSessionFlushBlocking(session.0, 10_000) });
    let mut packets = Vec::new();
    while !texts(&packets).iter().any(|text| text == "after") {
        source.trace(|tracer| tracer.write(&text("after")));
        // SAFETY: by the contract of the headers.
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
fn a_config_can_set_the_policy_only_if_the_data_source_allows_it() {
    ferretto_testing::own_process!();
    let _turn = one_at_a_time();
    // 3: wait, then drop.
    let config = |name| config(name, |m| m.varint(9, 3));
    let allows = Source::register("allows", |ds| {
        // SAFETY: by the contract of the headers.
        assert!(unsafe { PerfettoDsSetBufferExhaustedPolicyConfigurable(ds, true) });
    });
    let session = Session::start(&config("allows"));
    allows.trace(|tracer| {
        for _ in 0..20 {
            write_deep(tracer, 2000, &[7; 120]);
        }
        assert_eq!(tracer.drop_count(), 0);
    });
    assert_eq!(texts(&session.stop_and_read()).len(), 20);
    let does_not = Source::register("does not allow", |_| {});
    let _session = Session::start(&config("does not allow"));
    does_not.trace(|tracer| {
        while tracer.drop_count() == 0 {
            write_deep(tracer, 2000, &[7; 120]);
        }
    });
}

#[test]
fn sdk_020_packets_of_an_ended_session_are_dropped() {
    ferretto_testing::own_process!();
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
fn heap_buffers_support_messages_of_any_size() {
    ferretto_testing::own_process!();
    // SAFETY: by the contract of the headers, the functions up to version 58 with more memory than
    // needed.
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

/// Up to version 58, the function returned a writer in uninitialized memory of the caller.
#[cfg(target_arch = "x86_64")]
#[test]
fn sdk_035_the_memory_of_a_returned_writer_may_be_uninitialized() {
    ferretto_testing::own_process!();
    let _turn = one_at_a_time();
    let source = Source::register("returned", |_| {});
    let session = Source::record("returned");
    let mut writer = [0usize; 5];
    let address = writer.as_mut_ptr();
    for left in [
        0,
        usize::MAX,
        address as usize,
        (address as usize).rotate_left(17) ^ 0x7ace_5eed_f057_1e55,
    ] {
        source.trace(|tracer| {
            writer.fill(left);
            // SAFETY: called like by programs of that version.
            unsafe {
                let begun = PerfettoDsTracerImplPacketBegin(address.cast(), tracer.tracer);
                assert_eq!(begun, address.cast(), "{left:x}");
                let body = text("returned");
                PerfettoStreamWriterAppendBytesSlowpath(address.cast(), body.as_ptr(), body.len());
                PerfettoDsTracerImplPacketEnd(tracer.tracer, address.cast());
            }
        });
    }
    assert_eq!(texts(&session.stop_and_read()), ["returned"; 4]);
}
