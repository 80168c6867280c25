//! `traced`: the tracing service as a daemon.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use ferretto_host::{
    CpuAllowance, Host, HostError, HostOptions, PermissionsError, RelayEndpoints,
    SocketPermissions, WatchdogLimits, WatchdogScope,
};
use ferretto_ipc::Address;
use lexopt::Parser;

use crate::daemon::{Complaint, Daemon, Taken};

const USAGE: &str = "\
Usage: traced [OPTIONS]
The tracing service. It needs no privileges.

  --background                      go on in the background, print the process id
  --set-socket-permissions PG:PM:CG:CM
                                    group and mode of the producer and of the
                                    consumer sockets, e.g. traced:0660:tracing:0660
  --output-folder DIR               folder below which configs of other users than root and the
                                    service's own may have files created (output_path);
                                    none without; may be repeated
  --enable-relay-endpoint           let relays of other machines compare clocks, on every
                                    producer socket
  --enable-relay-endpoint-on SOCKET the same, on this producer socket only; may be repeated
  --user-cpu PERCENT                share of one CPU that the programs of one user may make the
                                    service use for long, 80 unless given; 0 for any
  --watchdog own|process            when the service ends itself: for faults of its own (own, the
                                    default), or, as upstream's, also when programs make the process
                                    use 90 % of a CPU for ten minutes or 64 MiB more than it should
  --version                         show the version

Environment:
  PERFETTO_PRODUCER_SOCK_NAME       where producers connect, a comma-separated list
  PERFETTO_CONSUMER_SOCK_NAME       where consumers connect
  TRACED_NOTIFY_FD                  a descriptor that gets a 1 when both listen
Sockets passed by systemd (LISTEN_FDS) are used in their place, and it is told when the service is ready.
";

/// Its options.
#[derive(Debug, Default)]
pub(crate) struct Traced {
    permissions: Option<SocketPermissions>,
    relays: RelayEndpoints,
    output_folders: Vec<PathBuf>,
    user_cpu: Option<u64>,
    watchdog: WatchdogScope,
}

impl Daemon for Traced {
    const NAME: &'static str = "traced";
    const USAGE: &'static str = USAGE;

    fn option(&mut self, name: &str, parser: &mut Parser) -> Result<Taken, Complaint> {
        match name {
            "set-socket-permissions" => {
                let permissions = SocketPermissions::parse(&parser.value()?.to_string_lossy());
                let permissions =
                    permissions.map_err(|error| Complaint::Alone(permissions_message(&error)))?;
                self.permissions = Some(permissions);
            }
            "output-folder" => {
                let folder = PathBuf::from(parser.value()?);
                if !folder.is_absolute() {
                    return Err(Complaint::Option(format!(
                        "--output-folder takes an absolute path, not {folder:?}"
                    )));
                }
                self.output_folders.push(folder);
            }
            "enable-relay-endpoint" => self.relays = RelayEndpoints::Everywhere,
            "enable-relay-endpoint-on" => {
                let address = Address::from_os_str(&parser.value()?).map_err(|error| {
                    Complaint::Alone(format!("--enable-relay-endpoint-on: {error}"))
                })?;
                match &mut self.relays {
                    RelayEndpoints::Everywhere => {}
                    RelayEndpoints::At(addresses) => addresses.push(address),
                    RelayEndpoints::Nowhere => self.relays = RelayEndpoints::At(vec![address]),
                }
            }
            "user-cpu" => {
                let value = parser.value()?;
                let percent = value.to_str().and_then(|text| text.parse().ok());
                let percent = percent.filter(|percent| *percent <= 100);
                self.user_cpu = Some(percent.ok_or_else(|| {
                    let value = value.to_string_lossy();
                    Complaint::Alone(format!(
                        "--user-cpu takes percent of one CPU, 0 to 100, and not \"{value}\""
                    ))
                })?);
            }
            "watchdog" => {
                let value = parser.value()?;
                self.watchdog = match value.to_str() {
                    Some("own") => WatchdogScope::Own,
                    Some("process") => WatchdogScope::Process,
                    _ => {
                        let value = value.to_string_lossy();
                        return Err(Complaint::Alone(format!(
                            "--watchdog is own or process, and not \"{value}\""
                        )));
                    }
                };
            }
            _ => return Ok(Taken::Unknown),
        }
        Ok(Taken::Known)
    }

    fn serve(self) -> Result<()> {
        let mut host = HostOptions::from_environment()
            .context("Failed to start the traced service: a socket name is wrong")?;
        host.permissions = self.permissions;
        host.relays = self.relays;
        host.service.output_folders = self.output_folders;
        host.watchdog = Some(WatchdogLimits {
            scope: self.watchdog,
            ..WatchdogLimits::default()
        });
        host.limits.cpu_per_user = match self.user_cpu {
            Some(0) => None,
            percent => Some(allowance(percent)),
        };
        match ferretto_host::traced::run(host, say_listening) {
            Ok(()) => Ok(()),
            Err(HostError::NoRelayAddress { address, producers }) => bail!(
                "--enable-relay-endpoint-on={address} does not match any socket in PERFETTO_PRODUCER_SOCK_NAME or the \
                 default producer socket ({producers}). It must be one of them, written the same way."
            ),
            // It did start, and says itself what happened.
            Err(HostError::RunWild(wild)) => Err(wild.into()),
            Err(error) => Err(error).context("Failed to start the traced service"),
        }
    }
}

fn allowance(percent: Option<u64>) -> CpuAllowance {
    let default = CpuAllowance::default();
    let percent = percent.unwrap_or(default.percent);
    CpuAllowance { percent, ..default }
}

/// A line that scripts wait for.
fn say_listening(host: &Host) {
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
