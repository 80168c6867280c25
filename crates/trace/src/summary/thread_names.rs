//! The names of threads.

use ferretto_proto::fields::trace_packet as field;
use ferretto_wire::Fields;

use super::ftrace::Ftrace;
use super::sched::Sched;
use crate::limits::Budget;
use crate::threads::Threads;

/// Collects the names and processes of threads from all packets that contain them.
#[derive(Debug)]
pub(crate) struct ThreadNames {
    threads: Threads,
    ftrace: Ftrace,
    sched: Sched,
}

impl ThreadNames {
    pub(crate) fn new(budget: &Budget) -> Self {
        Self {
            threads: Threads::new(budget),
            ftrace: Ftrace::default(),
            sched: Sched::default(),
        }
    }

    /// Reads an encoded `TracePacket`.
    pub(crate) fn add(&mut self, packet: &[u8]) {
        let machine = Fields::find(field::MACHINE_ID, packet);
        let machine = machine.and_then(|id| id.as_u32()).unwrap_or(0);
        for part in Fields::new(packet).map_while(Result::ok) {
            let body = part.as_bytes().unwrap_or_default();
            match part.number {
                field::PROCESS_TREE => self.threads.process_tree(machine, body),
                field::FTRACE_EVENTS => {
                    self.ftrace
                        .bundle(machine, 0, body, &mut self.sched, &mut self.threads);
                }
                _ => {}
            }
        }
    }

    pub(crate) fn finish(self) -> Threads {
        self.threads
    }
}
