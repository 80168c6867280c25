//! The `traced` program, without its command line.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::sys::signal::Signal;
use rustix::process::{Resource, getrlimit, setrlimit};
use signal_hook::consts::SIGXFSZ;

use crate::extensions;
use crate::host::{Host, HostError};
use crate::inherited::InheritedSockets;
use crate::notice::NoticeSink;
use crate::options::HostOptions;
use crate::readiness::Readiness;
use crate::termination::Termination;
use crate::watchdog::WatchdogError;

/// The variable with the descriptor to which `1` is written when both sockets listen.
pub const NOTIFY_VARIABLE: &str = "TRACED_NOTIFY_FD";

/// Runs the service until SIGTERM or SIGINT. It handles these signals for the whole process, so it
/// is for programs that only run the service: call it before there are other threads. Notices go to
/// standard error unless the options say otherwise. `listening` is called once clients can connect.
/// A service that exceeds the limits of its watchdog ends with an error and completes its files:
/// see [`WatchdogLimits`](crate::WatchdogLimits).
///
/// Sockets bound by systemd or Android's init replace those in the options ([`InheritedSockets`]).
/// When clients can connect, `1` is written to the descriptor named by [`NOTIFY_VARIABLE`], which
/// is then closed, and systemd is notified if it waits.
///
/// # Errors
///
/// See [`HostError`].
pub fn run(mut options: HostOptions, listening: impl FnOnce(&Host)) -> Result<(), HostError> {
    let termination = Termination::of([Signal::SIGTERM, Signal::SIGINT])?;
    let mut readiness = Readiness::from_environment(NOTIFY_VARIABLE)?;
    let sockets = InheritedSockets::from_environment()?;
    if options.notices.is_none() {
        options.notices = NoticeSink::stderr("traced");
    }
    options.watchdog.get_or_insert_default();
    let extensions = extensions::installed(&options.notices);
    options.service.extension_descriptors.extend(extensions);
    raise_descriptor_limit();
    // Writing to a file at its size limit then fails instead of ending the process.
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    let mut host = Host::with_sockets(options, sockets)?;
    host.stop_at(termination)?;
    readiness.ready()?;
    listening(&host);
    host.run_until(|| readiness.stopping()).map_err(|error| {
        match error.downcast::<WatchdogError>() {
            Ok(error) => HostError::Watchdog(error),
            Err(error) => HostError::Io(error),
        }
    })
}

/// Raises this process's soft limit of descriptors to the hard limit: each client takes two or
/// three, and the soft limit is usually 1024.
pub fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If this fails, the service can serve fewer clients.
    let _ = setrlimit(Resource::Nofile, limit);
}
