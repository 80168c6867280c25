//! Chunks that are patched after they were stored.

use crate::support::*;

#[test]
fn tracebuf_021_a_chunk_waits_for_its_last_patch() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .bytes(b"aaaa....bbbb")
        .flags(LAST | PATCH)
        .copy_to(&mut buffer);
    chunk(1, 1, 1)
        .bytes(b"cc")
        .flags(FIRST)
        .copy_to(&mut buffer);
    assert!(read_all(&mut buffer).is_empty());
    assert!(buffer.try_patch(1, 1, 0, &[patch(5, *b"1234")], true));
    assert!(read_all(&mut buffer).is_empty());
    assert!(buffer.try_patch(1, 1, 0, &[patch(5, *b"5678")], false));
    let got = read_all(&mut buffer);
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].bytes, b"aaaa5678bbbbcc");
    assert_eq!(buffer.stats().patches_succeeded, 2);
    assert_eq!(buffer.stats().patches_failed, 0);
}

#[test]
fn tracebuf_022_only_the_fragment_to_be_patched_waits() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .packet(20, 1)
        .packet(20, 2)
        .flags(LAST | PATCH)
        .copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(1, 0)]);
    // The end of one packet does not wait for the next, which starts in the same chunk.
    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .packet(20, 1)
        .flags(LAST)
        .copy_to(&mut buffer);
    chunk(1, 1, 1)
        .packet(20, 2)
        .packet(20, 3)
        .flags(FIRST | LAST | PATCH)
        .copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(1, 0)]);
}

#[test]
fn tracebuf_023_patches_at_the_edge() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0).bytes(b"........").copy_to(&mut buffer);
    assert!(!buffer.try_patch(1, 1, 0, &[patch(6, *b"fail")], false));
    assert!(!buffer.try_patch(1, 1, 0, &[patch(u32::MAX, *b"fail")], false));
    assert!(!buffer.try_patch(1, 1, 0, &[patch(u32::MAX - 3, *b"fail")], false));
    assert!(buffer.try_patch(1, 1, 0, &[patch(5, *b"last")], false));
    assert_eq!(buffer.stats().patches_failed, 3);
    assert_eq!(read_all(&mut buffer)[0].bytes, b"....last");
}

#[test]
fn tracebuf_024_patches_for_nothing_fail() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0).packet(20, 1).copy_to(&mut buffer);
    assert!(!buffer.try_patch(1, 1, 1, &[patch(4, [9; 4])], false));
    assert!(!buffer.try_patch(1, 2, 0, &[patch(4, [9; 4])], false));
    assert!(!buffer.try_patch(2, 1, 0, &[patch(4, [9; 4])], false));
    assert_eq!(buffer.stats().patches_failed, 3);
    assert_eq!(read_all(&mut buffer)[0].bytes, body(20, 1));
}

#[test]
fn tracebuf_025_chunks_waiting_for_patches_may_be_overwritten() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .packet(1000, 1)
        .flags(LAST | PATCH)
        .copy_to(&mut buffer);
    chunk(1, 1, 1)
        .packet(1000, 2)
        .packet(1000, 3)
        .flags(FIRST)
        .copy_to(&mut buffer);
    assert!(read_all(&mut buffer).is_empty());
    chunk(2, 1, 0).packet(1000, 9).copy_to(&mut buffer);
    assert_eq!(read_all(&mut buffer).len(), 1);
    // This replaces chunk 0, and so makes the rest of the writer readable.
    chunk(2, 1, 1).packet(900, 10).copy_to(&mut buffer);
    let got = seeds(&mut buffer);
    assert_eq!(got.len(), 2);
    let (seed, loss) = got[0];
    assert_eq!(seed, 3);
    assert_eq!(loss & 65, 65);
    assert_eq!(got[1], (10, 0));
    assert_eq!(buffer.stats().chunks_overwritten, 1);
}

#[test]
fn tracebuf_052_many_patches() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .packet(1000, 1)
        .flags(LAST | PATCH)
        .copy_to(&mut buffer);
    let patches: Vec<_> = (0..1025).map(|_| patch(10, [7; 4])).collect();
    assert!(buffer.try_patch(1, 1, 0, &patches, true));
    assert!(buffer.try_patch(1, 1, 0, &[], false));
    assert_eq!(buffer.stats().patches_succeeded, 1025);
    assert!(!buffer.try_patch(1, 1, 77, &patches, false));
    assert_eq!(buffer.stats().patches_failed, 1);
}

#[test]
fn a_patched_size_is_parsed_again() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .packet(20, 1)
        .packet(20, 2)
        .copy_to(&mut buffer);
    // The first fragment now claims to be longer than the chunk.
    assert!(buffer.try_patch(1, 1, 0, &[patch(0, [0xff, 0x7f, 0, 0])], false));
    chunk(1, 1, 1).packet(20, 3).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(3, 1 | 4)]);
}

#[test]
fn a_patched_size_of_the_last_fragment_is_parsed_again() {
    let mut buffer = ring(4096);
    chunk(1, 1, 0)
        .packet(20, 1)
        .packet(20, 2)
        .copy_to(&mut buffer);
    // First within its bytes, which changes no size, and then the size itself.
    assert!(buffer.try_patch(1, 1, 0, &[patch(21, [2; 4])], true));
    assert!(buffer.try_patch(1, 1, 0, &[patch(20, [0xff, 0x7f, 0, 0])], false));
    chunk(1, 1, 1).packet(20, 3).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(1, 0), (3, 1 | 4)]);
}
