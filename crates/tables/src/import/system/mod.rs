//! Processes, counters and properties of the system, as recorded by probes.

mod cpus;
mod journal;
mod kernel;
mod power;
mod process_stats;
mod process_tree;
mod sessions;
mod sys_stats;
mod tasks;

pub(crate) use self::kernel::note_kernel;

use ferretto_proto::fields::interrupt_info::{IRQ_MAPPING, interrupt_mapping as field};
use ferretto_proto::fields::{initial_display_state as display, trace_packet as packet};
use ferretto_wire::Fields;
use rustc_hash::FxHashSet;

use self::power::Power;
use self::sys_stats::SysStats;
use self::tasks::Tasks;
use super::context::Context;
use super::ftrace::add_named;
use super::message::Message;
use super::{Input, Out};
use crate::schema::InterruptMappingRow;
use crate::stats::Stat;

/// The state of the system between packets.
#[derive(Debug, Default)]
pub(crate) struct System {
    stats: SysStats,
    tasks: Tasks,
    power: Power,
    /// The interrupts with a name, by machine and number.
    interrupts: FxHashSet<(u32, u32)>,
}

/// The maximum number of interrupts.
const MAX_INTERRUPTS: usize = 1 << 16;

impl System {
    /// Reads a packet about the machine, in the order of the file.
    pub(crate) fn tokenize(&mut self, cx: &mut Context, field: u32, bytes: &[u8]) {
        match field {
            packet::CPU_INFO => cpus::parse(cx, bytes),
            packet::INTERRUPT_INFO => self.interrupts(cx, bytes),
            // These have no events.
            packet::SYNCHRONIZATION_MARKER
            | packet::PROTOVMS
            | packet::TRACE_PROVENANCE
            | packet::FOR_TESTING => {}
            _ => {
                let stats = &mut cx.store.stats;
                stats.add_indexed(Stat::packets_not_imported, i64::from(field), 1);
            }
        }
    }

    /// Returns true if packets of this field are parsed in the order of time.
    pub(crate) fn has_events(field: u32) -> bool {
        matches!(
            field,
            packet::PROCESS_TREE
                | packet::PROCESS_STATS
                | packet::SYS_STATS
                | packet::JOURNALD_EVENT
                | packet::GENERIC_KERNEL_TASK_STATE_EVENT
                | packet::GENERIC_KERNEL_TASK_RENAME_EVENT
                | packet::GENERIC_KERNEL_PROCESS_TREE
                | packet::GENERIC_KERNEL_CPU_FREQ_EVENT
                | packet::GENERIC_GPU_FREQUENCY_EVENT
                | packet::GPU_MEM_TOTAL_EVENT
                | packet::BATTERY
                | packet::POWER_RAILS
                | packet::ANDROID_ENERGY_ESTIMATION_BREAKDOWN
                | packet::ENTITY_STATE_RESIDENCY
                | packet::INITIAL_DISPLAY_STATE
                | packet::CONCURRENT_SESSION_EVENT
        )
    }

    /// Reads declarations in a packet, or splits it into events, in the order of the file. Returns
    /// false if no data remains to be parsed.
    pub(crate) fn begin(&mut self, cx: &mut Context, input: &Input<'_>, out: &mut Out<'_>) -> bool {
        match input.field {
            packet::POWER_RAILS => {
                self.power.rails(cx, input, out);
                false
            }
            packet::ANDROID_ENERGY_ESTIMATION_BREAKDOWN => {
                !self.power.describe_consumers(cx, input.bytes)
            }
            packet::ENTITY_STATE_RESIDENCY => {
                self.power.describe_states(cx, input.bytes);
                true
            }
            _ => true,
        }
    }

    /// Adds a value of a power rail.
    pub(crate) fn power_rail(&self, cx: &mut Context, ts: i64, number: u32) {
        self.power.rail(cx, ts, number);
    }

    /// Parses a packet.
    pub(crate) fn parse(&mut self, cx: &mut Context, ts: i64, field: u32, bytes: &[u8]) {
        match field {
            packet::PROCESS_TREE => process_tree::parse(cx, ts, bytes),
            packet::PROCESS_STATS => process_stats::parse(cx, ts, bytes),
            packet::SYS_STATS => self.stats.parse(cx, ts, bytes),
            packet::JOURNALD_EVENT => journal::parse(cx, ts, bytes),
            packet::GENERIC_KERNEL_TASK_STATE_EVENT => self.tasks.state(cx, ts, bytes),
            packet::GENERIC_KERNEL_TASK_RENAME_EVENT => tasks::rename(cx, bytes),
            packet::GENERIC_KERNEL_PROCESS_TREE => tasks::tree(cx, bytes),
            packet::GENERIC_KERNEL_CPU_FREQ_EVENT => tasks::cpu_frequency(cx, ts, bytes),
            packet::GENERIC_GPU_FREQUENCY_EVENT => tasks::gpu_frequency(cx, ts, bytes),
            packet::CONCURRENT_SESSION_EVENT => sessions::parse(cx, ts, bytes),
            packet::BATTERY => power::battery(cx, ts, bytes),
            packet::ANDROID_ENERGY_ESTIMATION_BREAKDOWN => self.power.energy(cx, ts, bytes),
            packet::ENTITY_STATE_RESIDENCY => self.power.states(cx, ts, bytes),
            packet::INITIAL_DISPLAY_STATE => {
                let state = Message::<3>::read(bytes).int(display::DISPLAY_STATE);
                add_named(cx, ts, "screen_state", &[], "ScreenState", state as f64);
            }
            packet::GPU_MEM_TOTAL_EVENT => crate::import::gpu::memory(cx, ts, bytes, false),
            _ => {}
        }
    }

    fn interrupts(&mut self, cx: &mut Context, bytes: &[u8]) {
        for part in Fields::new(bytes).map_while(Result::ok) {
            if part.number != IRQ_MAPPING {
                continue;
            }
            let part = Message::<3>::read(part.as_bytes().unwrap_or_default());
            let irq_id = part.u32(field::IRQ_ID);
            let is_whole = part.has(field::IRQ_ID) && part.has(field::NAME);
            let key = (cx.store.machine, irq_id);
            if !is_whole || self.interrupts.len() >= MAX_INTERRUPTS || !self.interrupts.insert(key)
            {
                continue;
            }
            let name = cx.store.strings.intern_bytes(part.bytes(field::NAME));
            let row = InterruptMappingRow {
                irq_id,
                name,
                machine_id: cx.store.machine,
            };
            cx.store.tables.linux_interrupt_mapping.push(row);
        }
    }
}
