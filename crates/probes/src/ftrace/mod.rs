//! `linux.ftrace`: the kernel's own trace events.
//!
//! [`Controller`] manages the kernel: it takes over tracefs, enables events, reads raw pages and
//! restores everything. [`Bundler`] turns raw pages into packets and accesses nothing else, so that
//! it can be tested and fuzzed with bytes alone.

mod bundle;
mod bytes;
mod claim;
mod compact;
mod config;
mod controller;
mod decoder;
mod dynamic;
mod error;
mod field_type;
mod format;
mod frozen;
mod instance;
mod kernel_state;
mod kprobes;
mod metadata;
mod misnamed;
mod own_instance;
mod page;
mod print_filter;
mod selection;
mod source;
mod stats;
mod symbols;
mod syscalls;
mod table;
mod throttle;
mod tracefs;
mod translator;
mod watermark;

pub(crate) use claim::reap;

/// Name of the ftrace data source.
pub const FTRACE: &str = "linux.ftrace";

pub use bundle::{Action, Batch, Bundler, ClockSnapshot, CpuState, Plan};
pub use compact::CompactFormat;
pub use config::{ConfigError, EventPattern, FtraceOptions};
pub use controller::Controller;
pub use decoder::{EventDecoder, StringTable};
pub use dynamic::{DynamicError, DynamicEvent, DynamicEvents, ProbeLocation, dynamic_names};
pub use error::SetupError;
pub use format::{EventFormat, FormatField};
pub use frozen::{FROZEN_FTRACE, FrozenError, FrozenFtrace};
pub use kernel_state::{KernelError, TraceClock};
pub use metadata::Metadata;
pub use misnamed::{Misnamed, kernel_events, misnamed};
pub use own_instance::OwnInstance;
pub use page::{InvalidHeader, Page, ParseStatus, ParsedPage, Record, Records};
pub use print_filter::{Match, PrintFilter, Rule};
pub use table::{KnownEvent, MessageField, MessageType, find, known_events};
pub use throttle::RssLayout;
pub use tracefs::{CpuStats, Tracefs, TracefsError, hard_reset};
