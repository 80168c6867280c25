//! The system's tracing service.

use std::time::Duration;

use ferretto_client::{Address, Consumer};
use ferretto_ipc::names::{consumer_address, consumer_socket_name};
use ferretto_text::amount::counted;
use ferretto_text::terminal::shown_bytes;

use super::super::check::Check;

/// The timeout of the service's reply.
const LIMIT: Duration = Duration::from_secs(2);

/// Checks the system's service. Recordings start a service of their own, so its absence is not an
/// error.
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
        return Check::works(name, "none runs; recordings start their own");
    }
    let state = Consumer::connect(&address, LIMIT)
        .and_then(|mut consumer| consumer.query_service_state(LIMIT));
    match state {
        Ok(state) => {
            let version = shown_bytes(state.tracing_service_version.as_deref().unwrap_or_default());
            let producers = state.producers.len();
            Check::works(
                name,
                format!("{version}, {}", counted(producers as u64, "producer")),
            )
        }
        Err(error) => Check::limited(name, format!("{socket}: {error}"))
            .so("no record --system, and no perfetto command")
            .remedy(
                "ask for membership in the group of the socket: sudo usermod -aG tracing $USER",
            ),
    }
}
