//! ReadBuffers: the trace as a stream of replies, each within a frame, no faster than it is read.

use std::collections::VecDeque;

use ferretto_ipc::port::consumer::Reply;
use ferretto_proto::ReadBuffersResponse;
use ferretto_proto::read_buffers_response::Slice;

use super::read::PacketSink;
use crate::event::ClientId;
use crate::limits::{MAX_SLICE, READ_BATCH, REPLY_BYTES, SessionId};
use crate::service::Service;

/// What a slice costs in a reply beyond its bytes, rounded up.
const SLICE_OVERHEAD: usize = 16;

/// A ReadBuffers request being answered.
#[derive(Debug)]
pub(crate) struct ReadStream {
    request_id: u64,
    /// What is read; `None` if the consumer had no session.
    session: Option<SessionId>,
    /// Replies made and not sent: there are many of them if a packet is large.
    replies: VecDeque<StreamReply>,
    /// Nothing is left to be read.
    finished: bool,
}

#[derive(Debug)]
struct StreamReply {
    message: ReadBuffersResponse,
    bytes: usize,
}

impl Service {
    /// ReadBuffers. A stream already running is taken over: its request ends, its data goes on here.
    pub(crate) fn read_buffers(&mut self, client: ClientId, request_id: Option<u64>) {
        // Reading consumes; without anywhere to send it, nothing is read.
        let Some(request_id) = request_id else { return };
        let Some(consumer) = self.consumers.get_mut(&client) else {
            return;
        };
        let session = consumer.session;
        let running = consumer.reading.take();
        let replaced = running.as_ref().map(|stream| stream.request_id);
        let continued = running.filter(|stream| stream.session == session);
        consumer.reading = Some(match continued {
            Some(stream) => ReadStream {
                request_id,
                ..stream
            },
            None => {
                let replies = VecDeque::new();
                ReadStream {
                    request_id,
                    session,
                    replies,
                    finished: false,
                }
            }
        });
        if replaced.is_some() {
            self.reply_to_consumer(client, replaced, None);
        }
        self.pump_stream(client);
    }

    /// Sends replies until the consumer has to read first or the trace is at its end.
    pub(crate) fn pump_stream(&mut self, client: ClientId) {
        loop {
            self.refill_stream(client);
            let Some(consumer) = self.consumers.get_mut(&client) else {
                return;
            };
            let Some(stream) = consumer.reading.as_mut().filter(|_| !consumer.blocked) else {
                return;
            };
            let Some(StreamReply { message, bytes }) = stream.replies.pop_front() else {
                return;
            };
            let request_id = Some(stream.request_id);
            let last = stream.finished && stream.replies.is_empty();
            if last {
                consumer.reading = None;
            }
            let reply = Some(Reply::ReadBuffers(message));
            self.stream_to_consumer(client, request_id, reply, !last, bytes);
        }
    }

    /// Makes sure there is a next reply and that it is known whether it is the last one.
    fn refill_stream(&mut self, client: ClientId) {
        while let Some(consumer) = self.consumers.get_mut(&client) {
            let Some(stream) = &consumer.reading else {
                return;
            };
            if stream.finished || consumer.blocked || stream.replies.len() > 1 {
                return;
            }
            let mut sink = ReplySink::default();
            // The file comes first: what it takes is not there to be read.
            let readable = stream.session.filter(|id| {
                let session = self.sessions.get(id);
                let closed = session.filter(|session| !session.writes_into_file());
                closed.is_some_and(|session| session.consumer == Some(client))
            });
            let more = readable.is_some_and(|id| self.read_batch(id, READ_BATCH, &mut sink));
            let Some(consumer) = self.consumers.get_mut(&client) else {
                return;
            };
            let Some(stream) = &mut consumer.reading else {
                return;
            };
            stream.finished = !more;
            stream.replies.extend(sink.finish(stream.finished));
        }
    }
}

/// Cuts packets into replies.
#[derive(Debug, Default)]
struct ReplySink {
    done: Vec<StreamReply>,
    slices: Vec<Slice>,
    bytes: usize,
}

impl ReplySink {
    fn push(&mut self, piece: Vec<u8>, last: bool) {
        let cost = piece.len() + SLICE_OVERHEAD;
        if self.bytes + cost > REPLY_BYTES {
            self.close_reply();
        }
        self.bytes += cost;
        self.slices.push(Slice {
            data: Some(piece),
            last_slice_for_packet: Some(last),
            ..Default::default()
        });
    }

    fn close_reply(&mut self) {
        let slices = std::mem::take(&mut self.slices);
        let bytes = std::mem::take(&mut self.bytes);
        let message = ReadBuffersResponse {
            slices,
            ..Default::default()
        };
        self.done.push(StreamReply { message, bytes });
    }

    /// The replies. The end of a trace is told even if there is nothing left to go with it.
    fn finish(mut self, at_end: bool) -> Vec<StreamReply> {
        if !self.slices.is_empty() || (at_end && self.done.is_empty()) {
            self.close_reply();
        }
        self.done
    }
}

impl PacketSink for ReplySink {
    fn packet<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]> + Clone) {
        let length: usize = pieces.clone().map(<[u8]>::len).sum();
        // An empty packet is one nothing of which passed the filter; readers still count it.
        if length <= MAX_SLICE {
            let mut whole = Vec::with_capacity(length);
            pieces.for_each(|piece| whole.extend_from_slice(piece));
            return self.push(whole, true);
        }
        let mut pieces = pieces.filter(|piece| !piece.is_empty()).peekable();
        while let Some(piece) = pieces.next() {
            self.push(piece.to_vec(), pieces.peek().is_none());
        }
    }
}
