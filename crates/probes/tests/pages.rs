//! Ring-buffer pages made by hand: layout, time, errors, bundles.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::Packets;
use common::page::{PageBuilder, common as head, format};
use ferretto_probes::ftrace::{
    Action, Batch, Bundler, CompactFormat, CpuState, EventDecoder, EventFormat, Metadata, Page,
    ParseStatus, Plan, find,
};
use ferretto_proto::ftrace_event::Event;
use ferretto_proto::{FtraceEvent, FtraceEventBundle};

const FREE: u16 = 100;
const SWITCH: u16 = 101;
const WAKING: u16 = 102;
const GENERIC: u16 = 103;

fn known(group: &str, name: &str, id: u16, fields: &[(&str, u16, u16, u8)]) -> EventDecoder {
    let text = format(name, id, fields);
    let event = find(group, name).expect("a known event");
    EventDecoder::known(&event, &EventFormat::parse(&text).expect("a format"))
}

fn free_event() -> EventDecoder {
    let fields = [
        ("char comm[16]", 8, 16, 0),
        ("pid_t pid", 24, 4, 1),
        ("int prio", 28, 4, 1),
    ];
    known("sched", "sched_process_free", FREE, &fields)
}

fn free_record(pid: i32) -> Vec<u8> {
    let mut record = head(FREE, 7);
    record.extend(b"a name\0\0\0\0\0\0\0\0\0\0");
    record.extend(pid.to_le_bytes());
    record.extend(120i32.to_le_bytes());
    record
}

fn plan() -> Plan {
    let mut plan = Plan::empty(8);
    plan.common_pid = Some(4);
    plan.set_action(FREE, Action::Event(Arc::new(free_event())));
    plan
}

struct Outcome {
    bundles: Vec<FtraceEventBundle>,
    raw: Vec<Vec<u8>>,
    errors: BTreeSet<ParseStatus>,
    metadata: Metadata,
}

fn parse_with(plan: &Plan, pages: &[Vec<u8>], state: &mut CpuState) -> Outcome {
    let (packets, mut metadata, mut errors) =
        (Packets::default(), Metadata::default(), BTreeSet::new());
    let batch = Batch {
        cpu: 3,
        pages: &pages.concat(),
        page_size: 4096,
        clock: None,
    };
    let mut sink = packets.clone();
    Bundler::default().process(plan, &batch, state, &mut metadata, &mut errors, &mut sink);
    Outcome {
        bundles: packets.bundles(),
        raw: packets.raw(),
        errors,
        metadata,
    }
}

fn parse(pages: &[Vec<u8>]) -> Outcome {
    parse_with(&plan(), pages, &mut CpuState::default())
}

fn times(bundle: &FtraceEventBundle) -> Vec<u64> {
    bundle
        .event
        .iter()
        .filter_map(|event| event.timestamp)
        .collect()
}

fn freed(event: &FtraceEvent) -> Option<i32> {
    match &event.event {
        Some(Event::SchedProcessFree(free)) => free.pid,
        _ => None,
    }
}

/// Numbers in the messages of all events of one kind in a bundle.
fn numbers(packet: &[u8], event: u32) -> Vec<Vec<(u32, u64)>> {
    use ferretto_wire::{Field, Fields};
    fn inside(bytes: &[u8], number: u32) -> impl Iterator<Item = Field<'_>> {
        Fields::new(bytes)
            .map(|field| field.expect("a field"))
            .filter(move |f| f.number == number)
    }
    let message = |field: Field<'_>| field.as_bytes().expect("a message").to_vec();
    let bundles = inside(packet, 1).map(message).collect::<Vec<_>>();
    let events = bundles
        .iter()
        .flat_map(|bundle| inside(bundle, 2).map(message));
    let bodies = events.flat_map(|e| inside(&e, event).map(message).collect::<Vec<_>>());
    bodies
        .map(|body| {
            let fields = Fields::new(&body).map(|field| field.expect("a field"));
            fields
                .filter_map(|field| Some((field.number, field.as_u64()?)))
                .collect()
        })
        .collect()
}

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
    // Ten bytes, as all negative numbers have.
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

fn switch_format(state_size: u16, comm_size: u16) -> EventFormat {
    let comm = format!("char next_comm[{comm_size}]");
    let fields = [
        ("char prev_comm[16]", 8, 16, 0),
        ("long prev_state", 32, state_size, 1),
        (comm.as_str(), 40, comm_size, 0),
        ("pid_t next_pid", 72, 4, 1),
        ("int next_prio", 76, 4, 1),
    ];
    EventFormat::parse(&format("sched_switch", SWITCH, &fields)).expect("a format")
}

fn waking_format() -> EventFormat {
    let fields = [
        ("char comm[16]", 8, 16, 0),
        ("pid_t pid", 24, 4, 1),
        ("int prio", 28, 4, 1),
        ("int target_cpu", 32, 4, 1),
    ];
    EventFormat::parse(&format("sched_waking", WAKING, &fields)).expect("a format")
}

fn switch_record(comm: &str, state: i64, pid: i32) -> Vec<u8> {
    let mut record = head(SWITCH, 1);
    record.resize(80, 0);
    record[32..40].copy_from_slice(&state.to_le_bytes());
    record[40..40 + comm.len()].copy_from_slice(comm.as_bytes());
    record[72..76].copy_from_slice(&pid.to_le_bytes());
    record[76..80].copy_from_slice(&120i32.to_le_bytes());
    record
}

fn compact_plan() -> Plan {
    let mut plan = plan();
    plan.compact = CompactFormat::new(&switch_format(8, 16), &waking_format());
    assert!(plan.compact.is_some());
    plan.set_action(SWITCH, Action::CompactSwitch);
    plan.set_action(WAKING, Action::CompactWaking);
    plan
}

#[test]
fn probes_042_compact_arrays_match_and_times_are_deltas() {
    let mut waking = head(WAKING, 1);
    waking[2] = 5;
    waking.extend(b"b\0garbage\0\0\0\0\0\0\0");
    for value in [22i32, 100, 1] {
        waking.extend(value.to_le_bytes());
    }
    let page = PageBuilder::new(1000)
        .record(5, &switch_record("a", 1, 11))
        .record(5, &waking)
        .record(5, &switch_record("b", -1, 22))
        .record(5, &switch_record("a", 0, 11))
        .build();
    let mut state = CpuState::default();
    let outcome = parse_with(&compact_plan(), &[page], &mut state);
    let sched = outcome.bundles[0]
        .compact_sched
        .as_option()
        .expect("compact events");
    assert!(outcome.bundles[0].event.is_empty());
    assert_eq!(sched.intern_table, [b"a".to_vec(), b"b".to_vec()]);
    assert_eq!(sched.switch_timestamp, [1005, 10, 5]);
    assert_eq!(sched.switch_prev_state, [1, -1, 0]);
    assert_eq!(sched.switch_next_pid, [11, 22, 11]);
    assert_eq!(sched.switch_next_prio, [120; 3]);
    assert_eq!(sched.switch_next_comm_index, [0, 1, 0]);
    assert_eq!(
        (&sched.waking_timestamp[..], &sched.waking_pid[..]),
        (&[1010][..], &[22][..])
    );
    assert_eq!(
        (&sched.waking_prio[..], &sched.waking_target_cpu[..]),
        (&[100][..], &[1][..])
    );
    assert_eq!(
        (&sched.waking_comm_index[..], &sched.waking_common_flags[..]),
        (&[1][..], &[5][..])
    );
    assert_eq!(state.end_timestamp, 1020);
    assert_eq!(outcome.metadata.pids(), [11, 22]);
}

#[test]
fn probes_043_many_names_begin_a_new_bundle_at_the_next_page() {
    let page = |first: usize| {
        let names = (first..first + 40).map(|n| format!("task {n}"));
        names
            .fold(PageBuilder::new(1000), |page, name| {
                page.record(1, &switch_record(&name, 0, 1))
            })
            .build()
    };
    let outcome = parse_with(
        &compact_plan(),
        &[page(0), page(40), page(80)],
        &mut CpuState::default(),
    );
    let tables = outcome
        .bundles
        .iter()
        .map(|b| b.compact_sched.intern_table.len());
    assert_eq!(tables.collect::<Vec<_>>(), [80, 40]);
    assert_eq!(outcome.bundles[1].compact_sched.switch_timestamp[0], 1001);
}

#[test]
fn probes_044_compact_layouts_are_checked() {
    let waking = waking_format();
    assert!(CompactFormat::new(&switch_format(4, 16), &waking).is_some());
    assert!(CompactFormat::new(&switch_format(2, 16), &waking).is_none());
    assert!(CompactFormat::new(&switch_format(8, 32), &waking).is_none());
    let short = PageBuilder::new(1)
        .record(1, &switch_record("a", 0, 1)[..76])
        .build();
    let outcome = parse_with(&compact_plan(), &[short], &mut CpuState::default());
    assert_eq!(
        outcome.errors,
        BTreeSet::from([ParseStatus::ShortCompactEvent])
    );
}

fn generic_plan(legacy: bool) -> Plan {
    let fields = [
        ("int a", 8, 4, 1),
        ("u8 b[3]", 12, 3, 0),
        ("char c[4]", 16, 4, 0),
        ("u64 d", 24, 8, 0),
    ];
    let text = format("own_event", GENERIC, &fields);
    let format = EventFormat::parse(&text).expect("a format");
    let mut plan = plan();
    plan.legacy_generic = legacy;
    let decoder = EventDecoder::generic("own", &format, 65_540);
    plan.set_action(GENERIC, Action::Event(Arc::new(decoder)));
    plan
}

fn generic_page() -> Vec<u8> {
    let mut record = head(GENERIC, 1);
    record.extend((-3i32).to_le_bytes());
    record.extend([1, 2, 3, 0]);
    record.extend(b"text\0\0\0\0");
    record.extend(u64::MAX.to_le_bytes());
    PageBuilder::new(1)
        .record(1, &record)
        .record(1, &record)
        .build()
}

#[test]
fn probes_045_events_without_a_message_describe_themselves() {
    let outcome = parse_with(
        &generic_plan(false),
        &[generic_page()],
        &mut CpuState::default(),
    );
    let bundle = &outcome.bundles[0];
    assert_eq!(
        (bundle.event.len(), bundle.generic_event_descriptors.len()),
        (2, 1)
    );
    let described = &bundle.generic_event_descriptors[0];
    assert_eq!(described.field_id, Some(65_540));
    assert_eq!(described.group_name.as_deref(), Some(&b"own"[..]));
    use ferretto_wire::Fields;
    let descriptor = described.event_descriptor.clone().expect("a descriptor");
    let mut fields = Fields::new(&descriptor).map(|field| field.expect("a field"));
    assert_eq!(
        fields.next().and_then(|name| name.as_bytes()),
        Some(&b"own_event"[..])
    );
    let described: Vec<(Vec<u8>, u64, u64)> = fields
        .map(|field| {
            let inner: Vec<_> = Fields::new(field.as_bytes().expect("a message"))
                .map(|field| field.expect("a field"))
                .collect();
            let number = |index: usize| inner[index].as_u64().expect("a number");
            (
                inner[0].as_bytes().expect("a name").to_vec(),
                number(1),
                number(2),
            )
        })
        .collect();
    // int64, string, uint64; what cannot be carried has no number.
    assert_eq!(
        described,
        [
            (b"a".to_vec(), 1, 3),
            (b"c".to_vec(), 2, 9),
            (b"d".to_vec(), 3, 4)
        ]
    );
    // Field 65540 with a = -3, c = "text", d.
    let tag = [0xa2, 0x80, 0x20];
    assert_eq!(
        outcome.raw[0]
            .windows(3)
            .filter(|window| *window == tag)
            .count(),
        2
    );
}

#[test]
fn probes_046_the_older_form_has_names_and_values() {
    let outcome = parse_with(
        &generic_plan(true),
        &[generic_page()],
        &mut CpuState::default(),
    );
    let bundle = &outcome.bundles[0];
    assert!(bundle.generic_event_descriptors.is_empty());
    let Some(Event::Generic(generic)) = &bundle.event[0].event else {
        panic!("{bundle:?}")
    };
    assert_eq!(generic.event_name.as_deref(), Some(&b"own_event"[..]));
    use ferretto_proto::generic_ftrace_event::field::Value;
    let values: Vec<_> = generic
        .field
        .iter()
        .map(|f| (f.name.clone(), f.value.clone()))
        .collect();
    let name = |text: &str| Some(text.as_bytes().to_vec());
    assert_eq!(
        values,
        [
            (name("a"), Some(Value::IntValue(-3))),
            (name("c"), Some(Value::StrValue(b"text".to_vec()))),
            (name("d"), Some(Value::UintValue(u64::MAX))),
        ]
    );
}

#[test]
fn probes_053_addresses_become_small_numbers() {
    let fields = [("void * work", 8, 8, 0), ("void * function", 16, 8, 0)];
    let decoder = known("workqueue", "workqueue_execute_start", FREE, &fields);
    let mut plan = plan();
    plan.set_action(FREE, Action::Event(Arc::new(decoder)));
    let address = 0xffff_ffff_8123_4560u64;
    let mut record = head(FREE, 1);
    record.extend(0xffff_8880_0000_1000u64.to_le_bytes());
    record.extend(address.to_le_bytes());
    let page = PageBuilder::new(1)
        .record(1, &record)
        .record(1, &record)
        .build();
    let outcome = parse_with(&plan, std::slice::from_ref(&page), &mut CpuState::default());
    assert_eq!(
        numbers(&outcome.raw[0], 58),
        [[(1, 1), (2, 2)], [(1, 1), (2, 2)]]
    );

    // probes_054: names come with the first packet of a pass, which says so.
    let symbols = format!("{address:x} T do_it\n");
    plan.symbols = Some(Arc::new(ferretto_probes::ftrace::KernelSymbols::parse(
        symbols.as_bytes(),
    )));
    let packets = Packets::default();
    let (mut metadata, mut errors) = (Metadata::default(), BTreeSet::new());
    let (mut state, mut sink, mut bundler) =
        (CpuState::default(), packets.clone(), Bundler::default());
    let batch = Batch {
        cpu: 0,
        pages: &page,
        page_size: 4096,
        clock: None,
    };
    for pass in 0..2 {
        for _ in 0..2 {
            bundler.process(
                &plan,
                &batch,
                &mut state,
                &mut metadata,
                &mut errors,
                &mut sink,
            );
        }
        metadata.clear();
        let decoded = packets.decoded();
        let [first, second] = &decoded[pass * 2..] else {
            panic!("two packets")
        };
        assert_eq!(
            (first.sequence_flags, second.sequence_flags),
            (Some(1), None)
        );
        let names = &first.interned_data.kernel_symbols;
        assert_eq!((names.len(), names[0].iid), (1, Some(2)));
        assert_eq!(names[0].str.as_deref(), Some(&b"do_it"[..]));
        assert!(second.interned_data.as_option().is_none());
    }
}

#[test]
fn no_bytes_make_the_parser_panic() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut plans = [compact_plan(), generic_plan(false), generic_plan(true)];
    for plan in &mut plans {
        plan.set_action(0, Action::Event(Arc::new(free_event())));
    }
    let good = PageBuilder::new(1000)
        .record(5, &switch_record("a", 1, 11))
        .long_record(5, &free_record(1))
        .time_extend(1 << 30)
        .padding(1, 16)
        .record(5, &switch_record("b", -1, 22))
        .build();
    for round in 0..3000 {
        let mut page = good.clone();
        for _ in 0..1 + random() % 8 {
            let at = random() as usize % 280;
            page[at] = random() as u8;
        }
        if round % 3 == 0 {
            page.truncate(random() as usize % 300);
        }
        let plan = &plans[round % plans.len()];
        parse_with(plan, &[page, good.clone()], &mut CpuState::default());
    }
}
