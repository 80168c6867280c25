//! GPUs: their properties, counters, and the work that they execute.

mod compute;
mod counters;
mod info;
mod log;
mod stages;
mod totals;
mod vulkan;

use ferretto_proto::fields::trace_packet as packet;
use ferretto_wire::Fields;

use self::counters::Counters;
use self::stages::Stages;
pub(super) use self::totals::{add_frequency, memory};
use self::vulkan::ObjectNames;
use super::Input;
use super::context::{Context, EventState};
use crate::trackers::track::Dimension;

/// The state of GPUs between packets.
#[derive(Debug, Default)]
pub(crate) struct Gpus {
    counters: Counters,
    stages: Stages,
    names: ObjectNames,
}

impl Gpus {
    /// Returns true if packets of this field are about GPUs.
    pub(crate) fn has(field: u32) -> bool {
        matches!(
            field,
            packet::GPU_COUNTER_EVENT
                | packet::GPU_RENDER_STAGE_EVENT
                | packet::GPU_LOG
                | packet::GPU_INFO
                | packet::VULKAN_API_EVENT
        )
    }

    /// Reads declarations in a packet, in the order of the file. Returns false if no data remains
    /// to be parsed.
    pub(crate) fn begin(&mut self, cx: &mut Context, input: &Input<'_>) -> bool {
        match input.field {
            packet::GPU_COUNTER_EVENT => self.counters.begin(cx, input),
            packet::GPU_INFO => {
                info::read(cx, input.bytes);
                false
            }
            _ => true,
        }
    }

    /// Parses a packet.
    pub(crate) fn parse(
        &mut self,
        cx: &mut Context,
        ts: i64,
        field: u32,
        bytes: &[u8],
        state: EventState<'_>,
    ) {
        match field {
            packet::GPU_COUNTER_EVENT => self.counters.parse(cx, ts, bytes, state),
            packet::GPU_RENDER_STAGE_EVENT => {
                self.stages.parse(cx, ts, bytes, state, &self.names);
            }
            packet::GPU_LOG => log::parse(cx, ts, bytes),
            _ => self.names.parse(cx, ts, bytes),
        }
    }
}

/// Returns the dimensions of a track of a GPU.
fn dimensions(cx: &mut Context, gpu: u32) -> [Dimension; 2] {
    let ugpu = cx.gpus.intern(&mut cx.store, gpu);
    [
        Dimension::Int("ugpu", ugpu.into()),
        Dimension::Int("gpu", gpu.into()),
    ]
}

/// Returns the values of a repeated integer.
fn repeated(bytes: &[u8], number: u32) -> Vec<u64> {
    /// The maximum number of values.
    const MAX: usize = 1 << 10;
    let fields = Fields::new(bytes).map_while(Result::ok);
    let fields = fields.filter(|part| part.number == number);
    fields
        .flat_map(|part| part.as_varints())
        .take(MAX)
        .collect()
}
