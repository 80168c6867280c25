//! `traced`: the tracing service as a daemon.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use ferretto_host::{
    AllowedHost, CpuAllowance, Host, HostError, HostOptions, PermissionsError, RelayEndpoints,
    SocketPermissions, WatchdogLimits, WatchdogScope,
};
use ferretto_ipc::Address;
use lexopt::Parser;

use crate::daemon::{Complaint, Daemon, DaemonOption, Taken};
use crate::usage::Row;

/// Its options.
#[derive(Debug, Default)]
pub(crate) struct Traced {
    permissions: Option<SocketPermissions>,
    relays: RelayEndpoints,
    require_identity: Option<bool>,
    allowed_hosts: Vec<AllowedHost>,
    output_folders: Vec<PathBuf>,
    user_cpu: Option<u64>,
    watchdog: WatchdogScope,
}

impl Daemon for Traced {
    const NAME: &'static str = "traced";
    const ABOUT: &'static str = "The tracing service. It needs no privileges.";
    const COLUMN: usize = 36;
    const OPTIONS: &'static [DaemonOption<Self>] = &[
        DaemonOption(
            "set-socket-permissions PG:PM:CG:CM",
            "\ngroup and mode of the producer and the\n\
                     consumer sockets, e.g. traced:0660:tracing:0660",
            Self::take_permissions,
        ),
        DaemonOption(
            "output-folder DIR",
            "folder below which configs of users other than root and the\n\
                     service's own may create files (output_path);\n\
                     default none; may be repeated",
            Self::take_output_folder,
        ),
        DaemonOption(
            "enable-relay-endpoint",
            "let relays of other machines synchronize clocks on every\nproducer socket",
            |daemon, _| {
                daemon.relays = RelayEndpoints::Everywhere;
                Ok(Taken::Known)
            },
        ),
        DaemonOption(
            "enable-relay-endpoint-on SOCKET",
            "the same, on this producer socket only; may be repeated",
            Self::take_relay,
        ),
        DaemonOption(
            "allow-host ADDRESS[/BITS]",
            "address or vsock://CID of machines that may connect; default\n\
                     all; may be repeated",
            Self::take_host,
        ),
        DaemonOption(
            "require-identity",
            "refuse producers on other machines that send no identity; the\n\
                     default with --allow-host or FERRETTO_TLS",
            |daemon, _| {
                daemon.require_identity = Some(true);
                Ok(Taken::Known)
            },
        ),
        DaemonOption(
            "allow-unidentified",
            "serve producers on other machines that send no identity; the\n\
                     default without these",
            |daemon, _| {
                daemon.require_identity = Some(false);
                Ok(Taken::Known)
            },
        ),
        DaemonOption(
            "user-cpu PERCENT",
            "limit of the service's sustained CPU use for the programs of\n\
                     one user, in percent of a CPU; default 80; 0 for none",
            Self::take_user_cpu,
        ),
        DaemonOption(
            "watchdog own|process",
            "when the service kills itself: on its own faults (own, the\n\
                     default), or, as upstream, also when programs make the process\n\
                     use 90 % of a CPU for ten minutes or 64 MiB too much memory",
            Self::take_watchdog,
        ),
    ];
    const ENVIRONMENT: &'static [Row<'static>] = &[
        Row {
            typed: "PERFETTO_PRODUCER_SOCK_NAME",
            meaning: "producer sockets, a comma-separated list",
        },
        Row {
            typed: "PERFETTO_CONSUMER_SOCK_NAME",
            meaning: "consumer socket",
        },
        Row {
            typed: "TRACED_NOTIFY_FD",
            meaning: "file descriptor to write a 1 to when both sockets listen",
        },
        Row {
            typed: "FERRETTO_TLS",
            meaning: "folder with the certificates of this machine, created by\nferretto relay-cert; default no encryption",
        },
    ];
    const NOTE: &'static str = "\
Sockets passed by systemd (LISTEN_FDS) replace these, and systemd is notified when the service is ready.
";

    fn serve(self) -> Result<()> {
        let mut host = HostOptions::from_environment()
            .context("Failed to start the traced service: a socket name is wrong")?;
        host.permissions = self.permissions;
        host.relays = self.relays;
        host.require_identity = self.require_identity;
        host.allowed_hosts = self.allowed_hosts;
        host.service.output_folders = self.output_folders;
        host.watchdog = Some(WatchdogLimits {
            scope: self.watchdog,
            ..WatchdogLimits::default()
        });
        host.limits.cpu_per_user = match self.user_cpu {
            Some(0) => None,
            percent => Some(allowance(percent)),
        };
        match ferretto_host::traced::run(host, report_listening) {
            Ok(()) => Ok(()),
            Err(HostError::NoRelayAddress { address, producers }) => bail!(
                "--enable-relay-endpoint-on={address} does not match any socket in PERFETTO_PRODUCER_SOCK_NAME or the \
                 default producer socket ({producers}). It must be one of them, written the same way."
            ),
            // The service did start, and reports its errors itself.
            Err(HostError::Watchdog(error)) => Err(error.into()),
            Err(error) => Err(error).context("Failed to start the traced service"),
        }
    }
}

impl Traced {
    fn take_permissions(&mut self, parser: &mut Parser) -> Result<Taken, Complaint> {
        let permissions = SocketPermissions::parse(&parser.value()?.to_string_lossy());
        let permissions =
            permissions.map_err(|error| Complaint::Alone(permissions_message(&error)))?;
        self.permissions = Some(permissions);
        Ok(Taken::Known)
    }

    fn take_output_folder(&mut self, parser: &mut Parser) -> Result<Taken, Complaint> {
        let folder = PathBuf::from(parser.value()?);
        if !folder.is_absolute() {
            return Err(Complaint::Option(format!(
                "--output-folder takes an absolute path, not {folder:?}"
            )));
        }
        self.output_folders.push(folder);
        Ok(Taken::Known)
    }

    fn take_relay(&mut self, parser: &mut Parser) -> Result<Taken, Complaint> {
        let address = Address::from_os_str(&parser.value()?)
            .map_err(|error| Complaint::Alone(format!("--enable-relay-endpoint-on: {error}")))?;
        match &mut self.relays {
            RelayEndpoints::Everywhere => {}
            RelayEndpoints::At(addresses) => addresses.push(address),
            RelayEndpoints::Nowhere => self.relays = RelayEndpoints::At(vec![address]),
        }
        Ok(Taken::Known)
    }

    fn take_host(&mut self, parser: &mut Parser) -> Result<Taken, Complaint> {
        let host = parser.value()?.to_string_lossy().parse::<AllowedHost>();
        self.allowed_hosts
            .push(host.map_err(|error| Complaint::Alone(format!("--allow-host: {error}")))?);
        Ok(Taken::Known)
    }

    fn take_user_cpu(&mut self, parser: &mut Parser) -> Result<Taken, Complaint> {
        let value = parser.value()?;
        let percent = value.to_str().and_then(|text| text.parse().ok());
        let percent = percent.filter(|percent| *percent <= 100);
        self.user_cpu = Some(percent.ok_or_else(|| {
            let value = value.to_string_lossy();
            Complaint::Alone(format!(
                "--user-cpu takes percent of a CPU, 0 to 100, not \"{value}\""
            ))
        })?);
        Ok(Taken::Known)
    }

    fn take_watchdog(&mut self, parser: &mut Parser) -> Result<Taken, Complaint> {
        let value = parser.value()?;
        self.watchdog = match value.to_str() {
            Some("own") => WatchdogScope::Own,
            Some("process") => WatchdogScope::Process,
            _ => {
                let value = value.to_string_lossy();
                return Err(Complaint::Alone(format!(
                    "--watchdog takes own or process, not \"{value}\""
                )));
            }
        };
        Ok(Taken::Known)
    }
}

fn allowance(percent: Option<u64>) -> CpuAllowance {
    let default = CpuAllowance::default();
    let percent = percent.unwrap_or(default.percent);
    CpuAllowance { percent, ..default }
}

/// A line that scripts wait for.
fn report_listening(host: &Host) {
    let producers: Vec<String> = host.producer_addresses().map(Address::to_string).collect();
    let consumer = host.consumer_address().map(Address::to_string);
    let (producers, consumer) = (producers.join(","), consumer.unwrap_or_default());
    eprintln!("Started traced, listening on {producers} {consumer}");
}

fn permissions_message(error: &PermissionsError) -> String {
    match error {
        PermissionsError::Group(group) => {
            format!("Failed to get group information of {group}: there is no such group")
        }
        PermissionsError::Mode(mode) => format!(
            "The chmod mode bits must be a 4-digit octal number, e.g. 0660, and not \"{mode}\""
        ),
        error => format!("--set-socket-permissions: {error}"),
    }
}
