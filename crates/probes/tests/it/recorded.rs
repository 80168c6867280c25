//! Tests with pages recorded on a real kernel, with its format files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::common::Packets;
use ferretto_probes::ftrace::{
    Batch, Bundler, CpuState, Metadata, Page, ParseStatus, Plan, Tracefs,
};
use ferretto_proto::ftrace_event::Event;
use ferretto_proto::{FtraceConfig, FtraceEventBundle, ftrace_config::CompactSchedConfig};
use ferretto_wire::Fields;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

fn config(events: &[&str]) -> FtraceConfig {
    FtraceConfig {
        ftrace_events: events
            .iter()
            .map(|event| event.as_bytes().to_vec())
            .collect(),
        ..Default::default()
    }
}

fn parse(name: &str, cpu: u32, config: &FtraceConfig) -> (Packets, Metadata) {
    let plan = Plan::from_formats(config, &Tracefs::at(folder(name))).expect("a plan");
    let pages = std::fs::read(folder(name).join(format!("cpu{cpu}.pages"))).expect("pages");
    let (packets, mut metadata) = (Packets::default(), Metadata::default());
    let (mut state, mut errors) = (CpuState::default(), BTreeSet::<ParseStatus>::new());
    let batch = Batch {
        cpu,
        pages: &Page::parse_all(&pages, 4096, plan.commit_size),
        clock: None,
    };
    let mut sink = packets.clone();
    Bundler::default().process(
        &plan,
        &batch,
        &mut state,
        &mut metadata,
        &mut errors,
        &mut sink,
    );
    assert!(errors.is_empty(), "{errors:?}");
    (packets, metadata)
}

/// Counts the events of each kind, by the field number of their message.
fn kinds(bundles: &[FtraceEventBundle], packets: &Packets) -> BTreeMap<u32, usize> {
    let mut kinds = BTreeMap::new();
    for packet in packets.raw() {
        let bundle = Fields::new(&packet)
            .next()
            .expect("a field")
            .expect("well-formed");
        for field in Fields::new(bundle.as_bytes().expect("a bundle")) {
            let field = field.expect("a field");
            if field.number == 2 {
                let last = Fields::new(field.as_bytes().expect("an event")).last();
                *kinds
                    .entry(last.expect("a field").expect("well-formed").number)
                    .or_insert(0) += 1;
            }
        }
    }
    assert_eq!(
        kinds.values().sum::<usize>(),
        bundles.iter().map(|b| b.event.len()).sum::<usize>()
    );
    kinds
}

#[test]
fn every_scheduling_event_of_the_pages_is_written() {
    let mut wanted = config(&["sched/*", "task/*"]);
    wanted.compact_sched = CompactSchedConfig {
        enabled: Some(false),
        ..Default::default()
    }
    .into();
    let counts = |cpu| {
        let (packets, _) = parse("sched", cpu, &wanted);
        kinds(&packets.bundles(), &packets)
    };
    // sched_switch 4, sched_waking 20, task_newtask 235, task_rename 236, sched_process_exec 237,
    // exit 238, fork 239, free 240.
    let first = [
        (4, 179),
        (20, 64),
        (235, 20),
        (236, 24),
        (237, 24),
        (238, 18),
        (239, 20),
        (240, 18),
    ];
    let second = [
        (4, 212),
        (20, 123),
        (235, 4),
        (236, 3),
        (237, 4),
        (238, 4),
        (239, 4),
        (240, 4),
    ];
    assert_eq!(counts(0), BTreeMap::from(first));
    assert_eq!(counts(1), BTreeMap::from(second));
}

#[test]
fn both_forms_of_a_switch_are_equivalent() {
    let mut wanted = config(&["sched/sched_switch", "sched/sched_waking"]);
    let (compact, of_compact) = parse("sched", 0, &wanted);
    wanted.compact_sched = CompactSchedConfig {
        enabled: Some(false),
        ..Default::default()
    }
    .into();
    let (plain, _) = parse("sched", 0, &wanted);
    let mut expected = Vec::new();
    for event in plain
        .bundles()
        .iter()
        .flat_map(|bundle| bundle.event.clone())
    {
        if let Some(Event::SchedSwitch(switch)) = &event.event {
            expected.push((
                event.timestamp.unwrap_or(0),
                switch.next_pid.unwrap_or(0),
                switch.prev_state.unwrap_or(0),
                switch.next_comm.clone().unwrap_or_default(),
            ));
        }
    }
    let mut found = Vec::new();
    for bundle in compact.bundles() {
        let sched = bundle.compact_sched.as_option().expect("compact events");
        let mut time = 0;
        for (index, delta) in sched.switch_timestamp.iter().enumerate() {
            time += delta;
            let name = sched.switch_next_comm_index[index] as usize;
            let state = sched.switch_prev_state[index];
            let name = sched.intern_table[name].clone();
            found.push((time, sched.switch_next_pid[index], state, name));
        }
    }
    assert_eq!(found.len(), 179);
    assert_eq!(found, expected);
    assert!(found.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    assert!(
        found
            .iter()
            .all(|switch| of_compact.pids().contains(&switch.1))
    );
}

#[test]
fn probes_041_wakings_alone_are_not_compact() {
    let (packets, _) = parse("sched", 0, &config(&["sched/sched_waking"]));
    assert_eq!(
        kinds(&packets.bundles(), &packets),
        BTreeMap::from([(20, 64)])
    );
}

#[test]
fn probes_008_a_bare_name_is_the_known_event_and_unknown_ones_are_dropped() {
    let (packets, metadata) = parse("sched", 0, &config(&["task_rename", "no_such_event"]));
    assert_eq!(
        kinds(&packets.bundles(), &packets),
        BTreeMap::from([(236, 24)])
    );
    assert!(!metadata.renamed().is_empty());
    let named = packets
        .bundles()
        .iter()
        .flat_map(|b| b.event.clone())
        .any(|event| {
            matches!(&event.event, Some(Event::TaskRename(rename))
            if rename.newcomm.as_deref() == Some(b"true"))
        });
    assert!(named);
}

#[test]
fn probes_049_and_051_system_calls_have_six_arguments_and_prints_their_newline() {
    let (packets, _) = parse("mixed", 0, &config(&["raw_syscalls/*", "ftrace/print"]));
    let bundles = packets.bundles();
    assert_eq!(
        kinds(&bundles, &packets),
        BTreeMap::from([(3, 1), (329, 125), (330, 112)])
    );
    for event in bundles.iter().flat_map(|bundle| &bundle.event) {
        match &event.event {
            Some(Event::SysEnter(enter)) => {
                assert_eq!(enter.args.len(), 6);
                assert!(enter.id.is_some_and(|id| (0..500).contains(&id)));
            }
            Some(Event::SysExit(exit)) => assert!(exit.id.is_some() && exit.ret.is_some()),
            Some(Event::Print(print)) => {
                assert_eq!(print.buf.as_deref(), Some(&b"B|42|a marker\n"[..]));
                assert_eq!(print.ip, None);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_event_without_a_message_is_written_with_its_descriptor() {
    let (packets, _) = parse("mixed", 1, &config(&["sched/sched_stat_runtime"]));
    let bundles = packets.bundles();
    assert_eq!(kinds(&bundles, &packets), BTreeMap::from([(65_536, 12)]));
    assert_eq!(bundles[0].generic_event_descriptors.len(), 1);
}

#[test]
fn probes_010_they_can_be_refused() {
    let mut wanted = config(&["sched/sched_stat_runtime"]);
    wanted.disable_generic_events = Some(true);
    let (packets, _) = parse("mixed", 1, &wanted);
    assert!(packets.raw().is_empty());
}

/// The list of events agrees with the schema: every row is a field of `FtraceEvent` whose message
/// has fields with these names, numbers and types.
#[test]
fn known_events_match_the_schema() {
    use ferretto_probes::ftrace::known_events;
    let schema = Schema::read();
    let event = schema.message("FtraceEvent");
    let mut covered = BTreeSet::new();
    for known in known_events() {
        let context = format!("{}/{}", known.group, known.name);
        let field = event.iter().find(|field| field.number == known.number);
        let field = field.unwrap_or_else(|| panic!("{context}: not in FtraceEvent"));
        covered.insert(known.number);
        let message = schema.message(field.type_name.rsplit('.').next().expect("a name"));
        for wanted in known.fields() {
            let found = message.iter().find(|field| field.number == wanted.number);
            let found = found.unwrap_or_else(|| panic!("{context}: no {}", wanted.name));
            assert_eq!(found.name, wanted.name, "{context}");
            assert_eq!(
                found.ty,
                wanted.ty.descriptor_type(),
                "{context}.{}",
                wanted.name
            );
        }
    }
    let missing: Vec<_> = event
        .iter()
        .filter(|field| !field.type_name.is_empty() && !covered.contains(&field.number))
        .map(|field| field.name.as_str())
        .collect();
    assert_eq!(missing, ["generic", "kprobe_event"]);
}

/// The part of the descriptor set that the test needs.
struct Schema(BTreeMap<String, Vec<SchemaField>>);

struct SchemaField {
    name: String,
    number: u32,
    ty: u64,
    type_name: String,
}

impl Schema {
    /// The field numbers are those of `google/protobuf/descriptor.proto`.
    fn read() -> Self {
        let mut messages = BTreeMap::new();
        for file in inside(ferretto_proto::DESCRIPTORS, 1) {
            for message in inside(file, 4) {
                let fields = inside(message, 2).map(|field| SchemaField {
                    name: text(field, 1),
                    number: number(field, 3) as u32,
                    ty: number(field, 5),
                    type_name: text(field, 6),
                });
                messages.insert(text(message, 1), fields.collect());
            }
        }
        Self(messages)
    }

    fn message(&self, name: &str) -> &[SchemaField] {
        self.0
            .get(name)
            .unwrap_or_else(|| panic!("no message {name}"))
    }
}

fn inside(bytes: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
    Fields::new(bytes)
        .map(|field| field.expect("a field"))
        .filter(move |field| field.number == number)
        .filter_map(|field| field.as_bytes())
}

fn text(bytes: &[u8], number: u32) -> String {
    let found = inside(bytes, number).next().unwrap_or_default();
    String::from_utf8_lossy(found).into_owned()
}

fn number(bytes: &[u8], number: u32) -> u64 {
    Fields::new(bytes)
        .filter_map(|field| field.ok().filter(|field| field.number == number)?.as_u64())
        .next()
        .unwrap_or(0)
}
