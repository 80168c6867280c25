//! Tables about GPUs.

use crate::strings::StringId;
use crate::table::table;

table! {
    /// The groups of GPU counters.
    GpuCounterGroupRow, GpuCounterGroupTable = "gpu_counter_group" {
        /// The number of the group: one of the schema, or one that the producer declares.
        group_id: i32,
        /// The counter: `track.id`.
        track_id: u32,
        /// The name that the producer gives the group.
        name: StringId,
        /// The description.
        description: StringId,
    }
}

table! {
    /// Contexts of graphics interfaces.
    GpuContextRow, GpuContextTable = "gpu_context" {
        /// The handle of the context.
        context_id: u32,
        /// The process that owns it.
        pid: Option<u32>,
        /// The interface, such as `VULKAN`.
        api: StringId,
    }
}
