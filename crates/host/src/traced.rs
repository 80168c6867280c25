//! The `traced` program, without its command line.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ferretto_shm::take_inherited;
use rustix::process::{Resource, getrlimit, setrlimit};
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};

use crate::host::{Host, HostError};
use crate::notice::NoticeSink;
use crate::options::HostOptions;

/// Names the descriptor to which `1` is written when both sockets listen.
pub const NOTIFY_VARIABLE: &str = "TRACED_NOTIFY_FD";

/// Runs the service until SIGTERM or SIGINT. Takes the signals of the whole
/// process over, so it is for programs that are nothing but the service.
/// Notices go to standard error unless the options say otherwise.
/// `listening` is called once clients can connect.
///
/// # Errors
///
/// See [`HostError`].
pub fn run(mut options: HostOptions, listening: impl FnOnce()) -> Result<(), HostError> {
    if options.notices.is_none() {
        options.notices = NoticeSink::stderr("traced");
    }
    raise_descriptor_limit();
    // A file at its size limit is then a failed write, not the end.
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    let (signalled, handler) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::low_level::pipe::register(signal, handler.try_clone()?)?;
    }
    let mut host = Host::bind(options)?;
    signalled.set_nonblocking(true)?;
    host.stop_when_readable(signalled.into())?;
    notify()?;
    listening();
    Ok(host.run()?)
}

/// Each client takes two descriptors or three; the usual soft limit is 1024.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // The service works without, for fewer clients.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Tells whoever started the program that clients can connect.
fn notify() -> io::Result<()> {
    let Some(number) = std::env::var(NOTIFY_VARIABLE)
        .ok()
        .and_then(|text| text.parse::<i32>().ok())
    else {
        return Ok(());
    };
    // Dropped here, so that whoever reads to the end does not wait.
    File::from(take_inherited(number)?).write_all(b"1")
}
