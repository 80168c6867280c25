//! `traced_probes`: the system's data sources as a daemon.

use anyhow::Result;
use ferretto_probes::Probes;
use lexopt::Parser;

use crate::daemon::{self, Complaint, Daemon, Service, Taken};

const USAGE: &str = "\
Usage: traced_probes [OPTIONS]
The data sources of the system: kernel events, processes, counters. Needs access to
tracefs for kernel events; the others work for every user.

  --background            go on in the background, print the process id
  --service-uid UID       let a tracing service of this user have what is recorded, not
                          only one of root or this user; may be repeated
  --reset-ftrace          reset the kernel's tracing first
  --cleanup-after-crash   reset the kernel's tracing and end
  --version               show the version

Environment:
  PERFETTO_PRODUCER_SOCK_NAME   where the tracing service listens
  TRACED_PROBES_NOTIFY_FD       a descriptor that gets a 1 when all are registered
";

/// Its options.
#[derive(Debug, Default)]
pub(crate) struct TracedProbes {
    reset: bool,
    service: Service,
}

impl Daemon for TracedProbes {
    const NAME: &'static str = "traced_probes";
    const USAGE: &'static str = USAGE;

    fn option(&mut self, name: &str, parser: &mut Parser) -> Result<Taken, Complaint> {
        match name {
            "reset-ftrace" => self.reset = true,
            "cleanup-after-crash" => return Ok(Taken::Instead(reset)),
            _ => return self.service.option(name, parser),
        }
        Ok(Taken::Known)
    }

    fn prepare(&self) {
        if self.reset {
            reset();
        }
    }

    fn serve(self) -> Result<()> {
        daemon::serve(
            Self::NAME,
            "TRACED_PROBES_NOTIFY_FD",
            "probes",
            self.service,
            |connection| {
                let probes = Probes::new(connection)?;
                Ok((probes.stopper(), move || probes.run()))
            },
        )
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
