//! All consumers, by their connections.

use std::collections::BTreeMap;

use ferretto_ipc::port::consumer::Reply;
use ferretto_proto::EnableTracingResponse;
use ferretto_proto::enable_tracing_response::State;

use crate::command::{Command, Commands};
use crate::consumer::{Consumer, Opening};
use crate::event::{ClientId, FileId, Peer};
use crate::priority::Priority;

/// The consumers.
#[derive(Debug, Default)]
pub(crate) struct Consumers {
    table: BTreeMap<ClientId, Consumer>,
    /// Set if an observer may have to be notified.
    observed: bool,
}

impl Consumers {
    pub(crate) fn connect(&mut self, client: ClientId, peer: Peer) {
        self.table.insert(client, Consumer::new(client, peer));
    }

    pub(crate) fn disconnect(&mut self, client: ClientId) -> Option<Consumer> {
        self.table.remove(&client)
    }

    /// Returns a consumer that must be connected: that of a session, or of the current request.
    pub(crate) fn existing(&mut self, client: ClientId) -> Option<&mut Consumer> {
        let consumer = self.table.get_mut(&client);
        debug_assert!(consumer.is_some(), "there is no consumer {client:?}");
        consumer
    }

    /// Returns the consumer of an event or of a late answer, unless it is gone.
    pub(crate) fn if_connected(&mut self, client: ClientId) -> Option<&mut Consumer> {
        self.table.get_mut(&client)
    }

    /// Returns a consumer, unless it is gone.
    pub(crate) fn get(&self, client: ClientId) -> Option<&Consumer> {
        self.table.get(&client)
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns the number of requests that wait for the driver.
    pub(crate) fn deferred(&self) -> usize {
        self.table.values().map(Consumer::deferred).sum()
    }

    /// Returns the highest priority requested by a session that is being opened.
    pub(crate) fn priority_of_openings(&self) -> Option<Priority> {
        let openings = self.table.values().map(Consumer::priority_of_opening);
        openings.max().flatten()
    }

    /// Takes the EnableTracing request that waits for this file, with its client.
    pub(crate) fn take_opening_of_file(&mut self, file: FileId) -> Option<(ClientId, Opening)> {
        let mut all = self.table.iter_mut();
        all.find_map(|(client, consumer)| Some((*client, consumer.take_opening_of_file(file)?)))
    }

    /// Sends the last reply to a request; `None` rejects it. The driver drops replies to a client
    /// that is gone.
    pub(crate) fn reply(
        &mut self,
        commands: &mut Commands,
        client: ClientId,
        request_id: Option<u64>,
        reply: Option<Reply>,
    ) {
        match (self.table.get_mut(&client), request_id) {
            (Some(consumer), _) => consumer.reply(commands, request_id, reply),
            (None, Some(request_id)) => commands.push(Command::ConsumerReply {
                client,
                request_id,
                reply,
                has_more: false,
                wants_drained: false,
            }),
            (None, None) => {}
        }
    }

    /// Replies to EnableTracing that the session has ended, or never started.
    pub(crate) fn reply_session_ended(
        &mut self,
        commands: &mut Commands,
        client: ClientId,
        request_id: Option<u64>,
        error: Option<String>,
    ) {
        // As in upstream, observers see the last states of data sources before the end.
        self.deliver_observed(commands);
        let reply = EnableTracingResponse {
            state: Some(State::Disabled(true)),
            error: error.map(String::into_bytes),
            ..Default::default()
        };
        let reply = Some(Reply::EnableTracing(reply));
        self.reply(commands, client, request_id, reply);
    }

    /// Returns the consumer of a session, if there is one, and notes that it may have to be
    /// notified.
    pub(crate) fn observer(&mut self, client: Option<ClientId>) -> Option<&mut Consumer> {
        let client = client?;
        self.observed = true;
        self.existing(client)
    }

    /// Notes that a consumer has read its replies. Returns false if it is gone.
    pub(crate) fn drained(&mut self, client: ClientId) -> bool {
        let consumer = self.if_connected(client).map(Consumer::drained);
        self.observed |= consumer.is_some();
        consumer.is_some()
    }

    /// Sends the changes that were noted while an event was handled, in one reply.
    pub(crate) fn deliver_observed(&mut self, commands: &mut Commands) {
        // This runs after every event, and most events concern no observer.
        if std::mem::take(&mut self.observed) {
            for consumer in self.table.values_mut() {
                consumer.deliver_observed(commands);
            }
        }
    }
}
