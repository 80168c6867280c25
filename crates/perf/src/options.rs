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
    /// The connection and its observer.
    pub daemon: DaemonOptions,
    /// The packet format of samples.
    pub format: Format,
    /// The number of unwinder threads; `None` for one per two CPUs, at most four.
    pub unwinders: Option<NonZeroUsize>,
    /// The path of a socket to be created, through which processes can send descriptors of their
    /// maps and memory; `None` for no socket.
    pub descriptor_socket: Option<PathBuf>,
    /// The size of the stack copy in each sample, see
    /// [`Plan::set_stack_bytes`](crate::config::Plan::set_stack_bytes); `None` for upstream's size,
    /// or the size that fits into the rings.
    pub stack_bytes: Option<u32>,
    /// The list of the kernel's symbols, opened while this process had the privileges to see their
    /// addresses ([`KernelSymbols::open`](ferretto_symbols::kernel::KernelSymbols::open)); `None`
    /// to open it when it is needed.
    pub kallsyms: Option<Arc<File>>,
    /// The paths of the kernel's files.
    pub kernel: Kernel,
    /// Set to wait for processes to send the descriptors of their maps and memory instead of
    /// opening these.
    pub only_handed_over: bool,
    /// Set to write the names of sampled processes and threads, as `ProcessTree` packets.
    /// Upstream's profiler leaves that to the data source `linux.process_stats`, which misses
    /// short-lived processes.
    pub write_names: bool,
    /// The part of the machine to observe; `None` for all CPUs of the config or, without the
    /// necessary privileges, the processes that the config selects by id.
    pub scope: Option<Scope>,
}
