//! ReadBuffers: the trace as a stream of replies, each of which fits a frame, at the speed of the
//! reader.

use std::collections::VecDeque;

use ferretto_proto::ReadBuffersResponse;
use ferretto_proto::read_buffers_response::Slice;

use crate::ids::SessionId;
use crate::limits::{MAX_SLICE, REPLY_BYTES};
use crate::sink::PacketSink;

/// The overhead of a slice in a reply, rounded up.
const SLICE_OVERHEAD: usize = 16;

/// A ReadBuffers request that is being answered.
#[derive(Debug)]
pub(super) struct ReadStream {
    request_id: u64,
    /// The session to read; `None` if the consumer had none.
    session: Option<SessionId>,
    /// The replies not sent yet: a large packet makes many of them.
    replies: VecDeque<StreamReply>,
    /// Set once there are no more packets.
    finished: bool,
}

#[derive(Debug)]
pub(super) struct StreamReply {
    pub(super) message: ReadBuffersResponse,
    /// The approximate size.
    pub(super) bytes: usize,
}

impl ReadStream {
    pub(super) fn new(request_id: u64, session: Option<SessionId>) -> Self {
        Self {
            request_id,
            session,
            replies: VecDeque::new(),
            finished: false,
        }
    }

    /// Replies to another request from now on, which may be for another session. Returns the
    /// request that ends.
    pub(super) fn take_over(&mut self, request_id: u64, session: Option<SessionId>) -> u64 {
        let replaced = self.request_id;
        if self.session == session {
            self.request_id = request_id;
        } else {
            *self = Self::new(request_id, session);
        }
        replaced
    }

    pub(super) fn request_id(&self) -> u64 {
        self.request_id
    }

    /// Returns true if packets are needed to determine the next reply, and whether it is the last
    /// one.
    pub(super) fn needs_packets(&self) -> bool {
        !self.finished && self.replies.len() <= 1
    }

    pub(super) fn session(&self) -> Option<SessionId> {
        self.session
    }

    /// Adds replies; `more` is true if others follow.
    pub(super) fn extend(&mut self, packets: ReplySink, more: bool) {
        self.finished = !more;
        self.replies.extend(packets.finish(self.finished));
    }

    pub(super) fn next_reply(&mut self) -> Option<StreamReply> {
        self.replies.pop_front()
    }

    /// Returns true if the last taken reply was the last of the stream.
    pub(super) fn is_over(&self) -> bool {
        self.finished && self.replies.is_empty()
    }
}

/// Splits packets into replies.
#[derive(Debug, Default)]
pub(crate) struct ReplySink {
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

    /// Returns the replies. The end of a trace is a reply even if there are no packets left.
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
        // The filter has removed the whole content of an empty packet; readers still count it.
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
