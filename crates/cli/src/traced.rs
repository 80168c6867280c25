//! `traced`: the tracing service as a daemon.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use ferretto_host::{
    Host, HostError, HostOptions, PermissionsError, RelayEndpoints, SocketPermissions,
};
use ferretto_ipc::Address;
use lexopt::Arg;

use crate::{daemon, errors};

const USAGE: &str = "\
Usage: traced [OPTIONS]
The tracing service. It needs no privileges.

  --background                      go on in the background, print the process id
  --set-socket-permissions PG:PM:CG:CM
                                    group and mode of the producer and of the
                                    consumer sockets, e.g. traced:0660:tracing:0660
  --enable-relay-endpoint           let relays of other machines compare clocks, on every
                                    producer socket
  --enable-relay-endpoint-on SOCKET the same, on this producer socket only; may be repeated
  --version                         show the version

Environment:
  PERFETTO_PRODUCER_SOCK_NAME       where producers connect, a comma-separated list
  PERFETTO_CONSUMER_SOCK_NAME       where consumers connect
  TRACED_NOTIFY_FD                  a descriptor that gets a 1 when both listen
Sockets passed by systemd (LISTEN_FDS) are used in their place, and it is told when the service is ready.
";

#[derive(Debug, Default)]
struct Options {
    background: bool,
    permissions: Option<SocketPermissions>,
    relays: RelayEndpoints,
}

enum Action {
    Run(Options),
    Version,
}

pub(crate) fn main(args: Vec<OsString>) -> ExitCode {
    finish(run(args, false))
}

/// The process that `--background` started.
pub(crate) fn background(args: &[OsString]) -> ExitCode {
    finish(run(args.to_vec(), true))
}

fn finish(result: Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| errors::report("traced", &error))
}

fn run(args: Vec<OsString>, in_background: bool) -> Result<ExitCode> {
    let options = match parse(args.clone()) {
        Ok(Action::Run(options)) => options,
        Ok(Action::Version) => {
            println!("{}", ferretto_host::service_options().version);
            return Ok(ExitCode::SUCCESS);
        }
        Err(message) => {
            anstream::eprint!("{message}");
            return Ok(ExitCode::FAILURE);
        }
    };
    if options.background && !in_background {
        return daemon::start("traced", &args);
    }
    if in_background {
        daemon::tell_and_detach()?;
    }
    let mut host = HostOptions::from_environment()
        .context("Failed to start the traced service: a socket name is wrong")?;
    host.permissions = options.permissions;
    host.relays = options.relays;
    match ferretto_host::traced::run(host, say_listening) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(HostError::NoRelayAddress { address, producers }) => bail!(
            "--enable-relay-endpoint-on={address} does not match any socket in PERFETTO_PRODUCER_SOCK_NAME or the \
             default producer socket ({producers}). It must be one of them, written the same way."
        ),
        Err(error) => Err(error).context("Failed to start the traced service"),
    }
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
            format!("Failed to get group information of {group}: there is no such group\n")
        }
        PermissionsError::Mode(mode) => format!(
            "The chmod mode bits must be a 4-digit octal number, e.g. 0660, and not \"{mode}\"\n"
        ),
        error => format!("--set-socket-permissions: {error}\n"),
    }
}

fn parse(args: Vec<OsString>) -> Result<Action, String> {
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_args(args);
    let usage = |reason: String| format!("{reason}\n{USAGE}");
    while let Some(arg) = parser.next().map_err(|error| usage(error.to_string()))? {
        match arg {
            Arg::Long("background") => options.background = true,
            Arg::Long("version") => return Ok(Action::Version),
            Arg::Long("set-socket-permissions") => {
                let value = parser.value().map_err(|error| usage(error.to_string()))?;
                let permissions = SocketPermissions::parse(&value.to_string_lossy())
                    .map_err(|error| permissions_message(&error))?;
                options.permissions = Some(permissions);
            }
            Arg::Long("enable-relay-endpoint") => options.relays = RelayEndpoints::Everywhere,
            Arg::Long("enable-relay-endpoint-on") => {
                let value = parser.value().map_err(|error| usage(error.to_string()))?;
                let address = Address::from_os_str(&value)
                    .map_err(|error| format!("--enable-relay-endpoint-on: {error}\n"))?;
                match &mut options.relays {
                    RelayEndpoints::Everywhere => {}
                    RelayEndpoints::At(addresses) => addresses.push(address),
                    RelayEndpoints::Nowhere => options.relays = RelayEndpoints::At(vec![address]),
                }
            }
            Arg::Short('h') | Arg::Long("help") => return Err(USAGE.to_owned()),
            other => return Err(usage(other.unexpected().to_string())),
        }
    }
    Ok(Action::Run(options))
}
