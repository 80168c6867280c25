//! Notifies the parent process that the daemon is ready.

use std::env;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use ferretto_shm::take_inherited;

/// The variable with systemd's notification socket, see sd_notify(3).
const SYSTEMD_VARIABLE: &str = "NOTIFY_SOCKET";

/// The parent process that waits for a daemon to be ready.
#[derive(Debug)]
pub struct Readiness {
    notify: Option<OwnedFd>,
    systemd: Option<SocketAddr>,
}

impl Readiness {
    /// Reads the environment: `variable` names a descriptor to write `1` to, and systemd may have
    /// named its socket.
    ///
    /// # Errors
    ///
    /// Fails if there is no such descriptor or socket.
    pub fn from_environment(variable: &str) -> io::Result<Self> {
        let number = env::var(variable).ok();
        let number = number.and_then(|text| text.parse::<i32>().ok());
        Ok(Self {
            notify: number.map(take_inherited).transpose()?,
            systemd: systemd_address()?,
        })
    }

    /// Reports that clients can connect.
    ///
    /// # Errors
    ///
    /// Fails if the notification cannot be sent.
    pub fn ready(&mut self) -> io::Result<()> {
        if let Some(notify) = self.notify.take() {
            // Closed afterwards, so that a reader of the pipe sees its end before this process
            // ends.
            File::from(notify).write_all(b"1")?;
        }
        self.notify_systemd(b"READY=1\n")
    }

    /// Reports that clients can no longer connect, although files are still being completed.
    pub fn stopping(&self) {
        // This notification is optional.
        let _ = self.notify_systemd(b"STOPPING=1\n");
    }

    fn notify_systemd(&self, state: &[u8]) -> io::Result<()> {
        let Some(address) = &self.systemd else {
            return Ok(());
        };
        UnixDatagram::unbound()?.send_to_addr(state, address)?;
        Ok(())
    }
}

fn systemd_address() -> io::Result<Option<SocketAddr>> {
    let Some(name) = env::var_os(SYSTEMD_VARIABLE) else {
        return Ok(None);
    };
    match name.as_bytes() {
        [b'@', abstract_name @ ..] => SocketAddr::from_abstract_name(abstract_name).map(Some),
        [b'/', ..] => SocketAddr::from_pathname(&name).map(Some),
        // The address has an unknown form.
        _ => Ok(None),
    }
}
