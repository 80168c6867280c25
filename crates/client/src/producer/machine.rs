//! Describes this machine to a service on another machine, if no relay does.

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Instant;

use ferretto_ipc::Address;
use ferretto_ipc::machine::{Machine, system_info};
use ferretto_ipc::socket::Socket;
use ferretto_proto::SystemInfo;
use ferretto_shm::fork::{Disowned, disown_in_child};
use rustix::event::epoll;

use crate::machine::{Attempts, MachineLink};

/// The additional connection to a service on another machine.
#[derive(Debug, Default)]
pub(super) struct OwnMachine {
    /// The service, if it is elsewhere.
    address: Option<Address>,
    /// Closes the connection in forked children. Declared before the connection, since fields are
    /// dropped in order.
    disowned: Option<Disowned>,
    link: Option<MachineLink>,
    attempts: Attempts,
    wants_write: bool,
}

impl OwnMachine {
    /// Connects with the next [`process`](Self::process), unless the address is of this machine,
    /// where a relay may listen.
    pub(super) fn connect_to(&mut self, address: Option<Address>) {
        self.address = address.filter(|address| !address.is_unix());
    }

    /// Processes the connection without blocking, except for connecting.
    pub(super) fn process(&mut self, epoll: &OwnedFd, now: Instant) {
        let Some(address) = &self.address else {
            return;
        };
        if self.link.is_none() && self.attempts.is_due(now) {
            match connect(address, now) {
                Ok(link) => {
                    let data = epoll::EventData::new_u64(3);
                    // If this fails, the connection is processed with other events.
                    let _ = epoll::add(epoll, &link, data, epoll::EventFlags::IN);
                    self.wants_write = false;
                    self.disowned = Some(disown_in_child(link.as_fd()));
                    self.link = Some(link);
                }
                Err(()) => self.attempts.failed(now, false),
            }
        }
        let Some(link) = &mut self.link else {
            return;
        };
        if link.process(now).is_err() {
            let was_established = link.is_established();
            self.attempts.failed(now, was_established);
            self.disowned = None;
            self.link = None;
            return;
        }
        if link.wants_write() != self.wants_write {
            self.wants_write = link.wants_write();
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, self.wants_write);
            let _ = epoll::modify(epoll, &*link, epoll::EventData::new_u64(3), flags);
        }
    }

    /// Returns the time of the next [`process`](Self::process) if no event comes first.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.address.as_ref()?;
        match &self.link {
            Some(link) => link.deadline(),
            None => self.attempts.next(),
        }
    }
}

fn connect(address: &Address, now: Instant) -> Result<MachineLink, ()> {
    let socket = Socket::connect(address).map_err(drop)?;
    let machine = Machine::this();
    let identity = machine.identity(std::process::id() as i32, ferretto_shm::user_id());
    let info = SystemInfo {
        page_size: u32::try_from(ferretto_shm::page_size()).ok(),
        machine_name: Some(machine.name.clone()),
        tracing_service_version: Some(env!("CARGO_PKG_VERSION").into()),
        ..system_info()
    };
    Ok(MachineLink::new(socket, Some(&identity), info, now))
}
