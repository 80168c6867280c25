//! Trace buffers, and packets on their way out of them.

use ferretto_service::buffer::{
    BufferOptions, Chunk, Identity, Patch, Policy, Semantics, TraceBuffer, VmSetup,
};
use ferretto_service::packet::{SequenceIds, validate};

use crate::input::Input;

const SIZE: u64 = 8192;

/// Any chunks of any writers, patched, scraped, read and cloned in between.
pub fn commits(data: &[u8]) {
    let mut input = Input(data);
    let choice = input.u8();
    let mut buffer = TraceBuffer::new(BufferOptions {
        size: SIZE,
        policy: if choice & 1 == 0 {
            Policy::Ring
        } else {
            Policy::Discard
        },
        semantics: if choice & 2 == 0 {
            Semantics::V2
        } else {
            Semantics::V1
        },
    })
    .expect("8 KiB");
    if choice & 4 != 0 {
        set_up_vm(&mut buffer);
    }
    let mut payload = Vec::new();
    while !input.is_empty() {
        match input.u8() % 16 {
            0 => while take(&mut buffer) {},
            1..=3 => drop(take(&mut buffer)),
            4 | 5 => patch(&mut buffer, &mut input),
            6 => same_as_clone(&mut buffer),
            7 => turn_over(&mut buffer, &mut input),
            _ => copy(&mut buffer, &mut input, &mut payload),
        }
        check(&buffer);
    }
    while take(&mut buffer) {}
    check(&buffer);
}

/// Has what is overwritten merged into a state.
fn set_up_vm(buffer: &mut TraceBuffer) {
    // One instruction: merge.
    let setup = VmSetup {
        source: b"any",
        program: &[0x12, 2, 0x1a, 0],
        memory_limit_kb: 4,
        producer: 1,
        identity: Identity::default(),
    };
    let ok = buffer.options().semantics == Semantics::V2;
    assert_eq!(buffer.set_up_vm(&setup).is_ok(), ok);
}

/// A few chunks that wait for patches, then patches of any kind.
pub fn patches(data: &[u8]) {
    let mut input = Input(data);
    let mut buffer = TraceBuffer::new(BufferOptions::ring(SIZE)).expect("8 KiB");
    for id in 0..4 {
        let flags = input.u8();
        let len = usize::from(input.u8());
        let payload = input.bytes(len);
        let fragments = u16::from(flags >> 3);
        buffer.copy_chunk(&chunk(1, id, fragments, flags, true, payload));
    }
    while !input.is_empty() {
        patch(&mut buffer, &mut input);
        if input.u8() & 3 == 0 {
            while take(&mut buffer) {}
        }
        check(&buffer);
    }
    while take(&mut buffer) {}
    check(&buffer);
}

/// Any bytes as a packet, cut into slices anywhere: the verdict must be the same, and what passes
/// must hold no field of the service.
pub fn packets(data: &[u8]) {
    let mut input = Input(data);
    let cut = usize::from(input.u8());
    let bytes = input.0;
    let whole = validate([bytes]);
    let (head, tail) = bytes.split_at(cut.min(bytes.len()));
    assert_eq!(validate([head, tail]), whole);
    assert_eq!(validate(bytes.chunks(cut.max(1))), whole);
    if whole.is_ok() {
        for field in ferretto_wire::Fields::new(bytes).map_while(Result::ok) {
            assert!(
                !ferretto_service::packet::RESERVED_FIELDS.contains(&field.number),
                "field {} passed",
                field.number
            );
        }
    }
}

fn chunk(
    writer: u16,
    id: u32,
    fragments: u16,
    flags: u8,
    complete: bool,
    payload: &[u8],
) -> Chunk<'_> {
    Chunk {
        producer: 1,
        identity: Identity::default(),
        writer,
        id,
        fragments,
        flags,
        complete,
        payload,
    }
}

fn copy(buffer: &mut TraceBuffer, input: &mut Input<'_>, payload: &mut Vec<u8>) {
    let writer = u16::from(input.u8() % 4);
    let id = match input.u8() {
        255 => input.u32(),
        near => u32::from(near % 32).wrapping_sub(8),
    };
    let flags = input.u8();
    let fragments = u16::from(input.u8() % 8);
    let len = match input.u8() {
        255 => usize::from(input.u16()),
        short => usize::from(short),
    };
    payload.clear();
    if flags & 0x40 != 0 {
        // Well-formed, whatever the input.
        for index in 0..fragments {
            let len = len % 120;
            payload.push(len as u8);
            payload.resize(payload.len() + len, index as u8);
        }
    } else {
        payload.extend_from_slice(input.bytes(len));
        payload.resize(len, 0);
    }
    let complete = flags & 0x30 != 0;
    buffer.copy_chunk(&chunk(writer, id, fragments, flags, complete, payload));
}

fn patch(buffer: &mut TraceBuffer, input: &mut Input<'_>) {
    let writer = u16::from(input.u8() % 4);
    let id = u32::from(input.u8() % 32).wrapping_sub(8);
    let choice = input.u8();
    let patches: Vec<Patch> = (0..choice % 4)
        .map(|_| Patch {
            offset: match input.u16() {
                0xffff => input.u32(),
                near => u32::from(near % 300),
            },
            data: input.array(),
        })
        .collect();
    buffer.try_patch(1, writer, id, &patches, choice & 0x80 != 0);
}

/// A writer's number, or the producer's, passes on to another.
fn turn_over(buffer: &mut TraceBuffer, input: &mut Input<'_>) {
    let writer = u16::from(input.u8() % 4);
    match input.u8() % 4 {
        0 => buffer.writer_ended(1, writer),
        1 => buffer.writer_began(1, writer),
        2 => buffer.producer_gone(1),
        _ => {
            buffer.writer_ended(1, writer);
            buffer.writer_began(1, writer);
        }
    }
}

/// Reads one packet, and looks at all of it.
fn take(buffer: &mut TraceBuffer) -> bool {
    let Some(packet) = buffer.read_next() else {
        return false;
    };
    assert_eq!(packet.producer, 1);
    assert_eq!(packet.to_vec().len(), packet.len());
    assert!(packet.len() > 0 && packet.len() < SIZE as usize);
    let _ = validate(packet.fragments());
    let trusted = SequenceIds::default().trusted(&packet).encode();
    assert!(validate([trusted.as_bytes()]).is_err());
    true
}

fn same_as_clone(buffer: &mut TraceBuffer) {
    let mut clone = buffer.try_clone().expect("8 KiB");
    while let Some(packet) = buffer.read_next() {
        let other = clone.read_next().expect("the clone has it too");
        assert_eq!(packet.to_vec(), other.to_vec());
        assert_eq!(packet.loss, other.loss);
    }
    assert!(clone.read_next().is_none());
}

fn check(buffer: &TraceBuffer) {
    assert!(buffer.used_size() <= SIZE);
    assert!(buffer.sequences() <= 4);
    let stats = buffer.stats();
    let kept = stats.chunks_written + stats.chunks_rewritten;
    assert!(stats.chunks_read + stats.chunks_overwritten <= kept);
}
