//! The machines of packets, and of files without packets.

use super::context::Context;
use crate::trackers::clock::ClockId;

/// The machines and clocks of a file from the manifest.
#[derive(Debug, Default)]
pub(crate) struct FileMachines {
    /// The machine of data without a machine id: a row of `machine`.
    pub(crate) machine: u32,
    /// The rows of machines by their ids in the file, if there are several.
    pub(crate) machines: Option<Vec<(u32, u32)>>,
    /// Set if the manifest assigns the whole file to one machine.
    pub(crate) has_one_machine: bool,
    /// Set if the clock of the file is unrelated to other clocks.
    pub(crate) has_own_clock: bool,
}

/// The machines of the current file.
#[derive(Debug, Default)]
pub(super) struct Machines {
    pub(super) file: FileMachines,
    /// The machine that replaced the recording machine, for which there is no data.
    adopted: Option<u32>,
    has_host: bool,
    /// The rule that the file breaks.
    pub(super) broken: Option<&'static str>,
    /// A machine of the file that the manifest does not declare.
    pub(super) undeclared: Option<u32>,
}

const SEVERAL_MACHINES: &str = "perfetto_manifest: a `machine` override attributes the file to one \
    machine, but the file contains packets from multiple machines. Replace `machine` with a \
    `machines` block that maps each embedded machine_id to a named machine, e.g. \"machines\": \
    [{\"id\": 0, \"name\": \"phone\"}, {\"id\": 7, \"name\": \"vm\"}].";
const CLOCKS_OF_SEVERAL: &str = "perfetto_manifest: a `clocks` override applies only to a \
    single-machine file, but the file contains packets from multiple machines. Remove the \
    `clocks` override and let the trace's own remote clock snapshots align the machines; if you \
    need to anchor a specific embedded machine, split it into its own file and override that.";
const SEVERAL_CLOCKS: &str =
    "perfetto_manifest: clock overrides require the trace to use a single clock";

impl Machines {
    /// Returns the row of a packet's machine. The first machine takes the row of the recording
    /// machine if that has no data.
    #[inline]
    pub(super) fn of_packet(&mut self, context: &mut Context, raw_id: u32) -> u32 {
        if raw_id == 0 {
            self.has_host = true;
            return self.file.machine;
        }
        self.remote(context, raw_id)
    }

    #[cold]
    fn remote(&mut self, context: &mut Context, raw_id: u32) -> u32 {
        self.check_single();
        if let Some(machines) = &self.file.machines {
            let known = machines.iter().find(|(id, _)| *id == raw_id);
            let Some((_, machine)) = known else {
                self.undeclared = Some(raw_id);
                return self.file.machine;
            };
            return *machine;
        }
        let is_taken = self.has_host
            || self.file.machine != 0
            || context.store.tables.machine.raw_id.get(0) != 0
            || context.machines.has(raw_id);
        let first = *self.adopted.get_or_insert_with(|| {
            if is_taken {
                0
            } else {
                context.store.tables.machine.raw_id.set(0, raw_id.into());
                raw_id
            }
        });
        if first == raw_id {
            return 0;
        }
        let (machine, is_new) = context.machines.intern(&mut context.store, raw_id);
        if is_new {
            start(context, machine, self.file.machine);
            context.processes.set_idle_task(&mut context.store);
        }
        machine
    }

    /// Handles a snapshot of clocks in the file.
    pub(super) fn check_clocks(&mut self) {
        if self.file.has_own_clock {
            self.broken.get_or_insert(SEVERAL_CLOCKS);
        }
    }

    /// Handles packets of several machines in the file.
    pub(super) fn check_single(&mut self) {
        if self.file.has_one_machine {
            self.broken.get_or_insert(SEVERAL_MACHINES);
        } else if self.file.has_own_clock {
            self.broken.get_or_insert(CLOCKS_OF_SEVERAL);
        }
    }
}

/// Initializes a new machine, whose default clock is that of `base`.
pub(super) fn start(context: &mut Context, machine: u32, base: u32) {
    context.store.set_machine(machine);
    if let Some(clock) = context.clocks.default_clock(base) {
        context.clocks.set_default(ClockId { machine, ..clock });
    }
    context.clocks.relate_later(machine);
    context.processes.start_machine(&mut context.store);
}
