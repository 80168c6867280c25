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

/// The variable that names the descriptor to tell when all data sources are registered.
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
            "copy so much of each stack (default 65280, or less where memory\n\
                      for rings is short); less is cheaper at high rates",
            |daemon, parser| {
                daemon.stack_bytes = Some(stack_bytes(parser)?);
                Ok(Taken::Known)
            },
        ),
        DaemonOption::SERVICE_UID,
        DaemonOption(
            "descriptor-socket PATH",
            "where processes may hand over their maps and memory",
            |daemon, parser| {
                daemon.descriptor_socket = Some(parser.value()?.into());
                Ok(Taken::Known)
            },
        ),
    ];
    const ENVIRONMENT: &'static [Row<'static>] = &environment(NOTIFY_FD);

    fn serve(self) -> Result<()> {
        privileges::allow_descriptors();
        // The kernel decides now whether the list shows addresses. If it cannot be opened that is
        // said when it is needed.
        let kallsyms = KernelSymbols::open().ok().map(Arc::new);
        // Before there are other threads, each of which has its own.
        if let Err(error) = privileges::keep_only(privileges::OF_PROFILER) {
            eprintln!(
                "traced_perf: privileges are kept: {}",
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

/// Returns the size of copies of stacks.
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
