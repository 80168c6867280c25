//! The relay's own connection to the host, which describes this machine and its clocks.

use std::time::Instant;

use ferretto_client::machine::{Attempts, MachineLink};
use ferretto_ipc::machine::Machine;
use ferretto_ipc::socket::Socket;
use ferretto_proto::SystemInfo;
use std::os::fd::AsFd as _;

use crate::poller::{Interest, Poller};

/// The connection, or the time of the next attempt.
#[derive(Debug, Default)]
pub(crate) struct OwnLink {
    link: Option<MachineLink>,
    attempts: Attempts,
    is_dialling: bool,
    interest: Interest,
    was_reported: bool,
}

/// A change of the connection to report.
#[derive(Debug)]
pub(crate) enum Change {
    Connected,
    Lost(String),
}

impl OwnLink {
    /// Returns true if the caller has to request a connection now. Returns false until that ends.
    pub(crate) fn wants_dial(&mut self, now: Instant) -> bool {
        let wants = self.link.is_none() && !self.is_dialling && self.attempts.is_due(now);
        self.is_dialling |= wants;
        wants
    }

    /// Makes the next attempt due at once, as a producer has connected.
    pub(crate) fn hurry(&mut self) {
        if self.link.is_none() {
            self.attempts.hurry();
        }
    }

    /// Starts the conversation over a new connection.
    pub(crate) fn connected(
        &mut self,
        socket: Socket,
        machine: &Machine,
        (poller, token): (&Poller, u64),
        now: Instant,
    ) {
        self.is_dialling = false;
        let pid = std::process::id() as i32;
        let user = rustix::process::geteuid().as_raw();
        let info = SystemInfo {
            machine_name: Some(machine.name.clone()),
            tracing_service_version: Some(ferretto_host::service_options().version.into()),
            ..ferretto_host::system_info()
        };
        let identity = machine.identity(pid, user);
        let link = MachineLink::new(socket, Some(&identity), info, now);
        self.interest = Interest {
            read: true,
            write: false,
        };
        // If this fails, the connection is processed with other events.
        let _ = poller.add(link.as_fd(), token, self.interest);
        self.link = Some(link);
    }

    /// Schedules the next attempt after a failed one.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.is_dialling = false;
        self.attempts.failed(now, false);
        self.was_reported = false;
    }

    /// Processes the connection without blocking.
    pub(crate) fn process(
        &mut self,
        (poller, token): (&Poller, u64),
        now: Instant,
    ) -> Option<Change> {
        let link = self.link.as_mut()?;
        if let Err(lost) = link.process(now) {
            self.attempts.failed(now, link.is_established());
            poller.remove(link.as_fd());
            self.link = None;
            self.was_reported = false;
            return Some(Change::Lost(lost.to_string()));
        }
        let wanted = Interest {
            read: true,
            write: link.wants_write(),
        };
        if wanted != self.interest {
            self.interest = wanted;
            let _ = poller.change(link.as_fd(), token, wanted);
        }
        let is_new = link.is_established() && !std::mem::replace(&mut self.was_reported, true);
        if !link.is_established() {
            self.was_reported = false;
        }
        is_new.then_some(Change::Connected)
    }

    /// Returns the time at which to act if no event comes first.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.link {
            Some(link) => link.deadline(),
            None if self.is_dialling => None,
            None => self.attempts.next(),
        }
    }
}
