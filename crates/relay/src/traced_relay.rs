//! The `traced_relay` program, without its command line.

use ferretto_host::{InheritedSockets, Readiness, Termination, raise_descriptor_limit};
use nix::sys::signal::Signal;

use crate::options::RelayOptions;
use crate::relay::{Relay, RelayError};

/// The environment variable with the descriptor to which `1` is written when the local socket
/// listens.
pub const NOTIFY_VARIABLE: &str = "TRACED_RELAY_NOTIFY_FD";

/// Runs the relay until SIGTERM or SIGINT. Handles these signals for the whole process, so it is
/// for programs that are only a relay: call it before there are other threads. Calls `listening`
/// once producers can connect.
///
/// A socket bound by systemd or Android's init replaces the one in the options. When producers can
/// connect, writes `1` to the descriptor in [`NOTIFY_VARIABLE`], closes it, and notifies systemd if
/// it waits.
///
/// # Errors
///
/// See [`RelayError`].
pub fn run(options: RelayOptions, listening: impl FnOnce(&Relay)) -> Result<(), RelayError> {
    let termination = Termination::of([Signal::SIGTERM, Signal::SIGINT])?;
    let mut readiness = Readiness::from_environment(NOTIFY_VARIABLE)?;
    let inherited = InheritedSockets::from_environment()?;
    raise_descriptor_limit();
    let mut relay = match inherited.producers.into_iter().next() {
        Some(listener) => Relay::with_listener(options, listener)?,
        None => Relay::bind(options)?,
    };
    relay.stop_at(termination)?;
    readiness.ready()?;
    listening(&relay);
    relay.run()?;
    readiness.stopping();
    Ok(())
}
