//! Tests of control groups with simulated mounts, and with those of this machine.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::Packets;
use ferretto_probes::{DataSource as _, ProcessStats, SysStats};
use ferretto_proto::CgroupCounters as Key;
use ferretto_proto::trace_packet::Data;
use ferretto_proto::{ProcessStatsConfig, SysStatsConfig};

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("created");
    fs::write(path, text).expect("written");
}

/// The counters of each group, the number of groups left out, and the problems.
#[derive(Debug, Default)]
struct Sample {
    groups: BTreeMap<String, BTreeMap<i32, u64>>,
    left_out: u32,
    problems: Vec<String>,
}

impl Sample {
    fn get(&self, path: &str, key: Key) -> Option<u64> {
        self.groups.get(path)?.get(&(key as i32)).copied()
    }

    fn paths(&self) -> Vec<&str> {
        self.groups.keys().map(String::as_str).collect()
    }
}

fn source(
    root: &Path,
    paths: &[&str],
    packets: &Packets,
    problems: &RefCell<Vec<String>>,
) -> SysStats {
    let config = SysStatsConfig {
        cgroup_period_ms: Some(1000),
        cgroup_paths: paths.iter().map(|path| path.as_bytes().to_vec()).collect(),
        ..Default::default()
    };
    let log = |problem: &str| problems.borrow_mut().push(problem.to_owned());
    SysStats::with_root(root, &config, Box::new(packets.clone()), &log)
}

fn last(packets: &Packets) -> Sample {
    let mut sample = Sample::default();
    let packet = packets.decoded().pop().expect("a packet");
    let Some(Data::SysStats(stats)) = packet.data else {
        panic!("not counters: {packet:?}");
    };
    sample.left_out = stats.cgroups_left_out.unwrap_or(0);
    for group in &stats.cgroup {
        let path = String::from_utf8(group.path.clone().expect("a path")).expect("text");
        let values = group.value.iter();
        let values = values.map(|it| (it.key.expect("a key") as i32, it.value.expect("a value")));
        sample.groups.insert(path, values.collect());
    }
    sample
}

fn sample(root: &Path, paths: &[&str]) -> Sample {
    let (packets, problems) = (Packets::default(), RefCell::default());
    source(root, paths, &packets, &problems).poll();
    let mut sample = last(&packets);
    sample.problems = problems.into_inner();
    sample
}

fn version_2(root: &Path) {
    let mount = "22 1 0:20 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
    write(root, "proc/self/mountinfo", mount);
    for (path, usage) in [
        ("system.slice/nginx.service", 10),
        (&*format!("system.slice/docker-{ID}.scope"), 20),
        (&*format!("system.slice/docker-{ID}.scope/inner"), 30),
        ("user.slice", 40),
    ] {
        let file = |name: &str| format!("sys/fs/cgroup/{path}/{name}");
        let text = format!("usage_usec {usage}\nnr_throttled 3\nthrottled_usec 5\n");
        write(root, &file("cpu.stat"), &text);
        write(root, &file("memory.current"), "4096\n");
        write(root, &file("memory.max"), "max\n");
        write(root, &file("memory.events"), "low 1\noom 2\noom_kill 7\n");
        write(root, &file("pids.current"), "4\n");
        let pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=9\nfull avg10=0 total=8\n";
        write(root, &file("cpu.pressure"), pressure);
    }
}

#[test]
fn containers_are_counted_without_being_named() {
    let folder = tempfile::tempdir().expect("a folder");
    version_2(folder.path());
    let sample = sample(folder.path(), &[]);
    let docker = format!("/system.slice/docker-{ID}.scope");
    assert_eq!(sample.paths(), [docker.as_str()]);
    for (key, expected) in [
        (Key::CGROUP_CPU_USAGE_US, Some(20)),
        (Key::CGROUP_CPU_THROTTLED_PERIODS, Some(3)),
        (Key::CGROUP_CPU_THROTTLED_US, Some(5)),
        (Key::CGROUP_MEMORY_CURRENT, Some(4096)),
        (Key::CGROUP_MEMORY_MAX, None),
        (Key::CGROUP_MEMORY_OOM_KILLS, Some(7)),
        (Key::CGROUP_PIDS_CURRENT, Some(4)),
        (Key::CGROUP_PSI_CPU_SOME_US, Some(9)),
        (Key::CGROUP_PSI_CPU_FULL_US, Some(8)),
    ] {
        assert_eq!(sample.get(&docker, key), expected, "{key:?}");
    }
    assert!(sample.problems.is_empty(), "{:?}", sample.problems);
}

#[test]
fn groups_are_selected_by_path_pattern_and_name() {
    let folder = tempfile::tempdir().expect("a folder");
    version_2(folder.path());
    let paths = |patterns: &[&str]| sample(folder.path(), patterns).groups.len();
    assert_eq!(paths(&["nginx.service"]), 1);
    assert_eq!(paths(&["/system.slice/nginx.service", "user.slice"]), 2);
    assert_eq!(paths(&["/system.slice/*"]), 3);
    assert_eq!(paths(&[&ID[..12]]), 2);
    let missing = sample(folder.path(), &["apache.service"]);
    assert!(
        missing.problems[0].contains("apache.service"),
        "{missing:?}"
    );
    let nowhere = sample(&folder.path().join("nowhere"), &["nginx.service"]);
    assert!(nowhere.problems[0].contains("mount cgroup2"), "{nowhere:?}");
}

#[test]
fn groups_that_come_and_go_are_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    version_2(folder.path());
    let (packets, problems) = (Packets::default(), RefCell::default());
    let mut source = source(folder.path(), &["*.service"], &packets, &problems);
    source.poll();
    assert_eq!(last(&packets).paths(), ["/system.slice/nginx.service"]);
    let groups = folder.path().join("sys/fs/cgroup/system.slice");
    fs::rename(groups.join("nginx.service"), groups.join("new.service")).expect("renamed");
    for _ in 0..5 {
        source.poll();
    }
    assert_eq!(last(&packets).paths(), ["/system.slice/new.service"]);
}

#[test]
fn the_number_of_groups_is_limited_and_others_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    version_2(folder.path());
    for number in 0..300 {
        let path = format!("sys/fs/cgroup/batch/job{number}/memory.current");
        write(folder.path(), &path, "1\n");
    }
    let sample = sample(folder.path(), &["job*"]);
    assert_eq!((sample.groups.len(), sample.left_out), (256, 44));
    assert!(
        sample.problems[0].contains("44 control groups"),
        "{:?}",
        sample.problems
    );
}

#[test]
fn the_hierarchies_of_version_1_are_one_group() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    // As a container without a namespace for groups sees it: the mount is its own group.
    let mounts = format!(
        "30 1 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:5 - cgroup cgroup rw,cpu,cpuacct\n\
         31 1 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
         32 1 0:32 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n\
         33 1 0:33 /docker/{ID} /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids\n\
         34 1 0:34 / /sys/fs/cgroup/unified rw - cgroup2 cgroup rw\nbroken\n - cgroup2\n"
    );
    write(root, "proc/self/mountinfo", &mounts);
    let cpu = format!("sys/fs/cgroup/cpu,cpuacct/docker/{ID}");
    write(root, &format!("{cpu}/cpuacct.usage"), "7000\n");
    write(
        root,
        &format!("{cpu}/cpu.stat"),
        "nr_throttled 2\nthrottled_time 9000\n",
    );
    let memory = format!("sys/fs/cgroup/memory/docker/{ID}");
    write(root, &format!("{memory}/memory.usage_in_bytes"), "8192\n");
    write(root, "sys/fs/cgroup/pids/pids.current", "3\n");
    fs::create_dir_all(root.join("sys/fs/cgroup/unified")).expect("created");
    let sample = sample(root, &[]);
    let path = format!("/docker/{ID}");
    assert_eq!(sample.paths(), [path.as_str()]);
    for (key, expected) in [
        (Key::CGROUP_CPU_USAGE_US, 7),
        (Key::CGROUP_CPU_THROTTLED_PERIODS, 2),
        (Key::CGROUP_CPU_THROTTLED_US, 9),
        (Key::CGROUP_MEMORY_CURRENT, 8192),
        (Key::CGROUP_PIDS_CURRENT, 3),
    ] {
        assert_eq!(sample.get(&path, key), Some(expected), "{key:?}");
    }
}

#[test]
fn the_group_of_each_process_is_in_the_process_tree() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    for (pid, group) in [
        (40, format!("0::/system.slice/docker-{ID}.scope\n")),
        (41, "9:name=systemd:/\n4:memory:/jobs/1\n0::/\n".to_owned()),
        (42, "0::/\n".to_owned()),
    ] {
        let status = format!("Name:\tp\nTgid:\t{pid}\nPid:\t{pid}\nPPid:\t1\nUid:\t0\n");
        write(root, &format!("{pid}/status"), &status);
        write(root, &format!("{pid}/cgroup"), &group);
        write(root, &format!("{pid}/cmdline"), "program\0");
    }
    let packets = Packets::default();
    let config = ProcessStatsConfig::default();
    let mut source = ProcessStats::with_root(root, &config, Box::new(packets.clone()));
    source.on_pids(&[40, 41, 42]);
    let packet = packets.decoded().pop().expect("a packet");
    let Some(Data::ProcessTree(tree)) = packet.data else {
        panic!("no tree: {packet:?}");
    };
    let groups = tree.processes.iter().map(|process| process.cgroup.clone());
    let groups: Vec<_> = groups
        .map(|it| it.map(|it| String::from_utf8(it).expect("text")))
        .collect();
    let docker = format!("/system.slice/docker-{ID}.scope");
    assert_eq!(groups, [Some(docker), Some("/jobs/1".to_owned()), None]);
}

#[test]
fn the_groups_of_this_machine_are_read() {
    let sample = sample(Path::new("/"), &["/"]);
    if !sample.problems.is_empty() {
        println!("skipped: {:?}", sample.problems);
        return;
    }
    let usage = sample.get("/", Key::CGROUP_CPU_USAGE_US);
    assert!(usage > Some(0), "{sample:?}");
}
