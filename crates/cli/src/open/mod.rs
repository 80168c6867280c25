//! `ferretto open`: shows a trace in the Perfetto UI.
//!
//! The UI runs in a browser and fetches the trace from this process, over plain HTTP on the
//! loopback address. Its security policy allows that from one port only.

mod http;

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, mpsc};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use ferretto_http::{Limits, Peer, Server, Ticket, Users, random_name};

use self::http::Download;
use crate::browser::browse;
use crate::errors::reason;
use crate::output::print_line;
use crate::read::DEFAULT_TRACE;

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
    let random = random_name().context("cannot get random numbers")?;
    let path = format!("/{random}/{}", http::encode(name.as_bytes()));
    let address = address(&args.origin, port, &path);
    print_line(&address)?;
    // Other users can see the browser's arguments, so they do not contain the address itself.
    let ticket = Ticket::new(address).context("cannot get random numbers")?;
    let for_browser = format!("http://127.0.0.1:{port}{}", ticket.path());
    let has_browser = !args.no_browser && browse(&for_browser);
    if !has_browser {
        eprintln!("Open this address in a browser on this machine.");
    }
    eprintln!("Waiting for the browser to fetch {shown}; Ctrl-C ends it.");
    let (on_fetched, fetched) = mpsc::channel();
    let download = Download {
        file: Mutex::new(Some(file)),
        path,
        ticket,
        origin: origin(&args.origin).to_owned(),
        port,
        on_fetched,
    };
    let users = Users::own();
    let permission = Box::new(move |peer| match peer {
        Peer::User(user) => !has_browser || users.contain(user),
        Peer::Unknown => true,
        Peer::Remote => false,
    });
    let mut server = Server::new(Limits::default(), permission).context("cannot listen")?;
    server.listen(listener).context("cannot listen")?;
    let running = server.start("open", download);
    let running = running.context("cannot start a thread")?;
    fetched.recv().context("cannot serve the trace")?;
    running.finish();
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
