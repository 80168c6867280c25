//! The client's end of a link.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use ferretto_client::transport::client::{DisconnectReason, InvokeError, Rejected};
use ferretto_client::transport::{
    Attachment, ConsumerPort, Link, LinkEvent, LinkReply, PortMessage as _, ProducerPort, consumer,
    producer,
};
use ferretto_ipc::port::Port;
use ferretto_ipc::socket::QueueError;
use ferretto_service::ClientId;

use super::Door;
use super::inbox::{Call, Inbox, Input};
use super::mailbox::{Answer, MailboxRef};

/// The overhead of a request in the backlog, in bytes.
const REQUEST_OVERHEAD: usize = 256;
/// The size of a chunk or patch of a commit in the backlog, in bytes.
const MOVE_SIZE: usize = 64;
const PATCH_SIZE: usize = 64;
/// The largest backlog of a client, in bytes, before it is disconnected. The same as for sockets.
const MAX_BACKLOG: usize = 8 * 1024 * 1024;

/// The operations that differ between producers and consumers.
pub(super) trait LocalPort: Port {
    /// Converts a request to an input of the service.
    fn input(client: ClientId, call: Call<Self::Request>) -> Input;

    /// Returns the approximate memory of a request, in bytes.
    fn size(request: &Self::Request) -> usize;

    /// Returns true if the service may handle the request later, together with the next one.
    fn may_wait(request: &Self::Request) -> bool;
}

impl LocalPort for ProducerPort {
    fn input(client: ClientId, call: Call<producer::Request>) -> Input {
        Input::FromProducer(client, call)
    }

    fn size(request: &producer::Request) -> usize {
        let producer::Request::CommitData(commit) = request else {
            return request.encoded_len();
        };
        // Not the encoded size, whose computation would double the cost.
        let inline = commit
            .chunks_to_move
            .iter()
            .map(|chunk| chunk.data.as_ref().map_or(0, Vec::len));
        let patches = commit
            .chunks_to_patch
            .iter()
            .map(|chunk| chunk.patches.len());
        commit.chunks_to_move.len() * MOVE_SIZE
            + inline.sum::<usize>()
            + patches.map(|count| (count + 1) * PATCH_SIZE).sum::<usize>()
    }

    fn may_wait(request: &producer::Request) -> bool {
        matches!(request, producer::Request::RegisterTraceWriter(_))
    }
}

impl LocalPort for ConsumerPort {
    fn input(client: ClientId, call: Call<consumer::Request>) -> Input {
        Input::FromConsumer(client, Box::new(call))
    }

    fn size(request: &consumer::Request) -> usize {
        request.encoded_len()
    }

    fn may_wait(_: &consumer::Request) -> bool {
        false
    }
}

/// A link to the service of this process.
pub(super) struct LocalLink<P: Port> {
    client: ClientId,
    /// Keeps the service alive.
    _door: Arc<Door>,
    inbox: Arc<Inbox>,
    mailbox: MailboxRef<P>,
    last_request_id: u64,
    pending: HashMap<u64, P::Method>,
    events: VecDeque<LinkEvent<P>>,
    wants_drained: bool,
    is_closed: bool,
}

impl<P: LocalPort> LocalLink<P> {
    /// Creates the link of a client that the service knows.
    pub(super) fn new(
        client: ClientId,
        door: Arc<Door>,
        inbox: Arc<Inbox>,
        mailbox: MailboxRef<P>,
    ) -> Self {
        Self {
            client,
            _door: door,
            inbox,
            mailbox,
            last_request_id: 0,
            pending: HashMap::new(),
            events: VecDeque::from([LinkEvent::Bound]),
            wants_drained: false,
            is_closed: false,
        }
    }

    fn receive(&mut self, answer: Answer<P>) {
        let Some(&method) = self.pending.get(&answer.request_id) else {
            return;
        };
        let has_more = answer.has_more && answer.reply.is_some();
        if !has_more {
            self.pending.remove(&answer.request_id);
        }
        self.events.push_back(LinkEvent::Reply(LinkReply {
            request_id: answer.request_id,
            method,
            result: answer.reply.ok_or(Rejected),
            has_more,
            attachment: answer.attachment,
        }));
    }

    fn close(&mut self, reason: DisconnectReason) {
        if std::mem::replace(&mut self.is_closed, true) {
            return;
        }
        let mut open: Vec<_> = self.pending.drain().collect();
        open.sort_unstable_by_key(|(id, _)| *id);
        let refused = open.into_iter().map(|(request_id, method)| {
            LinkEvent::Reply(LinkReply {
                request_id,
                method,
                result: Err(Rejected),
                has_more: false,
                attachment: None,
            })
        });
        self.events.extend(refused);
        self.events.push_back(LinkEvent::Disconnected(reason));
        self.inbox.push(Input::Gone(self.client));
    }
}

impl<P: LocalPort> Link<P> for LocalLink<P> {
    fn invoke(
        &mut self,
        request: P::Request,
        attachment: Option<Attachment>,
        wants_reply: bool,
    ) -> Result<u64, InvokeError> {
        if self.is_closed || self.inbox.is_foreign() {
            return Err(InvokeError::Disconnected);
        }
        let queued = self.mailbox.backlog();
        let cost = P::size(&request) + REQUEST_OVERHEAD;
        if queued + cost > MAX_BACKLOG {
            self.close(DisconnectReason::Overflow(QueueError::Overflow { queued }));
            return Err(InvokeError::Disconnected);
        }
        self.mailbox.charge(cost);
        self.last_request_id += 1;
        let id = self.last_request_id;
        if wants_reply {
            self.pending.insert(id, request.method());
        }
        let may_wait = P::may_wait(&request) && !wants_reply;
        let call = Call {
            request_id: wants_reply.then_some(id),
            request,
            attachment,
            cost,
        };
        let input = P::input(self.client, call);
        if may_wait {
            self.inbox.push_without_haste(input);
        } else {
            self.inbox.push(input);
        }
        Ok(id)
    }

    fn process(&mut self) {
        if self.is_closed {
            return;
        }
        if self.inbox.is_foreign() {
            return self.close(DisconnectReason::Closed);
        }
        let delivery = self.mailbox.take();
        self.wants_drained |= delivery.wants_drained;
        for answer in delivery.answers {
            self.receive(answer);
        }
        if delivery.is_closed {
            self.close(DisconnectReason::Closed);
        }
    }

    fn poll_event(&mut self) -> Option<LinkEvent<P>> {
        let event = self.events.pop_front();
        if self.events.is_empty() && std::mem::take(&mut self.wants_drained) {
            self.inbox.push(Input::Drained(self.client));
        }
        event
    }

    fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    fn queued(&self) -> usize {
        self.mailbox.backlog()
    }

    fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn shares_memory(&self) -> bool {
        true
    }
}

impl<P: Port> AsFd for LocalLink<P> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mailbox.as_fd()
    }
}

impl<P: Port> Drop for LocalLink<P> {
    fn drop(&mut self) {
        if !self.is_closed {
            self.inbox.push(Input::Gone(self.client));
        }
    }
}

impl<P: Port> fmt::Debug for LocalLink<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalLink")
            .field("client", &self.client)
            .field("is_closed", &self.is_closed)
            .finish_non_exhaustive()
    }
}
