//! Counters and properties of the system.

use crate::common::{args, import, rows, stat};

#[test]
fn query_083_counters_have_the_names_and_units_of_the_system() {
    let trace = import(
        "packet { timestamp: 5 sys_stats {
            meminfo { key: MEMINFO_MEM_FREE value: 5 }
            vmstat { key: VMSTAT_NR_FREE_PAGES value: 6 }
            cpu_stat { cpu_id: 1 user_ns: 7 }
            psi { resource: PSI_RESOURCE_IO_FULL total_ns: 8 }
            num_forks: 9
            num_irq { irq: 3 count: 10 }
            thermal_zone { name: \"z\" temp: 45 type: \"x86_pkg\" }
            slab_info { name: \"dentry\" pages_per_slab: 2 num_slabs: 3 } } }
         packet { timestamp: 6 process_stats { processes { pid: 30 vm_rss_kb: 3 oom_score_adj: -5
            runtime_user_mode: 11 smr_pss_kb: 2 fds { fd: 4 path: \"/dev/null\" } } } }",
    );
    let values = rows(&trace, "counter", "ts track_id value");
    let tracks = rows(&trace, "track", "type name counter_unit");
    let all: Vec<String> = values
        .iter()
        .map(|row| {
            let mut parts = row.split(' ');
            let (ts, track) = (parts.next().unwrap(), parts.next().unwrap());
            let track: usize = track.parse().unwrap();
            format!("{ts} {} {}", tracks[track], parts.next().unwrap())
        })
        .collect();
    for expected in [
        "5 meminfo MemFree bytes 5120",
        "5 vmstat nr_free_pages NULL 6",
        "5 cpustat cpu.times.user_ns NULL 7",
        "5 psi psi.io.full NULL 8",
        "5 num_forks num_forks NULL 9",
        "5 num_irq num_irq (id: 3) NULL 10",
        "5 thermal_temperature_sys x86_pkg C 45",
        "5 slabinfo mem.slab.dentry bytes 24576",
        "6 process_memory mem.rss NULL 3072",
        "6 oom_score_adj oom_score_adj NULL -5",
        "6 proc_stat_runtime runtime.user_ns NULL 11",
        "6 smaps mem.smaps.pss NULL 2048",
    ] {
        assert!(all.contains(&expected.to_owned()), "{expected}: {all:#?}");
    }
    assert_eq!(
        rows(&trace, "filedescriptor", "fd ts path"),
        ["4 6 /dev/null"]
    );
}

#[test]
fn query_084_counters_of_disks_are_differences() {
    let sample = |ts: u64, sectors: u64, time: u64| {
        format!(
            "packet {{ timestamp: {ts} sys_stats {{ disk_stat {{ device_name: \"sda\"
                read_sectors: {sectors} read_time_ms: {time} write_sectors: {sectors} }} }} }}"
        )
    };
    let trace = import(&format!("{} {}", sample(1, 0, 0), sample(2, 4096, 500)));
    let tracks = rows(&trace, "track", "name counter_unit");
    let values = rows(&trace, "counter", "ts value");
    let all: Vec<_> = tracks.iter().zip(&values).collect();
    assert_eq!(values.len(), 8);
    let expected = [
        ("diskstat.[sda].read_amount MB", "2 2"),
        ("diskstat.[sda].read_throughput MB/s", "2 4"),
        ("diskstat.[sda].write_amount MB", "2 2"),
        ("diskstat.[sda].write_throughput MB/s", "2 0"),
    ];
    for (name, value) in expected {
        assert!(
            all.contains(&(&name.to_owned(), &value.to_owned())),
            "{name}: {all:?}"
        );
    }
}

#[test]
fn query_086_used_cpus_have_clusters() {
    let by_capacity = import(
        "packet { cpu_info { cpus { processor: \"A\" capacity: 1024 frequencies: 300 frequencies: 600 }
            cpus { processor: \"A\" capacity: 400 } cpus { processor: \"A\" capacity: 1024 } } }",
    );
    let columns = "id cpu cluster_id processor capacity";
    let seen: Vec<_> = rows(&by_capacity, "cpu", columns)
        .into_iter()
        .filter(|row| !row.contains("NULL"))
        .collect();
    assert_eq!(seen, ["0 0 1 A 1024", "1 1 0 A 400", "2 2 1 A 1024"]);
    assert_eq!(
        rows(&by_capacity, "cpu_freq", "ucpu freq"),
        ["0 300", "0 600"]
    );
    let by_frequency = import(
        "packet { cpu_info { cpus { frequencies: 5 frequencies: 9 } cpus { frequencies: 7 } } }",
    );
    assert_eq!(rows(&by_frequency, "cpu", "cluster_id")[..2], ["1", "0"]);
}

#[test]
fn unknown_counters_are_counted() {
    let trace = import(
        "packet { timestamp: 5 sys_stats { meminfo { key: 0 value: 5 } cpu_stat { user_ns: 1 } } }",
    );
    assert_eq!(stat(&trace, "invalid_cpu_times"), 1);
    assert_eq!(stat(&trace, "meminfo_unknown_keys"), 1);
}

#[test]
fn lines_of_the_journal_are_in_the_logs() {
    let trace = import(
        "packet { timestamp: 5 journald_event { pid: 20 tid: 21 uid: 0 prio: 6 tag: \"sshd\"
            message: \"hello\" comm: \"sshd\" } }
         packet { timestamp: 9 journald_event { num_total: 1 num_failed: 0 } }",
    );
    let columns = "ts utid prio log_source tag msg";
    let logs = rows(&trace, "logs", columns);
    assert_eq!(logs, ["5 2 6 systemd_journald sshd hello"]);
    let set = trace.tables().logs.arg_set_id().get(0);
    assert_eq!(args(&trace, set), ["uid=0", r#"comm="sshd""#]);
    assert_eq!(stat(&trace, "systemd_journal_num_total"), 1);
}

#[test]
fn interrupts_have_names() {
    let trace = import(
        "packet { interrupt_info { irq_mapping { irq_id: 9 name: \"acpi\" }
            irq_mapping { irq_id: 9 name: \"other\" } } }",
    );
    let names = rows(&trace, "linux_interrupt_mapping", "irq_id name");
    assert_eq!(names, ["9 acpi"]);
}

#[test]
fn counters_of_control_groups_have_a_track_each() {
    let id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let trace = import(&format!(
        "packet {{ timestamp: 5 sys_stats {{
            cgroup {{ path: \"/docker/{id}\"
                value {{ key: CGROUP_CPU_USAGE_US value: 7 }}
                value {{ key: CGROUP_MEMORY_CURRENT value: 8 }} }}
            cgroup {{ path: \"/system.slice/nginx.service\"
                value {{ key: CGROUP_PSI_MEMORY_FULL_US value: 9 }} }} }} }}"
    ));
    assert_eq!(
        rows(&trace, "track", "type name counter_unit"),
        [
            "cgroup cgroup.[0123456789ab].cpu.usage us",
            "cgroup cgroup.[0123456789ab].memory.current bytes",
            "cgroup cgroup.[nginx.service].psi.memory.full us",
        ]
    );
    assert_eq!(rows(&trace, "counter", "ts value"), ["5 7", "5 8", "5 9"]);
}

#[test]
fn processes_name_their_container_and_unit() {
    let id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let trace = import(&format!(
        "packet {{ timestamp: 5 process_tree {{ processes {{ pid: 30 ppid: 1 cmdline: \"a\"
            cgroup: \"/old.slice\" }} }} }}
         packet {{ timestamp: 6 process_tree {{ processes {{ pid: 30 ppid: 1 cmdline: \"a\"
            cgroup: \"/system.slice/docker-{id}.scope\" }} }} }}"
    ));
    let set = trace.tables().process.arg_set_id().get(2);
    let found = args(&trace, set);
    for expected in [
        format!("cgroup.container=\"{id}\""),
        "cgroup.engine=\"docker\"".to_owned(),
        format!("cgroup.path=\"/system.slice/docker-{id}.scope\""),
        format!("cgroup.unit=\"docker-{id}.scope\""),
    ] {
        assert!(found.contains(&expected), "{found:?}");
    }
}

#[test]
fn the_fingerprint_of_android_has_its_release_and_build() {
    let of = |info: &str| {
        let trace = import(&format!("packet {{ system_info {{ {info} }} }}"));
        let all = rows(&trace, "metadata", "name str_value int_value");
        let is_wanted =
            |row: &String| row.starts_with("android_sdk") || row.starts_with("android_incremental");
        all.into_iter().filter(is_wanted).collect::<Vec<_>>()
    };
    let known = "android_build_fingerprint: \"google/coral/coral:12/SP1A.2/767:userdebug/keys\"";
    assert_eq!(
        of(known),
        [
            "android_incremental_build 767 NULL",
            "android_sdk_version NULL 31"
        ]
    );
    // A version of its own applies.
    assert_eq!(
        of(&format!("{known} android_sdk_version: 33")),
        [
            "android_sdk_version NULL 33",
            "android_incremental_build 767 NULL"
        ]
    );
    assert!(of("android_build_fingerprint: \"nothing\"").is_empty());
}
