//! The options of the profiler.

use std::fmt;
use std::fs::File;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use ferretto_client::{Address, DaemonOptions, Notice, NoticeHandler};

use crate::config::Kernel;
use crate::event::Scope;
use crate::output::Format;

/// The options of the profiler.
#[derive(Clone, Default)]
pub struct Options {
    /// Producer socket of the service; `None` for the one the environment names, or the default.
    pub address: Option<Address>,
    /// Users whose services may have what is recorded, see [`DaemonOptions`].
    pub trusted_users: Vec<u32>,
    /// Told of what happens; `None` to ignore it.
    pub on_notice: Option<NoticeHandler>,
    /// Called when the service has processed the registration of every data source, each time a
    /// connection is made.
    pub on_ready: Option<Arc<dyn Fn() + Send + Sync>>,
    /// The format in which samples are written.
    pub format: Format,
    /// The number of threads that unwind; `None` for one for every two processors, at most four.
    pub unwinders: Option<NonZeroUsize>,
    /// The path of a socket, to be created, where processes may hand over descriptors of their own
    /// maps and memory; `None` for no socket.
    pub descriptor_socket: Option<PathBuf>,
    /// Bytes of each stack that the kernel copies, see
    /// [`Plan::set_stack_bytes`](crate::config::Plan::set_stack_bytes); `None` for as many as
    /// upstream's, or what the rings have room for.
    pub stack_bytes: Option<u32>,
    /// The list of the kernel's functions, opened while this process had the privileges to see
    /// their addresses ([`KernelSymbols::open`](ferretto_symbols::kernel::KernelSymbols::open));
    /// `None` to open it when it is needed.
    pub kallsyms: Option<Arc<File>>,
    /// The paths of the kernel's files.
    pub kernel: Kernel,
    /// Do not open maps and memory of processes, but wait until they hand them over.
    pub only_handed_over: bool,
    /// Also write the names of the processes and threads that are sampled, as `ProcessTree`
    /// packets. Upstream's profiler leaves that to the data source `linux.process_stats`, which
    /// does not see what lives for a short time.
    pub tell_names: bool,
    /// The part of the machine to observe; `None` for all CPUs of the config or, without the
    /// privileges for that, the processes that the config names by number.
    pub scope: Option<Scope>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("address", &self.address)
            .field("format", &self.format)
            .field("unwinders", &self.unwinders)
            .field("descriptor_socket", &self.descriptor_socket)
            .field("only_handed_over", &self.only_handed_over)
            .field("tell_names", &self.tell_names)
            .field("stack_bytes", &self.stack_bytes)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

impl Options {
    pub(crate) fn daemon(&self) -> DaemonOptions {
        DaemonOptions {
            address: self.address.clone(),
            trusted_users: self.trusted_users.clone(),
            on_notice: self.on_notice.clone(),
            on_ready: self.on_ready.clone(),
        }
    }

    pub(crate) fn notify(&self, notice: Notice) {
        if let Some(handler) = &self.on_notice {
            handler(&notice);
        }
    }
}
