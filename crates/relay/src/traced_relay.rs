//! The `traced_relay` program, without its command line.

use std::os::unix::net::UnixStream;

use ferretto_host::{InheritedSockets, Readiness, raise_descriptor_limit};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::options::RelayOptions;
use crate::relay::{Relay, RelayError};

/// Names the descriptor to which `1` is written when the local socket listens.
pub const NOTIFY_VARIABLE: &str = "TRACED_RELAY_NOTIFY_FD";

/// Runs the relay until SIGTERM or SIGINT. Takes these signals of the whole process over, so it is
/// for programs that are nothing but the relay. `listening` is called once producers can connect.
///
/// A socket that systemd or Android's init has bound takes the place of that in the options. When
/// producers can connect, `1` is written to the descriptor named by [`NOTIFY_VARIABLE`], which is
/// then closed, and systemd is told if it waits.
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
