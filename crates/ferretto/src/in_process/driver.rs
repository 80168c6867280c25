//! The service's thread.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferretto_client::transport::{Attachment, ConsumerPort, ProducerPort, producer};
use ferretto_ipc::port::Port;
use ferretto_service::driver::{Alarm, Files, clocks};
use ferretto_service::{ClientId, Clocks, Command, Event, Peer, Service, ServiceOptions};
use ferretto_shm::Region;
use rustix::event::{PollFd, PollFlags, poll};

use super::inbox::{Call, Inbox, Input};
use super::mailbox::{Answer, Mailbox, MailboxRef};

/// The time limit for completing trace files when the service ends.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit for a pipe without a reader to accept the last bytes of its session.
const FILE_PATIENCE: Duration = Duration::from_secs(5);
/// The number of inputs whose memory is kept between iterations.
const KEPT_INPUTS: usize = 256;
/// The number of inputs that are handled per reading of the clocks.
const INPUTS_PER_READING: usize = 32;

/// The service's view of a producer.
#[derive(Debug)]
struct ProducerSeat {
    mailbox: MailboxRef<ProducerPort>,
    /// The memory that the producer provided.
    brought: Option<Arc<Region>>,
    /// The memory that the producer shares with the service.
    region: Option<Arc<Region>>,
}

/// The loop between the inbox and the service.
#[derive(Debug)]
pub(super) struct Driver {
    inbox: Arc<Inbox>,
    service: Service,
    files: Files,
    alarm: Alarm,
    producers: HashMap<ClientId, ProducerSeat>,
    consumers: HashMap<ClientId, MailboxRef<ConsumerPort>>,
    /// Clients that stopped taking replies and whose disconnection the service has not seen yet.
    lost: Vec<ClientId>,
}

impl Driver {
    pub(super) fn new(inbox: Arc<Inbox>, options: ServiceOptions) -> io::Result<Self> {
        let notified = Arc::clone(&inbox);
        Ok(Self {
            inbox,
            service: Service::new(options),
            files: Files::new(move || notified.nudge(), FILE_PATIENCE),
            alarm: Alarm::new()?,
            producers: HashMap::new(),
            consumers: HashMap::new(),
            lost: Vec::new(),
        })
    }

    /// Runs until no client can send requests any more.
    pub(super) fn run(mut self) {
        let mut inputs = Vec::new();
        while self.inbox.take(&mut inputs) {
            self.turn(&mut inputs);
            self.wait();
        }
        self.finish();
    }

    fn turn(&mut self, inputs: &mut Vec<Input>) {
        let mut now = Clocks::default();
        for (index, input) in inputs.drain(..).enumerate() {
            if index % INPUTS_PER_READING == 0 {
                now = clocks::read();
            }
            self.handle(&now, input);
        }
        inputs.shrink_to(KEPT_INPUTS);
        while let Some(event) = self.files.next_event() {
            self.handle_event(&clocks::read(), event);
        }
        let due = self.service.poll_timeout();
        if due.is_some_and(|at| at <= clocks::boottime()) {
            let now = clocks::read();
            self.service.handle_timeout(&now);
            self.carry_out(&now);
        }
    }

    /// Waits until there is something to do.
    fn wait(&mut self) {
        // If the timer cannot be set, deadlines are handled with the next request.
        let _ = self.alarm.set(self.service.poll_timeout());
        if !self.inbox.fall_asleep() {
            return;
        }
        let mut fds = [
            PollFd::new(self.inbox.wake_fd(), PollFlags::IN),
            PollFd::new(&self.alarm, PollFlags::IN),
        ];
        // An interrupted wait only ends early.
        let _ = poll(&mut fds, None);
        let [woken, rang] = fds.map(|fd| !fd.revents().is_empty());
        if woken {
            self.inbox.wake_fd().clear();
        }
        if rang {
            self.alarm.rang();
        }
    }

    fn handle(&mut self, now: &Clocks, input: Input) {
        match input {
            Input::Producer(client, mailbox, machine_id) => {
                let seat = ProducerSeat {
                    mailbox,
                    brought: None,
                    region: None,
                };
                self.producers.insert(client, seat);
                let peer = peer(machine_id);
                self.handle_event(now, Event::ProducerConnected { client, peer });
            }
            Input::Consumer(client, mailbox) => {
                self.consumers.insert(client, mailbox);
                let peer = peer(0);
                self.handle_event(now, Event::ConsumerConnected { client, peer });
            }
            Input::FromProducer(client, call) => self.producer_request(now, client, call),
            Input::FromConsumer(client, call) => {
                let Some(mailbox) = self.consumers.get(&client) else {
                    return;
                };
                mailbox.discharge(call.cost);
                let event = Event::ConsumerRequest {
                    client,
                    request_id: call.request_id,
                    request: call.request,
                    fd: match call.attachment {
                        Some(Attachment::Descriptor(fd)) => Some(fd.into()),
                        _ => None,
                    },
                };
                self.handle_event(now, event);
            }
            Input::Drained(client) => {
                if self.consumers.contains_key(&client) {
                    self.handle_event(now, Event::ConsumerDrained { client });
                }
            }
            Input::Gone(client) => {
                if self.leave(client) {
                    self.handle_event(now, Event::Disconnected { client });
                }
            }
        }
    }

    fn producer_request(&mut self, now: &Clocks, client: ClientId, call: Call<producer::Request>) {
        let Some(seat) = self.producers.get_mut(&client) else {
            return;
        };
        seat.mailbox.discharge(call.cost);
        let fd = match call.attachment {
            Some(Attachment::Descriptor(fd)) => Some(fd),
            Some(Attachment::Memory(region)) => {
                // The service sees a descriptor; the region is looked up by it below.
                let fd = region.fd().and_then(|fd| fd.try_clone_to_owned().ok());
                seat.brought = Some(region);
                fd
            }
            None => None,
        };
        let event = Event::ProducerRequest {
            client,
            request_id: call.request_id,
            request: call.request,
            fd: fd.map(Into::into),
        };
        self.handle_event(now, event);
    }

    /// Passes an event to the service and carries out its commands.
    fn handle_event(&mut self, now: &Clocks, event: Event) {
        self.service.handle(now, event);
        self.carry_out(now);
    }

    fn carry_out(&mut self, now: &Clocks) {
        loop {
            while let Some(command) = self.service.poll_command() {
                self.execute(now, command);
            }
            let Some(client) = self.lost.pop() else {
                return;
            };
            if self.leave(client) {
                self.service.handle(now, Event::Disconnected { client });
            }
        }
    }

    fn execute(&mut self, now: &Clocks, command: Command) {
        match command {
            Command::ProducerReply {
                client,
                request_id,
                reply,
                has_more,
                region_fd,
            } => {
                let Some(seat) = self.producers.get(&client) else {
                    return;
                };
                let region = seat.region.as_ref().filter(|_| region_fd);
                let answer = Answer {
                    request_id,
                    reply,
                    has_more,
                    attachment: region.cloned().map(Attachment::Memory),
                };
                deliver(&seat.mailbox, answer, false, client, &mut self.lost);
            }
            Command::ConsumerReply {
                client,
                request_id,
                reply,
                has_more,
                wants_drained,
            } => {
                let Some(mailbox) = self.consumers.get(&client) else {
                    return;
                };
                let answer = Answer {
                    request_id,
                    reply,
                    has_more,
                    attachment: None,
                };
                deliver(mailbox, answer, wants_drained, client, &mut self.lost);
            }
            // This process has no relays.
            Command::RelayReply { .. } => {}
            Command::SetPriority { client, .. } => {
                if let Some(client) = client {
                    let error = "the tracing service in this process cannot change its priority";
                    let error = error.to_owned();
                    self.service
                        .handle(now, Event::PriorityRefused { client, error });
                }
            }
            Command::CreateSharedMemory { client, size } => {
                self.share(now, client, Region::heap(size).ok().map(Arc::new));
            }
            Command::AdoptSharedMemory { client, .. } => {
                let seat = self.producers.get_mut(&client);
                let brought = seat.and_then(|seat| seat.brought.take());
                self.share(now, client, brought);
            }
            Command::OpenFile { file, path } => self.files.create(file, path),
            Command::AdoptFile { file, fd } => self.files.adopt(file, fd),
            Command::CopyFile { from, file, fd } => self.files.copy(from, file, fd),
            Command::WriteFile { file, bytes } => self.files.write(file, bytes),
            Command::SyncFile { file } => self.files.sync(file),
            Command::CloseFile { file } => self.files.close(file),
            // The trace reports it, too.
            Command::ReportWaiting { .. } => {}
            // A program has no operator to report to.
            Command::Report { .. } => {}
            Command::Disconnect { client } => self.lost.push(client),
        }
    }

    /// Shares memory with a producer.
    fn share(&mut self, now: &Clocks, client: ClientId, region: Option<Arc<Region>>) {
        let Some(seat) = self.producers.get_mut(&client) else {
            return;
        };
        seat.region.clone_from(&region);
        let event = match region {
            Some(region) => Event::SharedMemoryReady { client, region },
            None => Event::SharedMemoryFailed { client },
        };
        self.service.handle(now, event);
    }

    /// Removes a client. Returns false if there is no such client.
    fn leave(&mut self, client: ClientId) -> bool {
        if let Some(seat) = self.producers.remove(&client) {
            seat.mailbox.close();
            return true;
        }
        let Some(mailbox) = self.consumers.remove(&client) else {
            return false;
        };
        mailbox.close();
        true
    }

    /// Completes the files of sessions that are still running.
    fn finish(mut self) {
        self.files.hurry();
        let deadline = Instant::now() + FINISH_TIMEOUT;
        while let Some(event) = self.files.wait_for_event(deadline) {
            self.handle_event(&clocks::read(), event);
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Pending calls fail.
        self.inbox.die();
        for seat in self.producers.values() {
            seat.mailbox.close();
        }
        for mailbox in self.consumers.values() {
            mailbox.close();
        }
    }
}

fn deliver<P: Port>(
    mailbox: &Mailbox<P>,
    answer: Answer<P>,
    wants_drained: bool,
    client: ClientId,
    lost: &mut Vec<ClientId>,
) {
    if !mailbox.push(answer, wants_drained) {
        lost.push(client);
    }
}

/// Returns the identity of every client, which is this process.
fn peer(machine_id: u32) -> Peer {
    Peer {
        uid: ferretto_shm::user_id(),
        pid: i32::try_from(std::process::id()).ok(),
        machine_id,
        machine_name: String::new(),
        can_share_memory: true,
    }
}
