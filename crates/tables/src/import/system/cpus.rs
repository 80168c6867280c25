//! The CPUs of a machine.

use ferretto_proto::fields::cpu_info::{CPUS, arm_cpu_identifier as arm, cpu as field};
use ferretto_wire::Fields;

use crate::import::context::Context;
use crate::import::message::Message;
use crate::schema::{ArgValue, CpuFreqRow, TableId};
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;

/// The maximum number of frequencies of a CPU.
const MAX_FREQUENCIES: usize = 1 << 10;

/// Features of CPUs, by their bits.
const FEATURES: [&str; 2] = ["mte", "mte3"];

struct Cpu {
    number: u32,
    processor: StringId,
    capacity: Option<u32>,
    frequencies: Vec<u32>,
    cluster: u32,
    args: ArgSet,
}

/// Reads a `CpuInfo`.
pub(super) fn parse(cx: &mut Context, bytes: &[u8]) {
    let mut cpus = Vec::new();
    let fields = Fields::new(bytes).map_while(Result::ok);
    for (number, part) in (0..).zip(fields.filter(|part| part.number == CPUS)) {
        cpus.push(read(cx, number, part.as_bytes().unwrap_or_default()));
        if cpus.len() >= crate::trackers::machine::CPUS_PER_MACHINE as usize {
            break;
        }
    }
    if cpus.is_empty() {
        cx.store.log(Stat::cpu_info_empty, None, ArgSet::default());
        return;
    }
    number_clusters(&mut cpus);
    for cpu in &mut cpus {
        let Some(ucpu) = cx.cpus.intern(&mut cx.store, cpu.number) else {
            continue;
        };
        if !cx.store.wants(TableId::cpu) {
            continue;
        }
        let arg_set_id = cpu.args.finish(&mut cx.store);
        let table = &mut cx.store.tables.cpu;
        table.processor.set(ucpu, cpu.processor);
        table.cluster_id.set(ucpu, cpu.cluster);
        table.capacity.set(ucpu, cpu.capacity);
        table.arg_set_id.set(ucpu, arg_set_id);
        for freq in cpu.frequencies.iter().copied() {
            cx.store.tables.cpu_freq.push(CpuFreqRow { ucpu, freq });
        }
    }
}

fn read(cx: &mut Context, number: u32, bytes: &[u8]) -> Cpu {
    let part = Message::<6>::read(bytes);
    let mut args = ArgSet::default();
    let store = &mut cx.store;
    if part.has(field::ARM_IDENTIFIER) {
        let id = Message::<6>::read(part.bytes(field::ARM_IDENTIFIER));
        let keys = [
            ("arm_cpu_implementer", arm::IMPLEMENTER),
            ("arm_cpu_architecture", arm::ARCHITECTURE),
            ("arm_cpu_variant", arm::VARIANT),
            ("arm_cpu_part", arm::PART),
            ("arm_cpu_revision", arm::REVISION),
        ];
        for (key, field) in keys {
            args.put(store, key, ArgValue::Uint(id.uint(field)));
        }
    }
    let features = part.uint(field::FEATURES);
    for (bit, name) in FEATURES.iter().enumerate() {
        if features >> bit & 1 != 0 {
            let key = format!("cpu_features.{name}");
            args.put(store, &key, ArgValue::Bool(true));
        }
    }
    if features != 0 {
        args.put(store, "cpu_features.raw_bitmap", ArgValue::Uint(features));
    }
    if features >> FEATURES.len() != 0 {
        store.log(Stat::cpu_info_unknown_cpu_features, None, ArgSet::default());
    }
    let fields = Fields::new(bytes).map_while(Result::ok);
    let frequencies = fields
        .filter(|part| part.number == field::FREQUENCIES)
        .flat_map(|part| part.as_varints())
        .map(|frequency| frequency as u32)
        .take(MAX_FREQUENCIES);
    Cpu {
        number,
        processor: store.strings.intern_bytes(part.bytes(field::PROCESSOR)),
        capacity: part.has(field::CAPACITY).then(|| part.u32(field::CAPACITY)),
        frequencies: frequencies.collect(),
        cluster: 0,
        args,
    }
}

/// Assigns CPUs of equal capacity, or of equal maximum frequency, to the same cluster.
fn number_clusters(cpus: &mut [Cpu]) {
    let speed: fn(&Cpu) -> Option<u32> = if cpus.iter().all(|cpu| cpu.capacity.is_some()) {
        cpus.sort_by_key(|cpu| cpu.capacity);
        |cpu| cpu.capacity
    } else {
        |cpu| cpu.frequencies.iter().max().copied()
    };
    let speeds: Option<Vec<u32>> = cpus.iter().map(speed).collect();
    let Some(mut speeds) = speeds else {
        return;
    };
    let of_cpus = speeds.clone();
    speeds.sort_unstable();
    speeds.dedup();
    for (cpu, speed) in cpus.iter_mut().zip(of_cpus) {
        cpu.cluster = speeds.partition_point(|other| *other < speed) as u32;
    }
}
