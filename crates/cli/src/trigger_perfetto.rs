//! `trigger_perfetto`: activates triggers that running sessions wait for.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use ferretto_ipc::address::Address;
use ferretto_ipc::client::{Connection, Event};
use ferretto_ipc::names;
use ferretto_ipc::port::producer::{Port, Request};
use ferretto_ipc::socket::Socket;
use ferretto_proto::{ActivateTriggersRequest, InitializeConnectionRequest};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::errors;

const USAGE: &str = "\
Usage: trigger_perfetto NAME...
Activates the triggers of these names in all sessions that declare them. Ends without an
error once the service was notified, whether or not a session had one.

Environment:
  PERFETTO_PRODUCER_SOCK_NAME   where the tracing service listens
";

/// The producer name of the trigger in sessions.
const PRODUCER_NAME: &str = "perfetto_cmd_producer";
/// The timeout of the service.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn main(args: Vec<OsString>) -> ExitCode {
    let Some(names) = parse(&args) else {
        eprint!("{USAGE}");
        return ExitCode::FAILURE;
    };
    let done = names::producer_address()
        .map_err(anyhow::Error::from)
        .and_then(|address| activate(&address, names));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => errors::report("trigger_perfetto", &error),
    }
}

/// Returns the names; `None` if there are none or help is requested. Skips unknown options, so that
/// scripts for later versions still work.
fn parse(args: &[OsString]) -> Option<Vec<Vec<u8>>> {
    let is_option = |arg: &&OsString| arg.as_bytes().first() == Some(&b'-') && arg.len() > 1;
    let (options, names): (Vec<_>, Vec<_>) = args.iter().partition(is_option);
    if options
        .iter()
        .any(|arg| *arg == OsStr::new("--help") || *arg == OsStr::new("-h"))
    {
        return None;
    }
    if options.iter().any(|arg| *arg != OsStr::new("--")) {
        eprintln!("Ignoring unknown arguments. See --help for usage.");
    }
    if names.is_empty() {
        eprintln!("At least one trigger must be specified.");
        return None;
    }
    Some(
        names
            .into_iter()
            .map(|name| name.as_bytes().to_vec())
            .collect(),
    )
}

/// Sends the triggers to the service at `address`.
pub(crate) fn activate(address: &Address, trigger_names: Vec<Vec<u8>>) -> Result<()> {
    let socket = Socket::connect(address).context("cannot reach the tracing service")?;
    let mut connection = Connection::<Port>::new(socket);
    let deadline = Instant::now() + PATIENCE;
    if !matches!(next_event(&mut connection, deadline)?, Event::Bound) {
        bail!("the tracing service has no port for producers");
    }
    let requests = [
        Request::InitializeConnection(InitializeConnectionRequest {
            producer_name: Some(PRODUCER_NAME.into()),
            ..Default::default()
        }),
        Request::ActivateTriggers(ActivateTriggersRequest {
            trigger_names,
            ..Default::default()
        }),
    ];
    for request in requests {
        connection.invoke(&request, None, true)?;
        let reply = next_event(&mut connection, deadline)?;
        if !matches!(reply, Event::Reply(reply) if reply.result.is_ok()) {
            bail!("the tracing service refused the triggers");
        }
    }
    Ok(())
}

/// Returns the next event of the connection.
fn next_event(connection: &mut Connection<Port>, deadline: Instant) -> Result<Event<Port>> {
    loop {
        connection.process();
        if let Some(event) = connection.poll_event() {
            return Ok(event);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            bail!("the tracing service does not reply");
        }
        let mut wanted = PollFlags::IN;
        if connection.wants_write() {
            wanted |= PollFlags::OUT;
        }
        let left = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(&*connection, wanted)], left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_029_later_options_are_passed_over() {
        let args = |args: &[&str]| args.iter().map(OsString::from).collect::<Vec<_>>();
        let names = parse(&args(&["--future-flag", "name", "other"])).unwrap();
        assert_eq!(names, [b"name".to_vec(), b"other".to_vec()]);
        assert_eq!(parse(&args(&["--future-flag"])), None);
        assert_eq!(parse(&args(&["name", "--help"])), None);
        assert_eq!(parse(&[]), None);
    }
}
