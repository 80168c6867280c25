//! The options of the profiler.

use std::fs::File;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use ferretto_client::DaemonOptions;

use crate::config::Kernel;
use crate::event::Scope;
use crate::output::Format;

/// The options of the profiler.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The connection, and who is told of it.
    pub daemon: DaemonOptions,
    /// The format in which samples are written.
    pub format: Format,
    /// The number of threads that unwind; `None` for one for every two processors, at most four.
    pub unwinders: Option<NonZeroUsize>,
    /// The path of a socket, to be created, where processes may hand over descriptors of their own
    /// maps and memory; `None` for no socket.
    pub descriptor_socket: Option<PathBuf>,
    /// Bytes of each stack that the kernel copies, see
    /// [`Plan::set_stack_bytes`](crate::config::Plan::set_stack_bytes); `None` for as many as
    /// upstream's, or as many as the rings have room for.
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
    /// does not see short-lived processes.
    pub write_names: bool,
    /// The part of the machine to observe; `None` for all CPUs of the config or, without the
    /// privileges for that, the processes that the config names by number.
    pub scope: Option<Scope>,
}
