//! The processes of the recorded command, if the trace has one.

use ferretto_tables::{StringPool, Tables};
use ferretto_trace::summary::COMMAND_PID_ATTRIBUTE;

/// The maximum number of ancestors of a process of the command.
const MAX_ABOVE: usize = 64;

/// Returns the rows of the process of the command and of its descendants.
pub(super) fn command(tables: &Tables, strings: &StringPool) -> Vec<u32> {
    let metadata = &tables.metadata;
    let of_command = (0..metadata.len()).find_map(|row| {
        let name = strings.text(metadata.name().get(row));
        let key = name.strip_prefix("trace_attribute.")?;
        metadata
            .int_value()
            .get(row)
            .filter(|_| key == COMMAND_PID_ATTRIBUTE)
    });
    let Some(pid) = of_command else {
        return Vec::new();
    };
    let table = &tables.process;
    let is_of_command = |upid: &u32| {
        let mut above = std::iter::successors(Some(*upid), |upid| table.parent_upid().get(*upid));
        above.by_ref().take(MAX_ABOVE).any(|upid| {
            upid < table.len() && table.pid().get(upid) == pid && table.machine_id().get(upid) == 0
        })
    };
    (0..table.len()).filter(is_of_command).collect()
}
