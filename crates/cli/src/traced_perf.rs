//! `traced_perf`: the callstack profiler as a daemon.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use ferretto_perf::config::MAX_STACK_BYTES;
use ferretto_perf::{Format, Options, Profiler};
use ferretto_symbols::kernel::KernelSymbols;
use lexopt::Parser;

use crate::daemon::{self, Complaint, Daemon, DaemonOption, Offers, Service, Taken, environment};
use crate::usage::Row;
use crate::{errors, privileges};

/// The variable with the descriptor to notify when all data sources are registered.
const NOTIFY_FD: &str = "TRACED_PERF_NOTIFY_FD";

/// Its options.
#[derive(Debug, Default)]
pub(crate) struct TracedPerf {
    stack_samples: bool,
    stack_bytes: Option<u32>,
    descriptor_socket: Option<PathBuf>,
    service: Service,
}

impl Daemon for TracedPerf {
    const NAME: &'static str = "traced_perf";
    const ABOUT: &'static str = "\
The callstack profiler: the data source linux.perf. Samples every process for root and
with CAP_PERFMON and CAP_SYS_PTRACE, otherwise those of its user that a config names.";
    const COLUMN: usize = 30;
    const OPTIONS: &'static [DaemonOption<Self>] = &[
        DaemonOption(
            "stack-samples",
            "write StackSample packets instead of PerfSample",
            |daemon, _| {
                daemon.stack_samples = true;
                Ok(Taken::Known)
            },
        ),
        DaemonOption(
            "stack-bytes N",
            "number of bytes to copy of each stack (default 65280, or less if\n\
                     memory for rings is short); less is cheaper at high rates",
            |daemon, parser| {
                daemon.stack_bytes = Some(stack_bytes(parser)?);
                Ok(Taken::Known)
            },
        ),
        DaemonOption::SERVICE_UID,
        DaemonOption(
            "descriptor-socket PATH",
            "socket on which processes may pass their maps and memory",
            |daemon, parser| {
                daemon.descriptor_socket = Some(parser.value()?.into());
                Ok(Taken::Known)
            },
        ),
    ];
    const ENVIRONMENT: &'static [Row<'static>] = &environment(NOTIFY_FD);

    fn serve(self) -> Result<()> {
        privileges::allow_descriptors();
        // The kernel checks permissions at opening. A failure is reported when the list is needed.
        let kallsyms = KernelSymbols::open().ok().map(Arc::new);
        // Capabilities are per thread, so this runs before other threads start.
        if let Err(error) = privileges::keep_only(privileges::OF_PROFILER) {
            eprintln!(
                "traced_perf: cannot drop privileges: {}",
                errors::reason(&error)
            );
        }
        daemon::serve(
            Self::NAME,
            NOTIFY_FD,
            "perf-reader",
            self.service,
            |connection| {
                let profiler = Profiler::new(Options {
                    daemon: connection,
                    format: if self.stack_samples {
                        Format::StackSample
                    } else {
                        Format::PerfSample
                    },
                    stack_bytes: self.stack_bytes,
                    descriptor_socket: self.descriptor_socket,
                    kallsyms,
                    ..Options::default()
                })?;
                Ok((profiler.stopper(), move || profiler.run()))
            },
        )
    }
}

impl Offers for TracedPerf {
    fn service(&mut self) -> &mut Service {
        &mut self.service
    }
}

/// Parses the size of stack copies.
fn stack_bytes(parser: &mut Parser) -> Result<u32, Complaint> {
    let value = parser.value()?;
    let number = value.to_str().and_then(|text| text.parse::<u32>().ok());
    number
        .filter(|&bytes| bytes != 0 && bytes <= MAX_STACK_BYTES && bytes.is_multiple_of(8))
        .ok_or_else(|| {
            Complaint::Option(format!(
                "--stack-bytes takes a multiple of 8 up to {MAX_STACK_BYTES}, not {value:?}"
            ))
        })
}
