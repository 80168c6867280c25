//! Long answers to a consumer, sent no faster than they are read.

use std::collections::VecDeque;

use ferretto_ipc::port::consumer::Reply;

use crate::event::ClientId;
use crate::service::Service;

/// Replies that wait until the consumer has read those before.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    replies: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    request_id: u64,
    reply: Reply,
    has_more: bool,
}

/// Replies that may wait; an answer that needs more room than is left is rejected instead.
const MAX_REPLIES: usize = 4096;

impl Service {
    /// Answers a request in several replies, the last of which is final.
    pub(crate) fn answer_in_parts(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        parts: Vec<Reply>,
    ) {
        let Some(request_id) = request_id else { return };
        let Some(consumer) = self.consumers.get_mut(&client) else {
            return;
        };
        if consumer.backlog.replies.len() + parts.len() > MAX_REPLIES {
            return self.reply_to_consumer(client, Some(request_id), None);
        }
        let last = parts.len().saturating_sub(1);
        for (index, reply) in parts.into_iter().enumerate() {
            let has_more = index < last;
            consumer.backlog.replies.push_back(Waiting {
                request_id,
                reply,
                has_more,
            });
        }
        self.pump_backlog(client);
    }

    pub(crate) fn pump_backlog(&mut self, client: ClientId) {
        while let Some(consumer) = self.consumers.get_mut(&client) {
            if consumer.blocked {
                return;
            }
            let Some(Waiting {
                request_id,
                reply,
                has_more,
            }) = consumer.backlog.replies.pop_front()
            else {
                return;
            };
            let bytes = reply.encoded_len();
            self.stream_to_consumer(client, Some(request_id), Some(reply), has_more, bytes);
        }
    }
}
