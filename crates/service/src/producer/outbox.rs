//! Commands for a producer that cannot receive them yet.

use std::collections::VecDeque;

use ferretto_proto::{GetAsyncCommandResponse, Message as _};

/// One command.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) message: GetAsyncCommandResponse,
    /// Set if the descriptor of the producer's memory goes along.
    pub(crate) region_fd: bool,
}

/// The waiting commands, in order.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: VecDeque<Outgoing>,
    bytes: usize,
}

impl Outbox {
    pub(crate) fn push(&mut self, message: GetAsyncCommandResponse) {
        self.bytes += message.encoded_len() as usize;
        self.queue.push_back(Outgoing {
            message,
            region_fd: false,
        });
    }

    /// Puts the command that carries the producer's memory before all others.
    pub(crate) fn push_memory(&mut self, message: GetAsyncCommandResponse) {
        self.bytes += message.encoded_len() as usize;
        self.queue.push_front(Outgoing {
            message,
            region_fd: true,
        });
    }

    /// Takes all commands.
    pub(crate) fn take(&mut self) -> VecDeque<Outgoing> {
        std::mem::take(self).queue
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns the size of all commands.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
