//! Tests of headers, records and bundles.

use super::support::*;

#[test]
fn probes_025_bad_headers_are_noted_and_the_next_page_is_parsed() {
    let good = PageBuilder::new(50).record(1, &free_record(1)).build();
    for bad in [
        PageBuilder::new(9).build_sized(0),
        PageBuilder::new(9).build_sized(4096),
        PageBuilder::new(9).build_sized((1 << 27) - 1),
    ] {
        let outcome = parse(&[bad, good.clone()]);
        let bundle = &outcome.bundles[0];
        assert_eq!(
            outcome.errors,
            BTreeSet::from([ParseStatus::InvalidPageHeader])
        );
        assert_eq!(
            (bundle.error.len(), bundle.error[0].timestamp),
            (1, Some(9))
        );
        assert_eq!(bundle.error[0].status.map(|status| status as i32), Some(4));
        assert_eq!(times(bundle), [51]);
    }
    for length in 0..16 {
        assert!(Page::parse(&good[..length], 8).is_err());
    }
}

#[test]
fn probes_026_every_record_type_moves_time_as_the_kernel_means_it() {
    let page = PageBuilder::new(1000)
        .record(5, &free_record(1))
        .padding(10, 12)
        .long_record(1, &free_record(2))
        .time_extend((3 << 27) + 7)
        .record(2, &free_record(3))
        .absolute((9 << 27) + 11)
        .record(4, &free_record(4))
        .build();
    let outcome = parse(&[page]);
    let extended = 1016 + (3u64 << 27) + 7;
    let wanted = [1005, 1016, extended + 2, (9 << 27) + 15];
    assert_eq!(times(&outcome.bundles[0]), wanted);
    assert!(outcome.errors.is_empty());
    let pids: Vec<_> = outcome.bundles[0].event.iter().filter_map(freed).collect();
    assert_eq!(pids, [1, 2, 3, 4]);
}

#[test]
fn absolute_times_keep_the_upper_bits_of_the_page() {
    let base = (3 << 59) + 1000;
    let page = PageBuilder::new(base)
        .absolute(5000)
        .record(0, &free_record(1))
        .build();
    assert_eq!(times(&parse(&[page]).bundles[0]), [(3 << 59) + 5000]);
}

#[test]
fn probes_027_each_malformed_record_has_its_status_and_drops_the_rest_of_its_page() {
    let start = || PageBuilder::new(10).record(1, &free_record(1));
    let cases = [
        // A payload that ends in the middle of a word.
        (start().words(&[0]), 2, ParseStatus::ShortEventHeader),
        (start().words(&[29]), 0, ParseStatus::NullPadding),
        (
            start().words(&[1 << 5 | 29]),
            0,
            ParseStatus::ShortPaddingLength,
        ),
        (
            start().words(&[1 << 5 | 29, 3]),
            0,
            ParseStatus::InvalidPaddingLength,
        ),
        (start().words(&[30]), 0, ParseStatus::ShortTimeExtend),
        (start().words(&[31]), 0, ParseStatus::ShortTimeStamp),
        (start().words(&[0]), 0, ParseStatus::ShortDataLength),
        (start().words(&[0, 0]), 0, ParseStatus::ZeroDataLength),
        (start().words(&[0, 3]), 0, ParseStatus::InvalidDataLength),
        (start().words(&[0, 5, 0]), 0, ParseStatus::ShortEventId),
        (start().words(&[2, 0]), 0, ParseStatus::EndOverflow),
        (
            start().words(&[1, FREE.into()]),
            0,
            ParseStatus::InvalidEvent,
        ),
    ];
    for (page, cut, status) in cases {
        let mut bytes = page.build();
        let size = u32::from_le_bytes(bytes[8..12].try_into().expect("four bytes")) - cut;
        bytes[8..12].copy_from_slice(&size.to_le_bytes());
        let next = PageBuilder::new(90).record(1, &free_record(2)).build();
        let outcome = parse(&[bytes, next]);
        assert_eq!(outcome.errors, BTreeSet::from([status]));
        let bundle = &outcome.bundles[0];
        assert_eq!(bundle.error[0].timestamp, Some(10));
        assert_eq!(
            bundle.error[0].status.map(|s| s as i32),
            Some(status as i32)
        );
        let pids: Vec<_> = bundle.event.iter().filter_map(freed).collect();
        assert_eq!(pids, [1, 2], "{status:?}");
    }
}

#[test]
fn probes_028_padding_beyond_the_payload_ends_the_page() {
    let page = PageBuilder::new(10)
        .record(1, &free_record(1))
        .words(&[1 << 5 | 29, 4000])
        .build();
    let outcome = parse(&[page]);
    assert!(outcome.errors.is_empty());
    assert_eq!(times(&outcome.bundles[0]), [11]);
}

#[test]
fn probes_029_lost_events_begin_a_new_bundle() {
    const LOST: u64 = 1 << 31;
    let page = |time, flags| {
        PageBuilder::new(time)
            .flags(flags)
            .record(1, &free_record(1))
            .build()
    };
    let outcome = parse(&[page(10, 0), page(20, LOST | 0xffff << 32), page(30, 0)]);
    assert_eq!(outcome.bundles.len(), 2);
    assert_eq!(outcome.bundles[0].lost_events, None);
    assert_eq!(outcome.bundles[1].lost_events, Some(true));
    assert_eq!(times(&outcome.bundles[1]), [21, 31]);
    assert_eq!(outcome.bundles[1].previous_bundle_end_timestamp, Some(11));

    let mut stored = PageBuilder::new(1)
        .flags(LOST | 1 << 30)
        .record(1, &free_record(1))
        .build();
    let size = Page::parse(&stored, 8).expect("a page").payload.len();
    stored[16 + size..24 + size].copy_from_slice(&77u64.to_le_bytes());
    assert_eq!(
        Page::parse(&stored, 8).expect("a page").lost_count,
        Some(77)
    );
}

#[test]
fn probes_030_events_not_asked_for_are_stepped_over() {
    let mut other = head(FREE + 1, 1);
    other.extend([0xff; 6]);
    let page = PageBuilder::new(10)
        .record(1, &other)
        .record(1, &head(u16::MAX, 1))
        .record(1, &free_record(5))
        .build();
    let outcome = parse(&[page]);
    assert_eq!(times(&outcome.bundles[0]), [13]);
    let nothing = PageBuilder::new(10).record(1, &other).build();
    assert!(parse(&[nothing]).raw.is_empty());
}

#[test]
fn probes_031_narrow_commit_words_parse() {
    let mut plan = plan();
    plan.commit_size = 4;
    let page = PageBuilder::new(10)
        .narrow()
        .record(1, &free_record(5))
        .build();
    let outcome = parse_with(&plan, &[page], &mut CpuState::default());
    assert_eq!(times(&outcome.bundles[0]), [11]);
}

#[test]
fn probes_032_a_record_shorter_than_its_event_is_invalid() {
    let short = &free_record(1)[..28];
    let outcome = parse(&[PageBuilder::new(10).record(1, short).build()]);
    assert_eq!(outcome.errors, BTreeSet::from([ParseStatus::InvalidEvent]));
}

#[test]
fn probes_033_text_outside_its_record_is_invalid_and_no_text_is_empty() {
    let fields = [
        ("__data_loc char[] filename", 8, 4, 0),
        ("pid_t pid", 12, 4, 1),
    ];
    let decoder = known("sched", "sched_process_exec", FREE, &fields);
    let mut plan = plan();
    plan.set_action(FREE, Action::Event(Arc::new(decoder)));
    let record = |location: u32| {
        let mut record = head(FREE, 1);
        record.extend(location.to_le_bytes());
        record.extend(9u32.to_le_bytes());
        record.extend(b"/bin/sh\0");
        record
    };
    let parse_one = |location| {
        let page = PageBuilder::new(1).record(1, &record(location)).build();
        parse_with(&plan, &[page], &mut CpuState::default())
    };
    let name = |outcome: &Outcome| match &outcome.bundles[0].event[0].event {
        Some(Event::SchedProcessExec(exec)) => exec.filename.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(name(&parse_one(8 << 16 | 16)), Some(b"/bin/sh".to_vec()));
    assert_eq!(name(&parse_one(16)), Some(Vec::new()));
    assert_eq!(name(&parse_one(60_000)), Some(Vec::new()));
    for outside in [9 << 16 | 16, 1 << 16 | 24, 0xffff_ffff] {
        let outcome = parse_one(outside);
        assert_eq!(
            outcome.errors,
            BTreeSet::from([ParseStatus::InvalidEvent]),
            "{outside:#x}"
        );
        assert_eq!(outcome.bundles[0].event.len(), 1);
    }
}

#[test]
fn probes_034_035_036_text_devices_and_negative_numbers() {
    let mut record = head(FREE, 7);
    record.extend(b"sixteen letters!");
    record.extend((-1i32).to_le_bytes());
    record.extend((-2i32).to_le_bytes());
    let outcome = parse(&[PageBuilder::new(1).record(1, &record).build()]);
    match &outcome.bundles[0].event[0].event {
        Some(Event::SchedProcessFree(free)) => {
            assert_eq!(free.comm.as_deref(), Some(&b"sixteen letters!"[..]));
            assert_eq!((free.pid, free.prio), (Some(-1), Some(-2)));
        }
        other => panic!("{other:?}"),
    }
    // Ten bytes, as for all negative numbers.
    let extended = [
        0x18, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
    ];
    assert!(
        outcome.raw[0]
            .windows(extended.len())
            .any(|window| window == extended)
    );

    let fields = [("dev_t dev", 8, 4, 0), ("sector_t sector", 16, 8, 0)];
    let decoder = known("block", "block_dirty_buffer", FREE, &fields);
    let mut plan = plan();
    plan.set_action(FREE, Action::Event(Arc::new(decoder)));
    let mut record = head(FREE, 7);
    record.extend((8u32 << 20 | 1).to_le_bytes());
    record.extend([0; 12]);
    let page = PageBuilder::new(1).record(1, &record).build();
    let outcome = parse_with(&plan, &[page], &mut CpuState::default());
    assert_eq!(numbers(&outcome.raw[0], 121)[0][0], (1, 0x801));
}

#[test]
fn probes_038_timestamp_pid_and_payload_in_this_order() {
    let outcome = parse(&[PageBuilder::new(99).record(1, &free_record(1)).build()]);
    // FtraceEventBundle.event, its length, timestamp 100, pid 7, sched_process_free.
    let length = outcome.raw[0]
        .windows(2)
        .position(|pair| pair == [0x08, 100])
        .expect("a time");
    let event = &outcome.raw[0][length..];
    assert_eq!(event[..4], [0x08, 100, 0x10, 7]);
    assert_eq!(event[4..6], [0x82, 0x0f]);
}

#[test]
fn probes_039_each_bundle_names_the_end_of_the_one_before() {
    let mut state = CpuState::default();
    let page = |time| vec![PageBuilder::new(time).record(1, &free_record(1)).build()];
    let ends: Vec<_> = [10, 20, 30]
        .map(|time| parse_with(&plan(), &page(time), &mut state).bundles[0].clone())
        .iter()
        .map(|bundle| (bundle.cpu, bundle.previous_bundle_end_timestamp))
        .collect();
    assert_eq!(
        ends,
        [(Some(3), Some(0)), (Some(3), Some(11)), (Some(3), Some(21))]
    );
}
