//! The names of threads.

use ferretto_format::kernel_bundle::BundleHeader;
use ferretto_proto::fields::trace_packet as field;
use ferretto_proto::views::FtraceEventBundleView;
use ferretto_wire::Fields;

use super::ftrace::{Around, Ftrace};
use super::sched::Sched;
use crate::bounds::EventTimes;
use crate::limits::Budget;
use crate::threads::Threads;

/// Collects the names and processes of threads from all packets that contain them.
#[derive(Debug)]
pub(crate) struct ThreadNames {
    threads: Threads,
    ftrace: Ftrace,
    sched: Sched,
    times: EventTimes,
}

impl ThreadNames {
    pub(crate) fn new(budget: &Budget) -> Self {
        Self {
            threads: Threads::new(budget),
            ftrace: Ftrace::default(),
            sched: Sched::default(),
            times: EventTimes::new(budget),
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
                    let mut around = Around {
                        sched: &mut self.sched,
                        threads: &mut self.threads,
                        times: &mut self.times,
                        // Names do not depend on clocks.
                        header: BundleHeader::default(),
                    };
                    let bundle = FtraceEventBundleView::read(body);
                    self.ftrace.bundle(machine, 0, &bundle, &mut around);
                }
                _ => {}
            }
        }
    }

    pub(crate) fn finish(self) -> Threads {
        self.threads
    }
}
