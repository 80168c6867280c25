//! The service's replies, and their effect on a recording.

use std::time::Instant;

use ferretto_ipc::client::Rejected;
use ferretto_ipc::port::consumer::{Method, Port, Reply};
use ferretto_proto::{
    CloneSessionResponse, EnableTracingResponse, Message as _, ReadBuffersResponse,
    TracingServiceState,
};

use super::{
    Answer, CallError, CallId, CallKind, ClonedSession, Connection, Event, Open, Phase, Progress,
    Purpose, Recording, SessionEnd, is_start, is_stop, not_running, refused, rejected, result_of,
};
use crate::transport::LinkReply;

impl Recording {
    pub(super) fn reply(&mut self, reply: LinkReply<Port>, now: Instant) {
        if matches!(self.connection, Connection::Closing) && reply.result.is_err() {
            // The reason for the lost connection is reported next.
            return;
        }
        match (reply.method, reply.result) {
            (Method::ObserveEvents, Ok(Reply::ObserveEvents(mut reply))) => {
                let Some(observed) = reply.events.take() else {
                    return;
                };
                if observed.all_data_sources_started == Some(true) {
                    self.answer_all(is_start, || Ok(Answer::Done));
                }
                self.events.push_back(Event::Observed(Box::new(observed)));
            }
            (Method::ObserveEvents, _) => {}
            (Method::EnableTracing, result) => {
                // The reply of an earlier session has no meaning.
                if self.session.take_if(|id| *id == reply.request_id).is_some() {
                    self.end(end_of_session(result.ok()));
                }
            }
            (method, result) => {
                let purpose = if reply.has_more {
                    self.sent.get(&reply.request_id).copied()
                } else {
                    self.sent.remove(&reply.request_id)
                };
                let reply = LinkReply {
                    method,
                    result,
                    ..reply
                };
                match purpose {
                    Some(Purpose::Answer(call)) => self.answered(call, reply, now),
                    Some(Purpose::FinalFlush(call)) => {
                        self.flushed(call, reply.result.is_ok(), now);
                    }
                    Some(Purpose::Start) if reply.result.is_err() => {
                        self.refuse_all(is_start);
                    }
                    Some(Purpose::Stop) if reply.result.is_err() => self.refuse_all(is_stop),
                    _ => {}
                }
            }
        }
    }

    fn refuse_all(&mut self, is_meant: fn(CallKind) -> bool) {
        let meant = self.open.keys().copied().filter(|id| is_meant(id.kind()));
        for id in meant.collect::<Vec<_>>() {
            self.answer(id, Err(rejected(id)));
        }
    }

    /// Handles the reply to a call, or a part of it. Updates the state of the session even if no
    /// call waits for the reply.
    fn answered(&mut self, call: CallId, reply: LinkReply<Port>, now: Instant) {
        let has_more = reply.has_more;
        let result = match (call.kind(), reply.result) {
            (CallKind::Other(_), Err(Rejected)) => Err(rejected(call)),
            (CallKind::Other(_), result) => {
                let reply = LinkReply { result, ..reply };
                Ok(Answer::Reply(Box::new(reply)))
            }
            (CallKind::Detach, result) => return self.detached(call, result.is_ok(), now),
            (CallKind::Read, result) => return self.read_part(call, result, has_more, now),
            (_, Err(Rejected)) => Err(rejected(call)),
            (CallKind::ServiceState, Ok(Reply::QueryServiceState(part))) => {
                let Some(Open {
                    progress: Progress::ServiceState(encoded),
                    ..
                }) = self.open.get_mut(&call)
                else {
                    return;
                };
                if let Some(state) = part.service_state.as_option() {
                    encoded.extend(state.encode_to_vec());
                }
                if has_more {
                    return;
                }
                TracingServiceState::decode_from_slice(encoded)
                    .map(|state| Answer::ServiceState(Box::new(state)))
                    .map_err(|_| rejected(call))
            }
            (CallKind::Attach, Ok(Reply::Attach(mut reply))) => {
                self.phase = Phase::Running;
                self.is_attached = true;
                self.has_buffers = true;
                let config = reply.trace_config.take().unwrap_or_default();
                Ok(Answer::Attached(Box::new(config)))
            }
            (CallKind::Clone, Ok(Reply::CloneSession(reply))) => {
                let result = cloned(call, reply);
                self.has_buffers |= result.is_ok();
                result
            }
            (CallKind::Stats, Ok(Reply::GetTraceStats(mut reply))) => {
                let stats = reply.trace_stats.take().unwrap_or_default();
                Ok(Answer::Stats(Box::new(stats)))
            }
            (CallKind::Capabilities, Ok(Reply::QueryCapabilities(mut reply))) => {
                let capabilities = reply.capabilities.take().unwrap_or_default();
                Ok(Answer::Capabilities(Box::new(capabilities)))
            }
            (CallKind::Flush | CallKind::ChangeConfig, Ok(_)) => Ok(Answer::Done),
            (_, Ok(_)) => Err(rejected(call)),
        };
        self.answer(call, result);
    }

    fn read_part(
        &mut self,
        call: CallId,
        part: Result<Reply, Rejected>,
        has_more: bool,
        now: Instant,
    ) {
        match part {
            Ok(Reply::ReadBuffers(part)) => self.collect(call, part, now),
            Ok(_) => {}
            Err(Rejected) => self.answer(call, Err(rejected(call))),
        }
        if !has_more {
            self.answer(call, Ok(Answer::Done));
            self.reading = None;
            self.read_next();
        }
    }

    fn collect(&mut self, call: CallId, part: ReadBuffersResponse, now: Instant) {
        let Some(Open {
            deadline,
            progress:
                Progress::Read {
                    part_limit,
                    packets: reassembler,
                    is_late,
                },
        }) = self.open.get_mut(&call)
        else {
            return;
        };
        if !*is_late {
            *deadline = now.checked_add(*part_limit);
        }
        let mut packets = Vec::with_capacity(part.slices.len());
        let mut failure = None;
        for slice in part.slices {
            let is_last = slice.last_slice_for_packet == Some(true);
            match reassembler.add(slice.data.unwrap_or_default(), is_last) {
                Ok(packet) => packets.extend(packet),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        if !packets.is_empty() {
            self.events.push_back(Event::Packets { call, packets });
        }
        if let Some(error) = failure {
            // The remaining parts are still awaited, so that the next read gets its own packets.
            self.answer(call, Err(error.into()));
        }
    }

    fn detached(&mut self, call: CallId, is_done: bool, now: Instant) {
        if is_done {
            self.phase = Phase::Idle;
            self.session = None;
            self.has_buffers = false;
            self.answer(call, Ok(Answer::Done));
            let waits = self.open.keys().copied();
            let waits = waits.filter(|id| is_start(id.kind()) || is_stop(id.kind()));
            for id in waits.collect::<Vec<_>>() {
                self.answer(id, Err(not_running(id)));
            }
            return;
        }
        if let Some(reason) = self.refusal.take() {
            return self.answer(call, Err(refused(call, reason)));
        }
        if let Some(open) = self.open.get_mut(&call)
            && let Progress::Detach {
                reason_patience,
                is_refused,
            } = &mut open.progress
            && self.session.is_some()
            && !self.is_attached
            && !reason_patience.is_zero()
        {
            *is_refused = true;
            open.deadline = now.checked_add(*reason_patience);
            return;
        }
        self.answer(call, Err(rejected(call)));
    }

    /// Handles the reply to the flush of a [`Call::Finish`](super::Call::Finish).
    fn flushed(&mut self, call: CallId, is_done: bool, now: Instant) {
        if !is_done {
            self.events.push_back(Event::FinalFlushFailed);
        }
        if self.phase != Phase::Flushing {
            return;
        }
        if let Some(open) = self.open.get_mut(&call)
            && let Progress::Finish {
                stop_limit,
                presumed_end,
                may_be_over,
            } = &mut open.progress
        {
            *may_be_over = !is_done && self.is_attached;
            let limit = if *may_be_over {
                presumed_end
            } else {
                stop_limit
            };
            open.deadline = now.checked_add(*limit);
        }
        self.disable();
    }

    /// Handles the end of the session.
    pub(super) fn end(&mut self, end: SessionEnd) {
        self.session = None;
        self.answer_all(|kind| is_start(kind) || is_stop(kind), || result_of(&end));
        self.phase = Phase::Ended(end.clone());
        if let Some(call) = self.detaching() {
            let reason = end.error().map(str::to_owned);
            match self.open.get(&call).map(|open| &open.progress) {
                Some(Progress::Detach {
                    is_refused: true, ..
                }) => {
                    let error = reason.map_or_else(|| rejected(call), |why| refused(call, why));
                    self.answer(call, Err(error));
                }
                _ => self.refusal = reason,
            }
        }
        self.events.push_back(Event::Ended(end));
    }
}

fn cloned(call: CallId, reply: CloneSessionResponse) -> Result<Answer, CallError> {
    if reply.success != Some(true) {
        let reason = reply.error.unwrap_or_default();
        let reason = String::from_utf8_lossy(&reason).into_owned();
        return Err(refused(call, reason));
    }
    Ok(Answer::Cloned(ClonedSession {
        uuid: (reply.uuid_msb.unwrap_or(0), reply.uuid_lsb.unwrap_or(0)),
        in_file: reply.was_write_into_file.unwrap_or(false),
    }))
}

fn end_of_session(reply: Option<Reply>) -> SessionEnd {
    let Some(Reply::EnableTracing(EnableTracingResponse { error, .. })) = reply else {
        return SessionEnd::Rejected;
    };
    match error.filter(|error| !error.is_empty()) {
        None => SessionEnd::Complete,
        Some(error) => SessionEnd::Failed(String::from_utf8_lossy(&error).into_owned()),
    }
}
