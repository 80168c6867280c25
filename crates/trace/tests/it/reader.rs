//! Reading packets from intact, damaged and malicious files.

use std::io::Write;

use ferretto_trace::{Compression, Limits, ReadError, TraceReader, Truncated};
use ferretto_wire::encode;

fn packet(timestamp: u64) -> Vec<u8> {
    encode(|packet| packet.varint(8, timestamp))
}

fn trace(packets: &[Vec<u8>]) -> Vec<u8> {
    encode(|trace| packets.iter().for_each(|packet| trace.bytes(1, packet)))
}

fn compressed(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&trace(packets)).unwrap();
    let stream = encoder.finish().unwrap();
    encode(|packet| {
        packet.bytes(50, &stream);
        packet.varint(10, 1);
    })
}

/// Reads until the end; recoverable errors are skipped and counted.
fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, u32, Option<ReadError>, Option<Truncated>) {
    let mut reader = TraceReader::new(bytes);
    let (mut packets, mut skipped) = (Vec::new(), 0);
    loop {
        match reader.next_packet() {
            Ok(Some(packet)) => packets.push(packet.bytes.to_vec()),
            Ok(None) => return (packets, skipped, None, reader.truncated()),
            Err(error) if error.is_recoverable() => skipped += 1,
            Err(error) => {
                assert!(
                    reader.next_packet().unwrap().is_none(),
                    "an error ends the trace"
                );
                return (packets, skipped, Some(error), reader.truncated());
            }
        }
    }
}

#[test]
fn packets_come_in_order_and_other_fields_of_the_trace_are_skipped() {
    let file = encode(|trace| {
        trace.bytes(1, &packet(1));
        trace.varint(7, 5);
        trace.bytes(9, b"something else");
        trace.fixed64(10, 1);
        trace.fixed32(11, 1);
        trace.bytes(1, &packet(2));
        trace.bytes(1, b"");
    });
    let (packets, _, error, truncated) = read(&file);
    assert_eq!(packets, [packet(1), packet(2), Vec::new()]);
    assert!(error.is_none() && truncated.is_none());
}

#[test]
fn offsets_are_where_the_records_begin() {
    let file = trace(&[packet(1), packet(2)]);
    let mut reader = TraceReader::new(&file[..]);
    assert_eq!(reader.next_packet().unwrap().unwrap().offset, 0);
    let second = reader.next_packet().unwrap().unwrap();
    assert_eq!(file[second.offset as usize], 0x0a);
    assert_eq!(second.bytes, packet(2));
    assert!(reader.next_packet().unwrap().is_none());
    assert_eq!(reader.bytes_read(), file.len() as u64);
}

#[test]
fn an_empty_file_is_a_trace_without_packets() {
    let (packets, _, error, truncated) = read(b"");
    assert!(packets.is_empty() && error.is_none() && truncated.is_none());
}

#[test]
fn a_truncated_file_contains_all_complete_packets() {
    let packets = [
        packet(1),
        packet(u64::MAX),
        encode(|p| p.bytes(900, &[7; 300])),
    ];
    let file = trace(&packets);
    let mut ends = Vec::new();
    let mut end = 0;
    for packet in &packets {
        end += trace(std::slice::from_ref(packet)).len();
        ends.push(end);
    }
    for cut in 0..file.len() {
        let (got, _, error, truncated) = read(&file[..cut]);
        let whole = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(got, packets[..whole], "cut at {cut}");
        assert!(error.is_none(), "cut at {cut}: {error:?}");
        let begin = if whole == 0 { 0 } else { ends[whole - 1] };
        let expected = (cut != begin).then_some(Truncated {
            offset: begin as u64,
        });
        assert_eq!(truncated, expected, "cut at {cut}");
    }
}

#[test]
fn compressed_packets_are_decompressed_in_order() {
    let file = trace(&[packet(1), compressed(&[packet(2), packet(3)]), packet(4)]);
    let (packets, skipped, error, _) = read(&file);
    assert_eq!(packets, [packet(1), packet(2), packet(3), packet(4)]);
    assert!(skipped == 0 && error.is_none());
}

#[test]
fn a_damaged_compressed_packet_loses_only_its_own_packets() {
    let mut bad = compressed(&[packet(2), packet(3)]);
    let middle = bad.len() / 2;
    bad[middle] ^= 0xff;
    let file = trace(&[packet(1), bad, packet(4)]);
    let (packets, skipped, error, _) = read(&file);
    assert_eq!(packets.first(), Some(&packet(1)));
    assert_eq!(packets.last(), Some(&packet(4)));
    assert!(skipped == 1 && error.is_none());
}

#[test]
fn nested_compression_is_rejected() {
    let file = trace(&[compressed(&[compressed(&[packet(1)])]), packet(2)]);
    let (packets, skipped, error, _) = read(&file);
    assert_eq!(packets, [packet(2)]);
    assert!(skipped == 1 && error.is_none());
}

/// Returns a packet with the records of `packets` as one Zstandard frame.
fn zstd_compressed(packets: &[Vec<u8>]) -> Vec<u8> {
    use structured_zstd::encoding::{CompressionLevel, compress_to_vec};
    let stream = compress_to_vec(&trace(packets)[..], CompressionLevel::Fastest);
    encode(|packet| packet.bytes(133, &stream))
}

#[test]
fn zstd_is_decompressed_like_deflate() {
    let long = encode(|p| p.bytes(900, &vec![7; 300_000]));
    let inner = [packet(2), long, packet(3)];
    let file = trace(&[packet(1), zstd_compressed(&inner), packet(4)]);
    let (packets, skipped, error, _) = read(&file);
    assert_eq!(
        packets,
        [
            packet(1),
            inner[0].clone(),
            inner[1].clone(),
            inner[2].clone(),
            packet(4)
        ]
    );
    assert!(skipped == 0 && error.is_none());
}

#[test]
fn a_damaged_zstd_packet_loses_only_its_own_packets() {
    let not_zstd = encode(|p| p.bytes(133, b"not a frame"));
    let (packets, skipped, _, _) = read(&trace(&[not_zstd, packet(2)]));
    assert_eq!((packets, skipped), (vec![packet(2)], 1));
    let good = zstd_compressed(&[
        packet(5),
        encode(|p| p.bytes(900, b"some words, some words")),
    ]);
    for at in 0..good.len() {
        for flip in [0x01, 0x10, 0xff] {
            let mut bad = good.clone();
            bad[at] ^= flip;
            read(&trace(&[bad, packet(2)]));
        }
    }
}

#[test]
fn files_that_are_not_traces_are_reported_with_a_hint() {
    for (bytes, hint) in [
        (&b"{\"traceEvents\":[]}"[..], "JSON"),
        (b"PK\x03\x04rest", "zip"),
        (b"hello, world, this is text", "not a Perfetto trace"),
        (b"\x7fELF\x02\x01\x01", "not a Perfetto trace"),
    ] {
        let (packets, _, error, _) = read(bytes);
        assert!(packets.is_empty());
        let error = error.expect("an error");
        assert!(matches!(error, ReadError::NotATrace(_)), "{error:?}");
        assert!(error.to_string().contains(hint), "{error}");
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    use structured_zstd::encoding::{CompressionLevel, compress_to_vec};
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

#[test]
fn compressed_files_are_read() {
    let packets = [packet(1), packet(2), packet(3)];
    let (one, two) = (trace(&packets[..2]), trace(&packets[2..]));
    let skipped = [b"\x50\x2a\x4d\x18\x02\x00\x00\x00hm", &zstd(&one)[..]].concat();
    for (file, compression) in [
        (
            gzip(&[one.clone(), two.clone()].concat()),
            Compression::Gzip,
        ),
        ([gzip(&one), gzip(&two)].concat(), Compression::Gzip),
        (
            zstd(&[one.clone(), two.clone()].concat()),
            Compression::Zstd,
        ),
        ([skipped, zstd(&two)].concat(), Compression::Zstd),
    ] {
        let (got, skipped, error, truncated) = read(&file);
        assert_eq!(got, packets);
        assert!(skipped == 0 && error.is_none() && truncated.is_none());
        let mut reader = TraceReader::new(&file[..]);
        while reader.next_packet().unwrap().is_some() {}
        assert_eq!(reader.compression(), Some((compression, file.len() as u64)));
        assert_eq!(reader.bytes_read(), (one.len() + two.len()) as u64);
    }
}

#[test]
fn truncated_or_damaged_compressed_files_contain_the_packets_before() {
    let noise = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let packets: Vec<Vec<u8>> = (0..400).map(|n| packet(noise(n))).collect();
    for file in [gzip(&trace(&packets)), zstd(&trace(&packets))] {
        for cut in (0..file.len()).step_by(7) {
            let (got, _, error, truncated) = read(&file[..cut]);
            assert_eq!(got[..], packets[..got.len()], "cut at {cut}");
            let is_reported = truncated.is_some() || error.is_some() || cut == 0;
            assert!(is_reported || got.len() == packets.len(), "cut at {cut}");
        }
        for at in (0..file.len()).step_by(5) {
            let mut file = file.clone();
            file[at] ^= 0x55;
            read(&file);
        }
    }
}

#[test]
fn packets_beyond_the_limit_are_skipped() {
    let limits = Limits::memory(Limits::MIN_MEMORY);
    let large = encode(|p| p.bytes(900, &vec![7; limits.packet_bytes() as usize]));
    let bomb = compressed(&[packet(2), large.clone(), packet(3)]);
    let file = trace(&[packet(1), large, bomb, packet(4)]);
    let mut reader = TraceReader::with_limits(&file[..], limits);
    let mut got = Vec::new();
    let damage = reader
        .read_all(|packet| got.push(packet.bytes.to_vec()))
        .unwrap();
    assert_eq!(got, [packet(1), packet(2), packet(3), packet(4)]);
    assert!(damage.is_limit() && damage.end().is_none());
    let offset = trace(&[packet(1)]).len();
    assert_eq!(
        damage.sentences(),
        [format!(
            "2 packets are too large for the memory limit, the first at byte {offset}; they are skipped"
        )]
    );
    // A higher limit allows all packets.
    let (got, skipped, ..) = read(&file);
    assert_eq!((got.len(), skipped), (6, 0));
}

#[test]
fn a_window_beyond_the_limit_is_rejected_before_decompression() {
    // A frame header with a window of 32 MiB, without content.
    let frame = b"\x28\xb5\x2f\xfd\x00\x78";
    let file = trace(&[encode(|p| p.bytes(133, frame)), packet(2)]);
    let mut reader = TraceReader::new(&file[..]);
    let error = reader.next_packet().unwrap_err();
    let is_window = matches!(error, ReadError::WindowTooLarge { bytes, .. } if bytes == 32 << 20);
    assert!(
        is_window && error.is_recoverable() && error.is_limit(),
        "{error}"
    );
    assert_eq!(reader.next_packet().unwrap().unwrap().bytes, packet(2));
    let error = TraceReader::new(&frame[..]).next_packet().unwrap_err();
    let is_file = matches!(error, ReadError::WindowTooLarge { is_file: true, .. });
    assert!(is_file && !error.is_recoverable(), "{error}");
}

#[test]
fn damage_after_packets_is_reported_with_its_offset() {
    let mut file = trace(&[packet(1)]);
    let offset = file.len() as u64;
    file.extend([0x0b, 0xff]);
    let (packets, _, error, _) = read(&file);
    assert_eq!(packets, [packet(1)]);
    assert!(
        matches!(error, Some(ReadError::Damaged { offset: o }) if o == offset),
        "{error:?}"
    );
}

#[test]
fn a_claimed_length_allocates_no_memory() {
    // Claims 511 MiB, but has three bytes.
    let mut file = trace(&[packet(1)]);
    file.extend([0x0a, 0x80, 0x80, 0x80, 0xff, 0x01, 1, 2, 3]);
    let (packets, _, error, truncated) = read(&file);
    assert_eq!(packets, [packet(1)]);
    assert!(error.is_none());
    assert!(truncated.is_some());
    // A length beyond the limit is damage.
    let mut file = trace(&[packet(1)]);
    file.extend([
        0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
    ]);
    assert!(matches!(read(&file).2, Some(ReadError::Damaged { .. })));
}

#[test]
fn no_changed_byte_causes_a_panic() {
    let file = trace(&[packet(1), compressed(&[packet(2), packet(3)]), packet(4)]);
    for at in 0..file.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut file = file.clone();
            file[at] ^= flip;
            read(&file);
        }
    }
}
