//! `ferretto open`: shows a trace in the Perfetto UI.
//!
//! The UI runs in a browser and fetches the trace from this process, over plain HTTP on the
//! loopback address. Its security policy allows that from one port only.

mod http;

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use self::http::{Served, Site};
use crate::browser::{browse, secret};
use crate::errors::reason;
use crate::output::print_line;
use crate::read::DEFAULT_TRACE;

/// The largest number of simultaneous connections. A browser opens a few.
const MAX_CONNECTIONS: usize = 16;

/// Show a trace in the Perfetto UI
///
/// Prints the address to open, serves the trace once over the loopback address, and exits. The
/// trace does not leave the machine. On a desktop, opens the browser.
#[derive(Debug, Args)]
pub(crate) struct OpenArgs {
    /// The trace
    #[arg(value_name = "FILE", default_value = DEFAULT_TRACE)]
    pub(crate) file: PathBuf,
    /// Only print the address
    #[arg(short, long)]
    pub(crate) no_browser: bool,
    /// Address of the UI
    #[arg(long, value_name = "URL", default_value = "https://ui.perfetto.dev")]
    pub(crate) origin: String,
    /// Port to listen on; 0 is any free port, but the UI's security policy allows only the default
    #[arg(long, default_value_t = 9001)]
    pub(crate) port: u16,
}

pub(crate) fn run(args: &OpenArgs) -> Result<ExitCode> {
    let shown = args.file.display();
    let status = std::fs::metadata(&args.file).with_context(|| format!("cannot open {shown}"))?;
    if !status.is_file() {
        bail!("cannot open {shown}: it is not a file");
    }
    let file = std::fs::File::open(&args.file).with_context(|| format!("cannot open {shown}"))?;
    let name = args.file.file_name().context("the file has no name")?;
    let listener = listen(args.port)?;
    let port = listener.local_addr()?.port();
    let path = format!("/{}/{}", secret()?, http::encode(name.as_bytes()));
    let address = address(&args.origin, port, &path);
    print_line(&address)?;
    let has_browser = !args.no_browser && browse(&address);
    if !has_browser {
        eprintln!("Open this address in a browser on this machine.");
    }
    eprintln!("Waiting for the browser to fetch {shown}; Ctrl-C ends it.");
    let site = Site {
        file: Mutex::new(Some(file)),
        path,
        origin: origin(&args.origin).to_owned(),
        port,
        // Other users can see the browser's arguments, but only its user may fetch the trace.
        user: has_browser.then(|| rustix::process::geteuid().as_raw()),
    };
    serve(&listener, site)?;
    Ok(ExitCode::SUCCESS)
}

fn listen(port: u16) -> Result<TcpListener> {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == ErrorKind::AddrInUse => bail!(
            "cannot listen on port {port}: it is in use, perhaps by another \"ferretto open\" or by \
                 trace_processor; stop that program first, since the UI uses only this port"
        ),
        Err(error) => bail!("cannot listen on port {port}: {}", reason(&error)),
    }
}

/// Serves until the trace was fetched once.
fn serve(listener: &TcpListener, site: Site) -> Result<()> {
    let site = Arc::new(site);
    let connections = Arc::new(AtomicUsize::new(0));
    let (on_fetched, fetched) = mpsc::channel();
    let listener = listener.try_clone().context("cannot listen")?;
    // The thread ends with the process.
    thread::Builder::new()
        .name("open".to_owned())
        .spawn(move || {
            for stream in listener.incoming() {
                let served = stream.and_then(|stream| {
                    start(
                        stream,
                        site.clone(),
                        connections.clone(),
                        on_fetched.clone(),
                    )
                });
                if let Err(error) = served {
                    eprintln!("ferretto: a request failed: {}", reason(&error));
                }
            }
        })
        .context("cannot start a thread")?;
    fetched.recv().context("cannot serve the trace")
}

/// Handles a connection in a thread of its own, since browsers open idle ones.
fn start(
    stream: TcpStream,
    site: Arc<Site>,
    connections: Arc<AtomicUsize>,
    on_fetched: mpsc::Sender<()>,
) -> io::Result<()> {
    if connections.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
        connections.fetch_sub(1, Ordering::Relaxed);
        return Ok(());
    }
    let thread = thread::Builder::new().name("open".to_owned());
    let spawned = thread.spawn({
        let connections = connections.clone();
        move || {
            match site.answer(stream) {
                Ok(Served::Trace) => {
                    // The receiver ends the process.
                    let _ = on_fetched.send(());
                }
                Ok(Served::Nothing) => {}
                Err(error) => eprintln!("ferretto: a request failed: {}", reason(&error)),
            }
            connections.fetch_sub(1, Ordering::Relaxed);
        }
    });
    if spawned.is_err() {
        connections.fetch_sub(1, Ordering::Relaxed);
    }
    spawned.map(drop)
}

/// Returns the address to open in the browser. The UI reads the URL of the trace from a query
/// string, so the name is encoded twice.
fn address(ui: &str, port: u16, path: &str) -> String {
    let ui = ui.trim_end_matches('/');
    let path = path.replace('%', "%25");
    format!("{ui}/#!/?url=http://127.0.0.1:{port}{path}&referrer=open_trace_in_ui")
}

/// Returns the origin of an address: scheme, host and port.
fn origin(address: &str) -> &str {
    let host = address.find("://").map_or(0, |scheme| scheme + 3);
    let path = address[host..].find(['/', '?', '#']);
    path.map_or(address, |path| &address[..host + path])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_survives_any_name() {
        let ui = "https://ui.perfetto.dev";
        let of = |name: &str| address(ui, 9001, &format!("/{}", http::encode(name.as_bytes())));
        assert_eq!(
            of("trace.pftrace"),
            "https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/trace.pftrace&referrer=open_trace_in_ui"
        );
        // Once for the URL, once for the query string in which it stands.
        assert!(of("a b#1+2%").contains("/a%2520b%25231%252B2%2525&"));
    }

    #[test]
    fn origins_end_before_the_path() {
        for (address, expected) in [
            ("https://ui.perfetto.dev", "https://ui.perfetto.dev"),
            ("https://ui.perfetto.dev/v50/", "https://ui.perfetto.dev"),
            ("http://localhost:10000/#!/", "http://localhost:10000"),
        ] {
            assert_eq!(origin(address), expected);
        }
    }
}
