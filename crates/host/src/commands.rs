//! Carries out the service's commands.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use ferretto_ipc::host::{rejection_frame, reply_frame};
use ferretto_ipc::port::PortMessage;
use ferretto_priority::Priority;
use ferretto_service::{ClientId, Clocks, Command, Event};
use ferretto_shm::{Region, RegionError};

use crate::notice::Notice;
use crate::reactor::Reactor;

impl Reactor {
    /// Carries out all commands of the service, and reports clients lost meanwhile to it.
    pub(crate) fn carry_out(&mut self, now: &Clocks) {
        self.report_turned_away(now);
        loop {
            while let Some(command) = self.service.poll_command() {
                self.execute(now, command);
            }
            if !self.disconnect_next(now) {
                return;
            }
        }
    }

    pub(crate) fn execute(&mut self, now: &Clocks, command: Command) {
        match command {
            Command::ProducerReply {
                client,
                request_id,
                reply,
                has_more,
                region_fd,
            } => {
                let fd = if region_fd {
                    self.region_descriptor(client)
                } else {
                    None
                };
                if region_fd && fd.is_none() {
                    // The process is out of descriptors. A producer that gets no memory after an
                    // announcement would fail in worse ways.
                    return self.close_after_flush(client);
                }
                self.reply(client, request_id, reply.as_ref(), has_more, fd);
            }
            Command::ConsumerReply {
                client,
                request_id,
                reply,
                has_more,
                wants_drained,
            } => {
                self.reply(client, request_id, reply.as_ref(), has_more, None);
                if wants_drained {
                    self.report_when_drained(client);
                }
            }
            Command::RelayReply {
                client,
                request_id,
                reply,
            } => {
                self.reply(client, request_id, Some(&reply), false, None);
                // Sent at once, since the relay measures the round trip.
                self.send_at_once(client);
            }
            Command::SetPriority { priority, client } => self.set_priority(now, priority, client),
            Command::CreateSharedMemory { client, size } => {
                self.share_memory(now, client, Region::create(size));
            }
            Command::AdoptSharedMemory { client, fd } => {
                // A descriptor that is not memory is not closed here, since that could block.
                let region = Region::inspect(fd.as_fd())
                    .and_then(|_| Region::from_untrusted_fd(fd.into_fd()));
                self.share_memory(now, client, region);
            }
            Command::OpenFile { file, path } => self.files.create(file, path),
            Command::AdoptFile { file, fd } => self.files.adopt(file, fd),
            Command::CopyFile { from, file, fd } => self.files.copy(from, file, fd),
            Command::WriteFile { file, bytes } => self.files.write(file, bytes),
            Command::SyncFile { file } => self.files.sync(file),
            Command::CloseFile { file } => self.files.close(file),
            Command::ReportWaiting { waiting } => {
                self.notices.report(&Notice::Waiting(waiting));
            }
            Command::Report { problem } => self.notices.report(&Notice::Service(problem)),
            Command::Disconnect { client } => self.close_after_flush(client),
        }
    }

    fn set_priority(&mut self, now: &Clocks, priority: Option<Priority>, client: Option<ClientId>) {
        let result = self.boost.set(priority);
        let event = match (client, result) {
            (Some(client), Ok(())) => Event::PrioritySet { client },
            (Some(client), Err(error)) => Event::PriorityRefused {
                client,
                error: error.to_string(),
            },
            (None, Ok(())) => return,
            (None, Err(error)) => return self.notices.report(&Notice::Priority { error }),
        };
        self.service.handle(now, event);
    }

    fn reply<M: PortMessage>(
        &mut self,
        id: ClientId,
        request_id: u64,
        reply: Option<&M>,
        has_more: bool,
        fd: Option<OwnedFd>,
    ) {
        let Some(client) = self.clients.get(&id) else {
            return;
        };
        let frame = match reply.map(|reply| reply_frame(request_id, reply, has_more)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                let client = client.name();
                self.notices
                    .report(&Notice::ReplyTooLarge { client, error });
                if has_more {
                    // The stream continues without this message.
                    return;
                }
                rejection_frame(request_id)
            }
            None => rejection_frame(request_id),
        };
        self.send(id, frame, fd);
    }

    fn share_memory(&mut self, now: &Clocks, id: ClientId, region: Result<Region, RegionError>) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let event = match region {
            Ok(region) => {
                let region = Arc::new(region);
                client.region = Some(Arc::clone(&region));
                Event::SharedMemoryReady { client: id, region }
            }
            Err(error) => {
                let client = client.name();
                self.notices.report(&Notice::SharedMemory { client, error });
                Event::SharedMemoryFailed { client: id }
            }
        };
        self.service.handle(now, event);
    }

    fn region_descriptor(&self, id: ClientId) -> Option<OwnedFd> {
        let region = self.clients.get(&id)?.region.as_ref()?;
        region.fd()?.try_clone_to_owned().ok()
    }
}
