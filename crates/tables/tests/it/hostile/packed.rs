//! Small files that unpack into large ones.

use std::io::Write as _;

use ferretto_tables::ImportError;
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use crate::common::encode;
use crate::hostile::confined::{confined, peak, read, tables};

/// The size that each of these files claims to have, and the limit of memory for its import.
const UNPACKED: usize = 128 << 20;
const MEMORY: usize = 96 << 20;
const BLOCK: usize = 128 << 10;

fn length_delimited(tag: &[u8], content: &[u8]) -> Vec<u8> {
    let mut bytes = tag.to_vec();
    varint(&mut bytes, content.len());
    bytes.extend_from_slice(content);
    bytes
}

fn varint(bytes: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

/// Returns a packet of one block without any known field.
fn empty_packet() -> Vec<u8> {
    // Field 2000 of `TracePacket` is unknown.
    let field = length_delimited(&[0x82, 0x7d], &vec![0; BLOCK - 16]);
    length_delimited(&[0x0a], &field)
}

/// Returns packets in several gzip members, together with the declared size.
fn gzip_of_packets() -> Vec<u8> {
    let packets = 8;
    let member = gzip(&empty_packet().repeat(packets));
    member.repeat(UNPACKED / BLOCK / packets)
}

/// Returns a Zstandard frame of raw blocks and of blocks that repeat one byte.
fn zstd_of_packets() -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd];
    // No content size, a window of 128 KiB.
    frame.extend_from_slice(&[0x00, 7 << 3]);
    let mut field = vec![0x82, 0x7d];
    varint(&mut field, BLOCK);
    let mut head = vec![0x0a];
    varint(&mut head, field.len() + BLOCK);
    head.extend_from_slice(&field);
    let block = |frame: &mut Vec<u8>, size: usize, kind: usize, is_last: bool| {
        let header = size << 3 | kind << 1 | usize::from(is_last);
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
    };
    let count = UNPACKED / BLOCK;
    for index in 0..count {
        block(&mut frame, head.len(), 0, false);
        frame.extend_from_slice(&head);
        block(&mut frame, BLOCK, 1, index + 1 == count);
        frame.push(0);
    }
    frame
}

#[test]
fn query_145_gzip_bombs_take_little_memory() {
    confined("packed::query_145_gzip_bombs_take_little_memory", || {
        let bomb = gzip_of_packets();
        assert!(bomb.len() < 8 << 20);
        let trace = tables(&bomb);
        assert!(trace.remarks().is_empty(), "{:?}", trace.remarks());
        assert!(peak() < MEMORY, "{}", peak());
    });
}

#[test]
fn query_145_zstd_bombs_take_little_memory() {
    confined("packed::query_145_zstd_bombs_take_little_memory", || {
        let bomb = zstd_of_packets();
        assert!(bomb.len() < 1 << 20);
        let trace = tables(&bomb);
        assert!(trace.remarks().is_empty(), "{:?}", trace.remarks());
        assert!(peak() < MEMORY, "{}", peak());
    });
}

#[test]
fn query_145_nested_compressed_packets_are_bounded() {
    let test = || {
        let mut packets = encode("packet { timestamp: 1 }");
        for _ in 0..12 {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(&packets).expect("memory takes it");
            let packed = encoder.finish().expect("memory takes it");
            // `compressed_packets`
            let field = length_delimited(&[0x92, 0x03], &packed);
            packets = encode("packet { timestamp: 1 }");
            packets.extend(length_delimited(&[0x0a], &field));
        }
        tables(&packets);
        // A large file in one packet.
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        let block = vec![0x0a; 1 << 20];
        for _ in 0..UNPACKED >> 20 {
            encoder.write_all(&block).expect("memory takes it");
        }
        let packed = encoder.finish().expect("memory takes it");
        let field = length_delimited(&[0x92, 0x03], &packed);
        let mut bomb = encode("packet { timestamp: 1 }");
        bomb.extend(length_delimited(&[0x0a], &field));
        tables(&bomb);
        assert!(peak() < MEMORY, "{}", peak());
    };
    confined(
        "packed::query_145_nested_compressed_packets_are_bounded",
        test,
    );
}

#[test]
fn query_145_nested_compressed_files_are_bounded() {
    let test = || {
        let mut file = encode("packet { timestamp: 1 }");
        for _ in 0..12 {
            file = gzip(&file);
        }
        let error = read(&file).expect_err("too deep").to_string();
        assert!(error.contains("archives are nested too deeply"), "{error}");
    };
    confined(
        "packed::query_145_nested_compressed_files_are_bounded",
        test,
    );
}

/// The header of a member of `tar` with this size.
fn tar_header(size: usize) -> Vec<u8> {
    let mut header = vec![0; 512];
    header[..5].copy_from_slice(b"trace");
    header[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    header[148..156].fill(b' ');
    header[257..263].copy_from_slice(b"ustar\0");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    header
}

#[test]
fn query_145_archives_take_bounded_memory() {
    let test = || {
        let mut bomb = gzip(&tar_header(UNPACKED));
        bomb.extend(gzip(&vec![0; 1 << 20]).repeat(UNPACKED >> 20));
        let error = read(&bomb).expect_err("too large").to_string();
        assert!(error.contains("the archive has more than"), "{error}");
        assert!(peak() < MEMORY, "{}", peak());
        // A wrong size.
        let error = read(&tar_header(1 << 20)).expect_err("cut off");
        assert!(matches!(error, ImportError::Parse { .. }), "{error}");
    };
    confined("packed::query_145_archives_take_bounded_memory", test);
}

#[test]
fn query_145_zip_members_are_decompressed_in_parts() {
    let test = || {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        let packet = empty_packet();
        for _ in 0..UNPACKED / BLOCK {
            encoder.write_all(&packet).expect("memory takes it");
        }
        let deflated = encoder.finish().expect("memory takes it");
        let mut zip = b"PK\x03\x04\x14\0\0\0\x08\0\0\0\0\0".to_vec();
        zip.extend([0; 4]);
        zip.extend((deflated.len() as u32).to_le_bytes());
        zip.extend([0xff; 4]);
        zip.extend(1_u16.to_le_bytes());
        zip.extend([0; 2]);
        zip.push(b't');
        zip.extend(&deflated);
        let trace = tables(&zip);
        assert!(trace.remarks().is_empty(), "{:?}", trace.remarks());
        assert!(peak() < MEMORY, "{}", peak());
    };
    confined(
        "packed::query_145_zip_members_are_decompressed_in_parts",
        test,
    );
}

#[test]
fn query_145_compressed_profiles_take_bounded_memory() {
    let test = || {
        // A profile is decoded only when it is complete: one large text in its table of texts.
        let mut head = vec![0x32, 0, 0x32];
        varint(&mut head, UNPACKED);
        let mut bomb = gzip(&head);
        bomb.extend(gzip(&vec![b'x'; 1 << 20]).repeat(UNPACKED >> 20));
        let error = read(&bomb).expect_err("too large").to_string();
        assert!(error.contains("the profile has more than"), "{error}");
    };
    confined(
        "packed::query_145_compressed_profiles_take_bounded_memory",
        test,
    );
}
