//! Tests of kernel probes, with formats as printed by a kernel that supports them.

use ferretto_probes::ftrace::Tracefs;
use ferretto_proto::FtraceConfig;
use ferretto_proto::ftrace_config::{KprobeEvent, kprobe_event::KprobeType};

use super::support::*;

const ENTRY: (&str, &[(&str, u16, u16, u8)]) =
    ("perfetto_kprobes", &[("unsigned long __probe_ip", 8, 8, 0)]);
const RETURN: (&str, &[(&str, u16, u16, u8)]) = (
    "perfetto_kretprobes",
    &[
        ("unsigned long __probe_func", 8, 8, 0),
        ("unsigned long __probe_ret_ip", 16, 8, 0),
    ],
);

#[test]
fn probes_047_single_probes_are_instants_and_both_are_begin_and_end() {
    let probes = [
        (ENTRY, "do_sys_open", 500),
        (RETURN, "vfs_read", 501),
        (ENTRY, "vfs_write", 502),
        (RETURN, "vfs_write", 503),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    for ((group, fields), name, id) in probes {
        let event = folder.path().join("events").join(group).join(name);
        std::fs::create_dir_all(&event).expect("a folder");
        std::fs::write(event.join("format"), format(name, id, fields)).expect("written");
    }
    let wanted = [
        ("do_sys_open", Some(KprobeType::KPROBE_TYPE_KPROBE)),
        ("vfs_read", Some(KprobeType::KPROBE_TYPE_KRETPROBE)),
        ("vfs_write", Some(KprobeType::KPROBE_TYPE_BOTH)),
        ("no_type", None),
    ];
    let config = FtraceConfig {
        kprobe_events: wanted
            .map(|(probe, kind)| KprobeEvent {
                probe: Some(probe.as_bytes().to_vec()),
                r#type: kind,
                ..Default::default()
            })
            .into(),
        ..Default::default()
    };
    let plan = Plan::from_formats(&config, &Tracefs::at(folder.path())).expect("a plan");
    let page = probes
        .iter()
        .fold(PageBuilder::new(10), |page, (probe, _, id)| {
            let mut record = head(*id, 7);
            record.resize(8 + 8 * probe.1.len(), 0xab);
            page.record(1, &record)
        });
    let outcome = parse_with(&plan, &[page.build()], &mut CpuState::default());
    assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    let events = outcome.bundles[0].event.iter().map(|event| {
        let Some(Event::KprobeEvent(probe)) = &event.event else {
            panic!("{event:?}");
        };
        let name = String::from_utf8(probe.name.clone()?).ok()?;
        Some((event.timestamp?, name, probe.r#type? as i32))
    });
    // 1 is a begin, 2 an end, 3 an instant.
    let wanted = [
        (11, "do_sys_open", 3),
        (12, "vfs_read", 3),
        (13, "vfs_write", 1),
        (14, "vfs_write", 2),
    ];
    let wanted = wanted.map(|(time, name, kind)| Some((time, name.to_owned(), kind)));
    assert_eq!(events.collect::<Vec<_>>(), wanted);
}
