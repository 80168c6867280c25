//! Summaries of control groups.

use ferretto_proto::CgroupCounters as Key;

use crate::summary::made::{Packet, Trace, compact};

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn counters(packet: &mut Packet<'_>, path: &str, values: &[(Key, u64)]) {
    // `sys_stats` and its `cgroup`.
    packet.nested(7, |stats| {
        stats.nested(15505, |group| {
            group.string(1, path);
            for (key, value) in values {
                group.nested(2, |pair| {
                    pair.varint(1, *key as u64);
                    pair.varint(2, *value);
                });
            }
        });
    });
}

fn process(packet: &mut Packet<'_>, pid: u64, group: &str) {
    packet.nested(2, |tree| {
        tree.nested(1, |process| {
            process.varint(1, pid);
            process.string(3, "program");
            process.string(15505, group);
        });
    });
}

#[test]
fn the_counters_of_a_container_are_differences_and_levels() {
    let path = format!("/system.slice/docker-{ID}.scope");
    let sample = |usage, throttled, memory| {
        [
            (Key::CGROUP_CPU_USAGE_US, usage),
            (Key::CGROUP_CPU_PERIODS, usage / 10),
            (Key::CGROUP_CPU_THROTTLED_PERIODS, throttled),
            (Key::CGROUP_CPU_THROTTLED_US, throttled * 100),
            (Key::CGROUP_MEMORY_CURRENT, memory),
            (Key::CGROUP_MEMORY_MAX, 1 << 20),
        ]
    };
    let summary = Trace::recording(100, 110, |_| {})
        .packet(|p| counters(p, &path, &sample(1000, 2, 10)))
        .packet(|p| counters(p, &path, &sample(2000, 3, 30)))
        .packet(|p| counters(p, &path, &sample(5000, 7, 20)))
        .packet(|p| process(p, 500, &format!("{path}/init.scope")))
        .packet(|p| compact(p, 0, false, &[(101, 0, ""), (101, 500, "a"), (103, 0, "")]))
        .summary();
    let [group] = &summary.cgroups[..] else {
        panic!("one group: {:?}", summary.cgroups);
    };
    assert_eq!((&*group.name, group.engine), (&ID[..12], Some("docker")));
    assert_eq!((group.cpu_ns, group.processes), (Some(4_000_000), 1));
    assert_eq!(group.periods, Some(400));
    assert_eq!(group.throttled_periods, Some(5));
    assert_eq!(group.throttled_ns, Some(500_000));
    let memory = group.memory.expect("memory");
    assert_eq!((memory.first, memory.highest, memory.last), (10, 30, 20));
    assert_eq!(group.memory_limit, Some(1 << 20));
}

#[test]
fn groups_without_counters_have_the_time_of_their_processes() {
    let summary = Trace::recording(100, 110, |_| {})
        .packet(|p| process(p, 500, "/system.slice/nginx.service/worker"))
        .packet(|p| process(p, 501, "/system.slice/nginx.service"))
        .packet(|p| {
            let switches = [(101, 0, ""), (101, 500, "a"), (103, 501, "b"), (104, 0, "")];
            compact(p, 0, false, &switches);
        })
        .summary();
    let [group] = &summary.cgroups[..] else {
        panic!("one group: {:?}", summary.cgroups);
    };
    assert_eq!((&*group.name, group.is_container), ("nginx.service", false));
    assert_eq!((group.cpu_ns, group.processes), (Some(3_000_000_000), 2));
}

#[test]
fn groups_that_were_left_out_are_noted() {
    let summary = Trace::recording(100, 110, |_| {})
        .packet(|p| p.nested(7, |stats| stats.varint(15506, 44)))
        .summary();
    let note = summary
        .notes
        .iter()
        .find(|note| note.contains("44 control groups"));
    assert!(note.is_some(), "{:?}", summary.notes);
}

#[test]
fn damaged_groups_are_harmless() {
    let summary = Trace::recording(100, 110, |_| {})
        .packet(|p| p.nested(7, |stats| stats.bytes(15505, &[0x0a, 0xff, 1, 2])))
        .packet(|p| {
            p.nested(7, |stats| {
                stats.nested(15505, |group| group.bytes(2, &[8, 200, 1]))
            })
        })
        .packet(|p| process(p, 0, "\u{1b}[2J"))
        .summary();
    assert!(
        summary
            .cgroups
            .iter()
            .all(|group| !group.path.contains('\u{1b}'))
    );
}
