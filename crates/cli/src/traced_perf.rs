//! `traced_perf`: the callstack profiler as a daemon.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use ferretto_perf::config::MAX_STACK_BYTES;
use ferretto_perf::{Format, Options, Profiler};
use ferretto_symbols::kernel::KernelSymbols;
use lexopt::Parser;

use crate::daemon::{self, Complaint, Daemon, Service, Taken};
use crate::{errors, privileges};

const USAGE: &str = "\
Usage: traced_perf [OPTIONS]
The callstack profiler: the data source linux.perf. Samples every process for root and
with CAP_PERFMON and CAP_SYS_PTRACE, otherwise those of its user that a config names.

  --background                go on in the background, print the process id
  --stack-samples             write StackSample packets instead of PerfSample
  --stack-bytes N             copy so much of each stack (default 65280, or less where memory
                              for rings is short); less is cheaper at high rates
  --service-uid UID           let a tracing service of this user have what is recorded, not only
                              one of root or this user; may be repeated
  --descriptor-socket PATH    where processes may hand over their maps and memory
  --version                   show the version

Environment:
  PERFETTO_PRODUCER_SOCK_NAME   where the tracing service listens
  TRACED_PERF_NOTIFY_FD         a descriptor that gets a 1 when all are registered
";

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
    const USAGE: &'static str = USAGE;

    fn option(&mut self, name: &str, parser: &mut Parser) -> Result<Taken, Complaint> {
        match name {
            "stack-samples" => self.stack_samples = true,
            "stack-bytes" => self.stack_bytes = Some(stack_bytes(parser)?),
            "descriptor-socket" => self.descriptor_socket = Some(parser.value()?.into()),
            _ => return self.service.option(name, parser),
        }
        Ok(Taken::Known)
    }

    fn serve(self) -> Result<()> {
        privileges::allow_descriptors();
        // The kernel decides now whether the list shows addresses. If it cannot be opened that is said when it is needed.
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
            "TRACED_PERF_NOTIFY_FD",
            "perf-reader",
            self.service,
            |connection| {
                let profiler = Profiler::new(Options {
                    address: connection.address,
                    trusted_users: connection.trusted_users,
                    on_notice: connection.on_notice,
                    on_ready: connection.on_ready,
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

/// The size of copies of stacks.
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
