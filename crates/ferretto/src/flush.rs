//! Making sure.

use std::sync::mpsc;
use std::time::Duration;

use crate::engine::{self, Command};
use crate::{data_source, track_event};

/// Hands over what this thread has written and waits until the service has it, at most for as long as `limit`. Returns
/// whether it has. The service then also knows every data source registered before.
///
/// Other threads hand over what they have written by and by, at their end, or when they call this.
pub fn flush(limit: Duration) -> bool {
    let Some(runtime) = engine::runtime() else {
        return false;
    };
    track_event::flush_thread();
    data_source::flush_thread();
    let (sender, receiver) = mpsc::channel();
    runtime.send(Command::Sync(Box::new(move || {
        let _ = sender.send(());
    })));
    receiver.recv_timeout(limit).is_ok()
}
