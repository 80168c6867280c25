//! The table of tracks.

use crate::strings::StringId;
use crate::table::table;

table! {
    /// Tracks of all kinds. A track groups slices, values of a counter, or values of a state.
    TrackRow, TrackTable = "track" {
        /// The display name.
        name: StringId,
        /// The type of the track.
        type_ as "type": StringId,
        /// The dimensions that distinguish it from other tracks of its type: `args.arg_set_id`.
        dimension_arg_set_id: Option<u32>,
        /// The parent: `track.id`.
        parent_id: Option<u32>,
        /// Further values from its source: `args.arg_set_id`.
        source_arg_set_id: Option<u32>,
        /// The machine: `machine.id`.
        machine_id: u32,
        /// The id of the group of tracks that are merged.
        track_group_id: Option<u32>,
        /// The kind of its events: `slice`, `counter` or `state`.
        event_type: StringId,
        /// The unit of a counter.
        counter_unit: StringId,
        /// The dimension `utid`: `thread.id`.
        utid: Option<u32>,
        /// The dimension `upid`: `process.id`.
        upid: Option<u32>,
        /// The dimension `cpu`: the number of a CPU in the kernel.
        cpu: Option<u32>,
    }
}
