//! Decoding of messages.

use ferretto_c::*;
use ferretto_wire::encode;

const OK: u32 = 0;
const DONE: u32 = 1;
const ERROR: u32 = 2;

fn decoder(bytes: &[u8]) -> PerfettoPbDecoder {
    let range = bytes.as_ptr_range();
    PerfettoPbDecoder {
        read_ptr: range.start,
        end_ptr: range.end,
    }
}

fn parse(decoder: &mut PerfettoPbDecoder) -> PerfettoPbDecoderField {
    // SAFETY: by the contract of the headers.
    unsafe { PerfettoPbDecoderParseField(decoder) }
}

#[test]
fn fields_of_all_types_are_decoded() {
    ferretto_testing::own_process!();
    let message = encode(|m| {
        m.varint(1, u64::MAX);
        m.fixed64(2, 0x0102_0304_0506_0708);
        m.string(3, "text");
        m.fixed32(4, 0x0a0b_0c0d);
        m.double(5, 0.5);
        m.float(6, 0.25);
        m.varint((1 << 29) - 1, 0);
    });
    let mut decoder = decoder(&message);
    let mut next = || parse(&mut decoder);
    // SAFETY: each member is read according to the wire type.
    unsafe {
        let field = next();
        assert_eq!((field.status, field.wire_type, field.id), (OK, 0, 1));
        assert_eq!(field.value.integer64, u64::MAX);
        let field = next();
        assert_eq!(
            (field.wire_type, field.id, field.value.integer64),
            (1, 2, 0x0102_0304_0506_0708)
        );
        let field = next();
        let text = field.value.delimited;
        let text = std::slice::from_raw_parts(text.start, text.len);
        assert_eq!(
            (field.wire_type, field.id, text),
            (2, 3, b"text".as_slice())
        );
        let field = next();
        assert_eq!(
            (field.wire_type, field.id, field.value.integer32),
            (5, 4, 0x0a0b_0c0d)
        );
        assert_eq!(next().value.double_val.to_bits(), 0.5f64.to_bits());
        assert_eq!(next().value.float_val.to_bits(), 0.25f32.to_bits());
        assert_eq!(next().id, (1 << 29) - 1);
    }
    assert_eq!(next().status, DONE);
    assert_eq!(next().status, DONE);
}

#[test]
fn sdk_041_malformed_fields_are_not_consumed() {
    ferretto_testing::own_process!();
    let cases: &[&[u8]] = &[
        // An unterminated tag.
        &[0x80],
        &[0xff, 0xff, 0xff],
        // Varints of eleven bytes, as tag and as value.
        &[
            0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01,
        ],
        &[
            0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01,
        ],
        // Missing and truncated values.
        &[0x08],
        &[0x09, 1, 2, 3, 4, 5, 6, 7],
        &[0x0d, 1, 2, 3],
        // Lengths beyond the end, and huge ones.
        &[0x0a, 2, 1],
        &[
            0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
        ],
        // Groups and invalid wire types.
        &[0x0b, 0x08, 0x01, 0x0c],
        &[0x0c],
        &[0x0e],
        &[0x0f],
        // A field number of more than 32 bits.
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0x01, 0x00],
    ];
    for case in cases {
        let mut decoder = decoder(case);
        assert_eq!(parse(&mut decoder).status, ERROR, "{case:x?}");
        // SAFETY: by the contract of the headers.
        let status = unsafe { PerfettoPbDecoderSkipField(&raw mut decoder) };
        assert_eq!(status, ERROR);
        assert_eq!(decoder.read_ptr, case.as_ptr(), "{case:x?}");
    }
}

#[test]
fn sdk_041_a_field_with_number_zero_is_returned() {
    ferretto_testing::own_process!();
    let bytes = [0x00, 0x05, 0x08, 0x06];
    let mut decoder = decoder(&bytes);
    let field = parse(&mut decoder);
    // SAFETY: a varint.
    let value = unsafe { field.value.integer64 };
    assert_eq!((field.status, field.id, value), (OK, 0, 5));
    // SAFETY: by the contract of the headers.
    unsafe {
        assert_eq!(PerfettoPbDecoderSkipField(&raw mut decoder), OK);
        assert_eq!(PerfettoPbDecoderSkipField(&raw mut decoder), DONE);
    }
    // A position after the end counts as the end.
    let mut past = PerfettoPbDecoder {
        read_ptr: bytes.as_ptr().wrapping_add(1),
        end_ptr: bytes.as_ptr(),
    };
    assert_eq!(parse(&mut past).status, DONE);
}

#[test]
fn thread_ids_and_times_match_the_kernel() {
    ferretto_testing::own_process!();
    let read = |path: &str| std::fs::read_link(path).unwrap();
    let thread = read("/proc/thread-self");
    let number = thread
        .file_name()
        .unwrap()
        .to_string_lossy()
        .parse::<i32>()
        .unwrap();
    assert_eq!(PerfettoGetThreadIdImpl(), number);
    assert_eq!(PerfettoDsGetDefaultClockId(), 6);
    let (first, second) = (PerfettoDsGetTimestamp(), PerfettoTeGetTimestamp());
    assert_eq!((first.clock_id, second.clock_id), (6, 6));
    assert!(first.value != 0 && first.value <= second.value);
}
