//! The `traced_relay` program, without its command line.

use std::os::unix::net::UnixStream;

use ferretto_host::{InheritedSockets, Readiness, raise_descriptor_limit};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::options::RelayOptions;
use crate::relay::{Relay, RelayError};

/// The environment variable with the descriptor to which `1` is written when the local socket
/// listens.
pub const NOTIFY_VARIABLE: &str = "TRACED_RELAY_NOTIFY_FD";

/// Runs the relay until SIGTERM or SIGINT. Handles these signals for the whole process, so it is
/// for programs that are only a relay. Calls `listening` once producers can connect.
///
/// A socket bound by systemd or Android's init replaces the one in the options. When producers can
/// connect, writes `1` to the descriptor in [`NOTIFY_VARIABLE`], closes it, and notifies systemd if
/// it waits.
///
/// # Errors
///
/// See [`RelayError`].
pub fn run(options: RelayOptions, listening: impl FnOnce(&Relay)) -> Result<(), RelayError> {
    let mut readiness = Readiness::from_environment(NOTIFY_VARIABLE)?;
    let inherited = InheritedSockets::from_environment()?;
    raise_descriptor_limit();
    let (signalled, handler) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::low_level::pipe::register(signal, handler.try_clone()?)?;
    }
    signalled.set_nonblocking(true)?;
    let mut relay = match inherited.producers.into_iter().next() {
        Some(listener) => Relay::with_listener(options, listener)?,
        None => Relay::bind(options)?,
    };
    relay.stop_when_readable(signalled.into())?;
    readiness.ready()?;
    listening(&relay);
    relay.run()?;
    readiness.stopping();
    Ok(())
}
