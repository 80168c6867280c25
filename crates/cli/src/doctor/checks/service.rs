//! The service of the machine.

use std::time::Duration;

use ferretto_client::{Address, Consumer};
use ferretto_ipc::names::{consumer_address, consumer_socket_name};
use ferretto_text::terminal::shown_bytes;

use super::super::check::Check;

/// The longest time that the service may take to say what it is.
const LIMIT: Duration = Duration::from_secs(2);

/// Returns what was found about the service of the machine. Recordings bring one of their own, so
/// nothing is missing without it.
pub(super) fn system() -> Check {
    let name = "system service";
    let socket = consumer_socket_name();
    let socket = socket.to_string_lossy();
    let address = match consumer_address() {
        Ok(address) => address,
        Err(error) => {
            return Check::missing(name, format!("PERFETTO_CONSUMER_SOCK_NAME: {error}"))
                .so("no record --system, and no perfetto command")
                .remedy("unset PERFETTO_CONSUMER_SOCK_NAME");
        }
    };
    if let Address::Path(path) = &address
        && !path.exists()
    {
        return Check::works(name, "none runs; recordings bring their own");
    }
    let state = Consumer::connect(&address, LIMIT)
        .and_then(|mut consumer| consumer.query_service_state(LIMIT));
    match state {
        Ok(state) => {
            let version = shown_bytes(state.tracing_service_version.as_deref().unwrap_or_default());
            let producers = state.producers.len();
            Check::works(name, format!("{version}, {producers} producers"))
        }
        Err(error) => Check::limited(name, format!("{socket}: {error}"))
            .so("no record --system, and no perfetto command")
            .remedy(
                "ask for membership in the group of the socket: sudo usermod -aG tracing $USER",
            ),
    }
}
