//! Damaged kernel events and system counters.

use ferretto_tables::{Options, Trace};

const WHOLE: &str = r#"
    packet { trusted_packet_sequence_id: 1 sequence_flags: 1 timestamp: 1
        interned_data { kernel_symbols { iid: 7 str: "do_wait" } }
        process_tree { processes { pid: 10 ppid: 2 cmdline: "kworker/0:1-x" nspid: 4 nspid: 5 uid: 7 }
            threads { tid: 11 tgid: 10 name: "t" nstid: 4 } } }
    packet { system_info { utsname { sysname: "Linux" release: "6.1" machine: "x86_64" } page_size: 4096 } }
    packet { cpu_info { cpus { processor: "a" frequencies: 1 frequencies: 2 capacity: 5 features: 7 } } }
    packet { timestamp: 2 process_stats { processes { pid: 10 vm_rss_kb: 4 fds { fd: 1 path: "x" } } } }
    packet { timestamp: 3 sys_stats { meminfo { key: MEMINFO_MEM_FREE value: 5 } cpufreq_khz: 5
        disk_stat { device_name: "sda" read_sectors: 5 } buddy_info { node: "0" zone: "n" order_pages: 4 }
        cpuidle_state { cpu_id: 1 cpuidle_state_entry { state: "C1" duration_us: 6 } }
        slab_info { name: "d" pages_per_slab: 1 num_slabs: 2 } } }
    packet { timestamp: 3 journald_event { pid: 4 prio: 5 message: "m" } }
    packet { trusted_packet_sequence_id: 1 ftrace_stats { phase: START_OF_TRACE
        cpu_stats { cpu: 0 entries: 5 now_ts: 1.5 } kprobe_stats { hits: 1 misses: 2 } } }
    packet { trusted_packet_sequence_id: 1 ftrace_events { cpu: 0 ftrace_clock: FTRACE_CLOCK_GLOBAL
        ftrace_timestamp: 100 boot_timestamp: 200
        event { timestamp: 10 pid: 1 sched_switch { prev_pid: 1 prev_state: 2 next_pid: 2 next_comm: "b" } }
        event { timestamp: 11 pid: 2 sched_waking { pid: 1 comm: "a" } }
        event { timestamp: 12 pid: 2 sched_blocked_reason { pid: 1 caller: 7 } }
        event { timestamp: 13 pid: 2 task_newtask { pid: 5 comm: "n" clone_flags: 0x10000 } }
        event { timestamp: 14 pid: 2 task_rename { pid: 5 newcomm: "m" } }
        event { timestamp: 15 pid: 2 sched_process_free { pid: 5 } }
        event { timestamp: 16 pid: 2 print { buf: "B|1|x" } }
        event { timestamp: 17 pid: 2 print { buf: "S|1|x|5" } }
        event { timestamp: 18 pid: 2 sys_enter { id: 1 args: 1 } }
        event { timestamp: 19 pid: 2 sys_exit { id: 1 ret: 1 } }
        event { timestamp: 20 pid: 2 irq_handler_entry { irq: 1 name: "i" } }
        event { timestamp: 21 pid: 2 cpu_frequency { state: 5 cpu_id: 1 } }
        event { timestamp: 22 pid: 2 rss_stat { member: 1 size: 5 curr: 1 mm_id: 3 } }
        event { timestamp: 23 pid: 2 suspend_resume { action: "suspend_enter" val: 3 start: 1 } }
        event { timestamp: 24 pid: 2 inet_sock_set_state { protocol: 6 family: 2 newstate: 1 oldstate: 2 } } } }
"#;

#[test]
fn query_145_damaged_kernel_events_cause_no_panic() {
    let whole = crate::common::encode(WHOLE);
    let mut random = 7_u64;
    let mut next = |bound: usize| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % bound
    };
    let options = Options {
        threads: 1,
        ..Options::default()
    };
    for _ in 0..400 {
        let mut bytes = whole.clone();
        for _ in 0..=next(4) {
            let at = next(bytes.len());
            bytes[at] = match next(3) {
                0 => 0xff,
                1 => bytes[at] ^ 1 << next(8),
                _ => next(256) as u8,
            };
        }
        if next(4) == 0 {
            bytes.truncate(next(bytes.len()));
        }
        // Errors are permitted as well.
        if let Ok(trace) = Trace::read(&bytes[..], &options) {
            assert!(trace.memory() < 64 << 20);
        }
    }
}
