//! `traced_probes`: the system's data sources as a daemon.

use anyhow::Result;
use ferretto_probes::Probes;

use crate::daemon::{self, Daemon, DaemonOption, Offers, Service, Taken, environment};
use crate::usage::Row;

/// The variable with the descriptor to notify when all data sources are registered.
const NOTIFY_FD: &str = "TRACED_PROBES_NOTIFY_FD";

/// Its options.
#[derive(Debug, Default)]
pub(crate) struct TracedProbes {
    reset: bool,
    service: Service,
}

impl Daemon for TracedProbes {
    const NAME: &'static str = "traced_probes";
    const ABOUT: &'static str = "\
The data sources of the system: kernel events, processes, counters. Needs access to
tracefs for kernel events; the others work for every user.";
    const COLUMN: usize = 26;
    const OPTIONS: &'static [DaemonOption<Self>] = &[
        DaemonOption::SERVICE_UID,
        DaemonOption(
            "reset-ftrace",
            "reset the kernel's tracing first",
            |daemon, _| {
                daemon.reset = true;
                Ok(Taken::Known)
            },
        ),
        DaemonOption(
            "cleanup-after-crash",
            "reset the kernel's tracing and exit",
            |_, _| Ok(Taken::Instead(reset)),
        ),
    ];
    const ENVIRONMENT: &'static [Row<'static>] = &environment(NOTIFY_FD);

    fn prepare(&self) {
        if self.reset {
            reset();
        }
    }

    fn serve(self) -> Result<()> {
        daemon::serve(
            Self::NAME,
            NOTIFY_FD,
            "probes",
            self.service,
            |connection| {
                let probes = Probes::new(connection)?;
                Ok((probes.stopper(), move || probes.run()))
            },
        )
    }
}

impl Offers for TracedProbes {
    fn service(&mut self) -> &mut Service {
        &mut self.service
    }
}

fn reset() {
    if let Err(error) = ferretto_probes::ftrace::hard_reset() {
        eprintln!(
            "Failed to reset ftrace. Either run this as root or run \
             `sudo chown -R $USER /sys/kernel/tracing` ({error})"
        );
    }
}
