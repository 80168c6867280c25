//! The rows that events happen on.

use crate::strings::StringId;
use crate::table::table;

table! {
    /// Tracks of all kinds. A track is one thing that slices, values of a counter or values of a
    /// state belong to.
    TrackRow, TrackTable = "track" {
        /// The name, for people.
        name: StringId,
        /// The type: what it is a track of.
        type_ as "type": StringId,
        /// The values that tell it from others of its type: `args.arg_set_id`.
        dimension_arg_set_id: Option<u32>,
        /// The track it belongs to: `track.id`.
        parent_id: Option<u32>,
        /// Facts from its source: `args.arg_set_id`.
        source_arg_set_id: Option<u32>,
        /// The machine: `machine.id`.
        machine_id: u32,
        /// The number of the group of tracks that are shown as one.
        track_group_id: Option<u32>,
        /// The events it has: `slice`, `counter` or `state`.
        event_type: StringId,
        /// The unit of a counter.
        counter_unit: StringId,
        /// The dimension `utid`: `thread.id`.
        utid: Option<u32>,
        /// The dimension `upid`: `process.id`.
        upid: Option<u32>,
        /// The dimension `cpu`: the kernel's number of a CPU.
        cpu: Option<u32>,
    }
}
