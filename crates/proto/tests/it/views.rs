//! Borrowed views of messages.

use ferretto_proto::fields::ftrace_event_bundle::compact_sched as compact;
use ferretto_proto::fields::track_event_defaults as defaults;
use ferretto_proto::views::ftrace_event_bundle::CompactSchedView;
use ferretto_proto::views::trace_config::buffer_config::fill_policy;
use ferretto_proto::views::trace_config::{BufferConfigView, DataSourceView};
use ferretto_proto::views::{ClockSnapshotView, TraceConfigView, TrackEventDefaultsView};
use ferretto_proto::{Message, trace_config};
use ferretto_wire::{Encoder, encode};
use proptest::prelude::*;

/// Encodes a packed array.
fn packed(numbers: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in numbers {
        let mut one = [0; 10];
        let length = ferretto_wire::encode_varint(*number, &mut one);
        bytes.extend_from_slice(&one[..length]);
    }
    bytes
}

#[test]
fn a_view_has_the_fields_of_the_message() {
    use trace_config::buffer_config::FillPolicy;
    let buffer = |size_kb, fill_policy| trace_config::BufferConfig {
        size_kb: Some(size_kb),
        fill_policy: Some(fill_policy),
        ..Default::default()
    };
    let config = ferretto_proto::TraceConfig {
        buffers: vec![
            buffer(64, FillPolicy::DISCARD),
            buffer(8, FillPolicy::RING_BUFFER),
        ],
        unique_session_name: Some(b"name".to_vec()),
        write_into_file: Some(true),
        data_sources: vec![trace_config::DataSource::default()],
        ..Default::default()
    };
    let bytes = config.encode_to_vec();
    let view = TraceConfigView::read(&bytes);
    assert_eq!(view.unique_session_name, Some(&b"name"[..]));
    assert_eq!(view.write_into_file, Some(true));
    assert_eq!(view.max_file_size_bytes, None);
    let buffers = view.buffers.iter().map(BufferConfigView::read);
    let buffers: Vec<_> = buffers.map(|one| (one.size_kb, one.fill_policy)).collect();
    let ring = fill_policy::RING_BUFFER;
    assert_eq!(
        buffers,
        [
            (Some(64), Some(fill_policy::DISCARD)),
            (Some(8), Some(ring))
        ]
    );
    let sources: Vec<_> = view.data_sources.iter().map(DataSourceView::read).collect();
    assert_eq!(sources.len(), 1);
    assert!(sources[0].config.is_none_or(<[u8]>::is_empty));
}

#[test]
fn numbers_are_read_packed_and_one_by_one() {
    let bytes = encode(|event: &mut Encoder<'_, _>| {
        event.varint(defaults::EXTRA_COUNTER_TRACK_UUIDS, 5);
        event.varint(defaults::TRACK_UUID, 9);
        event.bytes(defaults::EXTRA_COUNTER_TRACK_UUIDS, &packed(&[6, 1 << 40]));
        event.bytes(defaults::EXTRA_COUNTER_TRACK_UUIDS, &[]);
        event.varint(defaults::EXTRA_COUNTER_TRACK_UUIDS, 7);
    });
    let defaults = TrackEventDefaultsView::read(&bytes);
    assert_eq!(
        defaults
            .extra_counter_track_uuids
            .iter()
            .collect::<Vec<_>>(),
        [5, 6, 1 << 40, 7]
    );
    assert_eq!(defaults.track_uuid, Some(9));
    assert!(defaults.extra_double_counter_track_uuids.is_empty());
}

#[test]
fn a_view_ends_before_a_malformed_field_and_leaves_out_wrong_types() {
    let mut bytes = encode(|columns: &mut Encoder<'_, _>| {
        columns.bytes(compact::SWITCH_TIMESTAMP, &packed(&[1, 2]));
        columns.string(compact::INTERN_TABLE, "name");
        columns.varint(compact::INTERN_TABLE, 3);
        columns.bytes(compact::SWITCH_TIMESTAMP, &packed(&[3]));
    });
    let (columns, is_whole) = CompactSchedView::read_prefix(&bytes);
    assert!(is_whole);
    assert_eq!(columns.switch_timestamp.packed(), packed(&[3]));
    assert_eq!(columns.intern_table.iter().collect::<Vec<_>>(), [b"name"]);
    bytes.extend([compact::WAKING_PID as u8 * 8 + 2, 9, 1]);
    let (columns, is_whole) = CompactSchedView::read_prefix(&bytes);
    assert!(!is_whole && columns.waking_pid.is_empty());
    assert_eq!(
        columns.switch_timestamp.iter().collect::<Vec<_>>(),
        [1, 2, 3]
    );
    // The last value counts, but not one of another type.
    let bytes = encode(|event: &mut Encoder<'_, _>| {
        event.varint(defaults::TRACK_UUID, 1);
        event.varint(defaults::TRACK_UUID, 2);
        event.string(defaults::TRACK_UUID, "no number");
    });
    assert_eq!(TrackEventDefaultsView::read(&bytes).track_uuid, Some(2));
}

proptest! {
    #[test]
    fn any_bytes_have_a_view(bytes in proptest::collection::vec(0..60_u8, 0..200)) {
        let event = TrackEventDefaultsView::read(&bytes);
        prop_assert!(event.extra_counter_track_uuids.iter().count() <= bytes.len());
        let columns = CompactSchedView::read(&bytes);
        prop_assert!(columns.intern_table.iter().count() <= columns.intern_table.len());
        let snapshot = ClockSnapshotView::read(&bytes);
        let text = format!("{:?}", snapshot);
        prop_assert!(text.len() > 10);
        let (_, is_whole) = TraceConfigView::read_prefix(&bytes);
        prop_assert_eq!(is_whole, ferretto_wire::Fields::new(&bytes).all(|field| field.is_ok()));
    }
}
