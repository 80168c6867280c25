//! Kernel events with values of counters.

use ferretto_proto::fields::{
    cdev_update_ftrace_event as cdev, clock_set_rate_ftrace_event as clock,
    cpu_frequency_ftrace_event as frequency, cpu_frequency_limits_ftrace_event as limits,
    cpu_idle_ftrace_event as idle, devfreq_frequency_ftrace_event as devfreq,
    f2fs_iostat_ftrace_event as iostat, f2fs_iostat_latency_ftrace_event as latency,
    ftrace_event as event, gpu_frequency_ftrace_event as gpu, kfree_skb_ftrace_event as kfree,
    kgsl_gpu_frequency_ftrace_event as kgsl, mm_event_record_ftrace_event as mm,
    net_dev_xmit_ftrace_event as xmit, netif_receive_skb_ftrace_event as receive,
    oom_score_adj_update_ftrace_event as oom, rss_stat_ftrace_event as rss,
    rss_stat_throttled_ftrace_event as throttled, sched_cpu_util_cfs_ftrace_event as util,
    thermal_temperature_ftrace_event as thermal, ufshcd_clk_gating_ftrace_event as gating,
};
use rustc_hash::FxHashMap;

use super::{Context, Head};
use crate::import::message::Message;
use crate::schema::ArgValue;
use crate::stats::Stat;
use crate::store::Store;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::thread_counter::ProcessCounter;
use crate::trackers::track::{Dimension, TrackSpec};

/// The totals of counters, and the owners of address spaces.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Bytes received and sent by network devices.
    received: FxHashMap<StringId, u64>,
    sent: FxHashMap<StringId, u64>,
    /// The number of dropped packets.
    dropped: u64,
    /// The threads of address spaces.
    spaces: FxHashMap<(u32, i64), u32>,
}

/// The maximum number of devices and of address spaces.
const MAX_KEYS: usize = 1 << 16;

/// The Ethernet protocols IP and IPv6.
const ETHERNET_IP: [u32; 2] = [0x800, 0x86dd];

/// The parts of the memory of a process, by number.
const MEMORY: [&str; 5] = ["rss.file", "rss.anon", "swap", "rss.shmem", "unreclaimable"];

/// Events of memory management, by number.
const MM_EVENTS: [&str; 7] = [
    "min_flt",
    "maj_flt",
    "read_io",
    "compaction",
    "reclaim",
    "swp_flt",
    "kern_alloc",
];

impl Counters {
    /// Parses an event. Returns false for other events.
    pub(super) fn parse(
        &mut self,
        cx: &mut Context,
        head: &Head<'_>,
        number: u32,
        body: &[u8],
    ) -> bool {
        let ts = head.ts;
        match number {
            event::CPU_FREQUENCY => {
                let body = Message::<3>::read(body);
                let state = body.u32(frequency::STATE);
                let dimensions = [Dimension::Cpu(body.u32(frequency::CPU_ID))];
                add_named(
                    cx,
                    ts,
                    "cpu_frequency",
                    &dimensions,
                    "cpufreq",
                    state.into(),
                );
            }
            event::CPU_IDLE => {
                let body = Message::<3>::read(body);
                let state = body.u32(idle::STATE);
                let dimensions = [Dimension::Cpu(body.u32(idle::CPU_ID))];
                add_named(cx, ts, "cpu_idle", &dimensions, "cpuidle", state.into());
            }
            event::CPU_FREQUENCY_LIMITS => {
                let body = Message::<4>::read(body);
                let cpu = body.u32(limits::CPU_ID);
                let both = [
                    ("cpu_max_frequency_limit", "Max", limits::MAX_FREQ),
                    ("cpu_min_frequency_limit", "Min", limits::MIN_FREQ),
                ];
                for (type_, which, field) in both {
                    let name = format!("Cpu {cpu} {which} Freq Limit");
                    let value = body.u32(field).into();
                    add_named(cx, ts, type_, &[Dimension::Cpu(cpu)], &name, value);
                }
            }
            event::SCHED_CPU_UTIL_CFS => {
                let body = Message::<12>::read(body);
                let cpu = body.u32(util::CPU);
                let all = [
                    ("cpu_utilization", "Util", util::CPU_UTIL),
                    ("cpu_capacity", "Cap", util::CAPACITY),
                    ("cpu_nr_running", "Nr Running", util::NR_RUNNING),
                ];
                for (type_, what, field) in all {
                    let name = format!("Cpu {cpu} {what}");
                    let value = body.uint(field) as f64;
                    add_named(cx, ts, type_, &[Dimension::Cpu(cpu)], &name, value);
                }
            }
            event::CLOCK_SET_RATE => clock_value(cx, ts, "clock_frequency", "Frequency", body),
            event::CLOCK_ENABLE | event::CLOCK_DISABLE => {
                clock_value(cx, ts, "clock_state", "State", body);
            }
            event::DEVFREQ_FREQUENCY => {
                let body = Message::<3>::read(body);
                let device = text(cx, body.bytes(devfreq::DEV_NAME));
                let whole = cx.store.strings.text(device);
                let name = match whole.find("devfreq_") {
                    // An address may precede it.
                    Some(start) => whole[start..].to_owned(),
                    None => format!("devfreq_{whole}"),
                };
                let dimensions = [Dimension::Text("linux_device", device)];
                let value = body.uint(devfreq::FREQ) as f64;
                add_named(cx, ts, "linux_device_frequency", &dimensions, &name, value);
            }
            event::THERMAL_TEMPERATURE => {
                let body = Message::<5>::read(body);
                let zone = text(cx, body.bytes(thermal::THERMAL_ZONE));
                let name = format!("{} Temperature", cx.store.strings.text(zone));
                let value = body.int(thermal::TEMP) as f64;
                let dimensions = [Dimension::Text("thermal_zone", zone)];
                add_named(cx, ts, "thermal_temperature", &dimensions, &name, value);
            }
            event::CDEV_UPDATE => {
                let body = Message::<3>::read(body);
                let device = text(cx, body.bytes(cdev::TYPE));
                let name = format!("{} Cooling Device", cx.store.strings.text(device));
                let value = body.uint(cdev::TARGET) as f64;
                let dimensions = [Dimension::Text("linux_device", device)];
                add_named(cx, ts, "cooling_device_counter", &dimensions, &name, value);
            }
            event::RSS_STAT => {
                let body = Message::<5>::read(body);
                let space = (body.has(rss::CURR) && body.has(rss::MM_ID))
                    .then(|| (body.int(rss::MM_ID), body.uint(rss::CURR) != 0));
                let (member, size) = (body.u32(rss::MEMBER), body.int(rss::SIZE));
                self.rss(cx, head, space, member, size);
            }
            event::RSS_STAT_THROTTLED => {
                let body = Message::<5>::read(body);
                let space = (body.int(throttled::MM_ID), body.uint(throttled::CURR) != 0);
                let (member, size) = (body.u32(throttled::MEMBER), body.int(throttled::SIZE));
                self.rss(cx, head, Some(space), member, size);
            }
            event::OOM_SCORE_ADJ_UPDATE => {
                let body = Message::<4>::read(body);
                let utid = cx
                    .processes
                    .thread(&mut cx.store, body.u32(oom::PID).into());
                let counter = ProcessCounter {
                    type_: "oom_score_adj",
                    fallback: "oom_score_adj_thread_fallback",
                    dimensions: [None, None],
                    name: cx.store.strings.intern("oom_score_adj"),
                    unit: StringId::NULL,
                };
                let value = body.int(oom::OOM_SCORE_ADJ) as i16;
                of_thread(cx, ts, utid, counter, value.into());
            }
            event::MM_EVENT_RECORD => mm_event(cx, head, body),
            event::NETIF_RECEIVE_SKB => {
                let body = Message::<4>::read(body);
                let traffic = (body.bytes(receive::NAME), body.u32(receive::LEN));
                let names = ("net_receive", "Received KB");
                network(cx, head, &mut self.received, names, traffic);
            }
            event::NET_DEV_XMIT => {
                let body = Message::<5>::read(body);
                if body.int(xmit::RC) == 0 {
                    let traffic = (body.bytes(xmit::NAME), body.u32(xmit::LEN));
                    let names = ("net_transmit", "Transmitted KB");
                    network(cx, head, &mut self.sent, names, traffic);
                }
            }
            event::KFREE_SKB => {
                let protocol = Message::<4>::read(body).u32(kfree::PROTOCOL);
                let names = ETHERNET_IP.into_iter().zip(["IP", "IPV6"]);
                if let Some((_, name)) = names.into_iter().find(|(number, _)| *number == protocol) {
                    self.dropped += 1;
                    let label = text(cx, b"Kfree Skb IP Prot");
                    let spec = TrackSpec::counter("net_kfree_skb", &[]).named(label);
                    let track = cx.tracks.intern(&mut cx.store, spec);
                    let mut args = ArgSet::default();
                    args.text(&mut cx.store, "protocol", name);
                    let value = self.dropped as f64;
                    cx.counters.add(&mut cx.store, ts, track, value, &mut args);
                }
            }
            event::F2FS_IOSTAT => f2fs(cx, ts, body),
            event::F2FS_IOSTAT_LATENCY => f2fs_latency(cx, ts, body),
            event::UFSHCD_CLK_GATING => {
                let state = Message::<3>::read(body).uint(gating::STATE);
                // The values from off to on: off, turning off, turning on, on.
                let value = match state {
                    1 => 3.0,
                    2 => 1.0,
                    3 => 2.0,
                    _ => 0.0,
                };
                let name = "io.ufs.clkgating (OFF:0/REQ_OFF/REQ_ON/ON:3)";
                add_named(cx, ts, "ufs_clkgating", &[], name, value);
            }
            event::GPU_FREQUENCY => {
                let body = Message::<3>::read(body);
                let khz = f64::from(body.u32(gpu::STATE));
                crate::import::gpu::add_frequency(cx, ts, body.u32(gpu::GPU_ID), khz);
            }
            event::KGSL_GPU_FREQUENCY => {
                let body = Message::<3>::read(body);
                let khz = f64::from(body.u32(kgsl::GPU_FREQ)) * 1000.0;
                crate::import::gpu::add_frequency(cx, ts, body.u32(kgsl::GPU_ID), khz);
            }
            event::GPU_MEM_TOTAL => crate::import::gpu::memory(cx, ts, body, true),
            _ => return false,
        }
        true
    }

    fn rss(
        &mut self,
        cx: &mut Context,
        head: &Head<'_>,
        space: Option<(i64, bool)>,
        member: u32,
        size: i64,
    ) {
        if size < 0 {
            cx.store.stats.add(Stat::rss_stat_negative_size, 1);
            return;
        }
        let utid = match space {
            None => Some(cx.processes.thread(&mut cx.store, head.tid)),
            Some((space, is_own)) => {
                let key = (cx.store.machine, space);
                if is_own {
                    let utid = cx.processes.thread(&mut cx.store, head.tid);
                    if self.spaces.len() < MAX_KEYS || self.spaces.contains_key(&key) {
                        self.spaces.insert(key, utid);
                    }
                    Some(utid)
                } else {
                    let owner = self.spaces.get(&key).copied();
                    let alive =
                        owner.filter(|utid| cx.store.tables.thread.end_ts.get(*utid).is_none());
                    if alive.is_none() {
                        self.spaces.remove(&key);
                    }
                    alive
                }
            }
        };
        let Some(utid) = utid else {
            let stat = Stat::rss_stat_unknown_thread_for_mm_id;
            cx.store.stats.add(stat, 1);
            return;
        };
        let key = MEMORY.get(member as usize).copied().unwrap_or("unknown");
        let counter = ProcessCounter {
            type_: "process_memory",
            fallback: "process_memory_thread_fallback",
            dimensions: [Some(("process_memory_key", text(cx, key.as_bytes()))), None],
            name: text(cx, format!("mem.{key}").as_bytes()),
            unit: StringId::NULL,
        };
        of_thread(cx, head.ts, utid, counter, size as f64);
    }
}

fn text(cx: &mut Context, bytes: &[u8]) -> StringId {
    cx.store.strings.intern_bytes(bytes)
}

fn of_thread(cx: &mut Context, ts: i64, utid: u32, counter: ProcessCounter, value: f64) {
    let Context {
        store,
        counters,
        thread_counters,
        ..
    } = cx;
    thread_counters.add(store, counters, ts, utid, counter, value);
}

/// Adds a value of a counter with a name.
pub(crate) fn add_named(
    cx: &mut Context,
    ts: i64,
    type_: &'static str,
    dimensions: &[Dimension],
    name: &str,
    value: f64,
) {
    let name = cx.store.strings.intern(name);
    let spec = TrackSpec::counter(type_, dimensions).named(name);
    let track = cx.tracks.intern(&mut cx.store, spec);
    cx.counters
        .add(&mut cx.store, ts, track, value, &mut ArgSet::default());
}

fn clock_value(cx: &mut Context, ts: i64, type_: &'static str, what: &str, body: &[u8]) {
    let body = Message::<3>::read(body);
    let device = text(cx, body.bytes(clock::NAME));
    let name = format!("{} {what}", cx.store.strings.text(device));
    let dimensions = [Dimension::Text("linux_device", device)];
    let value = body.uint(clock::STATE) as f64;
    add_named(cx, ts, type_, &dimensions, &name, value);
}

fn mm_event(cx: &mut Context, head: &Head<'_>, body: &[u8]) {
    let body = Message::<5>::read(body);
    let Some(type_) = MM_EVENTS.get(body.u32(mm::TYPE) as usize) else {
        cx.store.stats.add(Stat::mm_unknown_type, 1);
        return;
    };
    let utid = cx.processes.thread(&mut cx.store, head.tid);
    let metrics = [
        ("count", mm::COUNT),
        ("max_lat", mm::MAX_LAT),
        ("avg_lat", mm::AVG_LAT),
    ];
    for (metric, field) in metrics {
        let counter = ProcessCounter {
            type_: "mm_event",
            fallback: "mm_event_thread_fallback",
            dimensions: [
                Some(("mm_event_type", text(cx, type_.as_bytes()))),
                Some(("mm_event_metric", text(cx, metric.as_bytes()))),
            ],
            name: text(cx, format!("mem.mm.{type_}.{metric}").as_bytes()),
            unit: StringId::NULL,
        };
        let value = body.u32(field).into();
        of_thread(cx, head.ts, utid, counter, value);
    }
}

/// Adds to the traffic of a network device.
fn network(
    cx: &mut Context,
    head: &Head<'_>,
    totals: &mut FxHashMap<StringId, u64>,
    (type_, what): (&'static str, &str),
    (device, length): (&[u8], u32),
) {
    let device = text(cx, device);
    if totals.len() >= MAX_KEYS && !totals.contains_key(&device) {
        return;
    }
    let total = totals.entry(device).or_default();
    *total = total.saturating_add(length.into());
    let value = (*total / 1024) as f64;
    let name = format!("{} {what}", cx.store.strings.text(device));
    let name = cx.store.strings.intern(&name);
    let dimensions = [Dimension::Text("network_interface", device)];
    let spec = TrackSpec::counter(type_, &dimensions).named(name);
    let track = cx.tracks.intern(&mut cx.store, spec);
    let mut args = ArgSet::default();
    let store: &mut Store = &mut cx.store;
    args.put(store, "cpu", ArgValue::Uint(head.cpu.into()));
    args.put(store, "len", ArgValue::Uint(length.into()));
    cx.counters.add(store, head.ts, track, value, &mut args);
}

/// The counters of `f2fs_iostat`, and their fields.
const F2FS: [(&str, u32); 22] = [
    ("write_app_total", iostat::APP_WIO),
    ("write_app_direct", iostat::APP_DIO),
    ("write_app_buffered", iostat::APP_BIO),
    ("write_app_mapped", iostat::APP_MIO),
    ("write_fs_data", iostat::FS_DIO),
    ("write_fs_node", iostat::FS_NIO),
    ("write_fs_meta", iostat::FS_MIO),
    ("write_gc_data", iostat::FS_GC_DIO),
    ("write_gc_node", iostat::FS_GC_NIO),
    ("write_cp_data", iostat::FS_CP_DIO),
    ("write_cp_node", iostat::FS_CP_NIO),
    ("write_cp_meta", iostat::FS_CP_MIO),
    ("read_app_total", iostat::APP_RIO),
    ("read_app_direct", iostat::APP_DRIO),
    ("read_app_buffered", iostat::APP_BRIO),
    ("read_app_mapped", iostat::APP_MRIO),
    ("read_fs_data", iostat::FS_DRIO),
    ("read_fs_gdata", iostat::FS_GDRIO),
    ("read_fs_cdata", iostat::FS_CDRIO),
    ("read_fs_node", iostat::FS_NRIO),
    ("read_fs_meta", iostat::FS_MRIO),
    ("other_fs_discard", iostat::FS_DISCARD),
];

fn f2fs(cx: &mut Context, ts: i64, body: &[u8]) {
    let body = Message::<32>::read(body);
    let device = body.uint(iostat::DEV);
    let counters = F2FS.map(|(key, field)| (key.to_owned(), body.uint(field)));
    f2fs_counters(cx, ts, "f2fs_iostat", device, counters);
}

/// The kinds of requests of `f2fs_iostat_latency`, with the fields of their maximum and average
/// time and their number.
const F2FS_LATENCY: [(&str, [u32; 3]); 9] = [
    (
        "read_data",
        [latency::D_RD_PEAK, latency::D_RD_AVG, latency::D_RD_CNT],
    ),
    (
        "read_node",
        [latency::N_RD_PEAK, latency::N_RD_AVG, latency::N_RD_CNT],
    ),
    (
        "read_meta",
        [latency::M_RD_PEAK, latency::M_RD_AVG, latency::M_RD_CNT],
    ),
    (
        "write_sync_data",
        [
            latency::D_WR_S_PEAK,
            latency::D_WR_S_AVG,
            latency::D_WR_S_CNT,
        ],
    ),
    (
        "write_sync_node",
        [
            latency::N_WR_S_PEAK,
            latency::N_WR_S_AVG,
            latency::N_WR_S_CNT,
        ],
    ),
    (
        "write_sync_meta",
        [
            latency::M_WR_S_PEAK,
            latency::M_WR_S_AVG,
            latency::M_WR_S_CNT,
        ],
    ),
    (
        "write_async_data",
        [
            latency::D_WR_AS_PEAK,
            latency::D_WR_AS_AVG,
            latency::D_WR_AS_CNT,
        ],
    ),
    (
        "write_async_node",
        [
            latency::N_WR_AS_PEAK,
            latency::N_WR_AS_AVG,
            latency::N_WR_AS_CNT,
        ],
    ),
    (
        "write_async_meta",
        [
            latency::M_WR_AS_PEAK,
            latency::M_WR_AS_AVG,
            latency::M_WR_AS_CNT,
        ],
    ),
];

fn f2fs_latency(cx: &mut Context, ts: i64, body: &[u8]) {
    let body = Message::<29>::read(body);
    let counters = F2FS_LATENCY.into_iter().flat_map(|(kind, fields)| {
        let parts = ["peak", "avg", "cnt"].into_iter().zip(fields);
        parts.map(move |(part, field)| (format!("{kind}_{part}"), body.uint(field)))
    });
    let device = body.uint(latency::DEV);
    f2fs_counters(cx, ts, "f2fs_iostat_latency", device, counters);
}

fn f2fs_counters(
    cx: &mut Context,
    ts: i64,
    type_: &'static str,
    device: u64,
    counters: impl IntoIterator<Item = (String, u64)>,
) {
    let device = format!("{}:{}", device >> 8 & 0xff, device & 0xff);
    let dimension = text(cx, device.as_bytes());
    for (key, value) in counters {
        let dimensions = [
            Dimension::Text("linux_device", dimension),
            Dimension::Text("counter_key", text(cx, key.as_bytes())),
        ];
        let name = format!("{type_}.[{device}].{key}");
        add_named(cx, ts, type_, &dimensions, &name, value as f64);
    }
}
