//! Daemons that offer data sources.

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use ferretto_client::{DaemonOptions, Notice, Stopper};
use ferretto_host::Termination;
use ferretto_output::is_ignored;
use ferretto_shm::take_inherited;
use lexopt::Parser;
use nix::sys::signal::Signal;
use signal_hook::consts::SIGXFSZ;

use super::{Complaint, Daemon, DaemonOption, Taken};
use crate::errors;
use crate::session::{EXIT_DELAY, INTERRUPTED};
use crate::usage::Row;

/// The common options of these daemons: the trusted services.
#[derive(Debug, Default)]
pub(crate) struct Service {
    trusted_users: Vec<u32>,
}

impl Service {
    fn trust(&mut self, parser: &mut Parser) -> Result<Taken, Complaint> {
        let value = parser.value()?;
        let user = value.to_str().and_then(|text| text.parse().ok());
        self.trusted_users.push(user.ok_or_else(|| {
            Complaint::Option(format!(
                "--service-uid takes a numeric user id, not {value:?}"
            ))
        })?);
        Ok(Taken::Known)
    }
}

/// A daemon that offers data sources.
pub(crate) trait Offers: Daemon {
    /// Returns the common options.
    fn service(&mut self) -> &mut Service;
}

impl<D: Offers> DaemonOption<D> {
    pub(crate) const SERVICE_UID: Self = Self(
        "service-uid UID",
        "trust a tracing service of this user, besides root's and this\n\
                     user's; may be repeated",
        |daemon, parser| daemon.service().trust(parser),
    );
}

/// Returns the environment variables of a daemon with data sources. `notify_fd` is one of them.
pub(crate) const fn environment(notify_fd: &'static str) -> [Row<'static>; 2] {
    [
        Row {
            typed: "PERFETTO_PRODUCER_SOCK_NAME",
            meaning: "socket of the tracing service",
        },
        Row {
            typed: notify_fd,
            meaning: "file descriptor to write a 1 to when all data sources are registered",
        },
    ]
}

/// Runs the data sources that `set_up` creates until a signal asks for the end. `set_up` returns a
/// stopper and a function to run on a thread called `thread`. `variable` names the descriptor to
/// which `1` is written when all data sources are registered.
pub(crate) fn serve<R: FnOnce() + Send + 'static>(
    name: &'static str,
    variable: &'static str,
    thread: &str,
    service: Service,
    set_up: impl FnOnce(DaemonOptions) -> io::Result<(Stopper, R)>,
) -> Result<()> {
    let requests = requests_to_end().context("cannot handle signals")?;
    let last_reason = Mutex::default();
    let is_ready = AtomicBool::new(false);
    let options = DaemonOptions {
        address: None,
        trusted_users: service.trusted_users,
        on_notice: Some(Arc::new(move |notice| say(name, notice, &last_reason))),
        on_ready: Some(Arc::new(move || {
            if !is_ready.swap(true, Ordering::Relaxed) {
                notify_ready(name, variable);
            }
        })),
    };
    let (stopper, run) = set_up(options).context("cannot set up the data sources")?;
    let thread = std::thread::Builder::new()
        .name(thread.to_owned())
        .spawn(run)
        .context("cannot start a thread")?;
    // Fails only if there are no requests any more.
    let _ = requests.recv();
    stopper.stop();
    thread
        .join()
        .map_err(|_| anyhow::anyhow!("crashed; please report this"))
}

/// Returns a channel with a message once this process is asked to end. If it has not ended some
/// time after the second request, it exits.
fn requests_to_end() -> io::Result<Receiver<()>> {
    let to_end = [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
    ];
    // SIGHUP stays ignored under `nohup`. SIGINT, which shells ignore for programs in the
    // background, is always handled.
    let is_taken = |signal: &Signal| *signal != Signal::SIGHUP || !is_ignored(*signal as i32);
    let termination = Termination::of(to_end.into_iter().filter(is_taken))?;
    // At the size limit of a file, writing fails instead of ending the process.
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    let (sender, receiver) = mpsc::channel();
    // The thread ends with the process.
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            termination.wait();
            // Fails only if the process is ending.
            let _ = sender.send(());
            termination.wait();
            std::thread::sleep(EXIT_DELAY);
            std::process::exit(INTERRUPTED);
        })?;
    Ok(receiver)
}

/// Prints notices. A failure to reach the service is printed only when its reason changes, since
/// the daemon retries for ever.
fn say(name: &str, notice: &Notice, last_reason: &Mutex<Option<String>>) {
    let mut last = last_reason.lock().unwrap_or_else(PoisonError::into_inner);
    match notice {
        Notice::Connected => *last = None,
        Notice::Disconnected(reason) if last.as_ref() == Some(reason) => return,
        Notice::Disconnected(reason) => *last = Some(reason.clone()),
        Notice::Started { .. } => return,
        Notice::Remark { .. } | Notice::Failed { .. } => {}
    }
    eprintln!("{name}: {}", errors::without_numbers(&notice.to_string()));
}

/// Notifies the parent process that all data sources are registered.
fn notify_ready(name: &str, variable: &str) {
    let text = std::env::var(variable).ok();
    if let Some(number) = text.and_then(|text| text.parse::<i32>().ok()) {
        let written = take_inherited(number).and_then(|fd| File::from(fd).write_all(b"1"));
        if let Err(error) = written {
            eprintln!("{name}: {variable}: {}", errors::reason(&error));
        }
    }
}
