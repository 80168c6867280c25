//! System data sources: ftrace, process and system statistics.
//!
//! - `linux.ftrace`: kernel events, read as raw pages from tracefs ([`ftrace`]).
//! - `linux.frozen_ftrace`: kernel events of the previous boot ([`FrozenFtrace`]).
//! - `linux.inode_file_map`: names of files that kernel events refer to by number ([`InodeMap`]).
//! - `linux.systemd_journald`: entries of systemd's journal ([`Journal`]).
//! - `linux.sysfs_power`: charge, current and voltage of batteries ([`Batteries`]).
//! - `linux.process_stats`: processes, threads and their resources ([`ProcessStats`]).
//! - `linux.sys_stats`: counters of the whole machine ([`SysStats`]).
//! - `linux.system_info`: the machine's processors and interrupts.
//! - `perfetto.metatrace`: the times and durations of these readings.
//!
//! The main types: [`Probes`] is the producer that offers these data sources to a service and runs
//! them on one thread; [`Unavailable`] names data that this machine or user cannot record, and the
//! remedy.
//!
//! # Guarantees
//!
//! * Packets and configs are those of upstream's `traced_probes`.
//! * The kernel's tracing state is restored: clock, buffer size, enabled events, whether it was on.
//!   Only a killed process cannot do so; [`ftrace::hard_reset`] is for recovery from that.
//! * No bytes from the kernel cause a panic.
#![forbid(unsafe_code)]

mod availability;
mod clock;
pub mod ftrace;
mod inode_map;
mod journal;
mod kinds;
mod power;
mod probes;
mod process_stats;
mod procfs;
mod registration;
mod source;
mod sys_stats;
mod system_info;

pub use availability::{Unavailable, availability};
pub use ferretto_client::{
    DaemonOptions as ProbesOptions, Notice, NoticeHandler, PacketSink, Stopper,
};
pub use ftrace::{FROZEN_FTRACE, FTRACE, FrozenFtrace};
pub use inode_map::{INODE_FILE_MAP, InodeMap};
pub use journal::{Journal, SYSTEMD_JOURNALD};
pub use power::{Batteries, SYSFS_POWER};
pub use probes::Probes;
pub use process_stats::{PROCESS_STATS, ProcessStats};
pub use registration::descriptors;
pub use source::DataSource;
pub use sys_stats::{SYS_STATS, SysStats};
pub use system_info::SYSTEM_INFO;
