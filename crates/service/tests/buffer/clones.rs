//! Clones and replacements.

use ferretto_service::buffer::{Loss, TraceBuffer};

use crate::support::*;

#[test]
fn tracebuf_036_a_clone_goes_on_where_the_source_is() {
    let mut buffer = ring(4096);
    for id in 0..7 {
        chunk(1, 1, id).packet(600, id as u8).copy_to(&mut buffer);
    }
    chunk(1, 2, 0)
        .packet(20, 50)
        .flags(LAST)
        .copy_to(&mut buffer);
    read_one(&mut buffer);
    read_one(&mut buffer);
    let mut clone = buffer.try_clone().expect("memory");
    chunk(1, 1, 7).packet(20, 7).copy_to(&mut clone);
    assert!(!clone.try_patch(1, 2, 0, &[patch(4, [0; 4])], false));
    let from_clone = read_all(&mut clone);
    assert!(!from_clone.is_empty());
    assert_eq!(from_clone, read_all(&mut buffer));
}

#[test]
fn tracebuf_037_a_clone_has_not_read_anything() {
    let mut buffer = ring(4096);
    for id in 0..10 {
        chunk(1, 1, id)
            .packet(600, 1)
            .packet(20, 2)
            .flags(FIRST | LAST)
            .copy_to(&mut buffer);
    }
    while read_one(&mut buffer).is_some() {}
    let before = buffer.stats();
    assert!(before.chunks_read > 0 && before.readaheads_succeeded > 0);
    let copy = buffer.try_clone().expect("memory");
    let histograms = |of: &TraceBuffer| of.writer_stats().map(|w| w.counts).collect::<Vec<_>>();
    assert_eq!(histograms(&copy).len(), 1);
    assert_eq!(histograms(&copy), histograms(&buffer));
    let clone = copy.stats();
    assert_eq!(clone.chunks_read, 0);
    assert_eq!(clone.bytes_read, 0);
    assert_eq!(clone.readaheads_succeeded, 0);
    assert_eq!(clone.readaheads_failed, 0);
    assert_eq!(clone.chunks_written, before.chunks_written);
    assert_eq!(clone.bytes_overwritten, before.bytes_overwritten);
}

#[test]
fn tracebuf_038_a_buffer_can_be_replaced_by_an_empty_one() {
    let mut buffer = discard(4096);
    for id in 0..10 {
        chunk(1, 1, id).packet(600, 1).copy_to(&mut buffer);
    }
    let empty = buffer.new_like().expect("memory");
    let mut moved = std::mem::replace(&mut buffer, empty);
    assert!(!buffer.has_data());
    assert_eq!(buffer.options(), moved.options());
    chunk(1, 1, 10).packet(600, 10).copy_to(&mut buffer);
    let lost = (Loss::READ_GAP | Loss::PRESENT).bits();
    assert_eq!(seeds(&mut buffer), [(10, lost)], "what is elsewhere now");
    assert_eq!(read_all(&mut moved).len(), 6);
    // Everything was read, so that no packet is missing.
    let mut buffer = buffer.new_like().expect("memory");
    chunk(1, 1, 11).packet(600, 11).copy_to(&mut buffer);
    assert_eq!(seeds(&mut buffer), [(11, 0)]);
}
