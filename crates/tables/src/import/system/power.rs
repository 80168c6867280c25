//! Batteries, power rails, energy consumers, and power states of entities.

use ferretto_format::clock::BOOTTIME;
use ferretto_proto::fields::android_energy_estimation_breakdown::{
    self as breakdown, energy_uid_breakdown as of_user,
};
use ferretto_proto::fields::entity_state_residency::{
    self as residency, power_entity_state as described, state_residency as resided,
};
use ferretto_proto::fields::power_rails::{self as rails, energy_data, rail_descriptor};
use ferretto_proto::fields::{
    android_energy_consumer as consumer, android_energy_consumer_descriptor as consumers,
    battery_counters as battery,
};
use ferretto_wire::Fields;
use rustc_hash::FxHashMap;

use crate::import::context::Context;
use crate::import::event::Event;
use crate::import::ftrace::add_named;
use crate::import::message::Message;
use crate::import::sorter::Stream;
use crate::import::{Input, Out};
use crate::schema::ArgValue;
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::clock::{self, ClockId};
use crate::trackers::track::{Dimension, TrackSpec};

/// The maximum numbers of rails, of consumers and of states.
const MAX_KEYS: usize = 1 << 14;
/// The maximum index of a rail.
const MAX_RAIL: u32 = 256;

/// Rails by the suffix of their vendor names.
const RAILS: [(&str, &str); 31] = [
    ("M_VDD_CPUCL0", "cpu.little"),
    ("M_VDD_CPUCL0_M", "cpu.little.mem"),
    ("M_VDD_CPUCL1", "cpu.mid"),
    ("M_VDD_CPUCL1_M", "cpu.mid.mem"),
    ("M_VDD_CPUCL2", "cpu.big"),
    ("M_VDD_INT", "system.fabric"),
    ("M_VDD_TPU", "tpu"),
    ("VSYS_PWR_DISP", "display"),
    ("VSYS_PWR_DISPLAY", "display"),
    ("M_DISP", "ldo.main.a.display"),
    ("VSYS_PWR_MODEM", "modem"),
    ("M_VDD_MIF", "memory.interface"),
    ("VSYS_PWR_WLAN_BT", "wifi.bt"),
    ("VSYS_PWR_MMWAVE", "mmwave"),
    ("S_VDD_AOC_RET", "aoc.memory"),
    ("S_VDD_AOC", "aoc.logic"),
    ("S_VDDQ_MEM", "ddr.a"),
    ("S_VDD2L", "ddr.b"),
    ("S_VDD2L_MEM", "ddr.b"),
    ("S_VDD2H_MEM", "ddr.c"),
    ("S_VDD_G3D", "gpu"),
    ("S_VDD_G3D_L2", "gpu.l2"),
    ("S_GNSS_CORE", "gps"),
    ("VSYS_PWR_RFFE", "radio.frontend"),
    ("VSYS_PWR_CAMERA", "camera"),
    ("S_VDD_CAM", "multimedia"),
    ("S_UDFPS", "udfps"),
    ("S_PLL_MIPI_UFS", "ufs"),
    ("M_LLDO1", "ldo.main.a"),
    ("M_LLDO2", "ldo.main.b"),
    ("S_LLDO1", "ldo.sub"),
];

/// The declared objects, and waiting samples.
#[derive(Debug, Default)]
pub(super) struct Power {
    /// The tracks of rails, by machine, session and index.
    rails: FxHashMap<(u32, u64, u32), u32>,
    /// The values that wait in the sorter.
    samples: Vec<Sample>,
    /// The names, types and ordinals of consumers, by machine and id.
    consumers: FxHashMap<(u32, u32), (StringId, StringId, i64)>,
    /// The names of entities and states, by machine and ids.
    states: FxHashMap<(u32, u32, u32), (StringId, StringId)>,
}

/// The energy used by a rail.
#[derive(Debug, Clone, Copy)]
struct Sample {
    session: u64,
    rail: u32,
    energy: u64,
    packet_ts: i64,
}

fn parts(bytes: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
    let fields = Fields::new(bytes).map_while(Result::ok);
    let fields = fields.filter(move |part| part.number == number);
    fields.map(|part| part.as_bytes().unwrap_or_default())
}

impl Power {
    /// Reads a `PowerRails`, in which each value has its own time.
    pub(super) fn rails(&mut self, cx: &mut Context, input: &Input<'_>, out: &mut Out<'_>) {
        let session = Fields::find(rails::SESSION_UUID, input.bytes);
        let session = session.and_then(|session| session.as_u64()).unwrap_or(0);
        for part in parts(input.bytes, rails::RAIL_DESCRIPTOR) {
            self.describe_rail(cx, session, part);
        }
        let mut is_empty = true;
        for part in parts(input.bytes, rails::ENERGY_DATA) {
            is_empty = false;
            let data = Message::<4>::read(part);
            let ts = if data.has(energy_data::TIMESTAMP_MS) {
                let boot = ClockId::of_machine(cx.store.machine, BOOTTIME);
                let value = data.int(energy_data::TIMESTAMP_MS).wrapping_mul(1_000_000);
                match cx.clocks.trace_time(boot, value) {
                    Ok(ts) => ts,
                    Err(error) => {
                        let trace = cx.clocks.trace_clock();
                        clock::log(error, &mut cx.store, boot, value, trace, None);
                        continue;
                    }
                }
            } else {
                input.ts
            };
            let number = self.samples.len() as u32;
            self.samples.push(Sample {
                session,
                rail: data.u32(energy_data::INDEX),
                energy: data.uint(energy_data::ENERGY),
                packet_ts: input.ts,
            });
            out.push(&mut cx.store, Stream::Packets, ts, Event::PowerRail(number));
        }
        if is_empty {
            let stat = Stat::power_rail_empty_packet;
            cx.store.log(stat, Some(input.ts), ArgSet::default());
        }
    }

    fn describe_rail(&mut self, cx: &mut Context, session: u64, bytes: &[u8]) {
        let part = Message::<5>::read(bytes);
        let index = part.u32(rail_descriptor::INDEX);
        if index > MAX_RAIL || self.rails.len() >= MAX_KEYS {
            return;
        }
        let raw = cx
            .store
            .strings
            .intern_bytes(part.bytes(rail_descriptor::RAIL_NAME));
        let text = cx.store.strings.text(raw);
        let known = RAILS.iter().find(|(end, _)| text.ends_with(end));
        let name = match known {
            Some((_, name)) => format!("power.rails.{name}"),
            None => format!("power.{text}_uws"),
        };
        let name = cx.store.strings.intern(&name);
        let mut source = ArgSet::default();
        source.put(&mut cx.store, "raw_name", ArgValue::Text(raw));
        let system = cx
            .store
            .strings
            .intern_bytes(part.bytes(rail_descriptor::SUBSYS_NAME));
        source.put(&mut cx.store, "subsystem_name", ArgValue::Text(system));
        let dimensions = [
            Dimension::Text("name", raw),
            Dimension::Int("session_uuid", session as i64),
        ];
        let spec = TrackSpec::counter("power_rails", &dimensions).named(name);
        let track = cx.tracks.intern(&mut cx.store, spec.with_source(source));
        self.rails.insert((cx.store.machine, session, index), track);
    }

    /// Adds a value of a rail.
    pub(super) fn rail(&self, cx: &mut Context, ts: i64, number: u32) {
        let Some(sample) = self.samples.get(number as usize) else {
            return;
        };
        let key = (cx.store.machine, sample.session, sample.rail);
        let Some(track) = self.rails.get(&key) else {
            cx.store.stats.add(Stat::power_rail_unknown_index, 1);
            return;
        };
        let mut args = ArgSet::default();
        let packet_ts = ArgValue::Uint(sample.packet_ts as u64);
        args.put(&mut cx.store, "packet_ts", packet_ts);
        let value = sample.energy as f64;
        cx.counters.add(&mut cx.store, ts, *track, value, &mut args);
    }

    /// Reads the consumers in an `AndroidEnergyEstimationBreakdown`. Returns false if there are
    /// none.
    pub(super) fn describe_consumers(&mut self, cx: &mut Context, bytes: &[u8]) -> bool {
        let described = Fields::find(breakdown::ENERGY_CONSUMER_DESCRIPTOR, bytes);
        let Some(described) = described.and_then(|described| described.as_bytes()) else {
            return false;
        };
        for part in parts(described, consumers::ENERGY_CONSUMERS) {
            let part = Message::<5>::read(part);
            if !part.has(consumer::ENERGY_CONSUMER_ID) {
                cx.store.stats.add(Stat::energy_descriptor_invalid, 1);
                continue;
            }
            let name = cx.store.strings.intern_bytes(part.bytes(consumer::NAME));
            let type_ = cx.store.strings.intern_bytes(part.bytes(consumer::TYPE));
            let key = (cx.store.machine, part.u32(consumer::ENERGY_CONSUMER_ID));
            if self.consumers.len() < MAX_KEYS {
                let ordinal = part.int(consumer::ORDINAL);
                self.consumers.insert(key, (name, type_, ordinal));
            }
        }
        true
    }

    /// Parses the measurements in an `AndroidEnergyEstimationBreakdown`.
    pub(super) fn energy(&self, cx: &mut Context, ts: i64, bytes: &[u8]) {
        let event = Message::<4>::read(bytes);
        let number = event.u32(breakdown::ENERGY_CONSUMER_ID);
        let known = self.consumers.get(&(cx.store.machine, number)).copied();
        let is_whole = event.has(breakdown::ENERGY_CONSUMER_ID) && event.has(breakdown::ENERGY_UWS);
        let Some((name, type_, ordinal)) = known.filter(|_| is_whole) else {
            let stat = Stat::energy_breakdown_missing_values;
            cx.store.stats.add(stat, 1);
            return;
        };
        let mut source = ArgSet::default();
        source.put(&mut cx.store, "consumer_type", ArgValue::Text(type_));
        source.int(&mut cx.store, "ordinal", ordinal);
        let of = Dimension::Int("energy_consumer_id", number.into());
        let all = [of];
        let spec = TrackSpec::counter("android_energy_estimation_breakdown", &all).named(name);
        let energy = event.uint(breakdown::ENERGY_UWS);
        add(cx, ts, spec.with_source(source), energy as f64);
        for part in parts(bytes, breakdown::PER_UID_BREAKDOWN) {
            let part = Message::<3>::read(part);
            if !part.has(of_user::UID) || !part.has(of_user::ENERGY_UWS) {
                let stat = Stat::energy_uid_breakdown_missing_values;
                cx.store.stats.add(stat, 1);
                continue;
            }
            let uid = part.u32(of_user::UID);
            let dimensions = [of, Dimension::Int("uid", uid.into())];
            let type_ = "android_energy_estimation_breakdown_per_uid";
            let spec = TrackSpec::counter(type_, &dimensions).named(name);
            add(cx, ts, spec, part.uint(of_user::ENERGY_UWS) as f64);
        }
    }

    /// Reads the states in an `EntityStateResidency`.
    pub(super) fn describe_states(&mut self, cx: &mut Context, bytes: &[u8]) {
        for part in parts(bytes, residency::POWER_ENTITY_STATE) {
            let part = Message::<5>::read(part);
            if !part.has(described::ENTITY_INDEX) || !part.has(described::STATE_INDEX) {
                cx.store.stats.add(Stat::energy_descriptor_invalid, 1);
                continue;
            }
            let entity = cx
                .store
                .strings
                .intern_bytes(part.bytes(described::ENTITY_NAME));
            let state = cx
                .store
                .strings
                .intern_bytes(part.bytes(described::STATE_NAME));
            let (of, number) = (
                part.u32(described::ENTITY_INDEX),
                part.u32(described::STATE_INDEX),
            );
            if self.states.len() < MAX_KEYS {
                let key = (cx.store.machine, of, number);
                self.states.insert(key, (entity, state));
            }
        }
    }

    /// Parses the measurements in an `EntityStateResidency`.
    pub(super) fn states(&self, cx: &mut Context, ts: i64, bytes: &[u8]) {
        let mut all = parts(bytes, residency::RESIDENCY).peekable();
        if all.peek().is_none() {
            let stat = Stat::entity_state_residency_invalid;
            cx.store.stats.add(stat, 1);
        }
        for part in all {
            let part = Message::<6>::read(part);
            let (of, number) = (
                part.u32(resided::ENTITY_INDEX),
                part.u32(resided::STATE_INDEX),
            );
            let Some((entity, state)) = self.states.get(&(cx.store.machine, of, number)) else {
                let stat = Stat::entity_state_residency_lookup_failed;
                cx.store.stats.add(stat, 1);
                return;
            };
            let strings = &cx.store.strings;
            let (entity_text, state_text) = (strings.text(*entity), strings.text(*state));
            let name = format!("Entity residency: {entity_text} is {state_text}");
            let dimensions = [
                Dimension::Text("entity_name", *entity),
                Dimension::Text("state_name", *state),
            ];
            let value = part.uint(resided::TOTAL_TIME_IN_STATE_MS) as f64;
            add_named(cx, ts, "entity_state", &dimensions, &name, value);
        }
    }
}

/// Reads a `BatteryCounters`.
pub(super) fn battery(cx: &mut Context, ts: i64, bytes: &[u8]) {
    let event = Message::<8>::read(bytes);
    let of = String::from_utf8_lossy(event.bytes(battery::NAME)).into_owned();
    let battery_name = match of.as_str() {
        "" => StringId::NULL,
        of => cx.store.strings.intern(of),
    };
    let mut push = |counter: &str, value: f64| {
        let dimensions = [
            Dimension::Text("battery_name", battery_name),
            Dimension::Text("counter_name", cx.store.strings.intern(counter)),
        ];
        let name = match of.as_str() {
            "" => format!("batt.{counter}"),
            of => format!("batt.{of}.{counter}"),
        };
        add_named(cx, ts, "battery_counter", &dimensions, &name, value);
    };
    let voltage = event.int(battery::VOLTAGE_UV);
    let has_voltage = event.has(battery::VOLTAGE_UV);
    if event.has(battery::CHARGE_COUNTER_UAH) {
        push("charge_uah", event.int(battery::CHARGE_COUNTER_UAH) as f64);
    } else if event.has(battery::ENERGY_COUNTER_UWH) && voltage > 0 {
        let energy = event.int(battery::ENERGY_COUNTER_UWH);
        push(
            "charge_uah",
            (energy.wrapping_mul(1_000_000) / voltage) as f64,
        );
    }
    let counters = [
        (
            "capacity_pct",
            battery::CAPACITY_PERCENT,
            f64::from(f32::from_bits(event.u32(battery::CAPACITY_PERCENT))),
        ),
        (
            "current_ua",
            battery::CURRENT_UA,
            event.int(battery::CURRENT_UA) as f64,
        ),
        (
            "current.avg_ua",
            battery::CURRENT_AVG_UA,
            event.int(battery::CURRENT_AVG_UA) as f64,
        ),
        ("voltage_uv", battery::VOLTAGE_UV, voltage as f64),
    ];
    for (counter, field, value) in counters {
        if event.has(field) {
            push(counter, value);
        }
    }
    if event.has(battery::CURRENT_UA) && has_voltage {
        // The current is negative during discharge.
        let power = event.int(battery::CURRENT_UA).wrapping_mul(voltage) / 1_000_000_000;
        push("power_mw", (power as f64).abs());
    }
}

fn add(cx: &mut Context, ts: i64, spec: TrackSpec<'_>, value: f64) {
    let track = cx.tracks.intern(&mut cx.store, spec);
    cx.counters
        .add(&mut cx.store, ts, track, value, &mut ArgSet::default());
}
