//! Daemons that offer data sources.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use ferretto_client::{DaemonOptions, Notice, Stopper};
use ferretto_shm::take_inherited;

use crate::errors;
use crate::session::Signals;

/// Runs the data sources that `set_up` makes until SIGTERM or SIGINT. It gives something to end them with, and what is to
/// run on a thread named `thread`. `variable` names the descriptor to which `1` is written when every data source is
/// registered.
pub(crate) fn serve<R: FnOnce() + Send + 'static>(
    name: &'static str,
    variable: &'static str,
    thread: &str,
    set_up: impl FnOnce(DaemonOptions) -> io::Result<(Stopper, R)>,
) -> Result<()> {
    let mut signals = Signals::new().context("cannot take over signals")?;
    let is_disconnected = AtomicBool::new(false);
    let is_ready = AtomicBool::new(false);
    let options = DaemonOptions {
        address: None,
        on_notice: Some(Arc::new(move |notice| say(name, notice, &is_disconnected))),
        on_ready: Some(Arc::new(move || {
            if !is_ready.swap(true, Ordering::Relaxed) {
                tell_ready(name, variable);
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

/// Says what happens, but not again and again that there is no service: it is tried for ever.
fn say(name: &str, notice: &Notice, is_disconnected: &AtomicBool) {
    let disconnected = matches!(notice, Notice::Disconnected(_));
    let before = match notice {
        Notice::Connected | Notice::Disconnected(_) => {
            is_disconnected.swap(disconnected, Ordering::Relaxed)
        }
        Notice::Started { .. } => return,
        Notice::Remark { .. } | Notice::Failed { .. } => false,
    };
    if !(disconnected && before) {
        eprintln!("{name}: {}", errors::without_numbers(&notice.to_string()));
    }
}

/// Tells whoever started this program that every data source is registered.
fn tell_ready(name: &str, variable: &str) {
    let text = std::env::var(variable).ok();
    if let Some(number) = text.and_then(|text| text.parse::<i32>().ok()) {
        let told = take_inherited(number).and_then(|fd| File::from(fd).write_all(b"1"));
        if let Err(error) = told {
            eprintln!("{name}: {variable}: {}", errors::reason(&error));
        }
    }
}
