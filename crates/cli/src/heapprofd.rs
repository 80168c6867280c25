//! `heapprofd`: the heap profiler as a daemon.

use std::path::PathBuf;

use anyhow::{Context, Result};
use ferretto_heapprofd::{Options, Profiler};
use lexopt::Parser;

use crate::daemon::{self, Complaint, Daemon, DaemonOption, Offers, Service, Taken, environment};
use crate::preload;
use crate::usage::Row;

/// The variable with the descriptor to notify when the data source is registered.
const NOTIFY_FD: &str = "HEAPPROFD_NOTIFY_FD";

/// Its options.
#[derive(Debug, Default)]
pub(crate) struct Heapprofd {
    socket: Option<PathBuf>,
    library: Option<PathBuf>,
    service: Service,
}

impl Daemon for Heapprofd {
    const NAME: &'static str = "heapprofd";
    const ABOUT: &'static str = "\
The heap profiler: the data source android.heapprofd. Records programs that are started
with LD_PRELOAD=libferretto_heap.so, which --write-library makes, or bring the allocator
ferretto_heap::Allocator along.";
    const COLUMN: usize = 30;
    const OPTIONS: &'static [DaemonOption<Self>] = &[
        DaemonOption(
            "socket PATH",
            "socket for programs [default: /run/perfetto/heapprofd.sock]",
            |daemon, parser| {
                daemon.socket = Some(parser.value()?.into());
                Ok(Taken::Known)
            },
        ),
        DaemonOption(
            "write-library PATH",
            "write libferretto_heap.so there and exit",
            Self::take_library,
        ),
        DaemonOption::SERVICE_UID,
    ];
    const ENVIRONMENT: &'static [Row<'static>] = &environment(NOTIFY_FD);

    fn serve(self) -> Result<()> {
        if let Some(path) = &self.library {
            return preload::write(path);
        }
        let activated =
            ferretto_host::activated_socket().context("cannot use the passed socket")?;
        daemon::serve(
            Self::NAME,
            NOTIFY_FD,
            "heapprofd",
            self.service,
            |connection| {
                let options = Options {
                    daemon: connection,
                    socket: self.socket,
                    live: None,
                };
                let profiler = match activated {
                    Some(socket) => Profiler::with_socket(options, socket)?,
                    None => Profiler::new(options)?,
                };
                Ok((profiler.stopper(), move || profiler.run()))
            },
        )
    }
}

impl Heapprofd {
    fn take_library(&mut self, parser: &mut Parser) -> Result<Taken, Complaint> {
        self.library = Some(parser.value()?.into());
        Ok(Taken::Known)
    }
}

impl Offers for Heapprofd {
    fn service(&mut self) -> &mut Service {
        &mut self.service
    }
}
