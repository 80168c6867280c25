//! Calls: their effect on the session, and the requests they send.

use std::os::fd::OwnedFd;

use ferretto_ipc::port::consumer::Request;
use ferretto_proto::{
    AttachRequest, DetachRequest, DisableTracingRequest, EnableTracingRequest, FlushRequest,
    FreeBuffersRequest, GetTraceStatsRequest, ObserveEventsRequest, QueryCapabilitiesRequest,
    QueryServiceStateRequest, ReadBuffersRequest, StartTracingRequest, TraceConfig,
};

use super::packets::Reassembler;
use super::{
    Answer, Call, CallError, CallId, Early, Needs, Open, Phase, Progress, Purpose, Recording,
    not_running, result_of,
};

impl Recording {
    /// Makes a call over an established connection.
    pub(super) fn begin(&mut self, early: Early) {
        let Early {
            id,
            call,
            needs,
            deadline,
        } = early;
        let is_met = match needs {
            Needs::Nothing => true,
            Needs::Running => self.phase == Phase::Running,
            Needs::Session => self.has_buffers,
        };
        if !is_met {
            return self.complete(id, Err(not_running(id)));
        }
        let progress = self.progress_of(&call);
        self.open.insert(id, Open { deadline, progress });
        match call {
            Call::Connect => self.answer(id, Ok(Answer::Done)),
            Call::Observe(events_to_observe) => {
                let request = Request::ObserveEvents(ObserveEventsRequest {
                    events_to_observe,
                    ..Default::default()
                });
                self.send(Purpose::Sent(id), request, None);
            }
            Call::SetUp { config, file } => self.set_up(id, config, file),
            Call::Enable { config, file } => self.create(id, config, file),
            Call::Start => self.start(id),
            Call::WaitForStart => {}
            Call::WaitForEnd => {
                if let Some(result) = self.result_of_session(id) {
                    self.answer(id, result);
                }
            }
            Call::Flush(request) => self.send(Purpose::Answer(id), Request::Flush(request), None),
            Call::Stop => self.stop(id),
            Call::Finish { flags, .. } => self.finish(id, flags.0),
            Call::Detach { key, .. } => {
                let request = Request::Detach(DetachRequest {
                    key: Some(key),
                    ..Default::default()
                });
                self.refusal = None;
                self.send(Purpose::Answer(id), request, None);
            }
            Call::Attach { key } => {
                let request = Request::Attach(AttachRequest {
                    key: Some(key),
                    ..Default::default()
                });
                self.send(Purpose::Answer(id), request, None);
            }
            Call::Watch => {
                let request = Request::EnableTracing(EnableTracingRequest {
                    attach_notification_only: Some(true),
                    ..Default::default()
                });
                self.send(Purpose::Watch(id), request, None);
            }
            Call::Clone { request, file } => {
                self.send(Purpose::Answer(id), Request::CloneSession(*request), file);
            }
            Call::Read { .. } => {
                self.waiting_reads.push_back(id);
                self.read_next();
            }
            Call::Stats => {
                let request = Request::GetTraceStats(GetTraceStatsRequest::default());
                self.send(Purpose::Answer(id), request, None);
            }
            Call::Capabilities => {
                let request = Request::QueryCapabilities(QueryCapabilitiesRequest::default());
                self.send(Purpose::Answer(id), request, None);
            }
            Call::ServiceState => {
                let request = Request::QueryServiceState(QueryServiceStateRequest::default());
                self.send(Purpose::Answer(id), request, None);
            }
            Call::ChangeConfig(request) => {
                self.send(
                    Purpose::Answer(id),
                    Request::ChangeTraceConfig(*request),
                    None,
                );
            }
            Call::Other(request, file) => {
                match &*request {
                    Request::StartTracing(_) if self.phase == Phase::Created => {
                        self.phase = Phase::Running;
                    }
                    Request::DisableTracing(_) if self.phase == Phase::Running => {
                        self.phase = Phase::Stopping;
                    }
                    Request::FreeBuffers(_) => self.has_buffers = false,
                    _ => {}
                }
                self.send(Purpose::Answer(id), *request, file);
            }
        }
    }

    fn progress_of(&self, call: &Call) -> Progress {
        match *call {
            Call::Read { part_limit } => Progress::Read {
                part_limit,
                packets: Reassembler::with_limit(self.max_packet_size),
                is_late: false,
            },
            Call::ServiceState => Progress::ServiceState(Vec::new()),
            Call::Detach {
                reason_patience, ..
            } => Progress::Detach {
                reason_patience,
                is_refused: false,
            },
            Call::Finish {
                stop_limit,
                presumed_end,
                ..
            } => Progress::Finish {
                stop_limit,
                presumed_end,
                may_be_over: false,
            },
            _ => Progress::Plain,
        }
    }

    fn set_up(&mut self, id: CallId, config: Box<TraceConfig>, file: Option<OwnedFd>) {
        let is_idle = matches!(self.phase, Phase::Idle | Phase::Ended(_));
        if is_idle && config.deferred_start == Some(true) {
            self.free();
            self.create(id, config, file);
        } else {
            self.setup = Some((config, file));
        }
        self.answer(id, Ok(Answer::Done));
    }

    /// Requests a new session.
    fn create(&mut self, id: CallId, config: Box<TraceConfig>, file: Option<OwnedFd>) {
        let is_deferred = config.deferred_start == Some(true);
        let request = Request::EnableTracing(EnableTracingRequest {
            trace_config: (*config).into(),
            ..Default::default()
        });
        self.send(Purpose::Create(id), request, file);
        self.phase = if is_deferred {
            Phase::Created
        } else {
            Phase::Running
        };
        self.has_buffers = true;
        self.is_attached = false;
    }

    fn start(&mut self, id: CallId) {
        match self.phase {
            Phase::Running | Phase::Flushing | Phase::Stopping => {
                return self.answer(id, Err(CallError::AlreadyStarted));
            }
            Phase::Idle | Phase::Ended(_) => {
                let Some((config, file)) = self.setup.take() else {
                    return self.answer(id, Err(CallError::NotSetUp));
                };
                self.free();
                self.create(id, config, file);
            }
            Phase::Created => {}
        }
        if self.phase == Phase::Created {
            let request = Request::StartTracing(StartTracingRequest::default());
            self.send(Purpose::Start, request, None);
            self.phase = Phase::Running;
        }
    }

    /// Discards the rest of an earlier session.
    fn free(&mut self) {
        if std::mem::take(&mut self.has_buffers) {
            let request = Request::FreeBuffers(FreeBuffersRequest::default());
            self.send(Purpose::Nothing, request, None);
        }
    }

    fn stop(&mut self, id: CallId) {
        if let Some(result) = self.result_of_session(id) {
            return self.answer(id, result);
        }
        self.disable();
    }

    fn finish(&mut self, id: CallId, flags: u64) {
        if let Some(result) = self.result_of_session(id) {
            return self.answer(id, result);
        }
        if matches!(self.phase, Phase::Created | Phase::Running) {
            let request = Request::Flush(FlushRequest {
                flags: Some(flags),
                ..Default::default()
            });
            self.send(Purpose::FinalFlush(id), request, None);
            self.phase = Phase::Flushing;
        }
    }

    pub(super) fn disable(&mut self) {
        if self.phase != Phase::Stopping {
            let request = Request::DisableTracing(DisableTracingRequest::default());
            self.send(Purpose::Stop, request, None);
            self.phase = Phase::Stopping;
        }
    }

    /// Returns the result of the session; `None` if it has not ended.
    fn result_of_session(&self, call: CallId) -> Option<Result<Answer, CallError>> {
        match &self.phase {
            Phase::Idle => Some(Err(not_running(call))),
            Phase::Ended(end) => Some(result_of(end)),
            Phase::Created | Phase::Running | Phase::Flushing | Phase::Stopping => None,
        }
    }

    pub(super) fn read_next(&mut self) {
        while self.reading.is_none()
            && let Some(id) = self.waiting_reads.pop_front()
        {
            // The call may have timed out while it waited.
            if self.open.contains_key(&id) {
                self.reading = Some(id);
                let request = Request::ReadBuffers(ReadBuffersRequest::default());
                self.send(Purpose::Answer(id), request, None);
            }
        }
    }
}
