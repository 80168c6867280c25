//! Events and pages for the tests.

pub(super) use std::collections::BTreeSet;
pub(super) use std::sync::Arc;

pub(super) use crate::common::Packets;
pub(super) use crate::common::page::{PageBuilder, common as head, format};
pub(super) use ferretto_probes::ftrace::{
    Action, Batch, Bundler, CompactFormat, CpuState, EventDecoder, EventFormat, Metadata, Page,
    ParseStatus, Plan, find,
};
pub(super) use ferretto_proto::ftrace_event::Event;
pub(super) use ferretto_proto::{FtraceEvent, FtraceEventBundle};

pub(super) const FREE: u16 = 100;

pub(super) const SWITCH: u16 = 101;
pub(super) const WAKING: u16 = 102;
pub(super) const GENERIC: u16 = 103;

pub(super) fn known(
    group: &str,
    name: &str,
    id: u16,
    fields: &[(&str, u16, u16, u8)],
) -> EventDecoder {
    let text = format(name, id, fields);
    let event = find(group, name).expect("a known event");
    EventDecoder::known(&event, &EventFormat::parse(&text).expect("a format"))
}

pub(super) fn free_event() -> EventDecoder {
    let fields = [
        ("char comm[16]", 8, 16, 0),
        ("pid_t pid", 24, 4, 1),
        ("int prio", 28, 4, 1),
    ];
    known("sched", "sched_process_free", FREE, &fields)
}

pub(super) fn free_record(pid: i32) -> Vec<u8> {
    let mut record = head(FREE, 7);
    record.extend(b"a name\0\0\0\0\0\0\0\0\0\0");
    record.extend(pid.to_le_bytes());
    record.extend(120i32.to_le_bytes());
    record
}

pub(super) fn plan() -> Plan {
    let mut plan = Plan::empty(8);
    plan.common_pid = Some(4);
    plan.set_action(FREE, Action::Event(Arc::new(free_event())));
    plan
}

pub(super) struct Outcome {
    pub(super) bundles: Vec<FtraceEventBundle>,
    pub(super) raw: Vec<Vec<u8>>,
    pub(super) errors: BTreeSet<ParseStatus>,
    pub(super) metadata: Metadata,
}

pub(super) fn parse_with(plan: &Plan, pages: &[Vec<u8>], state: &mut CpuState) -> Outcome {
    let (packets, mut metadata, mut errors) =
        (Packets::default(), Metadata::default(), BTreeSet::new());
    let bytes = pages.concat();
    let batch = Batch {
        cpu: 3,
        pages: &Page::parse_all(&bytes, 4096, plan.commit_size),
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

pub(super) fn parse(pages: &[Vec<u8>]) -> Outcome {
    parse_with(&plan(), pages, &mut CpuState::default())
}

pub(super) fn times(bundle: &FtraceEventBundle) -> Vec<u64> {
    bundle
        .event
        .iter()
        .filter_map(|event| event.timestamp)
        .collect()
}

pub(super) fn freed(event: &FtraceEvent) -> Option<i32> {
    match &event.event {
        Some(Event::SchedProcessFree(free)) => free.pid,
        _ => None,
    }
}

/// Returns the numbers in the messages of all events of one kind in a bundle.
pub(super) fn numbers(packet: &[u8], event: u32) -> Vec<Vec<(u32, u64)>> {
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
