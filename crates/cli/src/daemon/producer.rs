//! Daemons that offer data sources.

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use ferretto_client::{DaemonOptions, Notice, Stopper};
use ferretto_shm::take_inherited;
use lexopt::Parser;

use super::{Complaint, Daemon, DaemonOption, Taken};
use crate::errors;
use crate::session::Signals;
use crate::usage::Row;

/// The services that data sources are offered to: options that these daemons share.
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
                "--service-uid takes the number of a user, not {value:?}"
            ))
        })?);
        Ok(Taken::Known)
    }
}

/// A daemon that offers data sources.
pub(crate) trait Offers: Daemon {
    /// Returns the options that it shares with others.
    fn service(&mut self) -> &mut Service;
}

impl<D: Offers> DaemonOption<D> {
    pub(crate) const SERVICE_UID: Self = Self(
        "service-uid UID",
        "let a tracing service of this user have what is recorded, not only\n\
                  one of root or this user; may be repeated",
        |daemon, parser| daemon.service().trust(parser),
    );
}

/// Returns the environment variables of a daemon that offers data sources, one of which is for
/// `notify_fd`.
pub(crate) const fn environment(notify_fd: &'static str) -> [Row<'static>; 2] {
    [
        Row {
            typed: "PERFETTO_PRODUCER_SOCK_NAME",
            meaning: "where the tracing service listens",
        },
        Row {
            typed: notify_fd,
            meaning: "a descriptor that gets a 1 when all are registered",
        },
    ]
}

/// Runs the data sources that `set_up` makes until SIGTERM or SIGINT. It gives something to end
/// them with, and what is to run on a thread named `thread`. `variable` names the descriptor to
/// which `1` is written when every data source is registered.
pub(crate) fn serve<R: FnOnce() + Send + 'static>(
    name: &'static str,
    variable: &'static str,
    thread: &str,
    service: Service,
    set_up: impl FnOnce(DaemonOptions) -> io::Result<(Stopper, R)>,
) -> Result<()> {
    let mut signals = Signals::new().context("cannot take over signals")?;
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
    while signals.take().iter().all(|signal| !signal.ends()) {
        signals.wait(None);
    }
    stopper.stop();
    thread
        .join()
        .map_err(|_| anyhow::anyhow!("crashed; please report this"))
}

/// Says what happens, but not again and again that there is no service for the same reason: it is
/// tried for ever.
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

/// Tells the parent process that every data source is registered.
fn notify_ready(name: &str, variable: &str) {
    let text = std::env::var(variable).ok();
    if let Some(number) = text.and_then(|text| text.parse::<i32>().ok()) {
        let written = take_inherited(number).and_then(|fd| File::from(fd).write_all(b"1"));
        if let Err(error) = written {
            eprintln!("{name}: {variable}: {}", errors::reason(&error));
        }
    }
}
