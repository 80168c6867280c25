//! Counters of the system.

use ferretto_format::cgroup::{COUNTERS, Group};
use ferretto_format::kernel_names;
use ferretto_proto::fields::sys_stats::{
    self as field, buddy_info, cgroup, cgroup_value, cpu_idle_state, cpu_idle_state_entry,
    cpu_times, devfreq_value, disk_stat, psi_sample, slab_info, thermal_zone, vmstat_value,
};
use ferretto_wire::{Field, Fields};
use rustc_hash::FxHashMap;

use crate::import::context::Context;
use crate::import::ftrace::add_named;
use crate::import::message::Message;
use crate::schema::ArgValue;
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::track::{Dimension, TrackSpec};

/// The last samples of disks, for differences, and the names of counters.
#[derive(Debug, Default)]
pub(super) struct SysStats {
    disks: FxHashMap<(u32, StringId), Disk>,
    /// The names by number.
    meminfo: Vec<StringId>,
    vmstat: Vec<StringId>,
}

/// The maximum number of disks.
const MAX_DISKS: usize = 1 << 14;
/// The maximum number of orders of free blocks.
const MAX_ORDERS: usize = 32;
/// The maximum number of CPUs.
const MAX_CPUS: u32 = 1024;

/// The totals of a disk at the last sample.
#[derive(Debug, Clone, Copy)]
struct Disk {
    /// Read, written and discarded sectors.
    sectors: [i64; 3],
    /// The time of each in milliseconds.
    times: [i64; 3],
    flushes: i64,
    flush_time: i64,
}

/// The kinds of counters, in the order of their rows.
const KINDS: [u32; 19] = [
    field::MEMINFO,
    field::DEVFREQ,
    field::CPUFREQ_KHZ,
    field::VMSTAT,
    field::CPU_STAT,
    field::NUM_IRQ,
    field::NUM_SOFTIRQ,
    field::NUM_FORKS,
    field::NUM_IRQ_TOTAL,
    field::NUM_SOFTIRQ_TOTAL,
    field::BUDDY_INFO,
    field::DISK_STAT,
    field::PSI,
    field::THERMAL_ZONE,
    field::CPUIDLE_STATE,
    field::GPUFREQ_MHZ,
    field::SLAB_INFO,
    field::CGROUP,
    field::CGROUPS_LEFT_OUT,
];

const CPU_TIMES: [(&str, u32); 8] = [
    ("user_ns", cpu_times::USER_NS),
    ("user_nice_ns", cpu_times::USER_NICE_NS),
    ("system_mode_ns", cpu_times::SYSTEM_MODE_NS),
    ("idle_ns", cpu_times::IDLE_NS),
    ("io_wait_ns", cpu_times::IO_WAIT_NS),
    ("irq_ns", cpu_times::IRQ_NS),
    ("softirq_ns", cpu_times::SOFTIRQ_NS),
    ("steal_ns", cpu_times::STEAL_NS),
];

const PRESSURE: [&str; 7] = [
    "resource.unspecified",
    "cpu.some",
    "cpu.full",
    "io.some",
    "io.full",
    "mem.some",
    "mem.full",
];

impl SysStats {
    /// Reads a `SysStats`.
    pub(super) fn parse(&mut self, cx: &mut Context, ts: i64, bytes: &[u8]) {
        let mut kinds = 0_u64;
        for part in Fields::new(bytes).map_while(Result::ok) {
            kinds |= 1 << (part.number & 63);
        }
        for kind in KINDS {
            if kinds >> (kind & 63) & 1 != 0 {
                self.kind(cx, ts, bytes, kind);
            }
        }
    }

    /// Parses the counters of one kind.
    fn kind(&mut self, cx: &mut Context, ts: i64, bytes: &[u8], kind: u32) {
        let mut cpu = 0;
        let fields = Fields::new(bytes).map_while(Result::ok);
        for part in fields.filter(|part| part.number == kind) {
            let body = part.as_bytes().unwrap_or_default();
            match part.number {
                field::MEMINFO => {
                    fill(cx, &mut self.meminfo, kernel_names::meminfo_keys());
                    let names = &self.meminfo;
                    let stat = Stat::meminfo_unknown_keys;
                    let dimension = ("meminfo", "meminfo_key", "bytes");
                    numbered(cx, ts, names, stat, dimension, (body, 1024.0));
                }
                field::VMSTAT => {
                    fill(cx, &mut self.vmstat, kernel_names::vmstat_keys());
                    let names = &self.vmstat;
                    let stat = Stat::vmstat_unknown_keys;
                    let dimension = ("vmstat", "vmstat_key", "");
                    numbered(cx, ts, names, stat, dimension, (body, 1.0));
                }
                field::CPU_STAT => times(cx, ts, body),
                field::NUM_FORKS => total(cx, ts, "num_forks", part),
                field::NUM_IRQ_TOTAL => total(cx, ts, "num_irq_total", part),
                field::NUM_SOFTIRQ_TOTAL => total(cx, ts, "num_softirq_total", part),
                field::NUM_IRQ => interrupts(cx, ts, "num_irq", body),
                field::NUM_SOFTIRQ => interrupts(cx, ts, "num_softirq", body),
                field::DEVFREQ => {
                    let pair = Message::<3>::read(body);
                    let device = text(cx, pair.bytes(devfreq_value::KEY));
                    let name = format!("{} Frequency", cx.store.strings.text(device));
                    let dimensions = [Dimension::Text("linux_device", device)];
                    let value = pair.uint(devfreq_value::VALUE) as f64;
                    add_named(cx, ts, "clock_frequency", &dimensions, &name, value);
                }
                field::CPUFREQ_KHZ => {
                    for frequency in part.as_varints() {
                        if cpu < MAX_CPUS {
                            let dimensions = [Dimension::Cpu(cpu)];
                            let value = f64::from(frequency as u32);
                            add_named(cx, ts, "cpu_frequency", &dimensions, "cpufreq", value);
                        }
                        cpu += 1;
                    }
                }
                field::BUDDY_INFO => buddies(cx, ts, body),
                field::DISK_STAT => self.disk(cx, ts, body),
                field::PSI => {
                    let pair = Message::<3>::read(body);
                    match PRESSURE.get(pair.uint(psi_sample::RESOURCE) as usize) {
                        Some(key) => {
                            let dimensions =
                                [Dimension::Text("psi_resource", text(cx, key.as_bytes()))];
                            let value = pair.uint(psi_sample::TOTAL_NS) as f64;
                            add_named(cx, ts, "psi", &dimensions, &format!("psi.{key}"), value);
                        }
                        None => cx.store.stats.add(Stat::psi_unknown_resource, 1),
                    }
                }
                field::THERMAL_ZONE => {
                    let zone = Message::<4>::read(body);
                    let name = text(cx, zone.bytes(thermal_zone::TYPE));
                    let value = zone.int(thermal_zone::TEMP) as f64;
                    let dimensions = [Dimension::Text("thermal_zone", name)];
                    let spec = TrackSpec::counter("thermal_temperature_sys", &dimensions);
                    add(cx, ts, spec.named(name), "C", value, &mut ArgSet::default());
                }
                field::CPUIDLE_STATE => idle(cx, ts, body),
                field::GPUFREQ_MHZ => {
                    for frequency in part.as_varints() {
                        crate::import::gpu::add_frequency(cx, ts, 0, frequency as f64);
                    }
                }
                field::SLAB_INFO => slab(cx, ts, body),
                field::CGROUP => control_group(cx, ts, body),
                field::CGROUPS_LEFT_OUT => total(cx, ts, "cgroups_left_out", part),
                _ => {}
            }
        }
    }

    fn disk(&mut self, cx: &mut Context, ts: i64, body: &[u8]) {
        let sample = Message::<10>::read(body);
        let device = text(cx, sample.bytes(disk_stat::DEVICE_NAME));
        let ints = |fields: [u32; 3]| fields.map(|field| sample.int(field));
        let now = Disk {
            sectors: ints([
                disk_stat::READ_SECTORS,
                disk_stat::WRITE_SECTORS,
                disk_stat::DISCARD_SECTORS,
            ]),
            times: ints([
                disk_stat::READ_TIME_MS,
                disk_stat::WRITE_TIME_MS,
                disk_stat::DISCARD_TIME_MS,
            ]),
            flushes: sample.int(disk_stat::FLUSH_COUNT),
            flush_time: sample.int(disk_stat::FLUSH_TIME_MS),
        };
        let key = (cx.store.machine, device);
        if self.disks.len() >= MAX_DISKS && !self.disks.contains_key(&key) {
            return;
        }
        let Some(before) = self.disks.insert(key, now) else {
            return;
        };
        let mut push = |counter: &str, unit, value| {
            let label = format!("diskstat.[{}].{counter}", cx.store.strings.text(device));
            let name = cx.store.strings.intern(&label);
            let dimensions = [
                Dimension::Text("device_name", device),
                Dimension::Text("counter_name", cx.store.strings.intern(counter)),
            ];
            let spec = TrackSpec::counter("diskstat", &dimensions).named(name);
            add(cx, ts, spec, unit, value, &mut ArgSet::default());
        };
        for (index, what) in ["read", "write", "discard"].into_iter().enumerate() {
            // These sectors always have 512 bytes.
            let sectors = now.sectors[index].wrapping_sub(before.sectors[index]);
            let amount = sectors as f64 / 2048.0;
            let time = now.times[index].wrapping_sub(before.times[index]);
            let throughput = match time {
                0 => 0.0,
                time => amount * 1000.0 / time as f64,
            };
            push(&format!("{what}_amount"), "MB", amount);
            push(&format!("{what}_throughput"), "MB/s", throughput);
        }
        let flushes = now.flushes.wrapping_sub(before.flushes);
        push("flush_amount", "count", flushes as f64);
        let time = now.flush_time.wrapping_sub(before.flush_time);
        push("flush_time", "ms", time as f64);
    }
}

fn text(cx: &mut Context, bytes: &[u8]) -> StringId {
    cx.store.strings.intern_bytes(bytes)
}

fn fill(
    cx: &mut Context,
    names: &mut Vec<StringId>,
    keys: impl Iterator<Item = (&'static str, u64)>,
) {
    if names.is_empty() {
        names.push(StringId::NULL);
        names.extend(keys.map(|(key, _)| cx.store.strings.intern(key)));
    }
}

/// Adds a value of a counter with a number instead of a name.
fn numbered(
    cx: &mut Context,
    ts: i64,
    names: &[StringId],
    unknown: Stat,
    (type_, dimension, unit): (&'static str, &'static str, &'static str),
    (body, factor): (&[u8], f64),
) {
    // Keys and values have the same numbers in all lists.
    let pair = Message::<3>::read(body);
    let key = usize::try_from(pair.uint(vmstat_value::KEY)).unwrap_or(usize::MAX);
    match names.get(key).copied() {
        Some(name) if !name.is_null() => {
            let value = pair.uint(vmstat_value::VALUE) as f64 * factor;
            let dimensions = [Dimension::Text(dimension, name)];
            let spec = TrackSpec::counter(type_, &dimensions).named(name);
            add(cx, ts, spec, unit, value, &mut ArgSet::default());
        }
        _ => cx.store.stats.add(unknown, 1),
    }
}

fn add(cx: &mut Context, ts: i64, spec: TrackSpec<'_>, unit: &str, value: f64, args: &mut ArgSet) {
    let spec = match unit {
        "" => spec,
        unit => spec.in_unit(&mut cx.store, unit),
    };
    let track = cx.tracks.intern(&mut cx.store, spec);
    cx.counters.add(&mut cx.store, ts, track, value, args);
}

fn total(cx: &mut Context, ts: i64, name: &'static str, part: Field<'_>) {
    let value = part.as_u64().unwrap_or(0) as f64;
    add_named(cx, ts, name, &[], name, value);
}

fn interrupts(cx: &mut Context, ts: i64, type_: &'static str, body: &[u8]) {
    let pair = Message::<3>::read(body);
    let irq = pair.u32(field::interrupt_count::IRQ);
    let name = format!("{type_} (id: {irq})");
    let value = pair.uint(field::interrupt_count::COUNT) as f64;
    let dimensions = [Dimension::Int("irq", irq.into())];
    add_named(cx, ts, type_, &dimensions, &name, value);
}

fn times(cx: &mut Context, ts: i64, body: &[u8]) {
    let sample = Message::<10>::read(body);
    if !sample.has(cpu_times::CPU_ID) {
        cx.store.stats.add(Stat::invalid_cpu_times, 1);
        return;
    }
    let cpu = sample.u32(cpu_times::CPU_ID);
    for (key, field) in CPU_TIMES {
        let dimensions = [
            Dimension::Cpu(cpu),
            Dimension::Text("cpustat_key", cx.store.strings.intern(key)),
        ];
        let name = format!("cpu.times.{key}");
        let value = sample.uint(field) as f64;
        add_named(cx, ts, "cpustat", &dimensions, &name, value);
    }
}

fn page_size(cx: &Context) -> u32 {
    cx.kernels.get(&cx.store).page_size.unwrap_or(4096)
}

fn buddies(cx: &mut Context, ts: i64, body: &[u8]) {
    let sample = Message::<4>::read(body);
    let node = text(cx, sample.bytes(buddy_info::NODE));
    let zone = text(cx, sample.bytes(buddy_info::ZONE));
    let fields = Fields::new(body).map_while(Result::ok);
    let counts = fields
        .filter(|part| part.number == buddy_info::ORDER_PAGES)
        .flat_map(|part| part.as_varints());
    for (order, count) in counts.take(MAX_ORDERS).enumerate() {
        let kb = (u64::from(page_size(cx)) << order) / 1024;
        let strings = &cx.store.strings;
        let (node_text, zone_text) = (strings.text(node), strings.text(zone));
        let name = format!("mem.buddyinfo[{node_text}][{zone_text}][{kb} kB]");
        let dimensions = [
            Dimension::Text("buddyinfo_node", node),
            Dimension::Text("buddyinfo_zone", zone),
            Dimension::Int("buddyinfo_chunk_size_kb", kb as i64),
        ];
        add_named(cx, ts, "buddyinfo", &dimensions, &name, count as f64);
    }
}

fn idle(cx: &mut Context, ts: i64, body: &[u8]) {
    let cpu = Message::<2>::read(body).u32(cpu_idle_state::CPU_ID);
    for part in Fields::new(body).map_while(Result::ok) {
        if part.number != cpu_idle_state::CPUIDLE_STATE_ENTRY {
            continue;
        }
        let entry = Message::<3>::read(part.as_bytes().unwrap_or_default());
        let state = text(cx, entry.bytes(cpu_idle_state_entry::STATE));
        let label = format!("cpuidle{cpu}.{}", cx.store.strings.text(state));
        let name = cx.store.strings.intern(&label);
        let dimensions = [Dimension::Cpu(cpu), Dimension::Text("state", state)];
        let spec = TrackSpec::counter("cpu_idle_state", &dimensions).named(name);
        let value = entry.uint(cpu_idle_state_entry::DURATION_US) as f64;
        add(cx, ts, spec, "us", value, &mut ArgSet::default());
    }
}

fn slab(cx: &mut Context, ts: i64, body: &[u8]) {
    let sample = Message::<4>::read(body);
    let slab = text(cx, sample.bytes(slab_info::NAME));
    let label = format!("mem.slab.{}", cx.store.strings.text(slab));
    let name = cx.store.strings.intern(&label);
    let pages = sample.uint(slab_info::PAGES_PER_SLAB);
    let slabs = sample.uint(slab_info::NUM_SLABS);
    let mut args = ArgSet::default();
    args.put(&mut cx.store, "pages_per_slab", ArgValue::Uint(pages));
    args.put(&mut cx.store, "num_slabs", ArgValue::Uint(slabs));
    let dimensions = [Dimension::Text("slab_name", slab)];
    let spec = TrackSpec::counter("slabinfo", &dimensions).named(name);
    let value = pages as f64 * slabs as f64 * f64::from(page_size(cx));
    add(cx, ts, spec, "bytes", value, &mut args);
}

fn control_group(cx: &mut Context, ts: i64, body: &[u8]) {
    let path = Message::<2>::read(body).bytes(cgroup::PATH);
    let path_id = text(cx, path);
    let path = String::from_utf8_lossy(path);
    let group = Group::new(&path);
    for part in Fields::new(body).map_while(Result::ok) {
        if part.number != cgroup::VALUE {
            continue;
        }
        let pair = Message::<3>::read(part.as_bytes().unwrap_or_default());
        let index = usize::try_from(pair.uint(cgroup_value::KEY)).ok();
        let counter = index.and_then(|index| COUNTERS.get(index.checked_sub(1)?));
        // A newer recorder.
        let Some((counter, unit)) = counter else {
            continue;
        };
        let name = format!("cgroup.[{}].{counter}", group.name());
        let name = cx.store.strings.intern(&name);
        let dimensions = [
            Dimension::Text("cgroup", path_id),
            Dimension::Text("cgroup_counter", cx.store.strings.intern(counter)),
        ];
        let spec = TrackSpec::counter("cgroup", &dimensions).named(name);
        let value = pair.uint(cgroup_value::VALUE) as f64;
        add(cx, ts, spec, unit, value, &mut ArgSet::default());
    }
}
