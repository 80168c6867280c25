//! The processes of the recorded command, if the trace has one.

use ferretto_tables::{StringPool, Tables};
use ferretto_why::command_pid;

/// The maximum number of ancestors of a process of the command.
const MAX_ABOVE: usize = 64;

/// Returns the rows of the process of the command and of its descendants.
pub(super) fn command(tables: &Tables, strings: &StringPool) -> Vec<u32> {
    let Some(pid) = command_pid(tables, strings) else {
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
