//! The tracing service on real sockets, files and clocks.
//!
//! # Guarantees
//!
//! * A client that floods, stalls, breaks the protocol or dies does not affect other clients: the
//!   work per client and turn is bounded, the memory kept for it is bounded, and the host never
//!   waits for it.
//! * The socket of a running service is never replaced. A stale socket file is replaced, and the
//!   host's own files are removed at the end.
//! * An idle host uses no CPU time.
//!
//! # Main types
//!
//! [`Host`] listens and serves as [`HostOptions`] say; [`Stopper`] ends it. [`traced::run`] is the
//! whole daemon.
#![forbid(unsafe_code)]

mod admission;
mod client;
mod closer;
mod commands;
mod extensions;
mod heartbeat;
mod host;
mod inherited;
mod notice;
mod options;
mod origin;
mod permissions;
mod reactor;
mod readiness;
mod remote;
mod schedule;
mod sending;
mod termination;
mod time_zone;
pub mod traced;
mod watchdog;

pub use ferretto_service::Waiting;
pub use ferretto_service::driver::system_info;
pub use host::{Host, HostError, Stopper};
pub use inherited::{InheritedError, InheritedSockets, activated_socket};
pub use notice::{ClientName, Notice, NoticeSink};
pub use options::service_options;
pub use options::{CpuAllowance, HostOptions, Limits, RelayEndpoints};
pub use origin::Origin;
pub use permissions::{FilePermissions, PermissionsError, SocketPermissions};
pub use readiness::Readiness;
pub use remote::{AllowedHost, NoSuchHost, RemoteRefusal};
pub use termination::Termination;
pub use traced::raise_descriptor_limit;
pub use watchdog::{WatchdogError, WatchdogLimits, WatchdogScope};
