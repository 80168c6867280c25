//! `traced_relay`: forwards the producers of this machine to the tracing service of another.

use anyhow::{Context, Result};
use ferretto_host::FilePermissions;
use ferretto_ipc::names::{self, RELAY_SOCKET_VARIABLE};
use ferretto_relay::{NoticeSink, Relay, RelayOptions};
use lexopt::Parser;

use crate::daemon::{Complaint, Daemon, DaemonOption, Taken};
use crate::usage::Row;

/// Its options.
#[derive(Debug, Default)]
pub(crate) struct TracedRelay {
    permissions: Option<FilePermissions>,
}

impl Daemon for TracedRelay {
    const NAME: &'static str = "traced_relay";
    const ABOUT: &'static str = "\
Brings the producers of this machine to the tracing service of another, in whose
recordings they take part. It replaces a service here.";
    const COLUMN: usize = 38;
    const OPTIONS: &'static [DaemonOption<Self>] = &[DaemonOption(
        "set-socket-permissions GROUP:MODE",
        "group and mode of the producer socket, e.g. traced:0660",
        Self::take_permissions,
    )];
    const ENVIRONMENT: &'static [Row<'static>] = &[
        Row {
            typed: "PERFETTO_RELAY_SOCK_NAME",
            meaning: "producer socket of that service: HOST:PORT,\n[IPV6]:PORT, vsock://CID:PORT or a path; required",
        },
        Row {
            typed: "PERFETTO_PRODUCER_SOCK_NAME",
            meaning: "producer socket of this machine",
        },
        Row {
            typed: "PERFETTO_MACHINE_NAME",
            meaning: "name of this machine; default the host name",
        },
        Row {
            typed: "FERRETTO_MACHINE_ID",
            meaning: "unique id of this machine; default its boot id; for\ncontainers that share a kernel",
        },
        Row {
            typed: "FERRETTO_TLS",
            meaning: "folder with the certificates of this machine, created by\nferretto relay-cert; default no encryption",
        },
        Row {
            typed: "TRACED_RELAY_NOTIFY_FD",
            meaning: "file descriptor to write a 1 to when producers can connect",
        },
    ];
    const NOTE: &'static str = "\
A socket passed by systemd (LISTEN_FDS) is used for producers, and systemd is notified when the relay is ready.
";

    fn check(&self) -> Result<(), Complaint> {
        match names::relay_address() {
            // Each connection would cause another one.
            Ok(Some(host)) if names::producer_address().is_ok_and(|listen| listen == host) => {
                Err(Complaint::Alone(format!(
                    "{RELAY_SOCKET_VARIABLE} is {host}, where this relay would listen itself"
                )))
            }
            Ok(Some(_)) => Ok(()),
            Ok(None) | Err(ferretto_ipc::address::AddressError::Empty) => {
                Err(Complaint::Option(format!(
                    "{RELAY_SOCKET_VARIABLE} is not set; set it to the address of the tracing service"
                )))
            }
            Err(error) => Err(Complaint::Alone(format!(
                "{RELAY_SOCKET_VARIABLE}: {error}"
            ))),
        }
    }

    fn serve(self) -> Result<()> {
        let host = names::relay_address()?.context("there is no host")?;
        let listen = names::producer_address().context("PERFETTO_PRODUCER_SOCK_NAME")?;
        let options = RelayOptions {
            permissions: self.permissions,
            notices: NoticeSink::new(|notice| eprintln!("traced_relay: {notice}")),
            ..RelayOptions::new(listen, host.clone())
        };
        ferretto_relay::traced_relay::run(options, |relay: &Relay| {
            eprintln!(
                "Started traced_relay, listening on {}, forwarding to {host}",
                relay.address()
            );
        })
        .context("Failed to start the relay")
    }
}

impl TracedRelay {
    fn take_permissions(&mut self, parser: &mut Parser) -> Result<Taken, Complaint> {
        let value = parser.value()?;
        let permissions = FilePermissions::from_pair(&value.to_string_lossy());
        self.permissions = Some(permissions.map_err(|error| {
            Complaint::Alone(format!("Failed to set socket permissions: {error}"))
        })?);
        Ok(Taken::Known)
    }
}
